"""A cost model of work-group sizes that learns from a device's first few measurements, and a tuner that it guides.

A Gaussian process over :data:`SIZE_FEATURES`. The logarithm of a latency is the level of its sweep (one kernel variant of one
operator on one device), which says nothing of sizes, plus the waste of a size, plus three smooth functions of the size: one of
all sweeps, one of each device, one of each device that also changes with the kernel variant. How much each weighs is chosen by
the likelihood of the measurements, never by the latencies to be predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latcast.errors import TrainingError
from latcast.extras import require
from latcast.workgroups.advice import kfast
from latcast.workgroups.rules import accesses_per_item, group_counts, padding_share, rank
from latcast.workgroups.sweep import SizeSweep

SIZE_FEATURES = (
    "log2_x", "log2_y", "log2_z", "log2_items", "padding", "idle_lanes", "idle_cores", "unused_line", "loads_per_output",
    "log2_input_patch", "accesses_per_item", "padded_x", "padded_y", "padded_z",
)  # fmt: skip
"""Features of unknown numbers of a device are 0; ratios are logarithms to base 2. ``padded_x``... are 1 where the size does not
divide the grid: kernels often check bounds then, whatever the share of padding."""

WASTE = ("padding", "idle_lanes")
"""The certain waste of a size: work items without work, and lanes that a group leaves idle. The functions learn the rest."""

LEVEL = 3.0
"""Standard deviation of a sweep's level, in logarithms: anything may be."""

MOST_TO_FIT = 240
"""Measurements that the weights are fitted to, drawn at random where there are more: likelihoods cost their cube."""

BUDGET = 6
"""Sizes measured of each sweep."""


def size_features(sweep: SizeSweep) -> np.ndarray:
    """Return the features of each size of a sweep, (sizes, features) as :data:`SIZE_FEATURES`; no latency is looked at."""
    sizes, kernel, device = sweep.shapes, sweep.descriptor, sweep.device
    items = sizes.prod(axis=1)
    groups = group_counts(sizes, sweep.grid).prod(axis=1)
    columns = sizes[:, 0] * kernel.block_x + sweep.filter_size[1] - 1
    rows = sizes[:, 1] * kernel.block_y + sweep.filter_size[0] - 1
    outputs = sizes[:, 0] * kernel.block_x * sizes[:, 1] * kernel.block_y
    line = sizes[:, 0] * kernel.numbers_read_along_x * kernel.element_bytes
    none = np.zeros(len(sizes))

    def rounding(numbers: np.ndarray, unit: int | None) -> np.ndarray:
        """Return log2 of how much larger the next multiple of a unit is."""
        return none if unit is None else np.log2(np.ceil(numbers / unit) * unit / numbers)

    return np.column_stack(
        [
            np.log2(sizes),
            np.log2(items),
            -np.log2(1 - padding_share(sizes, sweep.situation)),
            rounding(items, device.simultaneous_items),
            rounding(groups, device.compute_units),
            rounding(line, device.cache_line_bytes),
            np.log2(columns * rows / outputs),
            np.log2(columns * rows),
            np.log2(accesses_per_item(sizes, kernel)) if kernel.accesses_counted else none,
            (np.array(sweep.grid.shape) % sizes != 0).astype(np.float64),
        ]
    )


@dataclass(frozen=True)
class Points:
    """Sizes of several sweeps as one table.

    Attributes:
        sizes: (points, size features), standardised.
        variants: (points, variant features), standardised: the settings of kernels in the order of their names, logarithms to
            base 2 of those above 1.
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
        """Return some of the points."""
        return Points(self.sizes[rows], self.variants[rows], self.sweep[rows], self.device[rows], self.waste[rows])


def points_of(sweeps: Sequence[SizeSweep]) -> Points:
    """Return all sizes of sweeps, one sweep after another; features are standardised over all of them, measured or not.

    Raises:
        TrainingError: Their kernels do not have the same settings.
    """
    names = {tuple(sorted(sweep.variant)) for sweep in sweeps}
    if len(names) != 1:
        raise TrainingError(f"sweeps of kernels with different settings cannot be learned together: {sorted(names)}")
    counts = [len(sweep.sizes) for sweep in sweeps]
    titles = sorted({sweep.device.title for sweep in sweeps})
    settings = [
        [float(value) for _, value in sorted(sweep.variant.items()) if isinstance(value, (int, float))] for sweep in sweeps
    ]
    variants = np.array([[np.log2(value) if value > 1 else value for value in values] for values in settings], dtype=np.float64)
    features = np.concatenate([size_features(sweep) for sweep in sweeps])
    return Points(
        _standardise(features),
        _standardise(np.repeat(variants, counts, axis=0)),
        np.repeat(np.arange(len(sweeps)), counts),
        np.repeat([titles.index(sweep.device.title) for sweep in sweeps], counts),
        np.log(2) * features[:, [SIZE_FEATURES.index(name) for name in WASTE]].sum(axis=1),
    )


def _standardise(values: np.ndarray) -> np.ndarray:
    deviation = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


@dataclass(frozen=True)
class Weights:
    """Hyper-parameters, in logarithms: standard deviations of the three functions and of the noise, and two length scales."""

    values: tuple[float, ...] = (-1.5, -1.5, -1.5, -3.5, 1.0, 0.5)

    BOUNDS = ((-4.0, 1.0), (-4.0, 1.0), (-4.0, 1.0), (-5.0, -1.0), (-0.5, 2.5), (-0.5, 2.5))
    """Limits of each, so that a handful of measurements cannot say something absurd."""

    PRIOR_DEVIATION = 1.0
    """Standard deviation around the start: with few measurements the weights stay near it."""

    def covariance(self, first: Points, second: Points) -> np.ndarray:
        """Return the covariance of log latencies without noise, (first, second)."""
        shared, own, varying, _, size_length, variant_length = np.exp(self.values)
        near = np.exp(-0.5 * _distances(first.sizes, second.sizes) / size_length**2)
        alike = np.exp(-0.5 * _distances(first.variants, second.variants) / variant_length**2)
        same_device = first.device[:, None] == second.device[None, :]
        same_sweep = first.sweep[:, None] == second.sweep[None, :]
        return near * (shared**2 + same_device * (own**2 + varying**2 * alike)) + LEVEL**2 * same_sweep

    def factor(self, points: Points) -> np.ndarray | None:
        """Return the Cholesky factor of measurements' covariance; None where rounding leaves it without one."""
        covariance = self.covariance(points, points)
        covariance[np.diag_indices_from(covariance)] += np.exp(self.values[3]) ** 2 + 1e-8
        try:
            return np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return None


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return squared distances, (first, second)."""
    products = first @ second.T
    return np.maximum((first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None, :] - 2 * products, 0.0)


def _solve(factor: np.ndarray, values: np.ndarray) -> np.ndarray:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(factor, values, lower=True))


def fit_weights(points: Points, log_ms: np.ndarray, seed: int = 0) -> Weights:
    """Return the most probable weights of measured sizes.

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
    rest = log_ms - points.waste

    def cost(values: np.ndarray) -> float:
        factor = Weights(tuple(values)).factor(points)
        if factor is None:
            return 1e10
        solved = _solve(factor, rest - rest.mean())
        likelihood = -0.5 * float(solved @ solved) - float(np.log(np.diag(factor)).sum())
        return -likelihood + 0.5 * float((((values - start) / Weights.PRIOR_DEVIATION) ** 2).sum())

    found = minimize(cost, start, method="L-BFGS-B", bounds=Weights.BOUNDS, options={"maxiter": 25})
    return Weights(tuple(float(value) for value in found.x))


@dataclass(frozen=True)
class CostModel:
    """Knowledge after some measurements.

    Attributes:
        weights: Hyper-parameters.
        points: Measured sizes.
        log_ms: (points,) logarithms of their latencies.
    """

    weights: Weights
    points: Points
    log_ms: np.ndarray

    def predict(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Return expected log latencies and their standard deviations, (points,) each.

        Of a sweep that was never measured only differences of the expected values mean anything.
        """
        if not len(self.log_ms):
            return points.waste, np.full(len(points.sweep), LEVEL)
        factor = self.weights.factor(self.points)
        if factor is None:
            raise TrainingError("the measurements contradict each other so that no covariance explains them")
        rest = self.log_ms - self.points.waste
        centre = float(rest.mean())
        across = _solve(factor, self.weights.covariance(self.points, points))
        mean = points.waste + centre + across.T @ _solve(factor, rest - centre)
        shared, own, varying = np.exp(self.weights.values[:3])
        variance = shared**2 + own**2 + varying**2 + LEVEL**2 - (across**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 1e-12))


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """Return by how much a measurement is expected to be below the best so far, in logarithms, (points,)."""
    from scipy.special import ndtr

    score = (best - mean) / deviation
    density = np.exp(-0.5 * score**2) / np.sqrt(2 * np.pi)
    return deviation * (score * ndtr(score) + density)


@dataclass(frozen=True, eq=False)
class TuningRun:
    """The sizes that a tuner measured, sweep by sweep.

    Attributes:
        sweeps: Numbers of the sweeps, in the order in which they were tuned.
        measured: For each of them, rows of the sizes that were measured, in their order.
    """

    sweeps: tuple[int, ...]
    measured: tuple[tuple[int, ...], ...]

    def regrets(self, sweeps: Sequence[SizeSweep], count: int) -> np.ndarray:
        """Return the best of each sweep's first ``count`` measured sizes over the best of all its sizes, (sweeps,)."""
        return np.array(
            [sweeps[number].relative[list(rows[:count])].min() for number, rows in zip(self.sweeps, self.measured, strict=True)]
        )


def tune(
    sweeps: Sequence[SizeSweep], order: Sequence[int], *, known: Sequence[int] = (), carry: bool = True, seed: int = 0
) -> TuningRun:
    """Tune sweeps one after another, never looking at latencies of sizes that were not measured.

    Args:
        sweeps: All of one kernel, perhaps on several devices.
        order: Numbers of those to tune.
        known: Numbers of sweeps measured before (on another device, say), of each as many sizes as of the others, at random.
        carry: Whether measurements of one sweep help with the next; otherwise each is tuned by itself.
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
        rows += (starts[number] + rng.choice(count, min(BUDGET, count), replace=False)).tolist()
    weights = fit_weights(points.only(np.array(rows)), logs[rows], seed) if rows else Weights()
    fitted = len(rows)
    measured = []
    for number in order:
        if len(rows) >= max(2 * fitted, 2 * BUDGET):
            weights, fitted = fit_weights(points.only(np.array(rows)), logs[rows], seed), len(rows)
        chosen = _measure_sweep(sweeps[number], int(starts[number]), points, logs, rows, weights)
        rows += chosen * carry
        measured.append(tuple(int(row - starts[number]) for row in chosen))
    return TuningRun(tuple(order), tuple(measured))


def _measure_sweep(
    sweep: SizeSweep, start: int, points: Points, logs: np.ndarray, rows: Sequence[int], weights: Weights
) -> list[int]:
    """Return the rows of one sweep's sizes that are measured, in their order.

    1. Where nothing is known of the device: TFLite's default, or the rules' first where that was not measured. Else the size
       that is expected to be fastest.
    2. The one expected to be fastest among those that the rules leave: they may know what the model has not learned yet.
    3. Those with the largest expected improvement.
    """
    ranking = rank(sweep.sizes, sweep.situation)
    default = sweep.index_of(kfast(sweep.grid, sweep.descriptor, sweep.device.limits))
    device_known = (points.device[rows] == points.device[start]).any()
    chosen = [] if device_known else [start + int(ranking.order[0] if default is None else default)]
    by_rules = set((start + ranking.order[: ranking.survivors]).tolist())
    left = [row for row in range(start, start + len(sweep.sizes)) if row not in chosen]
    while left and len(chosen) < BUDGET:
        places = [*rows, *chosen]
        model = CostModel(weights, points.only(np.array(places, dtype=np.int64)), logs[places])
        mean, deviation = model.predict(points.only(np.array(left)))
        if len(chosen) > 1:
            gain = expected_improvement(mean, deviation, float(logs[chosen].min()))
        else:
            kept = np.array([row in by_rules for row in left])
            gain = -np.where(kept, mean, np.inf) if chosen and kept.any() else -mean
        chosen.append(left.pop(int(gain.argmax())))
    return chosen
