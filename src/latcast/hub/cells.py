"""The latency of a network on a platform: a median over contributors, each with the same weight, not over records.

A record is one vote of its contributor. Of what several contributors say of one cell (a network on a platform) the median counts,
of each the median of its own records. Where contributors whom the administrator trusts say something, all others together count
half as much as they do, so that they cannot carry a median beyond what trusted ones measured. Where no trusted one does and
groups of contributors contradict each other, each group counts as one, however many it has: a stranger can be many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow
from latcast.hub.scales import connected_groups
from latcast.hub.schema import ContributionRow, ContributorRow, UploadRow

OTHERS_SHARE = 0.5
"""Joint weight of the contributors who are not trusted, as a part of that of the trusted ones."""

FEWEST_NETWORKS = 4
"""Networks that a platform of strangers alone needs to count in the range of a network over platforms: the fewest that a device
model can check against each other."""

AGREEMENT = 1.25
"""Contributors whose latencies of a cell lie within this factor of each other are a group; they agree with a figure within its
square root of theirs. Of 33 pairs of phones of one model (Ganesan et al., IISWC 2020) 29 lie within 1.2 in the median of their
networks, and 4 beyond 1.3."""

FEWEST_AGREEING, LEAST_SHARE = 2, 0.1
"""Contributors, and their share of a cell's, that a group needs to contradict another one."""

_ADMINISTRATOR = -1
"""Contributor of measurements that were in the store before it became a hub: the administrator."""


MAIN_GROUP = 0
"""Number of the group of platforms and networks that networks of known kernels connect."""


class Groups(NamedTuple):
    """Number of the group of each platform (by id) and network (by key); what is in one group compares."""

    platforms: Mapping[str, int]
    networks: Mapping[str, int]


class Range(NamedTuple):
    """The range of a network over platforms; latencies in milliseconds."""

    platforms: int
    fastest_ms: float
    median_ms: float
    slowest_ms: float


@dataclass(frozen=True)
class Cells:
    """Networks on platforms, each once; every array (cells,).

    Attributes:
        platforms, networks: Platform ids and reference keys, each sorted.
        platform, network: Index among these.
        latency_ms: Stands for the cell.
        fastest_ms, slowest_ms: Of all of its records.
        measurements: Number of records.
        weight: Of the cell beside the network's others.
        trusted: Whether a trusted contributor measured it.
        contributor: Number of the one of its contributors who came first.
        contributors: Number of contributors.
        agreeing: Number of them who agree with ``latency_ms``.
        low_ms, high_ms: Medians of the fastest and the slowest group where groups contradict each other; else ``latency_ms``.
    """

    platforms: tuple[str, ...]
    networks: tuple[str, ...]
    platform: np.ndarray
    network: np.ndarray
    latency_ms: np.ndarray
    fastest_ms: np.ndarray
    slowest_ms: np.ndarray
    measurements: np.ndarray
    weight: np.ndarray
    trusted: np.ndarray
    contributor: np.ndarray
    contributors: np.ndarray
    agreeing: np.ndarray
    low_ms: np.ndarray
    high_ms: np.ndarray

    @classmethod
    def of(
        cls,
        platforms: Sequence[str],
        networks: Sequence[str],
        contributors: Sequence[int],
        trusted: Sequence[bool],
        latency_ms: Sequence[float],
    ) -> Cells:
        """Return the cells of some records.

        Args:
            platforms, networks: (records,) platform id and reference key.
            contributors: (records,) number.
            trusted: (records,) whether the contributor is.
            latency_ms: (records,).
        """
        platform_names, platform = _coded(platforms)
        network_names, network = _coded(networks)
        who_names, who = np.unique(np.array(contributors, dtype=np.int64), return_inverse=True)
        values = np.array(latency_ms, dtype=np.float64)
        votes, vote_of = np.unique((platform * len(network_names) + network) * len(who_names) + who, return_inverse=True)
        vote_ms = grouped_median(vote_of, values, np.ones(len(values)), len(votes))
        vote_who, vote_cell = votes % max(len(who_names), 1), votes // max(len(who_names), 1)
        vote_trusted = np.zeros(len(votes), dtype=bool)
        vote_trusted[vote_of] = np.array(trusted, dtype=bool)
        cells, cell_of = np.unique(vote_cell, return_inverse=True)
        count = len(cells)
        voice, low_ms, high_ms = voices(cell_of, vote_ms, vote_trusted, count)
        latency = grouped_median(cell_of, vote_ms, held_back(cell_of, vote_trusted, voice, count), count)
        agrees = np.abs(np.log(vote_ms / latency[cell_of])) <= np.log(AGREEMENT) / 2
        cell_network = cells % max(len(network_names), 1)
        # Of a network over platforms each contributor counts once, divided among the platforms it measured the network on.
        vote_network = cell_network[cell_of]
        pairs, pair_of = np.unique(vote_network * len(who_names) + vote_who, return_inverse=True)
        share = 1 / np.bincount(pair_of, minlength=len(pairs))[pair_of]
        share = held_back(vote_network, vote_trusted, share, len(network_names))
        order = cell_of[vote_of]
        extremes = np.full((2, count), np.inf)
        np.minimum.at(extremes[0], order, values)
        np.minimum.at(extremes[1], order, -values)
        first = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(first, cell_of, who_names[vote_who])
        return cls(
            platform_names,
            network_names,
            cells // max(len(network_names), 1),
            cell_network,
            latency,
            extremes[0],
            -extremes[1],
            np.bincount(order, minlength=count),
            np.bincount(cell_of, share, minlength=count),
            np.bincount(cell_of, vote_trusted, minlength=count) > 0,
            first,
            np.bincount(cell_of, minlength=count),
            np.bincount(cell_of, agrees, minlength=count).astype(np.int64),
            np.where(low_ms > 0, low_ms, latency),
            np.where(high_ms > 0, high_ms, latency),
        )

    @cached_property
    def dispute(self) -> np.ndarray:
        """(platforms,) factor, at least 1, by which the shown latencies of a platform may be off either way, as its contributors
        contradict each other: the median over its networks."""
        reach = np.sqrt(self.high_ms / self.low_ms)
        return grouped_median(self.platform, reach, np.ones(len(reach)), len(self.platforms))

    @cached_property
    def counting(self) -> np.ndarray:
        """(cells,) whether each counts in the range of its network over platforms."""
        size = np.bincount(self.platform, minlength=len(self.platforms))
        counts = self.trusted | (size[self.platform] >= FEWEST_NETWORKS)
        told = np.bincount(self.network, counts, minlength=len(self.networks)) > 0
        # Of a network that no such platform ran, what its first contributor says.
        first = np.full(len(self.networks), np.iinfo(np.int64).max)
        np.minimum.at(first, self.network, self.contributor)
        return np.where(told[self.network], counts, self.contributor == first[self.network])

    def ranges(self) -> dict[str, Range]:
        """Return the range of each network's latencies over platforms, by reference key."""
        rows = np.flatnonzero(self.counting)
        network, latency = self.network[rows], self.latency_ms[rows]
        count = len(self.networks)
        middle = grouped_median(network, latency, self.weight[rows], count)
        fastest, slowest = np.full(count, np.inf), np.zeros(count)
        np.minimum.at(fastest, network, latency)
        np.maximum.at(slowest, network, latency)
        ran = np.bincount(self.network, minlength=count)
        return {
            key: Range(int(ran[place]), float(fastest[place]), float(middle[place]), float(slowest[place]))
            for place, key in enumerate(self.networks)
        }

    def groups(self, known: Callable[[str], bool]) -> Groups:
        """Find which platforms and networks compare: those that are connected by measurements, and by networks of known kernels.

        Args:
            known: Whether the network with a key has known kernels, and so compares with all others of the kind.
        """
        # One more platform, the first, which "ran" every network of known kernels: the model of devices.
        model = [place for place, key in enumerate(self.networks) if known(key)]
        platform = np.concatenate([np.zeros(len(model), dtype=np.int64), self.platform + 1])
        network = np.concatenate([np.array(model, dtype=np.int64), self.network])
        of_platform, of_network = connected_groups(platform, network, len(self.platforms) + 1, len(self.networks))
        return Groups(
            dict(zip(self.platforms, of_platform[1:].tolist(), strict=True)),
            dict(zip(self.networks, of_network.tolist(), strict=True)),
        )

    def trusted_platforms(self) -> set[str]:
        """Return the ids of platforms of which a trusted contributor measured a network."""
        return {self.platforms[place] for place in set(self.platform[self.trusted].tolist())}

    def latencies(self, *, trusted: bool = False) -> dict[str, float]:
        """Return the latencies (ms) of cells of one platform by reference key.

        Args:
            trusted: Only those that a trusted contributor measured.
        """
        rows = np.flatnonzero(self.trusted if trusted else np.ones(len(self.latency_ms), dtype=bool))
        return {self.networks[self.network[row]]: float(self.latency_ms[row]) for row in rows.tolist()}

    def by_platform(self) -> dict[str, dict[str, float]]:
        """Return latencies (ms) by platform id, then by reference key."""
        found: dict[str, dict[str, float]] = {name: {} for name in self.platforms}
        for platform, network, latency_ms in zip(
            self.platform.tolist(), self.network.tolist(), self.latency_ms.tolist(), strict=True
        ):
            found[self.platforms[platform]][self.networks[network]] = latency_ms
        return found


def _coded(names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the different names, sorted, and the place of each among them."""
    found = tuple(sorted(set(names)))
    place = {name: index for index, name in enumerate(found)}
    return found, np.fromiter((place[name] for name in names), dtype=np.int64, count=len(names))


def voices(cell: np.ndarray, value: np.ndarray, trusted: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Let each group of contributors count as one where groups contradict each other and no trusted contributor decides.

    A group is all whose latencies lie within :data:`AGREEMENT` of its lowest one, from the lowest of the cell on.

    Args:
        cell: (votes,) index.
        value: (votes,) latency.
        trusted: (votes,) whether each is a trusted contributor's.
        cells: How many cells there are.

    Returns:
        (votes,) weights, and (cells,) the medians of the fastest and of the slowest group; 0 where nothing is contradicted.
    """
    weight, low_ms, high_ms = np.ones(len(value)), np.zeros(cells), np.zeros(cells)
    count = np.bincount(cell, minlength=cells)
    left = ((count >= 2 * FEWEST_AGREEING) & (np.bincount(cell, trusted, minlength=cells) == 0))[cell]
    undecided = np.flatnonzero(left)
    turn, turns = np.zeros(len(value), dtype=np.int64), 0
    while left.any():
        lowest = np.full(cells, np.inf)
        np.minimum.at(lowest, cell[left], value[left])
        turn[left & (value <= lowest[cell] * AGREEMENT)] = turns
        left &= value > lowest[cell] * AGREEMENT
        turns += 1
    groups, group = np.unique(cell[undecided] * turns + turn[undecided], return_inverse=True)
    of_cell = groups // max(turns, 1)
    size = np.bincount(group, minlength=len(groups))
    counts = size >= np.maximum(FEWEST_AGREEING, LEAST_SHARE * count[of_cell])
    disputed = np.bincount(of_cell, counts, minlength=cells) > 1
    counts &= disputed[of_cell]
    weight[undecided] = np.where(disputed[cell[undecided]], (counts / size)[group], 1.0)
    middle = grouped_median(group, value[undecided], np.ones(len(undecided)), len(groups))
    rising = np.flatnonzero(counts)  # of each cell from the fastest group to the slowest; of an index given twice the last counts
    low_ms[of_cell[rising[::-1]]] = middle[rising[::-1]]
    high_ms[of_cell[rising]] = middle[rising]
    return weight, low_ms, high_ms


def held_back(group: np.ndarray, trusted: np.ndarray, weight: np.ndarray, groups: int) -> np.ndarray:
    """Return (votes,) weights: where trusted contributors voted in a group, all others together count a part of them.

    Args:
        group: (votes,) index.
        trusted: (votes,) whether each is a trusted contributor's.
        weight: (votes,) as it would be otherwise.
        groups: How many groups there are.
    """
    ours = np.bincount(group, weight * trusted, minlength=groups)[group]
    theirs = np.bincount(group, weight * ~trusted, minlength=groups)[group]
    least = np.minimum(1.0, OTHERS_SHARE * ours / np.maximum(theirs, 1e-12))
    return np.where(trusted | (ours == 0), weight, weight * least)


def grouped_median(group: np.ndarray, value: np.ndarray, weight: np.ndarray, groups: int) -> np.ndarray:
    """Return (groups,) weighted medians, the mean of two values where both sides weigh the same; 0 of an empty group.

    >>> grouped_median(np.array([0, 0, 0, 1, 1]), np.array([3.0, 1.0, 9.0, 4.0, 8.0]), np.array([1.0, 1, 5, 2, 2]), 2).tolist()
    [9.0, 6.0]
    """
    order = np.lexsort((value, group))
    group, value, weight = group[order], value[order], weight[order]
    before = np.cumsum(weight)
    start = np.searchsorted(group, np.arange(groups))
    end = np.searchsorted(group, np.arange(groups), side="right")
    filled = np.flatnonzero(end > start)
    base = np.concatenate([[0.0], before])[start[filled]]
    total = before[end[filled] - 1] - base
    slack = 1e-9 * np.maximum(total, 1e-300)
    # Cumulative weights rise over the whole array, so that one search finds the middle of every group.
    low = np.minimum(np.searchsorted(before, base + total / 2 - slack), end[filled] - 1)
    high = np.minimum(np.searchsorted(before, base + total / 2 + slack), end[filled] - 1)
    found = np.zeros(groups)
    found[filled] = (value[np.maximum(low, start[filled])] + value[np.maximum(high, start[filled])]) / 2
    return found


def read_cells(
    session: Session, *, platform: str | None = None, network: str | None = None, without: int | None = None,
    of: int | None = None,
) -> Cells:  # fmt: skip
    """Read the cells of a hub; failed records are left out.

    Args:
        network: Only of the network with this key.
        without: Number of a contributor whose records are left out.
        of: Number of the contributor whose records alone are read.
    """
    query = (
        select(
            MeasurementRow.platform_id,
            MeasurementRow.reference_key,
            MeasurementRow.latency_ms,
            ContributorRow.id,
            ContributorRow.trusted,
        )
        .outerjoin(ContributionRow, ContributionRow.measurement_id == MeasurementRow.id)
        .outerjoin(UploadRow, UploadRow.id == ContributionRow.upload_id)
        .outerjoin(ContributorRow, ContributorRow.id == UploadRow.contributor_id)
        .where(MeasurementRow.role == "network", MeasurementRow.error.is_(None), MeasurementRow.latency_ms > 0)
    )
    if platform is not None:
        query = query.where(MeasurementRow.platform_id == platform)
    if network is not None:
        query = query.where(MeasurementRow.reference_key == network)
    if without is not None:
        query = query.where(or_(ContributorRow.id.is_(None), ContributorRow.id != without))
    if of is not None:
        query = query.where(ContributorRow.id == of)
    rows = session.execute(query).all()
    if not rows:
        return Cells.of([], [], [], [], [])
    platforms, networks, latencies, contributors, trusted = zip(*rows, strict=True)
    return Cells.of(
        platforms,
        networks,
        [_ADMINISTRATOR if each is None else each for each in contributors],
        [each is None or each for each in trusted],
        latencies,
    )
