"""What every answer says to browsers, and how often an address may ask: plain ASGI, as it runs for each request."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from latcast.hub.limits import RateLimit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "worker-src 'self' blob:",  # onnxruntime-web starts its threads from a blob where it must
        "connect-src 'self'",
        "img-src 'self' data:",
        "style-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing from anywhere else, no inline script or style."""

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

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
            await send(message)

        await self.app(scope, receive, with_headers)


class RateLimits:
    """Answers 429 to an address that asks too often; reading and writing are counted apart.

    Args:
        app: What to protect.
        reads: Limit of GET and HEAD.
        writes: Limit of everything else.
    """

    def __init__(self, app: Application, reads: RateLimit, writes: RateLimit) -> None:
        self.app = app
        self.reads = reads
        self.writes = writes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            limit = self.reads if scope["method"] in ("GET", "HEAD") else self.writes
            wait_s = limit.wait_s((scope.get("client") or ("unknown",))[0])
            if wait_s:
                text = f"too many requests from this address; try again in {wait_s} s"
                await _refuse(send, 429, text, ((b"retry-after", str(wait_s).encode()),))
                return
        await self.app(scope, receive, send)


async def _refuse(send: Send, status: int, text: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    body = json.dumps({"detail": text}).encode()
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})
