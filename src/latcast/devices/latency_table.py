"""Latencies of networks on platforms as one table; cells without a measurement are NaN."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from latcast.errors import DatasetError
from latcast.measure.labels import combine
from latcast.records import Measurement, Reference


@dataclass(frozen=True)
class LatencyTable:
    """Attributes:
    platforms: Platform ids, one a row.
    networks: References, one a column.
    latency_ms: (platforms, networks) float64, NaN where not measured.
    """

    platforms: tuple[str, ...]
    networks: tuple[Reference, ...]
    latency_ms: np.ndarray

    def __post_init__(self) -> None:
        expected = (len(self.platforms), len(self.networks))
        if self.latency_ms.shape != expected:
            raise DatasetError(f"a table of shape {self.latency_ms.shape} for {expected[0]} platforms and {expected[1]} networks")
        if np.any(self.latency_ms <= 0) or np.any(np.isinf(self.latency_ms)):
            raise DatasetError(
                "a table holds latencies that are not above 0 and finite; expected milliseconds, or NaN for no value"
            )


def table_of(measurements: Iterable[Measurement]) -> LatencyTable:
    """Tabulate measurements: a cell for each platform and network, the label of all its measurements.

    Platforms and networks stand in the order in which they first occur.

    Raises:
        DatasetError: No measurement of a network succeeded.
    """
    cells: dict[tuple[str, str], list[Measurement]] = {}
    references: dict[str, Reference] = {}
    keys: dict[int, str] = {}
    for item in measurements:
        if item.role == "network" and item.ok:
            # Records of one import share their references, and hashing one is the costly part.
            key = keys.setdefault(id(item.reference), "") or item.reference.key
            keys[id(item.reference)] = key
            references.setdefault(key, item.reference)
            cells.setdefault((item.platform, key), []).append(item)
    if not cells:
        raise DatasetError("found no measurement of a network that succeeded; expected at least one platform and network")
    platforms = {name: index for index, name in enumerate(dict.fromkeys(platform for platform, _ in cells))}
    columns = {key: index for index, key in enumerate(references)}
    latency_ms = np.full((len(platforms), len(columns)), np.nan)
    for (platform, key), items in cells.items():
        single = items[0].latency_ms if len(items) == 1 and not items[0].runs_ms else None
        latency_ms[platforms[platform], columns[key]] = combine(items).latency_ms if single is None else single
    return LatencyTable(tuple(platforms), tuple(references.values()), latency_ms)
