"""The HTTP interface: reading for everybody, uploading with a token."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from latcast.errors import HubError
from latcast.hub import browser
from latcast.hub.entries import network_json
from latcast.hub.listing import DEVICES, NETWORKS, PLATFORMS, Cursor, Find, Limit, Listing, Row, SortBy
from latcast.hub.queries import HubReader
from latcast.hub.site import Site, as_json
from latcast.hub.snapshot import list_snapshots, snapshot_file
from latcast.hub.uploads import MAX_BODY_BYTES, MAX_CONTENT_BYTES, MAX_RECORDS, SEVERAL, parse_upload, unpacked

JSON_LINES = "application/x-ndjson"
PLATFORM_PATH = "{device}/{runtime}/{unit}/{precision}"

Part = Annotated[str, Path(max_length=100, description="A part of a platform id: device/runtime-version/unit/precision.")]


def platform_id(device: Part, runtime: Part, unit: Part, precision: Part) -> str:
    """Return the platform id in :data:`PLATFORM_PATH`."""
    return f"{device}/{runtime}/{unit}/{precision}"


async def current_site(request: Request) -> Site:
    """Return the site that the application of a request serves."""
    site: Site = request.app.state.site
    return site


CurrentSite = Annotated[Site, Depends(current_site)]
PlatformId = Annotated[str, Depends(platform_id)]
Key = Annotated[str, Path(max_length=64, description="A network's key.")]
MaybePlatform = Annotated[str | None, Query(max_length=200, description="Only of this platform id.")]
MaybeNetwork = Annotated[str | None, Query(max_length=64, description="Only of the network with this key.")]
NetworkPrecision = Annotated[str, Query(pattern="^(fp32|int8)$", description='"fp32" or "int8", quantised.')]
MaybeRole = Annotated[str | None, Query(pattern="^(network|kernel)$", description='"network" or "kernel".')]
Credentials = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, description="A token from the hub's administrator; reading needs none.")),
]

_SAID: dict[str, Any] = {
    "type": "object",
    "properties": {"detail": {"description": "What was found, what was expected, what to do."}},
    "required": ["detail"],
}
_A_NAME = "A device or chip in any spelling, with its unit, runtime, threads or precision in any order; or a platform id."
_REFUSALS = {
    400: "The body cannot be read.",
    401: "No token, or one that is not valid.",
    404: "There is nothing of this name.",
    413: "Larger than an upload may be.",
    422: "Malformed; nothing was stored.",
    429: "Too many requests from this address; Retry-After says when to try again.",
    409: "There is no model yet; try again in a minute.",
    503: "The database does not answer.",
}

router = APIRouter(prefix="/api")


def says(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return refusals for the OpenAPI document."""
    content = {"application/json": {"schema": _SAID}}
    return {code: {"description": _REFUSALS[code], "content": content} for code in (*codes, 429)}


def reading(path: str, summary: str, *codes: int) -> Any:
    """Return the decorator of a route that reads; ``codes`` are its own refusals."""
    return router.get(path, summary=summary, responses=says(*codes, 503))


def _list_rows(what: str, listing: Listing, rows: Callable[[HubReader], Sequence[Row]], summary: str) -> None:
    """Add the route of a list, which is found in, sorted, and given in portions."""

    @reading(f"/{what}", summary, 422)
    async def listed(site: CurrentSite, find: Find = "", sort: SortBy = "", limit: Limit = None, cursor: Cursor = "") -> Response:
        def portion() -> dict[str, Any]:
            found = listing.portion(rows(site.reader), find, sort, limit, cursor)
            return {what: found.rows, "total": found.total, "next": found.next}

        return await _cached(site, (what, find, sort, str(limit), cursor), portion)


_list_rows("devices", DEVICES, HubReader.devices, "Devices with their platforms")
_list_rows("platforms", PLATFORMS, HubReader.all_platforms, "Platforms: those measured here, and those that come with latcast")
_list_rows("networks", NETWORKS, HubReader.networks, "Networks with their range of latencies")


async def _cached(site: Site, key: tuple[str, ...], make: Callable[[], Any]) -> Response:
    return Response(await site.cache.answer(key, lambda: as_json(make())), media_type="application/json")


@reading("/platforms/" + PLATFORM_PATH, "What is measured and predicted of a platform", 404, 422)
async def platform(site: CurrentSite, platform: PlatformId) -> Response:
    return await _cached(site, ("platform", platform), lambda: site.reader.device_page(platform, site.forecaster.predict))


@reading("/named", "The platforms that a text means, as latcast predict --on takes it", 404, 422)
async def named(site: CurrentSite, text: Annotated[str, Query(min_length=1, max_length=200, description=_A_NAME)]) -> Response:
    def meant() -> dict[str, Any]:
        found = site.reader.meaning(text)
        return {**vars(found), "from_chip": [each.platform.id for each in found.from_chip]}

    return await _cached(site, ("named", text), meant)


@reading("/bundles/" + PLATFORM_PATH, "The predictor of a platform, for latcast predict --on hub:", 404, 422)
async def bundle(site: CurrentSite, platform: PlatformId) -> Response:
    return Response(await _bundle(site, platform), media_type="application/zip")


@reading("/bundles/" + PLATFORM_PATH + "/digest", "The size and the SHA-256 of such a predictor", 404, 422)
async def digest(site: CurrentSite, platform: PlatformId) -> Response:
    content = await _bundle(site, platform)
    return JSONResponse({"platform": platform, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})


async def _bundle(site: Site, platform: str) -> bytes:
    return await site.cache.answer(("bundle", platform), lambda: site.reader.bundle(platform))


@reading("/snapshots", "Versions of all measurements that stay as they are")
async def snapshots(site: CurrentSite) -> Response:
    found = await run_in_threadpool(list_snapshots, site.settings.snapshots)
    return Response(as_json({"snapshots": [vars(each) for each in found]}), media_type="application/json")


@reading("/snapshots/{version}/{name}", "A file of such a version", 404, 422)
async def snapshot(site: CurrentSite, version: Key, name: Key) -> Response:
    path = snapshot_file(site.settings.snapshots, version, name)
    return FileResponse(path, media_type="application/octet-stream", filename=f"{version}-{name}")


@reading("/networks/{key}", "A network with its latency on each platform", 404, 422)
async def network(site: CurrentSite, key: Key) -> Response:
    return await _cached(site, ("network", key), lambda: site.reader.network(key))


@reading("/networks/{key}/onnx", "A signature network as an ONNX file", 404, 422)
async def onnx(key: Key, precision: NetworkPrecision = "fp32") -> Response:
    reference = browser.served_networks().get(key)
    if reference is None:
        raise HubError(f"'{key}' is not a signature network; /api/signature lists them", 404)
    file = await run_in_threadpool(browser.onnx_file, reference, precision)
    return FileResponse(
        file, media_type="application/octet-stream", headers={"content-encoding": "gzip", "cache-control": "max-age=86400"}
    )


@reading("/measurements", "Measurements, in portions", 422)
async def measurements(
    site: CurrentSite,
    platform: MaybePlatform = None,
    network: MaybeNetwork = None,
    role: MaybeRole = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Cursor = "",
) -> Response:
    found = await run_in_threadpool(
        site.reader.measurements, platform=platform, network=network, role=role, after=cursor, limit=limit
    )
    following = found[-1]["id"] if len(found) == limit else None
    return Response(as_json({"measurements": found, "next": following}), media_type="application/json")


@reading("/export", "All measurements as compressed JSON Lines", 422)
async def export(site: CurrentSite, platform: MaybePlatform = None, role: MaybeRole = None) -> Response:
    return StreamingResponse(
        site.reader.export(platform=platform, role=role),
        media_type="application/gzip",
        headers={"content-disposition": 'attachment; filename="measurements.jsonl.gz"'},
    )


@reading("/contributors", "Who contributed how much")
async def contributors(site: CurrentSite) -> Response:
    return await _cached(site, ("contributors",), lambda: {"contributors": site.reader.contributors()})


@reading("/models", "Versions of the cross-device model with their error on held-out devices")
async def models(site: CurrentSite) -> Response:
    state = {"serving": site.served.number, "refit": vars(site.refitter.state)}
    return await _cached(site, ("models", json.dumps(state)), lambda: {"models": site.reader.models(), **state})


@reading("/signature", "The networks that a new device runs, and some to check predictions by")
async def signature() -> Response:
    def listed(names: tuple[str, ...]) -> list[dict[str, Any]]:
        # The text too: a reader that is not Python may write 1.0 as 1, and a key is a hash of the text.
        return [
            {
                **network_json(item),
                "reference": item.to_json(),
                "reference_text": json.dumps(item.to_json()),
                "integrity": browser.known_integrity(item),
            }
            for item in browser.networks(names).values()
        ]

    found = await run_in_threadpool(lambda: {"signature": listed(browser.SIGNATURE), "check": listed(browser.CHECK)})
    return Response(as_json(found), media_type="application/json")


@reading("/health", "Whether the server can answer")
async def health(site: CurrentSite) -> Response:
    ready = await run_in_threadpool(site.healthy)
    return JSONResponse({"database": ready, "model": site.served.number}, status_code=200 if ready else 503)


@router.post(
    "/measurements",
    summary="Contribute measurements",
    description=f"JSON Lines, one measurement a line; at most {MAX_RECORDS} and {MAX_BODY_BYTES} bytes, gzip allowed. "
    "The same content may be sent again: it is stored once.",
    responses=says(400, 401, 413, 422, 503),
    openapi_extra={"requestBody": {"required": True, "content": {JSON_LINES: {"schema": {"type": "string"}}}}},
)
async def upload(site: CurrentSite, request: Request, credentials: Credentials) -> Response:
    database = site.database
    contributor_id, token = await run_in_threadpool(database.check_token, credentials.credentials if credentials else "")
    content = b"".join([portion async for portion in unpacked(request, MAX_CONTENT_BYTES, SEVERAL)])

    def store() -> dict[str, Any]:
        return database.receive(contributor_id, content, parse_upload(content), site.served.model, token)

    answer = await run_in_threadpool(store)
    if answer["accepted"] and not answer["repeated"]:
        site.cache.forget()
        site.refitter.notify()
    return JSONResponse(answer)
