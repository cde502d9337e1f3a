"""The Gaussian process over devices and networks, on tables whose rule is known."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.cell_likelihood import Grid, Scattered
from latcast.devices.cross_device import CrossDeviceModel, DeviceDistances
from latcast.devices.cross_device_fit import fit_cross_device, typical_pattern
from latcast.devices.network_covariance import FeatureFit
from latcast.errors import TrainingError

DEVICES, NETWORKS = 12, 24

RNG = np.random.default_rng(7)

FEATURES = RNG.normal(0, 1, (NETWORKS + 6, 3))
"""Of the known networks and six others."""

TASTES = RNG.normal(0, 0.25, (DEVICES + 3, 3))

SPEEDS = RNG.normal(0, 0.8, DEVICES + 3)


def true_log_ms(devices: slice | list[int], networks: slice | list[int]) -> np.ndarray:
    """A device's speed, what networks cost, and how well the device likes their features."""
    cost = FEATURES @ np.array([0.8, -0.3, 0.2])
    table: np.ndarray = SPEEDS[:, None] + cost[None] + TASTES @ FEATURES.T
    return table[devices][:, networks]


KNOWN_DEVICES, NEW_DEVICES = slice(0, DEVICES), slice(DEVICES, DEVICES + 3)

KNOWN, OTHERS = slice(0, NETWORKS), slice(NETWORKS, NETWORKS + 6)


def noisy(log_ms: np.ndarray, seed: int = 0) -> np.ndarray:
    latency_ms: np.ndarray = np.exp(log_ms + np.random.default_rng(seed).normal(0, 0.01, log_ms.shape))
    return latency_ms


def fit(latency_ms: np.ndarray, **options: object) -> CrossDeviceModel:
    return fit_cross_device(latency_ms, FEATURES[:NETWORKS].tolist(), fit_networks=FeatureFit(), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model() -> CrossDeviceModel:
    return fit(noisy(true_log_ms(KNOWN_DEVICES, KNOWN)))


def test_a_typical_pattern_is_what_rows_have_in_common_whatever_their_level() -> None:
    pattern, level = typical_pattern(np.array([[0.0, 1.0, 2.0], [5.0, 6.0, 7.0], [1.0, 2.0, 9.0]]))

    assert pattern - pattern[0] == pytest.approx([0.0, 1.0, 2.0])
    assert level - level[0] == pytest.approx([0.0, 5.0, 1.0])


def test_new_devices_are_predicted_from_five_networks(model: CrossDeviceModel) -> None:
    measured = [0, 5, 9, 13, 20]
    actual = true_log_ms(NEW_DEVICES, KNOWN)

    predicted, distances = model.new_devices(measured, noisy(actual[:, measured], 1))

    assert np.abs(predicted.mean - actual).mean() < 0.05
    assert np.abs((predicted.mean - actual) / predicted.deviation).mean() < 2
    assert predicted.latency_ms == pytest.approx(np.exp(predicted.mean))
    assert not distances.unlike.any()


def test_networks_that_no_device_ran_are_predicted_from_their_features(model: CrossDeviceModel) -> None:
    described = model.networks.describe(FEATURES[OTHERS].tolist())
    measured = [0, 5, 9, 13, 20]
    actual = true_log_ms(NEW_DEVICES, slice(0, NETWORKS + 6))

    predicted, _ = model.new_devices(measured, noisy(actual[:, measured], 1), described)

    assert predicted.mean.shape == (3, NETWORKS + 6)
    assert np.abs(predicted.mean - actual)[:, OTHERS].mean() < 0.1
    # Less is known of them than of networks that other devices ran.
    assert predicted.deviation[:, OTHERS].mean() > predicted.deviation[:, KNOWN].mean()


def test_a_network_beside_the_known_ones_may_be_among_the_measured(model: CrossDeviceModel) -> None:
    described = model.networks.describe(FEATURES[OTHERS].tolist())
    actual = true_log_ms(NEW_DEVICES, slice(0, NETWORKS + 6))
    measured = [0, 5, 9, NETWORKS + 2]

    predicted, _ = model.new_devices(measured, np.exp(actual[:, measured]), described)

    assert np.abs(predicted.mean - actual)[:, NETWORKS + 2].max() < 0.05


def test_measuring_more_leaves_less_open(model: CrossDeviceModel) -> None:
    actual = np.exp(true_log_ms(NEW_DEVICES, KNOWN))

    few, many = (model.new_devices(list(range(count)), actual[:, :count])[0] for count in (3, 12))

    assert many.deviation[:, 12:].mean() < few.deviation[:, 12:].mean()


def test_known_devices_are_expected_to_do_what_they_did(model: CrossDeviceModel) -> None:
    assert model.known_devices() == pytest.approx(true_log_ms(KNOWN_DEVICES, KNOWN), abs=0.05)


def test_a_device_that_does_what_a_known_one_did_is_nearest_to_it(model: CrossDeviceModel) -> None:
    measured = list(range(10))

    _, distances = model.new_devices(measured, np.exp(model.filled[[4]][:, measured]))

    assert distances.neighbour.tolist() == [4]
    assert distances.nearest[0] == pytest.approx(0.0, abs=1e-6)


def test_a_device_more_than_twice_as_far_as_usual_is_unlike() -> None:
    found = DeviceDistances(np.array([0.9, 1.1, 0.0]), 0.5, np.array([0, 0, 0]))

    assert found.unlike.tolist() == [False, True, False]
    assert DeviceDistances(np.array([0.19, 0.21]), 0.0, np.array([0, 0])).unlike.tolist() == [False, True]


def test_missing_cells_are_filled_with_what_is_expected() -> None:
    latency_ms = noisy(true_log_ms(KNOWN_DEVICES, KNOWN))
    hidden = np.random.default_rng(3).uniform(size=latency_ms.shape) < 0.25
    model = fit(np.where(hidden, np.nan, latency_ms))

    assert isinstance(model.cells, Scattered)
    assert np.isnan(model.log_ms[hidden]).all()
    assert np.abs(model.known_devices() - true_log_ms(KNOWN_DEVICES, KNOWN))[hidden].mean() < 0.08


def test_a_slip_is_drawn_in() -> None:
    latency_ms = noisy(true_log_ms(KNOWN_DEVICES, KNOWN))
    latency_ms[3, 7] *= 3

    model = fit(latency_ms)

    assert isinstance(model.cells, Grid)
    assert model.known_devices()[3, 7] == pytest.approx(true_log_ms(KNOWN_DEVICES, KNOWN)[3, 7], abs=0.3)


def test_the_same_seed_fits_the_same_model() -> None:
    latency_ms = noisy(true_log_ms(KNOWN_DEVICES, KNOWN))

    first, again = fit(latency_ms, seed=2), fit(latency_ms, seed=2)

    assert first.signature == again.signature
    assert first.scales == again.scales


def test_a_signature_that_is_given_is_the_one_devices_are_compared_by() -> None:
    assert fit(noisy(true_log_ms(KNOWN_DEVICES, KNOWN)), signature=[1, 2, 3]).signature == (1, 2, 3)


def test_nothing_measured_is_refused(model: CrossDeviceModel) -> None:
    with pytest.raises(TrainingError, match="0 measured networks"):
        model.new_devices([], np.zeros((1, 0)))
    with pytest.raises(TrainingError, match=r"2 measured networks with latencies of shape \(1, 3\)"):
        model.new_devices([0, 1], np.ones((1, 3)))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (np.ones((2, 5)), "2 devices and 5 networks; a cross-device model needs three of each"),
        (np.ones((5, 2)), "5 devices and 2 networks"),
        (np.where(np.eye(4)[:, :1] == 1, np.nan, np.ones((4, 4))), "a device or a network has no latency at all"),
    ],
)
def test_a_table_too_small_or_with_an_empty_row_is_refused(table: np.ndarray, reason: str) -> None:
    with pytest.raises(TrainingError, match=reason):
        fit_cross_device(table, FEATURES[: table.shape[1]].tolist(), fit_networks=FeatureFit())
