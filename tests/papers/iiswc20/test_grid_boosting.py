from __future__ import annotations

import numpy as np
import pytest

from papers.iiswc20.grid_boosting import BoostingSettings, GridBoosting

ONE_TREE = BoostingSettings(trees=1, depth=1, learning_rate=1.0, regularisation=0.0)


def test_a_split_of_the_devices_gives_each_side_its_mean() -> None:
    trees = GridBoosting(np.array([[0.0], [1.0]]), np.zeros((2, 1)), np.array([[1.0, 1.0], [3.0, 3.0]]), ONE_TREE)

    assert trees.base == 2.0
    # Split half-way, at 0.5: devices to the left of it are like the first.
    assert trees.predict(np.array([[0.4], [0.6]]), np.zeros((1, 1))).tolist() == [[1.0], [3.0]]


def test_the_side_that_explains_more_is_split() -> None:
    # Devices differ by 1, networks by 10.
    target = np.array([[0.0, 10.0], [1.0, 11.0]])

    trees = GridBoosting(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), target, ONE_TREE)

    assert trees.predict(np.zeros((1, 1)), np.array([[0.0], [1.0]])).tolist() == [[0.5, 10.5]]


def test_regularisation_draws_leaves_to_zero() -> None:
    settings = BoostingSettings(trees=1, depth=1, learning_rate=0.5, regularisation=1.0)

    trees = GridBoosting(np.array([[0.0], [1.0]]), np.zeros((2, 1)), np.array([[1.0, 1.0], [3.0, 3.0]]), settings)

    # Two cells of -1 from the mean 2 in the left leaf: 0.5 * -2 / (2 + 1).
    assert trees.predict(np.zeros((1, 1)), np.zeros((1, 1)))[0, 0] == pytest.approx(2 - 1 / 3)


def test_cells_without_a_value_do_not_count() -> None:
    target = np.array([[1.0, np.nan], [3.0, 3.0]])

    trees = GridBoosting(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), target, ONE_TREE)

    assert trees.base == pytest.approx(7 / 3)
    assert trees.predict(np.array([[0.0]]), np.array([[0.0], [1.0]])).tolist() == pytest.approx(np.array([[1.0, 1.0]]))


def test_nothing_is_split_where_all_cells_are_alike() -> None:
    trees = GridBoosting(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), np.full((2, 2), 5.0))

    assert all(tree.children is None for tree in trees.trees)
    assert trees.predict(np.array([[9.0]]), np.array([[9.0]])).tolist() == [[5.0]]


def made_up() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    devices, networks = rng.normal(size=(12, 3)), rng.normal(size=(15, 4))
    return (
        devices,
        networks,
        np.exp(devices[:, :1] + networks[:, 0]) + networks[:, 1] * devices[:, 1:2] + rng.normal(size=(12, 15)),
    )


def cells(devices: np.ndarray, networks: np.ndarray) -> np.ndarray:
    return np.hstack([np.repeat(devices, len(networks), axis=0), np.tile(networks, (len(devices), 1))])


def test_trees_are_those_that_are_grown_cell_by_cell() -> None:
    import lightgbm

    devices, networks, target = made_up()
    # Its trees grow leaf by leaf, which is the same where there are as many leaves as the depth allows.
    settings = {
        "num_leaves": 8, "max_depth": 3, "learning_rate": 0.1, "min_data_in_leaf": 1, "min_data_in_bin": 1,
        "min_sum_hessian_in_leaf": 0.0, "enable_bundle": False, "verbosity": -1, "num_threads": 1, "deterministic": True,
    }  # fmt: skip
    reference = lightgbm.train(settings, lightgbm.Dataset(cells(devices, networks), target.ravel(), params=settings), 30)

    trees = GridBoosting(devices, networks, target, BoostingSettings(trees=30, regularisation=0.0))

    expected = reference.predict(cells(devices, networks)).reshape(target.shape)
    assert trees.predict(devices, networks) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_trees_are_those_of_xgboost() -> None:
    pytest.importorskip("xgboost", reason="xgboost is an extra")
    from papers.iiswc20.paper_model import XGBoostTable

    devices, networks, target = made_up()
    target[2, 3] = np.nan

    trees, reference = GridBoosting(devices, networks, target), XGBoostTable(devices, networks, target)

    # Where it was told nothing, either may take another of two splits that part all other cells alike.
    known = ~np.isnan(target)
    expected = reference.predict(devices, networks)[known]
    assert trees.predict(devices, networks)[known] == pytest.approx(expected, rel=1e-3, abs=1e-3)
