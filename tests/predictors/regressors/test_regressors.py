"""Duties of the regressor of kernels' factors."""

from __future__ import annotations

import pytest

from latcast.errors import UnknownNameError
from latcast.predictors.regressors import fit_regressor
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
