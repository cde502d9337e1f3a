from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.devices.cross_device import CrossDeviceModel
from latcast.devices.cross_device_fit import fit_cross_device
from latcast.devices.interval_calibration import FEWEST_DEVICES, GAUSSIAN_90, Calibration, calibrate_deviations
from latcast.devices.network_covariance import FeatureFit

NETWORKS, FIT = 30, FeatureFit()
FEATURES = np.random.default_rng(0).normal(size=(NETWORKS, 4)).tolist()


def latencies(devices: int) -> np.ndarray:
    """Devices that differ in speed and in two properties of networks, with 3 % of noise."""
    rng = np.random.default_rng(1)
    log_ms = rng.normal(size=(devices, 1)) + np.array(FEATURES)[:, 0]
    log_ms = log_ms + rng.normal(size=(devices, 2)) @ np.array(FEATURES)[:, 1:3].T * 0.2
    return np.asarray(np.exp(log_ms + 0.03 * rng.normal(size=log_ms.shape)))


@pytest.fixture(scope="module")
def model() -> CrossDeviceModel:
    return fit_cross_device(latencies(16), FEATURES, fit_networks=FIT, signature=range(8))


def test_intervals_of_a_model_that_is_right_reach_about_as_far_as_a_gaussian_s(model: CrossDeviceModel) -> None:
    found = calibrate_deviations(model, FEATURES, fit_networks=FIT, size=8)

    # Each of 16 devices is left out once, with 7 of 30 networks; 8 of the other 23 are measured.
    assert found.predictions == 16 * (7 + 23 - 8)
    assert 1.2 < found.known < 2.2


def test_deviations_that_are_too_small_make_intervals_reach_further(model: CrossDeviceModel) -> None:
    right = calibrate_deviations(model, FEATURES, fit_networks=FIT, size=8)
    # Noise taken for a ninth of what it is, and so for a third of its deviation.
    sure = replace(model, noise=model.noise / 9)

    assert calibrate_deviations(sure, FEATURES, fit_networks=FIT, size=8).known > 1.5 * right.known


def test_the_same_seed_gives_the_same_calibration(model: CrossDeviceModel) -> None:
    first, second = (calibrate_deviations(model, FEATURES, fit_networks=FIT, size=8, seed=3) for _ in range(2))

    assert first == second


def test_few_devices_are_not_calibrated_with() -> None:
    few = fit_cross_device(latencies(FEWEST_DEVICES - 1), FEATURES, fit_networks=FIT, signature=range(8))

    assert calibrate_deviations(few, FEATURES, fit_networks=FIT, size=8) == Calibration(GAUSSIAN_90, GAUSSIAN_90, 0)
