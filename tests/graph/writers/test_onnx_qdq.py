"""Quantised ONNX files: which tensors are quantised, how, and what is computed then."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.writers.folding import fold_batch_norms
from latcast.graph.writers.onnx import OnnxFile, to_onnx, typed_weights
from latcast.graph.writers.onnx_qdq import (
    INPUT_STYLE,
    OPERATOR_STYLE,
    QuantisationStyle,
    original_tensor,
    quantised_tensors,
    to_qdq,
)
from latcast.testing.contracts.runtimes import contract_inputs, correlation
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.running import run_file
from tests.random_networks import random_network

STYLES = {"operator": OPERATOR_STYLE, "input": INPUT_STYLE}


class Written:
    """A quantised file, taken apart."""

    def __init__(self, graph: Graph, style: QuantisationStyle = OPERATOR_STYLE) -> None:
        self.model = onnx.load_from_string(to_qdq(graph, style=style))
        onnx.checker.check_model(self.model, full_check=True)
        self.nodes = {node.name: node for node in self.model.graph.node}
        self.makers = {output: node for node in self.model.graph.node for output in node.output}
        self.values: Mapping[str, np.ndarray] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in self.model.graph.initializer
        }

    def maker_types(self, node: str) -> list[str]:
        """What kind of node makes each input of a node; "" for inputs of the network and constants."""
        return [self.makers[name].op_type if name in self.makers else "" for name in self.nodes[node].input]

    def pairs(self) -> set[str]:
        """Tensors with a pair of QuantizeLinear and DequantizeLinear."""
        return {original_tensor(node.input[0]) for node in self.model.graph.node if node.op_type == "QuantizeLinear"}

    def parameters(self, tensor: str) -> tuple[float, int]:
        """Scale and zero point of an activation."""
        node = self.nodes[f"{tensor}_QuantizeLinear"]
        return float(self.values[node.input[1]]), int(self.values[node.input[2]])


def run(data: bytes, graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    # Products of unsigned and signed bytes saturate on CPUs without VNNI; these tests are of the file, not of the CPU.
    return run_file(data, dict(zip(graph.inputs, inputs, strict=True)), graph.outputs, x64quantprecision="1")


def test_a_convolution_reads_and_writes_integers_only() -> None:
    written = Written(CONTRACT_NETWORKS["conv_stack"]())
    for name in ("conv_0", "conv_1", "conv_2", "conv_3"):
        assert written.maker_types(name) == ["DequantizeLinear"] * 3


def test_weights_are_symmetric_int8_with_a_scale_for_each_output_channel() -> None:
    graph = CONTRACT_NETWORKS["conv_stack"]()
    written = Written(graph)
    node = written.makers[written.nodes["conv_1"].input[1]]
    integers, scale, zero = (written.values[name] for name in node.input)
    assert integers.dtype == np.int8
    assert integers.shape == (24, 16, 3, 3)
    assert scale.shape == zero.shape == (24,)
    assert not zero.any()
    assert [a.i for a in node.attribute if a.name == "axis"] == [0]
    # Each channel's largest weight is its 127.
    assert (np.abs(integers).reshape(24, -1).max(axis=1) == 127).all()
    original = typed_weights(graph)["conv_weight_1"]
    assert np.abs(integers * scale.reshape(-1, 1, 1, 1) - original).max() <= scale.max() / 2 + 1e-6


def test_a_bias_is_int32_in_units_of_input_scale_times_weight_scale() -> None:
    graph = CONTRACT_NETWORKS["conv_stack"]()
    written = Written(graph)
    conv = written.nodes["conv_1"]
    weight_scale = written.values[written.makers[conv.input[1]].input[1]]
    integers, scale, _ = (written.values[name] for name in written.makers[conv.input[2]].input)
    input_scale, _ = written.parameters("relu_0_out")
    assert integers.dtype == np.int32
    assert np.allclose(scale, weight_scale * input_scale, rtol=1e-5)
    assert np.abs(integers * scale - typed_weights(graph)["conv_bias_0"]).max() <= scale.max()


def test_non_negative_tensors_have_zero_point_0_and_others_about_128() -> None:
    written = Written(CONTRACT_NETWORKS["residual"]())
    assert written.parameters("relu_0_out")[1] == 0
    assert 90 < written.parameters("batchnormalization_2_out")[1] < 166
    assert 90 < written.parameters("input")[1] < 166


def test_a_relu_is_left_to_the_quantisation_after_it() -> None:
    written = Written(CONTRACT_NETWORKS["conv_stack"]())
    assert written.maker_types("relu_1") == ["Conv"]
    assert written.maker_types("conv_2")[0] == "DequantizeLinear"
    assert "conv_1_out" not in written.pairs()


def test_batch_normalisations_are_folded_unless_the_convolution_has_other_readers() -> None:
    b = GraphBuilder("bn")
    x = b.conv(b.input((1, 3, 8, 8)), 8, 3)
    y = b.batch_norm(b.conv(x, 8, 3))
    graph = b.finish(b.add(b.batch_norm(x), y))
    types = [node.op_type for node in Written(graph).model.graph.node]
    assert types.count("BatchNormalization") == 1


def test_folding_batch_normalisations_changes_no_output() -> None:
    graph = random_network(3)
    assert any(node.op_type == "BatchNormalization" for node in graph.nodes)
    folded, weights = fold_batch_norms(graph, typed_weights(graph))
    assert len(folded.nodes) < len(graph.nodes)
    file = OnnxFile(folded, 17)
    for name, values in (*weights.items(), *folded.constants.items()):
        file.initializer(name, values)
    for node in folded.nodes:
        file.add(node)
    inputs = contract_inputs(graph)
    pairs = zip(run(file.to_bytes(), graph, inputs), run(to_onnx(graph), graph, inputs), strict=True)
    assert all(np.abs(a - b).max() <= 1e-4 * np.abs(b).max() for a, b in pairs)


@pytest.mark.parametrize("style", ["operator", "input"])
def test_normalisation_softmax_and_gelu_stay_in_float(style: str) -> None:
    graph = CONTRACT_NETWORKS["transformer_block"]()
    written = Written(graph, STYLES[style])
    inside = {"div_0_out", "erf_0_out", "add_4_out", "mul_1_out"}
    assert not written.pairs() & inside
    for name in ("erf_0", "add_4", "mul_2"):
        assert "DequantizeLinear" not in written.maker_types(name)
    assert written.maker_types("layernormalization_0")[1:] == ["", ""]


def test_every_integer_operator_stands_between_pairs_in_the_operator_style() -> None:
    written = Written(CONTRACT_NETWORKS["transformer_block"]())
    for name in ("matmul_0", "add_0", "add_2", "mul_0", "matmul_1", "reshape_0", "transpose_0", "split_0"):
        assert written.maker_types(name)[0] == "DequantizeLinear"
        assert all(original_tensor(output) in written.pairs() for output in written.nodes[name].output)


def test_only_inputs_of_integer_operators_are_quantised_in_the_input_style() -> None:
    pairs = Written(CONTRACT_NETWORKS["transformer_block"](), INPUT_STYLE).pairs()
    assert "matmul_0_out" not in pairs, "a bias follows in float"
    assert not [name for name in pairs if name.startswith(("reshape", "transpose", "split"))]
    assert {"layernormalization_0_out", "softmax_0_out", "add_0_out", "mul_0_out"} <= pairs


def test_a_gated_activation_is_fused_in_the_input_style_and_quantised_in_the_other() -> None:
    b = GraphBuilder("silu")
    x = b.conv(b.input((1, 3, 8, 8)), 8, 3)
    graph = b.finish(b.conv(b.silu(x), 8, 3))
    assert "conv_0_out" not in Written(graph, INPUT_STYLE).pairs()
    assert {"conv_0_out", "sigmoid_0_out", "mul_0_out"} <= Written(graph).pairs()


def test_a_hard_swish_follows_its_convolution_directly_in_the_input_style_only() -> None:
    graph = CONTRACT_NETWORKS["squeeze_excite"]()
    assert Written(graph, INPUT_STYLE).maker_types("hardswish_0") == ["Conv"]
    assert Written(graph).maker_types("hardswish_0") == ["DequantizeLinear"]


def test_values_that_are_only_moved_keep_their_scale() -> None:
    written = Written(CONTRACT_NETWORKS["channel_shuffle"]())
    moved = {written.parameters(name) for name in ("concat_0_out", "reshape_0_out", "transpose_0_out", "reshape_1_out")}
    assert len(moved) == 1


def test_concatenated_tensors_share_a_scale_in_the_input_style() -> None:
    graph = CONTRACT_NETWORKS["concat_pool"]()
    parts = ("relu_1_out", "relu_3_out", "relu_4_out", "concat_0_out")
    assert len({Written(graph, INPUT_STYLE).parameters(name) for name in parts}) == 1
    assert len({Written(graph).parameters(name) for name in parts}) > 1


@pytest.mark.parametrize("style", ["operator", "input"])
def test_outputs_of_the_network_keep_their_names_and_are_float(style: str) -> None:
    for build in CONTRACT_NETWORKS.values():
        graph = build()
        model = Written(graph, STYLES[style]).model
        assert [output.name for output in model.graph.output] == list(graph.outputs)
        assert all(output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for output in model.graph.output)


def test_two_convolutions_that_share_a_bias_each_quantise_it_by_their_own_input() -> None:
    b = GraphBuilder("shared")
    x = b.input((1, 4, 8, 8))
    bias = b.weight((4,), stem="bias")
    attributes = {"kernel_shape": (1, 1)}
    first = b.op("Conv", [x, b.weight((4, 4, 1, 1)), bias], attributes)[0]
    second = b.op("Conv", [b.relu(first), b.weight((4, 4, 1, 1)), bias], attributes)[0]
    written = Written(b.finish(second))
    scales = [written.values[written.makers[written.nodes[name].input[2]].input[1]] for name in ("conv_0", "conv_1")]
    assert not np.allclose(scales[0], scales[1])


@pytest.mark.parametrize(("node", "attributes", "axis"), [("Gemm", {"transB": 1}, 0), ("Gemm", {}, 1), ("MatMul", {}, 1)])
def test_a_matrix_has_a_scale_for_each_column_of_the_result(node: str, attributes: dict[str, int], axis: int) -> None:
    b = GraphBuilder("matrix")
    x = b.input((3, 8))
    weight = b.weight((5, 8) if attributes else (8, 5))
    written = Written(b.finish(b.op(node, [x, weight], attributes)[0]))
    dequantise = written.makers[written.nodes[f"{node.lower()}_0"].input[1]]
    assert written.values[dequantise.input[1]].shape == (5,)
    assert [a.i for a in dequantise.attribute if a.name == "axis"] == [axis]


def test_operators_of_unusual_forms_stay_in_float() -> None:
    b = GraphBuilder("scaled")
    graph = b.finish(b.op("Gemm", [b.input((3, 8)), b.weight((8, 5))], {"alpha": 0.5})[0])
    assert quantised_tensors(graph) == frozenset()


def test_integer_tensors_are_never_quantised() -> None:
    b = GraphBuilder("tokens")
    x = b.op("Gather", [b.weight((10, 8)), b.input((1, 5), dtype="int64")])[0]
    graph = b.finish(b.linear(x, 4))
    assert "input" not in quantised_tensors(graph)
    assert "gather_0_out" in quantised_tensors(graph)
    outputs = run(to_qdq(graph), graph, [np.array([[0, 1, 2, 3, 4]])])
    assert correlation(outputs[0], run(to_onnx(graph), graph, [np.array([[0, 1, 2, 3, 4]])])[0]) > 0.99


@pytest.mark.parametrize("style", ["operator", "input"])
@pytest.mark.parametrize("seed", [1, 2, 4, 7, 12])
def test_random_quantised_networks_compute_nearly_the_same(seed: int, style: str) -> None:
    graph = random_network(seed)
    inputs = contract_inputs(graph)
    exact, quantised = run(to_onnx(graph), graph, inputs), run(to_qdq(graph, style=STYLES[style]), graph, inputs)
    assert all(correlation(a, b) > 0.95 for a, b in zip(quantised, exact, strict=True))
