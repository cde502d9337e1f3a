"""Statistics of raw runs: one number, and how far it can be trusted.

The host's state is divided out run by run. A run around which the probe's parts took ``c`` (compute) and ``m`` (memory),
and take ``c0`` and ``m0`` when the host is quiet, is divided by ``(c / c0)**0.6 * (m / m0)**w``. A kernel whose data fit into
a core's own caches does not feel the memory bus (``w`` near 0), a network that streams its weights does: see
:func:`memory_weight`.

A memory reading of more than twice the quiet time counts as quiet: the system took the probe's pages back and the reading spent
its time on page faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latcast.environment import MOMENT
from latcast.errors import MeasurementError
from latcast.records import Measurement

COMPUTE_WEIGHT = 0.6
"""Exponent of the compute probe."""

MEMORY_WEIGHT_LIMIT = 0.12
"""Exponent of the memory probe for a working set far beyond the caches."""

PAGING = {"memory": 2.0}
"""Part of the probe to the multiple of its quiet time above which a reading holds page faults."""

DEFAULT_L2_BYTES = 1 << 20
"""Size of a core's own last cache where the system does not report it."""

STABLE_VARIATION = 0.05
"""Quartile variation of normalised runs above which a measurement is called unstable."""


def memory_weight(working_set_bytes: float, l2_bytes: float | None = None) -> float:
    """Return the exponent of the memory probe: 0 for a subject that fits in a core's cache, rising to 0.12 for one far larger.

    Args:
        working_set_bytes: Weights and activations that one run touches.
        l2_bytes: Size of a core's own last cache.
    """
    own = 2.0 * (l2_bytes or DEFAULT_L2_BYTES)
    return MEMORY_WEIGHT_LIMIT * working_set_bytes / (working_set_bytes + own)


def host_factors(
    readings_ms: Sequence[Sequence[float]], quiet_ms: Sequence[float], weights: Sequence[float], parts: Sequence[str]
) -> np.ndarray:
    """Return the host's slowdown at each run, 1 when quiet.

    Args:
        readings_ms: Runs by parts of the probe.
        quiet_ms, weights, parts: Quiet times, exponents and names of the parts.

    Raises:
        MeasurementError: The numbers of parts differ, or a reading is not positive.
    """
    quiet, exponents = np.asarray(quiet_ms, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if quiet.shape != exponents.shape or any(len(each) != len(quiet_ms) for each in readings_ms):
        raise MeasurementError(
            f"{len(quiet)} quiet times and {len(exponents)} weights do not fit the probe's readings; "
            "they come from different versions of the probe, measure again"
        )
    readings = np.asarray(readings_ms, dtype=np.float64).reshape(-1, len(quiet_ms))
    if not (np.all(readings > 0) and np.all(quiet > 0)):
        raise MeasurementError("a reading of the probe is not positive: the clock stood still, measure without a probe")
    slowdown = readings / quiet
    slowdown[slowdown > np.array([PAGING.get(part, np.inf) for part in parts])] = 1.0
    return np.prod(slowdown**exponents, axis=1)


def quartile_variation(values: Sequence[float] | np.ndarray) -> float | None:
    """Return half the distance between the quartiles relative to the median; None for fewer than two values."""
    if len(values) < 2:
        return None
    low, middle, high = np.quantile(np.asarray(values, dtype=np.float64), [0.25, 0.5, 0.75])
    return float((high - low) / 2 / middle)


def normalised_runs(measurement: Measurement) -> np.ndarray:
    """Return each run divided by its probe, times the probe's quiet time, in milliseconds; the raw runs where no probe ran.

    Raises:
        MeasurementError: The measurement failed, or does not say what the quiet time was.
    """
    if not measurement.ok:
        raise MeasurementError(f"'{measurement.reference.name}' has no runs, it failed: {measurement.error}")
    runs = np.asarray(measurement.runs_ms, dtype=np.float64)
    if not measurement.probe_ms:
        return runs
    return runs / np.asarray(measurement.probe_ms) * quiet_reading_of(measurement)[0]


def probe_settings(measurement: Measurement) -> Mapping[str, Any] | None:
    """Return the environment's probe settings (key, parts, quiet times), or None where no probe ran."""
    found = measurement.environment.get("settings", {}).get("probe")
    return dict(found) if found else None


def quiet_reading_of(measurement: Measurement) -> tuple[float, ...]:
    """Return the quiet times that a measurement was normalised with.

    Raises:
        MeasurementError: Its environment does not hold them.
    """
    settings = probe_settings(measurement) or {}
    if not settings.get("quiet_ms"):
        raise MeasurementError(
            f"the measurement of '{measurement.reference.name}' has probe readings but not the probe's quiet time "
            "(settings.probe.quiet_ms of its environment); its latency_ms still stands"
        )
    return tuple(settings["quiet_ms"])


def renormalised(measurement: Measurement, quiet_ms: Sequence[float]) -> Measurement:
    """Return the same runs normalised with another quiet time, for instance of a later calibration.

    A measurement that failed, has no probe readings, or would not change is returned as it is. Latencies of executed kernels
    are scaled by the same ratio as the whole.

    Raises:
        MeasurementError: It does not say how its probe's parts were weighted, or has other parts.
    """
    if not measurement.ok or not measurement.probe_ms:
        return measurement
    same_quiet_time = quiet_reading_of(measurement) == tuple(quiet_ms)
    weights = measurement.environment.get(MOMENT, {}).get("probe_weights")
    if not weights or not measurement.probe_parts_ms:
        if same_quiet_time:
            return measurement
        raise MeasurementError(
            f"the measurement of '{measurement.reference.name}' keeps no readings or weights of its probe's parts; "
            "its latency_ms cannot be related to another quiet time"
        )
    settings = probe_settings(measurement) or {}
    readings = np.array([measurement.probe_parts_ms[part] for part in settings["parts"]]).T
    factors = host_factors(readings.tolist(), quiet_ms, weights, settings["parts"])
    # Readings are kept to a millionth of a millisecond.
    if same_quiet_time and np.allclose(factors * quiet_ms[0], measurement.probe_ms, rtol=1e-3):
        return measurement
    normalised = np.asarray(measurement.runs_ms) / factors
    latency_ms = float(np.median(normalised))
    ratio = latency_ms / (measurement.latency_ms or latency_ms)
    environment = dict(measurement.environment)
    environment["settings"] = {**environment["settings"], "probe": {**settings, "quiet_ms": list(quiet_ms)}}
    return replace(
        measurement,
        latency_ms=latency_ms,
        variation=quartile_variation(normalised),
        probe_ms=tuple(round(float(value), 6) for value in factors * quiet_ms[0]),
        executed=tuple(replace(kernel, latency_ms=kernel.latency_ms * ratio) for kernel in measurement.executed),
        environment=environment,
    )


def round_medians(values: Sequence[float] | np.ndarray, rounds: Sequence[int]) -> np.ndarray:
    """Return the median of each round's runs, in order of the rounds.

    Raises:
        MeasurementError: Not as many rounds as values.
    """
    runs, indices = np.asarray(values, dtype=np.float64), np.asarray(rounds)
    if runs.shape != indices.shape:
        raise MeasurementError(f"{len(runs)} runs but {len(indices)} round numbers; there must be one for each run")
    return np.array([np.median(runs[indices == index]) for index in np.unique(indices)])


def warm_up_length(values: Sequence[float] | np.ndarray) -> int:
    """Return the number of runs at the start that are slower than the rest; 0 for fewer than 6 runs.

    A run is warm once it is within three quartile deviations (at least 5 %) of the median of the second half.
    """
    runs = np.asarray(values, dtype=np.float64)
    if len(runs) < 6:
        return 0
    second_half = runs[len(runs) // 2 :]
    limit = float(np.median(second_half)) * (1 + max(3 * (quartile_variation(second_half) or 0.0), 0.05))
    warm = np.flatnonzero(runs <= limit)
    return int(warm[0])


def stability_warnings(measurement: Measurement) -> list[str]:
    """Return the reasons to doubt a measurement, each with its number and what to do."""
    if not measurement.ok:
        return []
    name = measurement.reference.name or measurement.reference.space
    warnings = []
    if measurement.variation is not None and measurement.variation > STABLE_VARIATION:
        warnings.append(
            f"the runs of {name} vary by {100 * measurement.variation:.1f} % (quartile variation; up to "
            f"{100 * STABLE_VARIATION:.0f} % is stable); measure again with more rounds: --rounds "
            f"{2 * len(set(measurement.rounds))}"
        )
    cold = warm_up_length(normalised_runs(measurement))
    if cold:
        warnings.append(
            f"the first {cold} of {len(measurement.runs_ms)} runs of {name} are slower than the rest; "
            f"measure again with more warm-ups: --warmup-runs {measurement.warmup_runs + 2 * cold}"
        )
    moment = measurement.environment.get(MOMENT, {})
    preempted = int(moment.get("preempted_runs", 0))
    if preempted > len(measurement.runs_ms) // 2:
        warnings.append(
            f"another process took the CPU in {preempted} runs of {name}, against {len(measurement.runs_ms)} kept; "
            "stop what else runs here, or measure with --realtime where that is permitted"
        )
    if measurement.probe_ms:
        slowdown = float(np.median(measurement.probe_ms)) / quiet_reading_of(measurement)[0]
        if slowdown > 1.5:
            warnings.append(
                f"the host was {slowdown:.1f} times slower than when quiet while {name} ran; "
                "the latency is corrected for it, but measure again at another time"
            )
        if slowdown < 0.9:
            warnings.append(
                f"the host was {1 / slowdown:.2f} times faster than in the state called quiet while {name} ran; "
                "calibrate the probe again"
            )
    return warnings
