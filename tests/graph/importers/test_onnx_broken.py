"""Unknown operators are kept where that is possible; broken models are refused in one line."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from latcast.errors import ModelError, UnknownOperatorError
from latcast.graph.importers import load_graph
from latcast.graph.operators import unknown_operators
from tests.graph.importers.onnx_models import model, node, save, value
from tests.graph.op_types import op_types

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

        assert op_types(graph) == ["custom.Conv", "Relu"]
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
    inputs = [value("x", (2, 5)), value("labels", (2,), onnx.TensorProto.INT64)]
    nodes = [node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["a"], reduction="none"), node("Neg", ["a"], ["y"])]

    graph = load_graph(model(nodes, inputs, ["y"]))

    assert unknown_operators(graph) == ["SoftmaxCrossEntropyLoss"]
    assert graph.shape("y") == (2,)


def test_what_a_refusal_says_of_an_unknown_operator_works_when_pasted() -> None:
    import re

    proto = strange(recorded=False)
    with pytest.raises(ModelError) as caught:
        load_graph(proto)

    found = re.search(r"(model\.graph\.value_info\.append\(.*?\]\)\))", str(caught.value))
    assert found is not None
    exec(found.group(1), {"model": proto, "onnx": onnx})
    assert load_graph(proto).shape("a") == (1, 64)


def test_recorded_shapes_in_symbols_have_the_sizes_given() -> None:
    nodes = [node("Odd", ["x"], ["a"], domain="custom"), node("Relu", ["a"], ["y"])]
    proto = model(nodes, {"x": ("batch", 4)}, ["y"], domains=["custom"])
    proto.graph.value_info.append(value("a", ("batch", 7)))

    assert load_graph(proto, shapes={"x": (3, 4)}).shape("y") == (3, 7)


def test_a_recorded_shape_stands_for_a_size_that_is_computed_at_run_time() -> None:
    inputs = [value("x", (2, 6)), value("s", (2,), onnx.TensorProto.INT64)]
    proto = model([node("Reshape", ["x", "s"], ["r"]), node("Relu", ["r"], ["y"])], inputs, ["y"])
    proto.graph.value_info.append(value("r", (3, 4)))

    assert load_graph(proto).shape("y") == (3, 4)
    with pytest.raises(ModelError, match="at run time"):
        load_graph(proto, shapes={"x": (4, 6)})


# Broken models


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Add", ["x", "b"], ["a"], name="one"), node("Relu", ["a"], ["b"])], "cycle through node 'one'"),
        ([node("Add", ["x", "ghost"], ["b"], name="one")], "node 'one' .Add. reads 'ghost', which no node"),
        ([node("Relu", ["x"], ["b"]), node("Neg", ["x"], ["b"])], "'b' is defined twice"),
        ([node("Relu", ["x"], ["a"])], "output 'b' is made by no node"),
        ([], "holds no operators"),
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


def test_a_reshape_that_depends_on_the_input_is_named() -> None:
    inputs = [value("x", (2, 3)), value("s", (2,), onnx.TensorProto.INT64)]

    with pytest.raises(
        ModelError, match=r"node 'r' \(Reshape\) computes 's' at run time; input 's' decides it; give .* --value s=-1,1$"
    ):
        load_graph(model([node("Reshape", ["x", "s"], ["y"], name="r")], inputs, ["y"]))


@pytest.mark.parametrize("attributes", [{}, {"num_groups": 0}, {"num_groups": 3}])
def test_groups_that_do_not_part_the_channels_are_refused(attributes: dict[str, int]) -> None:
    proto = model(
        [node("GroupNormalization", ["x", "s", "b"], ["y"], **attributes)], {"x": (1, 4, 8, 8), "s": (4,), "b": (4,)}, ["y"]
    )

    with pytest.raises(ModelError, match=r"cannot part \[4\] channels into \d groups"):
        load_graph(proto)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Conv", {"strides": [1, 1, 1]}),
        ("Conv", {"dilations": [1]}),
        ("Conv", {"pads": [0, 0]}),
        ("ConvTranspose", {"output_padding": [0, 0, 0]}),
        ("ConvTranspose", {"strides": [1]}),
        ("MaxPool", {"kernel_shape": [2, 2, 2]}),
    ],
)
def test_a_window_with_other_axes_than_its_input_is_refused(op_type: str, attributes: dict[str, list[int]]) -> None:
    inputs = {"x": (1, 4, 8, 8), "w": (4, 4, 3, 3)}
    names = ["x"] if op_type == "MaxPool" else ["x", "w"]

    with pytest.raises(ModelError, match=r"node 'one' .*(numbers; expected|does not fit an input)"):
        load_graph(model([node(op_type, names, ["y"], name="one", **attributes)], inputs, ["y"]))
