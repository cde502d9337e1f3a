"""FLOPs, and FLOPs with memory traffic."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.graph.builder import GraphBuilder
from latcast.kernels import Kernel, find_kernels
from latcast.predictors.baselines import BASELINES, fit_baseline
from tests.predictors.made_up_platform import RULES

SIZES = ((8, 4, 4), (8, 8, 16), (16, 4, 8), (16, 16, 16), (32, 8, 4), (32, 3, 32))
"""Height and width, input channels, output channels of a pointwise convolution."""


def pointwise(size: int, channels: int, filters: int) -> tuple[Kernel, ...]:
    b = GraphBuilder("pointwise")
    return find_kernels(b.finish(b.conv(b.input((1, channels, size, size)), filters, 1, bias=False)), RULES)


NETWORKS = [pointwise(*size) for size in SIZES]
FLOPS = np.array([2 * size * size * channels * filters for size, channels, filters in SIZES], dtype=float)
ACCESSED = np.array([size * size * (channels + filters) + channels * filters for size, channels, filters in SIZES], dtype=float)


def test_flops_recovers_a_throughput_and_an_overhead() -> None:
    fitted = fit_baseline("flops", NETWORKS, 2e-7 * FLOPS + 0.05)

    assert fitted.coefficients == pytest.approx([2e-7, 0.05], rel=1e-3)
    # 2 · 10² · 5 · 7 = 7000 FLOPs.
    assert fitted.latency_ms([pointwise(10, 5, 7)]) == pytest.approx([0.0514], rel=1e-3)


def test_flops_mac_prices_every_element_read_written_and_of_weights_alike() -> None:
    fitted = fit_baseline("flops_mac", NETWORKS, 1e-7 * FLOPS + 3e-6 * ACCESSED + 0.02)

    assert fitted.coefficients == pytest.approx([1e-7, 3e-6, 0.02], rel=0.01)


def test_flops_cannot_see_traffic() -> None:
    latency_ms = 3e-6 * ACCESSED + 0.001

    error = {name: np.abs(fit_baseline(name, NETWORKS, latency_ms).latency_ms(NETWORKS) / latency_ms - 1) for name in BASELINES}

    assert error["flops_mac"].max() < 0.01 < error["flops"].max()
