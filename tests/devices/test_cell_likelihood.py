from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.cell_likelihood import Cells, Grid, Scattered
from latcast.errors import TrainingError

RNG = np.random.default_rng(3)


def covariance(size: int) -> np.ndarray:
    root = RNG.normal(size=(size, size))
    return np.asarray(root @ root.T / size + 0.1 * np.eye(size))


NETWORKS, A, B = covariance(6), covariance(4), 0.1 * covariance(4)
NOISE = np.array([0.01, 0.02, 0.03, 0.04])
VALUES = RNG.normal(size=(4, 6))


@pytest.mark.parametrize("kind", [Grid, Scattered])
def test_derivatives_are_those_of_the_likelihood(kind: type[Grid] | type[Scattered]) -> None:
    values = VALUES.copy()
    if kind is Scattered:
        values[0, 1] = values[2, 4] = np.nan
    cells: Cells = kind(NETWORKS, values)
    found, step = cells.likelihood(A, B, NOISE), 1e-6
    for name, by in (("a", found.by_a), ("b", found.by_b)):
        change = np.zeros((4, 4))
        change[1, 2] = change[2, 1] = step
        there = cells.likelihood(A + change * (name == "a"), B + change * (name == "b"), NOISE)
        assert (there.value - found.value) / step == pytest.approx(by[1, 2] + by[2, 1], rel=1e-3)
    louder = NOISE + np.array([0, 0, 0, step])
    assert (cells.likelihood(A, B, louder).value - found.value) / step == pytest.approx(found.by_noise[3], rel=1e-3)


def test_a_whole_table_says_the_same_at_once_and_by_directions() -> None:
    """But for the devices' offsets, which one leaves free and the other lets vary widely."""
    grid, scattered = Grid(NETWORKS, VALUES), Scattered(NETWORKS, VALUES)
    found, again = grid.posterior(A, B, NOISE), scattered.posterior(A, B, NOISE)

    assert found.weights == pytest.approx(again.weights, abs=0.05)
    assert found.offset == pytest.approx(again.offset, abs=0.05)


def test_a_device_that_is_faster_by_a_factor_has_another_offset_and_nothing_else() -> None:
    faster = VALUES + np.array([[1.0], [0], [0], [0]])
    first, second = (Grid(NETWORKS, values).posterior(A, B, NOISE) for values in (VALUES, faster))

    assert second.weights == pytest.approx(first.weights, abs=1e-9)
    assert second.offset - first.offset == pytest.approx(np.array([1.0, 0, 0, 0]), abs=1e-9)


def test_other_values_in_the_same_cells_are_like_new_cells() -> None:
    other = RNG.normal(size=(4, 6))

    found = Grid(NETWORKS, VALUES).with_values(other).likelihood(A, B, NOISE)
    assert found.value == pytest.approx(Grid(NETWORKS, other).likelihood(A, B, NOISE).value)

    holes = VALUES.copy()
    holes[0, 0] = np.nan
    cells = Scattered(NETWORKS, holes).with_values(other)
    assert np.isnan(cells.values[0, 0])
    assert np.array_equal(cells.values[1:], other[1:])


def test_a_covariance_that_is_none_is_refused() -> None:
    with pytest.raises(TrainingError, match="not positive definite"):
        Grid(NETWORKS, VALUES).likelihood(A, -100 * np.eye(4), NOISE)
