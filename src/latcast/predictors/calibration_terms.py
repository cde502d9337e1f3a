"""Calibration terms, which turn the latencies of kernels into that of a network; fitted to measured networks.

Kernels timed alone, or under a profiler, take another time than in a running network: caches differ, the profiler costs, layouts
change in between. Network latency is ``constant + Σ over types (weight · sum of its kernels) + per_kernel · kernels``, all
non-negative, the weights drawn towards 1 (Li et al. §4.2 add a constant alone).

A network that is run again and again finds some of its weights, buffers and code in the caches. How much depends on how long ago
a kernel ran, which is the network's latency. So the latency of a kernel timed inside networks is a function of its configuration
and of its network's :class:`Coldness`, from 0 (nothing was overwritten) to 1, and a network's latency is what its kernels add up
to at the coldness that it causes. Where kernels were timed alone, their sum is multiplied by a short-network correction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from latcast.kernels.kernel import KernelTable
from latcast.predictors.analytical import UNLIKE, fit_nonnegative
from latcast.predictors.intervals import FOLDS, group_folds

HALF_COLD_MS = 1.2
"""Latency of networks in which half is overwritten, on one core of an AMD EPYC; on Sapphire Rapids rather 1.6."""

LEVELS = np.linspace(0.0, 1.0, 9)
"""Coldness at which kernels are predicted; between them their latencies are interpolated."""

HALVINGS = 20
"""Steps of the search between two levels, each of which halves what is left."""

STRENGTHS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""Strengths with which weights are drawn towards 1, chosen by cross-validation; else noise moves weights of rare types."""

STRENGTHS_OF_SCALED = (1.0, 0.3, 0.1)
"""Strengths where kernels were scaled to add up to their networks: weights then mostly fit the profiler's bias."""

CORRECTION_ROUNDS = 3
"""Fits of the weights, each to what the short-network correction leaves of the last sums."""

KNOTS = (0.1, 0.3, 0.6)
"""Parts of the training networks that are shorter than the sums at which the factor bends."""

RIDGE = 0.1
"""Weight of the squared exponents against the squared errors, as of networks."""

MOST_EXPONENT = 1.0
"""The exponents together: with more, a longer sum would be a shorter latency."""

FEWEST_FOR_CORRECTION = 30
"""Networks below which short ones are taken to be as long ones."""


@dataclass(frozen=True)
class Coldness:
    """How fast a machine's caches cool down.

    Attributes:
        half_cold_ms: As :data:`HALF_COLD_MS`.
    """

    half_cold_ms: float = HALF_COLD_MS

    def of(self, latency_ms: np.ndarray) -> np.ndarray:
        """Return the coldness of networks by their latencies: ``1 - 2 ^ -(latency / half_cold_ms)``."""
        return np.asarray(-np.expm1(-np.log(2) * latency_ms / self.half_cold_ms))

    def latency_ms(self, sums_ms: np.ndarray) -> np.ndarray:
        """Return the latencies of networks that take as long as their kernels do at the coldness that they cause, (networks,).

        Args:
            sums_ms: (networks, levels) latencies at each of :data:`LEVELS`.
        """
        caused = self.of(sums_ms)
        # The last level that a network's kernels cause at least; the latency lies between there and the next one.
        place = np.clip((caused >= LEVELS).sum(axis=1) - 1, 0, len(LEVELS) - 2)
        rows = np.arange(len(sums_ms))
        first_ms, second_ms = sums_ms[rows, place], sums_ms[rows, place + 1]
        low, high = np.zeros(len(rows)), np.ones(len(rows))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            causes = self.of(first_ms + middle * (second_ms - first_ms))
            colder = causes > LEVELS[place] + middle * LEVELS[1]
            low, high = np.where(colder, middle, low), np.where(colder, high, middle)
        return np.asarray(first_ms + high * (second_ms - first_ms))

    def to_json(self) -> dict[str, float]:
        return {"half_cold_ms": self.half_cold_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, float]) -> Coldness:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: The latency is not positive and finite.
        """
        half_cold_ms = float(data["half_cold_ms"])
        if not 0 < half_cold_ms < float("inf"):
            raise ValueError(f"found half_cold_ms {half_cold_ms}, expected a positive number")
        return cls(half_cold_ms)


def at_coldness(values: np.ndarray, coldness: np.ndarray) -> np.ndarray:
    """Return values of networks at the coldness of each, (networks, ...), from those at levels, (levels, networks, ...)."""
    place = np.minimum((coldness / LEVELS[1]).astype(int), len(LEVELS) - 2)
    rows = np.arange(len(coldness))
    part = ((coldness - LEVELS[place]) / LEVELS[1]).reshape(-1, *[1] * (values.ndim - 2))
    return np.asarray(values[place, rows] * (1 - part) + values[place + 1, rows] * part)


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
        """Return the factor on sums, (networks,)."""
        if not self.exponents:
            return np.ones(len(sum_ms))
        return np.exp(-_shortfalls(sum_ms, self.knots_ms, self.shortest_ms) @ np.array(self.exponents))

    @property
    def least_factor(self) -> float:
        """The factor of the shortest networks."""
        return float(self.factor(np.array([self.shortest_ms]))[0])

    def to_json(self) -> dict[str, object]:
        return {"knots_ms": list(self.knots_ms), "exponents": list(self.exponents), "shortest_ms": self.shortest_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> ShortNetworkCorrection:
        """Read a correction.

        Raises:
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
    """Return the factor that short networks show against long ones.

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


def _shortfalls(sum_ms: np.ndarray, knots_ms: Sequence[float], shortest_ms: float) -> np.ndarray:
    """Return the logarithms of how far sums are below knots, (networks, knots), 0 above."""
    inside = np.maximum(np.asarray(sum_ms, dtype=np.float64), shortest_ms)
    return np.maximum(np.log(np.array(knots_ms)) - np.log(np.maximum(inside, 1e-12))[:, None], 0.0)


@dataclass(frozen=True)
class CalibrationTerms:
    """Attributes:
    constant_ms: Overhead of a network.
    per_kernel_ms: Overhead of a kernel.
    weights: Kernel type to the factor on its kernels' latencies; 1 where it is not named.
    short_networks: The factor on the sum in short networks.
    coldness: Where kernels were timed in networks of several lengths: how fast caches cool down, in place of that factor.
    """

    constant_ms: float = 0.0
    per_kernel_ms: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)
    short_networks: ShortNetworkCorrection = field(default_factory=ShortNetworkCorrection)
    coldness: Coldness | None = None

    def kernel_latency_ms(self, types: Sequence[str], latency_ms: np.ndarray) -> np.ndarray:
        """Return the latency of each kernel inside a long network, (kernels,)."""
        factor = np.array([self.weights.get(name, 1.0) for name in types])
        return factor * latency_ms + self.per_kernel_ms

    def short_network_factor(self, kernels_ms: np.ndarray) -> np.ndarray:
        """Return the short-network correction of each network, (networks,).

        Args:
            kernels_ms: (networks,) sums of :meth:`kernel_latency_ms`.
        """
        return self.short_networks.factor(kernels_ms + self.constant_ms)

    def to_json(self) -> dict[str, object]:
        affine = {
            "constant_ms": self.constant_ms,
            "per_kernel_ms": self.per_kernel_ms,
            "weights": {name: float(weight) for name, weight in sorted(self.weights.items())},
        }
        if self.coldness is not None:
            return {**affine, "coldness": self.coldness.to_json()}
        return {**affine, "caches": self.short_networks.to_json()} if self.short_networks.exponents else affine

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> CalibrationTerms:
        weights: Mapping[str, float] = data["weights"]  # type: ignore[assignment]
        return cls(
            float(data["constant_ms"]),  # type: ignore[arg-type]
            float(data["per_kernel_ms"]),  # type: ignore[arg-type]
            {name: float(value) for name, value in weights.items()},
            ShortNetworkCorrection.from_json(data["caches"]) if "caches" in data else ShortNetworkCorrection(),  # type: ignore[arg-type]
            Coldness.from_json(data["coldness"]) if "coldness" in data else None,  # type: ignore[arg-type]
        )


def sums_by_type(table: KernelTable, kernel_latency_ms: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return the summed kernel latency of each type in each network, (networks, types + 1); the last column counts kernels."""
    names = list(table.configurations)
    types = table.kernel_types
    columns = np.zeros((len(types), len(names) + 1))
    place = {name: index for index, name in enumerate(names)}
    columns[np.arange(len(types)), [place[name] for name in types]] = kernel_latency_ms
    columns[:, -1] = 1.0
    return table.sum_by_network(columns), names


def fit_calibration_terms(
    sums: np.ndarray,
    names: Sequence[str],
    latency_ms: np.ndarray,
    groups: Sequence[str],
    *,
    seed: int = 0,
    correction: ShortNetworkCorrection | None = None,
    strengths: Sequence[float] = STRENGTHS,
) -> CalibrationTerms:
    """Fit overhead and weights to measured networks.

    Args:
        sums: (networks, types + 1) from :func:`sums_by_type`.
        names: The types.
        latency_ms: (networks,).
        groups: (networks,) lineage or space of each network; cross-validation leaves whole groups out.
        seed: Order of the groups.
        correction: The short-network correction; found from these networks where None.
        strengths: How strongly weights may be drawn towards 1.
    """
    design = np.hstack([sums, np.ones((len(sums), 1))])
    fold = group_folds(groups, FOLDS, seed)

    def held_out_error(strength: float) -> float:
        errors = []
        for part in np.unique(fold):
            rest = fold != part
            if rest.any():
                sums_ms = design[~rest] @ _fit(design[rest], latency_ms[rest], strength, ShortNetworkCorrection())
                errors.append(np.abs(sums_ms / latency_ms[~rest] - 1))
        return float(np.mean(np.concatenate(errors))) if errors else 0.0

    strength = strengths[int(np.argmin([held_out_error(strength) for strength in strengths]))]
    if correction is None:
        sums_ms = design @ _fit(design, latency_ms, strength, ShortNetworkCorrection())
        enough = len(latency_ms) >= FEWEST_FOR_CORRECTION
        correction = fit_short_network_correction(sums_ms, latency_ms) if enough else ShortNetworkCorrection()
    fitted = _fit(design, latency_ms, strength, correction)
    weights = {name: float(weight) for name, weight in zip(names, fitted[: len(names)], strict=True) if name != UNLIKE}
    return CalibrationTerms(float(fitted[-1]), float(fitted[-2]), weights, correction)


def _fit(design: np.ndarray, latency_ms: np.ndarray, strength: float, correction: ShortNetworkCorrection) -> np.ndarray:
    """Return the coefficients: a weight a type, overhead a kernel, overhead; short-network correction divided out."""
    types = design.shape[1] - 2
    prior = np.concatenate([np.ones(types), [0.0, 0.0]])
    prior_scale = np.concatenate([np.ones(types), [np.nan, np.nan]])
    coefficients = fit_nonnegative(design, latency_ms, prior, strength, prior_scale)
    for _ in range(CORRECTION_ROUNDS if correction.exponents else 0):
        long_ms = latency_ms / correction.factor(design @ coefficients)
        coefficients = fit_nonnegative(design, long_ms, prior, strength, prior_scale)
    return coefficients
