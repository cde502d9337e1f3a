"""Rounds of an adaptation: kernels to measure on a new platform, and predictors transferred to it (LitePred §5).

The beginning holds representative kernels, by which the most similar predictors of the pool are found (§5.1), a fixed test set
and a first round of samples, five times as many of the convolutions as of other kernels (500 and 100 in §6). Then predictors
are adapted, judged on the test set, and kernel types that are not accurate enough get more samples, round by round (§5.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latcast.errors import LatcastError, TrainingError
from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import FusionRules
from latcast.measure.campaign import CampaignItem
from latcast.measure.settings import KERNEL_PLAN
from latcast.predictors.analytical import AnalyticalTerms, fit_from_kernels
from latcast.predictors.card import TRAINING_LINEAGES
from latcast.predictors.kernel_predictor import KernelPredictor, fit_kernel_predictor
from latcast.spaces.kernel_space import kernel_reference
from latcast.spaces.kernel_zoo import KernelZoo
from latcast.training.kernel_rounds import KernelRounds
from latcast.training.pool import FEWEST, Pool, Similarity, representative_configurations, similarities
from latcast.training.residual_transfer import SCRATCH, Transferred, fit_transferred, kernel_source

CONVOLUTIONS = ("conv", "depthwise_conv")
"""Kernel types that decide a network's latency: they have most samples, and representative kernels."""

CONVOLUTION_SAMPLES, OTHER_SAMPLES = 500, 100
"""Samples of the first round at full budget (§6); with a smaller one both shrink alike."""

REPRESENTATIVE_SHARE = 0.2
"""Representative kernels of a convolution, as a part of its samples; the paper has 400 beside 500."""

UNLIKE_DIVERGENCE = 0.3
"""Divergence of the nearest convolutions from which on a platform is unlike the pool; similar ones are below 0.2."""

MOST_COMPARED = 300
"""Kernels of a type that the pool is compared on; more would not change the order."""


@dataclass(frozen=True)
class AccuracyTarget:
    """The accuracy that a kernel type must reach on its test set.

    Attributes:
        tolerance: Relative error that counts as right.
        share: Part of the kernels that are to be right.
    """

    tolerance: float
    share: float

    def met(self, relative: np.ndarray) -> bool:
        """Return whether relative errors, (kernels,), meet it."""
        return float(np.mean(relative <= self.tolerance)) >= self.share

    def __str__(self) -> str:
        return f"±{100 * self.tolerance:g}={100 * self.share:g}"


def parse_target(text: str) -> AccuracyTarget:
    """Read ``±10=95``: 95 % of the kernels within ±10 %.

    >>> parse_target("±10=95")
    AccuracyTarget(tolerance=0.1, share=0.95)

    Raises:
        TrainingError: The text is not a target.
    """
    found = re.fullmatch(r"\s*(?:±|\+-|\+/-)?\s*([0-9.]+)\s*%?\s*=\s*([0-9.]+)\s*%?\s*", text)
    try:
        tolerance, share = (float(part) / 100 for part in found.groups()) if found else (0.0, 0.0)
    except ValueError:
        tolerance = share = 0.0
    if not tolerance > 0 or not 0 < share <= 1:
        raise TrainingError(f"found the target '{text}', expected such as ±10=95: 95 % of the kernels within ±10 %")
    return AccuracyTarget(tolerance, share)


class AdaptationRounds(KernelRounds):
    """Kernels to measure next on a new platform, of all kernel types of its runtime.

    Args:
        rules: Fusion rules of the runtime.
        zoo: Kernels of networks.
        count: How many kernels the whole campaign is planned for.
        pool: Predictors of other platforms.
        sampler: Name in :data:`latcast.samplers.SAMPLERS`.
        seed: Of every random choice.
        target: Where it is met, a type gets no more samples.
        types: Only these kernel types.
    """

    def __init__(
        self,
        rules: FusionRules,
        zoo: KernelZoo,
        count: int,
        pool: Pool,
        *,
        sampler: str = "prior",
        seed: int = 0,
        target: AccuracyTarget | None = None,
        types: Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            rules, zoo, count, sampler=sampler, seed=seed, types=types,
            weight_of=lambda name: CONVOLUTION_SAMPLES if name in CONVOLUTIONS else OTHER_SAMPLES,
        )  # fmt: skip
        self._pool = pool
        self._target = target
        self.similar: dict[str, list[Similarity]] = {}
        """Predictors of the pool by kernel type, most similar first, as of the last fit."""
        self.transferred: dict[str, Transferred] = {}
        """How each kernel type was learned in the last fit."""
        self._representative: dict[str, list[Configuration]] = {}
        for name, plan in self._plans.items():
            if name in CONVOLUTIONS and len(pool.knowing(name)):
                wanted = max(round(REPRESENTATIVE_SHARE * plan.share * count), FEWEST)
                rows = representative_configurations(self.spaces[name], zoo.get(name, {}), wanted, seed=seed)
                held_out = set(plan.test_set)
                self._representative[name] = [row for row in rows if row not in held_out]
                plan.sampler.observe(self._representative[name])

    def beginning(self) -> list[CampaignItem]:
        """Return representative kernels, then test sets and first samples; always the same ones."""
        first = [(name, row) for name, rows in self._representative.items() for row in rows]
        return [CampaignItem(kernel_reference(*each), "kernel", KERNEL_PLAN) for each in first] + super().beginning()

    def reached(self, type_name: str, relative: np.ndarray | None) -> bool:
        return relative is not None and self._target is not None and self._target.met(relative)

    def fit(self, samples: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> tuple[AnalyticalTerms, Mapping[str, KernelPredictor]]:
        """Rank the pool and adapt its predictors to samples; train from scratch where the platform is unlike."""
        analytical = fit_from_kernels(samples)
        self.similar = {name: self._ranked(name, *found) for name, found in samples.items()}
        self.transferred = {}
        for name, (rows, latency_ms) in samples.items():
            if self.unlike:
                scratch = fit_kernel_predictor(name, rows, latency_ms, analytical, seed=self._seed)
                self.transferred[name] = Transferred(scratch, SCRATCH, {})
            else:
                sources = [kernel_source(self._pool.predictors[each.platform], name) for each in self.similar[name]]
                self.transferred[name] = fit_transferred(name, rows, latency_ms, analytical, sources, seed=self._seed)
        return analytical, {name: found.predictor for name, found in self.transferred.items()}

    @property
    def unlike(self) -> bool:
        """True if the last fit found no similar platform in the pool, by its convolutions; also for an empty pool."""
        return self.nearest is None or self.nearest.divergence > UNLIKE_DIVERGENCE

    @property
    def nearest(self) -> Similarity | None:
        """The pool's platform that is most similar by its convolutions; None where none knows them."""
        found = [self.similar[name][0] for name in CONVOLUTIONS if self.similar.get(name)]
        return min(found, key=lambda each: each.divergence, default=None)

    def source_lineages(self) -> set[str] | None:
        """Return the lineages that the sources of the last fit were trained on; None where one does not say."""
        sources = {name for found in self.transfer_to_json().values() for name in found["sources"]}
        cards = [self._pool.predictors[name].card for name in sources]
        if any(TRAINING_LINEAGES not in card for card in cards):
            return None
        return {lineage for card in cards for lineage in card[TRAINING_LINEAGES]}

    def transfer_to_json(self) -> dict[str, dict[str, Any]]:
        """Return, by kernel type, how it was learned, from which platforms, how similar, and from how many samples."""
        found = {}
        for name, each in self.transferred.items():
            base = each.predictor.base
            found[name] = {
                "way": each.way,
                "sources": [source.platform for source in base.sources] if base is not None else [],
                "similar": [one.to_json() for one in self.similar.get(name, [])[:3]],
                "samples": each.predictor.samples,
                "cross_validated_errors": {way: 100 * error for way, error in each.errors.items()},
            }
        return found

    def _ranked(self, name: str, rows: np.ndarray, latency_ms: np.ndarray) -> list[Similarity]:
        """Rank the pool by similarity on the measured kernels; empty where they are too few."""
        if len(latency_ms) < FEWEST:
            return []
        if len(latency_ms) > MOST_COMPARED:
            chosen = np.sort(np.random.default_rng(self._seed).choice(len(latency_ms), MOST_COMPARED, replace=False))
            rows, latency_ms = rows[chosen], latency_ms[chosen]
        try:
            return similarities(self._pool, name, rows, latency_ms)
        except LatcastError as problem:
            raise TrainingError(f"the pool cannot be compared on '{name}': {problem}") from problem
