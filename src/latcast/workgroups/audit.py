"""Evaluation of a sweep: how far it can be trusted, how much sizes matter, how well each rule and each strategy does on it.

A rule's importance is the score of Jiang et al. (eq. 8), beside that of a filter by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from latcast.workgroups.rules import Judgement, judge_sizes
from latcast.workgroups.strategies import STRATEGIES, StrategyResult
from latcast.workgroups.sweep import Sweep


@dataclass(frozen=True)
class Importance:
    """One rule on one sweep.

    Attributes:
        rule: "I" to "V".
        score: S_r of eq. 8, from 0 (as the worst size) to 1 (as the best); None where no size follows it, or where it cannot be
            evaluated.
        above_chance: ``score`` minus that of a filter that lets sizes pass at random, which is far from 0.
        why: What the rule compares, or why it cannot be evaluated.
    """

    rule: str
    score: float | None
    above_chance: float | None
    why: str


def scores(sweep: Sweep) -> np.ndarray:
    """(sizes,) each size's term of eq. 8: (worst - latency) / (worst - best)."""
    worst, best = sweep.latency_ms.max(), sweep.latency_ms.min()
    if worst == best:
        return np.ones(len(sweep.sizes))
    return (worst - sweep.latency_ms) / (worst - best)


def chance_score(sweep: Sweep) -> float:
    """What eq. 8 is expected to give for a rule that lets sizes pass at random: the mean over all sizes."""
    return float(scores(sweep).mean())


def importances(sweep: Sweep) -> list[Importance]:
    """Every rule's importance on a sweep."""
    terms, chance = scores(sweep), chance_score(sweep)
    return [_importance(found, terms, chance) for found in judge_sizes(sweep.shapes, sweep.situation)]


def _importance(found: Judgement, terms: np.ndarray, chance: float) -> Importance:
    if found.passes is None or not found.passes.any():
        return Importance(found.rule, None, None, found.why)
    score = float(terms[found.passes].mean())
    return Importance(found.rule, score, score - chance, found.why)


UTILISATION = (
    "unavailable: the counters of arithmetic units are told by the vendors' profilers alone (Streamline, Snapdragon Profiler)"
)
"""Why the paper's utilisation of arithmetic units (Figs. 3 and 4) is not reproduced."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The verdict on one sweep.

    Attributes:
        sweep: What was measured.
        refused: Why its sizes are not ranked; empty where they are. Then there are no scores and no results.
        chance: Score of eq. 8 of a filter by chance.
        importances: One for each rule.
        results: One for each strategy.
    """

    sweep: Sweep
    refused: str
    chance: float | None
    importances: tuple[Importance, ...]
    results: tuple[StrategyResult, ...]

    def result(self, strategy: str) -> StrategyResult | None:
        """Of one strategy; None where the sweep is refused."""
        return next((found for found in self.results if found.strategy == strategy), None)

    def to_json(self) -> dict[str, Any]:
        sweep = self.sweep
        best = sweep.sizes[int(sweep.latency_ms.argmin())]
        return {
            "device": sweep.device.title,
            "operator": sweep.operator,
            "kernel": sweep.descriptor.name,
            "variant": dict(sweep.variant),
            "grid": list(sweep.grid.shape),
            "sizes": len(sweep.sizes),
            "failed": len(sweep.failed),
            "runs": sweep.rounds,
            "interleaved": sweep.interleaved,
            "repeatability": None if np.isnan(sweep.repeatability) else sweep.repeatability,
            "refused": self.refused or None,
            "best": None if self.refused else list(best.shape),
            "best_ms": float(sweep.latency_ms.min()),
            "worst_over_best": float(sweep.relative.max()),
            "competitive_percent": None if self.refused else 100 * sweep.competitive_share,
            "chance_score": self.chance,
            "rules": [asdict(found) for found in self.importances],
            "strategies": [asdict(found) for found in self.results],
            "utilisation": UTILISATION,
        }


def audit(sweep: Sweep) -> Audit:
    """Judges a sweep; where its order is noise, says so and nothing else."""
    refused = sweep.why_not_rankable()
    if refused:
        return Audit(sweep, refused, None, (), ())
    return Audit(
        sweep, "", chance_score(sweep), tuple(importances(sweep)), tuple(strategy(sweep) for strategy in STRATEGIES.values())
    )


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
    """Means over audits, at least one."""
    ranked = [found for found in audits if not found.refused]
    repeatability = [found.sweep.repeatability for found in audits if not np.isnan(found.sweep.repeatability)]
    return Summary(
        title,
        len(audits),
        len(ranked),
        float(np.mean([len(found.sweep.sizes) for found in audits])),
        (float(np.mean(repeatability)), min(repeatability)) if repeatability else None,
        _mean([float(found.sweep.relative.max()) for found in ranked]),
        _mean([found.sweep.competitive_share for found in ranked]),
        _mean([found.chance for found in ranked if found.chance is not None]),
        {rule: _scores(ranked, rule) for rule in ("I", "II", "III", "IV", "V")},
        {name: _strategy(ranked, name) for name in STRATEGIES},
    )


def _scores(audits: Sequence[Audit], rule: str) -> tuple[float, float] | None:
    """Means over the sweeps on which some size follows the rule."""
    found = [
        (item.score, item.above_chance)
        for audit in audits
        for item in audit.importances
        if item.rule == rule and item.score is not None and item.above_chance is not None
    ]
    return (float(np.mean([score for score, _ in found])), float(np.mean([above for _, above in found]))) if found else None


def _strategy(audits: Sequence[Audit], name: str) -> tuple[float, float, float, float | None] | None:
    found = [result for audit in audits if (result := audit.result(name)) is not None and result.relative is not None]
    if not found:
        return None
    return (
        float(np.mean([result.relative for result in found])),
        float(np.max([result.worst for result in found])),
        float(np.mean([result.tried for result in found])),
        _mean([result.tuning_ms for result in found if result.tuning_ms is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
