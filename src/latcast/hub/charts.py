"""Drawings of the pages: rows of dots and intervals, at places of a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any

from latcast.drawing import LogAxis
from latcast.hub.scales import Forecast

MOST_DOTS = 40
"""Dots of a row, each with the name of its network; of more networks the places alone are drawn, each place once."""

CLUSTERS = ("fast", "medium", "slow")
"""Ganesan et al. (§II) find three clusters of phones."""


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


NOTHING_DRAWN: Mapping[str, Any] = {"cluster": "", "factor": None, "dots": (), "places": (), "bar": None, "ms": None}
"""Drawing of a row whose platform has no known latency."""


def strip_rows(
    latencies: Mapping[str, Mapping[str, float]],
    names: Mapping[str, str],
    forecasts: Mapping[str, Forecast] = MappingProxyType({}),
    yardstick: str = "",
    typical: Mapping[str, float] = MappingProxyType({}),
) -> tuple[LogAxis, list[dict[str, Any]]]:
    """Return a row for each platform, the fastest first: a dot for each network that it ran, a bar where one is predicted.

    ``ms`` of a row are the ends of its bar with the forecast between them, or the quickest and the slowest of its networks.

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
        if found:
            row["ms"] = [min(found.values()), max(found.values())]
        if len(found) <= MOST_DOTS:
            row["dots"] = [(axis.x(value), f"{names.get(key, key)}: {value:.3g} ms") for key, value in sorted(found.items())]
        else:
            row["places"] = sorted({round(axis.x(value)) for value in found.values()})
        if platform in forecasts and not found:
            each = forecasts[platform]
            row["ms"] = [each.low_ms, each.latency_ms, each.high_ms]
            row["bar"] = [axis.x(value) for value in row["ms"]]
        rows.append(row)
    return axis, rows


def device_rows(platforms: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each device, with its platforms in the order in which they come.

    ``rings`` and ``dots`` are the places of what was predicted and measured, each once, ``ms`` the quickest and the slowest of
    the predicted platforms, ``factor`` and ``cluster`` those of the quickest platform.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for each in platforms:
        found.setdefault(each["device"], []).append(each)
    rows = []
    for device, inside in found.items():
        quickest = min(inside, key=lambda each: (each["factor"] is None, each["factor"] or 0.0))
        predicted = [each["ms"][1] for each in inside if each["bar"]]
        measured = [round(x) for each in inside for x in (*each["places"], *(x for x, _ in each["dots"]))]
        rows.append(
            {
                "device": device,
                "platforms": inside,
                "kinds": sorted({each["kind"] for each in inside}),
                "source": "hub" if any(each["source"] == "hub" for each in inside) else quickest["source"],
                "networks": max(each["networks"] for each in inside),
                "factor": quickest["factor"],
                "cluster": quickest["cluster"],
                "ms": [min(predicted), max(predicted)] if predicted else None,
                "rings": sorted({round(each["bar"][1]) for each in inside if each["bar"]}),
                "dots": sorted({*measured}),
            }
        )
    return rows


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
