"""Training on what a store holds of a platform, with a card that says how well it does on lineages held out."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.errors import TrainingError
from latcast.extras import LEARNING, require
from latcast.kernels.rules import FusionRules, platform_rules, unit_kind
from latcast.kernels.search import SingleKernels
from latcast.kernels.selection import family_in
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.intervals import (
    FOLDS,
    GPUS_OUTSIDE_GROWTH,
    OUTSIDE_GROWTH,
    VARIANCE,
    HeldOut,
    conformal_interval,
    held_out_by,
    interval_with_relatives,
    unseen_bounds_ms,
)
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.spaces.catalogue import build
from latcast.spaces.lineages import SPACES_OF_NAMES
from latcast.training.fitting import Trainer, chosen_model
from latcast.training.samples import NetworkSample, TrainingData, calibration_networks, collect, lineages_of, restrict
from latcast.training.starts import learned_starts

if TYPE_CHECKING:
    from latcast.datasets.store import Store

OWN_MEASUREMENTS = "measured by the owner of this bundle"
"""Licence of the user's own measurements."""


def collect_stored(
    store: Store,
    platform: Platform,
    rules: FusionRules,
    *,
    singles: SingleKernels | None = None,
) -> TrainingData:
    """Collect samples of a platform from a store, except of networks of which only latencies are known.

    Args:
        store: A :class:`latcast.datasets.store.Store`.
        platform: Measured on it.
        rules, singles: As for :func:`latcast.training.samples.collect`.
    """
    from latcast.spaces.measured_only import can_build

    kept = (measurement for measurement in store.measurements(platform=platform.id) if can_build(measurement.reference))
    return collect(kept, rules, build, singles)


def train(
    store: Store | str | os.PathLike[str],
    *,
    platform: Platform | str | None = None,
    learn_from: str = "operators",
    model: str | None = None,
    rules: FusionRules | str | None = None,
    leave_out: Collection[str] = (),
    licence: str | None = None,
    seed: int = 0,
) -> PlatformPredictor:
    """Train on what a store holds of a platform; :func:`latcast.save_bundle` keeps the predictor.

    Measurements that failed, and networks that cannot be built, are left out; ``left_out`` of the card says which and why.

    Args:
        store: A store, the path of one or of a JSON Lines file, or a database URL.
        platform: What to predict for, or the beginning of its id; needed where the store holds several.
        learn_from: One of :data:`latcast.training.fitting.LEARN_FROM`.
        model: How a kernel type is modelled; see :func:`latcast.training.fitting.chosen_model`.
        rules: Fusion rules, or "shipped", "detected" or the path of a file; the shipped ones of the platform where None.
        leave_out: Families, spaces or lineages not to train on.
        licence: Of the measurements, for the card.
        seed: Of every random choice.

    Raises:
        DatasetError: There is no such store, or it does not hold exactly one matching platform.
        TrainingError: Too few measurements, or nothing there is of a family or lineage to be left out.
        MissingExtraError: A package of the extra ``local`` is not installed.

    Example:
        >>> import latcast
        >>> names = [network.name for network in latcast.models() if network.million_macs][::20]
        >>> told = latcast.predict_many(names, on="pixel4/tflite-2.10/gpu/fp16")  # in place of measurements
        >>> with latcast.Store("measurements.sqlite") as store:
        ...     for each in told:
        ...         known = latcast.Measurement(each.platform, latcast.model(each.model), latency_ms=each.latency_ms)
        ...         assert store.add(known)
        >>> latcast.train("measurements.sqlite", learn_from="networks")
        <PlatformPredictor pixel4/tflite-2.10/gpu/fp16>
    """
    require("training", *LEARNING)
    from latcast.datasets.opening import only_platform, opened
    from latcast.fusion.detected_rules import chosen_rules

    with opened(store) as kept:
        chosen = only_platform(kept, None if platform is None else str(platform))
        environment = environment_of(kept, chosen)
        known_rules = rules_of_host(environment, chosen, chosen_rules(rules, chosen))
        data = collect_stored(kept, chosen, known_rules)
        wanted = restrict(data, lambda sample: not _names_of(sample) & set(leave_out))
        starts = learned_starts(kept, chosen, known_rules, {sample.reference.key for sample in wanted.networks})
    groups = {name for sample in data.networks for name in _names_of(sample)}
    unknown = sorted(set(leave_out) - groups)
    if unknown:
        known = ", ".join(sorted(groups)) or "none"
        raise TrainingError(f"found no networks of '{unknown[0]}' to leave out; there are {known}")
    trainer = Trainer(chosen, known_rules, learn_from, model, seed)
    predictor = trained_with_card(trainer, wanted, environment=environment)
    predictor = replace(predictor, start=starts)
    further: dict[str, Any] = {"left_out": list(data.skipped)} if data.skipped else {}
    if licence is not None:
        further["licence"] = licence
    return predictor.with_card({**predictor.card, **further})


def rules_of_host(environment: Mapping[str, Any], platform: Platform, rules: FusionRules) -> FusionRules:
    """Return a platform's shipped rules as those of the machine that was measured.

    Rules that assume a GPU become those of the one that the driver names; rules of a CPU those of its instruction set.

    Args:
        environment: Of a measurement.
        platform: Measured.
        rules: Others than the shipped ones stay.
    """
    parts = [part for name in ("host", "device") if isinstance(part := environment.get(name), Mapping)]
    gpu = next((str(part["gpu"]) for part in parts if part.get("gpu")), "")
    if rules.assumed:
        return platform_rules(platform, gpu) if gpu and family_in(gpu) is not None else rules
    flags = next((str(cpu["flags"]) for part in parts if isinstance(cpu := part.get("cpu"), Mapping) and cpu.get("flags")), "")
    return platform_rules(platform, cpu_flags=flags) if flags and rules == platform_rules(platform) else rules


def rules_of_store(store: Store, platform: Platform) -> FusionRules:
    """Return a platform's shipped rules as those of the machine that a store's measurements are of."""
    return rules_of_host(environment_of(store, platform), platform, platform_rules(platform))


def _names_of(sample: NetworkSample) -> set[str]:
    """Return the names by which a network can be left out."""
    return {sample.family, sample.lineage, sample.reference.space}


def environment_of(store: Store, platform: Platform) -> dict[str, Any]:
    """Return the environment of a platform's first measurement, without what belongs to that moment alone."""
    from latcast.environment import MOMENT

    for measurement in store.measurements(platform=platform.id):
        return {name: value for name, value in measurement.environment.items() if name != MOMENT}
    return {}


def trained_with_card(
    trainer: Trainer, data: TrainingData, *, seconds: float | None = None, environment: dict[str, Any] | None = None
) -> PlatformPredictor:
    """Train a predictor whose interval and card come from networks held out by whole lineages.

    Both rest on whole networks, where there are enough of them.
    """
    groups = [sample.lineage for sample in data.networks]
    predictor, held_out = trainer.fit_with_held_out(data, groups)
    card: dict[str, Any] = {
        "trained_on": _describe_samples(data, trainer.learn_from),
        "learn_from": trainer.learn_from,
        "model": chosen_model(trainer.learn_from, trainer.model),
        TRAINING_KEYS: sorted(sample.reference.key for sample in data.networks),
        TRAINING_LINEAGES: sorted({sample.lineage for sample in data.networks}),
        "measurements": len(data.networks) + len(data.isolated),
        "seconds": seconds,
        "licence": OWN_MEASUREMENTS,
        "environment": environment or {},
    }
    if held_out is not None:
        growth = GPUS_OUTSIDE_GROWTH if unit_kind(trainer.platform.unit) == "gpu" else OUTSIDE_GROWTH
        with_relatives = None
        if predictor.interval.novelty == VARIANCE:
            with_relatives = trainer.held_out(data, [sample.reference.key for sample in data.networks])
        judged = CalibrationNetworks.of(data.networks, held_out, outside_growth=growth, with_relatives=with_relatives)
        predictor, figures = calibrated(predictor, judged)
        card["lineages"] = judged_by(lambda sample: sample.lineage, judged)
        if len({sample.reference.space for sample in data.networks} & SPACES_OF_NAMES) > 1:
            card["spaces"] = judged_by(lambda sample: sample.reference.space, judged)
        if with_relatives is not None:
            card["random_networks"] = judged_at_random(predictor, data.networks, with_relatives)
        held_out_groups = held_out_by(groups, FOLDS, trainer.seed)
        card |= {**figures.to_json(), "held_out_by": f"{held_out_groups}, within the training networks"}
    return predictor.with_card(card)


@dataclass(frozen=True)
class CalibrationNetworks:
    """Networks that an interval and a card rest on, with their held-out predictions.

    Attributes:
        networks: Chosen by :func:`latcast.training.samples.calibration_networks`.
        held_out: Predictions without their lineage.
        outside_growth: By how much an interval grows with novelty.
        with_relatives: Predictions with relatives in the training data, or None.
    """

    networks: tuple[NetworkSample, ...]
    held_out: HeldOut
    outside_growth: float
    with_relatives: HeldOut | None

    @classmethod
    def of(
        cls,
        networks: Sequence[NetworkSample],
        held_out: HeldOut,
        *,
        outside_growth: float = OUTSIDE_GROWTH,
        with_relatives: HeldOut | None = None,
    ) -> CalibrationNetworks:
        """Choose the networks to calibrate and judge on, with their predictions, (networks,)."""
        chosen = calibration_networks(networks)
        relatives = None if with_relatives is None else with_relatives[chosen]
        return cls(tuple(compress(networks, chosen)), held_out[chosen], outside_growth, relatives)

    @cached_property
    def latency_ms(self) -> np.ndarray:
        """Measured latencies, (networks,)."""
        return np.array([sample.latency_ms for sample in self.networks])

    @cached_property
    def lineages(self) -> list[str]:
        """Groups in which networks are calibrated and judged, (networks,)."""
        return lineages_of(self.networks)

    @cached_property
    def bounds_ms(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Bounds of each network by an interval of the other lineages, each (networks,)."""
        return unseen_bounds_ms(
            self.latency_ms, self.held_out, self.lineages,
            outside_growth=self.outside_growth, with_relatives=self.with_relatives, by_length=True,
        )  # fmt: skip


def calibrated(predictor: PlatformPredictor, judged: CalibrationNetworks) -> tuple[PlatformPredictor, Metrics]:
    """Return a predictor with an interval from networks held out, and how well these were predicted.

    The interval grows with novelty as is given, or, where the networks were predicted from relatives too, as is learned.
    """
    actual, found, lineages = judged.latency_ms, judged.held_out, judged.lineages
    figures = judge(found.latency_ms, actual, *(judged.bounds_ms or (None, None)))
    if judged.with_relatives is None:
        interval = conformal_interval(actual, found, lineages, outside_growth=judged.outside_growth, by_length=True)
    else:
        interval = interval_with_relatives(actual, found, judged.with_relatives, lineages)
    return replace(predictor, interval=replace(interval, novelty=predictor.interval.novelty)), figures


def judged_by(group_of: Callable[[NetworkSample], str], judged: CalibrationNetworks) -> dict[str, dict[str, float | int | None]]:
    """Return figures of each group of designed networks, lineages held out, by an interval of the other lineages."""
    labels = np.array([group_of(sample) if sample.designed else "" for sample in judged.networks])
    figures = {}
    for name in sorted(set(labels.tolist()) - {""}):
        rows = labels == name
        bounds = (None, None) if judged.bounds_ms is None else (judged.bounds_ms[0][rows], judged.bounds_ms[1][rows])
        of_group = judge(judged.held_out.latency_ms[rows], judged.latency_ms[rows], *bounds).to_json()
        figures[name] = {key: of_group[key] for key in ("networks", "mape", "within_10", "interval_coverage")}
    return figures


def judged_at_random(
    predictor: PlatformPredictor, networks: Sequence[NetworkSample], predicted: HeldOut
) -> dict[str, float | None]:
    """Return the figures of networks whose relatives were trained on, and how many lie inside the interval of the predictor."""
    chosen = calibration_networks(networks)
    actual = np.array([sample.latency_ms for sample in networks])
    bounds_ms = predictor.interval.bounds_ms(predicted.latency_ms[chosen], predicted.outside_share[chosen])
    figures = judge(predicted.latency_ms[chosen], actual[chosen], *bounds_ms).to_json()
    return {name: figures[name] for name in AT_RANDOM}


AT_RANDOM = ("mape", "within_5", "within_10", "rmse_ms", "rmspe", "spearman", "interval_coverage")
"""Figures of random networks on a card."""


def _describe_samples(data: TrainingData, learn_from: str) -> str:
    counts: dict[str, int] = {}
    for sample in data.networks:
        name = sample.family if sample.whole else sample.reference.space
        counts[name] = counts.get(name, 0) + 1
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    found = [f"{len(data.networks)} networks ({listed})"] if counts else []
    if learn_from == "kernels":
        found.append(f"{len(data.isolated)} kernels timed alone")
    elif learn_from == "operators":
        found.append(f"{len(data.profiled)} kernels timed inside networks")
    return "; ".join(found)
