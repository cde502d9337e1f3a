"""The price list of language models: a phase takes the sum of its quantities, each at the platform's price.

The logarithm of a price is a sum of effects, each with a normal prior: of the quantity anywhere, on this kind of platform, on this
platform, and the platform's speed, which is expected where the chip's peak lies. Effects of kinds are learned from all platforms
together; a new platform adds only its own, so that a few measurements move its speed first and single prices later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from numpy.typing import NDArray

Array = NDArray[np.float64]

Term = tuple[str, ...]
"""A quantity that has a price: ``("weights", "q4_k")``, ``("kernels",)``; see :mod:`latcast.llm.workload`."""

Effect = tuple[str, ...]
"""A part of log prices that some of them share."""

Path = Sequence[tuple[Effect, float, float]]
"""Effects that add up to one log price, each with its prior's mean and standard deviation."""

_FREEDOM = 4.0
"""Degrees of freedom of the t distribution of residuals: a measurement that is far off counts little."""

_LEAST_TRUST = 0.0
_STEPS = 25
"""Most steps of a fit; residuals settle within a dozen."""


@dataclass(frozen=True)
class Timed:
    """A measured phase: what it reads and computes, and how long it took."""

    platform: str
    quantities: Mapping[Term, float]
    seconds: float
    weight: float = 1.0
    """Counts of repeats and of near repeats (one model at many lengths) grow by less than one each."""


@dataclass(frozen=True)
class PriceList:
    """Effects learned, and how they make a price.

    Attributes:
        path: Platform and term to the effects of this price.
        effects: Values of those that measurements moved; others are at their prior's mean.
        noise: Standard deviation of a log latency about its prediction.
    """

    path: Callable[[str, Term], Path]
    effects: Mapping[Effect, float]
    noise: float = 0.06

    def log_price(self, platform: str, term: Term) -> float:
        """Return the logarithm of seconds a unit of the term."""
        return sum(self.effects.get(effect, mean) for effect, mean, _ in self.path(platform, term))

    def shares(self, platform: str, quantities: Mapping[Term, float]) -> dict[Term, float]:
        """Return the seconds of each term."""
        return {term: count * float(np.exp(self.log_price(platform, term))) for term, count in quantities.items() if count > 0}

    def seconds(self, platforms: Sequence[str], workloads: Sequence[Mapping[Term, float]]) -> Array:
        """Return seconds of each workload (a row) on each platform (a column)."""
        terms = {term: column for column, term in enumerate(dict.fromkeys(term for each in workloads for term in each))}
        counts = np.zeros((len(workloads), len(terms)))
        for row, quantities in enumerate(workloads):
            counts[row, [terms[term] for term in quantities]] = list(quantities.values())
        prices = np.array([[self.log_price(platform, term) for platform in platforms] for term in terms])
        return np.asarray(counts @ np.exp(prices.reshape(len(terms), len(platforms))))


def fit(timed: Sequence[Timed], known: PriceList, start: Mapping[Effect, float] | None = None) -> PriceList:
    """Return the price list with the effects that it does not know yet fitted; those it knows stay.

    The maximum of the posterior, by Gauss-Newton steps on log latencies with the weights of a t distribution: priors are residuals
    like others. An empty ``known`` learns everything; one learned from other platforms adapts to a new one.

    Args:
        timed: Measured phases.
        known: Effects that stay, and how prices are made.
        start: Values to start from, where a similar fit is known: a fold of cross-validation takes half the steps.
    """
    index: dict[Effect, int] = {}
    means: list[float] = []
    deviations: list[float] = []
    columns: dict[tuple[str, Term], int] = {}
    fixed: list[float] = []
    members: list[tuple[int, int]] = []
    rows, cells, counts = [], [], []
    for row, each in enumerate(timed):
        for term, count in each.quantities.items():
            if count <= 0:
                continue
            key = (each.platform, term)
            if key not in columns:
                columns[key] = len(columns)
                fixed.append(0.0)
                for effect, mean, deviation in known.path(*key):
                    if effect in known.effects:
                        fixed[-1] += known.effects[effect]
                        continue
                    if effect not in index:
                        index[effect] = len(index)
                        means.append(mean)
                        deviations.append(deviation)
                    members.append((columns[key], index[effect]))
            rows.append(row)
            cells.append(columns[key])
            counts.append(count)
    if not index:
        return known
    prior, precision = np.array(means), 1 / np.array(deviations) ** 2
    members_of = np.zeros((len(columns), len(index)))
    np.add.at(members_of, tuple(np.array(members).T), 1.0)
    at, cell, count_of, base = np.array(rows), np.array(cells), np.array(counts), np.array(fixed)
    target, weights = np.log([each.seconds for each in timed]), np.array([each.weight for each in timed])
    size = len(timed), len(columns)

    def state(values: Array) -> tuple[Array, Array, float]:
        parts = count_of * np.exp((base + members_of @ values)[cell])
        total = np.bincount(at, parts, size[0])
        residuals = (target - np.log(total)) / known.noise
        loss = float(weights @ ((_FREEDOM + 1) * np.log1p(residuals**2 / _FREEDOM)) + precision @ (values - prior) ** 2)
        return parts / total[at], residuals, loss

    values = np.array([(start or {}).get(effect, mean) for effect, mean in zip(index, means, strict=True)])
    shares, residuals, loss = state(values)
    for _ in range(_STEPS):
        slopes = np.bincount(at * size[1] + cell, shares, size[0] * size[1]).reshape(size) @ members_of
        trust = weights * np.maximum((_FREEDOM + 1) / (_FREEDOM + residuals**2), _LEAST_TRUST) / known.noise
        curvature = (slopes * (trust / known.noise)[:, None]).T @ slopes + np.diag(precision)
        step = np.linalg.solve(curvature, slopes.T @ (trust * residuals) - precision * (values - prior)).clip(-1, 1)
        for part in (1.0, 0.4, 0.1):
            tried = state(values + part * step)
            if tried[2] < loss:
                break
        else:
            break
        settled = loss - tried[2] < 1e-4 * abs(loss)
        values, (shares, residuals, loss) = values + part * step, tried
        if settled:
            break
    return PriceList(known.path, {**known.effects, **dict(zip(index, values.tolist(), strict=True))}, known.noise)
