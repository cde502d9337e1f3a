"""The web pages: plain HTML made here, plots as SVG, a script only where something is measured or predicted."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

import jinja2
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from starlette.concurrency import run_in_threadpool

from latcast.chips.chip_names import chip_of
from latcast.drawing import LogAxis
from latcast.errors import HubError, LatcastError
from latcast.hub import browser
from latcast.hub.api import PLATFORM_PATH, CurrentSite, Key, PlatformId
from latcast.hub.charts import NOTHING_DRAWN, device_rows, interval_rows, strip_rows
from latcast.hub.entries import elsewhere
from latcast.hub.language_models import MOST_TOKENS, held_out_errors, predicted
from latcast.hub.limits import address_of
from latcast.hub.listing import NETWORKS, Cursor, Find, Listing, Portion, Row, SortBy
from latcast.hub.named_platforms import YARDSTICK, meaning_among
from latcast.hub.site import Site, as_json
from latcast.kernels.rules import unit_kind
from latcast.llm.forecast import LanguagePrediction
from latcast.registry import matching
from latcast.spaces.catalogue import FAMILY_NAMES, family
from latcast.spaces.catalogue import model as published_model
from latcast.tables import decimal, milliseconds

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

DEVICE_LIST = Listing(
    "device",
    {
        "here": lambda row: (row["source"] != "hub", row["factor"] is None, row["factor"] or 0.0),
        "factor": lambda row: row["factor"],
        "platforms": lambda row: len(row["platforms"]),
    },
)
DEVICE_LABELS: Labels = {
    "here": "measured first",
    "factor": "fastest first",
    "-factor": "slowest first",
    "device": "by name",
    "-platforms": "most platforms first",
}
FEW_DEVICES = 3
"""Devices of a search up to which their platforms are shown without a click."""
NETWORK_LABELS: Labels = {
    "median_ms": "quickest first",
    "-median_ms": "slowest first",
    "name": "by name",
    "-platforms": "most platforms first",
}
LATENCY_LIST = Listing("name", {"latency_ms": lambda row: row["latency_ms"]})
LATENCY_LABELS: Labels = {"latency_ms": "quickest first", "-latency_ms": "slowest first", "name": "by name"}


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
        """Return the rows that a reader asked for.

        Raises:
            HubError: See :meth:`Listing.portion`.
        """
        find, sort, cursor = asked
        sort = sort or next(iter(labels))
        return cls(listing.portion(rows, find, sort, PAGE_ROWS, cursor), find, sort, labels)

    def link(self, cursor: str) -> str:
        """Return the address of another portion of the same list."""
        return "?" + urlencode({"find": self.find, "sort": self.sort, "cursor": cursor})


router = APIRouter(include_in_schema=False)


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["ms"] = lambda value: "–" if value is None else milliseconds(value)
    environment.filters["decimal"] = decimal
    environment.filters["times"] = lambda factor: f"{factor:.2g}×" if factor < 10 else f"{factor:.0f}×"
    environment.globals["asset"] = asset
    return environment


def render(template: str, here: str, values: Mapping[str, Any]) -> bytes:
    """Render a page; ``here`` is its place in the navigation."""
    return _templates().get_template(template).render(here=here, **values).encode()


def _page(template: str, here: str, **values: Any) -> Response:
    return HTMLResponse(render(template, here, values))


def problem_page(status: int, text: str) -> Response:
    """Return the page of an error."""
    heading = {404: "There is nothing here", 429: "Too often", 503: "Not now"}.get(status, "That did not work")
    return HTMLResponse(render("problem.html", "", {"heading": heading, "text": text}), status)


async def _cached_page(
    site: Site, key: tuple[str, ...], template: str, here: str, values: Callable[[], Mapping[str, Any]]
) -> Response:
    content = await site.cache.answer(("page", template, *key), lambda: render(template, here, values()))
    return HTMLResponse(content)


async def _data(site: Site, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
    """Return the data of a list, made once for all of its pages."""
    return json.loads(await site.cache.answer(("data", *key), lambda: as_json(make())))


def _base(request: Request) -> str:
    """Return how the reader reaches this hub."""
    return str(request.base_url).rstrip("/")


@router.get("/")
async def model(site: CurrentSite, request: Request) -> Response:
    base = _base(request)
    names = sorted(name for each in FAMILY_NAMES for name in family(each).published)
    return await _cached_page(site, (base,), "model.html", "/", lambda: _about_models(site, "", base) | {"names": names})


Tokens = Annotated[int, Query(ge=1, le=MOST_TOKENS)]


@router.get("/language")
async def language(
    site: CurrentSite, request: Request, model: str = "", on: str = "", prompt: Tokens = 512, generate: Tokens = 128
) -> Response:
    found: list[LanguagePrediction] = []
    problem = ""
    if model and on:
        address = address_of(request.scope)
        with site.turns.place(address, 1.0):
            try:
                async with site.turns.turn(address):
                    found = await run_in_threadpool(predicted, model[:200], on[:200], prompt, generate)
            except LatcastError as refused:
                problem = str(refused)
    asked = {"model": model, "on": on, "prompt": prompt, "generate": generate}
    return _page("language.html", "/", found=found, problem=problem, **asked)


@router.get("/model/{key}")
async def shared_model(site: CurrentSite, key: Key, request: Request) -> Response:
    def values() -> dict[str, Any]:
        site.shared_model(key)
        return _about_models(site, key, _base(request))

    return HTMLResponse(await run_in_threadpool(lambda: render("model.html", "/", values())))


def _about_models(site: Site, shared: str, base: str) -> dict[str, Any]:
    own = site.reader.own()
    names = {*elsewhere(), *own}
    devices = {name.partition("/")[0] for name in names}
    return {"shared": shared, "platforms": len(names), "devices": len(devices), "own": len(own), "names": [], "base": base}


@router.get("/devices")
async def devices(site: CurrentSite, asked: Asked) -> Response:
    data = await _data(site, ("devices",), lambda: _ranked_platforms(site))
    find, sort, cursor = asked
    platforms, note = await run_in_threadpool(_searched, find, data["platforms"])
    rows = device_rows(platforms)
    found = Listed.of(rows, DEVICE_LIST, DEVICE_LABELS, ("", sort, cursor))._replace(find=find)
    chips = {row["device"]: chip.name for row in found.portion.rows if (chip := chip_of(row["device"]))}
    values = {
        **data,
        "axis": LogAxis(**data["axis"]),
        "chips": chips,
        "note": note,
        "opened": bool(find) and len(rows) <= FEW_DEVICES,
    }
    return _page("devices.html", "/devices", **values, list=found)


def _searched(find: str, platforms: Sequence[Row]) -> tuple[Sequence[Row], str]:
    """Return the platforms with a text in their ids, or else those that it names, and why there are none.

    The same as ``latcast platforms`` lists.
    """
    text = find.strip()
    by_id = {each["platform"]: each for each in platforms}
    if not text:
        return platforms, ""
    ids: Sequence[str] = matching(text.lower(), by_id)
    if not ids:
        try:
            meant = meaning_among(text, by_id)
        except HubError as problem:
            return [], str(problem)
        ids = meant.platforms or meant.taken
        if not ids:
            return [], f"Nothing was measured on “{text}”, but its chip is known: type it on the page of your model."
    chosen = set(ids)
    return [each for each in platforms if each["platform"] in chosen], ""


def _ranked_platforms(site: Site) -> dict[str, Any]:
    reader = site.reader
    platforms = {item["id"]: item for item in reader.all_platforms()}
    names = {key: reference.name for key, reference in reader.references().items()}
    forecasts = {name: found for name, found in site.yardstick().items() if name in platforms}
    yardstick = published_model(YARDSTICK, as_measured=True).key
    axis, drawn = strip_rows(reader.cells().by_platform(), names, forecasts, yardstick, reader.typical())
    rows = [{**row, **platforms.pop(row["platform"])} for row in drawn if row["platform"] in platforms]
    rows += [{**NOTHING_DRAWN, "platform": name, **each} for name, each in platforms.items()]
    # No rank where nothing connects platforms with most others: their scales do not compare.
    groups = Counter(row["group"] for row in rows)
    most = max(groups, key=lambda group: (groups[group], -group), default=0)
    rows = [row if row["group"] == most else {**row, "cluster": "", "factor": None} for row in rows]
    version = site.served.version
    return {
        "counts": reader.counts(),
        "axis": vars(axis),
        "yardstick": YARDSTICK,
        "shipped": sum(each["source"] != "hub" for each in rows),
        "devices": len({each["device"] for each in rows}),
        "platforms": [{**row, "kind": unit_kind(row["unit"])} for row in rows],
        "keys": {
            "dots": any(each["dots"] or each["places"] for each in rows),
            "bars": any(each["bar"] for each in rows),
            "clusters": any(each["cluster"] for each in rows),
        },
        "contributors": reader.contributors()[:12],
        "version": None if version is None else {"number": version.number, "held_out": version.held_out},
    }


@router.get("/networks")
async def networks(site: CurrentSite, asked: Asked, request: Request) -> Response:
    rows = await _data(site, ("networks",), site.reader.networks)
    axis = LogAxis.over([value for item in rows for value in (item["fastest_ms"], item["slowest_ms"])])
    listed = Listed.of(rows, NETWORKS, NETWORK_LABELS, asked)
    return _page("networks.html", "/networks", axis=axis, list=listed, base=_base(request))


@router.get("/networks/{key}")
async def network(site: CurrentSite, key: Key, asked: Asked) -> Response:
    found = await _data(site, ("network", key), lambda: site.reader.network(key))
    rows = [{**row, "name": row["platform"]} for row in found["latencies"]]
    axis = LogAxis.over([row["latency_ms"] for row in rows])
    listed = Listed.of(rows, LATENCY_LIST, LATENCY_LABELS, asked)
    return _page("network.html", "/networks", network=found, axis=axis, list=listed)


@router.get("/platforms/" + PLATFORM_PATH)
async def platform(site: CurrentSite, platform: PlatformId, asked: Asked) -> Response:
    predict = site.forecaster.predict
    found = await _data(site, ("platform", platform), lambda: site.reader.device_page(platform, predict))
    axis, rows = interval_rows(found)
    listed = Listed.of(rows, LATENCY_LIST, LATENCY_LABELS, asked)
    return _page("platform.html", "/devices", page=found, axis=axis, list=listed, version=site.served.version)


@router.get("/models")
async def models(site: CurrentSite, request: Request) -> Response:
    refit, serving, base = site.refitter.state, site.served.number, _base(request)
    return await _cached_page(
        site,
        (refit.problem, str(serving), base),
        "models.html",
        "/models",
        lambda: {
            "models": site.reader.models()[:PAGE_ROWS],
            "refit": refit,
            "serving": serving,
            "base": base,
            "language": held_out_errors(),
        },
    )


@router.get("/add")
async def add(site: CurrentSite) -> Response:
    assets = browser.find_assets()

    def values() -> dict[str, Any]:
        wasm = {}
        if assets:
            wasm = {
                provider: {"name": name, "integrity": browser.integrity(assets / f"{name}.gz")}
                for provider, name in browser.WEB_ASSEMBLY.items()
            }
        return {
            "assets": assets,
            "missing": browser.MISSING,
            "package": browser.PACKAGE,
            "package_version": browser.VERSION,
            "wasm": json.dumps(wasm) if assets else "",
        }

    return await _cached_page(site, ("add", str(assets)), "add.html", "/add", values)


@router.get("/static/{name}")
async def static(name: Key, v: Annotated[str, Query(max_length=64)] = "") -> Response:
    # A name without a slash, looked up among the files that are there: no path is made of what a client sent.
    files = {file.name: file for file in STATIC.iterdir() if file.is_file() and file.suffix in _MEDIA_TYPES}
    if name not in files:
        raise HubError(f"no file '{name}'", 404)
    keeps = "max-age=31536000, immutable" if v else "max-age=300"
    return FileResponse(files[name], media_type=_MEDIA_TYPES[files[name].suffix], headers={"cache-control": keeps})


@router.get(f"/{browser.PACKAGE}/{browser.VERSION}/{{name}}")
async def runtime_file(name: Key) -> Response:
    assets = browser.find_assets()
    if assets is None or name not in browser.FILES:
        raise HubError(browser.MISSING if assets is None else f"no file '{name}' in {browser.PACKAGE}", 404)
    return FileResponse(
        assets / f"{name}.gz",
        media_type=_MEDIA_TYPES["." + name.rpartition(".")[2]],
        headers={"content-encoding": "gzip", "cache-control": "max-age=31536000, immutable"},
    )
