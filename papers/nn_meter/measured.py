"""What a store holds of the benchmark of variants on one platform."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from latcast.datasets.variants import FAMILIES
from latcast.errors import DatasetError
from latcast.kernels.rules import FusionRules, rules_for
from latcast.measure.quiet import QuietTime
from latcast.measure.statistics import Label, LabelError, label_error, probe_settings, renormalised
from latcast.predictors.samples import NetworkSample, TrainingData, collect
from latcast.records import Measurement, Platform
from latcast.spaces import build
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
        """Of the labels of some families (all where None); None where no label was repeated."""
        chosen = [label for name in families or self.families for label in self.labels[name] if label.halves_ms is not None]
        return label_error(chosen) if chosen else None

    def actual_ms(self, family: str) -> np.ndarray:
        """Labels of a family's networks, (networks,)."""
        return np.array([sample.latency_ms for sample in self.tests[family]])


def read_benchmark(
    store: Store, platform: Platform, *, families: Sequence[str] = FAMILIES, learn_from: Sequence[Store] = ()
) -> MeasuredBenchmark:
    """Reads a store.

    Args:
        store: With measurements of variants, as ``latcast data variants --measure`` leaves it.
        platform: Whose.
        families: Which families are tested; the others are learned from all the same.
        learn_from: Stores of further networks and kernels of the platform, to learn from alone: those of ``latcast profile``.

    Raises:
        DatasetError: It holds none of these families' networks on the platform.
    """
    rules = rules_for(platform.runtime, platform.precision)
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
    return MeasuredBenchmark(
        platform, rules, data, tests, {name: tuple(labels[name]) for name in chosen}, measuring_seconds(measurements),
        len(measurements),
    )  # fmt: skip


def on_the_scale_of(store: Store, measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    """Measurements of other stores, normalised with the quiet times that this store knows of the same probes."""
    known: dict[str, QuietTime | None] = {}
    for measurement in measurements:
        key = str((probe_settings(measurement) or {}).get("key"))
        if key not in known:
            known[key] = store.quiet_ms(key)
        quiet_ms = known[key]
        yield measurement if quiet_ms is None else renormalised(measurement, quiet_ms)


def measuring_seconds(measurements: Sequence[Measurement]) -> float:
    """Time from each record to the next, pauses left out; ``measurements`` are in order of time."""
    moments = [datetime.fromisoformat(item.taken_at.replace("Z", "+00:00")) for item in measurements if item.taken_at]
    gaps = [(after - before).total_seconds() for before, after in pairwise(moments)]
    return sum(gap for gap in gaps if gap <= PAUSE_S)
