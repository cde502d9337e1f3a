"""The web pages: plain HTML made here, plots as SVG, a script only where something is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from starlette.concurrency import run_in_threadpool

from latcast.hub import assets
from latcast.hub.api import PLATFORM_PATH, Key, Part
from latcast.hub.queries import NotFoundError
from latcast.hub.site import Site
from latcast.hub.strip_plot import LogAxis, interval_rows, strip_rows

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
            (f"/{assets.PACKAGE}/{assets.VERSION}/{{name}}", self.runtime_file),
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
        content = self.site.cache.get(cached)
        if content is None:
            content = await run_in_threadpool(
                self.site.cache.make, cached, lambda: self._templates.get_template(template).render(**values()).encode()
            )
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
        found = assets.find_assets()
        return await self._page(
            ("add", str(found)),
            "add.html",
            lambda: {
                "assets": found,
                "missing": assets.MISSING,
                "package": assets.PACKAGE,
                "package_version": assets.VERSION,
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
        found = assets.find_assets()
        file = found.file(name) if found else None
        if file is None:
            raise NotFoundError(assets.MISSING if found is None else f"no file '{name}' in {assets.PACKAGE}")
        return FileResponse(
            file,
            media_type=_MEDIA_TYPES["." + name.rpartition(".")[2]],
            headers={"content-encoding": "gzip", "cache-control": "max-age=31536000, immutable"},
        )
