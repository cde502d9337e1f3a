"""The param text of known networks, the nodes that each layer computes, and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from latcast.errors import ModelError, UnsupportedOperatorError
from latcast.graph import Graph, GraphBuilder, Tensor
from latcast.graph.weights import synthetic_weights
from latcast.graph.writers.ncnn import to_ncnn, to_ncnn_with_map
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.random_networks import random_network


@dataclass(frozen=True)
class Line:
    """One layer as ncnn's parser reads it."""

    kind: str
    name: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    params: dict[str, str]


def parse(param: str) -> list[Line]:
    magic, counts, *lines = param.strip().splitlines()
    assert magic == "7767517"
    parsed = []
    for text in lines:
        kind, name, reads, writes, *rest = text.split()
        reads_to, writes_to = int(reads), int(reads) + int(writes)
        params = dict(item.split("=") for item in rest[writes_to:])
        parsed.append(Line(kind, name, tuple(rest[:reads_to]), tuple(rest[reads_to:writes_to]), params))
    assert counts == f"{len(parsed)} {sum(len(line.tops) for line in parsed)}"
    return parsed


def lines_of(graph: Graph, precision: str = "fp32") -> list[Line]:
    """The layers that a graph is written as, without its inputs."""
    return [line for line in parse(to_ncnn(graph, precision=precision)[0]) if line.kind != "Input"]


def kinds_of(graph: Graph, precision: str = "fp32") -> list[str]:
    return [line.kind for line in lines_of(graph, precision)]


def conv_bn_relu() -> Graph:
    b = GraphBuilder("conv_bn_relu")
    return b.finish(b.conv_bn(b.input((1, 3, 7, 9)), 4, (3, 5), stride=(2, 1), padding=(0, 2)))


def test_a_convolution_takes_in_its_batch_normalisation_and_relu() -> None:
    assert to_ncnn(conv_bn_relu())[0] == (
        "7767517\n"
        "2 2\n"
        "Input                    in0                      0 1 in0 0=9 1=7 2=3\n"
        "Convolution              convolution_0            1 1 in0 out0 "
        "0=4 1=5 11=3 2=1 12=1 3=1 13=2 4=2 14=0 15=2 16=0 5=1 6=180 9=1\n"
    )


def test_the_bin_holds_the_folded_weights_behind_their_tag() -> None:
    graph = conv_bn_relu()
    weight, scale, bias, mean, variance = (
        synthetic_weights(graph)[name] for name in ("conv_weight_0", "bn_scale_0", "bn_bias_0", "bn_mean_0", "bn_var_0")
    )
    data = to_ncnn(graph)[1]
    factor = scale / np.sqrt(variance + 1e-5)
    assert len(data) == 4 + 180 * 4 + 4 * 4
    assert data[:4] == bytes(4)
    stored = np.frombuffer(data, "<f4", offset=4)
    assert np.allclose(stored[:180].reshape(4, 3, 3, 5), weight * factor[:, None, None, None], rtol=1e-5)
    assert np.allclose(stored[180:], bias - mean * factor, rtol=1e-5, atol=1e-7)


def test_a_blob_with_two_readers_is_split_and_the_output_is_named() -> None:
    split, convolution, add = lines_of(_residual())
    assert (split.kind, split.bottoms, split.tops) == ("Split", ("in0",), ("in0_splitncnn_0", "in0_splitncnn_1"))
    assert (convolution.kind, convolution.bottoms) == ("Convolution", ("in0_splitncnn_0",))
    assert (add.kind, add.bottoms, add.tops) == ("BinaryOp", ("in0_splitncnn_1", *convolution.tops), ("out0",))


def _residual() -> Graph:
    b = GraphBuilder("residual")
    x = b.input((1, 4, 8, 8))
    return b.finish(b.add(x, b.conv(x, 4, 3)))


def test_an_output_that_is_read_too_is_split() -> None:
    b = GraphBuilder("both")
    x = b.conv(b.input((1, 4, 8, 8)), 4, 3)
    lines = lines_of(b.finish(x, b.op("Sigmoid", [b.relu(x)])[0]))
    assert [line.kind for line in lines] == ["Convolution", "Split", "ReLU", "Sigmoid"]
    relu = lines[2]
    assert sorted([*relu.bottoms, "out0"]) == sorted(lines[1].tops)
    assert lines[3].tops == ("out1",)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("relu", {"9": "1"}),
        ("leaky_relu", {"9": "2", "-23310": "1,1.00000000e-01"}),
        ("relu6", {"9": "3", "-23310": "2,0.00000000e+00,6.00000000e+00"}),
        ("sigmoid", {"9": "4"}),
        ("hard_swish", {"9": "6", "-23310": "2,1.66666667e-01,5.00000000e-01"}),
    ],
)
def test_activations_that_ncnn_computes_with_a_convolution(activation: str, expected: dict[str, str]) -> None:
    b = GraphBuilder(activation)
    (line,) = lines_of(b.finish(b.activation(b.conv(b.input((1, 4, 8, 8)), 4, 1), activation)))
    assert {key: value for key, value in line.params.items() if key in ("9", "-23310")} == expected


def layer_norm(b: GraphBuilder, x: str) -> str:
    centred = b.sub(x, b.reduce_mean(x, (-1,)))
    variance = b.reduce_mean(b.op("Pow", [centred, b.constant(2.0, dtype="float32")])[0], (-1,))
    y = b.div(centred, b.op("Sqrt", [b.add(variance, b.constant(1e-6, dtype="float32"))])[0])
    return b.add(b.mul(y, b.weight((8,))), b.weight((8,)))


@pytest.mark.parametrize(
    ("build", "kinds"),
    [
        (lambda b, x: b.silu(b.conv(x, 4, 1)), ["Convolution", "Swish"]),
        (lambda b, x: b.gelu(b.conv(x, 4, 1)), ["Convolution", "GELU"]),
        (lambda b, x: b.hard_sigmoid(b.conv(x, 4, 1)), ["Convolution", "HardSigmoid"]),
        (lambda b, x: b.mul(b.hard_sigmoid(x), x), ["HardSwish"]),
        (lambda b, x: b.mul(x, b.op("Tanh", [b.op("Softplus", [x])[0]])[0]), ["Mish"]),
        (layer_norm, ["LayerNorm"]),
        (lambda b, x: b.matmul(x, b.transpose(x, (0, 1, 3, 2))), ["Split", "MatMul"]),
        (lambda b, x: b.conv(b.pad(x, (0, 0, 1, 0, 0, 0, 0, 2)), 4, 3), ["Convolution"]),
        # A gate of something else is no SiLU.
        (lambda b, x: b.mul(x, b.sigmoid(b.relu(x))), ["Split", "ReLU", "Sigmoid", "BinaryOp"]),
    ],
)
def test_operators_that_mean_one_are_one_layer(build: Callable[[GraphBuilder, str], str], kinds: list[str]) -> None:
    b = GraphBuilder("idiom")
    assert kinds_of(b.finish(build(b, b.input((1, 4, 8, 8))))) == kinds


def test_an_activation_after_a_convolution_with_a_second_reader_stays_a_layer() -> None:
    b = GraphBuilder("shared")
    x = b.conv(b.input((1, 4, 8, 8)), 4, 1)
    assert kinds_of(b.finish(b.add(x, b.relu(x)))) == ["Convolution", "Split", "ReLU", "BinaryOp"]


def test_a_pooled_vector_goes_through_inner_products_and_back_onto_the_channels() -> None:
    b = GraphBuilder("se")
    graph = b.finish(b.squeeze_excite(b.input((1, 16, 8, 8)), 4))
    lines = lines_of(graph)
    assert [line.kind for line in lines] == ["Split", "Pooling", "InnerProduct", "InnerProduct", "BinaryOp"]
    assert lines[1].params == {"0": "1", "4": "1"}
    assert lines[2].params == {"0": "4", "1": "1", "2": "64", "9": "1"}
    assert lines[3].params == {"0": "16", "1": "1", "2": "64", "9": "4"}
    assert lines[4].params == {"0": "2"}


def test_flattening_a_vector_costs_no_layer_and_flattening_a_map_costs_one() -> None:
    b = GraphBuilder("pooled")
    pooled = b.finish(b.linear(b.flatten(b.global_average_pool(b.input((1, 8, 4, 4)))), 3))
    assert kinds_of(pooled) == ["Pooling", "InnerProduct"]
    b = GraphBuilder("map")
    assert kinds_of(b.finish(b.linear(b.flatten(b.input((1, 8, 4, 4))), 3))) == ["Flatten", "InnerProduct"]


def test_a_linear_layer_on_tokens_is_a_gemm_with_its_bias() -> None:
    b = GraphBuilder("tokens")
    (line,) = lines_of(b.finish(b.linear(b.input((1, 5, 12)), 7)))
    assert line.kind == "Gemm"
    expected = {"2": "0", "3": "1", "4": "0", "5": "1", "6": "1", "7": "5", "8": "7", "9": "12", "10": "4"}
    assert line.params == expected


def test_attention_is_matrix_products_and_a_softmax_with_the_transposition_of_keys_inside() -> None:
    b = GraphBuilder("attention")
    lines = lines_of(b.finish(b.attention(b.input((1, 16, 32)), 4)))
    assert Counter(line.kind for line in lines if line.kind != "Reshape") == {
        "Gemm": 2, "Permute": 2, "Slice": 1, "BinaryOp": 1, "MatMul": 2, "Softmax": 1,
    }  # fmt: skip
    assert [line.params for line in lines if line.kind == "MatMul"] == [{"0": "1"}, {}]


def test_a_step_of_two_is_a_crop_of_pairs() -> None:
    b = GraphBuilder("strided")
    starts, ends, axes, steps = ([1], [99], [2], [2])
    parts = [b.constant(numbers, dtype="int64") for numbers in (starts, ends, axes, steps)]
    graph = b.finish(b.op("Slice", [b.input((1, 6, 8, 10)), *parts])[0])
    reshape, crop = lines_of(graph)
    assert reshape.params == {"0": "10", "1": "2", "11": "4", "2": "6"}
    assert crop.params == {"-23309": "1,1", "-23310": "1,2", "-23311": "1,2"}


def test_operators_on_weights_are_computed_and_unused_operators_left_out() -> None:
    b = GraphBuilder("folded")
    x = b.input((1, 5, 12))
    weight = b.reshape(b.transpose(b.weight((12, 5)), (1, 0)), (1, 5, 12))
    b.relu(x)
    graph = b.finish(b.add(x, weight))
    assert kinds_of(graph) == ["MemoryData", "BinaryOp"]
    assert sum(to_ncnn_with_map(graph)[2].values(), ()) == ("add_0",)


# Which nodes a layer computes


def test_a_layer_lists_its_nodes_and_the_views_before_it() -> None:
    b = GraphBuilder("head")
    x = b.conv_bn(b.input((1, 3, 8, 8)), 8, 3)
    graph = b.finish(b.relu(b.linear(b.flatten(b.global_average_pool(x)), 4)))
    assert to_ncnn_with_map(graph)[2] == {
        "in0": (),
        "convolution_0": ("conv_0", "batchnormalization_0", "relu_0"),
        "pooling_0": ("globalaveragepool_0",),
        "innerproduct_0": ("flatten_0", "gemm_0", "relu_1"),
    }


def test_a_view_that_nothing_reads_belongs_to_the_layer_before_it() -> None:
    b = GraphBuilder("view")
    graph = b.finish(b.flatten(b.relu(b.input((1, 3, 8, 8)))))
    assert to_ncnn_with_map(graph)[2] == {"in0": (), "relu_0": ("relu_0", "flatten_0")}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("graph", [*(build() for build in CONTRACT_NETWORKS.values()), *map(random_network, range(20))],
                         ids=lambda graph: graph.name)  # fmt: skip
def test_every_node_is_in_exactly_one_layer(graph: Graph, precision: str) -> None:
    param, _, nodes = to_ncnn_with_map(graph, precision=precision)
    assert [line.name for line in parse(param)] == list(nodes)
    assert Counter(name for names in nodes.values() for name in names) == Counter(node.name for node in graph.nodes)
    position = {node.name: index for index, node in enumerate(graph.nodes)}
    for names in nodes.values():
        assert list(names) == sorted(names, key=position.__getitem__)


def test_the_same_seed_writes_the_same_bytes_and_another_other_weights() -> None:
    graph = CONTRACT_NETWORKS["residual"]()
    assert to_ncnn(graph) == to_ncnn(graph)
    param, weights = to_ncnn(graph, seed=1)
    assert param == to_ncnn(graph)[0]
    assert weights != to_ncnn(graph)[1]


# What has no form


def dynamic_weight(b: GraphBuilder) -> str:
    x = b.input((1, 4, 3, 3))
    return b.op("Conv", [x, b.relu(x)])[0]


def nearest_of_half_pixels(b: GraphBuilder) -> str:
    sizes = b.constant([1, 4, 12, 12], dtype="int64")
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"}
    return b.op("Resize", [b.input((1, 4, 8, 8)), "", "", sizes], attributes)[0]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda b: b.relu(b.input((4, 3, 8, 8), name="images")), "'images' has batch 4"),
        (lambda b: b.op("Softsign", [b.input((1, 4))], name="odd")[0], "node 'odd' (Softsign)"),
        (lambda b: b.op("Cast", [b.input((1, 8), dtype="int64", name="ids")], {"to": 1})[0], "'ids' is int64"),
        (lambda b: b.op("Cast", [b.input((1, 8))], {"to": 7})[0], "its output is int64"),
        (lambda b: b.transpose(b.reshape(b.input((1, 6, 20, 28)), (2, 3, 4, 5, 28)), (4, 3, 2, 1, 0)), "moves 5 groups of axes"),
        (dynamic_weight, "is not a weight"),
        (nearest_of_half_pixels, "half_pixel"),
    ],
)
def test_a_network_that_ncnn_has_no_form_for_is_refused(build: Callable[[GraphBuilder], str], words: str) -> None:
    b = GraphBuilder("refused")
    with pytest.raises(UnsupportedOperatorError) as caught:
        to_ncnn(b.finish(build(b)))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"), [({"domain": "com.example"}, "com.example.Relu"), ({"op_type": "NoSuchOperator"}, "'relu_0'")]
)
def test_an_operator_that_onnx_does_not_define_is_refused(changes: dict[str, str], words: str) -> None:
    b = GraphBuilder("foreign")
    graph = b.finish(b.relu(b.input((1, 4))))
    with pytest.raises(UnsupportedOperatorError, match=words):
        to_ncnn(replace(graph, nodes=(replace(graph.nodes[0], **changes),)))


def test_shapes_that_contradict_each_other_are_refused_before_ncnn_sees_them() -> None:
    b = GraphBuilder("inconsistent")
    graph = b.finish(b.conv(b.input((1, 4, 8, 8)), 8, 3, padding=1))
    (output,) = graph.outputs
    with pytest.raises(ModelError, match="conv_0"):
        to_ncnn(replace(graph, tensors={**graph.tensors, output: Tensor((1, 8, 9, 9))}))
