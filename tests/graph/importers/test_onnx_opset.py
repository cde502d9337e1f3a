"""Operators take one form whatever opset and exporter they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from latcast.graph import GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_macs
from tests.graph.importers.onnx_models import integers, model, node, save, zeros

NORMALISED = {
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
        model([node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER")], {"x": (1, 3, 8, 8)}, ["y"], {"w": zeros(4, 3, 3, 3)}),
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
            [node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
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


@pytest.mark.parametrize("case", sorted(NORMALISED))
def test_operators_of_all_opsets_take_one_form(case: str) -> None:
    proto, build = NORMALISED[case]
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


@pytest.mark.parametrize(("attributes", "axis"), [({"axis": 2}, 2), ({}, 1)])
def test_a_transform_of_an_old_opset_names_its_axis_as_new_ones_do(attributes: dict[str, int], axis: int) -> None:
    graph = load_graph(model([node("DFT", ["x"], ["y"], **attributes)], {"x": (3, 4, 8, 2)}, ["y"], opset=19))

    [transform] = graph.nodes
    assert transform.attributes == {}
    assert int(graph.constants[transform.inputs[2]]) == axis


# Opsets 1 to 6

OLD: Mapping[str, tuple[onnx.NodeProto, Sequence[int], Sequence[int], int]] = {
    "an operand from an axis on": (node("Add", ["x", "w"], ["y"], broadcast=1, axis=1), (3,), (2, 3, 4, 4), 6),
    "an operand at the end": (node("Mul", ["x", "w"], ["y"], broadcast=1), (4,), (2, 3, 4, 4), 6),
    "a slope for each channel": (node("PRelu", ["x", "w"], ["y"]), (3,), (2, 3, 4, 4), 6),
    "a concatenation of channels": (node("Concat", ["x", "w"], ["y"]), (2, 5, 4, 4), (2, 8, 4, 4), 1),
    "a shape that is an attribute": (node("Reshape", ["x"], ["y"], shape=[2, -1]), (), (2, 48), 4),
    "pads by their old name": (node("Pad", ["x"], ["y"], paddings=[0, 0, 1, 1, 0, 0, 1, 1]), (), (2, 3, 6, 6), 1),
    "a scale for each side": (node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0), (), (2, 3, 8, 12), 1),
    "a type by its name": (node("Cast", ["x"], ["y"], to="INT32"), (), (2, 3, 4, 4), 1),
    "a convolution": (node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3]), (5, 3, 3, 3), (2, 5, 2, 2), 1),
    "a pool": (node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2]), (), (2, 3, 2, 2), 1),
    "an activation that reuses its input": (node("Relu", ["x"], ["y"], consumed_inputs=[0]), (), (2, 3, 4, 4), 5),
    "a scaled hyperbolic tangent": (node("ScaledTanh", ["x"], ["y"], alpha=2.0, beta=0.5), (), (2, 3, 4, 4), 1),
}  # fmt: skip


@pytest.mark.parametrize("form", sorted(OLD))
def test_operators_of_the_first_opsets_are_read(form: str) -> None:
    proto, stored, shape, opset = OLD[form]
    weights = {"w": zeros(*stored)} if stored else {}

    graph = load_graph(model([proto], {"x": (2, 3, 4, 4)}, ["y"], weights, opset=opset))

    assert graph.shape("y") == shape
    assert not {"broadcast", "consumed_inputs"} & graph.nodes[-1].attributes.keys()


def test_a_file_that_does_not_say_its_opset_is_of_the_first(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (1, 3)}, ["y"])
    del proto.opset_import[:]
    proto.ir_version = 2

    assert load_graph(save(proto, tmp_path)).shape("y") == (1, 3)
