"""Training a platform's predictor from timed kernels, profiled operators or whole networks.

``kernels``: from single kernels timed in isolation (nn-Meter §5). ``operators``: from operators timed inside networks by the
runtime's profiler (Li et al. §4). ``networks``: from whole networks alone, which needs no profiler: the sum is observed,
its terms are not. Each then fits calibration terms (:mod:`latcast.predictors.calibration_terms`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress

import numpy as np

from latcast.errors import TrainingError
from latcast.extras import require
from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import FusionRules, unit_kind
from latcast.predictors.analytical import (
    DEPTH,
    TERMS,
    fit_from_kernels,
    fit_from_networks,
    network_design,
)
from latcast.predictors.calibration_terms import (
    FEWEST_FOR_CORRECTION,
    STRENGTHS,
    STRENGTHS_OF_SCALED,
    CalibrationTerms,
    ShortNetworkCorrection,
    confirmed_short_network_correction,
    correction_level,
    fit_calibration_terms,
    sums_by_type,
)
from latcast.predictors.intervals import FOLDS, VARIANCE, HeldOut, Interval, group_folds
from latcast.predictors.kernel_predictor import (
    ANALYTICAL,
    ANALYTICAL_GBDT,
    ANALYTICAL_GP,
    KernelPredictor,
    Seen,
    fit_kernel_predictor,
)
from latcast.predictors.network_terms import NetworkTerms
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.whole_networks import fit_whole_networks, network_term_names, predictor_parts
from latcast.records import Platform
from latcast.training.samples import (
    NetworkSample,
    TrainingData,
    kernel_samples,
    restrict,
)

CORRECTION_FOLDS = 3
"""Parts of the training networks whose kernels are predicted by the others, for the short-network correction."""

FEWEST_KERNELS, FEWEST_TO_CALIBRATE, FEWEST_TO_HOLD_OUT = 10, 5, 10
"""Timed kernels to train on, networks for calibration terms, and networks of which some can be held out."""

LEARN_FROM = ("operators", "kernels", "networks")


def chosen_model(learn_from: str, model: str | None = None) -> str:
    """Return the model of kernel types: as asked for, or, where None, as suits what is learned from.

    Whole networks teach ``analytical_gp`` (their default) and ``analytical``; timed kernels teach everything else,
    ``analytical_gbdt`` by default.

    Raises:
        TrainingError: Nothing known to learn from, or a model that it does not teach.
    """
    if learn_from not in LEARN_FROM:
        raise TrainingError(f"cannot learn from '{learn_from}'; expected one of {', '.join(LEARN_FROM)}")
    if model is None:
        return ANALYTICAL_GP if learn_from == "networks" else ANALYTICAL_GBDT
    if learn_from == "networks" and model not in (ANALYTICAL_GP, ANALYTICAL):
        raise TrainingError(f"whole networks do not teach the model '{model}'; expected {ANALYTICAL_GP} or {ANALYTICAL}")
    if learn_from != "networks" and model == ANALYTICAL_GP:
        raise TrainingError(
            f"the model '{model}' is learned from whole networks; expected learn_from 'networks', found '{learn_from}'"
        )
    return model


@dataclass(frozen=True)
class _Part:
    """Kernel predictors that did not see some of the networks.

    Attributes:
        rows: (unseen,) these.
        seen: What they were trained on.
        predictor: They, without calibration terms.
    """

    rows: np.ndarray
    seen: TrainingData
    predictor: PlatformPredictor


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
        tune: Whether to choose hyper-parameters by cross-validation.
    """

    platform: Platform
    rules: FusionRules
    learn_from: str = "operators"
    model: str | None = None
    seed: int = 0
    tune: bool = False

    def fit(self, data: TrainingData) -> PlatformPredictor:
        """Return a predictor trained on all samples."""
        if self.learn_from == "networks":
            return self._fit_from_networks(data.networks)
        predictor, table = self._kernels(data), KernelTable.of([sample.kernels for sample in data.networks])
        sums, names = _sums(predictor, table)
        unseen = None
        if self._corrects(data):
            unseen = sums.copy()
            for part in self._parts(data, [sample.lineage for sample in data.networks], CORRECTION_FOLDS):
                unseen[part.rows] = _sums(part.predictor, table)[0][part.rows]
        return self._calibrated(predictor, data, sums, names, unseen)

    def fit_once(self, data: TrainingData) -> PlatformPredictor:
        """Train each kernel type once on timed kernels, a quarter of the work of :meth:`fit`.

        Its short-network correction is what those networks show that its kernels were timed in, too weak a one.
        """
        predictor, table = self._kernels(data), KernelTable.of([sample.kernels for sample in data.networks])
        return self._calibrated(predictor, data, *_sums(predictor, table), None)

    def held_out(self, data: TrainingData, groups: Sequence[str] | None = None) -> HeldOut:
        """Predict each training network, in order, by a predictor that saw nothing of its fold.

        Args:
            data: With the networks.
            groups: What is held out together, (networks,); the lineages where None.
        """
        groups = [sample.lineage for sample in data.networks] if groups is None else groups
        if self.learn_from != "networks":
            return self._held_out(data, groups)[0]
        fold = group_folds(groups, FOLDS, self.seed)
        found = HeldOut(np.full(len(data.networks), np.nan), np.zeros(len(data.networks)))
        for part in np.unique(fold):
            rows = np.flatnonzero(fold == part)
            estimates = self.fit(_without_part(data, fold, part)).estimate([data.networks[row].kernels for row in rows])
            found.latency_ms[rows], found.outside_share[rows] = estimates.latency_ms, estimates.outside_share
        return found

    def fit_with_held_out(self, data: TrainingData, groups: Sequence[str]) -> tuple[PlatformPredictor, HeldOut | None]:
        """Return what :meth:`fit` and :meth:`held_out` do; None in place of the second where the networks are too few.

        Both at once take less time: a part's kernel predictors also serve the short-network correction of the predictor.
        """
        if len(data.networks) < FEWEST_TO_HOLD_OUT:
            return self.fit(data), None
        # There may be enough to train on all, but not on all but a part.
        try:
            if self.learn_from == "networks":
                return self.fit(data), self.held_out(data, groups)
            predictor = self._kernels(data)
            held_out, unseen = self._held_out(data, groups)
        except TrainingError:
            return self.fit(data), None
        sums, names = _sums(predictor, KernelTable.of([sample.kernels for sample in data.networks]))
        return self._calibrated(predictor, data, sums, names, unseen if self._corrects(data) else None), held_out

    @property
    def _corrects_short_networks(self) -> bool:
        """Return whether short networks are corrected for: a GPU's kernels take as long in short networks as in long ones."""
        return unit_kind(self.platform.unit) != "gpu"

    def _corrects(self, data: TrainingData) -> bool:
        """Return whether the short-network correction is learned from predictors that did not see the networks."""
        enough = len(data.networks) >= FEWEST_FOR_CORRECTION
        return self._corrects_short_networks and self.learn_from == "operators" and enough

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
        samples = kernel_samples(observations)
        timed = {name: (found.configurations, found.latency_ms) for name, found in samples.items()}
        analytical = fit_from_kernels(timed, terms=kernel_term_names(self.platform))
        kernels = {
            name: fit_kernel_predictor(
                name, found.configurations, found.latency_ms, analytical, model=model, seed=self.seed, tune=self.tune
            )
            for name, found in samples.items()
            # Operators of no type have nothing in common that a regressor could learn.
            if name != "other"
        }
        return PlatformPredictor(self.platform, self.rules, analytical, kernels)

    def _parts(self, data: TrainingData, groups: Sequence[str], count: int) -> Iterator[_Part]:
        """Return, for each fold, predictors that saw none of its networks; groups, (networks,), stay whole."""
        fold = group_folds(groups, count, self.seed)
        for part in np.unique(fold):
            rest = _without_part(data, fold, part)
            yield _Part(np.flatnonzero(fold == part), rest, self._kernels(rest))

    def _calibrated(
        self, predictor: PlatformPredictor, data: TrainingData, sums: np.ndarray, names: Sequence[str], unseen: np.ndarray | None
    ) -> PlatformPredictor:
        """Return the predictor with calibration terms added.

        The short-network correction comes from kernel predictors that did not see the networks, where there are any: a predictor
        already holds part of it for the networks that its kernels were timed in. The weights of types stay, but for one level.
        Segments of networks teach what kernels take, and do not change the overhead of networks.

        Args:
            predictor: From :meth:`_kernels`.
            data: With the networks.
            sums: (networks, types + 1) from :func:`latcast.predictors.calibration_terms.sums_by_type`, by the predictor.
            names: The types.
            unseen: The same by predictors that did not see each network; None where there are none.
        """
        whole = np.array([sample.whole for sample in data.networks], dtype=bool)
        data = replace(data, networks=tuple(compress(data.networks, whole)))
        sums, unseen = sums[whole], None if unseen is None else unseen[whole]
        if len(data.networks) < FEWEST_TO_CALIBRATE:
            return predictor
        latency_ms = np.array([sample.latency_ms for sample in data.networks])
        lineages = [sample.lineage for sample in data.networks]
        scaled = self.learn_from == "operators" and data.scaled
        strengths = STRENGTHS_OF_SCALED if scaled else STRENGTHS
        fit = partial(fit_calibration_terms, sums, names, latency_ms, lineages, seed=self.seed, strengths=strengths)
        terms = fit(correction=None if self._corrects_short_networks else ShortNetworkCorrection())
        if unseen is not None:
            unseen_ms = terms.long_network_ms(unseen, names)
            correction = confirmed_short_network_correction(unseen_ms, latency_ms, lineages, seed=self.seed)
            if correction.exponents:
                level = correction_level(unseen_ms, latency_ms, correction)
                terms = replace(terms, short_networks=correction).scaled(level)
            else:
                terms = fit(correction=correction)
        return replace(predictor, network=terms)

    def _held_out(self, data: TrainingData, groups: Sequence[str]) -> tuple[HeldOut, np.ndarray]:
        """Predict each network, and its sums by type, by predictors that saw nothing of its fold.

        The kernel predictors of a part serve the prediction of its networks, and, as they did not see these, the short-network
        correction of all others.
        """
        table = KernelTable.of([sample.kernels for sample in data.networks])
        parts = list(self._parts(data, groups, FOLDS))
        by_part = [_sums(part.predictor, table) for part in parts]
        unseen = np.empty((len(data.networks), len(table.configurations) + 1))
        for part, (own, _) in zip(parts, by_part, strict=True):
            unseen[part.rows] = own[part.rows]
        held_out = HeldOut(np.full(len(data.networks), np.nan), np.zeros(len(data.networks)))
        for part, (own, names) in zip(parts, by_part, strict=True):
            seen = np.setdiff1d(np.arange(len(data.networks)), part.rows)
            blind = unseen[seen] if self._corrects(part.seen) else None
            trained = self._calibrated(part.predictor, part.seen, own[seen], names, blind)
            found = trained.estimate([data.networks[row].kernels for row in part.rows])
            held_out.latency_ms[part.rows], held_out.outside_share[part.rows] = found.latency_ms, found.outside_share
        return held_out, unseen

    def _fit_from_networks(self, networks: Sequence[NetworkSample]) -> PlatformPredictor:
        require("training", "lightgbm", "scipy")
        if len(networks) < 10:
            raise TrainingError(
                f"learning from networks needs at least 10 measured networks of {self.platform}, found {len(networks)}; "
                "measure more (latcast profile)"
            )
        latency_ms = np.array([sample.latency_ms for sample in networks])
        if chosen_model(self.learn_from, self.model) == ANALYTICAL_GP:
            terms = NetworkTerms.of([sample.kernels for sample in networks], network_term_names(self.platform))
            parts = predictor_parts(fit_whole_networks(terms, latency_ms, self.platform), terms)
            return PlatformPredictor(self.platform, self.rules, *parts, interval=Interval(novelty=VARIANCE))
        table = KernelTable.of([sample.kernels for sample in networks])
        design, names = network_design(table.configurations)
        analytical, overhead_ms = fit_from_networks(table.sum_by_network(design), names, latency_ms)
        kernels = {
            name: KernelPredictor(name, ANALYTICAL, None, rows.min(axis=0), rows.max(axis=0), 0, seen=Seen.of(name, rows))
            for name, rows in table.configurations.items()
            if name != "other"
        }
        return PlatformPredictor(self.platform, self.rules, analytical, kernels, CalibrationTerms(constant_ms=overhead_ms))


def _without_part(data: TrainingData, fold: np.ndarray, part: int) -> TrainingData:
    """Return the data without the networks of a part, and what was measured inside them; fold, (networks,), numbers the parts."""
    kept = {sample.reference.key for sample, each in zip(data.networks, fold, strict=True) if each != part}
    return restrict(data, lambda sample: sample.reference.key in kept)


def _sums(predictor: PlatformPredictor, table: KernelTable) -> tuple[np.ndarray, list[str]]:
    """Return each network's kernel latencies summed by type, without calibration terms."""
    return sums_by_type(table, predictor.raw_kernel_latency_ms(table.configurations))


def kernel_term_names(platform: Platform) -> tuple[str, ...]:
    """Return the analytical terms that timed kernels of a platform teach."""
    return (*TERMS, DEPTH) if unit_kind(platform.unit) == "gpu" else TERMS


def fit_calibration(predictor: PlatformPredictor, networks: Sequence[NetworkSample], seed: int) -> CalibrationTerms:
    """Return the calibration terms by which a predictor's kernels give the latencies of whole networks.

    Args:
        predictor: Its kernel predictors are used, its calibration terms are not.
        networks: Measured.
        seed: Of folds.
    """
    sums, names = _sums(predictor, KernelTable.of([sample.kernels for sample in networks]))
    latency_ms = np.array([sample.latency_ms for sample in networks])
    return fit_calibration_terms(sums, names, latency_ms, [sample.lineage for sample in networks], seed=seed)
