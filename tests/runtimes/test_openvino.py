"""OpenVINO: the contract, and what it is known to fuse."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.records import short_version
from latcast.runtimes.openvino import OpenVino
from latcast.runtimes.protocol import Session
from latcast.testing.contracts.runtimes import RuntimeContract, contract_inputs, loaded, reference_outputs, relative_error
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.runtimes.executed import executed, strange_operator


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


@known_fusions
def test_the_scaling_of_attention_is_found_though_openvino_moved_and_renamed_it() -> None:
    kernels = executed(OpenVino(), CONTRACT_NETWORKS["transformer_block"]())
    assert [kernel.kind.split()[0] for kernel in kernels if kernel.nodes == ("mul_0",)] == ["Subgraph"]


@known_fusions
def test_a_channel_shuffle_is_one_kernel() -> None:
    kernels = executed(OpenVino(), CONTRACT_NETWORKS["channel_shuffle"]())
    assert [kernel.nodes for kernel in kernels if kernel.kind.startswith("ShuffleChannels")] == [("transpose_0",)]


@needs_openvino
def test_layout_changes_have_no_nodes() -> None:
    b = GraphBuilder("large")
    kernels = executed(OpenVino(), b.finish(b.conv(b.input((1, 64, 112, 112)), 64, 3)))
    assert [kernel.nodes for kernel in kernels if kernel.kind.startswith("Convolution")] == [("conv_0",)]
    assert all(kernel.nodes == () for kernel in kernels if kernel.kind.startswith("Reorder"))


@needs_openvino
def test_nodes_of_weights_alone_are_not_kernels() -> None:
    names = [kernel.name for kernel in executed(OpenVino(), CONTRACT_NETWORKS["transformer_block"]())]
    assert not [name for name in names if name.endswith("/transpose_b")]


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
    with pytest.raises(UnsupportedOperatorError, match=r"'odd' \(Unheard\)"):
        OpenVino().load(strange_operator())


@needs_openvino
def test_a_precision_that_exists_but_not_here_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="fp16"):
        OpenVino().load(CONTRACT_NETWORKS["conv_stack"](), precision="fp16")
