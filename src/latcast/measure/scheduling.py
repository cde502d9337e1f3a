"""Control of the operating system's scheduler in timed runs: pinning, priority, and counts of pre-emption."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from latcast.environment import affinity, siblings
from latcast.errors import MeasurementError
from latcast.records import Unit
from latcast.runtimes.cores import local_cores

REALTIME_PRIORITY = 10
"""Low among real-time priorities: above every ordinary process, below the kernel's own threads."""


def default_cpus(threads: int) -> tuple[int, ...]:
    """Return the last CPUs that this process may use, one for each thread, on as many cores as there are.

    Systems tend to serve interrupts on the first ones. Threads that share a core would measure how it divides itself.

    Raises:
        MeasurementError: Fewer CPUs than threads.
    """
    allowed = affinity()
    if threads > len(allowed):
        raise MeasurementError(
            f"{threads} threads were asked for and this process may use {len(allowed)} CPUs; "
            f"measure with --threads {len(allowed)} or fewer"
        )
    last_of_core = {siblings(cpu): cpu for cpu in allowed}
    others = [cpu for cpu in allowed if cpu not in last_of_core.values()]
    return tuple(sorted([*others, *sorted(last_of_core.values())][-threads:]))


def placed(unit: str, cpus: tuple[int, ...] | None) -> tuple[str, tuple[int, ...]]:
    """Return a unit's name on this machine, and the CPUs to pin to.

    Args:
        unit: As in platform ids: ``cpu2``, ``2large``, ``gpu``.
        cpus: The user's choice; None chooses automatically, an empty tuple pins to none.

    Raises:
        MeasurementError: Fewer CPUs than threads.
        RuntimeFailure: There are no such cores, or those of ``cpuN`` would be of different kinds.
    """
    asked = Unit.parse(unit)
    if asked.kind != "cpu":
        return unit, cpus or ()
    cores = local_cores()
    if cores.alike and not asked.cores:
        return unit, default_cpus(asked.threads) if cpus is None else cpus
    if cpus is None:
        return cores.unit(unit, affinity())
    return cores.named_by(unit, cpus), cpus


def pin(cpus: Sequence[int]) -> None:
    """Bind this process and the threads it will start to some CPUs; do nothing where the system cannot.

    Raises:
        MeasurementError: A CPU does not exist or is not allowed.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as problem:
        raise MeasurementError(
            f"cannot pin to CPUs {', '.join(map(str, cpus))}: {problem.strerror}; "
            f"this process may use {', '.join(map(str, affinity()))}"
        ) from problem


def realtime_permitted() -> bool:
    """Return whether this process may raise its thread to a real-time priority."""
    if not hasattr(os, "sched_setscheduler"):
        return False
    try:
        with realtime():
            return True
    except PermissionError:
        return False


@contextmanager
def realtime(others: Sequence[int] = ()) -> Iterator[None]:
    """Run this process's threads, and other processes of one thread, before all ordinary ones until the context ends.

    This takes all existing threads, because runtimes compute in others beside the caller or while it waits; those that they start
    have it too. They take turns, so that one which spins cannot keep the thread that it waits for from a CPU for good. For rounds
    and starts of far less than a second: nothing else gets these CPUs, and after a second at such a priority the kernel gives
    others a twentieth of the time.

    Raises:
        PermissionError: The process lacks the right (CAP_SYS_NICE or a limit on real-time priority).
    """
    _schedule([*_threads(), *others], os.SCHED_RR, REALTIME_PRIORITY)
    try:
        yield
    finally:
        _schedule([*_threads(), *others], os.SCHED_OTHER, 0)


def _threads() -> list[int]:
    """Return the kernel ids of this process's threads; the calling one alone (0) where the system does not list them."""
    try:
        return [int(name) for name in os.listdir("/proc/self/task")]
    except OSError:
        return [0]


def _schedule(threads: Sequence[int], policy: int, priority: int) -> None:
    for thread in threads:
        try:
            os.sched_setscheduler(thread, policy, os.sched_param(priority))
        except ProcessLookupError:
            continue  # it has ended since it was listed


def preemption_counter() -> Callable[[], int]:
    """Return a function that counts the pre-emptions of this process so far; always 0 where the system does not count."""
    try:
        import resource
    except ImportError:
        return lambda: 0
    getrusage, process = resource.getrusage, resource.RUSAGE_SELF
    return lambda: getrusage(process).ru_nivcsw
