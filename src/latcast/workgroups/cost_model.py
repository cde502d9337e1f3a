"""A cost model of work-group sizes that learns from a device's first few measurements, and a tuner that it guides.

A Gaussian process over :data:`SIZE_FEATURES`. The logarithm of a latency is the level of its sweep (one kernel variant of one
operator on one device), which says nothing of sizes, plus what a size wastes for certain, plus three smooth functions of the
size: one of all sweeps, one of each device, one of each device that also changes with the kernel variant. How much each weighs is
chosen by the likelihood of what was measured, never by what is to be predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latcast.errors import TrainingError
from latcast.extras import require
from latcast.workgroups.advice import kfast
from latcast.workgroups.rules import accesses_per_item, group_counts, padding_share, rank
from latcast.workgroups.sweep import Sweep

SIZE_FEATURES = (
    "log2_x", "log2_y", "log2_z", "log2_items", "padding", "idle_lanes", "idle_cores", "unused_line", "loads_per_output",
    "log2_input_patch", "accesses_per_item", "padded_x", "padded_y", "padded_z",
)  # fmt: skip
"""What is not known of a device is 0; ratios are logarithms to base 2. ``padded_x``... are 1 where the size does not divide the
grid: kernels often check bounds then, whatever the share of padding."""


def size_features(sweep: Sweep) -> np.ndarray:
    """Features of each size of a sweep.

    Args:
        sweep: Its sizes, kernel, grid and device; no latency is looked at.

    Returns:
        (sizes, features) as :data:`SIZE_FEATURES`.
    """
    sizes, kernel, device = sweep.shapes, sweep.descriptor, sweep.device
    items = sizes.prod(axis=1)
    groups = group_counts(sizes, sweep.grid).prod(axis=1)
    columns = sizes[:, 0] * kernel.block_x + sweep.filter_size[1] - 1
    rows = sizes[:, 1] * kernel.block_y + sweep.filter_size[0] - 1
    outputs = sizes[:, 0] * kernel.block_x * sizes[:, 1] * kernel.block_y
    none = np.zeros(len(sizes))
    line = sizes[:, 0] * kernel.numbers_read_along_x * kernel.element_bytes
    return np.column_stack(
        [
            np.log2(sizes),
            np.log2(items),
            -np.log2(1 - padding_share(sizes, sweep.situation)),
            none if device.simultaneous_items is None else _rounding(items, device.simultaneous_items),
            none if device.compute_units is None else _rounding(groups, device.compute_units),
            none if device.cache_line_bytes is None else _rounding(line, device.cache_line_bytes),
            np.log2(columns * rows / outputs),
            np.log2(columns * rows),
            np.log2(accesses_per_item(sizes, kernel)) if kernel.accesses_counted else none,
            (np.array(sweep.grid.shape) % sizes != 0).astype(np.float64),
        ]
    )


def variant_features(sweep: Sweep) -> np.ndarray:
    """(features,) of a kernel variant: its settings in the order of their names, logarithms to base 2 of those above 1."""
    values = [float(value) for _, value in sorted(sweep.variant.items()) if isinstance(value, (int, float))]
    return np.array([np.log2(value) if value > 1 else value for value in values], dtype=np.float64)


def _rounding(numbers: np.ndarray, unit: int) -> np.ndarray:
    """log2 of how much larger the next multiple of a unit is: 0 for multiples."""
    return np.log2(np.ceil(numbers / unit) * unit / numbers)


WASTE = ("padding", "idle_lanes")
"""What a size wastes for certain: work items without work, and lanes that a group leaves idle. The functions learn the rest."""

LEVEL = 3.0
"""Standard deviation of a sweep's level, in logarithms: anything may be."""

MOST_TO_FIT = 240
"""Measurements that the weights are fitted to, drawn at random where there are more: likelihoods cost their cube."""


@dataclass(frozen=True)
class Points:
    """Sizes of several sweeps as one table.

    Attributes:
        sizes: (points, size features), standardised.
        variants: (points, variant features), standardised.
        sweep: (points,) number of the sweep.
        device: (points,) number of the device.
        waste: (points,) logarithm of the work that a size launches over that which is needed.
    """

    sizes: np.ndarray
    variants: np.ndarray
    sweep: np.ndarray
    device: np.ndarray
    waste: np.ndarray

    def only(self, rows: np.ndarray) -> Points:
        """Some of them."""
        return Points(self.sizes[rows], self.variants[rows], self.sweep[rows], self.device[rows], self.waste[rows])


def points_of(sweeps: Sequence[Sweep]) -> Points:
    """All sizes of sweeps, one sweep after another; features are standardised over all of them.

    Standardising looks at sizes that may not have been measured, and at no latency.

    Raises:
        TrainingError: Their kernels do not have the same settings.
    """
    names = {tuple(sorted(sweep.variant)) for sweep in sweeps}
    if len(names) != 1:
        raise TrainingError(f"sweeps of kernels with different settings cannot be learned together: {sorted(names)}")
    counts = [len(sweep.sizes) for sweep in sweeps]
    titles = sorted({sweep.device.title for sweep in sweeps})
    variants = np.array([variant_features(sweep) for sweep in sweeps])
    features = np.concatenate([size_features(sweep) for sweep in sweeps])
    return Points(
        _standardised(features),
        _standardised(np.repeat(variants, counts, axis=0)),
        np.repeat(np.arange(len(sweeps)), counts),
        np.repeat([titles.index(sweep.device.title) for sweep in sweeps], counts),
        np.log(2) * features[:, [SIZE_FEATURES.index(name) for name in WASTE]].sum(axis=1),
    )


@dataclass(frozen=True)
class Weights:
    """Hyper-parameters, in logarithms: standard deviations of the three functions and of the noise, and two length scales."""

    values: tuple[float, ...] = (-1.5, -1.5, -1.5, -3.5, 1.0, 0.5)

    BOUNDS = ((-4.0, 1.0), (-4.0, 1.0), (-4.0, 1.0), (-5.0, -1.0), (-0.5, 2.5), (-0.5, 2.5))
    """Of each, so that a handful of measurements cannot say something absurd."""

    PRIOR_DEVIATION = 1.0
    """Standard deviation around the start: with few measurements the weights stay near it."""

    def covariance(self, first: Points, second: Points) -> np.ndarray:
        """(first, second) covariance of log latencies, without noise."""
        shared, own, varying, _, size_length, variant_length = np.exp(self.values)
        near = np.exp(-0.5 * _distances(first.sizes, second.sizes) / size_length**2)
        alike = np.exp(-0.5 * _distances(first.variants, second.variants) / variant_length**2)
        same_device = first.device[:, None] == second.device[None, :]
        same_sweep = first.sweep[:, None] == second.sweep[None, :]
        smooth = near * (shared**2 + same_device * (own**2 + varying**2 * alike))
        return smooth + LEVEL**2 * same_sweep

    @property
    def noise(self) -> float:
        """Standard deviation of a measurement."""
        return float(np.exp(self.values[3]))


def fit_weights(points: Points, log_ms: np.ndarray, seed: int = 0) -> Weights:
    """The most probable weights of measured sizes.

    Args:
        points: Measured sizes.
        log_ms: (points,) logarithms of their latencies.
        seed: Of the draw where there are more than :data:`MOST_TO_FIT`.
    """
    from scipy.optimize import minimize

    if len(log_ms) > MOST_TO_FIT:
        rows = np.sort(np.random.default_rng(seed).choice(len(log_ms), MOST_TO_FIT, replace=False))
        points, log_ms = points.only(rows), log_ms[rows]
    start = np.array(Weights().values)
    log_ms = log_ms - points.waste

    def cost(values: np.ndarray) -> float:
        weights = Weights(tuple(values))
        factor = _factor(weights, points)
        if factor is None:
            return 1e10
        solved = _solve(factor, log_ms - log_ms.mean())
        likelihood = -0.5 * float(solved @ solved) - float(np.log(np.diag(factor)).sum())
        return -likelihood + 0.5 * float((((values - start) / Weights.PRIOR_DEVIATION) ** 2).sum())

    found = minimize(cost, start, method="L-BFGS-B", bounds=Weights.BOUNDS, options={"maxiter": 25})
    return Weights(tuple(float(value) for value in found.x))


@dataclass(frozen=True)
class CostModel:
    """What is known after some measurements.

    Attributes:
        weights: Hyper-parameters.
        points: Measured sizes.
        log_ms: (points,) logarithms of their latencies.
    """

    weights: Weights
    points: Points
    log_ms: np.ndarray

    def predict(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Expected log latencies and their standard deviations; of a sweep never measured only their differences mean anything.

        Returns:
            (points,) and (points,).
        """
        if not len(self.log_ms):
            return points.waste, np.full(len(points.sweep), LEVEL)
        factor = _factor(self.weights, self.points)
        if factor is None:
            raise TrainingError("the measurements contradict each other so that no covariance explains them")
        rest = self.log_ms - self.points.waste
        centre = float(rest.mean())
        across = _solve(factor, self.weights.covariance(self.points, points))
        mean = points.waste + centre + across.T @ _solve(factor, rest - centre)
        variance = _variances(self.weights, points) - (across**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 1e-12))


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """(points,) by how much a measurement is expected to be below the best so far, in logarithms."""
    from scipy.special import ndtr

    score = (best - mean) / deviation
    density = np.exp(-0.5 * score**2) / np.sqrt(2 * np.pi)
    return deviation * (score * ndtr(score) + density)


def _variances(weights: Weights, points: Points) -> np.ndarray:
    shared, own, varying = np.exp(weights.values[:3])
    return np.full(len(points.sweep), shared**2 + own**2 + varying**2 + LEVEL**2)


def _factor(weights: Weights, points: Points) -> np.ndarray | None:
    covariance = weights.covariance(points, points)
    covariance[np.diag_indices_from(covariance)] += weights.noise**2 + 1e-8
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return None


def _solve(factor: np.ndarray, values: np.ndarray) -> np.ndarray:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(factor, values, lower=True))


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(first, second) squared distances."""
    products = first @ second.T
    return np.maximum((first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None, :] - 2 * products, 0.0)


def _standardised(values: np.ndarray) -> np.ndarray:
    deviation = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


BUDGET = 6
"""Sizes measured of each sweep."""


@dataclass(frozen=True, eq=False)
class TuningRun:
    """Which sizes a tuner measured, sweep by sweep.

    Attributes:
        sweeps: Numbers of the sweeps, in the order in which they were tuned.
        measured: For each of them, rows of the sizes that were measured, in their order.
    """

    sweeps: tuple[int, ...]
    measured: tuple[tuple[int, ...], ...]

    def regrets(self, sweeps: Sequence[Sweep], count: int) -> np.ndarray:
        """(sweeps,) the best of each one's first ``count`` measured sizes, over the best of all its sizes."""
        return np.array(
            [sweeps[number].relative[list(rows[:count])].min() for number, rows in zip(self.sweeps, self.measured, strict=True)]
        )


def tune(
    sweeps: Sequence[Sweep], order: Sequence[int], *, known: Sequence[int] = (), carry: bool = True, budget: int = BUDGET,
    seed: int = 0,
) -> TuningRun:  # fmt: skip
    """Tunes sweeps one after another.

    Latencies of sizes that were not measured are never looked at. Where nothing is known of the device the first size of a sweep
    is TFLite's default, or the first by the rules where that was not measured: what other devices taught is no guide to it.
    Where something is known it is the one expected to be fastest. The second is the one expected to be fastest among those that
    the rules leave: what the model has not understood yet, they may have. Later ones have the largest expected improvement.

    Args:
        sweeps: All of one kernel, perhaps on several devices.
        order: Numbers of those to tune.
        known: Numbers of sweeps measured before (on another device, say), of each as many sizes as of the others, at random.
        carry: Whether what was measured of one sweep helps with the next; otherwise each is tuned by itself.
        budget: Sizes to measure of each.
        seed: Of every random choice.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    require("tuning work-group sizes", "scipy")
    points = points_of(sweeps)
    logs = np.log(np.concatenate([sweep.latency_ms for sweep in sweeps]))
    starts = np.cumsum([0, *(len(sweep.sizes) for sweep in sweeps)])
    rng = np.random.default_rng(seed)
    rows: list[int] = []
    for number in known:
        count = len(sweeps[number].sizes)
        rows += (starts[number] + rng.choice(count, min(budget, count), replace=False)).tolist()
    weights = fit_weights(points.only(np.array(rows)), logs[rows], seed) if rows else Weights()
    fitted = len(rows)
    measured = []
    for number in order:
        if len(rows) >= max(2 * fitted, 2 * budget):
            weights, fitted = fit_weights(points.only(np.array(rows)), logs[rows], seed), len(rows)
        candidates = np.arange(starts[number], starts[number + 1])
        here = points.device[rows] == points.device[starts[number]]
        first = [] if here.any() else [int(starts[number]) + _default(sweeps[number])]
        hedge = (starts[number] + _survivors(sweeps[number])).tolist()
        chosen = _tuned(weights, points, logs, rows, candidates, budget, first, hedge)
        rows += chosen * carry
        measured.append(tuple(int(row - starts[number]) for row in chosen))
    return TuningRun(tuple(order), tuple(measured))


def _default(sweep: Sweep) -> int:
    """The row of the size to begin with where nothing is known."""
    row = sweep.index_of(kfast(sweep.grid, sweep.descriptor, sweep.device.limits))
    return int(rank(sweep.sizes, sweep.situation).order[0]) if row is None else row


def _survivors(sweep: Sweep) -> np.ndarray:
    """Rows of the sizes that the rules leave."""
    found = rank(sweep.sizes, sweep.situation)
    return found.order[: found.survivors]


def _tuned(
    weights: Weights, points: Points, logs: np.ndarray, rows: Sequence[int], candidates: np.ndarray, budget: int,
    first: Sequence[int], hedge: Sequence[int],
) -> list[int]:  # fmt: skip
    """Rows of one sweep's sizes that are measured, in their order."""
    chosen = list(first)
    left = [row for row in candidates.tolist() if row not in chosen]
    while left and len(chosen) < budget:
        places = [*rows, *chosen]
        model = CostModel(weights, points.only(np.array(places, dtype=np.int64)), logs[places])
        mean, deviation = model.predict(points.only(np.array(left)))
        if len(chosen) == 1 and (kept := [row in hedge for row in left]) and any(kept):
            mean = np.where(kept, mean, np.inf)
        gain = expected_improvement(mean, deviation, float(logs[chosen].min())) if len(chosen) > 1 else -mean
        chosen.append(left.pop(int(gain.argmax())))
    return chosen
