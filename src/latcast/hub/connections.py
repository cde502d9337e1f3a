"""Limits of one connection and one address: slow headers, slow readers and hundreds of open connections are ended.

A layer below the application, as a connection that never sends a request never gets there.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address, ip_network
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from latcast.hub.addresses import MOST_WORKERS, AddressTable, network_of, own_place

HEADER_S = 10.0
"""Time for a request's headers, from the connection or from the reading of the last answer."""

KEEP_ALIVE_S = 15

STALLED_S, LEAST_BYTES_PER_S = 20.0, 1000.0
"""A reader that takes less than that is left alone for so long, then it is cut off."""

LINGERING_S = 2.0
"""Time for which the rest of a refused body is read and dropped, so that its sender sees the answer."""

MAX_HEADER_BYTES = 16_384

MAX_CONNECTIONS = 1000
"""Connections of all addresses; beyond it every request is answered with 503."""

_REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\nretry-after: 10\r\ncontent-length: 0\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Door:
    """Counts who is connected, and lets in.

    Attributes:
        per_address: Connections that one address (of IPv6 a /64) may hold, of all workers together; 0 for no limit.
        proxies: Addresses and networks that may hold any number, as others' requests come through them.
        open: Connections of this worker by address.
        refused, too_slow: How many were turned away, and cut off.
    """

    per_address: int = 64
    proxies: tuple[str, ...] = ()
    open: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    too_slow: int = 0

    @cached_property
    def _all(self) -> AddressTable:
        """Connections of each worker; the count that one left when it ended is cleared by the one in its place."""
        found = AddressTable("connections", MOST_WORKERS)
        found.clear(own_place())
        return found

    def _is_limited(self, address: str) -> bool:
        with suppress(ValueError):
            if any(ip_address(address) in ip_network(each) for each in self.proxies):
                return False
        return self.per_address > 0

    def enter(self, address: str) -> bool:
        """Count a connection and return True, or return False where its address has too many."""
        network = network_of(address)
        if self._is_limited(address):
            with self._all.row(network, time.monotonic()) as (counts, _):
                if sum(counts) >= self.per_address:
                    self.refused += 1
                    return False
                counts[own_place()] = self.open[network] + 1
        self.open[network] += 1
        return True

    def leave(self, address: str) -> None:
        """Forget a connection that was let in."""
        network = network_of(address)
        self.open[network] -= 1
        if self._is_limited(address):
            with self._all.row(network, time.monotonic()) as (counts, _):
                counts[own_place()] = self.open[network]
        if self.open[network] <= 0:
            del self.open[network]


class LimitedProtocol(H11Protocol):  # type: ignore[misc]  # uvicorn may not be installed where types are checked
    """HTTP/1.1 by uvicorn, with an end to waiting. A subclass has the :class:`Door`."""

    door: Door

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._address = ""
        self._headers_due: asyncio.TimerHandle | None = None
        self._look_again: asyncio.TimerHandle | None = None
        self._left_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        address = str((transport.get_extra_info("peername") or ("local",))[0])
        if not self.door.enter(address):
            transport.write(_REFUSED)
            transport.close()
            return
        self._address = address
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()
        self.resume_writing()
        if self._address:
            self.door.leave(self._address)
            self._address = ""

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        else:
            self._expect_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(LINGERING_S, self.transport.abort)
        elif self.conn.trailing_data[0]:
            self._expect_headers()  # of a next request that came with the last one

    def _expect_headers(self) -> None:
        if self._headers_due is None and not self.transport.is_closing():
            self._headers_due = self.loop.call_later(HEADER_S, self._refuse_slow_headers)

    def _stop_waiting(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _refuse_slow_headers(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            self.door.too_slow += 1
            self.transport.write(_TOO_SLOW)
            self._close_soon()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._close_soon()

    def _close_soon(self) -> None:
        """Close; bytes that the other end does not read are dropped after a while."""
        self.transport.close()
        self.loop.call_later(LINGERING_S, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._left_bytes = self.transport.get_write_buffer_size()
        self._look_again = self.loop.call_later(STALLED_S, self._cut_off_slow_reader)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None

    def _cut_off_slow_reader(self) -> None:
        left_bytes = self.transport.get_write_buffer_size()
        if self._left_bytes - left_bytes < STALLED_S * LEAST_BYTES_PER_S:
            self.door.too_slow += 1
            self.transport.abort()
            return
        self._left_bytes = left_bytes
        self._look_again = self.loop.call_later(STALLED_S, self._cut_off_slow_reader)


def server_options(door: Door) -> dict[str, Any]:
    """Return options of ``uvicorn.Config`` that hold the limits, and let the process open as many files as it needs.

    Warnings are not logged: each is of a stranger's broken request, and would fill the log.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 4 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(4 * MAX_CONNECTIONS, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return {
        "http": type("DoorProtocol", (LimitedProtocol,), {"door": door}),
        "ws": "none",
        "access_log": False,
        "server_header": False,
        "log_level": "error",
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": 10,
        "limit_concurrency": MAX_CONNECTIONS,
        "h11_max_incomplete_event_size": MAX_HEADER_BYTES,
        "proxy_headers": bool(door.proxies),
        "forwarded_allow_ips": list(door.proxies),
    }
