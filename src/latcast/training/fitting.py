"""Training a platform's predictor from timed kernels, profiled operators or whole networks.

``kernels``: from single kernels timed in isolation (nn-Meter §5). ``operators``: from operators timed inside networks by the
runtime's profiler (Li et al. §4). ``networks``: from whole networks alone, which needs no profiler: the sum is observed,
its terms are not. Each then fits calibration terms (:mod:`latcast.predictors.calibration_terms`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from latcast.errors import TrainingError
from latcast.extras import require
from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import FusionRules, unit_kind
from latcast.predictors.analytical import (
    COLD_TERMS,
    DEPTH,
    TERMS,
    fit_from_kernels,
)
from latcast.predictors.calibration_terms import (
    LEVELS,
    STRENGTHS,
    STRENGTHS_OF_SCALED,
    CalibrationTerms,
    Coldness,
    ShortNetworkCorrection,
    at_coldness,
    fit_calibration_terms,
    sums_by_type,
)
from latcast.predictors.intervals import FOLDS, VARIANCE, HeldOut, Interval, group_folds
from latcast.predictors.kernel_predictor import (
    ANALYTICAL_GBDT,
    ANALYTICAL_GP,
    fit_kernel_predictor,
)
from latcast.predictors.network_priors import network_term_names, smooth_deviations
from latcast.predictors.network_terms import NetworkTerms
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.whole_networks import fit_whole_networks, predictor_parts
from latcast.records import Platform
from latcast.training.samples import (
    NetworkSample,
    TrainingData,
    kernel_samples,
    restrict,
)

FEWEST_KERNELS, FEWEST_TO_CALIBRATE, FEWEST_TO_HOLD_OUT = 10, 5, 10
"""Timed kernels to train on, networks for calibration terms, and networks of which some can be held out."""

MOST_ERROR = 0.5
"""An error beyond this counts as this where ways to train are compared, so that no single network decides."""

LEARN_FROM = ("operators", "kernels", "networks")


def chosen_model(learn_from: str, model: str | None = None) -> str:
    """Return the model of kernel types: as asked for, or, where None, as suits what is learned from.

    Whole networks teach ``analytical_gp``; timed kernels teach everything else, ``analytical_gbdt`` by default.

    Raises:
        TrainingError: Nothing known to learn from, or a model that it does not teach.
    """
    if learn_from not in LEARN_FROM:
        raise TrainingError(f"cannot learn from '{learn_from}'; expected one of {', '.join(LEARN_FROM)}")
    if model is None:
        return ANALYTICAL_GP if learn_from == "networks" else ANALYTICAL_GBDT
    if learn_from == "networks" and model != ANALYTICAL_GP:
        raise TrainingError(f"whole networks do not teach the model '{model}'; expected {ANALYTICAL_GP}")
    if learn_from != "networks" and model == ANALYTICAL_GP:
        raise TrainingError(
            f"the model '{model}' is learned from whole networks; expected learn_from 'networks', found '{learn_from}'"
        )
    return model


@dataclass(frozen=True)
class Trainer:
    """How predictors of a platform are trained; none has an interval (:func:`latcast.training.from_store.trained_with_card`).

    Every method raises a TrainingError where there are too few measurements, nothing known to learn from, or a model that it does
    not teach, and a MissingExtraError where a package of the extra ``local`` is not installed.

    Attributes:
        platform: What they predict for.
        rules: Fusion rules the samples were collected under.
        learn_from: One of :data:`LEARN_FROM`.
        model: How a kernel type is modelled, see :func:`chosen_model`.
        seed: For every random choice.
        by_coldness: Whether what a kernel takes depends on how cold its network leaves the caches; :meth:`chosen` finds out.
    """

    platform: Platform
    rules: FusionRules
    learn_from: str = "operators"
    model: str | None = None
    seed: int = 0
    by_coldness: bool = False

    def fit(self, data: TrainingData) -> PlatformPredictor:
        """Return a predictor trained on all samples."""
        if chosen_model(self.learn_from, self.model) == ANALYTICAL_GP:
            return self._fit_from_networks(data.networks)
        predictor = self._kernels(data)
        return replace(predictor, network=self._calibration(predictor, data.networks, scaled=data.scaled))

    def held_out(self, data: TrainingData, groups: Sequence[str] | None = None) -> HeldOut:
        """Predict each training network, in order, by a predictor that saw nothing of its fold.

        Args:
            data: With the networks.
            groups: What is held out together, (networks,); the lineages where None.
        """
        groups = [sample.lineage for sample in data.networks] if groups is None else groups
        fold = group_folds(groups, FOLDS, self.seed)
        found = HeldOut(np.full(len(data.networks), np.nan), np.zeros(len(data.networks)))
        for part in np.unique(fold):
            rows = np.flatnonzero(fold == part)
            estimates = self.fit(_without_part(data, fold, part)).estimate([data.networks[row].kernels for row in rows])
            found.latency_ms[rows], found.outside_share[rows] = estimates.latency_ms, estimates.outside_share
        return found

    def fit_with_held_out(self, data: TrainingData, groups: Sequence[str]) -> tuple[PlatformPredictor, HeldOut | None]:
        """Return what :meth:`fit` and :meth:`held_out` of the :meth:`chosen` trainer do.

        None in place of the second where the networks are too few.
        """
        if len(data.networks) < FEWEST_TO_HOLD_OUT:
            return self.fit(data), None
        # There may be enough to train on all, but not on all but a part.
        try:
            trainer, held_out = self.chosen(data, groups)
            return trainer.fit(data), held_out
        except TrainingError:
            return self.fit(data), None

    def chosen(self, data: TrainingData, groups: Sequence[str]) -> tuple[Trainer, HeldOut]:
        """Return the trainer whose kernels depend on coldness where that helps, with its predictions of networks held out.

        It has to be better on whole networks by more than a standard error of the mean difference. On a GPU it is not tried:
        kernels there take as long in short networks as in long ones.

        Args:
            data, groups: As for :meth:`held_out`.
        """
        whole = np.array([sample.whole for sample in data.networks])
        actual_ms = np.array([sample.latency_ms for sample in data.networks])

        def errors(found: HeldOut) -> np.ndarray:
            return np.minimum(np.abs(found.latency_ms / actual_ms - 1), MOST_ERROR)[whole if whole.any() else ~whole]

        without, with_coldness = replace(self, by_coldness=False), replace(self, by_coldness=True)
        held_out = without.held_out(data, groups)
        if self.learn_from != "operators" or unit_kind(self.platform.unit) == "gpu":
            return without, held_out
        found = with_coldness.held_out(data, groups)
        gain = errors(held_out) - errors(found)
        return (with_coldness, found) if gain.mean() > gain.std() / np.sqrt(len(gain)) else (without, held_out)

    @property
    def _coldness(self) -> Coldness | None:
        """Return how caches cool down; None where that does not count."""
        return Coldness() if self.by_coldness else None

    def _kernels(self, data: TrainingData) -> PlatformPredictor:
        """Return a predictor without calibration terms."""
        require("training", "lightgbm", "scipy")
        model = chosen_model(self.learn_from, self.model)
        observations = data.isolated if self.learn_from == "kernels" else data.profiled
        if len(observations) < FEWEST_KERNELS:
            needed = "isolated kernels" if self.learn_from == "kernels" else "profiled operators"
            raise TrainingError(
                f"learning from {self.learn_from} needs at least {FEWEST_KERNELS} {needed} of {self.platform}, "
                f"found {len(observations)}; measure more (latcast profile)"
            )
        coldness, terms = {}, kernel_term_names(self.platform)
        if self._coldness is not None:
            of_networks = self._coldness.of(np.array([sample.latency_ms for sample in data.networks]))
            keys = [sample.reference.key for sample in data.networks]
            coldness, terms = dict(zip(keys, of_networks.tolist(), strict=True)), (*TERMS, *COLD_TERMS)
        samples = kernel_samples(observations, coldness)
        timed = {name: (found.configurations, found.latency_ms) for name, found in samples.items()}
        block = self.rules.layouts.block if self.rules.layouts is not None else 0
        analytical = fit_from_kernels(timed, terms, {name: found.coldness for name, found in samples.items()}, block)
        kernels = {
            name: fit_kernel_predictor(
                name,
                found.configurations,
                found.latency_ms,
                analytical,
                coldness=found.coldness if coldness else None,
                model=model,
                seed=self.seed,
            )
            for name, found in samples.items()
            # Operators of no type have nothing in common that a regressor could learn.
            if name != "other"
        }
        return PlatformPredictor(self.platform, self.rules, analytical, kernels)

    def _calibration(self, predictor: PlatformPredictor, networks: Sequence[NetworkSample], *, scaled: bool) -> CalibrationTerms:
        """Return the calibration terms of a predictor from :meth:`_kernels`.

        Segments of networks teach what kernels take, and do not change the overhead of networks.

        Args:
            predictor: Of kernels.
            networks: Whole ones and segments.
            scaled: Whether kernels were scaled to add up to their networks.
        """
        whole = [sample for sample in networks if sample.whole]
        if len(whole) < FEWEST_TO_CALIBRATE:
            return CalibrationTerms(coldness=self._coldness)
        is_corrected = unit_kind(self.platform.unit) != "gpu" and self._coldness is None
        return fit_calibration(
            predictor, whole, self.seed, coldness=self._coldness,
            strengths=STRENGTHS_OF_SCALED if scaled and self.learn_from == "operators" else STRENGTHS,
            correction=None if is_corrected else ShortNetworkCorrection(),
        )  # fmt: skip

    def _fit_from_networks(self, networks: Sequence[NetworkSample]) -> PlatformPredictor:
        require("training", "lightgbm", "scipy")
        if len(networks) < 10:
            raise TrainingError(
                f"learning from networks needs at least 10 measured networks of {self.platform}, found {len(networks)}; "
                "measure more (latcast profile)"
            )
        latency_ms = np.array([sample.latency_ms for sample in networks])
        kernels, names = [sample.kernels for sample in networks], network_term_names(self.platform)
        terms = NetworkTerms.of(kernels, names, smooth_deviations(self.platform))
        parts = predictor_parts(fit_whole_networks(terms, latency_ms, self.platform), terms)
        return PlatformPredictor(self.platform, self.rules, *parts, interval=Interval(novelty=VARIANCE))


def _without_part(data: TrainingData, fold: np.ndarray, part: int) -> TrainingData:
    """Return the data without the networks of a part, and what was measured inside them; fold, (networks,), numbers the parts."""
    kept = {sample.reference.key for sample, each in zip(data.networks, fold, strict=True) if each != part}
    return restrict(data, lambda sample: sample.reference.key in kept)


def kernel_term_names(platform: Platform) -> tuple[str, ...]:
    """Return the analytical terms that timed kernels of a platform teach."""
    return (*TERMS, DEPTH) if unit_kind(platform.unit) == "gpu" else TERMS


def fit_calibration(
    predictor: PlatformPredictor,
    networks: Sequence[NetworkSample],
    seed: int,
    *,
    coldness: Coldness | None = None,
    correction: ShortNetworkCorrection | None = None,
    strengths: Sequence[float] = STRENGTHS,
) -> CalibrationTerms:
    """Return the calibration terms by which a predictor's kernels give the latencies of whole networks.

    Args:
        predictor: Its kernel predictors are used, its calibration terms are not.
        networks: Measured.
        seed: Of folds.
        coldness: Gives the coldness of each network, at which its kernels are predicted; caches are cold in all where None.
        correction, strengths: As for :func:`latcast.predictors.calibration_terms.fit_calibration_terms`.
    """
    table = KernelTable.of([sample.kernels for sample in networks])
    latency_ms = np.array([sample.latency_ms for sample in networks])
    if coldness is None:
        sums, names = sums_by_type(table, predictor.raw_kernel_latency_ms(table.configurations))
    else:
        by_level = predictor.kernel_latency_by_coldness_ms(table.configurations, LEVELS)
        levels = np.stack([sums_by_type(table, each)[0] for each in by_level])
        sums, names = at_coldness(levels, coldness.of(latency_ms)), list(table.configurations)
    lineages = [sample.lineage for sample in networks]
    terms = fit_calibration_terms(sums, names, latency_ms, lineages, seed=seed, correction=correction, strengths=strengths)
    return replace(terms, coldness=coldness)
