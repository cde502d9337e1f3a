"""The web pages: plain HTML made here, plots as SVG, a script only where something is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse

from latcast.hub import browser
from latcast.hub.api import PLATFORM_PATH, Key, Part
from latcast.hub.queries import NotFoundError
from latcast.hub.site import Site

if TYPE_CHECKING:
    import jinja2


HERE = Path(__file__).parent
STATIC = HERE / "static"

_MEDIA_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}

MAX_ROWS = 400
"""Rows that a page shows; the interface has all."""


def milliseconds(value: float | None) -> str:
    """Three significant digits."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


class Pages:
    """The routes of one site's pages."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def router(self) -> APIRouter:
        """All routes; OpenAPI does not list them."""
        router = APIRouter(include_in_schema=False)
        routes: tuple[tuple[str, Callable[..., Any]], ...] = (
            ("/", self.devices),
            ("/networks", self.networks),
            ("/networks/{key}", self.network),
            ("/platforms/" + PLATFORM_PATH, self.platform),
            ("/models", self.models),
            ("/add", self.add),
            ("/static/{name}", self.static),
            (f"/{browser.PACKAGE}/{browser.VERSION}/{{name}}", self.runtime_file),
        )
        for path, function in routes:
            router.add_api_route(path, function, methods=["GET"])
        return router

    @cached_property
    def _templates(self) -> jinja2.Environment:
        import jinja2

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
        )
        environment.filters["ms"] = milliseconds
        return environment

    async def _page(self, key: tuple[str, ...], template: str, values: Callable[[], Mapping[str, Any]]) -> Response:
        cached = ("page", template, *key)
        content = await self.site.cache.answer(cached, lambda: self._templates.get_template(template).render(**values()).encode())
        return HTMLResponse(content)

    async def devices(self) -> Response:
        return await self._page((), "devices.html", self._devices)

    def _devices(self) -> dict[str, Any]:
        platforms = {item["id"]: item for item in self.site.reader.platforms()}
        latencies = self.site.reader.latencies()
        names = {key: reference.name for key, reference in self.site.reader.references().items()}
        axis, rows = strip_rows(latencies, names)
        return {
            "counts": self.site.reader.counts(),
            "axis": axis,
            "rows": [{**row, **platforms[row["platform"]]} for row in rows[:MAX_ROWS]],
            "hidden": max(0, len(rows) - MAX_ROWS),
            "contributors": self.site.reader.contributors()[:12],
            "version": self.site.served.version,
        }

    async def networks(self) -> Response:
        return await self._page((), "networks.html", self._networks)

    def _networks(self) -> dict[str, Any]:
        found = sorted(self.site.reader.networks(), key=lambda item: (item["median_ms"], item["name"]))
        axis = LogAxis.over([value for item in found for value in (item["fastest_ms"], item["slowest_ms"])])
        return {"networks": found[:MAX_ROWS], "hidden": max(0, len(found) - MAX_ROWS), "axis": axis}

    async def network(self, key: Key) -> Response:
        def values() -> dict[str, Any]:
            found = self.site.reader.network(key)
            found["latencies"].sort(key=lambda item: item["latency_ms"])
            return {"network": found, "axis": LogAxis.over([item["latency_ms"] for item in found["latencies"]])}

        return await self._page((key,), "network.html", values)

    async def platform(self, device: Part, runtime: Part, unit: Part, precision: Part) -> Response:
        name = f"{device}/{runtime}/{unit}/{precision}"

        def values() -> dict[str, Any]:
            found = self.site.reader.device_page(name, self.site.forecaster.predict)
            axis, rows = interval_rows(found)
            return {"page": found, "axis": axis, "rows": rows[:MAX_ROWS], "version": self.site.served.version}

        return await self._page((name,), "platform.html", values)

    async def models(self) -> Response:
        return await self._page((), "models.html", lambda: {"models": self.site.reader.models()})

    async def add(self) -> Response:
        found = browser.find_assets()
        return await self._page(
            ("add", str(found)),
            "add.html",
            lambda: {
                "assets": found,
                "missing": browser.MISSING,
                "package": browser.PACKAGE,
                "package_version": browser.VERSION,
                "size_mb": found.size_bytes / 1e6 if found else 0,
            },
        )

    async def static(self, name: Key) -> Response:
        # A name without a slash, looked up among the files that are there: no path is made of what a client sent.
        files = {file.name: file for file in STATIC.iterdir() if file.is_file() and file.suffix in _MEDIA_TYPES}
        if name not in files:
            raise NotFoundError(f"no file '{name}'")
        return FileResponse(files[name], media_type=_MEDIA_TYPES[files[name].suffix], headers={"cache-control": "max-age=300"})

    async def runtime_file(self, name: Key, request: Request) -> Response:
        found = browser.find_assets()
        file = found.file(name) if found else None
        if file is None:
            raise NotFoundError(browser.MISSING if found is None else f"no file '{name}' in {browser.PACKAGE}")
        return FileResponse(
            file,
            media_type=_MEDIA_TYPES["." + name.rpartition(".")[2]],
            headers={"content-encoding": "gzip", "cache-control": "max-age=31536000, immutable"},
        )


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
        page: What :meth:`HubReader.device_page` gives.
    """
    measured = [
        {**item, "measured": True, "low_ms": item["fastest_ms"], "high_ms": item["slowest_ms"]} for item in page["measured"]
    ]
    rows = sorted([*measured, *({**item, "measured": False} for item in page["predicted"])], key=lambda item: item["latency_ms"])
    axis = LogAxis.over([value for item in rows for value in (item["low_ms"], item["high_ms"])])
    return axis, [
        {**item, "x": axis.x(item["latency_ms"]), "from": axis.x(item["low_ms"]), "to": axis.x(item["high_ms"])} for item in rows
    ]
