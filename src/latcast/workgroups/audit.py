"""What a sweep says: how far it can be trusted, how much sizes matter, what rules and other ways are worth on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from latcast.workgroups.importance import Importance, chance_score, importances
from latcast.workgroups.sweep import Sweep
from latcast.workgroups.ways import WAYS, Outcome

UTILISATION = (
    "unavailable: the counters of arithmetic units are told by the vendors' profilers alone (Streamline, Snapdragon Profiler)"
)
"""Why the paper's utilisation of arithmetic units (Figs. 3 and 4) is not reproduced."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The verdict on one sweep.

    Attributes:
        sweep: What was measured.
        refused: Why its sizes are not ranked; empty where they are. Then there are no scores and no outcomes.
        chance: Score of eq. 8 of a filter by chance.
        importances: One for each rule.
        outcomes: One for each way.
    """

    sweep: Sweep
    refused: str
    chance: float | None
    importances: tuple[Importance, ...]
    outcomes: tuple[Outcome, ...]

    def outcome(self, way: str) -> Outcome | None:
        """Of one way; None where the sweep is refused."""
        return next((found for found in self.outcomes if found.way == way), None)

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
            "ways": [asdict(found) for found in self.outcomes],
            "utilisation": UTILISATION,
        }


def audit(sweep: Sweep) -> Audit:
    """Judges a sweep; where its order is noise, says so and nothing else."""
    refused = sweep.why_not_rankable()
    if refused:
        return Audit(sweep, refused, None, (), ())
    return Audit(sweep, "", chance_score(sweep), tuple(importances(sweep)), tuple(way(sweep) for way in WAYS.values()))


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
        ways: Way to mean relative latency, its largest, mean number of sizes tried and mean tuning time in ms.
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
    ways: dict[str, tuple[float, float, float, float | None] | None]


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
        {way: _way(ranked, way) for way in WAYS},
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


def _way(audits: Sequence[Audit], way: str) -> tuple[float, float, float, float | None] | None:
    found = [outcome for audit in audits if (outcome := audit.outcome(way)) is not None and outcome.relative is not None]
    if not found:
        return None
    return (
        float(np.mean([outcome.relative for outcome in found])),
        float(np.max([outcome.worst for outcome in found])),
        float(np.mean([outcome.tried for outcome in found])),
        _mean([outcome.tuning_ms for outcome in found if outcome.tuning_ms is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
