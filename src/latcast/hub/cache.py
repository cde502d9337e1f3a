"""Answers as bytes, each made once for all who wait for it, and served a little stale while a newer one is made."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool

Key = tuple[str, ...]

MAX_CACHED = 2000

PATIENCE_S = 0.25
"""How long a reader waits for a newer answer before it gets the stale one."""

POLL_S = 1.0
"""Between looks at whether another process has changed the database."""


class AnswerCache:
    """Answers that hold until :meth:`forget`.

    For each key one answer is made at a time, however many wait for it. Who asks after :meth:`forget` gets the new answer
    where that is made within :data:`PATIENCE_S`, and the last one otherwise. Used within one event loop; :meth:`forget` may be
    called from any thread.
    """

    def __init__(self) -> None:
        self._revision = 0
        self._kept: OrderedDict[Key, tuple[int, bytes]] = OrderedDict()
        self._turns: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    def forget(self) -> None:
        """Make every answer stale."""
        self._revision += 1

    async def answer(self, key: Key, make: Callable[[], bytes]) -> bytes:
        """Return the answer of a key.

        Args:
            make: Makes it, in a thread.

        Raises:
            Exception: As ``make`` raises it, where there is no stale answer, or it comes within :data:`PATIENCE_S`.
        """
        wanted = self._revision
        revision, stale = self._kept.get(key, (-1, b""))
        if revision >= wanted:
            return stale
        newer = asyncio.ensure_future(self._make_since(wanted, key, make))
        # Consume the exception of a failed refresh, so that asyncio does not report it.
        newer.add_done_callback(lambda task: task.cancelled() or task.exception())
        if revision < 0:
            return await asyncio.shield(newer)
        done, _ = await asyncio.wait({newer}, timeout=PATIENCE_S)
        return newer.result() if done else stale

    async def _make_since(self, wanted: int, key: Key, make: Callable[[], bytes]) -> bytes:
        """Return an answer whose making began at a revision or later; one that is being made is waited for first."""
        async with self._turns.setdefault(key, asyncio.Lock()):
            revision, content = self._kept.get(key, (-1, b""))
            if revision < wanted:
                revision = self._revision
                content = await run_in_threadpool(make)
                self._kept[key] = revision, content
                self._kept.move_to_end(key)
                if len(self._kept) > MAX_CACHED:
                    self._kept.popitem(last=False)
            return content


async def follow(revision: Callable[[], int], changed: Callable[[], None], poll_s: float = POLL_S) -> None:
    """Call ``changed`` whenever the revision of a database is another one, until it is cancelled.

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
