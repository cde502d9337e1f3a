"""The kernels a runtime really executed, with latencies that compare with the measurement's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from latcast.measure.statistics import host_factors
from latcast.measure.timing import Instruments
from latcast.records import Measurement
from latcast.runtimes.protocol import Session


def profile_kernels(
    session: Session,
    measurement: Measurement,
    runs: int,
    instruments: Instruments,
    quiet_ms: Sequence[float],
    weights: Sequence[float],
) -> Measurement:
    """The measurement with its executed kernels, normalised by the probe around the profiled runs.

    Profiling slows a network down, each runtime in its own way, so the kernels' latencies need not add up to the network's.

    Raises:
        RuntimeFailure: The runtime cannot tell what it executed.
    """
    probe = instruments.probe
    before = probe.read_ms() if probe is not None else ()
    kernels = session.executed_kernels(runs)
    after = probe.read_ms() if probe is not None else ()
    factor = 1.0
    if probe is not None and quiet_ms:
        reading = [min(pair) for pair in zip(before, after, strict=True)]
        factor = float(host_factors([reading], quiet_ms, weights, probe.parts)[0])
    scaled = (replace(kernel, latency_ms=kernel.latency_ms / factor) for kernel in kernels)
    return replace(measurement, executed=tuple(scaled))
