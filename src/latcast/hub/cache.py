"""Answers as bytes, each made once for all who wait for it, and served a little stale while a newer one is made."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

Key = tuple[str, ...]

MAX_CACHED = 2000

PATIENCE_S = 0.25
"""How long a reader waits for a newer answer before it gets the stale one."""

POLL_S = 1.0
"""Between looks at whether another process has changed the database."""


class _Kept(NamedTuple):
    revision: int
    content: bytes


class _Flight(NamedTuple):
    revision: int
    task: asyncio.Task[bytes]


class AnswerCache:
    """Answers that hold until :meth:`forget`.

    Of a key one answer is made at a time, however many wait for it. Whoever asks after :meth:`forget` gets the new answer where
    that is made within :data:`PATIENCE_S`, and the last one otherwise. Used within one event loop; :meth:`forget` may be called
    from any thread.
    """

    def __init__(self) -> None:
        self._revision = 0
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._flights: dict[Key, _Flight] = {}

    def forget(self) -> None:
        """Makes every answer stale."""
        self._revision += 1

    async def answer(self, key: Key, make: Callable[[], bytes]) -> bytes:
        """The answer of a key.

        Args:
            key: What is asked for.
            make: Makes it, in a thread.

        Raises:
            Exception: What ``make`` raises, where there is no stale answer or the thing is gone.
        """
        wanted = self._revision
        kept = self._kept.get(key)
        if kept is not None and kept.revision >= wanted:
            return kept.content
        newer = asyncio.ensure_future(self._made_since(wanted, key, make))
        newer.add_done_callback(_retrieved)
        if kept is None:
            return await asyncio.shield(newer)
        done, _ = await asyncio.wait({newer}, timeout=PATIENCE_S)
        return newer.result() if done else kept.content

    async def _made_since(self, revision: int, key: Key, make: Callable[[], bytes]) -> bytes:
        """An answer whose making began at a revision or later; one that is being made since earlier is waited for first."""
        while True:
            flight = self._flights.get(key)
            if flight is None:
                flight = _Flight(self._revision, asyncio.ensure_future(run_in_threadpool(make)))
                self._flights[key] = flight
                flight.task.add_done_callback(lambda task, own=flight: self._landed(key, own))  # type: ignore[misc]
            if flight.revision >= revision:
                return await asyncio.shield(flight.task)
            await asyncio.wait({flight.task})
            await asyncio.sleep(0)  # until it is out of the way

    def _landed(self, key: Key, flight: _Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if flight.task.cancelled() or flight.task.exception() is not None:
            return
        self._kept[key] = _Kept(flight.revision, flight.task.result())
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_CACHED:
            self._kept.popitem(last=False)


def _retrieved(task: asyncio.Future[bytes]) -> None:
    """Whoever got a stale answer does not look at why there is no newer one."""
    if not task.cancelled():
        task.exception()


async def follow(revision: Callable[[], int], changed: Callable[[], None], poll_s: float = POLL_S) -> None:
    """Calls ``changed`` whenever the revision of a database is another one, until it is cancelled.

    Args:
        revision: Reads it; called in a thread. Where it fails, it is tried again.
        changed: Called in a thread too.
        poll_s: Seconds between looks.
    """
    seen: int | None = None
    while True:
        try:
            found = await run_in_threadpool(revision)
            if seen is not None and found != seen:
                await run_in_threadpool(changed)
            seen = found
        except Exception:  # a database that does not answer now may answer next time
            pass
        await asyncio.sleep(poll_s)
