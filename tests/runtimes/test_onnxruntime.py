"""ONNX Runtime: the contract, and what it is known to fuse."""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Node, Tensor
from latcast.graph.writers.onnx import to_onnx
from latcast.kernels.types import kernel_graph
from latcast.records import short_version
from latcast.runtimes.onnxruntime import OnnxRuntime
from latcast.runtimes.protocol import Session
from latcast.testing.contracts.runtimes import RuntimeContract, contract_inputs, loaded, relative_error
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.random_networks import random_network
from tests.runtimes.executed import check_cover, executed, strange_operator


class TestOnnxRuntime(RuntimeContract):
    runtime_name = "onnxruntime"

    def threads_of(self, session: Session) -> int | None:
        return session._session.get_session_options().intra_op_num_threads  # type: ignore[attr-defined]


class TestOnnxRuntimeOnCuda(RuntimeContract):
    """By CUDA; skipped where there is no card."""

    runtime_name = "onnxruntime"
    unit = "gpu"
    tolerance = 1e-3


@pytest.mark.parametrize("network", sorted(CONTRACT_NETWORKS))
def test_the_reference_of_the_contract_equals_onnx_itself(network: str) -> None:
    from onnx.reference import ReferenceEvaluator

    graph = CONTRACT_NETWORKS[network]()
    inputs = contract_inputs(graph)
    expected = ReferenceEvaluator(to_onnx(graph)).run(None, dict(zip(graph.inputs, inputs, strict=True)))
    with loaded(OnnxRuntime(), graph) as session:
        session.set_inputs(inputs)
        session.run()
        outputs = session.outputs()
    assert all(relative_error(*pair) < 1e-4 for pair in zip(outputs, expected, strict=True))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the threads of a process are listed by Linux")
def test_the_threads_that_were_timed_are_gone_before_kernels_are(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    threads = []

    class Counted(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(self, *arguments: object, **named: object) -> None:
            threads.append(len(list(Path("/proc/self/task").iterdir())))
            super().__init__(*arguments, **named)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Counted)
    with loaded(OnnxRuntime(), CONTRACT_NETWORKS["residual"](), threads=2, profile=True) as session:
        session.run()
        before = session.outputs()
        assert session.executed_kernels(1)
        session.run()

        # Both sessions start among the same threads; the second computes the same.
        assert threads == threads[:1] * 2
        assert all(np.array_equal(*pair) for pair in zip(before, session.outputs(), strict=True))


# Kernels in the layout NCHWc, and with them most fusions, exist for x86 alone; other versions may fuse differently.
known_fusions = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or short_version(OnnxRuntime().version()) != "1.31",
    reason="the fusions are written down for onnxruntime 1.31 on x86-64",
)


@known_fusions
def test_layout_changes_are_kernels_without_nodes() -> None:
    kernels = executed(OnnxRuntime(), CONTRACT_NETWORKS["conv_stack"]())
    assert [kernel.kind for kernel in kernels] == ["nchwc.Conv"] * 4 + ["nchwc.ReorderOutput"]
    assert kernels[-1].nodes == ()


@known_fusions
def test_an_int8_network_runs_integer_kernels_between_one_quantisation_and_one_dequantisation() -> None:
    kinds = [kernel.kind for kernel in executed(OnnxRuntime(), CONTRACT_NETWORKS["residual"](), "int8")]
    assert kinds == ["QuantizeLinear", "Transpose", "QLinearConv", "QLinearConv", "QLinearConv", "QLinearAdd",
                     "NhwcMaxPool", "Transpose", "DequantizeLinear"]  # fmt: skip


@known_fusions
def test_a_transposition_that_was_moved_past_a_split_belongs_to_the_kernel_that_transposes() -> None:
    kinds = {
        name: kernel.kind for kernel in executed(OnnxRuntime(), CONTRACT_NETWORKS["transformer_block"]()) for name in kernel.nodes
    }
    assert kinds["transpose_0"] == "Transpose"
    assert kinds["split_0"] == "Split"


def test_a_hard_swish_that_is_expanded_belongs_to_its_last_part() -> None:
    b = GraphBuilder("hard_swish")
    kernels = executed(OnnxRuntime(), b.finish(b.hard_swish(b.input((1, 4, 8, 8)))))
    assert [(kernel.kind, kernel.nodes) for kernel in kernels] == [("HardSigmoid", ()), ("Mul", ("hardswish_0",))]


def test_one_of_two_equal_poolings_is_computed() -> None:
    b = GraphBuilder("duplicates")
    x = b.conv(b.input((1, 8, 8, 8)), 8, 3)
    pools = [b.global_average_pool(x) for _ in range(2)]
    graph = b.finish(*(b.relu(b.conv(pool, 4, 1)) for pool in pools))
    names = [name for kernel in executed(OnnxRuntime(), graph) for name in kernel.nodes]
    assert len([name for name in names if name.startswith("globalaveragepool")]) == 1
    assert {name for name in names if name.startswith("conv")} == {"conv_0", "conv_1", "conv_2"}


def test_nodes_that_depend_on_weights_alone_are_in_no_kernel() -> None:
    b = GraphBuilder("folded")
    x = b.input((1, 8))
    weight = b.transpose(b.weight((4, 8)), (1, 0))
    kernels = executed(OnnxRuntime(), b.finish(b.relu(b.matmul(x, weight))))
    assert {name for kernel in kernels for name in kernel.nodes} == {"matmul_0", "relu_0"}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("seed", range(6))
def test_random_networks_are_computed_right_and_covered_by_their_kernels(seed: int, precision: str) -> None:
    graph = random_network(seed)
    inputs = contract_inputs(graph)
    with loaded(OnnxRuntime(), graph, precision=precision, profile=True) as session:
        session.set_inputs(inputs)
        session.run()
        outputs = session.outputs()
        kernels = session.executed_kernels(runs=1)
    check_cover(graph, kernels)
    if precision == "fp32":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        plain = onnxruntime.InferenceSession(to_onnx(graph), options, providers=["CPUExecutionProvider"])
        expected = plain.run(list(graph.outputs), dict(zip(graph.inputs, inputs, strict=True)))
        assert all(relative_error(*pair) < 1e-4 for pair in zip(outputs, expected, strict=True))


def test_profiling_leaves_no_file_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    executed(OnnxRuntime(), CONTRACT_NETWORKS["conv_stack"]())
    assert list(tmp_path.iterdir()) == []


def test_inputs_of_integers_are_converted() -> None:
    b = GraphBuilder("tokens")
    tokens = b.input((1, 5), dtype="int64")
    graph = b.finish(b.op("Gather", [b.weight((10, 4)), tokens])[0])
    with loaded(OnnxRuntime(), graph) as session:
        session.set_inputs([np.array([[0, 1, 0, 2, 1]], np.float32)])
        session.run()
        (output,) = session.outputs()
    assert np.array_equal(output[0, 0], output[0, 2])
    assert np.array_equal(output[0, 1], output[0, 4])
    assert not np.array_equal(output[0, 0], output[0, 1])


def test_an_operator_without_a_kernel_is_named() -> None:
    with pytest.raises(UnsupportedOperatorError, match="Unheard"):
        OnnxRuntime().load(strange_operator())


def test_the_library_s_refusal_of_a_graph_is_a_runtime_failure() -> None:
    graph = Graph("cut", (Node("Relu", "cut", ("nowhere",), ("y",)),), (), ("y",), {"y": Tensor((1, 4))})
    with pytest.raises(RuntimeFailure, match="cut"):
        OnnxRuntime().load(graph)


SQUARES = """
import numpy as np
from latcast.graph.builder import GraphBuilder
from latcast.runtimes.onnxruntime import OnnxRuntime
b = GraphBuilder("squares")
x = b.input((1, 4))
session = OnnxRuntime().load(b.finish(b.mul(x, x)))
session.set_inputs([np.array([[1e-20, 1e-18, 2.0, 3.0]], dtype=np.float32)])
session.run()
print(*session.outputs()[0][0])
"""


def test_numbers_too_small_to_be_normal_count_as_zero_so_that_latency_does_not_hang_on_values() -> None:
    # A process of its own, as in measuring: ONNX Runtime heeds the setting of the first session of a process alone.
    printed = subprocess.run([sys.executable, "-c", SQUARES], capture_output=True, text=True, check=True, timeout=120).stdout

    # 1e-40 is below 1.2e-38, the smallest normal number; 1e-36 is not.
    assert [float(text) for text in printed.split()] == [0.0, pytest.approx(1e-36), 4.0, 9.0]


def test_fewer_boxes_than_may_be_kept_are_an_answer() -> None:
    """Up to 100 of 112 boxes of each of 80 classes are kept; of random ones some overlap by more than half."""
    fused = dict.fromkeys(("fused_flops", "fused_inputs", "fused_transcendentals"), 0)
    sizes = {"images": 1, "classes": 80, "boxes": 112, "kept": 100, **fused}
    with loaded(OnnxRuntime(), kernel_graph("nms", sizes), profile=True) as session:
        for _ in range(2):
            session.run()
        [kept] = session.outputs()
        executed = session.executed_kernels(runs=1)

    assert 0 < len(kept) < 80 * 100
    assert len(executed) == 1
