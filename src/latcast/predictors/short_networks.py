"""Short networks run faster than their kernels add up to.

Most kernels are timed inside networks that take long. The sooner a kernel runs again, the more of its weights, of its inputs
and of the code that it needs is still in the caches: on one core under ONNX Runtime a convolution of 10 µs takes 1.3 times as
long inside networks of long kernels, and 0.85 times inside networks of a few milliseconds. How long ago a kernel ran last is
what the network takes, so the factor is a function of the sum alone, and networks priced by a table of segments have it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.predictors.folds import FOLDS, group_folds

KNOTS = (0.1, 0.3, 0.6)
"""Parts of the training networks that are shorter than the sums at which the factor bends."""

RIDGE = 0.1
"""Weight of the squared exponents against the squared errors, as of networks."""

MOST_EXPONENT = 1.0
"""The exponents together: with more, a longer sum would be a shorter latency."""

FEWEST_FOR_CACHES = 30
"""Networks below which short ones are taken to be as long ones."""

LEAST_GAIN = 0.002
"""What the factor must take off the error on networks left out to be kept."""


@dataclass(frozen=True)
class ShortNetworkCorrection:
    """A factor of at most 1 on the sum over a network's kernels, the smaller the shorter the network.

    ``factor = Π over knots min(max(sum, shortest) / knot, 1) ^ exponent``.

    Attributes:
        knots_ms: (knots,) Sums below which the factor falls.
        exponents: (knots,) How fast, each positive; empty where short networks are as long ones.
        shortest_ms: Sum below which it stays; shorter networks were not measured.
    """

    knots_ms: tuple[float, ...] = ()
    exponents: tuple[float, ...] = ()
    shortest_ms: float = 0.0

    def factor(self, sum_ms: np.ndarray) -> np.ndarray:
        """What sums are multiplied by, (networks,)."""
        if not self.exponents:
            return np.ones(len(sum_ms))
        return np.exp(-_shortfalls(sum_ms, self.knots_ms, self.shortest_ms) @ np.array(self.exponents))

    @property
    def least_factor(self) -> float:
        """The factor of the shortest networks."""
        return float(self.factor(np.array([self.shortest_ms]))[0])

    def scaled(self, level: float) -> ShortNetworkCorrection:
        """The same factor for sums that are ``level`` times as long."""
        return ShortNetworkCorrection(tuple(level * knot for knot in self.knots_ms), self.exponents, level * self.shortest_ms)

    def to_json(self) -> dict[str, object]:
        return {"knots_ms": list(self.knots_ms), "exponents": list(self.exponents), "shortest_ms": self.shortest_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> ShortNetworkCorrection:
        """Raises:
        ValueError: Numbers that no fit gives.
        """
        knots, exponents, shortest = data["knots_ms"], data["exponents"], data["shortest_ms"]
        if not isinstance(knots, list) or not isinstance(exponents, list) or len(knots) != len(exponents):
            raise ValueError(f"found the knots {knots} with the exponents {exponents}, expected two lists of one length")
        numbers = [*knots, *exponents, shortest]
        if not all(isinstance(number, (int, float)) and 0 < number < float("inf") for number in numbers):
            raise ValueError(f"found the knots {knots}, the exponents {exponents} and {shortest} ms, expected positive numbers")
        model = cls(tuple(map(float, knots)), tuple(map(float, exponents)), float(shortest))  # type: ignore[arg-type]
        if (
            sum(model.exponents) > MOST_EXPONENT * (1 + 1e-9)
            or min(model.knots_ms, default=model.shortest_ms) < model.shortest_ms
        ):
            raise ValueError(
                f"found exponents of {sum(model.exponents):.3g} together above {model.shortest_ms} ms with the knots {knots}, "
                f"expected at most {MOST_EXPONENT} and no knot below the shortest network"
            )
        return model


def fit_short_network_correction(sum_ms: np.ndarray, latency_ms: np.ndarray) -> ShortNetworkCorrection:
    """The factor that short networks show against long ones.

    Non-negative least squares of ``log(latency / sum)``, the exponents drawn towards 0, with a constant for what all networks
    are off by. Networks that add up to nothing are left out.

    Args:
        sum_ms: (networks,) sums over kernels with overhead.
        latency_ms: (networks,).
    """
    from scipy.optimize import nnls

    positive = sum_ms > 0
    if not positive.any():
        return ShortNetworkCorrection()
    sum_ms, latency_ms = sum_ms[positive], latency_ms[positive]
    knots = np.quantile(sum_ms, KNOTS)
    shortest = float(sum_ms.min())
    ones = np.ones((len(sum_ms), 1))
    design = np.hstack([-_shortfalls(sum_ms, knots, shortest), ones, -ones])
    held = np.sqrt(RIDGE) * np.eye(len(knots), design.shape[1])
    target = np.concatenate([np.log(latency_ms / sum_ms), np.zeros(len(knots))])
    exponents = nnls(np.vstack([design, held]), target)[0][: len(knots)]
    exponents *= min(MOST_EXPONENT / max(exponents.sum(), 1e-12), 1.0)
    used = exponents > 0
    if not used.any():
        return ShortNetworkCorrection()
    return ShortNetworkCorrection(tuple(map(float, knots[used])), tuple(map(float, exponents[used])), shortest)


def confirmed_short_network_correction(
    sum_ms: np.ndarray, latency_ms: np.ndarray, groups: Sequence[str], *, seed: int = 0
) -> ShortNetworkCorrection:
    """The factor of short networks; none where networks of other lineages do not confirm it.

    Args:
        sum_ms, latency_ms: As for :func:`fit_short_network_correction`.
        groups: (networks,) lineage or space of each network; whole groups are left out.
        seed: Order of the groups.
    """
    positive = sum_ms > 0
    sum_ms, latency_ms = sum_ms[positive], latency_ms[positive]
    fold = group_folds([group for group, kept in zip(groups, positive, strict=True) if kept], FOLDS, seed)
    if not len(fold):
        return ShortNetworkCorrection()
    ratio = np.log(latency_ms / sum_ms)
    plain, warmed = np.zeros(len(fold)), np.zeros(len(fold))
    for part in np.unique(fold):
        rest, left_out = fold != part, fold == part
        if rest.any():
            factor = np.log(fit_short_network_correction(sum_ms[rest], latency_ms[rest]).factor(sum_ms))
            plain[left_out] = ratio[left_out] - np.median(ratio[rest])
            warmed[left_out] = (ratio - factor)[left_out] - np.median((ratio - factor)[rest])
    # Each with the level that suits it, as the network model has it in the end.
    gain = np.abs(np.expm1(-plain)).mean() - np.abs(np.expm1(-warmed)).mean()
    return fit_short_network_correction(sum_ms, latency_ms) if gain > LEAST_GAIN else ShortNetworkCorrection()


def level(sum_ms: np.ndarray, latency_ms: np.ndarray, caches: ShortNetworkCorrection) -> float:
    """By what sums are to be multiplied beside the factor; the median over the networks that add up to something."""
    positive = sum_ms > 0
    if not positive.any():
        return 1.0
    return float(np.median(latency_ms[positive] / (sum_ms * caches.factor(sum_ms))[positive]))


def _shortfalls(sum_ms: np.ndarray, knots_ms: Sequence[float], shortest_ms: float) -> np.ndarray:
    """Logarithms of how far sums are below knots, (networks, knots), 0 above."""
    inside = np.maximum(np.asarray(sum_ms, dtype=np.float64), shortest_ms)
    return np.maximum(np.log(np.array(knots_ms)) - np.log(np.maximum(inside, 1e-12))[:, None], 0.0)
