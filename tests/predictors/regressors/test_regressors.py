"""Duties of the regressor of kernels' factors, and how settings are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import UnknownNameError
from latcast.predictors.regressors import choose_setting, fit_regressor, folds, squared_percentage_error
from latcast.predictors.regressors.trees import train_trees
from latcast.testing.contracts import RegressorContract
from tests.known_function import TRAIN


class TestLogResidual(RegressorContract):
    regressor_name = "log_residual"


def test_an_unknown_regressor_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no regressor is called 'log_residuals'; known: "):
        fit_regressor("log_residuals", *TRAIN)


def test_training_takes_one_thread_and_one_seed() -> None:
    first, second, other = (
        train_trees(*TRAIN, {"num_leaves": 7, "bagging_freq": 1, "bagging_fraction": 0.5}, 5, seed=seed) for seed in (1, 1, 2)
    )

    assert first.value.tolist() == second.value.tolist()
    assert first.value.tolist() != other.value.tolist()


class TestCrossValidation:
    def test_folds_are_balanced_and_of_the_seed(self) -> None:
        fold = folds(23, 5, seed=1)

        assert sorted(np.bincount(fold).tolist()) == [4, 4, 5, 5, 5]
        assert folds(23, 5, seed=1).tolist() == fold.tolist()
        assert folds(23, 5, seed=2).tolist() != fold.tolist()

    def test_the_error_is_relative_to_the_truth(self) -> None:
        # 10 % too much and 20 % too little.
        assert squared_percentage_error(np.array([1.1, 8.0]), np.array([1.0, 10.0])) == pytest.approx(0.025)

    def test_the_setting_that_does_best_on_left_out_samples_is_chosen(self) -> None:
        def fit(power: int, x: np.ndarray, y: np.ndarray):  # type: ignore[no-untyped-def]
            slope = (y / x[:, 0] ** power).mean()
            return lambda features: slope * features[:, 0] ** power

        x = np.linspace(1, 5, 40)[:, None]

        assert choose_setting((1, 2, 3), fit, x, 7 * x[:, 0] ** 2, seed=0) == 2

    def test_with_few_samples_the_first_setting_is_taken(self) -> None:
        def fit(setting: str, x: np.ndarray, y: np.ndarray):  # type: ignore[no-untyped-def]
            raise AssertionError("nothing should be trained")

        assert choose_setting(("first", "second"), fit, np.ones((10, 1)), np.ones(10), seed=0) == "first"
