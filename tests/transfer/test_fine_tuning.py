"""Perceptrons from one platform to another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.errors import TrainingError
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.physical import fit_from_kernels
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.regressors import kernel_mlp
from latcast.records import Platform
from latcast.transfer.fine_tuning import fine_tune, fit_perceptron
from tests.transfer.made_up_pool import COMPUTE, RULES, convs, law_ms, platform_of


def test_trees_cannot_be_trained_on() -> None:
    trees = platform_of("phone", COMPUTE, count=40).kernels["conv"]

    with pytest.raises(TrainingError, match="'physical_residual' predictor of conv cannot be fine-tuned"):
        fine_tune(trees, convs(5), np.ones(5))


def test_a_perceptron_is_fine_tuned_and_kept_in_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the perceptron is trained with torch")
    monkeypatch.setattr(kernel_mlp, "MOST_STEPS", 40)
    rows = convs(40)
    first = fit_perceptron("conv", rows, law_ms(rows, COMPUTE))

    tuned = fine_tune(first, rows[:10], 3 * law_ms(rows[:10], COMPUTE))
    predictor = PlatformPredictor(
        Platform.parse("new/onnxruntime-1.31/cpu1/fp32"), RULES,
        fit_from_kernels({"conv": (rows, law_ms(rows, COMPUTE))}), {"conv": tuned},
    )  # fmt: skip
    loaded = load_bundle(save_bundle(predictor, tmp_path / "bundle.zip"))

    assert (tuned.model, tuned.samples) == ("kernel_mlp", 10)
    np.testing.assert_allclose(
        loaded.raw_kernel_latency_ms({"conv": rows}), predictor.raw_kernel_latency_ms({"conv": rows}), rtol=1e-9
    )
