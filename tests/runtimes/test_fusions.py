"""Fusions of each runtime on the contract's networks, and kernels that cover random networks."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import pytest

from latcast.environment import cpu_description
from latcast.records import short_version
from latcast.runtimes import get_runtime
from latcast.runtimes.protocol import Runtime
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.random_networks import random_network
from tests.runtimes.executed import check_cover, executed

WRITTEN_FOR = {"onnxruntime": "1.31", "openvino": "2026.4", "mnn": "3.6"}
"""Versions whose fusions are written down; others may fuse differently."""

FOR_X86 = ("onnxruntime", "openvino")
"""Runtimes whose layouts, and with them most fusions, are others on other processors."""

CONVOLUTIONS = {
    "conv_stack": {"conv_0 batchnormalization_0 relu_0", "conv_1 relu_1", "conv_2 batchnormalization_1"},
    "residual": {
        "conv_0 batchnormalization_0 relu_0",
        "conv_1 batchnormalization_1 relu_1",
        "conv_2 batchnormalization_2 add_0 relu_2",
    },
    "depthwise": {
        "conv_0 batchnormalization_0 clip_0",
        "conv_1 batchnormalization_1 clip_1",
        "conv_2 batchnormalization_2 clip_2",
        "conv_3 batchnormalization_3 add_0",
        "conv_4 batchnormalization_4 clip_3",
        "conv_5 batchnormalization_5 clip_4",
    },
    "concat_pool": {f"conv_{i} batchnormalization_{i} relu_{i}" for i in range(5)},
    "channel_shuffle": {
        "conv_0 batchnormalization_0 relu_0",
        "conv_1 batchnormalization_1 relu_1",
        "conv_2 batchnormalization_2",
        "conv_3 batchnormalization_3 relu_2",
    },
}
"""Network to its fused kernels, where sums are fused as well."""

ONNXRUNTIME = {
    **CONVOLUTIONS,
    "squeeze_excite": {
        "conv_0 batchnormalization_0 hardswish_0",
        "conv_1 relu_0",
        "conv_2 hardsigmoid_0",
        "conv_3 batchnormalization_1",
        "sigmoid_0 mul_1",
        "sigmoid_1 mul_2",
        "conv_5 sigmoid_2",
    },
    "transformer_block": {
        "matmul_0 add_0",
        "mul_0 transpose_1 matmul_1",
        "matmul_3 add_1",
        "matmul_4 add_3",
        "div_0 erf_0 add_4 mul_1 mul_2",
        "matmul_5 add_5",
    },
    "linear_head": {"conv_0 batchnormalization_0 relu_0", "gemm_0 relu_1"},
}

ONNXRUNTIME_INT8 = {
    **{name: ONNXRUNTIME[name] for name in ("conv_stack", "concat_pool", "channel_shuffle", "linear_head")},
    "residual": {
        "conv_0 batchnormalization_0 relu_0",
        "conv_1 batchnormalization_1 relu_1",
        "conv_2 batchnormalization_2",
        "add_0 relu_2",
    },
    "depthwise": ONNXRUNTIME["depthwise"] - {"conv_3 batchnormalization_3 add_0"} | {"conv_3 batchnormalization_3"},
    "squeeze_excite": {"conv_0 batchnormalization_0", "conv_1 relu_0", "conv_3 batchnormalization_1"},
    "transformer_block": set(),
}

ATTENTION = {
    "matmul_0 add_0",
    "transpose_1 matmul_1 softmax_0 matmul_2 transpose_2",
    "matmul_3 add_1",
    "matmul_4 add_3 div_0 erf_0 add_4 mul_1 mul_2",
    "matmul_5 add_5",
}

OPENVINO = {
    **CONVOLUTIONS,
    "squeeze_excite": {
        "conv_0 batchnormalization_0 hardswish_0",
        "conv_1 relu_0",
        "conv_3 batchnormalization_1 sigmoid_0 mul_1",
        "conv_4 sigmoid_1 mul_2",
        "conv_5 sigmoid_2",
    },
    "linear_head": {"conv_0 batchnormalization_0 relu_0", "gemm_0 relu_1 gemm_1 softmax_0"},
}

# Without AVX-512 its integer layers take less behind them.
OPENVINO_INT8 = OPENVINO | (
    {} if "avx512" in cpu_description()["flags"] else {"linear_head": {"conv_0 batchnormalization_0 relu_0", "gemm_0 relu_1"}}
)

MNN = {
    **{name: CONVOLUTIONS[name] for name in ("conv_stack", "concat_pool")},
    **{name: ONNXRUNTIME_INT8[name] for name in ("residual", "depthwise", "linear_head")},
    "squeeze_excite": ONNXRUNTIME_INT8["squeeze_excite"] | {"sigmoid_0 mul_1", "sigmoid_1 mul_2"},
    "channel_shuffle": {
        "conv_0 batchnormalization_0 relu_0",
        "split_0 conv_1 batchnormalization_1 relu_1",
        "conv_2 batchnormalization_2",
        "conv_3 batchnormalization_3 relu_2",
    },
    "transformer_block": {
        "matmul_0 add_0",
        "matmul_3 add_1",
        "matmul_4 add_3",
        "div_0 erf_0 add_4 mul_1 mul_2",
        "matmul_5 add_5",
    },
}

FUSED: Mapping[tuple[str, str], Mapping[str, set[str]]] = {
    ("onnxruntime", "fp32"): ONNXRUNTIME,
    ("onnxruntime", "int8"): ONNXRUNTIME_INT8,
    ("openvino", "fp32"): OPENVINO | {"transformer_block": ATTENTION},
    ("openvino", "int8"): OPENVINO_INT8,
    ("mnn", "fp32"): MNN,
}
"""Runtime and precision to the fused kernels of each network, the nodes of one as a text."""


def here(name: str) -> Runtime:
    runtime = get_runtime(name)
    if (reason := runtime.available()) is not None:
        pytest.skip(reason)
    return runtime


@pytest.mark.parametrize(
    ("name", "precision", "network"), [(*of, network) for of, networks in FUSED.items() for network in sorted(networks)]
)
def test_it_fuses_as_written_down(name: str, precision: str, network: str) -> None:
    runtime = here(name)
    if short_version(runtime.version()) != WRITTEN_FOR[name] or (
        name in FOR_X86 and platform.machine() not in ("x86_64", "AMD64")
    ):
        pytest.skip(f"the fusions are written down for {name} {WRITTEN_FOR[name]}")

    kernels = executed(runtime, CONTRACT_NETWORKS[network](), precision)

    assert {" ".join(kernel.nodes) for kernel in kernels if len(kernel.nodes) > 1} == FUSED[name, precision][network]


@pytest.mark.parametrize(
    ("name", "precision", "seeds"),
    [
        ("openvino", "fp32", (0, 1, 2)),
        ("openvino", "int8", (0, 5)),
        ("mnn", "fp32", (0, 1, 2, 3)),
    ],
)
def test_random_networks_are_covered_by_their_kernels(name: str, precision: str, seeds: tuple[int, ...]) -> None:
    runtime = here(name)
    for seed in seeds:
        graph = random_network(seed)
        check_cover(graph, executed(runtime, graph, precision))
