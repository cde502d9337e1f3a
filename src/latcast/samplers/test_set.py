"""The fixed test set of a kernel type (nn-Meter §5.2): every combination on the grid, with channels as networks have them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np

from latcast.kernels.kernel import Configuration
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts
from latcast.spaces.parametrisations import CODES

NEAREST = 20
"""A combination takes its channels from one of at least this many nearest configurations on the grid."""

CELL_DRAWS = 20
"""Draws of channels for a combination that has none yet: those of a small map may be too many for a large one."""


def fixed_test_set(space: KernelSpace, listed: ConfigurationCounts, count: int, seed: int) -> list[Configuration]:
    """Return the configurations that predictors are judged on, the same in every round.

    Each pass goes over all combinations (HW, K, S) in an order drawn from the seed and gives each the rest of a configuration
    of networks, channels above all, that is near to it on the grid; so any beginning is spread over the grid, and a smaller
    set is the beginning of a larger one.

    Args:
        space: Valid configurations.
        listed: Configurations of networks; channels are drawn evenly where there are none.
        count: How many; fewer where the space has hardly more.
        seed: Of order and channels.
    """
    rng = Random(f"test set/{space.name}/{seed}")
    order = list(space.cells)
    rng.shuffle(order)
    rows = [row for row in listed if space.within_limits(row)]
    dimensions = [space.dimensions(row) for row in rows]
    # A kernel of networks may be described otherwise than the grid is: by the padding of each axis instead of one for all.
    known = set(space.cells[0]).intersection(*dimensions) - CODES
    names = [name for name in space.cells[0] if name in known]
    places = np.array([[float(np.log2(found[name] + 1)) for name in names] for found in dimensions])

    def draw(cell: Mapping[str, int]) -> Configuration | None:
        """Return a configuration at a place on the grid with the channels of a listed one that is near."""
        if not rows:
            drawn = space.draw(rng)
            return None if drawn is None else space.moved(drawn, cell)
        distance = np.abs(places - np.array([float(np.log2(cell[name] + 1)) for name in names])).sum(axis=1)
        # All that are as near as the last of the nearest, so that the order of networks does not matter.
        reach = np.sort(distance)[min(NEAREST, len(distance)) - 1]
        return space.moved(rows[int(rng.choice(np.flatnonzero(distance <= reach)))], cell)

    found: dict[Configuration, None] = {}
    before = -1
    while before < len(found) < count:
        before = len(found)
        for cell in order:
            draws = (draw(cell) for _ in range(CELL_DRAWS))
            new = next((row for row in draws if row is not None and row not in found), None)
            if new is not None:
                found[new] = None
    return list(found)[:count]
