"""Tree ensembles as arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import BundleError
from latcast.predictors.regressors.trees import MANY_ROWS, TreeEnsemble


@cache
def trained(leaves: int, rounds: int, **settings: Any) -> tuple[lightgbm.Booster, np.ndarray]:
    """LightGBM's own model, and features to try it on, whole numbers among them that hit thresholds."""
    rng = np.random.default_rng(leaves)
    x = np.round(np.exp(rng.normal(size=(800, 8)) * 2), 1)
    y = np.log1p(x[:, 0] + x[:, 3] * x[:, 7]) + 0.1 * rng.normal(size=800)
    parameters = {"verbosity": -1, "num_leaves": leaves, "num_threads": 1, "min_data_in_leaf": 2, "seed": 1, **settings}
    return lightgbm.train(parameters, lightgbm.Dataset(x, y), rounds), np.round(np.exp(rng.normal(size=(500, 8)) * 2), 1)


@pytest.mark.parametrize(("leaves", "rounds"), [(2, 5), (15, 60), (31, 40), (64, 10), (200, 5)])
def test_an_ensemble_predicts_what_lightgbm_does(leaves: int, rounds: int) -> None:
    booster, features = trained(leaves, rounds)
    ensemble = TreeEnsemble.from_lightgbm(booster.model_to_string())
    expected = booster.predict(features)

    np.testing.assert_allclose(ensemble.sum(features), expected, rtol=1e-9, atol=1e-9)
    few = features[: MANY_ROWS - 1]
    np.testing.assert_allclose(ensemble.sum(few), expected[: len(few)], rtol=1e-9, atol=1e-9)


def test_a_forest_of_lightgbm_is_the_mean_of_the_trees() -> None:
    booster, features = trained(40, 7, boosting="rf", bagging_freq=1, bagging_fraction=0.7)
    ensemble = TreeEnsemble.from_lightgbm(booster.model_to_string())

    np.testing.assert_allclose(ensemble.sum(features) / 7, booster.predict(features), rtol=1e-9, atol=1e-9)


# Two trees by hand:  x0 <= 1 ? (x1 <= 5 ? 10 : 20) : 30   and   a single leaf 0.5.
HAND = {
    "feature": np.array([0, 1, 0, 0, 0, 0], dtype=np.int32),
    "threshold": np.array([1.0, 5.0, np.inf, np.inf, np.inf, np.inf]),
    "left": np.array([1, 2, 2, 3, 4, 5], dtype=np.int32),
    "right": np.array([4, 3, 2, 3, 4, 5], dtype=np.int32),
    "value": np.array([0.0, 0.0, 10.0, 20.0, 30.0, 0.5]),
    "roots": np.array([0, 5], dtype=np.int32),
    "depth": np.array([2], dtype=np.int32),
}


@pytest.mark.parametrize("copies", [1, MANY_ROWS])
def test_trees_go_left_up_to_and_with_the_threshold(copies: int) -> None:
    features = np.array([[1.0, 5.0], [1.0, 5.1], [1.1, 0.0]] * copies)

    assert TreeEnsemble.from_arrays(HAND).sum(features).tolist() == [10.5, 20.5, 30.5] * copies


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20))
def test_many_rows_at_once_are_as_row_by_row(rows: list[tuple[int, int]]) -> None:
    booster, _ = trained(20, 15)
    ensemble = TreeEnsemble.from_lightgbm(booster.model_to_string())
    features = np.array([[a, b, a, b, b, a, 1, a] for a, b in rows] * MANY_ROWS, dtype=np.float64)

    np.testing.assert_allclose(ensemble.sum(features)[: len(rows)], [ensemble.sum(row[None])[0] for row in features[: len(rows)]])


def test_no_trees_and_no_rows_sum_to_nothing() -> None:
    nothing = TreeEnsemble.of_values([])

    assert nothing.sum(np.ones((3, 2))).tolist() == [0.0, 0.0, 0.0]
    assert TreeEnsemble.from_arrays(HAND).sum(np.ones((0, 2))).tolist() == []


def test_features_that_a_tree_tests_must_be_there() -> None:
    with pytest.raises(BundleError, match=r"a tree tests feature 2 of kernels that have 1; .* train them again"):
        TreeEnsemble.from_arrays(HAND).sum(np.ones((1, 1)))


def with_value(name: str, index: int, value: float) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name][index] = value

    return change


def with_array(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = make(arrays[name])

    return change


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (with_array("value", lambda array: array[:-1]), "differ in length"),
        (with_array("roots", lambda array: array[None]), "differ in length"),
        (with_array("left", lambda array: array.astype(float)), "not an integer"),
        (with_value("value", 2, np.nan), "not finite"),
        (with_value("threshold", 0, np.nan), "not finite"),
        (with_value("feature", 0, -1), "a column is negative"),
        (with_value("roots", 0, 6), "a root lies outside"),
        (with_value("roots", 0, -1), "a root lies outside"),
        (with_value("right", 0, 9), "a child lies outside"),
        (with_value("left", 1, 0), "a child stands before its parent"),
        (with_value("left", 2, 3), "a child stands before its parent"),
        (with_value("right", 0, 3), "a node belongs to two trees"),
        (with_value("roots", 1, 4), "a node belongs to two trees"),
        (with_value("depth", 0, 1), "longer than its stated depth of 1"),
        (with_value("depth", 0, 100_000), "its stated depth of 100000"),
    ],
)
def test_damaged_tree_arrays_are_refused(damage: Callable[[dict[str, np.ndarray]], None], problem: str) -> None:
    arrays = {name: array.copy() for name, array in HAND.items()}
    damage(arrays)

    with pytest.raises(BundleError, match=f"a tree ensemble is damaged: .*{problem}"):
        TreeEnsemble.from_arrays(arrays)
