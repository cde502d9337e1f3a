"""Calibration of the cross-device model's 90 % intervals on known devices that are left out.

The model's deviations assume Gaussian errors and true variances. How far that is off shows when known devices, and some
networks, are predicted as if they were new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latcast.devices.cross_device import CrossDeviceModel
from latcast.devices.cross_device_fit import typical_pattern
from latcast.devices.network_covariance import LayerShareFit, NetworkPriorFit
from latcast.predictors.intervals import LEVEL, conformal_quantile

FOLDS = 4

UNSEEN_SHARE = 0.25
"""Of the networks, how many are left out of each fold."""

FEWEST_DEVICES = 8
"""With fewer known devices nothing is calibrated: the deviations are taken as they are."""

GAUSSIAN_90 = 1.645


@dataclass(frozen=True)
class Calibration:
    """How many of the model's standard deviations a 90 % interval reaches to either side.

    Attributes:
        known: For networks that known devices ran.
        unseen: For other networks.
        predictions: How many left-out cells the figures rest on.
    """

    known: float = GAUSSIAN_90
    unseen: float = GAUSSIAN_90
    predictions: int = 0


def calibrate_deviations(
    model: CrossDeviceModel,
    networks: Sequence[Any],
    *,
    fit_networks: NetworkPriorFit | None = None,
    size: int = 10,
    folds: int = FOLDS,
    seed: int = 0,
) -> Calibration:
    """Leaves out devices, and networks, and takes quantiles of their errors in standard deviations.

    The variances stay those of the whole fit; a handful of numbers cannot have learned the left-out cells by heart.

    Args:
        model: Fitted to devices and networks.
        networks: The networks, as they were given for the fit.
        fit_networks: How they were described.
        size: Measured networks of a device.
        folds: In how many parts the devices are left out.
        seed: For the parts, the left-out networks, and the measured ones.
    """
    devices, count = model.log_ms.shape
    if devices < FEWEST_DEVICES or count < 2 * size:
        return Calibration()
    rng = np.random.default_rng(seed)
    scores: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for part in np.array_split(rng.permutation(devices), min(folds, devices)):
        order = rng.permutation(count)
        unseen, kept = np.sort(order[: int(UNSEEN_SHARE * count)]), np.sort(order[int(UNSEEN_SHARE * count) :])
        fold = _without(model, networks, part, kept, fit_networks)
        measured = _measured(model.log_ms[np.ix_(part, kept)], size, rng)
        if not len(measured):
            continue
        described = fold.networks.describe([networks[index] for index in unseen])
        rows = part[~np.isnan(model.log_ms[np.ix_(part, kept[measured])]).any(axis=1)]
        if not len(rows):
            continue
        predicted, _ = fold.new_devices(measured, np.exp(model.log_ms[np.ix_(rows, kept[measured])]), described)
        actual = model.log_ms[np.ix_(rows, np.concatenate([kept, unseen]))]
        score = np.abs(actual - predicted.mean) / predicted.deviation
        score[:, measured] = np.nan
        scores[0].append(score[:, : len(kept)].ravel())
        scores[1].append(score[:, len(kept) :].ravel())
    found = [_quantile(part) for part in scores]
    return Calibration(found[0][0], found[1][0], found[0][1] + found[1][1])


def _quantile(parts: Sequence[np.ndarray]) -> tuple[float, int]:
    values = np.concatenate(parts) if parts else np.zeros(0)
    values = values[~np.isnan(values)]
    if not len(values):
        return GAUSSIAN_90, 0
    return conformal_quantile(values, LEVEL), len(values)


def _measured(log_ms: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Networks that all of some devices ran, as many as wanted; those that most of them ran where there are too few."""
    order = rng.permutation(log_ms.shape[1])
    missing = np.isnan(log_ms).sum(axis=0)[order]
    return np.sort(order[np.argsort(missing, kind="stable")][:size])


def _without(
    model: CrossDeviceModel, networks: Sequence[Any], part: np.ndarray, kept: np.ndarray, fit_networks: NetworkPriorFit | None
) -> CrossDeviceModel:
    """The model with some devices and networks left out, its variances as they are."""
    rows = np.setdiff1d(np.arange(len(model.log_ms)), part)
    log_ms, filled = model.log_ms[np.ix_(rows, kept)], model.filled[np.ix_(rows, kept)]
    known = [networks[index] for index in kept]
    typical, level = typical_pattern(filled)
    fit: NetworkPriorFit = fit_networks or LayerShareFit()
    described_by = fit(known, typical)
    described = described_by.describe(known)
    covariance = described_by.covariance(described, described)
    drawn_in = model.cells.values[np.ix_(rows, kept)] + model.level[rows, None] + model.described.mean[kept]
    cells = type(model.cells)(covariance, drawn_in - level[:, None] - described.mean)  # type: ignore[call-arg]
    return replace(
        model, networks=described_by, described=described, covariance=covariance, log_ms=log_ms, filled=filled, cells=cells,
        typical=typical, level=level, noise=model.noise[rows], signature=(0,),
    )  # fmt: skip
