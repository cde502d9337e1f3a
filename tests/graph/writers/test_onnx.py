"""Graphs written as ONNX files are valid, keep their names and compute what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from latcast.errors import LatcastError, ModelError, UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.graph.idioms import IN_GROUPS
from latcast.graph.ir import Graph, Node, Tensor
from latcast.graph.weights import synthetic_weights
from latcast.graph.writers import onnx as onnx_writer
from latcast.graph.writers.onnx import choose_opset, to_onnx, typed_weights
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.running import run
from tests.random_networks import random_network

every_network = pytest.mark.parametrize("network", sorted(CONTRACT_NETWORKS))


def parsed(graph: Graph, **options: Any) -> onnx.ModelProto:
    """The model written for a graph, checked by ONNX itself."""
    model = onnx.load_from_string(to_onnx(graph, **options))
    onnx.checker.check_model(model, full_check=True)
    return model


def initializers(model: onnx.ModelProto) -> Mapping[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def single(
    op_type: str,
    shape: tuple[int, ...],
    output: tuple[int, ...],
    attributes: Mapping[str, Any],
    constants: Mapping[str, np.ndarray] | None = None,
    **changes: Any,
) -> Graph:
    """A graph of one node "it", which reads x and then the constants."""
    constants = constants or {}
    node = Node(op_type, "it", ("x", *constants), ("y",), attributes)
    tensors = {"x": Tensor(shape), "y": Tensor(output)}
    tensors |= {name: Tensor(value.shape, str(value.dtype)) for name, value in constants.items()}
    return Graph("single", (replace(node, **changes),), ("x",), ("y",), tensors, constants=constants)


@every_network
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_file_is_valid_in_the_lowest_opset(network: str, precision: str) -> None:
    model = parsed(CONTRACT_NETWORKS[network](), precision=precision)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert model.ir_version == 8


@every_network
def test_nodes_keep_their_names_order_inputs_and_outputs(network: str) -> None:
    graph = CONTRACT_NETWORKS[network]()
    written = [(node.name, node.op_type, tuple(node.input), tuple(node.output)) for node in parsed(graph).graph.node]
    assert written == [(node.name, node.op_type, node.inputs, node.outputs) for node in graph.nodes]


@pytest.mark.parametrize("seed", range(5))
def test_onnx_infers_the_shapes_that_the_graph_has(seed: int) -> None:
    graph = random_network(seed)
    model = onnx.shape_inference.infer_shapes(parsed(graph), strict_mode=True, data_prop=True)
    shapes = {
        info.name: tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
        for info in (*model.graph.value_info, *model.graph.output)
    }
    produced = [name for node in graph.nodes for name in node.outputs]
    assert {name: shapes[name] for name in produced} == {name: graph.shape(name) for name in produced}


def test_weights_and_constants_are_initialisers() -> None:
    graph = CONTRACT_NETWORKS["transformer_block"]()
    written = initializers(parsed(graph, seed=3))
    expected = {**synthetic_weights(graph, seed=3), **graph.constants}
    assert written.keys() == expected.keys()
    assert all(np.array_equal(written[name], expected[name]) for name in expected)


def test_the_same_seed_gives_the_same_bytes() -> None:
    graph = CONTRACT_NETWORKS["squeeze_excite"]()
    for precision in ("fp32", "int8"):
        assert to_onnx(graph, precision=precision) == to_onnx(graph, precision=precision)
        assert to_onnx(graph, precision=precision) != to_onnx(graph, precision=precision, seed=1)


@pytest.mark.parametrize(
    ("graph", "opset"),
    [
        (single("Relu", (1, 4), (1, 4), {}), 17),
        (single("HardSwish", (1, 4), (1, 4), {}), 17),
        (single("Gelu", (1, 4), (1, 4), {}), 20),
        (single("ReduceMean", (1, 4), (1, 1), {}, {"axes": np.array([1])}), 18),
        (single("ReduceMean", (1, 4), (1, 1), {"axes": (1,)}), 17),
        (single("Swish", (1, 4), (1, 4), {}), 24),
    ],
)
def test_the_opset_is_the_lowest_that_has_every_node_in_its_form(graph: Graph, opset: int) -> None:
    assert choose_opset(graph) == opset
    assert parsed(graph).opset_import[0].version == opset


X = np.array([[[[1.0, -2.0], [3.0, -4.0]]]], np.float32)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (single("Clip", (1, 1, 2, 2), (1, 1, 2, 2), {"min": -1.0, "max": 2.0}), [[[[1, -1], [2, -1]]]]),
        (single("Clip", (1, 1, 2, 2), (1, 1, 2, 2), {"max": 0.5}), [[[[0.5, -2], [0.5, -4]]]]),
        (single("Squeeze", (1, 1, 2, 2), (2, 2), {"axes": (0, 1)}), [[1, -2], [3, -4]]),
        (single("Unsqueeze", (1, 1, 2, 2), (1, 1, 2, 2, 1), {"axes": (4,)}), [[[[[1], [-2]], [[3], [-4]]]]]),
        (single("ReduceSum", (1, 1, 2, 2), (1, 1, 1, 2), {"axes": (2,)}), [[[[4, -6]]]]),
        (single("ReduceMean", (1, 1, 2, 2), (1, 1, 1, 2), {"axes": (2,)}), [[[[2, -3]]]]),
        (single("Pad", (1, 1, 2, 2), (1, 1, 2, 3), {"pads": (0, 0, 0, 1, 0, 0, 0, 0), "value": 7.0}),
         [[[[7, 1, -2], [7, 3, -4]]]]),
        (single("Slice", (1, 1, 2, 2), (1, 1, 1, 2), {"starts": (1,), "ends": (2,), "axes": (2,)}), [[[[3, -4]]]]),
        (single("Reshape", (1, 1, 2, 2), (4,), {"shape": (4,)}), [1, -2, 3, -4]),
        (single("Upsample", (1, 1, 2, 2), (1, 1, 2, 4), {"mode": "nearest", "scales": (1.0, 1.0, 1.0, 2.0)}),
         [[[[1, 1, -2, -2], [3, 3, -4, -4]]]]),
        (single("Upsample", (1, 1, 2, 2), (1, 1, 2, 4), {"mode": "nearest"}, {"s": np.float32([1, 1, 1, 2])}),
         [[[[1, 1, -2, -2], [3, 3, -4, -4]]]]),
        (single("Resize", (1, 1, 2, 2), (1, 1, 4, 2), {"mode": "nearest"}, {"s": np.float32([1, 1, 2, 1])}),
         [[[[1, -2], [1, -2], [3, -4], [3, -4]]]]),
        (single("Dropout", (1, 1, 2, 2), (1, 1, 2, 2), {"ratio": 0.5}), X.tolist()),
        (single("LeakyRelu", (1, 1, 2, 2), (1, 1, 2, 2), {"alpha": 1}), X.tolist()),
    ],
)  # fmt: skip
def test_forms_of_older_opsets_are_brought_up_to_date(graph: Graph, expected: list[Any]) -> None:
    parsed(graph)
    (output,) = run(graph, X)
    assert np.array_equal(output, np.asarray(expected, np.float32))


def test_an_attribute_becomes_an_input_only_where_the_opset_asks_for_it() -> None:
    b = GraphBuilder("mixed")
    x = b.reduce_mean(b.input((1, 4, 2, 2)), (2, 3))
    old = b.finish(x)
    new = b.finish(b.op("Gelu", [x])[0])
    assert [len(node.input) for node in parsed(old).graph.node] == [1]
    assert [len(node.input) for node in parsed(new).graph.node] == [2, 1]
    values = np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)
    assert np.allclose(run(old, values)[0].ravel(), [1.5, 5.5, 9.5, 13.5])


def test_statistics_that_only_training_needs_are_dropped() -> None:
    b = GraphBuilder("old_bn")
    graph = b.finish(b.batch_norm(b.input((1, 4, 2, 2))))
    (node,) = graph.nodes
    extra = ("mean", "var", "saved_mean", "saved_var")
    old = replace(node, outputs=(*node.outputs, *extra), attributes={**node.attributes, "spatial": 1})
    tensors = {**graph.tensors, **{name: Tensor((4,)) for name in extra}}
    (written,) = parsed(replace(graph, nodes=(old,), tensors=tensors)).graph.node
    assert list(written.output) == list(node.outputs)
    assert [attribute.name for attribute in written.attribute] == ["epsilon"]


def test_attributes_of_other_formats_are_not_written() -> None:
    b = GraphBuilder("in_groups")
    graph = b.finish(b.conv(b.input((1, 4, 8, 8)), 4, 3, groups=4))
    marked = replace(graph, nodes=tuple(replace(node, attributes={**node.attributes, IN_GROUPS: 1}) for node in graph.nodes))
    assert to_onnx(marked) == to_onnx(graph)


@pytest.mark.parametrize(
    ("graph", "problem"),
    [
        (single("NoSuchOperator", (1, 4), (1, 4), {}), "'it' is a NoSuchOperator"),
        (single("Relu", (1, 4), (1, 4), {}, domain="my.domain"), r"my\.domain\.Relu"),
        (single("Relu", (1, 4), (1, 4), {"slope": 2.0}), "'it'.* no attribute 'slope'"),
        (single("Relu", (1, 4), (1, 4), {}, {"more": np.zeros(1, np.float32)}), "'it'.* at most 1 input"),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_node_that_onnx_cannot_express_is_refused_by_name(graph: Graph, problem: str, precision: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=problem):
        to_onnx(graph, precision=precision)


def test_contributed_operators_are_written_with_their_domain() -> None:
    graph = single("QuickGelu", (1, 4), (1, 4), {"alpha": 1.0}, domain="com.microsoft")
    model = onnx.load_from_string(to_onnx(graph))
    assert {(entry.domain, entry.version) for entry in model.opset_import} == {("", 17), ("com.microsoft", 1)}
    x = np.array([[0.0, 1.0, -1.0, 3.0]], np.float32)
    assert np.allclose(run(graph, x)[0], x / (1 + np.exp(-x)))


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(LatcastError, match="fp13"):
        to_onnx(CONTRACT_NETWORKS["conv_stack"](), precision="fp13")


def test_more_weights_than_a_file_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_writer, "LARGEST_FILE_BYTES", 1000)
    with pytest.raises(ModelError, match="GB of weights"):
        to_onnx(CONTRACT_NETWORKS["conv_stack"]())


@pytest.mark.parametrize(("dtype", "lowest", "highest"), [("int8", -127, 127), ("uint8", 1, 255)])
def test_weights_of_an_integer_type_fill_their_range(dtype: str, lowest: int, highest: int) -> None:
    graph = Graph(
        "w", (Node("Gather", "it", ("w", "x"), ("y",)),), ("x",), ("y",),
        {"w": Tensor((50, 40), dtype), "x": Tensor((3,), "int64"), "y": Tensor((3, 40), dtype)}, frozenset({"w"}),
    )  # fmt: skip
    weight = typed_weights(graph)["w"]
    assert weight.dtype == dtype
    assert weight.min() >= lowest
    assert weight.max() <= highest
    assert weight.min() == lowest or weight.max() == highest
    parsed(graph)


def test_a_graph_that_is_already_quantised_is_written_unchanged() -> None:
    scale, zero = np.float32(0.1), np.uint8(3)
    constants = {"scale": np.asarray(scale), "zero": np.asarray(zero)}
    nodes = (
        Node("QuantizeLinear", "q", ("x", "scale", "zero"), ("i",)),
        Node("DequantizeLinear", "d", ("i", "scale", "zero"), ("y",)),
    )
    tensors = {"x": Tensor((1, 4)), "i": Tensor((1, 4), "uint8"), "y": Tensor((1, 4)),
               "scale": Tensor(()), "zero": Tensor((), "uint8")}  # fmt: skip
    graph = Graph("qdq", nodes, ("x",), ("y",), tensors, constants=constants, precision="int8")
    assert [node.name for node in parsed(graph, precision="int8").graph.node] == ["q", "d"]
