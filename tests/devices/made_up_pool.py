"""Platforms that are scaled and bent variants of one law, so that it is known which are alike."""

from __future__ import annotations

import numpy as np

from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import load_rules
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import fit_from_kernels, term_values
from latcast.predictors.kernel_predictor import fit_kernel_predictor
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.spaces.kernel_space import KernelSpace

RULES = load_rules("onnxruntime")
SPACE = KernelSpace("conv", RULES)

COMPUTE = np.array([1e-8, 1e-7, 3e-7, 0.005])
"""Milliseconds a FLOP, an element moved, a weight, and a kernel."""

MEMORY = np.array([1e-10, 4e-6, 3e-7, 0.005])
"""A device that waits for memory."""


def conv(size: int, ins: int, outs: int, kernel: int = 3) -> Configuration:
    """A square convolution of stride 1 with "same" padding and a ReLU."""
    return (1, ins, size, size, outs, size, size, kernel, kernel, 1, 1, 1, 1, 1, int(kernel > 1), 1, 0, 0)


def convs(count: int, seed: int = 0) -> np.ndarray:
    """Random convolutions, (count, fields)."""
    rng = np.random.default_rng(seed)
    rows = {
        conv(int(rng.choice([7, 14, 28, 56])), *(rng.integers(2, 40, 2) * 8).tolist(), int(rng.choice([1, 3])))
        for _ in range(4 * count)
    }
    return np.array(sorted(rows))[rng.permutation(len(rows))[:count]]


def staircase(rows: np.ndarray, step: int) -> np.ndarray:
    """Part by which output channels are rounded up to whole blocks."""
    outs = rows[:, kernel_type("conv").fields.index("out_channels")]
    return np.ceil(outs / step) * step / outs


def law_ms(rows: np.ndarray, coefficients: np.ndarray, step: int = 32) -> np.ndarray:
    """What convolutions take by analytical coefficients and a staircase."""
    return term_values(kernel_type("conv"), rows) @ coefficients * staircase(rows, step)


def platform_of(name: str, coefficients: np.ndarray, step: int = 32, count: int = 400) -> PlatformPredictor:
    """A predictor that learned a law well."""
    rows = convs(count, seed=7)
    samples = {"conv": (rows, law_ms(rows, coefficients, step))}
    analytical = fit_from_kernels(samples)
    predictor = fit_kernel_predictor("conv", *samples["conv"], analytical)
    return PlatformPredictor(Platform.parse(f"{name}/onnxruntime-1.31/cpu1/fp32"), RULES, analytical, {"conv": predictor})
