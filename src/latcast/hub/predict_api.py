"""``POST /api/predict``: the latency of a stranger's model on all known platforms; kept only where its user says so."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import IO, Annotated, Any

from annotated_types import Gt, Le, Len
from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from latcast.errors import HubError
from latcast.hub import browser
from latcast.hub.api import CurrentSite, says
from latcast.hub.entries import network_json, why_not_predicted
from latcast.hub.limits import address_of
from latcast.hub.model_forecasts import MAX_KERNELS, ModelAnswer, ModelRequest
from latcast.hub.site import Site
from latcast.hub.uploads import unpacked

MAX_MODEL_BYTES = 32_000_000
"""Bytes of a model's file, after decompression too. Weights are not needed: the page leaves them out, and so may others."""

MAX_LATENCIES_BYTES = 1_000_000
"""Bytes of a body of JSON."""

LINES = "application/x-ndjson"
"""Type of an answer whose predictions come as they are made: a client that accepts it gets a line of JSON each portion."""

WITHOUT_WEIGHTS = "leave out the weights, as the page does: only shapes are looked at"

COST_OF_KERNELS = 0.25
"""Cost of the kernels on one platform, where a prediction on all platforms costs 1."""


@dataclass
class ForecastRequest:
    """Measured latencies of a device (ms, by network key), and the keys of networks to predict; all known ones where empty."""

    measured: Annotated[dict[str, Annotated[float, Gt(0), Le(1e6)]], Len(1, 1000)]
    networks: Annotated[list[str], Len(0, 1000)] = field(default_factory=list)


_LATENCIES = TypeAdapter(ForecastRequest)

_DESCRIPTION = f"""Nothing is kept of the body. It is one of:

- an ONNX or TFLite file of at most {MAX_MODEL_BYTES} bytes, gzip allowed: its latency on every platform, or on those
  that `on` names. Weights may be left out: tensors keep their sizes and lose their data, but for the small ones that say shapes.
- nothing, with `model` (a published network) or `shared` (the key of a shared link).
- JSON with latencies of a device by network key: predictions of other networks on it, by the hub's model.

Who accepts `{LINES}` gets a model's predictions as they are made, in lines of JSON: `model` and `predictions`, further
`predictions`, and at last `not_predicted`."""

Name = Annotated[str, Query(max_length=200, description="What the model is to be called in the answer.")]
Published = Annotated[str | None, Query(max_length=200, description="A published network, as `latcast models` lists them.")]
Shared = Annotated[str | None, Query(max_length=64, description="The key of a shared link.")]
Shapes = Annotated[
    list[str] | None, Query(max_length=16, description="Sizes of an input, for dynamic ones: input=1,3,224,224; repeatable.")
]
Signature = Annotated[str, Query(max_length=200, description="Which signature of a TFLite file; its main network if left out.")]
Values = Annotated[
    list[str] | None,
    Query(max_length=16, description="Value of an input that decides a branch or sizes: rate=16000; repeatable."),
]
On = Annotated[
    str | None,
    Query(max_length=200, description="A device, chip or platform, as `latcast predict --on` takes it; all where left out."),
]
Kernels = Annotated[str | None, Query(max_length=200, description="The platform whose longest kernels are wanted instead.")]
Top = Annotated[int, Query(ge=1, le=MAX_KERNELS, description="How many kernels.")]
Share = Annotated[bool, Query(description="Keep the shapes (no weights, no names) behind a link.")]

router = APIRouter(prefix="/api")


@router.post(
    "/predict",
    summary="How long a model takes on all platforms; or networks on a device, from some of its latencies",
    description=_DESCRIPTION,
    responses=says(400, 404, 409, 413, 422, 503),
    openapi_extra={
        "requestBody": {
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                "application/json": {"schema": _LATENCIES.json_schema()},
            }
        }
    },
)
async def predict(
    site: CurrentSite,
    request: Request,
    name: Name = "model",
    model: Published = None,
    shared: Shared = None,
    shape: Shapes = None,
    signature: Signature = "",
    value: Values = None,
    on: On = None,
    kernels: Kernels = None,
    top: Top = 15,
    share: Share = False,
) -> Response:
    address = address_of(request.scope)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        return await _predict_from_latencies(site, request, address)
    cost = COST_OF_KERNELS if kernels is not None else 1.0
    wanted = ModelRequest(
        name=model or name,
        source="name" if model else "shapes" if shared else "file",
        shapes=tuple(shape or ()),
        signature=signature,
        values=tuple(value or ()),
        on=on or None,
        kernels=kernels,
        top=top,
        share=share,
        compressed="gzip" in request.headers.get("accept-encoding", ""),
        streamed=LINES in request.headers.get("accept", ""),
    )

    async def asked() -> AsyncGenerator[ModelAnswer, None]:
        with site.turns.place(address, cost), tempfile.TemporaryFile(prefix="latcast-") as file:
            if shared:
                file.write(await run_in_threadpool(site.shared_model, shared))
            elif not model and not await _spool(request, file, MAX_MODEL_BYTES):
                raise HubError("no model in the request; send an ONNX or TFLite file, or name a published network with model=")
            file.flush()
            async with site.turns.turn(address), aclosing(site.models.ask(wanted, file)) as parts:
                cpu_s = 0.0
                try:
                    async for part in parts:
                        cpu_s = part.cpu_s
                        yield part
                finally:
                    site.turns.charge(address, cpu_s, cost)

    answers = asked()
    answer = await anext(answers)
    if answer.packed:
        await run_in_threadpool(site.database.share_model, answer.key, answer.packed)
    encoded = {"content-encoding": "gzip"} if wanted.compressed and answer.status == 200 else {}
    headers = {**encoded, "vary": "accept, accept-encoding"}
    if answer.last:
        await answers.aclose()
        return Response(answer.body, answer.status, headers, media_type="application/json")

    return StreamingResponse(_bodies(answer, answers), 200, headers, media_type=LINES)


async def _bodies(first: ModelAnswer, answers: AsyncGenerator[ModelAnswer, None]) -> AsyncGenerator[bytes, None]:
    """Give the bodies of an answer as they are made; a client that reads slowly does not hold up the rest, nor keep its turn."""
    made: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def read() -> None:
        try:
            async with aclosing(answers):
                async for part in answers:
                    if part.status == 200:  # else it was ended by its limits, and has no last line
                        made.put_nowait(part.body)
        finally:
            made.put_nowait(None)

    reading = asyncio.create_task(read())
    try:
        yield first.body
        while (body := await made.get()) is not None:
            yield body
        await reading
    finally:
        reading.cancel()


async def _predict_from_latencies(site: Site, request: Request, address: str) -> Response:
    with site.turns.place(address, COST_OF_KERNELS), tempfile.TemporaryFile(prefix="latcast-") as file:
        await _spool(request, file, MAX_LATENCIES_BYTES)
        file.seek(0)
        try:
            wanted = _LATENCIES.validate_json(file.read())
        except ValidationError as problem:
            raise RequestValidationError(problem.errors()) from problem

        def timed() -> tuple[dict[str, Any], float]:
            begun_s = time.thread_time()
            found = _forecast(site, wanted)
            return found, time.thread_time() - begun_s

        async with site.turns.turn(address):
            found, cpu_s = await run_in_threadpool(timed)
            site.turns.charge(address, cpu_s, COST_OF_KERNELS)
    return JSONResponse(found)


async def _spool(request: Request, file: IO[bytes], most_bytes: int) -> int:
    """Write a body to a file and return its number of bytes, uncompressed; errors are those of :func:`unpacked`."""
    async for portion in unpacked(request, most_bytes, WITHOUT_WEIGHTS, may_be_tflite=True):
        file.write(portion)
    return file.tell()


def _forecast(site: Site, wanted: ForecastRequest) -> dict[str, Any]:
    """Predict networks, with null figures and a reason for those that the model cannot predict; nothing is stored.

    Raises:
        HubError: There is no model (409), or a network is not known.
    """
    version, model = site.served.version, site.served.model
    if version is None:
        raise HubError("no model has been fitted yet; contribute measurements, or try again in a minute", 409)
    known = {**browser.served_networks(), **site.reader.references()}
    unknown = [key for key in (*wanted.measured, *wanted.networks) if key not in known]
    if unknown:
        raise HubError(f"no network has the key '{unknown[0][:40]}'; /api/networks lists them")
    references = [known[key] for key in wanted.networks] or [item for key, item in known.items() if key not in wanted.measured]
    forecasts = site.forecaster.predict(references, wanted.measured)
    nothing = {"latency_ms": None, "low_ms": None, "high_ms": None}
    predictions = [
        {**network_json(item), **asdict(forecasts[item.key]), "reason": None}
        if item.key in forecasts
        else {**network_json(item), **nothing, "reason": why_not_predicted(model, item.key, wanted.measured)}
        for item in references
    ]
    return {"model": version.number, "predictions": predictions}
