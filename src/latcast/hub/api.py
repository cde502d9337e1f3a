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
from latcast.hub.queries import NotFoundError
from latcast.hub.site import Site, as_json
from latcast.hub.snapshot import list_snapshots, snapshot_file
from latcast.hub.uploads import MAX_BODY_BYTES, MAX_CONTENT_BYTES, MAX_RECORDS, SEVERAL, parse_upload, unpacked

JSON_LINES = "application/x-ndjson"
PLATFORM_PATH = "{device}/{runtime}/{unit}/{precision}"

Part = Annotated[str, Path(max_length=100, description="A part of a platform id: device/runtime-version/unit/precision.")]


def platform_id(device: Part, runtime: Part, unit: Part, precision: Part) -> str:
    """Return the platform id in :data:`PLATFORM_PATH`."""
    return f"{device}/{runtime}/{unit}/{precision}"


PlatformId = Annotated[str, Depends(platform_id)]
Key = Annotated[str, Path(max_length=64, description="A network's key.")]
MaybePlatform = Annotated[str | None, Query(max_length=200, description="Only of this platform id.")]
MaybeNetwork = Annotated[str | None, Query(max_length=64, description="Only of the network with this key.")]
NetworkPrecision = Annotated[str, Query(pattern="^(fp32|int8)$", description='"fp32" or "int8", quantised.')]
MaybeRole = Annotated[str | None, Query(pattern="^(network|kernel)$", description='"network" or "kernel".')]

_SAID: dict[str, Any] = {
    "type": "object",
    "properties": {"detail": {"description": "What was found, what was expected, what to do."}},
    "required": ["detail"],
}


def says(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return refusals for the OpenAPI document."""
    texts = {
        400: "The body cannot be read.",
        401: "No token, or one that is not valid.",
        404: "There is nothing of this name.",
        413: "Larger than an upload may be.",
        422: "Malformed; nothing was stored.",
        429: "Too many requests from this address; Retry-After says when to try again.",
        409: "There is no model yet; try again in a minute.",
        503: "The database does not answer.",
    }
    return {code: {"description": texts[code], "content": {"application/json": {"schema": _SAID}}} for code in (*codes, 429)}


bearer = HTTPBearer(auto_error=False, description="A token from the hub's administrator; reading needs none.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


class Api:
    """The routes of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def router(self) -> APIRouter:
        """Return all routes, below ``/api``."""
        router = APIRouter(prefix="/api")
        reader = self.site.reader
        reading: tuple[tuple[str, Callable[..., Any], str, tuple[int, ...]], ...] = (
            ("/devices", self._listing("devices", DEVICES, reader.devices), "Devices with their platforms", (422,)),
            (
                "/platforms",
                self._listing("platforms", PLATFORMS, reader.all_platforms),
                "Platforms: those measured here, and those that come with latcast",
                (422,),
            ),
            ("/platforms/" + PLATFORM_PATH, self.platform, "What is measured and predicted of a platform", (404, 422)),
            ("/bundles/" + PLATFORM_PATH, self.bundle, "The predictor of a platform, for latcast predict --on hub:", (404, 422)),
            ("/bundles/" + PLATFORM_PATH + "/digest", self.digest, "The size and the SHA-256 of such a predictor", (404, 422)),
            ("/snapshots", self.snapshots, "Versions of all measurements that stay as they are", ()),
            ("/snapshots/{version}/{name}", self.snapshot, "A file of such a version", (404, 422)),
            ("/networks", self._listing("networks", NETWORKS, reader.networks), "Networks with their range of latencies", (422,)),
            ("/networks/{key}", self.network, "A network with its latency on each platform", (404, 422)),
            ("/networks/{key}/onnx", self.onnx, "A signature network as an ONNX file", (404, 422)),
            ("/measurements", self.measurements, "Measurements, in portions", (422,)),
            ("/export", self.export, "All measurements as compressed JSON Lines", (422,)),
            ("/contributors", self.contributors, "Who contributed how much", ()),
            ("/models", self.models, "Versions of the cross-device model with their error on held-out devices", ()),
            ("/signature", self.signature, "The networks that a new device runs, and some to check predictions by", ()),
            ("/health", self.health, "Whether the server can answer", ()),
        )
        for path, function, summary, codes in reading:
            router.add_api_route(path, function, methods=["GET"], summary=summary, responses=says(*codes, 503))
        router.add_api_route(
            "/measurements",
            self.upload,
            methods=["POST"],
            summary="Contribute measurements",
            description=f"JSON Lines, one measurement a line; at most {MAX_RECORDS} and {MAX_BODY_BYTES} bytes, gzip allowed. "
            "The same content may be sent again: it is stored once.",
            responses=says(400, 401, 413, 422, 503),
            openapi_extra={"requestBody": {"required": True, "content": {JSON_LINES: {"schema": {"type": "string"}}}}},
        )
        return router

    async def _cached(self, key: tuple[str, ...], make: Callable[[], Any]) -> Response:
        content = await self.site.cache.answer(key, lambda: as_json(make()))
        return Response(content, media_type="application/json")

    def _listing(self, what: str, listing: Listing, rows: Callable[[], Sequence[Row]]) -> Callable[..., Any]:
        """Return the route of a list, which is found in, sorted, and given in portions."""

        async def listed(find: Find = "", sort: SortBy = "", limit: Limit = None, cursor: Cursor = "") -> Response:
            def portion() -> dict[str, Any]:
                found = listing.portion(rows(), find, sort, limit, cursor)
                return {what: found.rows, "total": found.total, "next": found.next}

            return await self._cached((what, find, sort, str(limit), cursor), portion)

        return listed

    async def contributors(self) -> Response:
        return await self._cached(("contributors",), lambda: {"contributors": self.site.reader.contributors()})

    async def models(self) -> Response:
        refit = self.site.refitter.state.to_json()
        serving = self.site.served.number
        return await self._cached(
            ("models", json.dumps(refit), str(serving)),
            lambda: {"models": self.site.reader.models(), "serving": serving, "refit": refit},
        )

    async def platform(self, platform: PlatformId) -> Response:
        predict = self.site.forecaster.predict
        return await self._cached(("platform", platform), lambda: self.site.reader.device_page(platform, predict))

    async def bundle(self, platform: PlatformId) -> Response:
        return Response(await self._bundle(platform), media_type="application/zip")

    async def digest(self, platform: PlatformId) -> Response:
        content = await self._bundle(platform)
        return JSONResponse({"platform": platform, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})

    async def _bundle(self, platform: str) -> bytes:
        return await self.site.cache.answer(("bundle", platform), lambda: self.site.reader.bundle(platform))

    async def snapshots(self) -> Response:
        found = await run_in_threadpool(list_snapshots, self.site.settings.snapshots)
        return Response(as_json({"snapshots": [each.to_json() for each in found]}), media_type="application/json")

    async def snapshot(self, version: Key, name: Key) -> Response:
        try:
            path = snapshot_file(self.site.settings.snapshots, version, name)
        except HubError as problem:
            raise NotFoundError(str(problem)) from problem
        return FileResponse(path, media_type="application/octet-stream", filename=f"{version}-{name}")

    async def network(self, key: Key) -> Response:
        return await self._cached(("network", key), lambda: self.site.reader.network(key))

    async def signature(self) -> Response:
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

    async def onnx(self, key: Key, precision: NetworkPrecision = "fp32") -> Response:
        reference = browser.served_networks().get(key)
        if reference is None:
            raise NotFoundError(f"'{key}' is not a signature network; /api/signature lists them")
        file = await run_in_threadpool(browser.onnx_file, reference, precision)
        return FileResponse(
            file, media_type="application/octet-stream", headers={"content-encoding": "gzip", "cache-control": "max-age=86400"}
        )

    async def measurements(
        self,
        platform: MaybePlatform = None,
        network: MaybeNetwork = None,
        role: MaybeRole = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        cursor: Cursor = "",
    ) -> Response:
        found = await run_in_threadpool(
            self.site.reader.measurements, platform=platform, network=network, role=role, after=cursor, limit=limit
        )
        following = found[-1]["id"] if len(found) == limit else None
        return Response(as_json({"measurements": found, "next": following}), media_type="application/json")

    async def export(self, platform: MaybePlatform = None, role: MaybeRole = None) -> Response:
        return StreamingResponse(
            self.site.reader.export(platform=platform, role=role),
            media_type="application/gzip",
            headers={"content-disposition": 'attachment; filename="measurements.jsonl.gz"'},
        )

    async def health(self) -> Response:
        ready = await run_in_threadpool(self.site.healthy)
        return JSONResponse({"database": ready, "model": self.site.served.number}, status_code=200 if ready else 503)

    async def upload(self, request: Request, credentials: Credentials) -> Response:
        database = self.site.database
        contributor_id, token = await run_in_threadpool(database.check_token, credentials.credentials if credentials else "")
        content = b"".join([portion async for portion in unpacked(request, MAX_CONTENT_BYTES, SEVERAL)])

        def store() -> dict[str, Any]:
            return database.receive(contributor_id, content, parse_upload(content), self.site.served.model, token)

        answer = await run_in_threadpool(store)
        if answer["accepted"] and not answer["repeated"]:
            self.site.cache.forget()
            self.site.refitter.notify()
        return JSONResponse(answer)
