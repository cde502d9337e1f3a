"""Values that a user gives for inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.errors import ModelError
from latcast.graph.input_values import MOST_IN_JSON, as_json, fitted, parse_values


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("rate=16000", "rate", np.asarray(16000)),
        ("config=10,0.45,0.25", "config", np.asarray([10, 0.45, 0.25])),
        ("mask=true", "mask", np.asarray(True)),
        ("a=b=-1,1", "a=b", np.asarray([-1, 1])),
        ("sizes=[64, 64]", "sizes", np.asarray([64, 64])),
        ("text=hello", "text", np.asarray("hello")),
    ],
)
def test_texts_are_numbers_lists_and_words(text: str, name: str, value: np.ndarray) -> None:
    found = parse_values([text])

    assert found.keys() == {name}
    assert found[name].dtype.kind == value.dtype.kind
    assert np.array_equal(found[name], value)


@pytest.mark.parametrize("text", ["rate", "=1", "rate=", ""])
def test_other_texts_are_refused_in_the_option_s_name(text: str) -> None:
    with pytest.raises(ModelError, match=r"--input '.*' is not of the form input=16000"):
        parse_values([text], "--input")


def test_a_file_of_numpy_is_read_and_nothing_else_of_its_kind(tmp_path: Path) -> None:
    file, several, objects = tmp_path / "a b.npy", tmp_path / "several.npy", tmp_path / "objects.npy"
    np.save(file, np.ones((2, 3), np.float32))
    several.write_bytes(b"PK\x03\x04 no archive")
    np.save(objects, np.asarray([{}], dtype=object), allow_pickle=True)

    assert parse_values([f"x={file}"])["x"].shape == (2, 3)
    for bad in (several, objects, tmp_path / "missing.npy"):
        with pytest.raises(ModelError, match="cannot read the values in"):
            parse_values([f"x={bad}"])
    assert parse_values([f"x={file}"], files=False)["x"].dtype.kind == "U"


def test_one_number_fills_an_input_and_a_list_is_laid_out_in_order() -> None:
    assert fitted("x", 2, (2, 3), "float32").tolist() == [[2, 2, 2], [2, 2, 2]]
    assert fitted("x", range(6), (2, 3), "int64").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert fitted("x", range(6), (-1, 3), "int64").shape == (2, 3)
    assert fitted("x", range(6), (-1, -1), "int64").shape == (1, 6)
    assert fitted("x", [True, False], (2,), "bool").dtype == np.bool_
    assert fitted("x", "a", (1, 2), "string").tolist() == [["a", "a"]]


@pytest.mark.parametrize(
    ("value", "sizes", "dtype"),
    [
        (np.zeros((3, 2)), (2, 3), "float32"), ([1, 2], (3,), "float32"), (300, (1,), "uint8"), (-1, (1,), "uint8"),
        (0.5, (1,), "int64"), (2, (1,), "bool"), ("a", (1,), "float32"), (1j, (1,), "float32"),
    ],
)  # fmt: skip
def test_values_of_another_shape_or_type_are_refused_with_the_input_s_name(
    value: object, sizes: tuple[int, ...], dtype: str
) -> None:
    with pytest.raises(ModelError, match="'x'"):
        fitted("x", value, sizes, dtype)


def test_many_numbers_are_kept_as_their_shape_and_hash() -> None:
    assert as_json(np.asarray([[1, 2]])) == [[1, 2]]
    kept = as_json(np.zeros((MOST_IN_JSON + 1, 1)))
    assert kept["shape"] == [MOST_IN_JSON + 1, 1]
    assert kept["sha256"] != as_json(np.ones((MOST_IN_JSON + 1, 1)))["sha256"]
