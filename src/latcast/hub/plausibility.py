"""Checks whether a record is plausible. One that is not goes into quarantine with the first reason found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from datetime import datetime, timedelta, timezone
from types import MappingProxyType

import numpy as np

from latcast.hub.cells import AGREEMENT
from latcast.hub.language_models import ROLE, implausible_speed
from latcast.hub.model import HubModel
from latcast.hub.scales import Forecast
from latcast.measure.statistics import normalised_runs, round_medians
from latcast.records import Measurement

RANGE_MS: Mapping[str, tuple[float, float]] = {
    "network": (1e-3, 600_000.0),
    "kernel": (1e-5, 600_000.0),
    "start": (1e-3, 600_000.0),
    "beside": (1e-3, 600_000.0),
    "language": (1e-3, 3_600_000.0),
}
"""Latencies outside this range are rejected."""

STATED_TOLERANCE = 0.05
"""Between a stated latency and the one that follows from the runs; statistics differ by less, slips by more."""

CLOCK_TOLERANCE = timedelta(minutes=10)
FIRST_DAY = datetime(2012, 1, 1, tzinfo=timezone.utc)
"""Such networks are not older."""

IDENTICAL_RUNS, IDENTICAL_FROM_MS = 10, 5.0
"""Number and length of runs that never take the same time to the last digit; short ones may, by a coarse clock."""

HOST_FACTOR = 20.0
"""Largest factor by which normalisation by a probe may change the raw latency."""

OUTLIER_FACTOR = 4.0
"""A latency so many times outside the interval that the platform's other latencies predict is held back."""

MIN_KNOWN = 3
"""Latencies of a platform that a prediction needs before it may be held against another one."""

CONTRADICTION_FACTOR = 1.5
"""Between the medians of two contributors for a network on a platform, which differ by less, whatever the room's temperature."""


def implausibility(measurement: Measurement, now: datetime) -> str | None:
    """Return why a record cannot be right by itself, or None."""
    if measurement.taken_at:
        try:
            taken = datetime.fromisoformat(measurement.taken_at.replace("Z", "+00:00"))
        except ValueError:
            return f"taken_at {measurement.taken_at} is not a time"
        if taken > now + CLOCK_TOLERANCE:
            return f"taken_at {measurement.taken_at} lies in the future; the clock of the device is wrong"
        if taken < FIRST_DAY:
            return f"taken_at {measurement.taken_at} lies before such networks; the clock of the device is wrong"
    if measurement.latency_ms is None or measurement.error is not None:
        return None
    latency_ms = measurement.latency_ms
    low, high = RANGE_MS[measurement.role]
    if not low <= latency_ms <= high:
        return f"latency_ms is {latency_ms:.4g}, outside {low:g} to {high:g} for a {measurement.role}"
    if measurement.role == ROLE and (reason := implausible_speed(measurement)):
        return reason
    return _implausible_runs(measurement, latency_ms) if measurement.runs_ms else None


def _implausible_runs(measurement: Measurement, latency_ms: float) -> str | None:
    """Return why a latency cannot follow from its runs, or None."""
    runs = np.asarray(measurement.runs_ms, dtype=np.float64)
    if np.min(runs) <= 0:
        return "a run of 0 ms"
    raw_ms = float(np.median(runs))
    if measurement.raw_latency_ms is not None and _differ(measurement.raw_latency_ms, raw_ms):
        return f"raw_latency_ms is {measurement.raw_latency_ms:.4g}, the median of its runs {raw_ms:.4g}"
    if measurement.probe_ms:
        if not 1 / HOST_FACTOR <= latency_ms / raw_ms <= HOST_FACTOR:
            return f"latency_ms is {latency_ms:.4g}, its raw runs {raw_ms:.4g}: no probe corrects so much"
    elif _differ(latency_ms, raw_ms) and _differ(latency_ms, float(np.mean(runs))):
        rounds = round_medians(normalised_runs(measurement), measurement.rounds) if measurement.rounds else ()
        if not len(rounds) or _differ(latency_ms, float(np.median(rounds))):
            return f"latency_ms is {latency_ms:.4g}, the median of its runs {raw_ms:.4g}"
    if len(runs) >= IDENTICAL_RUNS and raw_ms >= IDENTICAL_FROM_MS and np.all(runs == runs[0]):
        return f"all {len(runs)} runs took {raw_ms:.6g} ms to the last digit"
    return None


def _differ(stated: float, found: float) -> bool:
    return abs(stated / found - 1) > STATED_TOLERANCE


def outliers(stated: Mapping[int, Measurement], believed: Mapping[str, float], model: HubModel | None) -> dict[int, str]:
    """Find latencies that cannot be right beside the platform's other ones; returns the reason by index.

    A network is judged by the accepted latencies of the platform. Where fewer than :data:`MIN_KNOWN` networks have one, those of
    the upload are included: each is judged by the others, and the model's robustness decides.

    Args:
        stated: Plausible records of networks on one platform from one upload, by index.
        believed: Latencies (ms) that the hub believes already, by reference key.
        model: The model that serves; None while there is none, and nothing is an outlier then.
    """
    if model is None or not stated:
        return {}
    known, others = dict(believed), len(believed)
    if others >= MIN_KNOWN:
        expected = model.predict([item.reference for item in stated.values()], known, next(iter(stated.values())).platform)
    else:
        known |= {item.reference.key: _latency_ms(item) for item in stated.values()}
        others = len(known) - 1
        if others < MIN_KNOWN:
            return {}
        expected = model.left_out(known, next(iter(stated.values())).platform)
    found = {}
    for index, item in stated.items():
        forecast = expected.get(item.reference.key)
        if forecast and not forecast.low_ms / OUTLIER_FACTOR <= _latency_ms(item) <= forecast.high_ms * OUTLIER_FACTOR:
            found[index] = (
                f"latency_ms is {item.latency_ms:.4g}; from {others} other networks on this platform "
                f"{forecast.low_ms:.4g} to {forecast.high_ms:.4g} was expected"
            )
    return found


def contradictions(stated: Mapping[int, Measurement], others: Mapping[str, float]) -> dict[int, str]:
    """Find latencies that others measured differently; returns the reason by index.

    Args:
        stated: Records of networks on one platform from one upload, by index.
        others: Latencies (ms) as other contributors measured them, by reference key.
    """
    found = {}
    for index, item in stated.items():
        known_ms = others.get(item.reference.key)
        factor = _latency_ms(item) / known_ms if known_ms else 1.0
        if not 1 / CONTRADICTION_FACTOR <= factor <= CONTRADICTION_FACTOR:
            found[index] = (
                f"latency_ms is {item.latency_ms:.4g}; others measured {known_ms:.4g} on this platform, "
                f"a factor of {max(factor, 1 / factor):.3g} away"
            )
    return found


def disagreement(
    stated: Mapping[int, Measurement],
    trusted_ms: Mapping[str, float],
    model: HubModel | None,
    earlier_ms: Mapping[str, float] = MappingProxyType({}),
) -> dict[int, str]:
    """Hold all latencies of an upload on one platform where most of them disagree with trusted contributors.

    Latencies that are too long by a factor which each of them alone might have differ together from what trusted ones measured.
    Networks that trusted contributors ran are compared with what these measured, within :data:`AGREEMENT`; all others with the
    interval that the model gives from it, or the same factor where that is wider: two phones of one model differ more than the
    model errs on a phone that it knows well. Each part is judged alone, so that copies of what is known do not excuse the rest.

    Args:
        stated: Records of networks on one platform, from one upload of a contributor who is not trusted, by index.
        trusted_ms: Latencies (ms) as trusted contributors measured them, by reference key.
        model: The model that serves; without one only networks that trusted contributors ran are compared.
        earlier_ms: Latencies (ms) of the same contributor on the platform that are believed already, by reference key: small
            uploads are judged together.

    Returns:
        The reason by index: of all records, or empty.
    """
    if len(trusted_ms) < MIN_KNOWN or not stated:
        return {}
    own_ms = {**earlier_ms, **{item.reference.key: _latency_ms(item) for item in stated.values()}}
    measured = {key: _within_agreement(Forecast(value, value, value)) for key, value in trusted_ms.items()}
    predicted: Mapping[str, Forecast] = {}
    if model is not None:
        earlier = {key: item for key, item in model.networks.references.items() if key in earlier_ms}
        references = {**earlier, **{item.reference.key: item.reference for item in stated.values()}}
        others = [item for key, item in references.items() if key not in trusted_ms]
        forecasts = model.predict(others, trusted_ms, next(iter(stated.values())).platform)
        predicted = {key: _within_agreement(each) for key, each in forecasts.items()}
    for expected, what in (
        (measured, f"lie more than a factor of {AGREEMENT} from what trusted contributors measured"),
        (predicted, "lie outside the interval that trusted contributors' latencies give for this platform"),
    ):
        compared = [(value, expected[key]) for key, value in own_ms.items() if key in expected]
        outside = sum(not each.low_ms <= value <= each.high_ms for value, each in compared)
        if len(compared) >= MIN_KNOWN and 2 * outside > len(compared):
            factor = float(np.median([value / each.latency_ms for value, each in compared]))
            reason = f"{outside} of {len(compared)} latencies of this contributor {what}, {factor:.3g} times as long as expected"
            return dict.fromkeys(stated, reason)
    return {}


def _within_agreement(forecast: Forecast) -> Forecast:
    """Return a forecast whose interval reaches over :data:`AGREEMENT` at least."""
    latency_ms, low_ms, high_ms = astuple(forecast)
    return Forecast(latency_ms, min(low_ms, latency_ms / AGREEMENT), max(high_ms, latency_ms * AGREEMENT))


def _latency_ms(measurement: Measurement) -> float:
    assert measurement.latency_ms is not None, "a good record has one"
    return measurement.latency_ms
