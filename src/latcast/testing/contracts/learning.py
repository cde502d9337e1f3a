"""The contract of regressors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from latcast.errors import BundleError
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
