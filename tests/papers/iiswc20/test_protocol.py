from __future__ import annotations

import numpy as np
import pytest

from papers.iiswc20.protocol import averaged, metrics, r_squared, span, split_networks, split_phones
from tests.papers.iiswc20.made_up_phones import PHONES, made_up


def test_r_squared_is_one_minus_the_unexplained_share_of_the_variance() -> None:
    # Squared errors 1 + 0 + 1 of a sum of squares about the mean of 1 + 0 + 1... times four.
    assert r_squared(np.array([3.0, 4.0, 5.0]), np.array([2.0, 4.0, 6.0])) == pytest.approx(1 - 2 / 8)


def test_metrics_are_percentages_of_all_cells() -> None:
    found = metrics(np.array([[1.0, 2.2]]), np.array([[1.0, 2.0]]), np.array([[0.9, 2.1]]), np.array([[1.1, 2.3]]))

    assert found["mape"] == pytest.approx(5.0)
    assert found["within_5"] == 50.0
    assert found["interval_coverage"] == 50.0


@pytest.mark.parametrize("by_model", [False, True])
def test_a_phone_is_on_one_side_of_a_split(by_model: bool) -> None:
    train, test = split_phones(made_up(), 3, by_model=by_model)

    assert sorted([*train, *test]) == list(range(PHONES))
    assert len(test) == pytest.approx(0.3 * PHONES, abs=1)


def test_phones_of_one_model_can_be_kept_together() -> None:
    published = made_up()

    train, test = split_phones(published, 3, by_model=True)

    assert not {published.models[index] for index in train} & {published.models[index] for index in test}


def test_networks_are_known_or_not() -> None:
    known, unseen = split_networks(20, 1)

    assert len(unseen) == 6
    assert sorted([*known, *unseen]) == list(range(20))
    assert not np.array_equal(unseen, split_networks(20, 2)[1])


def test_splits_become_a_mean_and_a_range() -> None:
    rows = [{"r2": 0.5, "mape": 4.0}, {"r2": 0.7, "mape": None}]

    assert averaged(rows, ("r2", "mape", "rmspe")) == [pytest.approx(0.6), 4.0, None]
    assert span(rows) == "0.50 to 0.70"
    assert span(rows, "rmspe") == "-"
