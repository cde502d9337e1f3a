"""What is known of any device before anything was measured on it, for learning from few whole networks.

A network's latency is one number for dozens of kernels: what their terms cost each is told apart by prior knowledge. It is
coarse: how many FLOPs go by in the time of moving an element or of starting a kernel, and which classes keep to that.
Only ratios count; the level comes from the measured networks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.kernels.rules import unit_kind
from latcast.predictors.analytical import coarse_class
from latcast.records import Platform

PRIOR_MS: Mapping[str, tuple[float, float, float, float]] = {
    "cpu": (5e-8, 5e-7, 5e-7, 3e-3),
    "cpu int8": (2e-8, 3e-7, 2e-7, 3e-3),
    "gpu": (5e-9, 1e-7, 1e-7, 2e-2),
}
"""Milliseconds a FLOP, an element moved, a weight read, a kernel: a phone's core at 20 GFLOP/s and 8 GB/s, the same with
bytes, a phone's GPU at 200 GFLOP/s and 20 GB/s."""

PRIOR_OVERHEAD_MS: Mapping[str, float] = {"cpu": 0.05, "cpu int8": 0.05, "gpu": 0.5}
"""Milliseconds a network."""

BOUND_BY_MEMORY = frozenset(
    {
        "linear vector", "activation", "add", "broadcast", "batch norm", "pool", "global pool", "reduce", "concat", "split",
        "copy", "channel shuffle", "transpose", "softmax", "layer norm", "resize", "depthwise pointwise",
    }
)  # fmt: skip
"""Classes that read and write at the device's speed and do little else, so that the prior says much of them."""

FREE_CLASSES = frozenset({"conv grouped", "conv grouped split"})
"""Classes that some runtimes run by a generic path, computing tens of times slower than others do."""

COPYING_RUNTIMES = frozenset({"pytorch"})
"""Runtimes whose generic path on CPUs also rearranges its input for every filter tap, one group after another, so that
moving an element, reading a weight and starting a kernel may cost as many times more."""

MEMORY_DEVIATION = 0.4
USUAL_DEVIATION = 2.0
FREE_DEVIATION = 20.0
OVERHEAD_DEVIATION = 2.0
"""Standard deviation of a coefficient, as a part of its prior."""

DEPTHWISE_SLOWDOWN = 3.0
"""A FLOP of a depthwise convolution against one of a dense convolution: its input is used once for each filter tap."""


def device_sort(platform: Platform) -> str:
    """Key of the tables above."""
    if unit_kind(platform.unit) == "gpu":
        return "gpu"
    return "cpu int8" if platform.precision == "int8" else "cpu"


def prior_coefficients(platform: Platform, classes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of classes, and the overhead behind them, before anything was measured.

    Args:
        platform: What kind of device it is.
        classes: Names from :func:`latcast.predictors.analytical.coarse_class`.

    Returns:
        (classes x 4 + 1,) milliseconds, right up to a common factor, and their standard deviations as parts of them.
    """
    sort = device_sort(platform)
    rows, deviations = [], []
    for name in classes:
        row = np.array(PRIOR_MS[sort])
        if name.startswith("depthwise"):
            row[0] *= DEPTHWISE_SLOWDOWN
        rows.append(row)
        deviations += _deviations(name, copies=sort != "gpu" and platform.runtime in COPYING_RUNTIMES)
    prior = np.concatenate([*rows, [PRIOR_OVERHEAD_MS[sort]]])
    return prior, np.array([*deviations, OVERHEAD_DEVIATION])


def _deviations(name: str, *, copies: bool) -> list[float]:
    """Of the coefficients of a class: what a generic path computes is free, and all that it does where it copies."""
    name = coarse_class(name)
    if name in FREE_CLASSES:
        return [FREE_DEVIATION] * 4 if copies else [FREE_DEVIATION, USUAL_DEVIATION, USUAL_DEVIATION, USUAL_DEVIATION]
    return [MEMORY_DEVIATION if name in BOUND_BY_MEMORY else USUAL_DEVIATION] * 4
