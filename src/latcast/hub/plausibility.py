"""Checks whether a record is plausible. One that is not goes into quarantine with the first reason found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone

import numpy as np

from latcast.hub.model import HubModel
from latcast.measure.statistics import normalised_runs, round_medians
from latcast.records import Measurement

RANGE_MS: Mapping[str, tuple[float, float]] = {"network": (1e-3, 600_000.0), "kernel": (1e-5, 600_000.0)}
"""Latencies outside this range are rejected."""

STATED_TOLERANCE = 0.05
"""Between a stated latency and the one that follows from the runs; statistics differ by less, slips by more."""

CLOCK_TOLERANCE = timedelta(minutes=10)
FIRST_DAY = datetime(2012, 1, 1, tzinfo=timezone.utc)
"""Such networks are not older."""

IDENTICAL_RUNS, IDENTICAL_FROM_MS = 10, 5.0
"""So many runs of such length never take the same time to the last digit; short ones may, by a coarse clock."""

HOST_FACTOR = 20.0
"""By which normalisation by a probe may change the raw latency."""

OUTLIER_FACTOR = 4.0
"""A latency so many times outside the interval that the platform's other latencies predict is not believed."""

MIN_KNOWN = 3
"""Latencies of a platform that a prediction needs before it may be held against another one."""


def implausibility(measurement: Measurement, now: datetime) -> str | None:
    """Return why a record cannot be right by itself, or None."""
    late = _clock(measurement, now)
    if late or measurement.latency_ms is None or measurement.error is not None:
        return late
    latency_ms = measurement.latency_ms
    low, high = RANGE_MS[measurement.role]
    if not low <= latency_ms <= high:
        return f"latency_ms is {latency_ms:.4g}, outside {low:g} to {high:g} for a {measurement.role}"
    return _runs(measurement, latency_ms)


def _clock(measurement: Measurement, now: datetime) -> str | None:
    if not measurement.taken_at:
        return None
    try:
        taken = datetime.fromisoformat(measurement.taken_at.replace("Z", "+00:00"))
    except ValueError:
        return f"taken_at {measurement.taken_at} is not a time"
    if taken > now + CLOCK_TOLERANCE:
        return f"taken_at {measurement.taken_at} lies in the future; the clock of the device is wrong"
    if taken < FIRST_DAY:
        return f"taken_at {measurement.taken_at} lies before such networks; the clock of the device is wrong"
    return None


def _runs(measurement: Measurement, latency_ms: float) -> str | None:
    runs = np.asarray(measurement.runs_ms, dtype=np.float64)
    if not len(runs):
        return None
    if np.min(runs) <= 0:
        return "a run of 0 ms"
    raw_ms = float(np.median(runs))
    if measurement.raw_latency_ms is not None and _differ(measurement.raw_latency_ms, raw_ms):
        return f"raw_latency_ms is {measurement.raw_latency_ms:.4g}, the median of its runs {raw_ms:.4g}"
    if measurement.probe_ms:
        if not 1 / HOST_FACTOR <= latency_ms / raw_ms <= HOST_FACTOR:
            return f"latency_ms is {latency_ms:.4g}, its raw runs {raw_ms:.4g}: no probe corrects so much"
    elif _differ(latency_ms, raw_ms) and all(_differ(latency_ms, expected) for expected in _statistics(measurement, runs)):
        return f"latency_ms is {latency_ms:.4g}, the median of its runs {raw_ms:.4g}"
    if len(runs) >= IDENTICAL_RUNS and raw_ms >= IDENTICAL_FROM_MS and np.all(runs == runs[0]):
        return f"all {len(runs)} runs took {raw_ms:.6g} ms to the last digit"
    return None


def _statistics(measurement: Measurement, runs: np.ndarray) -> list[float]:
    """Return other statistics that a latency may be: the mean of the runs, or the median of the rounds' medians."""
    values = [float(np.mean(runs))]
    if measurement.rounds:
        values.append(float(np.median(round_medians(normalised_runs(measurement), measurement.rounds))))
    return values


def _differ(stated: float, found: float) -> bool:
    return abs(stated / found - 1) > STATED_TOLERANCE


def outliers(measurements: Sequence[Measurement], believed: Mapping[str, float], model: HubModel | None) -> dict[int, str]:
    """Find network latencies of one platform that cannot be right beside its other ones; returns the reason by index.

    Args:
        measurements: Plausible records of one platform from one upload.
        believed: Latencies (ms) of that platform's networks that the hub believes already, by reference key.
        model: The model that serves; None while there is none, and nothing is an outlier then.

    A network is judged by what the hub believes of the platform. Where fewer than :data:`MIN_KNOWN` networks are believed, the
    upload's own latencies are taken along: each is judged by the others, and the model's robustness decides.
    """
    if model is None:
        return {}
    indices = [index for index, item in enumerate(measurements) if item.ok and item.role == "network"]
    if not indices:
        return {}
    platform = measurements[indices[0]].platform
    stated = {index: float(measurements[index].latency_ms or 0.0) for index in indices}
    if len(believed) >= MIN_KNOWN:
        others = len(believed)
        expected = model.predict([measurements[index].reference for index in indices], believed, platform)
    else:
        known = {**believed, **{measurements[index].reference.key: stated[index] for index in indices}}
        others = len(known) - 1
        if others < MIN_KNOWN:
            return {}
        expected = model.left_out(known, platform)
    found = {}
    for index in indices:
        forecast = expected.get(measurements[index].reference.key)
        if forecast is None:
            continue
        if not forecast.low_ms / OUTLIER_FACTOR <= stated[index] <= forecast.high_ms * OUTLIER_FACTOR:
            found[index] = (
                f"latency_ms is {stated[index]:.4g}; from {others} other networks on this platform "
                f"{forecast.low_ms:.4g} to {forecast.high_ms:.4g} was expected"
            )
    return found


CONTRADICTION_FACTOR = 1.5
"""Between the medians of two contributors for a network on a platform, which differ by less, whatever the room's temperature."""


def contradictions(measurements: Sequence[Measurement], others: Mapping[str, float]) -> dict[int, str]:
    """Find network latencies of one platform that others measured differently; returns the reason by index.

    Args:
        measurements: Records of one platform from one upload.
        others: Latencies (ms) of that platform's networks as other contributors measured them, by reference key.
    """
    found = {}
    for index, item in enumerate(measurements):
        known_ms = others.get(item.reference.key)
        if known_ms is None or not item.ok or item.role != "network" or item.latency_ms is None:
            continue
        if not 1 / CONTRADICTION_FACTOR <= item.latency_ms / known_ms <= CONTRADICTION_FACTOR:
            found[index] = (
                f"latency_ms is {item.latency_ms:.4g}; others measured {known_ms:.4g} on this platform, "
                f"a factor of {max(item.latency_ms / known_ms, known_ms / item.latency_ms):.3g} away"
            )
    return found


def disagreement(measurements: Sequence[Measurement], trusted_ms: Mapping[str, float], model: HubModel | None) -> dict[int, str]:
    """Hold the network latencies of an upload on one platform where most of them disagree with trusted contributors.

    Latencies that are too long by a factor which each of them alone might have differ together from what trusted ones measured.

    Args:
        measurements: Records of one platform from one upload of a contributor who is not trusted.
        trusted_ms: Latencies (ms) of that platform's networks as trusted contributors measured them, by reference key.
        model: The model that serves, whose intervals they are held against.

    Returns:
        The reason by index: of all of the network latencies, or of none.
    """
    stated = {index: item for index, item in enumerate(measurements) if item.ok and item.role == "network"}
    if model is None or len(trusted_ms) < MIN_KNOWN or not stated:
        return {}
    expected = model.predict([item.reference for item in stated.values()], trusted_ms, measurements[next(iter(stated))].platform)
    factors, outside = [], 0
    for item in stated.values():
        forecast = expected.get(item.reference.key)
        if forecast is not None and item.latency_ms is not None:
            factors.append(item.latency_ms / forecast.latency_ms)
            outside += not forecast.low_ms <= item.latency_ms <= forecast.high_ms
    if len(factors) < MIN_KNOWN or 2 * outside <= len(factors):
        return {}
    reason = (
        f"{outside} of {len(factors)} latencies of this upload lie outside the interval that trusted contributors' latencies "
        f"give for this platform, {float(np.median(factors)):.3g} times as long as expected"
    )
    return dict.fromkeys(stated, reason)
