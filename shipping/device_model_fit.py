"""Fitting the model of devices: expectation-maximisation over a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from latcast.devices.device_model import (
    INTERCEPT,
    KINDS,
    TERM_COUNT,
    DescribedNetworks,
    DeviceModel,
    Kind,
    KnownPlatform,
    group_of,
)
from latcast.devices.members import Stated, stated_prices
from latcast.predictors.network_features import NetworkFeatures
from latcast.predictors.platform_posterior import DEGREES, Posterior, linearised, posterior
from latcast.predictors.process_basis import ProcessBasis

NETWORK_POINTS, KERNEL_POINTS = 60, 40

ITERATIONS = 6

MOST_NETWORKS = 200
"""Networks of one platform that are fitted to; more change its coefficients little."""

MOST_OF_A_CHIP = 4.0
"""Platforms of one chip count together as at most so many: they are hardly independent."""

RIDGE, INTERCEPT_RIDGE = 3.0, 0.05
"""Platforms without an effect that a covariate counts as, and the intercept."""

PROCESS_RIDGE = 10.0
"""The same for the mean of the process: platforms share their networks, which are not independent evidence."""

ALL_KINDS_WEIGHT, DIAGONAL_WEIGHT, LEAST_VARIANCE = 40.0, 2.0, 0.02
"""Platforms that the covariance of all kinds, and its diagonal, count as in that of one kind; and what is added to it."""

FEWEST_NETWORKS = 4
"""That a platform needs to be of the pool."""

SCALES = ((0.1, 0.1), (0.2, 0.2), (0.3, 0.3), (0.45, 0.45))
NOISES = (0.04, 0.06, 0.1, 0.15)
SCALE_NETWORKS, SCALE_PLATFORMS = 12, 30
"""Deviations of the process and the noise among which those that predict best from so many networks are chosen."""

Watch = Callable[[str, int, int], None]
"""(what is done, steps done, steps in all)."""


def unwatched(_what: str, _done: int, _all: int) -> None:
    """Ignore progress."""


def fit_device_model(
    platforms: Sequence[KnownPlatform], networks: NetworkFeatures, *, seed: int = 0, watch: Watch = unwatched
) -> DeviceModel:
    """Fit the model of a pool, without arbitration: every member weighs the same.

    Args:
        platforms: Those with fewer than :data:`FEWEST_NETWORKS` networks are left out.
        networks: What their indices refer to.
        seed: For the networks chosen of large platforms.
        watch: Told of every step.
    """
    platforms = [each for each in platforms if len(each.networks) >= FEWEST_NETWORKS]
    rng = np.random.default_rng(seed)
    used = np.unique(np.concatenate([each.networks for each in platforms]))
    basis = ProcessBasis.of(networks.rows(used), np.zeros(TERM_COUNT), NETWORK_POINTS, KERNEL_POINTS)
    fitted = []
    for each in platforms:
        kept = np.arange(len(each.networks))
        if len(kept) > MOST_NETWORKS:
            kept = np.sort(rng.choice(len(kept), MOST_NETWORKS, replace=False))
        fitted.append(replace(each, networks=each.networks[kept], log_ms=each.log_ms[kept]))
    names = tuple(sorted({name for each in platforms for name in each.covariates}))
    z = np.array([[each.covariates.get(name, 0.0) for name in names] for each in platforms])
    size = TERM_COUNT + basis.size
    start = Kind(np.ones((TERM_COUNT, TERM_COUNT)) + 1.5 * np.eye(TERM_COUNT), 0.2, 0.2, 0.08)
    described = DeviceModel(basis, names, np.zeros((len(names), size)), {}).described(networks)
    model = DeviceModel(
        basis, names, np.zeros((len(names), size)), dict.fromkeys(KINDS, start),
        tuple(platforms),
    )  # fmt: skip
    weights = platform_weights(platforms)
    found: list[Posterior] = []
    for iteration in range(ITERATIONS + 1):
        watch("learning platforms", iteration, ITERATIONS + 1)
        last = iteration == ITERATIONS
        if last:
            # Once more, without what is the networks' own.
            model = _remembering(model, platforms, described, weights)
        found = _posteriors(model, fitted, described, found)
        states = np.array([each.mean for each in found])
        effects = ridge_effects(z, states, weights, names)
        if not last:
            effects[:, TERM_COUNT:] = 0.0
        model = replace(model, effects=effects, states=states)
        model = replace(model, kinds=_maximised(model, found, states - z @ effects, weights))
        if iteration in (ITERATIONS // 2, ITERATIONS - 1):
            kinds = {kind: _best_scales(model, kind, fitted, described, weights, seed) for kind in KINDS}
            model = replace(model, kinds=kinds)
    watch("learning platforms", ITERATIONS + 1, ITERATIONS + 1)
    return replace(model, known_terms=described.terms, known_basis=described.basis)


def ridge_effects(z: np.ndarray, states: np.ndarray, weights: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Regress states on covariates, (platforms, covariates), by ridge regression; effects are (covariates, state)."""
    ridge = np.array([INTERCEPT_RIDGE if name == INTERCEPT else RIDGE for name in names])
    weighted = z * weights[:, None]
    gram = weighted.T @ z
    effects = np.linalg.solve(gram + np.diag(ridge), weighted.T @ states[:, :TERM_COUNT])
    process = np.linalg.solve(gram + np.diag(np.maximum(ridge, PROCESS_RIDGE)), weighted.T @ states[:, TERM_COUNT:])
    return np.hstack([effects, process])


OFFSET_SHRINKAGE = 2.0
"""Platforms without a deviation that a network's offset counts as."""

FEWEST_OF_A_GROUP = 3
"""Chips of one runtime and precision for which networks have offsets of their own."""

MOST_EXPLAINED = 0.8


def _remembering(
    model: DeviceModel, platforms: Sequence[KnownPlatform], described: DescribedNetworks, weights: np.ndarray
) -> DeviceModel:
    """Add the networks' mean deviations on all platforms of a kind, and of a kind, runtime and precision."""
    rows, networks, residuals, heavy, chips = [], [], [], [], []
    for index, each in enumerate(platforms):
        expected = linearised(model.states[index], described.terms[each.networks], described.basis[each.networks])[0]
        rows += [index] * len(expected)
        networks.append(each.networks)
        residuals.append(np.clip(each.log_ms - expected, -1, 1))
        heavy += [float(weights[index])] * len(expected)
        chips += [each.silicon] * len(expected)
    row, network, residual = np.array(rows), np.concatenate(networks), np.concatenate(residuals)
    weight = np.array(heavy)
    kind_of = np.array([each.kind for each in platforms])[row]
    group = np.array([group_of(each.kind, each.covariates) for each in platforms])[row]
    size = len(described.terms)
    offsets: dict[str, np.ndarray] = {}
    explained: dict[str, float] = {}
    for kind in KINDS:
        own = kind_of == kind
        if not own.any():
            continue
        left = residual.copy()
        offsets[kind] = _offsets(network[own], left[own], weight[own], size)
        left[own] -= offsets[kind][network[own]]
        for name in sorted(set(group[own])):
            part = group == name
            if len({chips[place] for place in np.flatnonzero(part)}) >= FEWEST_OF_A_GROUP:
                offsets[name] = _offsets(network[part], left[part], weight[part], size)
                left[part] -= offsets[name][network[part]]
        before, after = (np.average(values[own] ** 2, weights=weight[own]) for values in (residual, left))
        explained[kind] = float(np.clip(1 - after / max(before, 1e-12), 0, MOST_EXPLAINED))
    return replace(model, known_places=described.place, known_offsets=offsets, explained=explained)


def _offsets(network: np.ndarray, residual: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    """Return each network's mean residual, (networks,), shrunk; 0 where only one platform has it."""
    total = np.bincount(network, weights=weight, minlength=size)
    summed = np.bincount(network, weights=weight * residual, minlength=size)
    several = np.bincount(network, minlength=size) > 1
    return np.asarray(several * summed / (total + OFFSET_SHRINKAGE))


def platform_weights(platforms: Sequence[KnownPlatform]) -> np.ndarray:
    """Return weights of platforms: those of one chip and kind add up to at most ``MOST_OF_A_CHIP``."""
    count = Counter((each.silicon, each.kind) for each in platforms)
    return np.array([min(1.0, MOST_OF_A_CHIP / count[each.silicon, each.kind]) for each in platforms])


def _posteriors(
    model: DeviceModel,
    platforms: Sequence[KnownPlatform],
    described: DescribedNetworks,
    before: Sequence[Posterior],
) -> list[Posterior]:
    """Return every platform's posterior under the model; ``before`` says where to begin."""
    found = []
    precisions: dict[tuple[str, tuple[Stated | None, ...]], np.ndarray] = {}
    for row, each in enumerate(platforms):
        prior = model.prior(each.kind, each.covariates)
        key = each.kind, stated_prices(each.covariates)
        if key not in precisions:
            precisions[key] = np.linalg.inv(prior.covariance)
        prior = replace(prior, precision=precisions[key])
        seen = described.rows(each.networks)
        memory = model.memory(each.kind, each.covariates)
        offset, known = memory.recalled(seen.place)
        observed = seen.observed(model.kinds[each.kind], each.log_ms - offset, known * memory.explained)
        start = before[row].mean if before else None
        found.append(posterior(prior, observed, start=start, steps=3 if before else 8))
    return found


def _maximised(model: DeviceModel, found: Sequence[Posterior], away: np.ndarray, weights: np.ndarray) -> dict[str, Kind]:
    """Return covariances of greatest likelihood, those of all kinds counting as some platforms of each."""
    covariances = np.array([each.covariance[:TERM_COUNT, :TERM_COUNT] for each in found])
    coefficients = away[:, :TERM_COUNT]
    moments = covariances + coefficients[:, :, None] * coefficients[:, None, :]
    everything = np.einsum("pij,p->ij", moments, weights) / weights.sum()
    kinds = {}
    for name, old in model.kinds.items():
        own = model.rows_of_kind[name]
        total = weights[own].sum()
        summed = np.einsum("pij,p->ij", moments[own], weights[own]) + ALL_KINDS_WEIGHT * everything
        summed += DIAGONAL_WEIGHT * np.diag(np.diag(everything))
        covariance = summed / (total + ALL_KINDS_WEIGHT + DIAGONAL_WEIGHT) + LEAST_VARIANCE * np.eye(TERM_COUNT)
        kinds[name] = replace(old, covariance=covariance)
    return kinds


def _best_scales(
    model: DeviceModel,
    kind: str,
    platforms: Sequence[KnownPlatform],
    described: DescribedNetworks,
    weights: np.ndarray,
    seed: int,
) -> Kind:
    """Find the process's deviations and the noise with which a few networks of a platform predict each other best.

    With few platforms of a kind, platforms of all kinds are taken.
    """
    rng = np.random.default_rng(seed)
    rows = [row for row, each in enumerate(platforms) if each.kind == kind and len(each.networks) >= SCALE_NETWORKS + 4]
    if len(rows) < 3:
        rows = [row for row, each in enumerate(platforms) if len(each.networks) >= SCALE_NETWORKS + 4]
    if not rows:
        return model.kinds[kind]
    part = weights[rows] / weights[rows].sum()
    chosen = rng.choice(rows, min(SCALE_PLATFORMS, len(rows)), replace=False, p=part)
    trials = []
    for row in chosen:
        each = platforms[row]
        order = rng.permutation(len(each.networks))[: 2 * SCALE_NETWORKS]
        trials.append((model.mean(each.covariates), described.rows(each.networks[order]), each.log_ms[order]))
    best, best_score = model.kinds[kind], -np.inf
    for network_scale, kernel_scale in SCALES:
        for noise in NOISES:
            tried = replace(model.kinds[kind], network_scale=network_scale, kernel_scale=kernel_scale, noise=noise)
            learned = replace(model, kinds={kind: tried}).prior(kind, {})
            score = 0.0
            for mean, seen, log_ms in trials:
                prior = replace(learned, mean=mean)
                first, second = seen.rows(np.arange(SCALE_NETWORKS)), seen.rows(np.arange(SCALE_NETWORKS, len(log_ms)))
                fitted = posterior(prior, first.observed(tried, log_ms[:SCALE_NETWORKS]), steps=5)
                expected, variance = fitted.log_ms(second.terms, second.basis, second.novelty(tried))
                error = log_ms[SCALE_NETWORKS:] - expected
                score += float(_student_log_density(error, variance).mean())
            if score > best_score:
                best, best_score = tried, score
    return best


def _student_log_density(error: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the logarithms of Student's densities at errors, (networks,), without their constant."""
    return np.asarray(-0.5 * np.log(variance) - (DEGREES + 1) / 2 * np.log1p(error**2 / variance / DEGREES))
