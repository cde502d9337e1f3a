"""The predictor of one kernel type."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.kernels import kernel_type
from latcast.kernels.types.kernel_type import FUSED_FIELDS
from latcast.predictors.kernel_predictor import FEW_SAMPLES, MODELS, PHYSICAL, RESIDUAL, KernelPredictor, fit_kernel_predictor
from latcast.predictors.physical import POOLED, PhysicalTerms, fit_from_kernels, term_values
from tests.predictors.made_up_platform import TRUTH

LINEAR = kernel_type("linear")


def linear_kernels(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.choice([1, 16, 64, 197], count)
    unfused = [0 * rows] * len(FUSED_FIELDS)
    return np.stack([rows, rng.integers(16, 2048, count), rng.integers(16, 2048, count), *unfused], axis=1)


def slow_where_unaligned(configurations: np.ndarray) -> np.ndarray:
    """Physics, and half as much again where the outputs are no multiple of 16."""
    aligned = configurations[:, 2] % 16 == 0
    return (term_values(LINEAR, configurations) @ TRUTH) * np.where(aligned, 1.0, 1.5)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns_a_type(model: str) -> None:
    train, test = linear_kernels(400), linear_kernels(100, seed=1)
    physical = fit_from_kernels({"linear": (train, slow_where_unaligned(train))})

    fitted = fit_kernel_predictor("linear", train, slow_where_unaligned(train), physical, model=model)

    error = np.abs(fitted.latency_ms(physical, test) / slow_where_unaligned(test) - 1).mean()
    assert fitted.model == model
    assert fitted.samples == 400
    assert error < 0.35


def test_a_residual_learns_what_physics_alone_cannot() -> None:
    train, test = linear_kernels(600), linear_kernels(200, seed=1)
    physical = fit_from_kernels({"linear": (train, slow_where_unaligned(train))})
    alone, residual = (
        fit_kernel_predictor("linear", train, slow_where_unaligned(train), physical, model=model)
        for model in (PHYSICAL, RESIDUAL)
    )

    errors = [np.abs(p.latency_ms(physical, test) / slow_where_unaligned(test) - 1).mean() for p in (alone, residual)]

    assert errors[1] < 0.6 * errors[0]


def test_a_type_with_few_samples_keeps_its_physical_terms() -> None:
    rows = linear_kernels(FEW_SAMPLES - 1)
    physical = fit_from_kernels({"linear": (rows, slow_where_unaligned(rows))})

    fitted = fit_kernel_predictor("linear", rows, slow_where_unaligned(rows), physical, model="gbdt")

    assert (fitted.model, fitted.regressor) == (PHYSICAL, None)
    assert fitted.latency_ms(physical, rows).tolist() == physical.latency_ms(LINEAR, rows).tolist()


def test_a_kernel_is_outside_where_any_field_is() -> None:
    fitted = KernelPredictor("linear", PHYSICAL, None, np.array([1, 10, 10, 0, 0, 0]), np.array([4, 20, 20, 1, 0, 0]), 9)

    rows = np.array(
        [
            [1, 10, 10, 0, 0, 0],
            [4, 20, 20, 1, 0, 0],
            [5, 15, 15, 0, 0, 0],
            [2, 15, 9, 0, 0, 0],
            [2, 15, 15, 0, 1, 0],
            [2, 15, 15, 0, 0, 1],
        ]
    )

    assert fitted.outside(rows).tolist() == [False, False, True, True, True, True]


def test_physical_terms_that_know_nothing_still_give_a_latency() -> None:
    rows = linear_kernels(5)
    fitted = KernelPredictor("linear", PHYSICAL, None, rows.min(axis=0), rows.max(axis=0), 0)

    assert (fitted.latency_ms(PhysicalTerms({POOLED: np.zeros(4)}), rows) > 0).all()
