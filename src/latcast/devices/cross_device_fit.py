"""Fitting the cross-device model: variances of greatest likelihood, noise of each device, cells that do not fit drawn in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latcast.devices.cell_likelihood import Cells, Grid, Scattered
from latcast.devices.cross_device import CrossDeviceModel
from latcast.devices.device_covariance import PRIOR_SPREAD, DevicePairs, DeviceScales, SignatureSpace
from latcast.devices.network_covariance import LayerShareFit, NetworkPriorFit
from latcast.errors import TrainingError
from latcast.extras import require

TYPICAL_NOISE = 1e-3
"""Variance of a phone's noise (3 %); a priori a device's lies within a factor of about 4.5 of it."""

NOISE_SPREAD = 1.5

SMALLEST_NOISE, LARGEST_NOISE = 1e-5, 0.3

CLIPPED_AT = 2.5
"""Cells further than so many standard deviations from what the others say are drawn in to there."""

CLIPPING_ROUNDS = 2

FILLING_ROUNDS = 4
"""How often the missing cells of a large incomplete table are filled in anew."""

FIRST_STEPS, LATER_STEPS = 40, 15
"""Steps of the optimiser, at first and after each clipping."""

MOST_SCATTERED_CELLS = 6000
"""With more cells than this, an incomplete table is filled in, because its cells cannot be treated all at once."""

LIKELIHOOD_CELLS = 900
"""Variances of an incomplete table are fitted to about so many of its cells."""

SIGNATURE_SIZE = 10


def typical_pattern(log_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The typical pattern (networks,) of a table's rows and the level (devices,) of each, robustly; NaN cells count nothing."""
    level = np.nanmedian(log_ms, axis=1)
    for _ in range(3):
        pattern = np.nanmedian(log_ms - level[:, None], axis=0)
        level = np.nanmedian(log_ms - pattern, axis=1)
    return np.nanmedian(log_ms - level[:, None], axis=0), level


def fit_cross_device(
    latency_ms: np.ndarray,
    networks: Sequence[Any],
    *,
    fit_networks: NetworkPriorFit | None = None,
    signature: Sequence[int] | None = None,
    seed: int = 0,
) -> CrossDeviceModel:
    """Fits a model.

    Args:
        latency_ms: (devices, networks), NaN where not measured; each device and each network has at least one value.
        networks: The networks as ``fit_networks`` takes them: for the default, the kernels of each.
        fit_networks: How networks are described.
        signature: Indices of the networks by which devices are compared while fitting; 10 random ones where None.
        seed: For the random ones.

    Raises:
        TrainingError: Fewer than three devices or networks, or a row or column without a value.
        MissingExtraError: SciPy is not installed.
    """
    require("learning what devices have in common", "scipy")
    log_ms = np.log(latency_ms)
    if min(log_ms.shape) < 3:
        raise TrainingError(f"{log_ms.shape[0]} devices and {log_ms.shape[1]} networks; a cross-device model needs three of each")
    empty = np.isnan(log_ms)
    if empty.all(axis=0).any() or empty.all(axis=1).any():
        raise TrainingError("a device or a network has no latency at all; leave it out")
    typical, level = typical_pattern(log_ms)
    fit: NetworkPriorFit = fit_networks or LayerShareFit()
    model = fit(networks, typical)
    described = model.describe(networks)
    covariance = model.covariance(described, described)
    values = log_ms - level[:, None] - described.mean
    filled = np.where(empty, typical + level[:, None], log_ms)
    chosen = _signature(signature, empty, seed)
    cells: Cells
    if not empty.any():
        cells = Grid(covariance, values)
    elif (~empty).sum() <= MOST_SCATTERED_CELLS:
        cells = Scattered(covariance, values)
    else:
        cells = Grid(covariance, np.where(empty, 0.0, values))
    start = CrossDeviceModel(
        model, described, covariance, log_ms, filled, cells, typical, level, DeviceScales(),
        np.full(len(log_ms), TYPICAL_NOISE), chosen,
    )  # fmt: skip
    return _fitted(start, empty, seed)


def _signature(given: Sequence[int] | None, empty: np.ndarray, seed: int) -> tuple[int, ...]:
    """The networks by which devices are compared: given ones, or some of those that the most devices ran."""
    if given is not None:
        return tuple(int(index) for index in given)
    missing = empty.sum(axis=0)
    order = np.random.default_rng(seed).permutation(len(missing))
    return tuple(int(index) for index in order[np.argsort(missing[order], kind="stable")][:SIGNATURE_SIZE])


def _fitted(start: CrossDeviceModel, empty: np.ndarray, seed: int) -> CrossDeviceModel:
    """Variances of greatest likelihood; far-off cells drawn in; missing cells of a large table filled in."""
    values = start.log_ms - start.level[:, None] - start.described.mean
    filling = isinstance(start.cells, Grid) and bool(empty.any())
    model = _most_likely(start, FIRST_STEPS, seed)
    for _ in range(FILLING_ROUNDS if filling else CLIPPING_ROUNDS):
        expected = model.known_devices() - start.level[:, None] - start.described.mean
        residual = values - expected
        residual -= np.nanmedian(residual, axis=1, keepdims=True)
        limit = CLIPPED_AT * np.sqrt(model.noise)[:, None]
        drawn_in = expected + np.clip(np.where(empty, 0.0, residual), -limit, limit)
        filled = np.where(empty, expected + start.level[:, None] + start.described.mean, start.log_ms)
        model = replace(model, cells=model.cells.with_values(drawn_in), filled=filled)
        model = _most_likely(model, LATER_STEPS, seed)
    return model


def refitted(model: CrossDeviceModel, signature: Sequence[int] | np.ndarray, *, seed: int = 0) -> CrossDeviceModel:
    """The model with variances for devices that are compared by other networks; a matter of few steps.

    Args:
        model: Fitted to the same devices and networks.
        signature: Indices of the networks by which devices are compared.
        seed: As for the fit.
    """
    return _most_likely(replace(model, signature=tuple(int(index) for index in signature)), LATER_STEPS, seed)


def _most_likely(model: CrossDeviceModel, steps: int, seed: int) -> CrossDeviceModel:
    """The model with variances that make its cells likely, a priori spreads taken into account."""
    from scipy.optimize import minimize

    chosen = list(model.signature)
    log_ms = model.filled[:, chosen]
    space = SignatureSpace.of(log_ms, model.typical[chosen])
    signature = space.signature(log_ms)
    pairs = DevicePairs.of(space, signature, signature)
    centre, count = DeviceScales().logarithms(), len(PRIOR_SPREAD)
    cells = _sample(model.cells, seed)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        scales, noise = DeviceScales.of(parameters[:count]), np.exp(parameters[count:])
        a, b = pairs.covariance(scales, same=True)
        try:
            found = cells.likelihood(a, b, noise)
        except TrainingError:
            return 1e10, np.zeros_like(parameters)
        gradient = np.concatenate([pairs.pulled_back(scales, found.by_a, found.by_b), found.by_noise * noise])
        away = (parameters[:count] - centre) / PRIOR_SPREAD
        away_noise = (parameters[count:] - np.log(TYPICAL_NOISE)) / NOISE_SPREAD
        gradient[:count] += away / PRIOR_SPREAD
        gradient[count:] += away_noise / NOISE_SPREAD
        return found.value + 0.5 * float((away**2).sum() + (away_noise**2).sum()), gradient

    noise_bounds = (float(np.log(SMALLEST_NOISE)), float(np.log(LARGEST_NOISE)))
    found = minimize(
        objective,
        np.concatenate([model.scales.logarithms(), np.log(model.noise)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(value - 5, value + 5) for value in centre] + [noise_bounds] * len(model.noise),
        options={"maxiter": steps, "ftol": 1e-6},
    )
    return replace(model, scales=DeviceScales.of(found.x[:count]), noise=np.exp(found.x[count:]))


def _sample(cells: Cells, seed: int) -> Cells:
    """Some of the cells where there are too many to treat all of them at each step."""
    if not isinstance(cells, Scattered) or len(cells.device) <= LIKELIHOOD_CELLS:
        return cells
    kept = np.random.default_rng(seed).choice(len(cells.device), LIKELIHOOD_CELLS, replace=False)
    values = np.full_like(cells.values, np.nan)
    values[cells.device[kept], cells.network[kept]] = cells.values[cells.device[kept], cells.network[kept]]
    return Scattered(cells.networks, values)
