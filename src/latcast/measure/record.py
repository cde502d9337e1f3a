"""Records of measurements, made from the log of the measuring loop, with the kernels that the runtime executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latcast.environment import MOMENT, utc_now
from latcast.measure.statistics import host_factors, quartile_variation
from latcast.measure.timing import Instruments, RunLog
from latcast.records import Measurement, Reference
from latcast.runtimes.protocol import Session

NORMALISED_STATISTIC = "median of probe-normalised runs"
RAW_STATISTIC = "median of runs"


def failed(
    error: str, platform: str, reference: Reference, role: str, environment: Mapping[str, Any] | None = None
) -> Measurement:
    """Return the record of a subject that could not be measured."""
    return Measurement(platform, reference, role, error=error, taken_at=utc_now(), environment=dict(environment or {}))


def finished(
    log: RunLog,
    *,
    platform: str,
    reference: Reference,
    role: str,
    parts: Sequence[str] = (),
    quiet_ms: Sequence[float] = (),
    weights: Sequence[float] = (),
    environment: Mapping[str, Any] | None = None,
) -> Measurement:
    """Return the record of a subject that ran; a failed one where the runs took no time, as the runtime then did nothing.

    Args:
        log: Its runs and the probe's readings.
        platform, reference, role, environment: As in :class:`Measurement`.
        parts, quiet_ms, weights: Names, quiet times and exponents of the probe's parts.
    """
    runs = np.asarray(log.runs_ms)
    raw_ms = float(np.median(runs))
    if not raw_ms > 0:
        text = f"{len(runs)} runs took {raw_ms:.3f} ms each: the runtime returned without running the network"
        return failed(text, platform, reference, role, environment)
    factors = host_factors(log.readings_ms, quiet_ms, weights, parts) if log.readings_ms else np.ones(len(runs))
    normalised = runs / factors
    return Measurement(
        platform=platform,
        reference=reference,
        role=role,
        runs_ms=_rounded(runs),
        probe_ms=_rounded(factors * quiet_ms[0]) if log.readings_ms else (),
        rounds=tuple(log.rounds),
        latency_ms=float(np.median(normalised)),
        raw_latency_ms=raw_ms,
        variation=quartile_variation(normalised),
        warmup_runs=log.warmup_runs,
        taken_at=utc_now(),
        environment=dict(environment or {}),
        probe_parts_ms={
            part: _rounded(readings)
            for part, readings in zip(parts, np.asarray(log.readings_ms).T if log.readings_ms else (), strict=False)
        },
        statistic=NORMALISED_STATISTIC if log.readings_ms else RAW_STATISTIC,
    )


def loading_ms(measurement: Measurement) -> float:
    """Return how long loading took before the first inference of a start, as on a quiet host."""
    quiet = (measurement.latency_ms or 0.0) / (measurement.raw_latency_ms or 1.0)
    return float(measurement.environment[MOMENT]["load_ms"]) * quiet


def seen_by(session: Session) -> dict[str, Any]:
    """Return what a session of another device observed: its clock and the bursts repeated for heat."""
    seen: dict[str, Any] = getattr(session, "moment", dict)()
    return seen


def with_moment(measurement: Measurement, seen: Mapping[str, Any]) -> Measurement:
    """Return the measurement with more that is known of its moment."""
    if not seen:
        return measurement
    environment = dict(measurement.environment)
    return replace(measurement, environment={**environment, MOMENT: {**environment.get(MOMENT, {}), **seen}})


def _rounded(values_ms: np.ndarray) -> tuple[float, ...]:
    """Round to the nanosecond, the best resolution of clocks."""
    return tuple(round(float(value), 6) for value in values_ms)


def profile_kernels(
    session: Session,
    measurement: Measurement,
    runs: int,
    instruments: Instruments,
    quiet_ms: Sequence[float],
    weights: Sequence[float],
) -> Measurement:
    """Return the measurement with its executed kernels, normalised by the probe around the profiled runs.

    Profiling slows a network down, each runtime in its own way, so the kernels' latencies need not add up to the network's.

    Raises:
        RuntimeFailure: The runtime cannot report its executed kernels.
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
