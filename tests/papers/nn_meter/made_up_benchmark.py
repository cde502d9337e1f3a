"""A store of variants whose latencies are made from coefficients: kernels add up, nothing else takes time but an overhead."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.datasets.store import Store
from latcast.datasets.variants import draw_variants
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import term_values
from latcast.records import ExecutedKernel, Measurement, Platform, Reference
from latcast.spaces import build

PLATFORM = Platform.parse("local/onnxruntime-1.31/cpu1/fp32")
OTHER = Platform.parse("local/openvino-2026.4/cpu1/fp32")

FAMILIES = ("alexnet", "squeezenet", "mobilenet_v1", "nas_bench_201")

TRUTH: Mapping[str, np.ndarray] = {
    PLATFORM.id: np.array([1e-8, 1e-7, 3e-7, 0.005]),
    OTHER.id: np.array([3e-8, 1e-7, 3e-7, 0.002]),
}
"""Milliseconds a FLOP, an element moved, a weight, and a kernel."""

OVERHEAD_MS = 0.05

NOISE = 0.02
"""The second round takes this part longer than the first."""


def true_ms(kernel: Kernel, platform: Platform = PLATFORM) -> float:
    values = term_values(kernel_type(kernel.kernel_type), np.array([kernel.configuration]))
    return float((values @ TRUTH[platform.id])[0])


def measurement(reference: Reference, platform: Platform, moment: int) -> Measurement:
    kernels = [kernel for kernel in find_kernels(build(reference), load_rules(platform.runtime)) if not kernel.free]
    executed = tuple(ExecutedKernel(kernel.name, "made up", kernel.nodes, true_ms(kernel, platform)) for kernel in kernels)
    whole = OVERHEAD_MS + sum(kernel.latency_ms for kernel in executed)
    return Measurement(
        platform.id, reference, runs_ms=(whole * (1 - NOISE / 2), whole * (1 + NOISE / 2)), rounds=(0, 1), latency_ms=whole,
        raw_latency_ms=whole, variation=0.0, taken_at=f"2026-01-01T00:{moment // 60:02d}:{moment % 60:02d}Z", executed=executed,
    )  # fmt: skip


def kernel_measurement(reference: Reference, moment: int) -> Measurement:
    [kernel] = [found for found in find_kernels(build(reference), load_rules(PLATFORM.runtime)) if not found.free]
    took = true_ms(kernel)
    return Measurement(
        PLATFORM.id, reference, role="kernel", runs_ms=(took,), rounds=(0,), latency_ms=took, raw_latency_ms=took, variation=0.0,
        taken_at=f"2026-01-01T01:{moment // 60:02d}:{moment % 60:02d}Z",
    )  # fmt: skip


def made_up_store(platform: Platform = PLATFORM, count: int = 5) -> Store:
    """``count`` variants of each family, one record each, ten seconds apart."""
    store = Store(":memory:")
    variants = draw_variants(count, 0, families=FAMILIES)
    store.add_all(measurement(variant.reference, platform, 10 * index) for index, variant in enumerate(variants))
    return store
