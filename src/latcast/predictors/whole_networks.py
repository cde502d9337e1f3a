"""Fitting latencies of kernels to latencies of whole networks alone: the sum is observed, its terms are not.

Two steps. First the analytical terms: non-negative coefficients by coarse class, drawn to what is known of any device
(:mod:`latcast.predictors.network_priors`). Then a Gaussian process: the logarithm of a kernel's factor on
its analytical latency is a smooth function of its sizes, and the latency of a network is the sum over its kernels. The
posterior is found by Gauss-Newton steps, each a regression on the networks (a network observes the mean of its kernels'
logarithms, weighted by their shares of its latency). Large errors count linearly (Huber), as some published measurements
are accidents; how noisy a platform is, is chosen by leaving out one network at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import GATHERED, LAYOUT_TERMS, LOOPS, POOLED, AnalyticalTerms, fit_nonnegative
from latcast.predictors.calibration_terms import CalibrationTerms
from latcast.predictors.kernel_predictor import ANALYTICAL_GP, KernelPredictor, Seen
from latcast.predictors.network_priors import (
    GROUPED,
    KNOWN_DEVIATION,
    OWN_PATHS,
    SAME_CODE,
    device_sort,
    known_coefficients,
    prior_coefficients,
)
from latcast.predictors.network_terms import NetworkTerms, size_lengths
from latcast.predictors.regressors.gaussian_process import GaussianProcessCorrection
from latcast.records import Platform

ANALYTICAL_NOISE = 0.03
"""Relative error of the analytical terms alone, for each thread, against which their prior is weighed: the more threads, the more
depends on how the work is divided and on what else runs."""

NOISES = (0.008, 0.015, 0.03, 0.06)
"""Relative errors of a network's latency among which the platform's is chosen."""

HUBER_NOISES = 3.0
LEAST_HUBER = 0.03
"""Errors beyond so many times the noise, and beyond this, count linearly."""

OVERHEAD_DEVIATION = 0.5
"""Standard deviation of the logarithm of the overhead, once the analytical terms have given one."""

LEAST_SHARE_OF_PRIOR = 0.1
"""Coefficients are at least this part of the prior: none is quite free."""

STEPS = 14
MOST_FOR_NOISE = 400
"""Networks at most by which the noise is chosen."""


@dataclass(frozen=True)
class WholeNetworkFit:
    """Analytical terms and corrections fitted to whole networks.

    Attributes:
        coefficients: Coarse class to (terms,) milliseconds a unit.
        overhead_ms: Of a network.
        factors: Kernel type to the factor on its analytical latency.
    """

    coefficients: Mapping[str, np.ndarray]
    overhead_ms: float
    factors: Mapping[str, GaussianProcessCorrection]


def fit_whole_networks(terms: NetworkTerms, latency_ms: np.ndarray, platform: Platform) -> WholeNetworkFit:
    """Fit analytical terms and corrections to whole networks.

    Args:
        terms: The networks.
        latency_ms: (networks,).
        platform: What they were measured on.
    """
    # Classes that no network has are fitted to nothing: they get their prior, or what the other class of their pair shows.
    sort, width, networks = device_sort(platform), len(terms.terms), len(latency_ms)
    pairs = SAME_CODE.get((platform.runtime, sort), ())
    slow = {OWN_PATHS[platform.runtime]} if sort != "gpu" and platform.runtime in OWN_PATHS else set()
    classes = [*terms.classes, *sorted(slow.union(*pairs).difference(terms.classes))]
    unseen = np.zeros((networks, width * (len(classes) - len(terms.classes))))
    sums = np.hstack([terms.class_sums[:, :-1], unseen, terms.class_sums[:, -1:]])
    general, deviation = prior_coefficients(platform, classes, terms.terms)
    known = known_coefficients(platform, classes, terms.terms)
    general[~np.isnan(known)], deviation[~np.isnan(known)] = 0.0, KNOWN_DEVIATION
    # Ratios come from the prior; the level is the one that makes the median network right.
    rest_ms = np.maximum(latency_ms - sums @ np.nan_to_num(known), LEAST_SHARE_OF_PRIOR * latency_ms)
    prior = float(np.exp(np.median(np.log(rest_ms / (sums @ general))))) * general + np.nan_to_num(known)
    # A parameter is a multiple of priors: of one coefficient, of those of a routine, of all that a class reads and writes, or of
    # copies between layouts in all classes.
    shown_by = [next((first for first, second in pairs if name == second), name) for name in classes]
    own = np.isin(terms.terms, LAYOUT_TERMS, invert=True)
    places = own * width * np.array([[classes.index(name)] for name in shown_by]) + np.arange(width)
    if GROUPED in pairs and LOOPS in terms.terms:
        places[np.isin(classes, GROUPED), terms.terms.index(LOOPS)] = classes.index(GROUPED[0]) * width
    if GATHERED in terms.terms:
        places[:, terms.terms.index(GATHERED)] = places[:, terms.terms.index("moved")]
    first, of = np.unique(np.append(places, width * len(classes)), return_inverse=True)
    together = np.zeros((networks, len(first)))
    np.add.at(together.T, of, (sums * prior).T)
    strength = (ANALYTICAL_NOISE * platform.threads) ** 2 / networks
    multiples = fit_nonnegative(together, latency_ms, np.ones(len(first)), strength, 1 / deviation[first])
    coefficients = np.maximum(multiples[of], LEAST_SHARE_OF_PRIOR) * prior
    by_class = coefficients[:-1].reshape(len(classes), width)
    kernels_ms = np.maximum(terms.kernel_latency_ms(by_class[: len(terms.classes)]), 1e-7 * float(np.median(latency_ms)))
    overhead_ms = max(float(coefficients[-1]), 1e-3 * float(latency_ms.min()))
    process = _Process(terms, kernels_ms, overhead_ms, latency_ms)
    weights, overhead_factor = process.fit(_choose_noise(process))
    return WholeNetworkFit(
        dict(zip(classes, by_class, strict=True)),
        overhead_ms * overhead_factor,
        {kernels.name: kernels.factor(found) for kernels, found in zip(terms.types, weights, strict=True)},
    )


@dataclass(frozen=True)
class _Solution:
    """Posterior at one noise.

    Attributes:
        weights: (points,).
        log_overhead: Of the overhead's factor, in standard deviations.
        left_out_errors: (networks,) logarithmic error of each network when it alone is left out.
    """

    weights: np.ndarray
    log_overhead: float
    left_out_errors: np.ndarray


class _Process:
    """Posterior of the kernels' factors, given networks."""

    def __init__(self, terms: NetworkTerms, kernels_ms: np.ndarray, overhead_ms: float, latency_ms: np.ndarray) -> None:
        from scipy.sparse import csr_matrix

        self.terms, self.overhead_ms = terms, overhead_ms
        self.log_latency = np.log(latency_ms)
        # One column a point: kernels of one point share a factor.
        starts = np.cumsum([0, *(len(kernels.points) for kernels in terms.types)])
        column = np.concatenate([kernels.point_of + start for kernels, start in zip(terms.types, starts, strict=False)])
        counts = terms.counts
        spent = counts.data * kernels_ms[counts.indices]
        # Adding duplicates up changes the arrays in place, and the terms are still needed.
        merged = csr_matrix((spent, column[counts.indices], counts.indptr.copy()), shape=(counts.shape[0], int(starts[-1])))
        merged.sum_duplicates()
        self.spent = merged
        """(networks, points): milliseconds at the latencies to begin with."""
        self.blocks = [slice(int(start), int(end)) for start, end in pairwise(starts)]

    def fit(self, solution: _Solution) -> tuple[list[np.ndarray], float]:
        """Return the weights of the points of each type, and the factor on the overhead."""
        weights, overhead = solution.weights, solution.log_overhead
        return [weights[block] for block in self.blocks], float(np.exp(OVERHEAD_DEVIATION * overhead))

    def solve(self, noise: float, rows: np.ndarray | None = None) -> _Solution:
        """Return the posterior at a noise, from all networks or from some; the steps begin at the analytical terms."""
        spent = self.spent if rows is None else self.spent[rows]
        target = self.log_latency if rows is None else self.log_latency[rows]
        types = self.terms.types
        huber = max(HUBER_NOISES * noise, LEAST_HUBER)
        weights, logs, log_overhead = np.zeros(spent.shape[1]), np.zeros(spent.shape[1]), 0.0
        state = self._state(spent, logs, log_overhead)
        cost = _cost(target - np.log(state[1]), huber, noise) + 0.0
        system, residual = np.eye(len(target)), np.zeros(len(target))
        for _ in range(STEPS):
            shares, total, overhead = state
            by_overhead = OVERHEAD_DEVIATION * overhead / total
            error = target - np.log(total)
            residual = error + shares @ logs + by_overhead * log_overhead
            trust = np.minimum(1.0, huber / np.maximum(np.abs(error), 1e-12))
            system = np.zeros((len(target), len(target)))  # shares · covariance · sharesᵀ
            for kernels, block in zip(types, self.blocks, strict=True):
                part = shares[:, block]
                system += part @ (part @ kernels.covariance).T
            system = system + np.outer(by_overhead, by_overhead) + np.diag(noise**2 / trust)
            dual = np.linalg.solve(system, residual)
            new_weights, new_overhead = shares.T @ dual, float(by_overhead @ dual)
            new_logs = np.concatenate(
                [new_weights[:0], *(each.covariance @ new_weights[part] for each, part in zip(types, self.blocks, strict=True))]
            )
            step, moved = 1.0, False
            while step > 0.05 and not moved:
                w = weights + step * (new_weights - weights)
                g = logs + step * (new_logs - logs)
                o = log_overhead + step * (new_overhead - log_overhead)
                tried = self._state(spent, g, o)
                new_cost = _cost(target - np.log(tried[1]), huber, noise) + float(w @ g) + o * o
                moved = new_cost < cost
                step /= 2
            if not moved:
                break
            gain, cost = cost - new_cost, new_cost
            weights, logs, log_overhead, state = w, g, o, tried
            if gain < 1e-3 * max(cost, 1.0):
                break
        inverse = np.linalg.inv(system)
        return _Solution(weights, log_overhead, (inverse @ residual) / np.diag(inverse))

    def _state(self, spent: Any, logs: np.ndarray, log_overhead: float) -> tuple[Any, np.ndarray, float]:
        """Return the shares of the points in each network's latency (sparse), the latencies, and the overhead."""
        factor = np.exp(np.clip(logs, -5, 5))
        overhead = self.overhead_ms * float(np.exp(np.clip(OVERHEAD_DEVIATION * log_overhead, -5, 5)))
        total = spent @ factor + overhead
        shares = spent.copy()
        shares.data = spent.data * factor[spent.indices] / np.repeat(total, np.diff(spent.indptr))
        return shares, total, overhead


def _cost(error: np.ndarray, huber: float, noise: float) -> float:
    size = np.abs(error)
    return float(np.where(size < huber, size**2, huber * (2 * size - huber)).sum() / noise**2)


def _choose_noise(process: _Process) -> _Solution:
    """Return the posterior at the noise at which networks that are left out one at a time are predicted best."""
    networks = len(process.log_latency)
    rows = None
    if networks > MOST_FOR_NOISE:
        rows = np.sort(np.random.default_rng(0).permutation(networks)[:MOST_FOR_NOISE])
    found = [process.solve(noise, rows) for noise in NOISES]
    errors = [np.minimum(np.abs(solution.left_out_errors), 0.3).mean() for solution in found]
    best = int(np.argmin(errors))
    return found[best] if rows is None else process.solve(NOISES[best])


def predictor_parts(
    learned: WholeNetworkFit, terms: NetworkTerms
) -> tuple[AnalyticalTerms, dict[str, KernelPredictor], CalibrationTerms]:
    """Return a fit as the parts of a platform predictor; ranges are those of the networks' kernels."""
    # Coefficients of all classes together, for kernels of unknown classes: milliseconds by term over units of it.
    units = terms.class_sums[:, :-1].sum(axis=0).reshape(len(terms.classes), len(terms.terms))
    whole = units.sum(axis=0)
    table = np.stack([learned.coefficients[name] for name in terms.classes])
    pooled = np.asarray((units * table).sum(axis=0) / np.where(whole > 0, whole, 1.0))
    kernels = {}
    for found in terms.types:
        if found.name == "other":
            continue
        low, high = found.configurations.min(axis=0), found.configurations.max(axis=0)
        sizes = tuple(size_lengths(kernel_type(found.name)))
        seen = Seen.of(found.name, found.configurations)
        factors = learned.factors[found.name]
        kernels[found.name] = KernelPredictor(found.name, ANALYTICAL_GP, factors, low, high, 0, seen, sizes)
    return (
        AnalyticalTerms({POOLED: pooled, **learned.coefficients}, terms.terms), kernels,
        CalibrationTerms(constant_ms=learned.overhead_ms),
    )  # fmt: skip
