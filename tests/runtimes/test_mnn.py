"""MNN keeps the contract of runtimes, and what only MNN does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Node, Tensor
from latcast.graph.writers.onnx import to_onnx
from latcast.records import short_version
from latcast.runtimes.mnn import Mnn, MnnSession
from latcast.runtimes.mnn_kernels import MnnCall, assign_nodes
from latcast.runtimes.mnn_native import convert
from latcast.runtimes.protocol import Session
from latcast.testing.contracts.runtimes import RuntimeContract, contract_inputs, loaded, reference_outputs, relative_error
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.runtimes.executed import executed

WINOGRAD_MEMORY_LEVEL = 3
"""MNN's number of the hint that limits the tiles of Winograd's algorithm."""


class TestMnn(RuntimeContract):
    runtime_name = "mnn"

    # MNN takes Winograd's algorithm with large tiles (2.4e-4 on the contract's networks) and a GELU by tanh (1.3e-4).
    tolerance = 5e-4

    def threads_of(self, session: Session) -> int | None:
        assert isinstance(session, MnnSession)
        return session.threads


class TestMnnOnAGpu(RuntimeContract):
    """By OpenCL; skipped where the installed MNN has no backend for it, as pip's has none."""

    runtime_name = "mnn"
    unit = "gpu"
    tolerance = 1e-3


needs_mnn = pytest.mark.skipif(Mnn().available() is not None, reason=Mnn().available() or "mnn is installed")

known_fusions = pytest.mark.skipif(
    Mnn().available() is not None or short_version(Mnn().version()) != "3.6",
    reason="the fusions are written down for mnn 3.6",
)


def one_operator(op_type: str) -> Graph:
    """A network of one operator without attributes, on a map."""
    tensors = {"x": Tensor((1, 4, 8, 8)), "y": Tensor((1, 4, 8, 8))}
    return Graph("lonely", (Node(op_type, "the_odd_one", ("x",), ("y",)),), ("x",), ("y",), tensors)


# What it computes


@needs_mnn
@pytest.mark.parametrize("network", ["conv_stack", "transformer_block"])
def test_without_approximations_it_equals_the_reference(network: str, tmp_path: Path) -> None:
    graph = CONTRACT_NETWORKS[network]()
    model = convert(graph, to_onnx(graph), tmp_path, ["--useGeluApproximation", "0"])
    session = MnnSession(graph, model, threads=1, profile=False, hints=[(WINOGRAD_MEMORY_LEVEL, 0)])
    session.set_inputs(contract_inputs(graph))
    session.run()
    errors = [relative_error(*pair) for pair in zip(session.outputs(), reference_outputs(network), strict=True)]
    session.close()
    assert max(errors) < 5e-6


@needs_mnn
def test_every_run_computes_from_the_inputs_though_mnn_overwrites_them() -> None:
    graph = CONTRACT_NETWORKS["residual"]()
    with loaded(Mnn(), graph, profile=True) as session:
        session.set_inputs(contract_inputs(graph))
        for _ in range(3):
            session.run()
        session.executed_kernels(runs=2)
        session.run()
        assert relative_error(session.outputs()[0], reference_outputs("residual")[0]) <= TestMnn.tolerance


@needs_mnn
def test_a_network_may_read_integers() -> None:
    node = Node("Cast", "to_real", ("x",), ("y",), {"to": 1})
    graph = Graph("integers", (node,), ("x",), ("y",), {"x": Tensor((2, 3), "int64"), "y": Tensor((2, 3))})
    with loaded(Mnn(), graph) as session:
        session.set_inputs([np.arange(6.0, dtype=np.float32).reshape(2, 3)])
        session.run()
        assert session.outputs()[0].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


# What it leaves alone


@needs_mnn
def test_nothing_is_printed_sent_or_installed() -> None:
    script = """
import json, sys
from latcast.runtimes import get_runtime
from latcast.testing.networks import CONTRACT_NETWORKS
reached_out = []
watched = ("socket.", "subprocess.", "os.system", "os.posix_spawn", "os.fork", "os.exec", "urllib.")
sys.addaudithook(lambda event, arguments: reached_out.append(event) if event.startswith(watched) else None)
session = get_runtime("mnn").load(CONTRACT_NETWORKS["residual"](), profile=True)
session.run()
session.executed_kernels(2)
print(json.dumps([reached_out, sorted(name for name in sys.modules if name.startswith("MNN.tools"))]))
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert json.loads(finished.stdout) == [[], []]


@needs_mnn
def test_the_current_folder_stays_current_and_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Mnn().load(CONTRACT_NETWORKS["conv_stack"]()).close()
    with pytest.raises(UnsupportedOperatorError):
        Mnn().load(one_operator("Hardmax"))
    assert Path.cwd() == tmp_path
    assert os.listdir(tmp_path) == []


# What it refuses


@needs_mnn
def test_an_operator_that_the_converter_lacks_is_named() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"'the_odd_one' \(Hardmax\)"):
        Mnn().load(one_operator("Hardmax"))


@needs_mnn
def test_shapes_that_depend_on_values_are_refused_with_mnns_reason() -> None:
    with pytest.raises(RuntimeFailure, match="shape compute need input content"):
        Mnn().load(one_operator("NonZero"))


@needs_mnn
def test_a_network_of_another_size_than_the_graph_is_refused(tmp_path: Path) -> None:
    b = GraphBuilder("small")
    small = b.finish(b.conv(b.input((1, 4, 8, 8)), 4, 1))
    b = GraphBuilder("strided")
    strided = b.finish(b.conv(b.input((1, 4, 8, 8)), 4, 1, stride=2))
    model = convert(strided, to_onnx(strided), tmp_path)
    with pytest.raises(RuntimeFailure, match=r"made \(1, 4, 4, 4\) of output 'conv_0_out'"):
        MnnSession(small, model, threads=1, profile=False)


@needs_mnn
def test_a_network_whose_values_are_not_finite_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="not finite"):
        Mnn().load(one_operator("Log"))


@needs_mnn
def test_a_malformed_model_is_refused_with_the_converters_words(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match=r"made nothing of 'conv_stack': .*not onnx model"):
        convert(CONTRACT_NETWORKS["conv_stack"](), b"no model", tmp_path)


@needs_mnn
def test_a_closed_session_says_so() -> None:
    session = Mnn().load(CONTRACT_NETWORKS["conv_stack"](), profile=True)
    session.close()
    for ask in (session.run, session.outputs, session.executed_kernels):
        with pytest.raises(RuntimeFailure, match="closed"):
            ask()


@needs_mnn
def test_another_module_named_as_the_converter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_tools", ModuleType("_tools"))
    with pytest.raises(RuntimeFailure, match="not MNN's converter"):
        Mnn().load(CONTRACT_NETWORKS["conv_stack"]())


# What it executed, made up


def assigned(graph: Graph, calls: Sequence[MnnCall]) -> list[tuple[str, str, list[int]]]:
    """Each kernel's kind, nodes and calls."""
    return [(kernel.kind, " ".join(kernel.nodes), kernel.calls) for kernel in assign_nodes(graph, calls)]


def test_a_convolution_takes_the_following_operators_without_a_name() -> None:
    b = GraphBuilder("made_up")
    x = b.conv_bn(b.input((1, 3, 8, 8)), 4, 3)
    graph = b.finish(b.relu(b.add(x, b.sigmoid(x))))
    calls = [
        MnnCall("conv_0_out_raster_0", "Raster", 1, ((1, 3, 8, 8),)),
        MnnCall("conv_0_out", "Convolution", 1, ((1, 4, 8, 8),)),
        MnnCall("sigmoid_0_out", "UnaryOp", 1, ((1, 4, 8, 8),)),
        MnnCall("add_0_out", "BinaryOp", 2, ((1, 4, 8, 8),)),
        MnnCall("relu_1_out", "ReLU", 1, ((1, 4, 8, 8),)),
    ]
    assert assigned(graph, calls) == [
        ("Raster", "", [0]),
        ("Convolution", "conv_0 batchnormalization_0 relu_0", [1]),
        ("UnaryOp", "sigmoid_0", [2]),
        ("BinaryOp", "add_0", [3]),
        ("ReLU", "relu_1", [4]),
    ]
    assert assigned(graph, calls[:4])[-1] == ("BinaryOp", "add_0 relu_1", [3])


def test_moves_before_an_operator_are_separated_by_their_shapes() -> None:
    b = GraphBuilder("made_up")
    x = b.concat([b.relu(b.input((1, 2, 4, 6))), b.sigmoid(b.input((1, 2, 4, 6)))])
    graph = b.finish(b.sigmoid(b.transpose(x, (0, 2, 3, 1))))
    calls = [
        MnnCall("relu_0_out", "ReLU", 1, ((1, 2, 4, 6),)),
        MnnCall("sigmoid_0_out", "UnaryOp", 1, ((1, 2, 4, 6),)),
        MnnCall("sigmoid_1_out_raster_0", "Raster", 2, ((1, 4, 4, 6),)),
        MnnCall("sigmoid_1_out_raster_1", "Raster", 1, ((1, 4, 6, 4),)),
        MnnCall("sigmoid_1_out", "UnaryOp", 1, ((1, 4, 6, 4),)),
    ]
    assert assigned(graph, calls)[2:] == [
        ("Raster", "concat_0", [2]),
        ("Raster", "transpose_0", [3]),
        ("UnaryOp", "sigmoid_1", [4]),
    ]
    # One call for both: the regions of the two moves were merged.
    assert assigned(graph, [*calls[:2], *calls[3:]])[2] == ("Raster", "concat_0 transpose_0", [2])


def test_the_parts_of_a_split_are_one_kernel_wherever_they_are_read() -> None:
    b = GraphBuilder("made_up")
    left, right = b.split(b.relu(b.input((1, 4, 4, 4))), (2, 2))
    graph = b.finish(b.sigmoid(left), b.conv(right, 3, 1))
    calls = [
        MnnCall("relu_0_out", "ReLU", 1, ((1, 4, 4, 4),)),
        MnnCall("sigmoid_0_out_raster_0", "Raster", 1, ((1, 2, 4, 4),)),
        MnnCall("sigmoid_0_out", "UnaryOp", 1, ((1, 2, 4, 4),)),
        MnnCall("conv_0_out_raster_0", "Raster", 1, ((1, 2, 4, 4),)),
        MnnCall("conv_0_out", "Convolution", 1, ((1, 3, 4, 4),)),
    ]
    assert assigned(graph, calls) == [
        ("ReLU", "relu_0", [0]),
        ("Raster", "split_0", [1, 3]),
        ("UnaryOp", "sigmoid_0", [2]),
        ("Convolution", "conv_0", [4]),
    ]


def test_the_groups_of_a_convolution_are_one_kernel_with_their_slices_and_their_concatenation() -> None:
    b = GraphBuilder("made_up")
    graph = b.finish(b.sigmoid(b.conv_bn(b.input((1, 4, 8, 8)), 4, 3, groups=2)))
    calls = [
        MnnCall("conv_0_out__group__0_raster_0", "Raster", 1, ((1, 2, 8, 8),)),
        MnnCall("conv_0_out__group__0", "Convolution", 1, ((1, 2, 8, 8),)),
        MnnCall("conv_0_out__group__1_raster_0", "Raster", 1, ((1, 2, 8, 8),)),
        MnnCall("conv_0_out__group__1", "Convolution", 1, ((1, 2, 8, 8),)),
        MnnCall("sigmoid_0_out_raster_0", "Raster", 2, ((1, 4, 8, 8),)),
        MnnCall("sigmoid_0_out", "UnaryOp", 1, ((1, 4, 8, 8),)),
    ]
    assert assigned(graph, calls) == [
        ("Raster + Convolution", "conv_0 batchnormalization_0 relu_0", [0, 1, 2, 3, 4]),
        ("UnaryOp", "sigmoid_0", [5]),
    ]
    assert assign_nodes(graph, calls)[0].name == "conv_0_out"


def test_calls_of_made_up_names_belong_to_the_next_computation() -> None:
    b = GraphBuilder("made_up")
    graph = b.finish(b.relu(b.batch_norm(b.conv(b.input((1, 6, 8, 8)), 6, 3, groups=2))))
    calls = [
        MnnCall("ConvolutionDepthwise7_raster_0", "Raster", 1, ((3, 1, 2, 8, 8),)),
        MnnCall("ConvolutionDepthwise7", "ConvolutionDepthwise", 1, ((1, 2, 8, 8),)),
        MnnCall("BinaryOp8", "BinaryOp", 2, ((1, 2, 8, 8),)),
        MnnCall("batchnormalization_0_out_raster_0", "Raster", 3, ((1, 6, 8, 8),)),
        MnnCall("batchnormalization_0_out", "Scale", 1, ((1, 6, 8, 8),)),
        MnnCall("relu_0_out", "ReLU", 1, ((1, 6, 8, 8),)),
    ]
    assert assigned(graph, calls) == [
        ("Raster + ConvolutionDepthwise + BinaryOp + Scale", "conv_0 batchnormalization_0", [0, 1, 2, 3, 4]),
        ("ReLU", "relu_0", [5]),
    ]


# What it executed, really


@known_fusions
def test_a_concatenation_is_a_raster_and_a_layout_change_has_no_nodes() -> None:
    kernels = executed(Mnn(), CONTRACT_NETWORKS["concat_pool"]())
    assert [kernel.nodes for kernel in kernels if kernel.kind == "Raster"] == [(), ("concat_0",), ()]


@known_fusions
def test_few_channels_in_a_group_become_depthwise_convolutions() -> None:
    b = GraphBuilder("few")
    graph = b.finish(b.conv_bn(b.conv(b.input((1, 3, 20, 20)), 96, 1), 96, 3, groups=32))
    kinds = {kernel.nodes: kernel.kind for kernel in executed(Mnn(), graph)}
    assert "ConvolutionDepthwise" in kinds["conv_1", "batchnormalization_0"]
    assert kinds["relu_0",] == "ReLU"


@needs_mnn
def test_profiling_again_gives_the_same_kernels_again() -> None:
    with loaded(Mnn(), CONTRACT_NETWORKS["channel_shuffle"](), profile=True) as session:
        first, second = session.executed_kernels(runs=2), session.executed_kernels(runs=3)
    assert [(kernel.name, kernel.kind, kernel.nodes) for kernel in first] == [(k.name, k.kind, k.nodes) for k in second]
