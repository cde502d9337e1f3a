"""Branches, loops, functions and sequences of ONNX disappear, or the error says why they cannot."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from latcast.errors import ModelError
from latcast.graph.importers import load_graph
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
