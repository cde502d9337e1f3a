"""The label of a network or kernel from all its measurements, and the label error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latcast.environment import MOMENT
from latcast.errors import MeasurementError
from latcast.measure.statistics import normalised_runs, probe_settings, quartile_variation, quiet_reading_of, round_medians
from latcast.records import ExecutedKernel, Measurement, Reference

LABEL_ROUNDS = 10
"""Rounds that a test network's label needs."""

LABEL_PROCESSES = 3
"""Processes over which a test network's label must be spread."""

MOST_LABEL_ERROR = 2.0
"""Label error, in percent, up to which a target counts."""

LABEL_ERROR_LEVEL = 0.9
"""Coverage of a label error's interval."""

BOOTSTRAPS = 2000
"""Resamples of the networks for that interval."""


@dataclass(frozen=True)
class Label:
    """The latency that stands for a network or kernel on a platform, from all its measurements.

    Attributes:
        platform: Platform id.
        role: "network" or "kernel".
        latency_ms: Median over all rounds of the rounds' medians, normalised.
        raw_latency_ms: The same of raw runs.
        halves_ms: ``latency_ms`` from the earlier half of the rounds alone and from the later half; None with one round.
        rounds, processes: Numbers of rounds and processes.
        variation: Quartile variation of the rounds' medians; None with one round.
        executed: Executed kernels, medians over the measurements that have them.
    """

    platform: str
    reference: Reference
    role: str
    latency_ms: float
    raw_latency_ms: float
    halves_ms: tuple[float, float] | None
    rounds: int
    processes: int
    variation: float | None
    executed: tuple[ExecutedKernel, ...] = ()

    @property
    def complete(self) -> bool:
        """True if it has the rounds and processes that a test network needs."""
        return self.rounds >= LABEL_ROUNDS and self.processes >= LABEL_PROCESSES


@dataclass(frozen=True)
class LabelError:
    """The error of measured labels: half the difference between their two halves.

    A predictor that knew the true latencies would have about this MAPE.

    Attributes:
        percent: Mean over the networks, percent of the latency.
        interval: 90 % interval of the mean over such networks; None for a single network.
        networks: Number of labels.
    """

    percent: float
    interval: tuple[float, float] | None
    networks: int

    @property
    def coarse(self) -> bool:
        """True if the labels are too coarse to hold a predictor to a target."""
        return self.percent > MOST_LABEL_ERROR

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.percent:.1f} %"
        return f"{self.percent:.1f} % ({self.interval[0]:.1f} to {self.interval[1]:.1f})"


def combine(measurements: Iterable[Measurement]) -> Label:
    """Combine several measurements of one subject, taken at different times by different processes, into a label.

    Failed measurements do not count; one without raw runs (a published mean) counts as one round. The halves are the earlier and
    the later rounds, not alternate ones, so that differences between processes (memory layout) count as noise.

    Raises:
        MeasurementError: No measurement succeeded, or they are of different platforms, references or roles, or were
            normalised with different quiet times.
    """
    given = list(measurements)
    usable = sorted((item for item in given if item.ok), key=lambda item: item.taken_at)
    if not usable:
        reason = next((f": {item.error}" for item in given if item.error), "")
        raise MeasurementError(f"none of {len(given)} measurements succeeded{reason}")
    _check_alike(usable)
    normalised = [
        round_medians(normalised_runs(item), item.rounds) if item.runs_ms else np.array([item.latency_ms]) for item in usable
    ]
    raw = [
        round_medians(item.runs_ms, item.rounds)
        if item.runs_ms
        else np.array([item.latency_ms if item.raw_latency_ms is None else item.raw_latency_ms])
        for item in usable
    ]
    rounds = np.concatenate(normalised)
    middle = len(rounds) // 2
    first = usable[0]
    return Label(
        platform=first.platform,
        reference=first.reference,
        role=first.role,
        latency_ms=float(np.median(rounds)),
        raw_latency_ms=float(np.median(np.concatenate(raw))),
        halves_ms=(float(np.median(rounds[:middle])), float(np.median(rounds[middle:]))) if middle else None,
        rounds=len(rounds),
        # A measurement that does not name its process counts as a separate one.
        processes=len({item.environment.get(MOMENT, {}).get("worker", index) for index, item in enumerate(usable)}),
        variation=quartile_variation(rounds),
        executed=_combine_executed([item.executed for item in usable if item.executed]),
    )


def _check_alike(measurements: Sequence[Measurement]) -> None:
    first = measurements[0]
    for other in measurements[1:]:
        for what, expected, found in (
            ("platform", first.platform, other.platform),
            ("role", first.role, other.role),
            ("reference", first.reference.key, other.reference.key),
        ):
            if expected != found:
                raise MeasurementError(
                    f"measurements of different {what} cannot be combined: {expected} and {found}; "
                    "combine those of one platform and reference"
                )
    # Probes of different keys do different work or run on different hosts, and have different quiet times.
    quiet_times: dict[str, tuple[float, ...]] = {}
    for measurement in measurements:
        if measurement.probe_ms:
            key = str((probe_settings(measurement) or {}).get("key"))
            quiet_ms = quiet_reading_of(measurement)
            if quiet_times.setdefault(key, quiet_ms) != quiet_ms:
                raise MeasurementError(
                    f"measurements normalised with different quiet times ({quiet_times[key]} and {quiet_ms} ms) cannot "
                    "be combined; bring them to one with latcast.measure.statistics.renormalised"
                )


def _combine_executed(executed: Sequence[tuple[ExecutedKernel, ...]]) -> tuple[ExecutedKernel, ...]:
    """Return kernel-wise medians; where processes executed different kernels, the last one's kernels."""
    if not executed:
        return ()

    def names(kernels: tuple[ExecutedKernel, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
        return [(kernel.name, kernel.kind, kernel.nodes) for kernel in kernels]

    last = executed[-1]
    equal = [kernels for kernels in executed if names(kernels) == names(last)]
    latencies = np.median([[kernel.latency_ms for kernel in kernels] for kernels in equal], axis=0)
    return tuple(replace(kernel, latency_ms=float(latency)) for kernel, latency in zip(last, latencies, strict=True))


def label_error(labels: Iterable[Label]) -> LabelError:
    """Return the label error, from the labels' two halves.

    Raises:
        MeasurementError: No label has two halves.
    """
    halves = np.array([label.halves_ms for label in labels if label.halves_ms is not None], dtype=np.float64)
    if not len(halves):
        raise MeasurementError("a label error needs labels of at least two rounds each; measure more rounds")
    return label_error_of_halves(halves[:, 0], halves[:, 1])


def label_error_to_json(found: LabelError | None) -> dict[str, Any]:
    """Return two keys for a document about a predictor's errors; both null where latencies were not repeated."""
    if found is None:
        return {"label_error": None, "label_error_interval": None}
    return {"label_error": found.percent, "label_error_interval": found.interval and list(found.interval)}


def label_error_of_halves(first_ms: np.ndarray, second_ms: np.ndarray) -> LabelError:
    """Return the label error from the halves, each (networks,) or (platforms, networks).

    The difference between two halves of ``n`` rounds each has ``sqrt(2 / n)`` times the deviation of a round, a label of all
    ``2 n`` rounds ``sqrt(1 / 2n)``: half as much.

    The interval is a percentile bootstrap over the networks (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, §13).
    """
    difference = np.abs(first_ms - second_ms) / (0.5 * (first_ms + second_ms))
    each = 50 * difference.reshape(-1, difference.shape[-1]).mean(axis=0)
    interval = None
    if len(each) > 1:
        drawn = np.random.default_rng(0).integers(len(each), size=(BOOTSTRAPS, len(each)))
        tail = 50 * (1 - LABEL_ERROR_LEVEL)
        low, high = np.percentile(each[drawn].mean(axis=1), [tail, 100 - tail]).tolist()
        interval = (low, high)
    return LabelError(float(each.mean()), interval, len(each))
