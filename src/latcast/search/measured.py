"""Picks measured on the device at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from latcast.errors import LatcastError
from latcast.measure.settings import WorkerSettings
from latcast.measure.single import measure
from latcast.records import Measurement, Platform
from latcast.runtimes import RUNTIMES, check_runtime
from latcast.search.result import FoundNetwork


def check_measurable(platform: Platform) -> None:
    """Refuses platforms that cannot be measured on this machine.

    Raises:
        LatcastError: The platform's runtime or unit is none of those that run here, or the runtime is not installed.
    """
    unit = platform.unit.partition("+")[0]
    if platform.runtime not in RUNTIMES or unit != f"cpu{platform.threads}":
        raise LatcastError(
            f"{platform.id} cannot be measured here; expected a platform cpuN of one of the runtimes "
            + ", ".join(RUNTIMES.names())
        )
    check_runtime(platform.runtime)


def measure_found(
    networks: Sequence[FoundNetwork], settings: WorkerSettings, *, watch: Callable[[float], None] | None = None
) -> list[Measurement]:
    """Measures networks one after the other, each in a process of its own; a failed one is a record with its error.

    Args:
        networks: What a search found.
        settings: Runtime, threads and precision of the platform; CPUs and priority.
        watch: Called before each with the share that is done.
    """
    found = []
    for index, network in enumerate(networks):
        if watch is not None:
            watch(index / len(networks))
        found.append(measure(network.reference, settings))
    return found


def share_within(measurements: Sequence[Measurement], limit_ms: float) -> float | None:
    """Share, 0 to 1, of the measured networks that met a limit; None where none could be measured."""
    measured = np.array([found.latency_ms for found in measurements if found.ok], dtype=np.float64)
    return float((measured <= limit_ms).mean()) if len(measured) else None
