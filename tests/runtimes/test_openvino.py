"""OpenVINO: the contract, and what it is known to fuse."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from latcast.environment import cpu_description
from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Node, Tensor
from latcast.records import ExecutedKernel, short_version
from latcast.runtimes.openvino import OpenVino
from latcast.runtimes.protocol import Session
from latcast.testing.contracts.runtimes import RuntimeContract, contract_inputs, loaded, reference_outputs, relative_error
from latcast.testing.networks import CONTRACT_NETWORKS, random_network
from tests.runtimes.fusions import CONVOLUTIONS, check_cover, fused


class TestOpenVino(RuntimeContract):
    runtime_name = "openvino"

    def threads_of(self, session: Session) -> int | None:
        return session.threads  # type: ignore[attr-defined]


class TestOpenVinoOnAGpu(RuntimeContract):
    """By the plugin for Intel's GPUs; skipped where there is none."""

    runtime_name = "openvino"
    unit = "gpu"
    tolerance = 1e-3


needs_openvino = pytest.mark.skipif(OpenVino().available() is not None, reason=OpenVino().available() or "openvino is installed")

known_fusions = pytest.mark.skipif(
    OpenVino().available() is not None
    or platform.machine() not in ("x86_64", "AMD64")
    or short_version(OpenVino().version()) != "2026.4",
    reason="the fusions are written down for openvino 2026.4 on x86-64",
)


def executed(graph: Graph, precision: str = "fp32") -> tuple[ExecutedKernel, ...]:
    with loaded(OpenVino(), graph, precision=precision, profile=True) as session:
        return session.executed_kernels(runs=2)


FUSED = {
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
LINEAR_HEAD_WITHOUT_AVX512_IN_INT8 = {"conv_0 batchnormalization_0 relu_0", "gemm_0 relu_1"}


@known_fusions
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("network", sorted(FUSED))
def test_convolutions_fuse_equally_in_fp32_and_int8(network: str, precision: str) -> None:
    expected = FUSED[network]
    if (network, precision) == ("linear_head", "int8") and "avx512" not in cpu_description()["flags"]:
        expected = LINEAR_HEAD_WITHOUT_AVX512_IN_INT8
    assert fused(executed(CONTRACT_NETWORKS[network](), precision)) == expected


@known_fusions
def test_attention_is_one_kernel_and_a_linear_layer_fuses_its_gelu() -> None:
    assert fused(executed(CONTRACT_NETWORKS["transformer_block"]())) == {
        "matmul_0 add_0",
        "transpose_1 matmul_1 softmax_0 matmul_2 transpose_2",
        "matmul_3 add_1",
        "matmul_4 add_3 div_0 erf_0 add_4 mul_1 mul_2",
        "matmul_5 add_5",
    }


@known_fusions
def test_the_scaling_of_attention_is_found_though_openvino_moved_and_renamed_it() -> None:
    kernels = executed(CONTRACT_NETWORKS["transformer_block"]())
    assert [kernel.kind.split()[0] for kernel in kernels if kernel.nodes == ("mul_0",)] == ["Subgraph"]


@known_fusions
def test_a_channel_shuffle_is_one_kernel() -> None:
    kernels = executed(CONTRACT_NETWORKS["channel_shuffle"]())
    assert [kernel.nodes for kernel in kernels if kernel.kind.startswith("ShuffleChannels")] == [("transpose_0",)]


@needs_openvino
def test_layout_changes_have_no_nodes() -> None:
    b = GraphBuilder("large")
    kernels = executed(b.finish(b.conv(b.input((1, 64, 112, 112)), 64, 3)))
    assert [kernel.nodes for kernel in kernels if kernel.kind.startswith("Convolution")] == [("conv_0",)]
    assert all(kernel.nodes == () for kernel in kernels if kernel.kind.startswith("Reorder"))


@needs_openvino
def test_nodes_of_weights_alone_are_not_kernels() -> None:
    names = [kernel.name for kernel in executed(CONTRACT_NETWORKS["transformer_block"]())]
    assert not [name for name in names if name.endswith("/transpose_b")]


@needs_openvino
@pytest.mark.parametrize(("seed", "precision"), [(seed, "fp32") for seed in range(3)] + [(seed, "int8") for seed in (0, 5)])
def test_random_networks_are_covered_by_their_kernels(seed: int, precision: str) -> None:
    graph = random_network(seed)
    check_cover(graph, executed(graph, precision))


@needs_openvino
def test_fp32_is_computed_in_fp32_and_bf16_in_bf16() -> None:
    runtime = OpenVino()
    if "bf16" not in runtime.precisions:
        pytest.skip("this CPU has no bfloat16")
    graph = CONTRACT_NETWORKS["conv_stack"]()
    errors = {}
    for precision in ("fp32", "bf16"):
        with loaded(runtime, graph, precision=precision) as session:
            session.set_inputs(contract_inputs(graph))
            session.run()
            errors[precision] = relative_error(session.outputs()[0], reference_outputs("conv_stack")[0])
    assert errors["fp32"] < 1e-5
    assert 1e-4 < errors["bf16"] < 0.05


@needs_openvino
def test_profiling_again_gives_kernels_again() -> None:
    b = GraphBuilder("twice")
    graph = b.finish(b.conv(b.input((1, 32, 56, 56)), 32, 3))
    with loaded(OpenVino(), graph, profile=True) as session:
        first, second = session.executed_kernels(runs=3), session.executed_kernels(runs=5)
    assert [kernel.nodes for kernel in first if kernel.nodes] == [kernel.nodes for kernel in second if kernel.nodes]
    assert all(np.isfinite(kernel.latency_ms) for kernel in second)
    assert max(kernel.latency_ms for kernel in second) > 0


@needs_openvino
def test_an_operator_that_openvino_lacks_is_named() -> None:
    graph = Graph(
        "unheard_of",
        (Node("Unheard", "odd", ("x",), ("y",), domain="com.microsoft"),),
        ("x",),
        ("y",),
        {"x": Tensor((1, 4)), "y": Tensor((1, 4))},
    )
    with pytest.raises(UnsupportedOperatorError, match=r"'odd' \(Unheard\)"):
        OpenVino().load(graph)


@needs_openvino
def test_a_precision_that_exists_but_not_here_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="fp16"):
        OpenVino().load(CONTRACT_NETWORKS["conv_stack"](), precision="fp16")
