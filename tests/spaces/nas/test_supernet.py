"""The choices of a search space, and rows of them."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import ModelError
from latcast.spaces.nas.supernet import Dimension, chosen_values, encoding_of_values, values_of_parameters

DIMENSIONS = (Dimension("size", (128, 160)), Dimension("ratios", (0.5, 1.0, 2.0), 3))


def test_values_are_turned_back_into_the_encoding_they_came_from() -> None:
    encoding = np.array([[1, 0, 2, 1]])
    values = values_of_parameters("x", DIMENSIONS, {"size": 160, "ratios": [0.5, 2.0, 1.0]})
    assert encoding_of_values("x", DIMENSIONS, values).tolist() == encoding.tolist()


def test_an_index_beyond_the_choices_is_refused_with_its_column() -> None:
    with pytest.raises(ModelError, match=r"column 2 \(ratios\) of an encoding is not one of 0 to 2"):
        chosen_values(DIMENSIONS, np.array([[0, 0, 3, 0]]))


def test_an_encoding_of_another_width_is_refused() -> None:
    with pytest.raises(ModelError, match=r"found encodings of shape \(1, 3\), expected \(networks, 4\)"):
        chosen_values(DIMENSIONS, np.array([[0, 0, 0]]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"size": 128}, "takes size, ratios; found size"),
        ({"size": 128, "ratios": [1.0]}, r"'ratios' of the space 'x' is \[1.0\]; expected 3 number"),
        ({"size": "128", "ratios": [1.0] * 3}, "'size' of the space 'x' is '128'"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        values_of_parameters("x", DIMENSIONS, parameters)


def test_a_value_that_is_no_choice_has_no_encoding() -> None:
    values = values_of_parameters("x", DIMENSIONS, {"size": 144, "ratios": [1.0] * 3})
    with pytest.raises(ModelError, match="'size' 144 is no choice of the space 'x'"):
        encoding_of_values("x", DIMENSIONS, values)
