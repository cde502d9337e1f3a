"""How good the sizes are that a rule lets pass: the score of Jiang et al. (eq. 8), beside that of a filter by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latcast.workgroups.rules import Judgement, Situation, judge_sizes
from latcast.workgroups.sweep import Sweep


@dataclass(frozen=True)
class Importance:
    """One rule on one sweep.

    Attributes:
        rule: "I" to "V".
        passing: How many sizes follow the rule.
        score: S_r of eq. 8, from 0 (as the worst size) to 1 (as the best); None where no size follows it, or where it cannot be
            evaluated.
        above_chance: ``score`` minus that of a filter that lets sizes pass at random, which is far from 0.
        why: What the rule compares, or why it cannot be evaluated.
    """

    rule: str
    passing: int
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
    return [_importance(found, terms, chance) for found in judge_sizes(sweep.shapes, situation_of(sweep))]


def situation_of(sweep: Sweep) -> Situation:
    """What the rules are asked about."""
    return Situation(sweep.grid, sweep.descriptor, sweep.device)


def _importance(found: Judgement, terms: np.ndarray, chance: float) -> Importance:
    if found.passes is None or not found.passes.any():
        return Importance(found.rule, 0, None, None, found.why)
    score = float(terms[found.passes].mean())
    return Importance(found.rule, int(found.passes.sum()), score, score - chance, found.why)
