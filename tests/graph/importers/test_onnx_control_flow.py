"""Branches, loops, functions and sequences of ONNX disappear, or the error says why they cannot."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from latcast.errors import ModelError
from latcast.graph.importers import load_graph
from latcast.graph.input_values import parse_values
from latcast.graph.operators import graph_macs, node_flops
from tests.graph.importers.onnx_models import body, model, node, value, zeros
from tests.graph.op_types import op_types


def condition(flag: bool) -> onnx.NodeProto:
    return node("Constant", [], ["flag"], value=numpy_helper.from_array(np.asarray(flag), "flag"))


def branching(*first: onnx.NodeProto) -> onnx.ModelProto:
    then, other = body([node("Relu", ["x"], ["r"])], [], ["r"]), body([node("Neg", ["x"], ["n"])], [], ["n"])
    choice = node("If", ["flag"], ["a"], name="choice", then_branch=then, else_branch=other)
    return model([*first, choice, node("Abs", ["a"], ["y"])], {"x": (1, 3)}, ["y"])


@pytest.mark.parametrize(("flag", "chosen"), [(True, "Relu"), (False, "Neg")])
def test_a_branch_whose_condition_is_known_is_inlined(flag: bool, chosen: str) -> None:
    assert op_types(load_graph(branching(condition(flag)))) == [chosen, "Abs"]


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

    assert op_types(load_graph(model(nodes, {"x": (1, 3)}, ["y"]))) == ["Relu", "Add"]


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

    assert Counter(op_types(graph)) == {"MatMul": 3, "Relu": 3, "Unsqueeze": 3, "Concat": 1}
    assert graph.parameter_count == 9
    assert graph.shape("all") == (3, 1, 3)


def test_a_loop_without_an_end_in_sight_is_refused() -> None:
    proto = looping(np.asarray(3), node("Relu", ["state"], ["next"]), node("Neg", ["state"], ["seen"]))
    proto.graph.initializer.pop()
    proto.graph.input.append(value("rounds", (), onnx.TensorProto.INT64))

    with pytest.raises(ModelError, match=r"node 'loop' \(Loop\) decides at run time how often"):
        load_graph(proto)
    with pytest.raises(ModelError, match=r"at least 4,097 rounds of loops; at most 4,096 are read; export the model with fewer"):
        load_graph(looping(np.asarray(100000), node("Relu", ["state"], ["next"]), node("Neg", ["state"], ["seen"])))


def test_a_loop_that_may_end_early_is_predicted_with_all_its_rounds() -> None:
    inputs = [value("i", (), INT64), value("go", (), onnx.TensorProto.BOOL), value("state", (1, 3))]
    steps = [
        node("MatMul", ["state", "w"], ["next"]), node("ReduceMax", ["next"], ["most"], keepdims=0),
        node("Less", ["most", "limit"], ["going"]),
    ]  # fmt: skip
    loop = node("Loop", ["rounds", "", "x"], ["y"], name="loop", body=body(steps, inputs, ["going", "next"]))
    stored = {"rounds": np.asarray(7), "w": zeros(3, 3), "limit": np.float32(1)}

    graph = load_graph(model([loop], {"x": (1, 3)}, ["y"], stored))

    assert graph_macs(graph) == 7 * 3 * 3
    assert graph.notes == ("node 'loop' (Loop) runs at most 7 rounds, all of which are predicted",)


def test_functions_of_the_model_are_inlined() -> None:
    function = helper.make_function(
        "local", "Block", ["a"], ["b"], [node("Relu", ["a"], ["r"]), node("Neg", ["r"], ["b"])], [helper.make_opsetid("", 20)]
    )
    nodes = [node("Block", ["x"], ["h"], domain="local"), node("Block", ["h"], ["y"], domain="local")]
    proto = model(nodes, {"x": (1, 3)}, ["y"], domains=["local"], functions=[function])

    assert op_types(load_graph(proto)) == ["Relu", "Neg", "Relu", "Neg"]


def test_sequences_are_followed() -> None:
    nodes = [
        node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        node("SequenceAt", ["parts", "last"], ["b"]),
        node("SequenceConstruct", ["b", "x"], ["again"]),
        node("ConcatFromSequence", ["again"], ["y"], axis=1),
    ]

    graph = load_graph(model(nodes, {"x": (1, 5)}, ["y"], {"two": np.asarray(2), "last": np.asarray(-1)}))

    assert op_types(graph) == ["Split", "Concat"]
    assert [graph.shape(name) for name in graph.nodes[0].outputs] == [(1, 2), (1, 2), (1, 1)]
    assert graph.shape("y") == (1, 6)


# Values that are given for inputs

INT64, FLOAT, BOOL = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL


def by_rate() -> onnx.ModelProto:
    """A network that multiplies by one of two matrices: by 3x5 at a rate of 16000, by 3x7 otherwise."""
    other, then = (body([node("MatMul", ["x", name], ["r"])], [], ["r"]) for name in ("b", "a"))
    nodes = [node("Equal", ["rate", "k"], ["flag"]), node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    inputs = [value("x", (1, 3)), value("rate", (), INT64)]
    return model(nodes, inputs, ["y"], {"k": np.asarray(16000), "a": zeros(3, 5), "b": zeros(3, 7)})


@pytest.mark.parametrize(("rate", "width"), [(16000, 5), (8000, 7), ([8000], 7), (np.asarray(16000.0), 5)])
def test_a_given_value_decides_a_branch(rate: object, width: int) -> None:
    graph = load_graph(by_rate(), values={"rate": rate})

    assert graph.shape("y") == (1, width)
    assert graph.inputs == ("x", "rate")
    assert op_types(graph) == ["MatMul"]


def test_the_refusal_of_a_branch_names_the_input_that_decides_and_a_value() -> None:
    with pytest.raises(ModelError, match=r"input 'rate' decides it; give a value: --value rate=16000$"):
        load_graph(by_rate())


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"rat": 1}, "a value is given for 'rat', which is no input; the inputs are: x, rate"),
        ({"rate": 1.5}, "the values given for input 'rate' are not of its type, int64"),
        ({"rate": "fast"}, "the values given for input 'rate' are no numbers; expected int64"),
        ({"rate": [1, 2]}, r"input 'rate' has the shape \[\]; the values given for it have \[2\]"),
        ({"rate": [[1], [2, 3]]}, "the values given for input 'rate' make no array"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, object], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        load_graph(by_rate(), values=values)


def test_a_given_value_says_how_often_a_loop_runs() -> None:
    proto = looping(np.asarray(3), node("Relu", ["state"], ["next"]), node("Neg", ["state"], ["seen"]))
    proto.graph.initializer.pop()
    proto.graph.input.append(value("rounds", (), INT64))

    graph = load_graph(proto, values={"rounds": 4})

    assert Counter(op_types(graph))["Relu"] == 4
    assert graph.shape("all") == (4, 1, 3)


def test_a_loop_without_a_number_of_rounds_runs_while_its_condition_holds() -> None:
    inputs = [value("i", (), INT64), value("go", (), BOOL), value("state", (1, 3))]
    steps = [node("Relu", ["state"], ["next"]), node("Add", ["i", "one"], ["n"]), node("Less", ["n", "limit"], ["going"])]
    loop = node("Loop", ["", "true", "x"], ["y"], body=body(steps, inputs, ["going", "next"]))
    stored = {"one": np.asarray(1), "true": np.asarray(True)}
    proto = model([loop], [value("x", (1, 3)), value("limit", (), INT64)], ["y"], stored)

    assert op_types(load_graph(proto, values={"limit": 5})) == ["Relu"] * 5
    with pytest.raises(ModelError, match="input 'limit' decides it; give a value: --value limit=1"):
        load_graph(proto)


@pytest.mark.parametrize(
    ("nodes", "number", "shape"),
    [
        ([node("Reshape", ["x", "n"], ["y"])], [8, 4], (8, 4)),
        ([node("Expand", ["x", "n"], ["y"])], [5, 4, 8], (5, 4, 8)),
        ([node("Slice", ["x", "z", "n"], ["y"])], [2, 6], (2, 6)),
        ([node("Resize", ["x", "", "", "n"], ["y"], mode="nearest")], [8, 16], (8, 16)),
        ([node("Tile", ["x", "n"], ["y"])], [1, 3], (4, 24)),
        ([node("ConstantOfShape", ["n"], ["c"]), node("Add", ["c", "x"], ["y"])], [2, 1, 1], (2, 4, 8)),
        (
            [node("Squeeze", ["n"], ["s"]), node("Range", ["zero", "s", "one"], ["r"]), node("Unsqueeze", ["r", "one1"], ["c"]),
             node("Cast", ["c"], ["f"], to=1), node("Mul", ["f", "row"], ["m"]), node("MatMul", ["m", "x"], ["y"])],
            [6], (6, 8),
        ),
    ],
)  # fmt: skip
def test_a_given_value_is_a_size(nodes: list[onnx.NodeProto], number: list[int], shape: tuple[int, ...]) -> None:
    stored = {
        "z": np.asarray([0, 0]), "zero": np.asarray(0), "one": np.asarray(1), "one1": np.asarray([1]), "row": zeros(1, 4),
    }  # fmt: skip
    proto = model(nodes, [value("x", (4, 8)), value("n", (len(number),), INT64)], ["y"], stored)

    assert load_graph(proto, values={"n": number}).shape("y") == shape
    with pytest.raises(ModelError, match=r"input 'n' decides it; give a value: --value n=") as refused:
        load_graph(proto)
    load_graph(proto, values=parse_values([str(refused.value).split("--value ")[1]]))


def test_a_length_that_the_network_computes_is_given_as_a_value() -> None:
    """As a synthesiser of speech decides how many frames each sound takes."""
    nodes = [
        node("MatMul", ["x", "w"], ["durations"]), node("ReduceSum", ["durations"], ["sum"], keepdims=0),
        node("Cast", ["sum"], ["length"], to=INT64), node("Range", ["zero", "length", "one"], ["places"]),
        node("Gather", ["table", "places"], ["frames"]), node("MatMul", ["frames", "w"], ["y"]),
    ]  # fmt: skip
    stored = {"w": zeros(8, 8), "zero": np.asarray(0), "one": np.asarray(1), "table": zeros(500, 8)}
    proto = model(nodes, {"x": (9, 8)}, ["y"], stored)

    with pytest.raises(ModelError, match=r"computes 'length' at run time; give its value: --value length=100$") as refused:
        load_graph(proto)

    graph = load_graph(proto, values=parse_values([str(refused.value).split("--value ")[1]]))
    assert graph.shape("y") == (100, 8)
    assert graph_macs(graph) == 9 * 8 * 8 + 100 * 8 * 8
    with pytest.raises(ModelError, match="a value is given for 'lengths', which is no input; the inputs are: x"):
        load_graph(proto, values={"lengths": 100})
    with pytest.raises(
        ModelError, match="a value is given for 'a/length', which is no input and nothing that the network computes"
    ):
        load_graph(model(nodes[:1], {"x": (9, 8)}, ["durations"], stored), values={"a/length": 100})


@pytest.mark.parametrize("axis", [np.asarray(0), np.asarray([-1])])
def test_durations_given_for_an_input_add_up_to_a_length(axis: np.ndarray) -> None:
    nodes = [
        node("CumSum", ["n", "axis"], ["ends"]), node("Gather", ["ends", "last"], ["length"]),
        node("Range", ["zero", "length", "one"], ["y"]),
    ]  # fmt: skip
    stored = {"axis": axis, "last": np.asarray([-1]), "zero": np.asarray([0]), "one": np.asarray(1)}
    proto = model(nodes, [value("n", (4,), INT64)], ["y"], stored)

    assert load_graph(proto, values={"n": [2, 3, 5, 1]}).shape("y") == (11,)
    with pytest.raises(ModelError, match=r"input 'n' decides it; give a value: --value n=1$"):
        load_graph(proto)


def test_a_given_count_is_taken_instead_of_the_largest() -> None:
    proto = model([node("TopK", ["x", "n"], ["y", "i"])], [value("x", (4, 8)), value("n", (1,), INT64)], ["y"])

    assert load_graph(proto).shape("y") == (4, 8)
    assert load_graph(proto, values={"n": 3}).shape("y") == (4, 3)


def test_computing_with_a_given_value_stays_in_the_network() -> None:
    nodes = [node("Cast", ["t"], ["f"], to=1), node("MatMul", ["f", "w"], ["y"])]
    proto = model(nodes, [value("t", (1, 4), INT64)], ["y"], {"w": zeros(4, 9)})

    assert op_types(load_graph(proto, values={"t": 3})) == ["Cast", "MatMul"]


def test_what_a_given_size_makes_is_computed_by_the_network() -> None:
    window = [node("Range", ["zero", "n", "one"], ["places"]), node("Cast", ["places"], ["f"], to=1), node("Cos", ["f"], ["y"])]
    numbers = {"zero": np.asarray(0), "one": np.asarray(1)}
    ones = [node("ConstantOfShape", ["n"], ["o"]), node("Relu", ["o"], ["y"])]

    ranged = load_graph(model(window, [value("n", (), INT64)], ["y"], numbers), values={"n": 5000})
    filled = load_graph(model(ones, [value("n", (2,), INT64)], ["y"]), values={"n": [50, 200]})

    assert [each.op_type for each in ranged.nodes] == ["Range", "Cast", "Cos"]
    assert ranged.shape("y") == (5000,)
    assert [each.op_type for each in filled.nodes] == ["Expand", "Relu"]
    assert filled.shape("y") == (50, 200)


def test_a_computed_size_that_the_file_records_needs_no_value() -> None:
    proto = model([node("ConstantOfShape", ["n"], ["y"])], [value("n", (2,), INT64)], [])
    proto.graph.output.append(value("y", (4, 3)))

    assert load_graph(proto).shape("y") == (4, 3)


def test_a_value_is_given_instead_of_a_default() -> None:
    inputs = [value("x", (4, 8)), value("n", (2,), INT64)]
    proto = model([node("Reshape", ["x", "n"], ["y"])], inputs, ["y"], {"n": np.asarray([8, 4])})

    assert load_graph(proto).shape("y") == (8, 4)
    assert load_graph(proto, values={"n": [2, 16]}).shape("y") == (2, 16)


def test_a_given_value_gives_dynamic_dimensions_their_sizes() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": ("n", 3)}, ["y"])

    assert load_graph(proto, values={"x": np.zeros((5, 3))}).shape("y") == (5, 3)
    assert load_graph(proto, values={"x": [1, 2, 3, 4, 5, 6]}).shape("y") == (2, 3)
    assert load_graph(proto, values={"x": 0.5}).shape("y") == (1, 3)


# Scans and maps


def scanning(opset: int, inputs: dict[str, tuple[int, ...]], item: tuple[int, ...], **attributes: object) -> onnx.ModelProto:
    """A scan over ``xs`` of a state of four numbers that a matrix 4x4 is applied to in every round."""
    steps = [node("MatMul", ["h", "w"], ["hw"]), node("Add", ["hw", "x"], ["next"]), node("Neg", ["next"], ["out"])]
    inner = helper.make_graph(
        steps, "body", [value("h", (1, 4)), value("x", item)], [value("next", (1, 4)), value("out", (1, 4))],
        [numpy_helper.from_array(zeros(4, 4), "w")],
    )  # fmt: skip
    names = [""] * (opset == 8) + ["h0", "xs"]
    scan = node("Scan", names, ["last", "all"], body=inner, num_scan_inputs=1, **attributes)
    return model([scan], inputs, ["last", "all"], opset=opset)


@pytest.mark.parametrize(
    ("proto", "rounds"),
    [
        (scanning(17, {"h0": (1, 4), "xs": (6, 1, 4)}, (1, 4)), 6),
        (scanning(17, {"h0": (1, 4), "xs": (1, 5, 4)}, (1, 4), scan_input_axes=[1], scan_output_axes=[1]), 5),
        (scanning(11, {"h0": (1, 4), "xs": (1, 4, 3)}, (1, 4), scan_input_axes=[-1], scan_output_axes=[-1]), 3),
        (scanning(9, {"h0": (1, 4), "xs": (7, 4)}, (4,), scan_input_directions=[1], scan_output_directions=[1]), 7),
        (scanning(8, {"h0": (2, 1, 4), "xs": (2, 5, 1, 4)}, (1, 4)), 10),
    ],
    ids=["first axis", "second axis", "last axis", "backwards", "batch of opset 8"],
)
def test_a_scan_counts_each_round(proto: onnx.ModelProto, rounds: int) -> None:
    import onnxruntime

    graph = load_graph(proto)

    assert Counter(op_types(graph))["MatMul"] == rounds
    assert sum(node_flops(graph, each) or 0 for each in graph.nodes if each.op_type == "MatMul") == 2 * 16 * rounds
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {each.name: zeros(*each.shape) for each in session.get_inputs()})
    assert [graph.shape(name) for name in graph.outputs] == [each.shape for each in found]


def test_scans_of_different_lengths_are_refused() -> None:
    steps = [node("Add", ["a", "b"], ["s"])]
    inner = body(steps, [value("a", (2,)), value("b", (2,))], ["s"])
    scan = node("Scan", ["x", "z"], ["y"], body=inner, num_scan_inputs=2, name="scan")
    with pytest.raises(ModelError, match=r"node 'scan' \(Scan\) has inputs of the lengths \[3, 4\]; expected one length"):
        load_graph(model([scan], {"x": (3, 2), "z": (4, 2)}, ["y"]))


def test_a_sequence_is_mapped_item_by_item_and_grows_in_a_loop() -> None:
    inner = body([node("Add", ["item", "bias"], ["sum"])], [value("item", None), value("bias", None)], ["sum"])
    nodes = [
        node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        node("SequenceMap", ["parts", "b"], ["mapped"], body=inner),
        node("SequenceErase", ["mapped"], ["fewer"]),
        node("ConcatFromSequence", ["fewer"], ["y"], axis=1),
    ]
    graph = load_graph(model(nodes, {"x": (1, 6)}, ["y"], {"two": np.asarray(2), "b": zeros(1, 1) + 1}))

    assert op_types(graph) == ["Split", "Add", "Add", "Concat"]
    assert graph.shape("y") == (1, 4)

    inputs = [value("i", (), INT64), value("go", (), BOOL), value("list", None)]
    step = [node("Mul", ["x", "x"], ["square"]), node("SequenceInsert", ["list", "square"], ["longer"])]
    loop = node(
        "Loop", ["three", "", "empty"], ["list3"], body=body([*step, node("Identity", ["go"], ["g"])], inputs, ["g", "longer"])
    )
    nodes = [node("SequenceEmpty", [], ["empty"]), loop, node("ConcatFromSequence", ["list3"], ["y"], axis=0, new_axis=1)]
    assert load_graph(model(nodes, {"x": (1, 6)}, ["y"], {"three": np.asarray(3)})).shape("y") == (3, 1, 6)
