"""From rounds of costs to an answer with a confidence: is something saved, and enough of it (Inequation 1)?

A round times all networks of a case within a fraction of a second. The host's state, which they have in common then, is divided
out; differences are taken round by round. A case's standard deviation is pooled with that of all networks of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from latcast.fusion.quantities import Quantity
from latcast.fusion.test_cases import Combination, Costs, TestCase

ALPHA = 0.5
"""Part of the shorter operator's time that must be saved (nn-Meter §4.1): half-way between "separate" and "one kernel"."""

FUSION_MARGIN = 0.1
"""Least saving beyond α for "fused": a little more than half is rather part of a change of layout."""

CONFIDENCE = 0.99
"""Probability that an answer must have to count."""

PLAUSIBLE = (-1.0, 1.5)
"""Range of plausible savings, as shares of the shorter operator's time: far from 0 and 1 they have another cause."""

VISIBLE_ERRORS = 2.0
"""An operator is visible where its own time is this many standard errors above 0."""

VISIBLE_SHARE = 0.75
"""Where all kernels cost the same, an operator that costs less than this part of one is not visible: some of its blocks cost
nothing."""

SESSION_NOISE = 0.006
"""Relative standard deviation of a network's latency from one loading to the next, where memory lies elsewhere."""

PRIOR_ROUNDS = 8
"""Weight of the batch's common noise beside a case's own, in rounds."""

_TRIMMED = 0.2


@dataclass(frozen=True, eq=False)
class TimedBatch:
    """Networks timed in the same rounds.

    Attributes:
        costs: Their costs by key, one a round.
        worker: The process that timed them.
        failures: Errors of the networks that could not be timed, by key.
    """

    costs: Costs
    worker: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def steady(self) -> Costs:
        """The costs with what all networks of a round have in common divided out: the state of the host."""
        if not self.costs:
            return {}
        deviations = [np.log(rounds / np.median(rounds)) for rounds in self.costs.values()]
        common = np.exp(np.median(deviations, axis=0))
        return {key: rounds / common for key, rounds in self.costs.items()}

    @cached_property
    def levels(self) -> Mapping[str, float]:
        """Medians of the steady rounds."""
        return {key: float(np.median(rounds)) for key, rounds in self.steady.items()}

    @cached_property
    def noise(self) -> float:
        """Relative standard deviation of a network's steady rounds: the median over the networks."""
        steady, levels = self.steady, self.levels
        deviations = [float(np.median(np.abs(rounds - levels[key]))) / levels[key] for key, rounds in steady.items()]
        return 1.4826 * float(np.median(deviations)) if deviations else 0.0


def aligned(batch: TimedBatch, levels: Mapping[str, float]) -> TimedBatch:
    """Return the batch in the host's state of earlier ones: costs divided by how much longer the shared networks took."""
    ratios = [level / levels[key] for key, level in batch.levels.items() if key in levels]
    if not ratios:
        return batch
    factor = float(np.median(ratios))
    return replace(batch, costs={key: rounds / factor for key, rounds in batch.costs.items()})


@dataclass(frozen=True)
class Estimate:
    """A cost with its standard error."""

    value: float
    error: float
    degrees: float

    def probability_above(self, limit: float) -> float:
        """Return the probability that the cost is above a limit (Student's t)."""
        from scipy.special import stdtr

        if self.error == 0:
            return float(self.value > limit)
        return float(stdtr(self.degrees, (self.value - limit) / self.error))


def estimate(combination: Combination, batches: Sequence[TimedBatch]) -> Estimate | None:
    """Return the value of a sum of costs over all batches that hold its networks; None where none does.

    Within a batch: the trimmed mean of the rounds with its standard error (Yuen), pooled with the error that the batch's common
    noise explains, and the error that all rounds of a loaded network have in common. Over batches: weighted by precision, and
    no surer than the batches agree with each other.
    """
    parts = [_in_batch(combination, batch) for batch in batches if combination.known(batch.costs)]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    values = np.array([part.value for part in parts])
    errors = np.maximum(np.array([part.error for part in parts]), 1e-12)
    weights = errors**-2 / np.sum(errors**-2)
    mean = float(weights @ values)
    # Birge's ratio: where batches differ by more than their errors, the errors were too small.
    disagreement = float(np.sqrt(np.sum(((values - mean) / errors) ** 2) / (len(parts) - 1)))
    return Estimate(mean, float(np.sum(errors**-2) ** -0.5) * max(disagreement, 1.0), sum(part.degrees for part in parts))


def _in_batch(combination: Combination, batch: TimedBatch) -> Estimate:
    rounds = np.sort(combination.value(batch.steady))
    count = len(rounds)
    cut = int(_TRIMMED * count)
    kept = rounds[cut : count - cut]
    common = combination.standard_deviation(batch.levels, batch.noise) / count**0.5
    degrees = len(kept) - 1
    winsorised = np.clip(rounds, kept[0], kept[-1])
    winsorised -= winsorised.mean()
    deviation = float(winsorised @ winsorised / max(count - 1, 1)) ** 0.5
    own = deviation / ((1 - 2 * cut / count) * count**0.5)
    session = combination.standard_deviation(batch.levels, SESSION_NOISE)
    error = ((degrees * own**2 + PRIOR_ROUNDS * common**2) / (degrees + PRIOR_ROUNDS) + session**2) ** 0.5
    return Estimate(float(kept.mean()), error, degrees + PRIOR_ROUNDS)


@dataclass(frozen=True)
class Answer:
    """Answer to a case, with its evidence.

    Attributes:
        yes: Whether time is saved; None where that is undecided.
        confidence: Probability of the likelier answer; of "fused", that :data:`FUSION_MARGIN` more than α is saved.
        saved: Cost that is saved.
        share: Cost that one kernel would save.
        visible: Whether that cost is large enough to be seen.
        plausible: Whether the saving lies in the range of :data:`PLAUSIBLE`, or cannot be told from it.
        rounds: Rounds behind the answer.
        batches: Times that the networks were loaded for it.
    """

    yes: bool | None
    confidence: float
    saved: Estimate
    share: Estimate
    visible: bool
    rounds: int
    batches: int = 1
    plausible: bool = True

    def to_json(self, quantity: Quantity) -> dict[str, float | int | bool | None]:
        """Return what was saved, and the margin as a share of what one kernel would save."""
        share = self.share.value
        return {
            "fused": self.yes,
            "confidence": round(self.confidence, 4),
            **quantity.figures(saved=self.saved.value, saved_error=self.saved.error, own=share),
            "margin": round((self.saved.value - ALPHA * share) / share, 3) + 0.0 if share > 0 else None,
            "rounds": self.rounds,
        }


def decide(
    case: TestCase,
    batches: Sequence[TimedBatch],
    *,
    alpha: float = ALPHA,
    hidden_cost: float = 0.0,
    kernel: float = 0.0,
) -> Answer | None:
    """Judge Inequation 1 with its error: saved - α min(shares) is above 0, below 0, or cannot be told from it.

    Args:
        case: The question.
        batches: The measurements.
        alpha: Part of the shorter operator's time that must be saved.
        hidden_cost: Saving by a shared change of layout: "fused" must be sure beyond it.
        kernel: Cost of one kernel, where that is known: what a fusion saves, rather than the shortest share, which may hold
            changes of layout. An operator that costs less is not visible.

    Returns:
        None where no batch holds all networks of the case.
    """
    usable = [batch for batch in batches if case.known(batch.costs)]
    saved = estimate(case.saved, usable)
    if saved is None:
        return None
    shares = [(found, share) for share in case.shares if (found := estimate(share, usable)) is not None]
    shortest, combination = min(shares, key=lambda pair: pair[0].value)
    visible = all(found.value > max(VISIBLE_ERRORS * found.error, VISIBLE_SHARE * kernel) for found, _ in shares)
    likelier = saved.value > alpha * (kernel or shortest.value)
    part = alpha + FUSION_MARGIN if likelier else alpha
    # One sum, so that what is common to both sides cancels round by round.
    excess = saved if kernel else estimate(case.saved - combination * part, usable)
    assert excess is not None
    bar = part * kernel
    above = excess.probability_above(bar)
    sure = above if likelier else 1 - above
    rounds = sum(len(next(iter(batch.costs.values()))) for batch in usable)
    low, high = (limit * shortest.value for limit in PLAUSIBLE)
    plausible = saved.probability_above(high) < CONFIDENCE and saved.probability_above(low) > 1 - CONFIDENCE
    yes = likelier if visible and plausible and sure >= CONFIDENCE else None
    if yes and excess.probability_above(bar + hidden_cost) < CONFIDENCE:
        yes, plausible = None, False
    return Answer(yes, sure, saved, shortest, visible, rounds, len(usable), plausible)
