"""Drawings of the pages: logarithmic axes, and rows of dots and intervals, in percent of their width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from latcast.hub.scales import Forecast

WIDTH = 100.0
"""Width of a plot: positions are percent of it."""

CHARACTER, GAP = 2.3, 2.0
"""Widths of a label's character and between two labels on a phone, where a plot is 350 pixels wide."""

MOST_DOTS = 40
"""Dots of a row, each with the name of its network; of more networks the places alone are drawn, each place once."""

CLUSTERS = ("fast", "medium", "slow")
"""Ganesan et al. (§II) find three clusters of phones."""


FINE = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
"""Steps of a decade that are labelled where an axis is a part of one."""


class Tick(NamedTuple):
    """A label at a place of an axis."""

    x: float
    label: str

    @property
    def anchor(self) -> str:
        """The end of the label that is at the place, so that it stays inside."""
        half = CHARACTER * len(self.label) / 2
        return "start" if self.x < half else "end" if self.x > WIDTH - half else "middle"

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the label."""
        width = CHARACTER * len(self.label)
        left = self.x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return left, left + width


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from ``low_ms`` to ``high_ms`` over :data:`WIDTH`."""

    low_ms: float
    high_ms: float

    @classmethod
    def over(cls, values_ms: Iterable[float]) -> LogAxis:
        """Return an axis that holds all values, with a margin."""
        found = [value for value in values_ms if value > 0]
        return cls(min(found) / 1.15, max(found) * 1.15) if found else cls(1.0, 100.0)

    def x(self, value_ms: float) -> float:
        """Return the place of a value; clipped to the axis."""
        share = math.log(value_ms / self.low_ms) / math.log(self.high_ms / self.low_ms)
        return round(WIDTH * min(max(share, 0.0), 1.0), 1)

    @property
    def ticks(self) -> list[Tick]:
        """As many labels of each decade as have room without touching; the middle where none has."""
        found: list[Tick] = []
        decades = range(math.floor(math.log10(self.low_ms)), math.ceil(math.log10(self.high_ms)) + 1)
        for steps, every in ((FINE, 1), ((1, 1.5, 2, 3, 5, 7), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 4)):
            values = [step * 10.0**decade for decade in decades if decade % every == 0 for step in steps]
            found = [Tick(self.x(value), f"{value:g}") for value in values if self.low_ms <= value <= self.high_ms]
            if found:
                found[0] = Tick(found[0].x, f"{found[0].label} ms")
            if all(left.ends[1] + GAP <= right.ends[0] for left, right in pairwise(found)):
                break
        return found or [Tick(WIDTH / 2, f"{math.sqrt(self.low_ms * self.high_ms):.3g} ms")]


def clusters(scales: Sequence[float]) -> list[str]:
    """Return fast, medium or slow for each scale (log latency against the mean platform), by k-means in one dimension.

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


NOTHING_DRAWN: Mapping[str, Any] = {"cluster": "", "factor": None, "dots": (), "places": (), "bar": None}
"""Drawing of a row whose platform has no known latency."""


def strip_rows(
    latencies: Mapping[str, Mapping[str, float]],
    names: Mapping[str, str],
    forecasts: Mapping[str, Forecast] = MappingProxyType({}),
    yardstick: str = "",
    typical: Mapping[str, float] = MappingProxyType({}),
) -> tuple[LogAxis, list[dict[str, Any]]]:
    """Return a row for each platform, the fastest first: a dot for each network that it ran, a bar where one is predicted.

    Args:
        latencies: By platform id, then by network key (ms).
        names: Network key to name.
        forecasts: Of one network, by platform id.
        yardstick: Key of that network.
        typical: Latencies (ms) on a typical platform by network key; of others the median of the platforms that ran them.
    """
    by_network: dict[str, list[float]] = {}
    for found in latencies.values():
        for key, value in found.items():
            by_network.setdefault(key, []).append(value)
    usual = {key: median(values) for key, values in by_network.items()}
    scale: dict[str, float] = {}
    if forecasts:
        middle = typical.get(yardstick) or median([forecast.latency_ms for forecast in forecasts.values()])
        scale = {platform: math.log(forecast.latency_ms / middle) for platform, forecast in forecasts.items()}
    for platform, found in latencies.items():
        # Medians of those that happened to run a network do not compare with what a typical platform takes.
        against = typical if not typical.keys().isdisjoint(found) else usual
        scale[platform] = median([math.log(value / against[key]) for key, value in found.items() if key in against])
    ordered = sorted(scale, key=lambda platform: (scale[platform], platform))
    axis = LogAxis.over(
        [
            *(value for found in latencies.values() for value in found.values()),
            *(value for forecast in forecasts.values() for value in (forecast.low_ms, forecast.high_ms)),
        ]
    )
    rows = []
    for platform, kind in zip(ordered, clusters([scale[platform] for platform in ordered]), strict=True):
        row: dict[str, Any] = {**NOTHING_DRAWN, "platform": platform, "cluster": kind, "factor": math.exp(scale[platform])}
        found = latencies.get(platform, {})
        if len(found) <= MOST_DOTS:
            row["dots"] = [(axis.x(value), f"{names.get(key, key)}: {value:.3g} ms") for key, value in sorted(found.items())]
        else:
            row["places"] = sorted({round(axis.x(value)) for value in found.values()})
        if platform in forecasts and not found:
            each = forecasts[platform]
            row["bar"] = [axis.x(value) for value in (each.low_ms, each.latency_ms, each.high_ms)]
        rows.append(row)
    return axis, rows


def interval_rows(page: Mapping[str, Any]) -> tuple[LogAxis, list[dict[str, Any]]]:
    """Return a row for each network of a platform, the quickest first: a dot where it was measured, a bar where it is predicted.

    Args:
        page: As :meth:`HubReader.device_page` returns it.
    """
    measured = [
        {**item, "measured": True, "low_ms": item["fastest_ms"], "high_ms": item["slowest_ms"]} for item in page["measured"]
    ]
    rows = sorted([*measured, *({**item, "measured": False} for item in page["predicted"])], key=lambda item: item["latency_ms"])
    axis = LogAxis.over([value for item in rows for value in (item["low_ms"], item["high_ms"])])
    return axis, [
        {**item, "x": axis.x(item["latency_ms"]), "from": axis.x(item["low_ms"]), "to": axis.x(item["high_ms"])} for item in rows
    ]
