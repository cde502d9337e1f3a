"""ONNX models become graphs: their weights, constants, inputs and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from latcast.errors import DynamicShapeError, ModelError
from latcast.graph import Graph, GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_flops
from latcast.graph.writers.onnx import to_onnx
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.importers.onnx_models import integers, model, node, save, value, zeros
from tests.graph.op_types import op_types


def small_network() -> Graph:
    b = GraphBuilder("small")
    x = b.conv_bn(b.input((1, 3, 16, 16)), 8, 3, stride=2, activation="relu6")
    x = b.add(x, b.conv(x, 8, 1, bias=True))
    x = b.squeeze_excite(x, 4)
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), 10))


# The same network in and out


@pytest.mark.parametrize("name", sorted(CONTRACT_NETWORKS))
def test_a_network_written_and_read_again_is_the_same(name: str, tmp_path: Path) -> None:
    graph = CONTRACT_NETWORKS[name]()
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(graph))

    read = load_graph(path)

    assert read.structure_key == graph.structure_key
    assert read.parameter_count == graph.parameter_count
    assert graph_flops(read) == graph_flops(graph)
    assert read.name == "model"


def test_weights_that_lie_in_another_file_need_not_be_there(tmp_path: Path) -> None:
    proto = onnx.ModelProto.FromString(to_onnx(small_network()))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="model.onnx.data", size_threshold=64)
    (tmp_path / "model.onnx.data").unlink()

    assert load_graph(path).structure_key == small_network().structure_key


def test_a_reshape_target_that_lies_in_another_file_is_read_from_there(tmp_path: Path) -> None:
    proto = model([node("Reshape", ["x", "s"], ["y"])], {"x": (2, 6)}, ["y"], {"s": integers(3, 4)})
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="model.data", size_threshold=0)

    graph = load_graph(path)

    assert graph.shape("y") == (3, 4)
    np.testing.assert_array_equal(graph.constants[graph.nodes[0].inputs[1]], [3, 4])


def test_a_reshape_target_in_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    proto = model([node("Reshape", ["x", "s"], ["y"], name="flat")], {"x": (2, 6)}, ["y"], {"s": integers(3, 4)})
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="model.data", size_threshold=0)
    (tmp_path / "model.data").unlink()

    with pytest.raises(ModelError, match=r"node 'flat' \(Reshape\) needs the values of 's'.*external data"):
        load_graph(path)


def test_data_outside_the_folder_of_the_model_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(integers(3, 4).tobytes())
    folder = tmp_path / "models"
    folder.mkdir()
    proto = model([node("Reshape", ["x", "s"], ["y"])], {"x": (2, 6)}, ["y"], {"s": integers(3, 4)})
    stored = proto.graph.initializer[0]
    stored.ClearField("raw_data")
    stored.data_location = onnx.TensorProto.EXTERNAL
    stored.external_data.add(key="location", value="../secret")

    with pytest.raises(ModelError, match="needs the values"):
        load_graph(save(proto, folder))


# Weights and constants


def test_scalars_and_parameters_are_constants_and_vectors_are_weights() -> None:
    stored = {
        "half": np.asarray([0.5], np.float32),
        "scale": zeros(3, 1, 1),
        "low": np.asarray(0.0, np.float32),
        "target": integers(1, -1),
    }
    nodes = [
        node("Mul", ["x", "half"], ["a"]),
        node("Mul", ["a", "scale"], ["b"]),
        node("Clip", ["b", "low"], ["c"]),
        node("Reshape", ["c", "target"], ["y"]),
    ]

    graph = load_graph(model(nodes, {"x": (1, 3, 4, 4)}, ["y"], stored))

    assert graph.weights == {"scale"}
    assert {"half", "low"} <= set(graph.constants)
    assert graph.constants["half"] == 0.5
    assert graph.parameter_count == 3


def test_a_tensor_computed_from_weights_alone_is_a_weight() -> None:
    nodes = [
        node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        node("Identity", ["wt"], ["shared"]),
        node("MatMul", ["x", "shared"], ["y"]),
    ]

    graph = load_graph(model(nodes, {"x": (1, 100)}, ["y"], {"w": zeros(50, 100)}))

    assert op_types(graph) == ["MatMul"]
    assert graph.parameter_count == 5000
    assert graph.shape(graph.nodes[0].inputs[1]) == (100, 50)


def test_shape_arithmetic_of_exporters_is_folded() -> None:
    """x.view(n, -1, c) as the older PyTorch exporter writes it, with a division for good measure."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Constant", [], ["zero"], value_int=0),
        node("Gather", ["shape", "zero"], ["batch"], axis=0),
        node("Unsqueeze", ["batch", "first"], ["batch1"]),
        node("Shape", ["x"], ["last"], start=-1),
        node("Div", ["last", "two"], ["half"]),
        node("Cast", ["half"], ["half64"], to=7),
        node("Concat", ["batch1", "rest", "half64"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    stored = {"first": integers(0), "two": integers(2), "rest": integers(-1)}

    graph = load_graph(model(nodes, {"x": (2, 3, 8)}, ["y"], stored))

    assert op_types(graph) == ["Reshape"]
    assert graph.shape("y") == (2, 6, 4)
    assert next(iter(graph.constants.values())).tolist() == [2, 6, 4]


@pytest.mark.parametrize(
    ("way", "stored", "shape"),
    [
        ([node("Pad", ["s", "a", "b"], ["t"])], {"a": integers(0, 1), "b": np.asarray(1)}, (2, 3, 8, 1)),
        ([node("TopK", ["s", "a"], ["t", ""])], {"a": integers(3)}, (8, 3, 2)),
        ([node("Compress", ["s", "a"], ["p"]), node("Concat", ["b", "p"], ["t"], axis=0)],
         {"a": np.asarray([False, True, True]), "b": integers(-1)}, (2, 3, 8)),
        ([node("GatherND", ["s", "a"], ["t"])], {"a": np.asarray([[2], [1], [0]])}, (8, 3, 2)),
        ([node("ScatterElements", ["s", "a", "b"], ["t"])], {"a": integers(1), "b": integers(-1)}, (2, 3, 8)),
        ([node("MatMul", ["s", "a"], ["t"])], {"a": np.eye(3, dtype=np.int64)[::-1].copy()}, (8, 3, 2)),
    ],
)  # fmt: skip
def test_sizes_are_folded_however_they_are_worked_out(
    way: list[onnx.NodeProto], stored: dict[str, np.ndarray], shape: tuple[int, ...]
) -> None:
    nodes = [node("Shape", ["x"], ["s"]), *way, node("Reshape", ["x", "t"], ["y"])]

    graph = load_graph(model(nodes, {"x": (2, 3, 8)}, ["y"], stored))

    assert op_types(graph) == ["Reshape"]
    assert graph.shape("y") == shape


def test_operators_that_do_nothing_are_dropped_and_the_output_keeps_its_name() -> None:
    nodes = [
        node("Identity", ["x"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Dropout", ["b"], ["c"]),
        node("Cast", ["c"], ["d"], to=1),
        node("Concat", ["d"], ["e"], axis=1),
        node("Transpose", ["e"], ["y"], perm=[0, 1]),
    ]

    graph = load_graph(model(nodes, {"x": (1, 3)}, ["y"]))

    assert op_types(graph) == ["Relu"]
    assert graph.outputs == ("y",)
    assert graph.nodes[0].outputs == ("y",)


def test_operators_without_readers_are_dropped_even_where_they_cannot_be_understood() -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Nonsense", ["x"], ["z"], domain="nowhere"), node("Neg", ["z"], ["w"])]

    assert op_types(load_graph(model(nodes, {"x": (1, 3)}, ["y"], domains=["nowhere"]))) == ["Relu"]


def test_nodes_without_names_or_with_the_same_get_their_own() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["b"], name="r"), node("Relu", ["b"], ["y"], name="r")]

    names = [node.name for node in load_graph(model(nodes, {"x": (1, 3)}, ["y"])).nodes]

    assert len(set(names)) == 3
    assert "r" in names


# Inputs and shapes


def dynamic(shape: Sequence[int | str | None] | None) -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["y"])], {"x": shape}, ["y"])


def test_a_dimension_without_a_size_is_named_with_the_way_out() -> None:
    with pytest.raises(DynamicShapeError) as caught:
        load_graph(dynamic(("batch", 3, 224, 224)))

    assert str(caught.value) == ("graph: input 'x' has dimension 0 'batch' without a size; give it: --shape x=1,3,224,224")


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((1, None), "has dimension 1 without a size; give it: --shape x=1,128"),
        (None, "has no shape; give it: --shape x="),
        ((1, 3, "h", "w"), "has dimension 2 'h' without a size; give it: --shape x=1,3,224,224"),
    ],
)
def test_dynamic_inputs_of_other_kinds_are_named_too(shape: Sequence[int | str | None] | None, words: str) -> None:
    with pytest.raises(DynamicShapeError, match=words):
        load_graph(dynamic(shape))


def test_sizes_can_be_given_for_dynamic_inputs_and_changed_for_others() -> None:
    assert load_graph(dynamic(("batch", 3)), shapes={"x": (4, 3)}).shape("y") == (4, 3)
    assert load_graph(dynamic(None), shapes={"x": (4, 3)}).shape("y") == (4, 3)
    assert load_graph(dynamic((1, 3)), shapes={"x": [2, 3]}).shape("y") == (2, 3)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"z": (1, 3)}, "'z', which is no input; the inputs are: x"),
        ({"x": (1, 3, 1)}, r"has 2 dimensions, .*; the shape given for it has 3"),
        ({"x": (1, -3)}, "expected sizes that are not negative"),
    ],
)
def test_shapes_that_do_not_fit_the_inputs_are_refused(shapes: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        load_graph(dynamic(("batch", 3)), shapes=shapes)


@pytest.mark.parametrize(
    ("nodes", "inputs", "outputs"),
    [
        ([node("Constant", [], ["y"], value_ints=[1, 2])], {}, ()),
        ([node("Identity", ["x"], ["y"])], {"x": (2, 3)}, ("x",)),
        ([node("Relu", ["x"], ["r"]), node("Shape", ["r"], ["y"])], {"x": (2, 3)}, ()),
        ([node("Slice", ["x", "zero", "zero"], ["y"])], {"x": (2, 3)}, ()),
    ],
    ids=["constant", "the input", "sizes", "no elements"],
)
def test_a_network_whose_outputs_take_no_computing_has_no_operators(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Sequence[int]], outputs: tuple[str, ...]
) -> None:
    graph = load_graph(model(nodes, inputs, ["y"], {"zero": integers(0)}))

    assert (graph.nodes, graph.inputs, graph.outputs) == ((), tuple(inputs), outputs)


def test_a_file_whose_initializers_are_inputs_too_has_only_the_real_inputs() -> None:
    inputs = [value("x", (1, 4)), value("w", (4, 2))]

    graph = load_graph(model([node("MatMul", ["x", "w"], ["y"])], inputs, ["y"], {"w": zeros(4, 2)}))

    assert graph.inputs == ("x",)
    assert graph.weights == {"w"}


def test_an_input_that_is_a_list_of_tensors_is_refused() -> None:
    sequence = onnx.ValueInfoProto(name="x", type=helper.make_sequence_type_proto(value("t", (1,)).type))

    with pytest.raises(ModelError, match=r"input 'x' is a sequence.*a tensor for each part"):
        load_graph(model([node("Identity", ["x"], ["y"])], [sequence], ["y"]))


def test_an_optional_input_is_there() -> None:
    optional = onnx.ValueInfoProto(name="x", type=helper.make_optional_type_proto(value("t", (2, 3)).type))
    nodes = [node("OptionalGetElement", ["x"], ["a"]), node("Relu", ["a"], ["y"])]

    assert load_graph(model(nodes, [optional], ["y"])).shape("y") == (2, 3)


def test_texts_are_read_with_their_shapes() -> None:
    words = value("x", (2, 3), onnx.TensorProto.STRING)
    nodes = [node("LabelEncoder", ["x"], ["a"], domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[1]),
             node("Gather", ["table", "a"], ["y"])]  # fmt: skip

    graph = load_graph(model(nodes, [words], ["y"], {"table": zeros(10, 4)}, domains=["ai.onnx.ml"]))

    assert graph.tensors["x"].dtype == "string"
    assert graph.shape("y") == (2, 3, 4)


def test_a_sequence_that_leaves_the_network_is_its_tensors() -> None:
    nodes = [node("SplitToSequence", ["x", "size"], ["y"], axis=0)]

    graph = load_graph(model(nodes, {"x": (5, 2)}, ["y"], {"size": np.asarray(2)}))

    assert [graph.shape(name) for name in graph.outputs] == [(2, 2), (2, 2), (1, 2)]


# Layout


def channels_last(b: GraphBuilder, x: str, channels: int) -> str:
    """A convolution between transposes, as converters from channels-last frameworks write it."""
    return b.transpose(b.conv(b.transpose(x, (0, 3, 1, 2)), channels, 3), (0, 2, 3, 1))


def test_the_transposes_of_a_channels_last_exporter_are_gone_but_for_the_input(tmp_path: Path) -> None:
    b = GraphBuilder("last")
    x = b.relu6(channels_last(b, b.input((1, 16, 16, 3)), 8))
    x = b.add(x, channels_last(b, x, 8))
    last = b.finish(b.linear(b.reduce_mean(x, (1, 2), keepdims=False), 10))
    b = GraphBuilder("first")
    x = b.relu6(b.conv(b.transpose(b.input((1, 16, 16, 3)), (0, 3, 1, 2)), 8, 3))
    x = b.add(x, b.conv(x, 8, 3))
    first = b.finish(b.linear(b.reduce_mean(x, (2, 3), keepdims=False), 10))
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(last))

    assert load_graph(path).structure_key == first.structure_key
