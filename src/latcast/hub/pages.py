"""The web pages: plain HTML made here, plots as SVG, a script only where something is measured or predicted."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from starlette.concurrency import run_in_threadpool

from latcast import records
from latcast.hub import browser
from latcast.hub.api import PLATFORM_PATH, Key, PlatformId
from latcast.hub.charts import NOTHING_DRAWN, LogAxis, interval_rows, strip_rows
from latcast.hub.entries import elsewhere
from latcast.hub.listing import NETWORKS, Cursor, Find, Listing, Portion, Row, SortBy
from latcast.hub.queries import YARDSTICK, NotFoundError
from latcast.hub.site import Site, as_json
from latcast.spaces.catalogue import model as published_model

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

PAGE_ROWS = 50
"""Rows of a page; the others are on further pages."""

Labels = Mapping[str, str]
"""Names of the fields that rows may be sorted by, by field; the first is the usual one."""

_DEVICES = Listing(
    "platform",
    {
        "here": lambda row: (row["source"] != "hub", row["factor"] is None, row["factor"] or 0.0),
        "factor": lambda row: row["factor"],
        "networks": lambda row: row["networks"],
    },
)
_DEVICE_LABELS: Labels = {
    "here": "measured here",
    "factor": "fastest first",
    "-factor": "slowest first",
    "platform": "by name",
    "-networks": "most networks first",
}
_NETWORK_LABELS: Labels = {
    "median_ms": "quickest first",
    "-median_ms": "slowest first",
    "name": "by name",
    "-platforms": "most platforms first",
}
_LATENCIES = Listing("name", {"latency_ms": lambda row: row["latency_ms"]})
_LATENCY_LABELS: Labels = {"latency_ms": "quickest first", "-latency_ms": "slowest first", "name": "by name"}


def milliseconds(value: float | None) -> str:
    """Format a latency as everywhere; a dash where there is none."""
    return "–" if value is None else records.milliseconds(value)


class Asset(NamedTuple):
    """A file of :data:`STATIC`: where it is served, and the hash that browsers hold it to."""

    url: str
    integrity: str


@lru_cache(maxsize=64)
def asset(name: str) -> Asset:
    """Return the static file of a name; its address changes with its content."""
    digest = hashlib.sha384((STATIC / name).read_bytes()).digest()
    return Asset(f"/static/{name}?v={digest.hex()[:12]}", f"sha384-{base64.b64encode(digest).decode()}")


def _asked(find: Find = "", sort: SortBy = "", cursor: Cursor = "") -> tuple[str, str, str]:
    return find, sort, cursor


Asked = Annotated[tuple[str, str, str], Depends(_asked)]
"""Words to find, the field to sort by (the usual one where empty), and a cursor."""


class Listed(NamedTuple):
    """A portion of a list with the words and the order that were asked for, as a page shows it."""

    portion: Portion
    find: str
    sort: str
    labels: Labels

    @classmethod
    def of(cls, rows: Sequence[Row], listing: Listing, labels: Labels, asked: Asked) -> Listed:
        """Return the rows that a reader asked for: words to find, the field to sort by (the usual one where empty), and a cursor.

        Raises:
            HubError: See :meth:`Listing.portion`.
        """
        find, sort, cursor = asked
        sort = sort or next(iter(labels))
        return cls(listing.portion(rows, find, sort, PAGE_ROWS, cursor), find, sort, labels)

    def link(self, cursor: str) -> str:
        """Return the address of another portion of the same list."""
        return "?" + urlencode({"find": self.find, "sort": self.sort, "cursor": cursor})


@lru_cache(maxsize=1)
def _published_names() -> list[str]:
    from latcast.spaces.catalogue import FAMILY_NAMES, family

    return sorted(name for each in FAMILY_NAMES for name in family(each).published)


def _wasm(assets: browser.Assets) -> dict[str, dict[str, str]]:
    """Return the WebAssembly that each provider runs, with its hash."""
    names = {"wasm": browser.WASM_FILES[-1], **({"webgpu": browser.WEBGPU_FILES[-1]} if assets.webgpu else {})}
    found = {}
    for provider, name in names.items():
        file = assets.file(name)
        assert file is not None
        found[provider] = {"name": name, "integrity": browser.integrity(file)}
    return found


class Pages:
    """The routes of one site's pages."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def router(self) -> APIRouter:
        """Return all routes; OpenAPI does not list them."""
        router = APIRouter(include_in_schema=False)
        routes: tuple[tuple[str, Callable[..., Any]], ...] = (
            ("/", self.model),
            ("/model/{key}", self.shared_model),
            ("/devices", self.devices),
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
        environment.filters["decimal"] = records.decimal
        environment.globals["asset"] = asset
        return environment

    def rendered(self, template: str, here: str, values: Mapping[str, Any]) -> bytes:
        """Render a page; ``here`` is its place in the navigation."""
        return self._templates.get_template(template).render(here=here, **values).encode()

    async def _page(self, key: tuple[str, ...], template: str, here: str, values: Callable[[], Mapping[str, Any]]) -> Response:
        return HTMLResponse(
            await self.site.cache.answer(("page", template, *key), lambda: self.rendered(template, here, values()))
        )

    async def _data(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """Return the data of a list, made once for all of its pages."""
        return json.loads(await self.site.cache.answer(("data", *key), lambda: as_json(make())))

    async def model(self, request: Request) -> Response:
        base = str(request.base_url).rstrip("/")
        return await self._page((base,), "model.html", "/", lambda: self._model("", base))

    async def shared_model(self, key: Key, request: Request) -> Response:
        if await run_in_threadpool(self.site.database.shared_model, key) is None:
            raise NotFoundError(f"no model is shared under '{key[:40]}'; its link may have been removed")
        base = str(request.base_url).rstrip("/")
        return HTMLResponse(await run_in_threadpool(self.rendered, "model.html", "/", self._model(key, base)))

    def _model(self, shared: str, base: str) -> dict[str, Any]:
        own = self.site.reader.own()
        names = {*elsewhere(), *own}
        return {
            "shared": shared,
            "platforms": len(names),
            "devices": len({name.partition("/")[0] for name in names}),
            "own": len(own),
            "names": [] if shared else _published_names(),
            "base": base,
        }

    async def devices(self, asked: Asked) -> Response:
        data = await self._data(("devices",), self._devices)
        found = Listed.of(data["rows"], _DEVICES, _DEVICE_LABELS, asked)
        return HTMLResponse(self.rendered("devices.html", "/devices", {**data, "axis": LogAxis(**data["axis"]), "list": found}))

    def _devices(self) -> dict[str, Any]:
        reader = self.site.reader
        platforms = {item["id"]: item for item in reader.all_platforms()}
        names = {key: reference.name for key, reference in reader.references().items()}
        forecasts = {name: found for name, found in self.site.yardstick().items() if name in platforms}
        yardstick = published_model(YARDSTICK, as_measured=True).key
        axis, rows = strip_rows(reader.cells().by_platform(), names, forecasts, yardstick, reader.typical())
        version = self.site.served.version
        shown = [{**row, **platforms.pop(row["platform"])} for row in rows if row["platform"] in platforms]
        listed = ranked([*shown, *({**NOTHING_DRAWN, "platform": name, **each} for name, each in platforms.items())])
        return {
            "counts": reader.counts(),
            "axis": vars(axis),
            "yardstick": YARDSTICK,
            "shipped": sum(each["source"] != "hub" for each in listed),
            "rows": listed,
            "keys": {
                "dots": any(each["dots"] or each["places"] for each in listed),
                "bars": any(each["bar"] for each in listed),
                "clusters": any(each["cluster"] for each in listed),
            },
            "contributors": reader.contributors()[:12],
            "version": None if version is None else {"number": version.number, "held_out": version.held_out},
        }

    async def networks(self, asked: Asked) -> Response:
        rows = await self._data(("networks",), self.site.reader.networks)
        axis = LogAxis.over([value for item in rows for value in (item["fastest_ms"], item["slowest_ms"])])
        values = {"axis": axis, "list": Listed.of(rows, NETWORKS, _NETWORK_LABELS, asked)}
        return HTMLResponse(self.rendered("networks.html", "/networks", values))

    async def network(self, key: Key, asked: Asked) -> Response:
        found = await self._data(("network", key), lambda: self.site.reader.network(key))
        rows = [{**row, "name": row["platform"]} for row in found["latencies"]]
        axis = LogAxis.over([row["latency_ms"] for row in rows])
        shown = Listed.of(rows, _LATENCIES, _LATENCY_LABELS, asked)
        return HTMLResponse(self.rendered("network.html", "/networks", {"network": found, "axis": axis, "list": shown}))

    async def platform(self, platform: PlatformId, asked: Asked) -> Response:
        predict = self.site.forecaster.predict
        found = await self._data(("platform", platform), lambda: self.site.reader.device_page(platform, predict))
        axis, rows = interval_rows(found)
        values = {
            "page": found,
            "axis": axis,
            "list": Listed.of(rows, _LATENCIES, _LATENCY_LABELS, asked),
            "version": self.site.served.version,
        }
        return HTMLResponse(self.rendered("platform.html", "/devices", values))

    async def models(self) -> Response:
        refit, serving = self.site.refitter.state, self.site.served.number
        return await self._page(
            (refit.problem, str(serving)),
            "models.html",
            "/models",
            lambda: {"models": self.site.reader.models()[:PAGE_ROWS], "refit": refit, "serving": serving},
        )

    async def add(self) -> Response:
        found = browser.find_assets()
        return await self._page(
            ("add", str(found)),
            "add.html",
            "/add",
            lambda: {
                "assets": found,
                "missing": browser.MISSING,
                "package": browser.PACKAGE,
                "package_version": browser.VERSION,
                "wasm": json.dumps(_wasm(found)) if found else "",
            },
        )

    def problem(self, status: int, text: str) -> Response:
        """Return the page of an error."""
        heading = {404: "There is nothing here", 429: "Too often", 503: "Not now"}.get(status, "That did not work")
        return HTMLResponse(self.rendered("problem.html", "", {"heading": heading, "text": text}), status)

    async def static(self, name: Key, v: Annotated[str, Query(max_length=64)] = "") -> Response:
        # A name without a slash, looked up among the files that are there: no path is made of what a client sent.
        files = {file.name: file for file in STATIC.iterdir() if file.is_file() and file.suffix in _MEDIA_TYPES}
        if name not in files:
            raise NotFoundError(f"no file '{name}'")
        keeps = "max-age=31536000, immutable" if v else "max-age=300"
        return FileResponse(files[name], media_type=_MEDIA_TYPES[files[name].suffix], headers={"cache-control": keeps})

    async def runtime_file(self, name: Key) -> Response:
        found = browser.find_assets()
        file = found.file(name) if found else None
        if file is None:
            raise NotFoundError(browser.MISSING if found is None else f"no file '{name}' in {browser.PACKAGE}")
        return FileResponse(
            file,
            media_type=_MEDIA_TYPES["." + name.rpartition(".")[2]],
            headers={"content-encoding": "gzip", "cache-control": "max-age=31536000, immutable"},
        )


def ranked(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return platforms' rows, without a rank where nothing connects them with most others: their scales do not compare."""
    groups = Counter(row["group"] for row in rows)
    most = max(groups, key=lambda group: (groups[group], -group)) if groups else 0
    return [dict(row) if row["group"] == most else {**row, "cluster": "", "factor": None} for row in rows]
