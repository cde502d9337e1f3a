from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import TrainingError
from papers.iiswc20.trees import (
    PADDING_VALUE,
    WIDTH,
    BoostingSettings,
    GridBoosting,
    fit_paper_trees,
    padded,
    static_features,
)

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


RNG = np.random.default_rng(1)
SPEED, SIZE = RNG.uniform(1, 5, 10), RNG.uniform(1, 9, 12)
LATENCY_MS = np.outer(SPEED, SIZE)
FEATURES = np.column_stack([SIZE, RNG.normal(size=12)])


def test_a_device_is_known_by_its_signature() -> None:
    middle = int(np.argsort(SPEED)[5])
    model = fit_paper_trees(np.delete(LATENCY_MS, middle, axis=0), FEATURES, (0, 1))

    predicted = model.predict(LATENCY_MS[[middle]][:, [0, 1]], FEATURES)[0]

    assert np.corrcoef(predicted, SIZE)[0, 1] > 0.95
    # Nearer to it than the mean of the others is.
    usual = np.delete(LATENCY_MS, middle, axis=0).mean(axis=0)
    actual = LATENCY_MS[middle]
    assert np.abs(predicted / actual - 1).mean() < 0.5 * max(0.2, np.abs(usual / actual - 1).mean()) + 0.1


def test_the_latencies_of_the_signature_are_not_learned_as_targets() -> None:
    # Signature networks, far larger than all others, are predicted as the largest of the others are.
    latency_ms = LATENCY_MS.copy()
    latency_ms[:, 0] *= 1000

    predicted = fit_paper_trees(latency_ms, FEATURES, (0,)).predict(latency_ms[:, [0]], FEATURES)

    assert predicted.max() < 1.2 * latency_ms[:, 1:].max()


def test_cells_that_are_not_to_learn_from_say_nothing() -> None:
    train = np.random.default_rng(2).random(LATENCY_MS.shape) < 0.5
    train[:, [0, 1]] = True
    other = np.where(train, LATENCY_MS, 1e6)

    found, again = (
        fit_paper_trees(table, FEATURES, (0, 1), train=train).predict(LATENCY_MS[:, [0, 1]], FEATURES)
        for table in (LATENCY_MS, other)
    )

    assert np.array_equal(found, again)


KNOWN = (
    {"model": "A", "cpu_code": 7, "ghz": 2.0, "ram_gb": 4},
    {"model": "B", "cpu": "Cortex-A53", "ghz": 1.5, "ram_gb": 2},
)


def test_a_device_is_its_cpu_one_hot_its_frequency_and_its_memory() -> None:
    assert static_features(KNOWN, KNOWN).tolist() == [[1, 0, 2.0, 4], [0, 1, 1.5, 2]]
    assert static_features(KNOWN, [{"cpu": "Kryo", "ghz": 3.0, "ram_gb": 8}]).tolist() == [[0, 0, 3.0, 8]]
    with pytest.raises(TrainingError, match="'Odd'"):
        static_features(KNOWN, [{"model": "Odd", "cpu": "Kryo"}])


SHORT = np.array([[1.0, 0, 0, 0, 0, 224, 112, 3, 32, 3, 2, 1, 1000.0]])
LONG = np.array(
    [
        [1.0, 0, 0, 0, 0, 112, 56, 32, 64, 7, 2, 3, 4000.0],
        [0, 0, 0, 0, 1.0, 56, 1, 64, 64, 56, 56, 0, 2000.0],
    ]
)


def test_layers_are_divided_by_the_largest_and_filled_up_to_the_longest() -> None:
    """Sides by 224, windows by 7, channels and multiply-accumulates by the largest of all networks: 64 and 4000."""
    features = padded([SHORT, LONG]).reshape(2, 2, WIDTH)

    np.testing.assert_allclose(features[0, 0], [1, 0, 0, 0, 0, 1, 0.5, 3 / 64, 0.5, 3 / 7, 2, 1, 0.25])
    np.testing.assert_allclose(features[1, 0], [1, 0, 0, 0, 0, 0.5, 0.25, 0.5, 1, 1, 2, 3, 1])
    np.testing.assert_allclose(features[1, 1], [0, 0, 0, 0, 1, 0.25, 1 / 224, 1, 1, 8, 56, 0, 0.5])
    assert (features[0, 1] == PADDING_VALUE).all()
