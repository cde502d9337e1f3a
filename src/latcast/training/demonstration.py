"""A demonstration on the machine at hand: learn it, predict real networks it never ran, then run them and compare."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.folders import made
from latcast.kernels.rules import instruction_set
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.labels import LABEL_PROCESSES, Label, LabelError, label_error
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.predictors.bundle_index import IndexedBundle
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Prediction
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import build, family, model
from latcast.training.profiling import Stage, profile

CHECKED_NETWORKS = (
    "mobilenet_v2", "squeezenet1_1", "efficientnet_b0", "ghostnet_x1_0", "mobilevit_xxs", "regnet_x_400mf", "mnasnet1_0",
    "proxylessnas_mobile", "squeezenet1_0", "mobilenet_v2_1_4", "regnet_y_400mf", "ghostnet_x1_3",
    "se_resnet50", "efficientnet_b1", "mobilevit_xs", "swin_tiny", "mnasnet1_3", "alexnet", "proxylessnas_gpu",
    "se_resnext50_32x4d",
)  # fmt: skip
"""Networks predicted and then run: published, at most two a family, not trained on; quick ones first."""

FEWEST_CHECKED = 12

CHECK_PLAN = MeasurePlan(rounds=4, runs_per_round=6, warmup_runs=2, max_ms_per_round=150.0)
"""Twelve rounds over three processes, as a label needs."""

EXPECTED_MAPE: Mapping[str, Mapping[str, float]] = {
    "avx512": {"onnxruntime": 4.6, "openvino": 5.3}, "avx2": {"onnxruntime": 7.4, "openvino": 7.7},
}  # fmt: skip
"""MAPE in percent of a five-minute profile on other designs, by newest instruction set and runtime (fp32, one thread)."""

PROFILE_SHARE = 0.7
"""Part of the budget for measuring and training; the rest is for running the networks that were predicted."""

START_SECONDS, LOAD_SECONDS, LOAD_SECONDS_PER_MILLION = 2.0, 0.15, 0.045
"""Rough costs of a worker process, and of loading a network into it: a constant, and one for each million weights."""


@dataclass(frozen=True)
class CheckedNetwork:
    """A network that was predicted first and run afterwards."""

    prediction: Prediction
    label: Label

    @property
    def error(self) -> float:
        """Error of the prediction, in percent of the measured latency."""
        return 100 * (self.prediction.latency_ms / self.label.latency_ms - 1)

    @property
    def inside(self) -> bool:
        """Return whether the measured latency lies in the predicted interval."""
        return self.prediction.low_ms <= self.label.latency_ms <= self.prediction.high_ms

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.prediction.model,
            "family": self.label.reference.space,
            "latency_ms": self.prediction.latency_ms,
            "low_ms": self.prediction.low_ms,
            "high_ms": self.prediction.high_ms,
            "measured_ms": self.label.latency_ms,
        }


@dataclass(frozen=True)
class Demonstration:
    """Result of a demonstration.

    Attributes:
        predictor: Of this machine.
        indexed: Where it was left.
        checks: Where the measurements of the checked networks were left.
        networks: One by one, in the order of :data:`CHECKED_NETWORKS`.
        metrics: Over all of them.
        label_error: Of their measured latencies.
        profiled: How many networks the predictor was trained on.
        failures: Networks that could not be run, with the reason.
        seconds: Everything together.
    """

    predictor: PlatformPredictor
    indexed: IndexedBundle
    checks: Path
    networks: tuple[CheckedNetwork, ...]
    metrics: Metrics
    label_error: LabelError
    profiled: int
    failures: Mapping[str, str]
    seconds: float

    @property
    def resembled(self) -> str:
        """The known processor that this one resembles; see :func:`resembled_processor`."""
        cpu = self.predictor.card.get("environment", {}).get("host", {}).get("cpu", {})
        return resembled_processor(self.predictor.platform, cpu.get("flags", ""))

    def to_json(self) -> dict[str, Any]:
        found = self.metrics
        return {
            "platform": self.predictor.platform.id,
            "bundle": str(self.indexed.path),
            "networks": [network.to_json() for network in self.networks],
            "failures": dict(self.failures),
            "summary": {
                "mape": found.mape,
                "within_5": found.within_5,
                "within_10": found.within_10,
                "interval_coverage": found.interval_coverage,
                "noise_floor": self.label_error.percent,
                "seconds": self.seconds,
            },
        }


def resembled_processor(platform: Platform, cpu_flags: str) -> str:
    """Return the most similar processor of ``EXPECTED_MAPE`` and its errors; empty where none is similar.

    Args:
        platform: Its runtime and unit count.
        cpu_flags: As :func:`latcast.kernels.rules.instruction_set` takes them.
    """
    known = instruction_set(platform.unit, cpu_flags)
    expected = EXPECTED_MAPE.get(known, {}).get(platform.runtime)
    if expected is None:
        return ""
    return (
        f"This processor is like a known one with instructions up to {known}, where a profile of five minutes had a MAPE of "
        f"{expected:.1f} % on networks of other designs"
    )


def demonstrate(
    settings: WorkerSettings | None = None,
    *,
    store: Path,
    checks: Path,
    budget_s: float = 300.0,
    seed: int = 0,
    resume: bool = False,
    replace: bool = False,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> Demonstration:
    """Profile this machine, predict real networks of families it never ran, then run them.

    Args:
        settings: Runtime, threads, precision; ONNX Runtime on one thread by default.
        store: Takes the measurements that are learned from; replaced, unless ``resume``.
        checks: Takes those of the checked networks; always replaced, so that none has been run when it is predicted.
        budget_s: Seconds for everything, about.
        seed: For every random choice.
        resume: Learn also from what ``store`` holds.
        replace: Put the bundle in the place of the user's own, even where that one is the better.
        watch: Called at every step.

    Raises:
        TrainingError: The budget was too short for enough measurements.
        MeasurementError: None of the networks could be run.
        RuntimeFailure: The runtime cannot be started.
    """
    start = time.monotonic()
    settings = settings or WorkerSettings()
    made(store.parent)
    for each in (checks,) if resume else (checks, store):
        for suffix in ("", "-wal", "-shm"):
            each.with_name(each.name + suffix).unlink(missing_ok=True)
    with Store(store) as known, Store(checks) as found:
        learned = profile(
            settings, store=known, budget_minutes=PROFILE_SHARE * budget_s / 60, seed=seed, replace=replace,
            watch=watch,
        )  # fmt: skip
        predictor = learned.predictor
        references = [model(name) for name in CHECKED_NETWORKS]
        predictions = predictor.predict_many([build(reference) for reference in references])
        named = [dataclasses.replace(each, model=reference.name) for each, reference in zip(predictions, references, strict=True)]
        count = affordable(references, named, max(budget_s - (time.monotonic() - start), 0.0))
        found.take_quiet_times(known)
        items = [CampaignItem(reference, "network", CHECK_PLAN) for reference in references[:count]]

        def step(progress: Progress) -> None:
            share = progress.done / progress.total if progress.total else 1.0
            watch(Stage("running the predicted networks", share, progress))

        failures = Campaign(found, settings, items, processes=LABEL_PROCESSES, progress=step).run().failures
        # The predictor is of the quiet state as it was known when it was trained.
        found.take_quiet_times(known)
        labels = {label.reference.key: label for label in found.labels(platform=predictor.platform.id)}
    networks = tuple(
        CheckedNetwork(prediction, labels[reference.key])
        for prediction, reference in zip(named, references, strict=True)
        if reference.key in labels
    )
    if not networks:
        name, reason = next(iter(failures.items()))
        raise MeasurementError(f"none of {len(failures)} networks could be run on {predictor.platform}; {name}: {reason}")
    predicted = [each.prediction for each in networks]
    columns = ([each.latency_ms for each in predicted], [each.label.latency_ms for each in networks],
               [each.low_ms for each in predicted], [each.high_ms for each in predicted])  # fmt: skip
    return Demonstration(
        predictor, learned.bundle, checks, networks, judge(*map(np.array, columns)),
        label_error(network.label for network in networks), len(learned.data.networks), failures, time.monotonic() - start,
    )  # fmt: skip


def affordable(
    references: Sequence[Reference], predictions: Sequence[Prediction], seconds: float, plan: MeasurePlan = CHECK_PLAN
) -> int:
    """Return how many of the networks, from the first on, can be run in this time; at least :data:`FEWEST_CHECKED`."""
    spent_s = LABEL_PROCESSES * START_SECONDS
    for count, (reference, prediction) in enumerate(zip(references, predictions, strict=True)):
        weights = family(reference.space).published[reference.name].million_parameters
        round_ms = min(plan.runs_per_round * prediction.latency_ms, max(plan.max_ms_per_round, prediction.latency_ms))
        run_ms = plan.warmup_runs * prediction.latency_ms + plan.rounds * round_ms
        spent_s += LABEL_PROCESSES * (LOAD_SECONDS + LOAD_SECONDS_PER_MILLION * weights + run_ms / 1e3)
        if spent_s > seconds and count >= FEWEST_CHECKED:
            return count
    return len(references)
