"""Which of a hub's platforms and networks can be compared with each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from latcast.hub.cells import Cells
from latcast.hub.model import connected_groups

MAIN_GROUP = 0


@dataclass(frozen=True)
class Connections:
    """Which platforms and networks compare: those of one group are connected by measurements, and those of the main group,
    number 0, by networks of known kernels too, which the model of devices compares with each other.

    Attributes:
        platforms: Platform id to the number of its group.
        networks: Reference key to the same.
    """

    platforms: Mapping[str, int]
    networks: Mapping[str, int]


def connections_of(cells: Cells, known: Callable[[str], bool]) -> Connections:
    """The groups of some cells.

    Args:
        cells: Networks on platforms.
        known: Whether a network with this key has known kernels.
    """
    # One more platform, which "ran" every network of known kernels: the model of devices.
    model = [place for place, key in enumerate(cells.networks) if known(key)]
    platforms = np.concatenate([np.zeros(len(model), dtype=np.int64), cells.platform + 1])
    networks = np.concatenate([np.array(model, dtype=np.int64), cells.network])
    of_platform, of_network = connected_groups(platforms, networks, len(cells.platforms) + 1, len(cells.networks))
    return Connections(
        dict(zip(cells.platforms, of_platform[1:].tolist(), strict=True)),
        dict(zip(cells.networks, of_network.tolist(), strict=True)),
    )
