"""The server: interface, pages, limits and headers around one database."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.middleware import Middleware

from latcast.errors import DatasetError, LatcastError
from latcast.hub.api import Api, status_of
from latcast.hub.database import RepositoryDatabase
from latcast.hub.headers import RateLimits, SecurityHeaders
from latcast.hub.limits import RateLimit
from latcast.hub.pages import Pages
from latcast.hub.site import ServerSettings, Site

_LOG = logging.getLogger("latcast.hub")


def make_app(database: RepositoryDatabase, settings: ServerSettings | None = None, version: str = "0") -> FastAPI:
    """The ASGI application of a repository.

    No origin but the server's own may read answers in a browser (there is no CORS header), and cookies are not used.

    Args:
        database: Open; the caller closes it.
        settings: Limits and refitting.
        version: Of latcast, for OpenAPI.
    """
    site = Site(database, settings or ServerSettings())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if site.settings.refit:
            site.refitter.start()
        yield
        if site.settings.refit:
            site.refitter.stop()

    app = FastAPI(
        title="latcast repository",
        summary="Latencies of neural networks on devices, measured by many and predicted for all.",
        version=version,
        lifespan=lifespan,
        # Their pages load scripts from elsewhere; the document itself is what tools need.
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(
                RateLimits,
                reads=RateLimit(site.settings.reads_per_minute),
                writes=RateLimit(site.settings.writes_per_minute),
            ),
        ],
    )
    app.state.site = site
    app.add_exception_handler(LatcastError, _refusal)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.include_router(Api(site).router())
    app.include_router(Pages(site).router())
    return app


async def _refusal(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, LatcastError)
    status = status_of(problem)
    text = str(problem)
    if isinstance(problem, DatasetError):
        _LOG.error("%s %s: %s", request.method, request.url.path, problem)
        text = "the repository's database does not answer; try again later"
    headers = {"www-authenticate": "Bearer"} if status == 401 else {"retry-after": "5"} if status == 503 else None
    return JSONResponse({"detail": text}, status_code=status, headers=headers)


async def _malformed(request: Request, problem: Exception) -> JSONResponse:
    """Without the input, which may not even be representable in JSON."""
    assert isinstance(problem, RequestValidationError)
    found = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in problem.errors()[:5]]
    text = "; ".join(found).encode("utf-8", "replace").decode()
    return JSONResponse({"detail": text}, status_code=422)
