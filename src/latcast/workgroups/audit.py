"""Evaluation of a sweep: how far it can be trusted, how much sizes matter, how well each rule and each strategy does on it.

A rule's importance is the score of Jiang et al. (eq. 8), beside that of a filter by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from latcast.workgroups.rules import RULES, judge_sizes
from latcast.workgroups.strategies import STRATEGIES, StrategyResult
from latcast.workgroups.sweep import SizeSweep

UTILISATION = (
    "unavailable: the counters of arithmetic units are told by the vendors' profilers alone (Streamline, Snapdragon Profiler)"
)
"""Why the paper's utilisation of arithmetic units (Figs. 3 and 4) is not reproduced."""


@dataclass(frozen=True)
class Importance:
    """One rule on one sweep.

    Attributes:
        rule: "I" to "V".
        score: S_r of eq. 8, from 0 (as the worst size) to 1 (as the best); None where no size follows it, or where it cannot be
            evaluated.
        above_chance: ``score`` minus that of a filter that lets sizes pass at random, which is far from 0.
        why: The numbers that the rule compares, or why it cannot be evaluated.
    """

    rule: str
    score: float | None
    above_chance: float | None
    why: str


@dataclass(frozen=True, eq=False)
class Audit:
    """The verdict on one sweep.

    Attributes:
        sweep: The measurements.
        refused: Why its sizes are not ranked; empty where they are. Then there are no scores and no results.
        chance: Score of eq. 8 of a filter by chance.
        importances: One for each rule.
        results: One for each strategy.
    """

    sweep: SizeSweep
    refused: str
    chance: float | None = None
    importances: tuple[Importance, ...] = ()
    results: tuple[StrategyResult, ...] = ()

    def result(self, strategy: str) -> StrategyResult | None:
        """Return the result of one strategy; None where it could not be followed, or the sweep is refused."""
        return next((found for found in self.results if found.strategy == strategy and found.relative is not None), None)

    def to_json(self) -> dict[str, Any]:
        """Return the audit for scripts."""
        sweep = self.sweep
        return {
            "device": sweep.device.title, "operator": sweep.operator, "kernel": sweep.descriptor.name,
            "variant": dict(sweep.variant), "grid": list(sweep.grid.shape), "sizes": len(sweep.sizes),
            "failed": len(sweep.failed), "runs": sweep.rounds, "interleaved": sweep.interleaved,
            "repeatability": None if np.isnan(sweep.repeatability) else sweep.repeatability, "refused": self.refused or None,
            "best": None if self.refused else list(sweep.best.shape), "best_ms": float(sweep.latency_ms.min()),
            "worst_over_best": float(sweep.relative.max()),
            "competitive_percent": None if self.refused else 100 * sweep.competitive_share, "chance_score": self.chance,
            "rules": [asdict(found) for found in self.importances], "strategies": [asdict(found) for found in self.results],
            "utilisation": UTILISATION,
        }  # fmt: skip


def audit(sweep: SizeSweep) -> Audit:
    """Judge a sweep; where its order is noise, say only so.

    A size's term of eq. 8 is (worst - latency) / (worst - best). A rule scores the mean of the sizes that follow it, a filter
    that lets sizes pass at random the mean of all.
    """
    refused = sweep.why_not_rankable()
    if refused:
        return Audit(sweep, refused)
    worst, best = sweep.latency_ms.max(), sweep.latency_ms.min()
    terms = np.ones(len(sweep.sizes)) if worst == best else (worst - sweep.latency_ms) / (worst - best)
    chance = float(terms.mean())
    importances = []
    for found in judge_sizes(sweep.shapes, sweep.situation):
        follows = found.passes is not None and found.passes.any()
        score = float(terms[found.passes].mean()) if follows else None
        importances.append(Importance(found.rule, score, None if score is None else score - chance, found.why))
    return Audit(sweep, "", chance, tuple(importances), tuple(strategy(sweep) for strategy in STRATEGIES.values()))


@dataclass(frozen=True)
class Summary:
    """Several audits of one device and one kind of operator, as means over the sweeps that can be ranked.

    Attributes:
        title: Device and operator.
        sweeps: How many there are.
        ranked: How many could be ranked.
        sizes: Mean number of sizes.
        repeatability: Mean over all sweeps whose sizes ran more than once, and the least; None where there are none.
        worst_over_best: Mean.
        competitive: Mean share of sizes within 15 % of the best.
        chance: Mean score of a filter by chance.
        scores: Rule to mean score and mean score above chance; None where it never can be evaluated.
        strategies: Strategy to mean relative latency, its largest, mean number of sizes tried and mean tuning time in ms.
    """

    title: str
    sweeps: int
    ranked: int
    sizes: float
    repeatability: tuple[float, float] | None
    worst_over_best: float | None
    competitive: float | None
    chance: float | None
    scores: dict[str, tuple[float, float] | None]
    strategies: dict[str, tuple[float, float, float, float | None] | None]


def summarise(title: str, audits: Sequence[Audit]) -> Summary:
    """Average audits, at least one."""
    ranked = [found for found in audits if not found.refused]
    repeatability = [found.sweep.repeatability for found in audits if not np.isnan(found.sweep.repeatability)]
    scores: dict[str, tuple[float, float] | None] = {}
    for rule in RULES:
        items = [item for found in ranked for item in found.importances if item.rule == rule]
        score, above = (_mean([getattr(item, name) for item in items]) for name in ("score", "above_chance"))
        scores[rule] = None if score is None or above is None else (score, above)
    strategies: dict[str, tuple[float, float, float, float | None] | None] = {}
    for name in STRATEGIES:
        results = [result for found in ranked if (result := found.result(name)) is not None]
        relative, tried = _mean([result.relative for result in results]), _mean([result.tried for result in results])
        if relative is None or tried is None:
            strategies[name] = None
        else:
            worst = max(result.worst or 0.0 for result in results)
            strategies[name] = (relative, worst, tried, _mean([result.tuning_ms for result in results]))
    return Summary(
        title, len(audits), len(ranked), float(np.mean([len(found.sweep.sizes) for found in audits])),
        (float(np.mean(repeatability)), min(repeatability)) if repeatability else None,
        _mean([float(found.sweep.relative.max()) for found in ranked]),
        _mean([found.sweep.competitive_share for found in ranked]), _mean([found.chance for found in ranked]),
        scores, strategies,
    )  # fmt: skip


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the numbers among values; None where there are none."""
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None
