"""ONNX models of every kind become graphs, or say in one line why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from latcast.errors import DynamicShapeError, ModelError, UnknownOperatorError
from latcast.graph import Graph, GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_flops, graph_macs, unknown_operators
from latcast.graph.writers.onnx import to_onnx
from latcast.runtimes.contract_networks import CONTRACT_NETWORKS
from tests.graph.importers.onnx_models import body, integers, model, node, save, value, zeros


def operators(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


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


def test_a_model_in_memory_gives_the_graph_of_its_file(tmp_path: Path) -> None:
    content = to_onnx(small_network())
    path = tmp_path / "model.onnx"
    path.write_bytes(content)

    assert load_graph(onnx.ModelProto.FromString(content)).structure_key == load_graph(path).structure_key


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


def test_a_weight_of_one_element_stays_a_weight() -> None:
    proto = model([node("PRelu", ["x", "slope"], ["y"])], {"x": (1, 3, 4, 4)}, ["y"], {"slope": zeros(1)})

    assert load_graph(proto).weights == {"slope"}


def test_what_is_computed_from_weights_alone_is_a_weight() -> None:
    nodes = [
        node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        node("Identity", ["wt"], ["shared"]),
        node("MatMul", ["x", "shared"], ["y"]),
    ]

    graph = load_graph(model(nodes, {"x": (1, 100)}, ["y"], {"w": zeros(50, 100)}))

    assert operators(graph) == ["MatMul"]
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

    assert operators(graph) == ["Reshape"]
    assert graph.shape("y") == (2, 6, 4)
    assert list(graph.constants.values())[0].tolist() == [2, 6, 4]


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

    assert operators(graph) == ["Relu"]
    assert graph.outputs == ("y",)
    assert graph.nodes[0].outputs == ("y",)


def test_operators_without_readers_are_dropped_even_where_they_cannot_be_understood() -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Nonsense", ["x"], ["z"], domain="nowhere"), node("Neg", ["z"], ["w"])]

    assert operators(load_graph(model(nodes, {"x": (1, 3)}, ["y"], domains=["nowhere"]))) == ["Relu"]


def test_outputs_of_training_are_left_out() -> None:
    vector = zeros(4)
    nodes = [
        node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "mean", "var"], training_mode=1),
        node("LayerNormalization", ["y", "g"], ["z", "average", "deviation"]),
    ]
    stored = {name: vector for name in ("s", "b", "m", "v")} | {"g": zeros(5)}

    graph = load_graph(model(nodes, {"x": (1, 4, 5, 5)}, ["z"], stored))

    assert [len(node.outputs) for node in graph.nodes] == [1, 1]


def test_nodes_without_names_or_with_the_same_get_their_own() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["b"], name="r"), node("Relu", ["b"], ["y"], name="r")]

    names = [node.name for node in load_graph(model(nodes, {"x": (1, 3)}, ["y"])).nodes]

    assert len(set(names)) == 3
    assert "r" in names


def test_half_precision_is_recognised() -> None:
    half = np.float16
    inputs = [value("x", (1, 8), onnx.TensorProto.FLOAT)]
    nodes = [
        node("Cast", ["x"], ["a"], to=onnx.TensorProto.FLOAT16),
        node("MatMul", ["a", "w"], ["b"]),
        node("Cast", ["b"], ["y"], to=onnx.TensorProto.FLOAT),
    ]

    graph = load_graph(model(nodes, inputs, ["y"], {"w": np.zeros((8, 4), half)}))

    assert graph.precision == "fp16"
    assert operators(graph) == ["Cast", "MatMul", "Cast"]


# Inputs and shapes


def dynamic(shape: Sequence[int | str | None] | None) -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["y"])], {"x": shape}, ["y"])


def test_a_dimension_without_a_size_is_named_with_the_way_out() -> None:
    with pytest.raises(DynamicShapeError) as caught:
        load_graph(dynamic(("batch", 3, 224, 224)))

    assert str(caught.value) == (
        "graph: input 'x' has dimension 0 'batch' without a size; give it: --shape x=1,3,224,224"
    )


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
        ({"x": (1, 3, 1)}, "has 2 dimensions; the shape given for it has 3"),
        ({"x": (1, 0)}, r"of shape \[1, 0\] is empty"),
    ],
)
def test_shapes_that_do_not_fit_the_inputs_are_refused(shapes: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        load_graph(dynamic(("batch", 3)), shapes=shapes)


def test_a_file_whose_initializers_are_inputs_too_has_only_the_real_inputs() -> None:
    inputs = [value("x", (1, 4)), value("w", (4, 2))]

    graph = load_graph(model([node("MatMul", ["x", "w"], ["y"])], inputs, ["y"], {"w": zeros(4, 2)}))

    assert graph.inputs == ("x",)
    assert graph.weights == {"w"}


def test_inputs_that_are_no_tensors_of_numbers_are_refused() -> None:
    sequence = onnx.ValueInfoProto(name="x", type=helper.make_sequence_type_proto(value("t", (1,)).type))
    text = value("x", (1,), onnx.TensorProto.STRING)

    with pytest.raises(ModelError, match="input 'x' is a sequence"):
        load_graph(model([node("Identity", ["x"], ["y"])], [sequence], ["y"]))
    with pytest.raises(ModelError, match="'x' has elements of type string"):
        load_graph(model([node("Identity", ["x"], ["y"])], [text], ["y"]))


# Operators outside the table


def strange(*, recorded: bool) -> onnx.ModelProto:
    nodes = [node("Conv", ["x"], ["a"], name="odd", domain="custom"), node("Relu", ["a"], ["y"])]
    proto = model(nodes, {"x": (1, 3, 4, 4)}, ["y"], domains=["custom"])
    if recorded:
        proto.graph.value_info.append(value("a", (1, 5, 2, 2)))
    return proto


def test_an_unknown_operator_is_kept_with_the_shapes_that_the_file_records(tmp_path: Path) -> None:
    for source in (strange(recorded=True), save(strange(recorded=True), tmp_path)):
        graph = load_graph(source)

        assert operators(graph) == ["custom.Conv", "Relu"]
        assert unknown_operators(graph) == ["custom.Conv"]
        assert graph.shape("y") == (1, 5, 2, 2)


def test_an_unknown_operator_without_shapes_is_named() -> None:
    with pytest.raises(ModelError, match=r"node 'odd' is a 'custom::Conv'.*value_info"):
        load_graph(strange(recorded=False))


def test_recorded_shapes_do_not_hold_for_other_input_shapes() -> None:
    with pytest.raises(ModelError, match="custom::Conv"):
        load_graph(strange(recorded=True), shapes={"x": (2, 3, 4, 4)})


def test_strictness_refuses_unknown_operators() -> None:
    with pytest.raises(UnknownOperatorError, match=r"node 'odd' is a 'custom::Conv'"):
        load_graph(strange(recorded=True), strict=True)


def test_an_operator_of_onnx_that_the_table_lacks_gets_its_shape_from_onnx() -> None:
    graph = load_graph(model([node("Det", ["x"], ["a"]), node("Neg", ["a"], ["y"])], {"x": (2, 5, 3, 3)}, ["y"]))

    assert unknown_operators(graph) == ["Det"]
    assert graph.shape("y") == (2, 5)


# Broken models


def test_nodes_out_of_order_are_sorted() -> None:
    nodes = [node("Relu", ["a"], ["y"]), node("Neg", ["x"], ["a"])]

    assert operators(load_graph(model(nodes, {"x": (1, 3)}, ["y"]))) == ["Neg", "Relu"]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Add", ["x", "b"], ["a"], name="one"), node("Relu", ["a"], ["b"])], "cycle through node 'one'"),
        ([node("Add", ["x", "ghost"], ["b"], name="one")], "node 'one' .Add. reads 'ghost', which no node"),
        ([node("Relu", ["x"], ["b"]), node("Neg", ["x"], ["b"])], "'b' is defined twice"),
        ([node("Relu", ["x"], ["a"])], "output 'b' is made by no node"),
        ([], "holds no operators"),
        ([node("Identity", ["x"], ["b"])], "nothing to predict"),
        ([node("Constant", [], ["b"], value_int=1)], "nothing to predict"),
        ([node("Add", ["x"], ["b"], name="one")], "node 'one'"),
        ([node("Slice", ["x", "x", "x"], ["b"], name="one")], "node 'one'"),
        ([node("Transpose", ["x"], ["b"], perm=[0, 5], name="one")], "node 'one'"),
        ([node("Conv", ["x", "x"], ["b"], name="one", strides=[0, 0])], "node 'one'"),
        ([node("Constant", [], ["s"], value_ints=[0]), node("Expand", ["x", "s"], ["b"], name="one")], "node 'one'"),
    ],
)
def test_broken_graphs_are_refused_in_one_line_that_names_the_file_and_the_place(
    nodes: list[onnx.NodeProto], words: str, tmp_path: Path
) -> None:
    path = save(model(nodes, {"x": (1, 3)}, ["b"]), tmp_path, "broken.onnx")

    with pytest.raises(ModelError, match=words) as caught:
        load_graph(path)

    assert "broken.onnx" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tensor_without_elements_is_refused() -> None:
    nodes = [node("Slice", ["x", "s", "s"], ["y"], name="none")]

    with pytest.raises(ModelError, match=r"node 'none' \(Slice\) has an empty output of shape \[0, 3\]"):
        load_graph(model(nodes, {"x": (2, 3)}, ["y"], {"s": integers(0)}))


def test_old_opsets_that_mean_other_things_are_refused() -> None:
    with pytest.raises(ModelError, match=r"opset 6; expected 7 or later.*version_converter"):
        load_graph(model([node("Relu", ["x"], ["y"])], {"x": (1, 3)}, ["y"], opset=6))


def test_a_reshape_that_depends_on_the_input_is_named() -> None:
    inputs = [value("x", (2, 3)), value("s", (2,), onnx.TensorProto.INT64)]

    with pytest.raises(ModelError, match=r"node 'r' \(Reshape\) computes its 'shape' at run time"):
        load_graph(model([node("Reshape", ["x", "s"], ["y"], name="r")], inputs, ["y"]))


@settings(max_examples=150)
@given(data=st.data())
def test_a_damaged_file_never_ends_in_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    b = GraphBuilder("network")
    x = b.conv_bn(b.input((1, 3, 8, 8)), 4, 3)
    content = bytearray(to_onnx(b.finish(b.linear(b.reshape(b.slice(x, (0,), (2,), (1,)), (1, 128)), 3))))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    path.write_bytes(bytes(content))

    try:
        graph = load_graph(path)
    except ModelError as error:
        assert "model.onnx" in str(error)
    else:
        assert graph.nodes


# Branches, loops, functions, sequences


def condition(flag: bool) -> onnx.NodeProto:
    return node("Constant", [], ["flag"], value=numpy_helper.from_array(np.asarray(flag), "flag"))


def branching(*first: onnx.NodeProto) -> onnx.ModelProto:
    then, other = body([node("Relu", ["x"], ["r"])], [], ["r"]), body([node("Neg", ["x"], ["n"])], [], ["n"])
    choice = node("If", ["flag"], ["a"], name="choice", then_branch=then, else_branch=other)
    return model([*first, choice, node("Abs", ["a"], ["y"])], {"x": (1, 3)}, ["y"])


@pytest.mark.parametrize(("flag", "chosen"), [(True, "Relu"), (False, "Neg")])
def test_a_branch_whose_condition_is_known_is_inlined(flag: bool, chosen: str) -> None:
    assert operators(load_graph(branching(condition(flag)))) == [chosen, "Abs"]


def test_a_branch_on_a_shape_is_inlined() -> None:
    """As the older PyTorch exporter writes squeeze."""
    first = [
        node("Shape", ["x"], ["shape"], start=0, end=1),
        node("Constant", [], ["one"], value_ints=[1]),
        node("Equal", ["shape", "one"], ["flag"]),
    ]

    assert operators(load_graph(branching(*first))) == ["Relu", "Abs"]


def test_a_branch_that_depends_on_the_input_is_refused_with_the_reason() -> None:
    first = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Constant", [], ["zero"], value_float=0.0),
        node("Greater", ["sum", "zero"], ["flag"]),
    ]

    with pytest.raises(ModelError, match=r"node 'choice' \(If\) chooses its branch at run time"):
        load_graph(branching(*first))


def test_nested_branches_see_the_names_around_them() -> None:
    inner = node(
        "If",
        ["flag"],
        ["deep"],
        then_branch=body([node("Add", ["half", "x"], ["r"])], [], ["r"]),
        else_branch=body([node("Neg", ["x"], ["r"])], [], ["r"]),
    )
    outer = body([node("Relu", ["x"], ["half"]), inner], [], ["deep"])
    nodes = [condition(True), node("If", ["flag"], ["y"], then_branch=outer, else_branch=outer)]

    assert operators(load_graph(model(nodes, {"x": (1, 3)}, ["y"]))) == ["Relu", "Add"]


def looping(rounds: np.ndarray, *steps: onnx.NodeProto) -> onnx.ModelProto:
    boolean, integer = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
    inputs = [value("i", (), integer), value("go", (), boolean), value("state", (1, 3))]
    inner = body([*steps, node("Identity", ["go"], ["going"])], inputs, ["going", "next", "seen"])
    loop = node("Loop", ["rounds", "", "x"], ["y", "all"], name="loop", body=inner)
    return model([loop], {"x": (1, 3)}, ["y", "all"], {"rounds": rounds})


def test_a_loop_with_a_known_number_of_rounds_is_unrolled() -> None:
    steps = [node("MatMul", ["state", "w"], ["next"]), node("Relu", ["next"], ["seen"])]
    proto = looping(np.asarray(3), *steps)
    proto.graph.initializer.append(numpy_helper.from_array(zeros(3, 3), "w"))

    graph = load_graph(proto)

    assert Counter(operators(graph)) == {"MatMul": 3, "Relu": 3, "Unsqueeze": 3, "Concat": 1}
    assert graph.parameter_count == 9
    assert graph.shape("all") == (3, 1, 3)


def test_a_loop_without_an_end_in_sight_is_refused() -> None:
    proto = looping(np.asarray(3), node("Relu", ["state"], ["next"]), node("Neg", ["state"], ["seen"]))
    proto.graph.initializer.pop()
    proto.graph.input.append(value("rounds", (), onnx.TensorProto.INT64))

    with pytest.raises(ModelError, match=r"node 'loop' \(Loop\) decides at run time how often"):
        load_graph(proto)
    with pytest.raises(ModelError, match=r"runs 100000 times; at most"):
        load_graph(looping(np.asarray(100000), node("Relu", ["state"], ["next"]), node("Neg", ["state"], ["seen"])))


def test_functions_of_the_model_are_inlined() -> None:
    function = helper.make_function(
        "local", "Block", ["a"], ["b"], [node("Relu", ["a"], ["r"]), node("Neg", ["r"], ["b"])], [helper.make_opsetid("", 20)]
    )
    nodes = [node("Block", ["x"], ["h"], domain="local"), node("Block", ["h"], ["y"], domain="local")]
    proto = model(nodes, {"x": (1, 3)}, ["y"], domains=["local"], functions=[function])

    assert operators(load_graph(proto)) == ["Relu", "Neg", "Relu", "Neg"]


def test_sequences_are_followed() -> None:
    nodes = [
        node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        node("SequenceAt", ["parts", "last"], ["b"]),
        node("SequenceConstruct", ["b", "x"], ["again"]),
        node("ConcatFromSequence", ["again"], ["y"], axis=1),
    ]

    graph = load_graph(model(nodes, {"x": (1, 5)}, ["y"], {"two": np.asarray(2), "last": np.asarray(-1)}))

    assert operators(graph) == ["Split", "Concat"]
    assert [graph.shape(name) for name in graph.nodes[0].outputs] == [(1, 2), (1, 2), (1, 1)]
    assert graph.shape("y") == (1, 6)


# Spelling


RESPELLED = {
    "clip bounds": (
        model([node("Clip", ["x"], ["y"], min=0.0, max=6.0)], {"x": (1, 3, 8, 8)}, ["y"], opset=10),
        lambda b, x: b.clip(x, 0.0, 6.0),
    ),
    "reduction over an input": (
        model([node("ReduceMean", ["x", "a"], ["y"])], {"x": (1, 3, 8, 8)}, ["y"], {"a": integers(-1, 2)}),
        lambda b, x: b.reduce_mean(x, (2, 3)),
    ),
    "reduction over an attribute": (
        model([node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=1)], {"x": (1, 3, 8, 8)}, ["y"], opset=13),
        lambda b, x: b.reduce_mean(x, (2, 3)),
    ),
    "automatic pads": (
        model(
            [node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER")], {"x": (1, 3, 8, 8)}, ["y"], {"w": zeros(4, 3, 3, 3)}
        ),
        lambda b, x: b.conv(x, 4, 3),
    ),
    "even split": (
        model([node("Split", ["x"], ["y", "z", "w"], axis=-3)], {"x": (1, 3, 8, 8)}, ["y"], opset=13),
        lambda b, x: b.split(x, (1, 1, 1))[0],
    ),
    "reshape with placeholders": (
        model([node("Reshape", ["x", "s"], ["y"])], {"x": (1, 3, 8, 8)}, ["y"], {"s": integers(0, -1)}),
        lambda b, x: b.reshape(x, (1, 192)),
    ),
    "resize by scales": (
        model(
            [
                node(
                    "Resize",
                    ["x", "", "s"],
                    ["y"],
                    coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor",
                )
            ],
            {"x": (1, 3, 8, 8)},
            ["y"],
            {"s": np.asarray([1, 1, 2, 2], np.float32)},
        ),
        lambda b, x: b.resize(x, (16, 16)),
    ),
    "upsample": (
        model(
            [node("Upsample", ["x", "s"], ["y"])],
            {"x": (1, 3, 8, 8)},
            ["y"],
            {"s": np.asarray([1, 1, 2, 2], np.float32)},
            opset=9,
        ),
        lambda b, x: b.resize(x, (16, 16)),
    ),
    "pads as an attribute": (
        model([node("Pad", ["x"], ["y"], pads=[0, 0, 1, 1, 0, 0, 1, 1])], {"x": (1, 3, 8, 8)}, ["y"], opset=10),
        lambda b, x: b.pad(x, (0, 0, 1, 1, 0, 0, 1, 1)),
    ),
    "slice as attributes": (
        model([node("Slice", ["x"], ["y"], starts=[1], ends=[3], axes=[2])], {"x": (1, 3, 8, 8)}, ["y"], opset=9),
        lambda b, x: b.slice(x, (1,), (3,), (2,)),
    ),
    "pool with its defaults": (
        model(
            [node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=0, count_include_pad=1)],
            {"x": (1, 3, 8, 8)},
            ["y"],
        ),
        lambda b, x: b.average_pool(x, 2),
    ),
    "softmax of the last axis": (
        model([node("Softmax", ["x"], ["y"], axis=3)], {"x": (1, 3, 8, 8)}, ["y"]),
        lambda b, x: b.softmax(x),
    ),
    "a negative axis": (
        model([node("Concat", ["x", "x"], ["y"], axis=-3)], {"x": (1, 3, 8, 8)}, ["y"]),
        lambda b, x: b.concat([x, x]),
    ),
    "one sixth in single precision": (
        model([node("HardSigmoid", ["x"], ["y"], alpha=1 / 6, beta=0.5)], {"x": (1, 3, 8, 8)}, ["y"]),
        lambda b, x: b.hard_sigmoid(x),
    ),
    "transposed convolution by its output": (
        model(
            [node("ConvTranspose", ["x", "w", "b"], ["y"], output_shape=[16, 16], strides=[2, 2])],
            {"x": (1, 3, 8, 8)},
            ["y"],
            {"w": zeros(3, 5, 2, 2), "b": zeros(5)},
        ),
        lambda b, x: b.conv_transpose(x, 5),
    ),
}


@pytest.mark.parametrize("case", sorted(RESPELLED))
def test_operators_are_spelled_alike_whatever_file_they_come_from(case: str) -> None:
    proto, build = RESPELLED[case]
    b = GraphBuilder("expected")
    expected = b.finish(build(b, b.input((1, 3, 8, 8))))

    graph = load_graph(proto)

    assert graph.shape("y") == expected.shape(expected.outputs[0])
    assert graph.structure_key == expected.structure_key


def test_macs_of_a_transposed_convolution_survive_automatic_pads() -> None:
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])]

    graph = load_graph(model(nodes, {"x": (1, 3, 8, 8)}, ["y"], {"w": zeros(3, 5, 3, 3)}))

    assert graph.shape("y") == (1, 5, 16, 16)
    assert graph_macs(graph) == 3 * 64 * 5 * 9
