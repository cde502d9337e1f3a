"""``POST /api/predict``: how long a stranger's model takes on all known platforms; kept only where its user says so."""

from __future__ import annotations

import tempfile
import zlib
from typing import IO, Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from latcast.errors import HubError
from latcast.hub.api import says
from latcast.hub.isolation import UnavailableError
from latcast.hub.limits import RateLimit, TooOftenError, address_of
from latcast.hub.model_forecasts import MAX_KERNELS, ModelRequest
from latcast.hub.queries import NotFoundError
from latcast.hub.site import ForecastRequest, Site, forecast
from latcast.hub.uploads import TooLargeError, UnreadableBodyError

MAX_MODEL_BYTES = 32_000_000
"""Of a model's file, after decompression too. Weights are not needed: the page leaves them out, and so may others."""

MAX_LATENCIES_BYTES = 1_000_000
"""Of a body of JSON."""

WITHOUT_WEIGHTS = "leave out the weights, as the page does: only shapes are looked at"

BODIES, BODIES_OF_ONE = 32, 4
"""Models that may be arriving at once, and those of one address."""

COST_OF_KERNELS = 0.25
"""Of a look at one platform, where all of them cost 1."""

_LATENCIES = TypeAdapter(ForecastRequest)

_DESCRIPTION = f"""Nothing is kept of the body. It is one of:

- an ONNX or TFLite file of at most {MAX_MODEL_BYTES} bytes, gzip allowed: its latency on every platform, or on those
  that `on` names. Weights may be left out: tensors keep their sizes and lose their data, but for the small ones that say shapes.
- nothing, with `model` (a published network) or `shared` (the key of a shared link).
- JSON with latencies of a device by network key: predictions of other networks on it, by the hub's model."""

Name = Annotated[str, Query(max_length=200, description="What the model is to be called in the answer.")]
Published = Annotated[str | None, Query(max_length=200, description="A published network, as `latcast models` lists them.")]
Shared = Annotated[str | None, Query(max_length=64, description="The key of a shared link.")]
Shapes = Annotated[
    list[str] | None, Query(max_length=16, description="Sizes of an input, for dynamic ones: input=1,3,224,224; repeatable.")
]
On = Annotated[str | None, Query(max_length=200, description="Part of a platform id, or a glob of it; all where left out.")]
Kernels = Annotated[str | None, Query(max_length=200, description="The platform whose longest kernels are wanted instead.")]
Top = Annotated[int, Query(ge=1, le=MAX_KERNELS, description="How many kernels.")]
Share = Annotated[bool, Query(description="Keep the shapes (no weights, no names) behind a link.")]


class PredictApi:
    """The route of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._rate = RateLimit("models", site.settings.models_per_minute, burst=max(10, site.settings.models_per_minute // 3))
        self._arriving: dict[str, int] = {}

    def router(self) -> APIRouter:
        """The route, below ``/api``."""
        router = APIRouter(prefix="/api")
        binary = {"schema": {"type": "string", "format": "binary"}}
        latencies = {"schema": _LATENCIES.json_schema()}
        router.add_api_route(
            "/predict",
            self.predict,
            methods=["POST"],
            summary="How long a model takes on all platforms; or networks on a device, from some of its latencies",
            description=_DESCRIPTION,
            responses=says(400, 404, 409, 413, 422, 503),
            openapi_extra={
                "requestBody": {"content": {"application/octet-stream": binary, "application/json": latencies}},
            },
        )
        return router

    async def predict(
        self,
        request: Request,
        name: Name = "model",
        model: Published = None,
        shared: Shared = None,
        shape: Shapes = None,
        on: On = None,
        kernels: Kernels = None,
        top: Top = 15,
        share: Share = False,
    ) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
            return await self._of_latencies(request)
        wait_s = self._rate.wait_s(address_of(request.scope), COST_OF_KERNELS if kernels is not None else 1.0)
        if wait_s:
            raise TooOftenError(wait_s)
        wanted = ModelRequest(
            name=model or name,
            source="name" if model else "shapes" if shared else "file",
            shapes=tuple(shape or ()),
            on=on or None,
            kernels=kernels,
            top=top,
            share=share,
            compressed="gzip" in request.headers.get("accept-encoding", ""),
        )
        with tempfile.TemporaryFile(prefix="latcast-") as file:
            if shared:
                file.write(await self._shapes(shared))
            elif not model:
                await self._receive(request, file)
            file.flush()
            answer = await self.site.models.ask(wanted, file)
        if answer.packed:
            await run_in_threadpool(self.site.database.share_model, answer.key, answer.packed)
        encoded = {"content-encoding": "gzip"} if wanted.compressed and answer.status == 200 else {}
        return Response(answer.body, answer.status, {**encoded, "vary": "accept-encoding"}, media_type="application/json")

    async def _of_latencies(self, request: Request) -> Response:
        with tempfile.TemporaryFile(prefix="latcast-") as file:
            await spool(request, file, MAX_LATENCIES_BYTES)
            file.seek(0)
            try:
                wanted = _LATENCIES.validate_json(file.read())
            except ValidationError as problem:
                raise RequestValidationError(problem.errors()) from problem
        return JSONResponse(await run_in_threadpool(forecast, self.site, wanted))

    async def _shapes(self, key: str) -> bytes:
        found = await run_in_threadpool(self.site.database.shared_model, key)
        if found is None:
            raise NotFoundError(f"no model is shared under '{key[:40]}'; its link may have been removed")
        return found

    async def _receive(self, request: Request, file: IO[bytes]) -> None:
        """Writes a body to a file; so many at a time, so that slow senders do not take the places of others."""
        address = address_of(request.scope)
        mine = self._arriving.get(address, 0)
        if mine >= BODIES_OF_ONE or sum(self._arriving.values()) >= BODIES:
            raise UnavailableError("too many models are being sent at once; try again in a few seconds")
        self._arriving[address] = mine + 1
        try:
            size = await spool(request, file, MAX_MODEL_BYTES)
        finally:
            self._arriving[address] -= 1
            if not self._arriving[address]:
                del self._arriving[address]
        if not size:
            raise HubError("no model in the request; send an ONNX or TFLite file, or name a published network with model=")


async def spool(request: Request, file: IO[bytes], most_bytes: int) -> int:
    """Writes the body of a request to a file, unpacked.

    Returns:
        Bytes written.

    Raises:
        TooLargeError: More than ``most_bytes``.
        UnreadableBodyError: Not gzip as its header says.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise UnreadableBodyError(f"Content-Encoding '{encoding[:40]}'; expected gzip or none")
    unpacker = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    size = 0
    try:
        async for portion in request.stream():
            if unpacker is not None:
                portion = unpacker.decompress(portion, most_bytes + 1 - size)
            size += len(portion)
            if size > most_bytes:
                raise TooLargeError(f"more than {most_bytes} bytes; {WITHOUT_WEIGHTS}")
            file.write(portion)
    except zlib.error as problem:
        raise UnreadableBodyError(f"not gzip as its header says ({problem})") from problem
    if unpacker is not None and not unpacker.eof:
        raise UnreadableBodyError("gzip content that is cut off")
    return size
