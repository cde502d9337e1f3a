"""Watching a running hub: metrics for Prometheus, and an access log of JSON lines."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from logging.handlers import WatchedFileHandler

from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from latcast.environment import utc_now
from latcast.hub.connections import Door
from latcast.hub.site import Site
from latcast.hub.workers import SHARED_FOLDER

ACCESS_LOG = logging.getLogger("latcast.hub.access")

BUCKETS_S = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class Metrics:
    """The metrics of one server; without a ``door`` no connections are counted."""

    def __init__(self, site: Site, door: Door | None) -> None:
        self._site = site
        self._door = door
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "latcast_hub_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "latcast_hub_request_seconds", "From a request to the end of its answer.", ("route",), buckets=BUCKETS_S,
            registry=self.registry,
        )  # fmt: skip
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the present state of this process."""
        version = self._site.served.number or 0
        yield GaugeMetricFamily("latcast_hub_model_version", "The model that serves; 0 for none.", version)
        yield GaugeMetricFamily(
            "latcast_hub_models_running", "Strangers' models that are read or wait.", self._site.models.inside
        )
        if self._door is not None:
            yield GaugeMetricFamily("latcast_hub_connections", "Open connections.", self._door.open.total())
            yield CounterMetricFamily("latcast_hub_connections_refused", "Of addresses that had too many.", self._door.refused)
            yield CounterMetricFamily("latcast_hub_connections_too_slow", "That were cut off.", self._door.too_slow)

    def answer(self) -> Response:
        """Return all of them, as Prometheus reads them."""
        registry = self.registry
        if os.environ.get(SHARED_FOLDER):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class Observed:
    """Counts each request, and writes a line about it where the log is on.

    The line has no query, no header and no whole address: nothing that identifies a person.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun_s = time.monotonic()
        status, sent_bytes = 500, 0

        async def watched(message: Message) -> None:
            nonlocal status, sent_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                sent_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            spent_s = time.monotonic() - begun_s
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
            self.metrics.requests.labels(method, route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(spent_s)
            if ACCESS_LOG.isEnabledFor(logging.INFO):
                line = {
                    "time": utc_now(),
                    "method": method,
                    "path": scope["path"][:200],
                    "status": status,
                    "ms": round(spent_s * 1e3, 1),
                    "bytes": sent_bytes,
                    "network": network_text(str((scope.get("client") or ("",))[0])),
                }
                ACCESS_LOG.info(json.dumps(line, ensure_ascii=False))


def network_text(address: str) -> str:
    """Return the network of an address, which identifies no person: the /24 of IPv4, the /48 of IPv6; empty for other texts."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    return str(ip_network((found, 24 if found.version == 4 else 48), strict=False))


def log_access(where: str) -> None:
    """Write a line for each request to a file, which may be moved away meanwhile, or to standard output where it is "-".

    Raises:
        OSError: The file cannot be opened.
    """
    handler = logging.StreamHandler(sys.stdout) if where == "-" else WatchedFileHandler(where, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    ACCESS_LOG.addHandler(handler)
    ACCESS_LOG.setLevel(logging.INFO)
    ACCESS_LOG.propagate = False
