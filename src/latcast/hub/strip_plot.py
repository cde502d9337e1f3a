"""Positions of marks on logarithmic axes, for plots that are drawn as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from latcast.hub.database import median

WIDTH = 600
"""Of a plot, in units of its own."""

TICK_DISTANCE = 75
"""Between labels, so that they can be read on a phone."""

CLUSTERS = ("fast", "medium", "slow")
"""Ganesan et al. (§II) find three clusters of phones."""


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from ``low_ms`` to ``high_ms`` over :data:`WIDTH` units."""

    low_ms: float
    high_ms: float

    @classmethod
    def over(cls, values_ms: Iterable[float]) -> LogAxis:
        """An axis that holds all values, with a margin."""
        found = [value for value in values_ms if value > 0]
        return cls(min(found) / 1.15, max(found) * 1.15) if found else cls(1.0, 100.0)

    def x(self, value_ms: float) -> float:
        """Where a value lies; clipped to the axis."""
        share = math.log(value_ms / self.low_ms) / math.log(self.high_ms / self.low_ms)
        return round(WIDTH * min(max(share, 0.0), 1.0), 1)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Position and label of 1, 2 and 5 of each decade; of fewer where they would come too close."""
        decades = range(math.floor(math.log10(self.low_ms)), math.ceil(math.log10(self.high_ms)) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            values = [step * 10.0**decade for decade in decades for step in steps]
            found = [(self.x(value), f"{value:g}") for value in values if self.low_ms <= value <= self.high_ms]
            if all(right - left >= TICK_DISTANCE for (left, _), (right, _) in pairwise(found)):
                break
        return found


def clusters(scales: Sequence[float]) -> list[str]:
    """Fast, medium or slow for each scale (log latency against the mean platform), by k-means in one dimension.

    Fewer than six platforms are not clustered: each gets an empty text.
    """
    if len(scales) < 6:
        return [""] * len(scales)
    import numpy as np

    values = np.asarray(scales)
    centres = np.quantile(values, [1 / 6, 1 / 2, 5 / 6])
    for _ in range(50):
        nearest = np.argmin(np.abs(values[:, None] - centres), axis=1)
        moved = np.array([values[nearest == index].mean() if np.any(nearest == index) else centres[index] for index in range(3)])
        if np.allclose(moved, centres):
            break
        centres = moved
    return [CLUSTERS[int(index)] for index in nearest]


def strip_rows(
    latencies: Mapping[str, Mapping[str, Sequence[float]]], names: Mapping[str, str]
) -> tuple[LogAxis, list[dict[str, Any]]]:
    """One row for each platform, the fastest first: a dot for each network that it ran.

    Args:
        latencies: Platform id to network key to latencies (ms).
        names: Network key to name.
    """
    centre = {platform: {key: median(values) for key, values in found.items()} for platform, found in latencies.items()}
    by_network: dict[str, list[float]] = {}
    for found in centre.values():
        for key, value in found.items():
            by_network.setdefault(key, []).append(value)
    usual = {key: median(values) for key, values in by_network.items()}
    scale = {
        platform: median([math.log(value / usual[key]) for key, value in found.items()]) for platform, found in centre.items()
    }
    ordered = sorted(centre, key=lambda platform: (scale[platform], platform))
    axis = LogAxis.over([value for found in centre.values() for value in found.values()])
    kinds = clusters([scale[platform] for platform in ordered])
    rows = [
        {
            "platform": platform,
            "cluster": kind,
            "factor": math.exp(scale[platform]),
            "dots": [
                (axis.x(value), f"{names.get(key, key)}: {value:.3g} ms") for key, value in sorted(centre[platform].items())
            ],
        }
        for platform, kind in zip(ordered, kinds, strict=True)
    ]
    return axis, rows


def interval_rows(page: Mapping[str, Any]) -> tuple[LogAxis, list[dict[str, Any]]]:
    """One row for each network of a platform, the quickest first: a dot where it was measured, a bar where it is predicted.

    Args:
        page: What :meth:`RepositoryReader.device_page` gives.
    """
    measured = [
        {**item, "measured": True, "low_ms": item["fastest_ms"], "high_ms": item["slowest_ms"]} for item in page["measured"]
    ]
    rows = sorted([*measured, *({**item, "measured": False} for item in page["predicted"])], key=lambda item: item["latency_ms"])
    axis = LogAxis.over([value for item in rows for value in (item["low_ms"], item["high_ms"])])
    return axis, [
        {**item, "x": axis.x(item["latency_ms"]), "from": axis.x(item["low_ms"]), "to": axis.x(item["high_ms"])} for item in rows
    ]
