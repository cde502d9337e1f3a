"""Work spread over machines by Dask: a task runs on a worker that offers what it needs, and again where a worker is lost.

Anything that reaches a scheduler can run code on its workers, as with any Dask cluster: keep it inside a trusted network, or use
Dask's TLS.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from latcast.errors import ClusterError, LatcastError
from latcast.extras import require
from latcast.registry import nearest_names
from latcast.version import VERSION

PREDICTS = "latcast:predict"
"""Offer of a worker that predicts networks."""

_PURPOSE = "working over several machines"

CONNECT_TIMEOUT_S = 10.0

PATIENCE_S = 60.0
"""Wait while no worker offers what is needed: a lost one may come back."""

POLL_S = 0.5


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield a client of the scheduler at an address such as ``tcp://192.168.0.10:8786``.

    Raises:
        MissingExtraError: Dask's scheduler package is not installed.
        ClusterError: Nothing answers there.
    """
    require(_PURPOSE, "distributed")
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as problem:
        raise ClusterError(
            f"no scheduler answers at '{address}' ({problem}); start one with 'dask scheduler', which prints its address"
        ) from problem
    try:
        yield client
    finally:
        client.close()


def offers(client: Any) -> dict[str, int]:
    """Return what the workers offer, with the number of workers that do."""
    found: dict[str, int] = {}
    for worker in client.scheduler_info(n_workers=-1)["workers"].values():
        for name in worker["resources"]:
            found[name] = found.get(name, 0) + 1
    return found


def require_offer(client: Any, needed: str, patience_s: float = 0.0) -> int:
    """Return the number of workers that offer something.

    Raises:
        ClusterError: None does, even after a wait; the message names the nearest offers.
    """
    until = time.monotonic() + patience_s
    while not (count := offers(client).get(needed, 0)):
        if time.monotonic() >= until:
            there = offers(client)
            near = nearest_names(needed, list(there)) or sorted(there)
            raise ClusterError(
                f"no worker of {client.scheduler.address} offers '{needed}'; "
                + (f"the nearest are {', '.join(near)}" if near else "there is no worker at all")
                + "; start one on the machine that has it with: latcast worker "
                + client.scheduler.address
            )
        time.sleep(POLL_S)
    return count


def map_over_workers(
    client: Any,
    function: Callable[..., Any],
    parts: Sequence[Any],
    needed: str,
    *,
    shared: Any = None,
) -> Iterator[tuple[int, Any]]:
    """Call a function on each part, on workers that offer what it needs; yield each part's index and result as it comes.

    A part whose worker is lost is done again on another. Closing the iterator cancels what is not done yet.

    Args:
        client: From :func:`connected`.
        function: ``function(shared, part)``, or ``function(part)`` where nothing is shared; of a module that workers have.
        parts: Arguments, one a task.
        needed: The necessary offer; each worker runs one such task at a time.
        shared: A large argument that every part needs; sent once to each worker.

    Raises:
        ClusterError: No worker offers what is needed, a part took several workers down, or a worker runs another version.
        LatcastError: What the function raised.
    """
    from distributed import as_completed

    if not parts:
        return
    require_offer(client, needed, PATIENCE_S)
    # A task's result, unlike scattered data, is made again where the worker that held it is lost.
    common = [] if shared is None else [client.submit(_identity, shared, pure=False)]
    futures = [client.submit(_checked, VERSION, function, *common, part, pure=False, resources={needed: 1}) for part in parts]
    index_of = {future.key: index for index, future in enumerate(futures)}
    waiting = as_completed(futures, loop=client.loop, raise_errors=False)
    asked_s = seen_s = time.monotonic()
    try:
        while index_of:
            if not waiting.has_ready():
                now_s = time.monotonic()
                if now_s - asked_s >= POLL_S:
                    asked_s = now_s
                    if offers(client).get(needed):
                        seen_s = now_s
                    elif now_s - seen_s > PATIENCE_S:
                        require_offer(client, needed)
                time.sleep(0.02)
                continue
            future = waiting.next()
            yield index_of.pop(future.key), _result(future)
    finally:
        client.cancel([future for future in futures if future.key in index_of])


def _result(future: Any) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except LatcastError:
        raise
    except KilledWorker as problem:
        raise ClusterError(f"a task took down every worker it ran on ({problem})") from problem
    except Exception as problem:
        raise ClusterError(f"a worker failed: {type(problem).__name__}: {problem}") from problem


def _identity(value: Any) -> Any:
    return value


def _checked(version: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker of the caller's version."""
    if version != VERSION:
        raise ClusterError(
            f"a worker runs latcast {VERSION}, this is {version}; results of different versions do not compare: update one"
        )
    return function(*arguments)


def serve(address: str, offered: Mapping[str, float], name: str | None = None) -> None:
    """Work for a scheduler until it ends or this process does; one task at a time, as tasks disturb each other's timings.

    Raises:
        MissingExtraError: Dask's scheduler package is not installed.
        ClusterError: Nothing answers there.
    """
    require(_PURPOSE, "distributed")
    import asyncio

    from distributed import Worker

    async def work() -> None:
        worker = await Worker(address, nthreads=1, resources=dict(offered), name=name, death_timeout=CONNECT_TIMEOUT_S)
        await worker.finished()

    try:
        asyncio.run(work())
    except (OSError, ValueError, TimeoutError) as problem:
        raise ClusterError(f"no scheduler answers at '{address}' ({problem}); start one with: dask scheduler") from problem
