"""The mean of two predictors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.kernels import find_kernels, load_rules
from latcast.predictors.analytical import POOLED, AnalyticalTerms
from latcast.predictors.averaged import averaged
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.calibration_terms import CalibrationTerms
from latcast.predictors.kernel_predictor import ANALYTICAL, KernelPredictor
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.spaces import build
from latcast.spaces.catalogue import model

PLATFORM = Platform.parse("pixel4/tflite-2.10/gpu/fp16")
RULES = load_rules("none")
KERNELS = find_kernels(build(model("resnet18")), RULES)


def predictor(flop_ms: float, network: CalibrationTerms, types: tuple[str, ...]) -> PlatformPredictor:
    """Every FLOP and every kernel at one price, for some kernel types."""
    widths = {kernel.kernel_type: len(kernel.configuration) for kernel in KERNELS}
    known = {
        name: KernelPredictor(name, ANALYTICAL, None, np.ones(widths[name], int), np.full(widths[name], 9), 5) for name in types
    }
    return PlatformPredictor(PLATFORM, RULES, AnalyticalTerms({POOLED: np.array([flop_ms, 0.0, 0.0, 0.01])}), known, network)


FIRST = predictor(1e-9, CalibrationTerms(1.0, 0.02, {"conv": 3.0}), ("conv", "linear", "arithmetic"))
SECOND = predictor(4e-9, CalibrationTerms(2.0, 0.0, {}), ("conv", "linear"))


def test_a_network_costs_the_mean_of_what_both_say() -> None:
    prices = [found.estimate([KERNELS]).latency_ms[0] for found in (FIRST, SECOND, averaged(FIRST, SECOND))]

    assert prices[2] == pytest.approx((prices[0] + prices[1]) / 2)


def test_a_convolution_costs_the_mean_of_what_it_costs_in_a_network() -> None:
    convolution = next(kernel for kernel in KERNELS if kernel.kernel_type == "conv")

    costs = [found.estimate([[convolution]]).kernel_ms[0] for found in (FIRST, SECOND, averaged(FIRST, SECOND))]

    # 7x7 over 3 channels to 64 of 112x112: 236 million FLOPs. Weight 3 and 20 µs a kernel on the first, neither on the second.
    assert costs[0] == pytest.approx(3 * (0.236 + 0.01) + 0.02, rel=2e-3)
    assert costs[1] == pytest.approx(4 * 0.236 + 0.01, rel=2e-3)
    assert costs[2] == pytest.approx((costs[0] + costs[1]) / 2)


def test_it_survives_a_bundle(tmp_path: Path) -> None:
    mean = averaged(FIRST, SECOND)

    again = load_bundle(save_bundle(mean, tmp_path / "mean.zip"))

    assert again.estimate([KERNELS]).latency_ms == pytest.approx(mean.estimate([KERNELS]).latency_ms)
    assert again.kernels["arithmetic"].samples == 5
