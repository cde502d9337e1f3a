"""A small platform predictor whose truth is known: latencies are made from coefficients, not measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.graph.ir import Graph
from latcast.kernels import FusionRules, KernelTable, find_kernels, kernel_type
from latcast.predictors.analytical import fit_from_kernels, term_values
from latcast.predictors.calibration_terms import CalibrationTerms, ShortNetworkCorrection
from latcast.predictors.intervals import Interval
from latcast.predictors.kernel_predictor import fit_kernel_predictor
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.spaces.catalogue import SPACES, build

_ACTIVATIONS = frozenset({"batch_normalization", "relu", "relu6", "hard_swish", "sigmoid", "add"})
RULES = FusionRules(
    "made up",
    pairs={"conv": _ACTIVATIONS, "depthwise_conv": _ACTIVATIONS, "linear": frozenset({"bias_add", "relu"})},
    patterns=("gelu",),
    free=frozenset({"reshape", "flatten"}),
)
TRUTH = np.array([1e-8, 1e-7, 3e-7, 0.005])
"""Milliseconds a FLOP, an element moved, a weight, and a kernel: 100 GFLOP/s, 10 and 3 G elements/s, 5 µs."""

CARD = {
    "trained_on": "made-up latencies",
    "learn_from": "operators",
    "model": "analytical_gbdt",
    "measurements": 1200,
    "seconds": 60.5,
    "held_out_by": "family",
    "networks": 32,
    "mape": 4.25,
    "within_5": 70.0,
    "within_10": 93.75,
    "rmse_ms": 0.5,
    "rmspe": 5.5,
    "spearman": 0.99,
    "interval_coverage": 90.6,
    "label_error": 2.1,
    "licence": "CC0-1.0",
    "environment": {"host": {"cpu": {"model": "an imagined CPU"}}, "software": {"onnxruntime": "1.31.1"}},
}


def graphs_of(spaces: Mapping[str, int], seed: int) -> list[Graph]:
    """So many random members of each space."""
    return [build(reference) for space, count in spaces.items() for reference in SPACES.get(space).sample(count, seed)]


def made_up_samples(graphs: list[Graph]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The kernels of networks and what they would take: :data:`TRUTH`, bent by up to a fifth by their configuration."""
    table = KernelTable.of([find_kernels(graph, RULES) for graph in graphs])
    samples = {}
    for name, rows in table.configurations.items():
        bend = np.exp(0.2 * np.sin(np.log1p(rows).sum(axis=1)))
        samples[name] = (rows, term_values(kernel_type(name), rows) @ TRUTH * bend)
    return samples


def make_predictor(model: str, samples: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> PlatformPredictor:
    analytical = fit_from_kernels(samples)
    return PlatformPredictor(
        Platform.parse("local/onnxruntime-1.31/cpu1/fp32"),
        RULES,
        analytical,
        {name: fit_kernel_predictor(name, rows, ms, analytical, model=model) for name, (rows, ms) in samples.items()},
        CalibrationTerms(0.2, 0.001, {"conv": 1.1}, ShortNetworkCorrection((2.0, 8.0), (0.02, 0.04), 0.5)),
        Interval(0.9, 1.12, 40, 1.0),
        CARD,
    )
