"""What a store holds of the benchmark of variants on one platform, and each family predicted by what saw none of it (§7.2.1).

nn-Meter learns from kernels alone and so needs no such split; the baselines do. Here kernels may be timed inside the networks
of the other families, so the split holds for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from latcast.datasets.variants import FAMILIES
from latcast.errors import DatasetError, TrainingError
from latcast.kernels.rules import FusionRules, load_rules
from latcast.kernels.search import find_kernels
from latcast.measure.labels import Label, LabelError, label_error
from latcast.measure.probe import QuietTime
from latcast.measure.statistics import probe_settings, renormalised
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Measurement, Platform
from latcast.spaces import build
from latcast.training.fitting import Trainer
from latcast.training.from_store import rules_of_store
from latcast.training.samples import NetworkSample, TrainingData, collect, restrict
from papers.harness import measuring_seconds
from papers.nn_meter.paper import FAMILY_TITLES

if TYPE_CHECKING:
    from latcast.datasets.store import Store

PAUSE_S = 120.0
"""A longer gap between two records is a pause of the campaign, not measuring time."""

_ORDER = tuple(FAMILY_TITLES)


@dataclass(frozen=True)
class MeasuredBenchmark:
    """Attributes:
    platform: Where it was measured.
    rules: Fusion rules of the runtime there.
    data: Everything to learn from: networks of all spaces, kernels timed inside them, kernels timed alone.
    tests: Family to its measured networks with their labels, in the paper's order.
    labels: Family to the labels behind them.
    seconds: Measuring time of all records.
    records: Their number.
    """

    platform: Platform
    rules: FusionRules
    data: TrainingData
    tests: Mapping[str, tuple[NetworkSample, ...]]
    labels: Mapping[str, tuple[Label, ...]]
    seconds: float
    records: int

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(self.tests)

    def label_error(self, families: Collection[str] | None = None) -> LabelError | None:
        """Return the label error of some families (all where None); None where no label was repeated."""
        chosen = [label for name in families or self.families for label in self.labels[name] if label.halves_ms is not None]
        return label_error(chosen) if chosen else None

    def actual_ms(self, family: str) -> np.ndarray:
        """Labels of a family's networks, (networks,)."""
        return np.array([sample.latency_ms for sample in self.tests[family]])


def read_benchmark(
    store: Store, platform: Platform, *, families: Sequence[str] = FAMILIES, learn_from: Sequence[Store] = ()
) -> MeasuredBenchmark:
    """Read a store.

    Args:
        families: Which families are tested; the others are learned from all the same.
        learn_from: Stores of further networks and kernels of the platform, to learn from alone: those of ``latcast profile``.

    Raises:
        DatasetError: It holds none of these families' networks on the platform.
    """
    rules = rules_of_store(store, platform)
    measurements = list(store.measurements(platform=platform.id))
    further = [item for other in learn_from for item in other.measurements(platform=platform.id)]
    data = collect([*measurements, *on_the_scale_of(store, further)], rules, build)
    sample_of = {sample.reference.key: sample for sample in data.networks}
    labels: dict[str, list[Label]] = {}
    for label in store.labels(platform=platform.id, role="network"):
        labels.setdefault(label.reference.space, []).append(label)
    chosen = [name for name in _ORDER if name in labels and name in families]
    if not chosen:
        raise DatasetError(
            f"{store.location} holds no networks of the benchmark of variants on {platform}; measure some with: "
            "latcast data variants -o variants.parquet --measure 520"
        )
    tests = {
        name: tuple(replace(sample_of[label.reference.key], latency_ms=label.latency_ms) for label in labels[name])
        for name in chosen
    }
    seconds = measuring_seconds((item.taken_at for item in measurements), PAUSE_S)
    chosen_labels = {name: tuple(labels[name]) for name in chosen}
    return MeasuredBenchmark(platform, rules, data, tests, chosen_labels, seconds, len(measurements))


def on_the_scale_of(store: Store, measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    """Measurements of other stores, normalised with the quiet times that this store knows of the same probes."""
    known: dict[str, QuietTime | None] = {}
    for measurement in measurements:
        key = str((probe_settings(measurement) or {}).get("key"))
        if key not in known:
            known[key] = store.quiet_ms(key)
        quiet_ms = known[key]
        yield measurement if quiet_ms is None else renormalised(measurement, quiet_ms)


WatchFamily = Callable[[str, int], None]
"""Told the name of a family that is held out, and how many are done."""

UNFUSED = "none"
"""Rules under which every operator is a kernel of its own."""

ALONE = "alone"
"""Learning from kernels timed alone and nothing else, not even the overhead of networks, as nn-Meter does."""


@dataclass(frozen=True)
class Training:
    """How predictors are trained.

    Attributes:
        learn_from: One of :data:`latcast.training.fitting.LEARN_FROM`, or :data:`ALONE`.
        model: How a kernel type is modelled; None for what suits the source.
        seed: For every random choice.
    """

    learn_from: str = "operators"
    model: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class HeldOutFamily:
    """Predictions of a family's networks.

    Attributes:
        family: Its name.
        predictor: Trained without it.
        actual_ms: Labels, (networks,).
        kernel_level_ms: Predictions from the kernels that the runtime executes, (networks,).
        operator_level_ms: By the same predictors from single operators, as if nothing was fused, (networks,).
    """

    family: str
    predictor: PlatformPredictor
    actual_ms: np.ndarray
    kernel_level_ms: np.ndarray
    operator_level_ms: np.ndarray


def without_family(data: TrainingData, family: str) -> TrainingData:
    """Return the data without a family's networks and what was profiled inside them."""
    return restrict(data, lambda sample: sample.family != family)


def train_without(benchmark: MeasuredBenchmark, family: str, training: Training) -> PlatformPredictor:
    """Return a predictor that saw nothing of a family.

    Raises:
        TrainingError: Too few measurements are left; the message names the family.
    """
    rest, source = without_family(benchmark.data, family), training.learn_from
    if source == ALONE:
        rest, source = replace(rest, networks=(), profiled=()), "kernels"
    try:
        trainer = Trainer(benchmark.platform, benchmark.rules, source, training.model, training.seed)
        return trainer.fit_with_held_out(rest, [sample.lineage for sample in rest.networks])[0]
    except TrainingError as problem:
        raise TrainingError(f"without {family}: {problem}") from problem


def operator_level_ms(predictor: PlatformPredictor, samples: Sequence[NetworkSample]) -> np.ndarray:
    """Return what the sum over single operators gives by predictors that were made for kernels (§7.3)."""
    unfused = load_rules(UNFUSED)
    return predictor.estimate([find_kernels(build(sample.reference), unfused) for sample in samples]).latency_ms


def hold_out_each(
    benchmark: MeasuredBenchmark, training: Training, watch: WatchFamily = lambda family, done: None
) -> list[HeldOutFamily]:
    """Predicts every family by a predictor that saw nothing of it.

    Raises:
        TrainingError: Too few measurements are left without a family.
    """
    found: list[HeldOutFamily] = []
    for family, samples in benchmark.tests.items():
        watch(family, len(found))
        predictor = train_without(benchmark, family, training)
        found.append(
            HeldOutFamily(
                family, predictor, benchmark.actual_ms(family),
                predictor.estimate([sample.kernels for sample in samples]).latency_ms, operator_level_ms(predictor, samples),
            )
        )  # fmt: skip
    return found


def pooled(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return all families' networks one after the other."""
    return np.concatenate(list(parts))
