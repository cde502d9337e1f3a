"""The contracts of regressors and of the selections of signature networks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from latcast.devices.signature_selection import SELECTIONS, SignatureSelection
from latcast.errors import BundleError, TrainingError
from latcast.predictors.regressors import REGRESSORS, Regressor, fit_regressor, regressor_from_arrays


def made_up_kernels(count: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return (kernels, 4) features and (kernels,) milliseconds: an overhead, work and memory, and noise of 2 %."""
    rng = np.random.default_rng(seed)
    features = np.exp(rng.uniform(0, 6, (count, 4)))
    latency_ms = (0.01 + features @ np.array([1e-3, 2e-3, 0.0, 5e-4])) * np.exp(rng.normal(0, 0.02, count))
    return features, latency_ms


class RegressorContract:
    """The tests of a regressor."""

    regressor_name: ClassVar[str]
    """Name in :data:`latcast.predictors.regressors.REGRESSORS`."""

    most_error: ClassVar[float] = 0.5
    """Largest median relative error on kernels that it was not trained on."""

    @pytest.fixture
    def fitted(self) -> Regressor:
        return fit_regressor(self.regressor_name, *made_up_kernels())

    def test_it_has_the_name_under_which_it_is_found(self) -> None:
        assert REGRESSORS.get(self.regressor_name).kind == self.regressor_name

    def test_it_predicts_kernels_outside_its_training(self, fitted: Regressor) -> None:
        features, latency_ms = made_up_kernels(seed=1)

        predicted = fitted.predict(features)

        assert predicted.shape == latency_ms.shape
        assert np.isfinite(predicted).all()
        assert (predicted > 0).all()
        assert np.median(np.abs(predicted / latency_ms - 1)) <= self.most_error

    def test_far_from_its_training_it_is_positive_and_finite(self, fitted: Regressor) -> None:
        features, _ = made_up_kernels()

        predicted = fitted.predict(np.concatenate([0 * features, 1e6 * features]))

        assert np.isfinite(predicted).all()
        assert (predicted > 0).all()

    def test_a_kernel_alone_is_predicted_as_among_others(self, fitted: Regressor) -> None:
        features, _ = made_up_kernels(20, seed=1)

        assert np.concatenate([fitted.predict(row[None]) for row in features]) == pytest.approx(fitted.predict(features))

    def test_the_same_seed_gives_the_same_twice(self, fitted: Regressor) -> None:
        features, latency_ms = made_up_kernels()
        again = fit_regressor(self.regressor_name, features, latency_ms)

        assert np.array_equal(again.predict(features), fitted.predict(features))

    def test_training_leaves_its_data_as_they_are(self) -> None:
        given = made_up_kernels()

        fit_regressor(self.regressor_name, *given)

        assert all(np.array_equal(a, b) for a, b in zip(given, made_up_kernels(), strict=True))

    def test_its_arrays_are_all_that_a_bundle_needs(self, fitted: Regressor) -> None:
        features, _ = made_up_kernels(seed=1)
        arrays = {name: np.array(values) for name, values in fitted.arrays().items()}
        assert {values.dtype.kind for values in arrays.values()} <= set("biuf")

        again = regressor_from_arrays(self.regressor_name, arrays)

        assert np.array_equal(again.predict(features), fitted.predict(features))

    def test_a_missing_array_is_a_damaged_bundle(self, fitted: Regressor) -> None:
        missing, *rest = fitted.arrays()

        with pytest.raises(BundleError, match=f"a '{self.regressor_name}' regressor lacks its array '{missing}'"):
            regressor_from_arrays(self.regressor_name, {name: fitted.arrays()[name] for name in rest})


def made_up_latencies(devices: int = 12, networks: int = 9, seed: int = 0) -> np.ndarray:
    """Return (devices, networks) milliseconds: speeds of devices times sizes of networks, with individual deviations."""
    rng = np.random.default_rng(seed)
    speed, size = rng.normal(0, 0.7, devices), rng.normal(2, 1, networks)
    taste = rng.normal(0, 0.3, (devices, 2)) @ rng.normal(0, 1, (2, networks))
    latency_ms: np.ndarray = np.exp(speed[:, None] + size + taste + rng.normal(0, 0.05, (devices, networks)))
    return latency_ms


class SelectionContract:
    """The tests of a selection of signature networks."""

    selection_name: ClassVar[str]
    nested: ClassVar[bool] = True
    """Whether the head of a longer signature is the shorter one."""

    @pytest.fixture
    def select(self) -> SignatureSelection:
        return SELECTIONS.get(self.selection_name)

    @pytest.mark.parametrize("size", [1, 2, 5, 9])
    def test_as_many_different_networks_as_asked_for(self, select: SignatureSelection, size: int) -> None:
        chosen = select(made_up_latencies(), size)

        assert len(chosen) == len(set(chosen)) == size
        assert all(type(index) is int and 0 <= index < 9 for index in chosen)

    @pytest.mark.parametrize("seed", [0, 1, 7])
    def test_the_same_seed_chooses_the_same_networks(self, select: SignatureSelection, seed: int) -> None:
        table = made_up_latencies()

        assert select(table, 4, seed) == select(table.copy(), 4, seed)

    def test_a_longer_signature_begins_with_the_shorter_one(self, select: SignatureSelection) -> None:
        if not self.nested:
            pytest.skip("this selection chooses each size on its own")
        table = made_up_latencies()

        assert select(table, 6)[:3] == select(table, 3)

    def test_the_unit_of_time_does_not_matter(self, select: SignatureSelection) -> None:
        table = made_up_latencies()

        assert select(1024 * table, 5) == select(table, 5)

    def test_the_table_is_left_as_it_is(self, select: SignatureSelection) -> None:
        table = made_up_latencies()
        before = table.copy()

        select(table, 5)

        assert np.array_equal(table, before)

    @pytest.mark.parametrize("devices", [1, 2])
    def test_a_device_or_two_are_enough(self, select: SignatureSelection, devices: int) -> None:
        assert len(set(select(made_up_latencies(devices), 4))) == 4

    def test_equal_networks_can_all_be_chosen(self, select: SignatureSelection) -> None:
        table = np.repeat(made_up_latencies()[:, :1], 6, axis=1)

        assert sorted(select(table, 6)) == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("size", [0, -1, 10])
    def test_a_size_that_cannot_be_had_is_refused(self, select: SignatureSelection, size: int) -> None:
        with pytest.raises(TrainingError, match=rf"a signature of {size} networks was asked for; expected 1 to 9"):
            select(made_up_latencies(), size)

    def test_a_table_with_missing_cells_is_refused(self, select: SignatureSelection) -> None:
        table = made_up_latencies()
        table[2, 3] = np.nan

        with pytest.raises(TrainingError, match="complete table"):
            select(table, 3)
