"""The server: interface, pages, limits and headers around one database."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from latcast.errors import DatasetError, HubError, LatcastError
from latcast.hub import api, pages, predict_api
from latcast.hub.cache import follow
from latcast.hub.connections import Door
from latcast.hub.database import HubDatabase
from latcast.hub.isolation import IsolatedForecasts
from latcast.hub.limits import BodyLimits, RateLimit, RateLimits
from latcast.hub.observing import Metrics, Observed
from latcast.hub.predict_api import MAX_MODEL_BYTES, WITHOUT_WEIGHTS
from latcast.hub.site import ServerSettings, Site
from latcast.hub.uploads import MAX_BODY_BYTES, SEVERAL

_LOG = logging.getLogger("latcast.hub")


def make_app(
    database: HubDatabase,
    settings: ServerSettings | None = None,
    version: str = "0",
    door: Door | None = None,
    models: IsolatedForecasts | None = None,
) -> FastAPI:
    """Return the ASGI application of a hub.

    No origin but the server's own may read answers in a browser (there is no CORS header), and cookies are not used.

    Args:
        door: Counts connections, for the metrics.
        models: Reads models; where it was launched before, the first page waits less.
    """
    site = Site(database, settings or ServerSettings(), models)
    metrics = Metrics(site, door)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        closing = threading.Event()
        loading = asyncio.create_task(run_in_threadpool(site.preload, closing)) if site.settings.preload else None
        if site.settings.refit:
            await run_in_threadpool(site.refitter.start)
        following = asyncio.create_task(follow(database.revision, site.take_up))
        yield
        following.cancel()
        closing.set()
        if loading is not None:
            await loading
        await run_in_threadpool(site.models.stop)
        if site.settings.refit:
            site.refitter.stop()

    app = FastAPI(
        title="latcast hub",
        summary="Latencies of neural networks on devices, measured by many and predicted for all.",
        version=version,
        lifespan=lifespan,
        # Their pages load scripts from elsewhere; the document itself is what tools need.
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        middleware=[
            Middleware(Observed, metrics=metrics),
            Middleware(SecurityHeaders),
            Middleware(
                RateLimits,
                reads=RateLimit("reads", site.settings.reads_per_minute),
                writes=RateLimit("writes", site.settings.writes_per_minute),
            ),
            Middleware(
                BodyLimits,
                limits={"/api/predict": (MAX_MODEL_BYTES, WITHOUT_WEIGHTS), "/api/measurements": (MAX_BODY_BYTES, SEVERAL)},
            ),
        ],
    )
    app.state.site = site

    def refuse(request: Request, status: int, text: str, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
        """Answer with a page where a browser looks for one, and with JSON everywhere else."""
        if "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/"):
            answer: Response = pages.problem_page(status, text)
        else:
            answer = JSONResponse({"detail": text}, status_code=status)
        answer.headers.update(headers)
        return answer

    async def refuse_error(request: Request, problem: Exception) -> Response:
        if isinstance(problem, DatasetError):
            _LOG.error("%s %s: %s", request.method, request.url.path, problem)
            problem = HubError("the hub's database does not answer; try again later", 503)
        refusal = problem if isinstance(problem, HubError) else HubError(str(problem))
        headers = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "5"}}.get(refusal.status, {})
        if refusal.retry_after_s is not None:
            headers = {"retry-after": str(refusal.retry_after_s)}
        return refuse(request, refusal.status, str(refusal), headers)

    async def refuse_unserved(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        text = "no such page; the address may be mistyped" if problem.status_code == 404 else str(problem.detail)
        return refuse(request, problem.status_code, text, dict(problem.headers or {}))

    async def refuse_malformed(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        # Without the input, which JSON may not even be able to represent.
        found = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in problem.errors()[:5]]
        return refuse(request, 422, "; ".join(found).encode("utf-8", "replace").decode())

    app.add_exception_handler(LatcastError, refuse_error)
    app.add_exception_handler(HTTPException, refuse_unserved)
    app.add_exception_handler(RequestValidationError, refuse_malformed)
    for part in (api, predict_api, pages):
        app.include_router(part.router)
    app.add_api_route("/metrics", metrics.answer, methods=["GET"], include_in_schema=False)
    return app


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
    "worker-src 'self' blob:; "  # onnxruntime-web starts its threads from a blob where it must
    "connect-src 'self'; img-src 'self' data:; style-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
"""Content security policy: nothing from other servers, no inline script or style."""

SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    # The two that make a page isolated, which is what gives WebAssembly its threads (over HTTPS or on localhost).
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-embedder-policy", b"require-corp"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


class SecurityHeaders:
    """Adds :data:`SECURITY_HEADERS` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
            await send(message)

        await self.app(scope, receive, send_with_headers)
