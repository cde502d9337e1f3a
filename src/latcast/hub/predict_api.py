"""``POST /api/predict``: the latency of a stranger's model on all known platforms; kept only where its user says so."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import IO, Annotated, Any
from weakref import WeakValueDictionary

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from latcast.errors import HubError
from latcast.hub.api import says
from latcast.hub.isolation import USUAL_CPU_S, UnavailableError
from latcast.hub.limits import RateLimit, TooOftenError, address_of
from latcast.hub.model_forecasts import MAX_KERNELS, ModelRequest
from latcast.hub.queries import NotFoundError
from latcast.hub.site import ForecastRequest, Site, forecast
from latcast.hub.uploads import unpacked

MAX_MODEL_BYTES = 32_000_000
"""Of a model's file, after decompression too. Weights are not needed: the page leaves them out, and so may others."""

MAX_LATENCIES_BYTES = 1_000_000
"""Of a body of JSON."""

WITHOUT_WEIGHTS = "leave out the weights, as the page does: only shapes are looked at"

PLACES, PLACES_OF_ONE = 256, 4
"""Requests that may arrive, wait or be answered at once, and those of one address: of these a single one is being answered."""

COST_OF_KERNELS = 0.25
"""Of the kernels on one platform, where a prediction on all of them costs 1."""

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
Values = Annotated[
    list[str] | None,
    Query(max_length=16, description="Value of an input that decides a branch or sizes: rate=16000; repeatable."),
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
        self._inside: Counter[str] = Counter()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def router(self) -> APIRouter:
        """Return the route, below ``/api``."""
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
            openapi_extra={"requestBody": {"content": {"application/octet-stream": binary, "application/json": latencies}}},
        )
        return router

    async def predict(
        self,
        request: Request,
        name: Name = "model",
        model: Published = None,
        shared: Shared = None,
        shape: Shapes = None,
        value: Values = None,
        on: On = None,
        kernels: Kernels = None,
        top: Top = 15,
        share: Share = False,
    ) -> Response:
        address = address_of(request.scope)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
            return await self._of_latencies(request, address)
        cost = COST_OF_KERNELS if kernels is not None else 1.0
        self._take(address, cost)
        wanted = ModelRequest(
            name=model or name,
            source="name" if model else "shapes" if shared else "file",
            shapes=tuple(shape or ()),
            values=tuple(value or ()),
            on=on or None,
            kernels=kernels,
            top=top,
            share=share,
            compressed="gzip" in request.headers.get("accept-encoding", ""),
        )
        with self._place(address), tempfile.TemporaryFile(prefix="latcast-") as file:
            if shared:
                shapes = await run_in_threadpool(self.site.database.shared_model, shared)
                if shapes is None:
                    raise NotFoundError(f"no model is shared under '{shared[:40]}'; its link may have been removed")
                file.write(shapes)
            elif not model and not await _spool(request, file, MAX_MODEL_BYTES):
                raise HubError("no model in the request; send an ONNX or TFLite file, or name a published network with model=")
            file.flush()
            async with self._turn(address):
                answer = await self.site.models.ask(wanted, file)
                self._rate.charge(address, answer.cpu_s / USUAL_CPU_S - cost)
        if answer.packed:
            await run_in_threadpool(self.site.database.share_model, answer.key, answer.packed)
        encoded = {"content-encoding": "gzip"} if wanted.compressed and answer.status == 200 else {}
        return Response(answer.body, answer.status, {**encoded, "vary": "accept-encoding"}, media_type="application/json")

    async def _of_latencies(self, request: Request, address: str) -> Response:
        self._take(address, COST_OF_KERNELS)
        with self._place(address), tempfile.TemporaryFile(prefix="latcast-") as file:
            await _spool(request, file, MAX_LATENCIES_BYTES)
            file.seek(0)
            try:
                wanted = _LATENCIES.validate_json(file.read())
            except ValidationError as problem:
                raise RequestValidationError(problem.errors()) from problem

            def predict() -> tuple[dict[str, Any], float]:
                begun_s = time.thread_time()
                found = forecast(self.site, wanted)
                return found, time.thread_time() - begun_s

            async with self._turn(address):
                found, cpu_s = await run_in_threadpool(predict)
                self._rate.charge(address, cpu_s / USUAL_CPU_S - COST_OF_KERNELS)
        return JSONResponse(found)

    @contextmanager
    def _place(self, address: str) -> Iterator[None]:
        """Hold a place from before a body arrives until it is answered.

        Raises:
            UnavailableError: The address has too many, or all of them together have.
        """
        if self._inside[address] >= PLACES_OF_ONE or self._inside.total() >= PLACES:
            raise UnavailableError("too many models are being sent or read at once; try again in a few seconds")
        self._inside[address] += 1
        try:
            yield
        finally:
            self._inside -= Counter([address])

    @asynccontextmanager
    async def _turn(self, address: str) -> AsyncIterator[None]:
        """Wait until no other model of the address is being read.

        Raises:
            TooOftenError: Its other models have cost more meanwhile than it may spend.
        """
        async with self._turns.setdefault(address, asyncio.Lock()):
            self._take(address, 0.0)
            yield

    def _take(self, address: str, cost: float) -> None:
        wait_s = self._rate.wait_s(address, cost)
        if wait_s:
            raise TooOftenError(wait_s)


async def _spool(request: Request, file: IO[bytes], most_bytes: int) -> int:
    """Write a body to a file and return its number of bytes, uncompressed; errors are those of :func:`unpacked`."""
    async for portion in unpacked(request, most_bytes, WITHOUT_WEIGHTS, may_be_tflite=True):
        file.write(portion)
    return file.tell()
