"""TFLite models become graphs in ONNX's words, channels first, that compute what LiteRT computes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.graph.op_types import op_types

pytest.importorskip("ai_edge_litert", reason="the models of these tests are written with LiteRT's schema")

from latcast.errors import ModelError, UnknownOperatorError
from latcast.graph.idioms import IN_GROUPS
from latcast.graph.importers import load_graph, tflite_file
from latcast.graph.importers.tflite_operators import CONVERSIONS
from latcast.graph.importers.tflite_recurrent import RECURRENT
from latcast.graph.operators import graph_macs, unknown_operators
from latcast.graph.writers.tflite import to_tflite
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.importers.tflite_models import (
    Dynamic,
    Operation,
    Quantized,
    Typed,
    ints,
    model,
    options,
    run,
    save,
    schema,
    zeros,
)
from tests.graph.running import run as run_onnx

Array = np.ndarray[Any, Any]


# Networks of the writer


@pytest.mark.parametrize("name", sorted(CONTRACT_NETWORKS))
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_network_written_to_tflite_and_read_again_has_the_same_work_and_shapes(
    name: str, precision: str, tmp_path: Path
) -> None:
    graph = CONTRACT_NETWORKS[name]()

    read = load_graph(save(to_tflite(graph, precision=precision), tmp_path))

    assert not unknown_operators(read)
    assert graph_macs(read) == graph_macs(graph)
    assert [read.shape(name) for name in read.inputs] == [graph.shape(name) for name in graph.inputs]
    assert [read.shape(name) for name in read.outputs] == [graph.shape(name) for name in graph.outputs]
    assert read.precision == precision
    transposes = [Counter(op_types(g))["Transpose"] for g in (graph, read)]
    assert transposes[1] <= transposes[0]


# Single operators


def conv(**values: Any) -> Any:
    return options("Conv2D", **{"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, **values})


def test_a_convolution_says_its_padding_in_numbers_and_its_activation_as_an_operator(tmp_path: Path) -> None:
    tensors = {"x": (1, 9, 8, 3), "w": zeros(5, 3, 3, 3), "b": zeros(5), "y": (1, 5, 4, 5)}
    table = conv(padding=0, strideH=2, strideW=2, fusedActivationFunction=3)

    graph = load_graph(save(model([("CONV_2D", ["x", "w", "b"], ["y"], table)], tensors, ["x"], ["y"]), tmp_path))

    assert op_types(graph) == ["Conv", "Clip"]
    attributes = graph.nodes[0].attributes
    # Nine rows need one row on each side, eight columns one at the right alone.
    assert attributes["pads"] == (1, 0, 1, 1)
    assert attributes["strides"] == (2, 2)
    assert attributes["group"] == 1
    assert [float(graph.constants[name]) for name in graph.nodes[1].inputs[1:]] == [0.0, 6.0]
    assert graph.shape("x") == (1, 3, 9, 8)
    assert graph.shape("y") == (1, 5, 5, 4)
    assert graph.shape(graph.nodes[0].inputs[1]) == (5, 3, 3, 3)
    assert graph.parameter_count == 5 * 27 + 5


@pytest.mark.parametrize(("channels", "filter_channels", "marked"), [(8, 1, True), (8, 4, False), (1, 1, False)])
def test_a_convolution_in_groups_of_one_channel_is_not_read_as_depthwise(
    channels: int, filter_channels: int, marked: bool, tmp_path: Path
) -> None:
    tensors = {"x": (1, 4, 4, channels), "w": zeros(8, 3, 3, filter_channels), "y": (1, 4, 4, 8)}

    graph = load_graph(save(model([("CONV_2D", ["x", "w"], ["y"], conv(padding=0))], tensors, ["x"], ["y"]), tmp_path))

    assert (IN_GROUPS in graph.nodes[0].attributes) == marked
    (kernel,) = find_kernels(graph, load_rules("tflite"))
    assert kernel.kernel_type == ("conv" if channels == 1 else "grouped_conv")


@pytest.mark.parametrize(("padding", "size", "kernel"), [(0, 16, 3), (1, 17, 3), (1, 16, 2), (0, 15, 3)])
def test_a_transposed_convolution_has_the_output_that_the_file_states(
    padding: int, size: int, kernel: int, tmp_path: Path
) -> None:
    tensors = {"shape": ints(1, size, size, 5), "w": zeros(5, kernel, kernel, 4), "x": (1, 8, 8, 4), "y": (1, size, size, 5)}
    table = options("TransposeConv", strideH=2, strideW=2, padding=padding)

    content = model([("TRANSPOSE_CONV", ["shape", "w", "x"], ["y"], table)], tensors, ["x"], ["y"])
    graph = load_graph(save(content, tmp_path))

    assert op_types(graph) == ["ConvTranspose"]
    assert graph.shape("y") == (1, 5, size, size)
    assert graph_macs(graph) == 64 * 4 * 5 * kernel**2


def test_a_fully_connected_layer_flattens_what_it_reads(tmp_path: Path) -> None:
    tensors = {"x": (1, 2, 2, 3), "w": zeros(7, 12), "b": zeros(7), "y": (1, 7)}
    table = options("FullyConnected", fusedActivationFunction=1)

    content = model([("FULLY_CONNECTED", ["x", "w", "b"], ["y"], table)], tensors, ["x"], ["y"])
    graph = load_graph(save(content, tmp_path))

    assert op_types(graph) == ["Reshape", "Gemm", "Relu"]
    assert graph_macs(graph) == 84


def test_a_fully_connected_layer_reads_a_vector(tmp_path: Path) -> None:
    tensors = {"x": (3,), "w": zeros(7, 3), "y": (7,)}
    content = model([("FULLY_CONNECTED", ["x", "w", ""], ["y"], options("FullyConnected"))], tensors, ["x"], ["y"])

    assert graph_macs(load_graph(save(content, tmp_path))) == 21


def test_sizes_are_divided_as_tflite_divides_and_a_constant_may_be_empty(tmp_path: Path) -> None:
    tensors = {
        "x": (8,), "a": ints(-7, -3), "b": ints(2, 2), "q": Typed((2,), "int32"), "target": Typed((2,), "int32"), "r": (4, 2),
        "s": (1,), "none": ints(), "scalar": (), "y": (4, 2),
    }  # fmt: skip
    operations: list[Operation] = [
        ("FLOOR_DIV", ["a", "b"], ["q"], None), ("NEG", ["q"], ["target"], None), ("RESHAPE", ["x", "target"], ["r"], None),
        ("RESHAPE", ["s", "none"], ["scalar"], None), ("ADD", ["r", "scalar"], ["y"], options("Add")),
    ]  # fmt: skip

    graph = load_graph(save(model(operations, tensors, ["x", "s"], ["y"]), tmp_path))

    assert graph.shape("y") == (4, 2)


def test_a_suggested_size_leaves_something_to_compute(tmp_path: Path) -> None:
    """As the frames of a sound, of which there are none below a window."""
    tensors = {
        "x": Dynamic((1,), (-1,)), "shape": Typed((1,), "int32"), "window": ints(400), "frames": Typed((1,), "int32"),
        "one": ints(1), "zero": np.asarray(0, np.int32), "axis": np.asarray(0, np.int32), "many": Typed((), "int32"),
        "step": np.asarray(1, np.int32), "places": Typed((1,), "int32"), "y": Typed((1,), "int32"),
    }  # fmt: skip
    operations: list[Operation] = [
        ("SHAPE", ["x"], ["shape"], None), ("FLOOR_DIV", ["shape", "window"], ["frames"], None),
        ("SQUEEZE", ["frames"], ["many"], options("Squeeze")), ("RANGE", ["zero", "many", "step"], ["places"], None),
        ("GATHER", ["x", "places"], ["y"], options("Gather")),
    ]  # fmt: skip

    with pytest.raises(ModelError, match=r"give it: --shape x=512$"):
        load_graph(save(model(operations, tensors, ["x"], ["y"]), tmp_path))


@pytest.mark.parametrize("padding", [0, 1])
def test_convolutions_of_volumes_count_their_windows(padding: int, tmp_path: Path) -> None:
    out = (1, 4, 5, 6) if padding == 0 else (1, 2, 3, 4)
    strides = {f"stride{axis}": 1 for axis in "DHW"} | {f"dilation{axis}Factor": 1 for axis in "DHW"}
    tensors = {"x": (1, 4, 5, 6, 2), "w": zeros(3, 3, 3, 2, 7), "b": zeros(7), "y": (*out, 7)}
    table = options("Conv3D", padding=padding, fusedActivationFunction=1, **strides)
    content = model([("CONV_3D", ["x", "w", "b"], ["y"], table)], tensors, ["x"], ["y"])
    assert run(content, [zeros(1, 4, 5, 6, 2)])[0].shape == (*out, 7)

    graph = load_graph(save(content, tmp_path))

    assert [name for name in op_types(graph) if name != "Reshape"] == ["Conv", "Relu"]
    assert graph_macs(graph) == np.prod(out) * 27 * 2 * 7


def test_a_transposed_convolution_of_volumes_has_the_output_that_the_file_states(tmp_path: Path) -> None:
    table = options(
        "Conv3D", padding=0, **{f"stride{axis}": 2 for axis in "DHW"}, **{f"dilation{axis}Factor": 1 for axis in "DHW"}
    )
    tensors = {"shape": ints(1, 4, 6, 8, 5), "w": zeros(3, 3, 3, 5, 2), "x": (1, 2, 3, 4, 2), "y": (1, 4, 6, 8, 5)}
    content = model([("CONV_3D_TRANSPOSE", ["shape", "w", "x"], ["y"], table)], tensors, ["x"], ["y"])
    run(content, [zeros(1, 2, 3, 4, 2)])

    graph = load_graph(save(content, tmp_path))

    assert graph.shape("y") == (1, 4, 6, 8, 5)
    assert graph_macs(graph) == 24 * 27 * 2 * 5


def test_the_transposed_convolution_of_mediapipe_is_one_of_ours(tmp_path: Path) -> None:
    tensors = {"x": (1, 8, 8, 4), "w": zeros(5, 2, 2, 4), "b": zeros(5), "y": (1, 16, 16, 5)}

    content = model([("custom:Convolution2DTransposeBias", ["x", "w", "b"], ["y"], None)], tensors, ["x"], ["y"])
    graph = load_graph(save(content, tmp_path))

    assert op_types(graph) == ["ConvTranspose"]
    assert graph_macs(graph) == 64 * 4 * 5 * 4


def test_a_filter_that_is_computed_is_a_second_input(tmp_path: Path) -> None:
    tensors = {"x": (1, 4, 4, 3), "w": (5, 3, 3, 3), "b": zeros(5), "y": (1, 4, 4, 5)}
    content = model([("CONV_2D", ["x", "w", "b"], ["y"], conv(padding=0))], tensors, ["x", "w"], ["y"])
    run(content, [zeros(1, 4, 4, 3), zeros(5, 3, 3, 3)])

    graph = load_graph(save(content, tmp_path))

    assert graph.inputs == ("x", "w")
    assert graph_macs(graph) == 16 * 27 * 5


@dataclass(frozen=True)
class Case:
    """An operator without weights, which both LiteRT and the graph can run."""

    kind: str
    tensors: Mapping[str, Any]
    options: Any = None
    outputs: int = 1


def case(kind: str, shape: tuple[int, ...], out: Any, *constants: Array, table: Any = None, extra: int = 0) -> Case:
    """The operator reads ``x`` (and as many more of its shape as ``extra``), then constants, and writes ``out``."""
    outs = out if isinstance(out, list) else [out]
    tensors: dict[str, Any] = {"x": shape, **{f"x{index}": shape for index in range(extra)}}
    tensors |= {f"c{index}": values for index, values in enumerate(constants)}
    tensors |= {f"y{index}": value for index, value in enumerate(outs)}
    return Case(kind, tensors, table, len(outs))


IMAGE = (1, 4, 6, 8)
POOL = dict(strideH=2, strideW=2, filterHeight=3, filterWidth=3)

CASES: Mapping[str, Case] = {
    **{
        kind.lower(): case(kind, IMAGE, IMAGE)
        for kind in ("RELU", "RELU6", "RELU_N1_TO_1", "TANH", "LOGISTIC", "HARD_SWISH", "ELU", "NEG", "SIN", "COS")
    },
    **{kind.lower(): case(kind, IMAGE, IMAGE) for kind in ("FLOOR", "CEIL", "SQUARE", "ABS", "EXP")},
    "round": case("ROUND", IMAGE, IMAGE),
    "add": case("ADD", IMAGE, IMAGE, extra=1, table=options("Add")),
    "add and relu": case("ADD", IMAGE, IMAGE, extra=1, table=options("Add", fusedActivationFunction=1)),
    "sub": case("SUB", IMAGE, IMAGE, extra=1, table=options("Sub")),
    "mul": case("MUL", IMAGE, IMAGE, extra=1, table=options("Mul")),
    "div by constant": case("DIV", IMAGE, IMAGE, np.asarray(2.0, np.float32), table=options("Div")),
    "maximum": case("MAXIMUM", IMAGE, IMAGE, extra=1, table=options("MaximumMinimum")),
    "minimum": case("MINIMUM", IMAGE, IMAGE, extra=1, table=options("MaximumMinimum")),
    "squared difference": case("SQUARED_DIFFERENCE", IMAGE, IMAGE, extra=1, table=options("SquaredDifference")),
    "leaky relu": case("LEAKY_RELU", IMAGE, IMAGE, table=options("LeakyRelu", alpha=0.25)),
    "gelu": case("GELU", IMAGE, IMAGE, table=options("Gelu")),
    "gelu by tanh": case("GELU", IMAGE, IMAGE, table=options("Gelu", approximate=True)),
    "softmax": case("SOFTMAX", IMAGE, IMAGE, table=options("Softmax", beta=1.0)),
    "log softmax": case("LOG_SOFTMAX", IMAGE, IMAGE, table=options("LogSoftmax")),
    "l2 normalisation": case("L2_NORMALIZATION", IMAGE, IMAGE, table=options("L2Norm")),
    "local response normalisation": case(
        "LOCAL_RESPONSE_NORMALIZATION",
        IMAGE,
        IMAGE,
        table=options("LocalResponseNormalization", radius=2, bias=1.0, alpha=0.1, beta=0.5),
    ),
    "max pool": case("MAX_POOL_2D", IMAGE, (1, 2, 3, 8), table=options("Pool2D", **POOL)),
    "max pool without padding": case("MAX_POOL_2D", IMAGE, (1, 1, 2, 8), table=options("Pool2D", padding=1, **POOL)),
    "average pool": case("AVERAGE_POOL_2D", IMAGE, (1, 2, 3, 8), table=options("Pool2D", **POOL)),
    "mean": case("MEAN", IMAGE, (1, 8), ints(1, 2), table=options("Reducer")),
    "mean that keeps dimensions": case("MEAN", IMAGE, (1, 1, 1, 8), ints(1, 2), table=options("Reducer", keepDims=True)),
    "mean of channels": case("MEAN", IMAGE, (1, 4, 6), ints(-1), table=options("Reducer")),
    "sum": case("SUM", IMAGE, (1, 6, 8), ints(1), table=options("Reducer")),
    "reduce max": case("REDUCE_MAX", IMAGE, (1, 4, 6, 1), ints(3), table=options("Reducer", keepDims=True)),
    "reduce min": case("REDUCE_MIN", IMAGE, (1, 4, 8), ints(2), table=options("Reducer")),
    "reduce prod": case("REDUCE_PROD", IMAGE, (1, 4, 8), ints(2), table=options("Reducer")),
    "pad": case("PAD", IMAGE, (1, 5, 8, 8), np.asarray([[0, 0], [1, 0], [1, 1], [0, 0]], np.int32), table=options("Pad")),
    "mirror pad": case(
        "MIRROR_PAD",
        IMAGE,
        (1, 5, 8, 8),
        np.asarray([[0, 0], [1, 0], [1, 1], [0, 0]], np.int32),
        table=options("MirrorPad", mode=0),
    ),
    "concatenation": case("CONCATENATION", IMAGE, (1, 4, 6, 16), extra=1, table=options("Concatenation", axis=3)),
    "concatenation of rows": case("CONCATENATION", IMAGE, (1, 8, 6, 8), extra=1, table=options("Concatenation", axis=-3)),
    "pack": case("PACK", (4, 6), (4, 2, 6), extra=1, table=options("Pack", valuesCount=2, axis=1)),
    "unpack": case("UNPACK", (4, 2, 6), [(4, 6), (4, 6)], table=options("Unpack", num=2, axis=1)),
    "split by sizes": case(
        "SPLIT_V", IMAGE, [(1, 4, 6, 3), (1, 4, 6, 5)], ints(3, -1), ints(3), table=options("SplitV", numSplits=2)
    ),
    "slice": case("SLICE", IMAGE, (1, 2, 5, 8), ints(0, 1, 1, 0), ints(1, 2, 5, -1), table=options("Slice")),
    "strided slice": case(
        "STRIDED_SLICE",
        IMAGE,
        (1, 2, 6, 8),
        ints(0, 0, 0, 0),
        ints(1, 4, 0, 0),
        ints(1, 2, 1, 1),
        table=options("StridedSlice", beginMask=0, endMask=0b1100),
    ),
    "strided slice backwards that drops axes": case(
        "STRIDED_SLICE",
        IMAGE,
        (4, 8),
        ints(0, 0, -1, 0),
        ints(0, 0, 0, 0),
        ints(1, -1, 1, 1),
        table=options("StridedSlice", beginMask=0b0010, endMask=0b1010, shrinkAxisMask=0b0101),
    ),
    "reverse": case("REVERSE_V2", IMAGE, IMAGE, ints(1), table=options("ReverseV2")),
    "reshape": case("RESHAPE", IMAGE, (4, 48), ints(4, -1)),
    "transpose": case("TRANSPOSE", IMAGE, (1, 8, 4, 6), ints(0, 3, 1, 2), table=options("Transpose")),
    "squeeze": case("SQUEEZE", (1, 4, 1, 8), (4, 8), table=options("Squeeze", squeezeDims=[0, 2])),
    "expand dims": case("EXPAND_DIMS", (4, 8), (4, 1, 8), ints(1), table=options("ExpandDims")),
    "gather": case("GATHER", IMAGE, (1, 4, 2, 8), ints(3, 0), table=options("Gather", axis=2)),
    "gather of many": case("GATHER_ND", (4, 6), (2, 6), np.asarray([[1], [3]], np.int32), table=options("GatherNd")),
    "tile": case("TILE", (1, 4, 6), (2, 4, 12), ints(2, 1, 2), table=options("Tile")),
    "broadcast": case("BROADCAST_TO", (1, 4, 6), (3, 4, 6), ints(3, 4, 6), table=options("BroadcastTo")),
    "resize to neighbours": case(
        "RESIZE_NEAREST_NEIGHBOR", IMAGE, (1, 8, 12, 8), ints(8, 12), table=options("ResizeNearestNeighbor")
    ),
    "resize linearly": case(
        "RESIZE_BILINEAR", IMAGE, (1, 8, 12, 8), ints(8, 12), table=options("ResizeBilinear", halfPixelCenters=True)
    ),
    "resize linearly to corners": case(
        "RESIZE_BILINEAR", IMAGE, (1, 7, 11, 8), ints(7, 11), table=options("ResizeBilinear", alignCorners=True)
    ),
    "depth to space": case("DEPTH_TO_SPACE", IMAGE, (1, 8, 12, 2), table=options("DepthToSpace", blockSize=2)),
    "space to depth": case("SPACE_TO_DEPTH", IMAGE, (1, 2, 3, 32), table=options("SpaceToDepth", blockSize=2)),
    "cumulated sum": case("CUMSUM", (4, 6), (4, 6), ints(1), table=options("Cumsum")),
    "sum of many": case("ADD_N", (4, 6), (4, 6), extra=2, table=options("AddN")),
    "product of two": case("BATCH_MATMUL", (2, 4, 4), (2, 4, 4), extra=1, table=options("BatchMatMul", adjY=True)),
}
UNCHANGED_LAYOUT = {"depth to space"}
"""TensorFlow orders the channels of a block otherwise; only shapes are compared."""


def as_layout(values: Array, wanted: tuple[int, ...]) -> Array:
    """A channels-last array in the layout that the graph has chosen for it."""
    return values if values.shape == wanted else np.ascontiguousarray(values.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_operator_computes_what_litert_computes(name: str, tmp_path: Path) -> None:
    tried = CASES[name]
    inputs = [key for key in tried.tensors if key.startswith("x")]
    outputs = [key for key in tried.tensors if key.startswith("y")]
    constants = [key for key in tried.tensors if key.startswith("c")]
    # A ReLU before and after shows whether the operator lets a layout through.
    content = model([(tried.kind, [*inputs, *constants], outputs, tried.options)], tried.tensors, inputs, outputs)
    rng = np.random.default_rng(0)
    feeds = [rng.uniform(0.1, 1.9, tried.tensors[key]).astype(np.float32) for key in inputs]

    graph = load_graph(save(content, tmp_path))

    assert not unknown_operators(graph)
    expected = run(content, feeds)
    assert [tuple(value.shape) for value in expected] == [tuple(tried.tensors[key]) for key in outputs]
    given = {name: as_layout(values, graph.shape(name)) for name, values in zip(graph.inputs, feeds, strict=True)}
    for output, computed, reference in zip(graph.outputs, run_onnx(graph, feeds=given), expected, strict=True):
        shaped = as_layout(reference, graph.shape(output))
        assert computed.shape == shaped.shape
        if name not in UNCHANGED_LAYOUT:
            np.testing.assert_allclose(computed, shaped, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(key for key, tried in CASES.items() if tried.tensors["x"] == IMAGE))
def test_an_operator_behind_a_convolution_costs_no_transpose(name: str, tmp_path: Path) -> None:
    tried = CASES[name]
    inputs = [key for key in tried.tensors if key.startswith("x")]
    outputs = [key for key in tried.tensors if key.startswith("y")]
    constants = [key for key in tried.tensors if key.startswith("c")]
    first: list[Any] = [("CONV_2D", [f"in_{key}", "w"], [key], conv(padding=0)) for key in inputs]
    tensors = {"w": zeros(8, 3, 3, 3), **{f"in_{key}": (1, 4, 6, 3) for key in inputs}, **tried.tensors}
    operations = [*first, (tried.kind, [*inputs, *constants], outputs, tried.options)]

    graph = load_graph(save(model(operations, tensors, [f"in_{key}" for key in inputs], outputs), tmp_path))

    added = Counter(op_types(graph))["Transpose"]
    assert added == (1 if tried.kind == "TRANSPOSE" and graph.shape("y0") != (1, 8, 4, 6) else 0)
    assert all(graph.shape(f"in_{key}") == (1, 3, 4, 6) for key in inputs)


# Precision


def test_an_int8_network_is_recognised_with_its_ends(tmp_path: Path) -> None:
    tensors = {
        "x": (1, 4, 4, 3),
        "q": Quantized((1, 4, 4, 3)),
        "w": Quantized((5, 1, 1, 3), values=np.zeros((5, 1, 1, 3), np.int8), scale=[0.1] * 5, zero_point=[0] * 5),
        "b": Quantized((5,), "int32", values=np.zeros(5, np.int32)),
        "h": Quantized((1, 4, 4, 5)),
        "y": (1, 4, 4, 5),
    }
    operations = [
        ("QUANTIZE", ["x"], ["q"], options("Quantize")),
        ("CONV_2D", ["q", "w", "b"], ["h"], conv(padding=1, fusedActivationFunction=1)),
        ("DEQUANTIZE", ["h"], ["y"], options("Dequantize")),
    ]

    graph = load_graph(save(model(operations, tensors, ["x"], ["y"]), tmp_path))

    assert graph.precision == "int8"
    assert op_types(graph) == ["QuantizeLinear", "Conv", "Relu", "DequantizeLinear"]
    assert [graph.tensors[name].dtype for name in (*graph.nodes[1].inputs, graph.nodes[1].outputs[0])] == [
        "int8",
        "int8",
        "int32",
        "int8",
    ]
    assert graph.shape("y") == (1, 5, 4, 4)


def test_weights_of_half_precision_are_widened_once_and_cost_nothing(tmp_path: Path) -> None:
    tensors = {"x": (1, 4, 4, 3), "w16": np.zeros((5, 1, 1, 3), np.float16), "w": (5, 1, 1, 3), "y": (1, 4, 4, 5)}
    operations = [("DEQUANTIZE", ["w16"], ["w"], options("Dequantize")), ("CONV_2D", ["x", "w"], ["y"], conv(padding=1))]

    graph = load_graph(save(model(operations, tensors, ["x"], ["y"]), tmp_path))

    assert op_types(graph) == ["Conv"]
    assert (graph.precision, graph.parameter_count) == ("fp32", 15)


# What is not known, and what is wrong


def custom() -> bytes:
    tensors = {"x": (1, 4, 4, 3), "m": (1, 10, 2), "y": (1, 10, 2)}
    operations = [("custom:Detect", ["x"], ["m"], None), ("RELU", ["m"], ["y"], None)]
    return model(operations, tensors, ["x"], ["y"])


def test_a_custom_operator_is_kept_with_its_shapes(tmp_path: Path) -> None:
    graph = load_graph(save(custom(), tmp_path))

    assert unknown_operators(graph) == ["Detect"]
    assert graph.nodes[0].domain == "tflite"
    assert graph.shape("m") == (1, 10, 2)


def test_strictness_refuses_a_custom_operator(tmp_path: Path) -> None:
    with pytest.raises(UnknownOperatorError, match="tflite::Detect"):
        load_graph(save(custom(), tmp_path), strict=True)


def test_a_builtin_operator_without_a_counterpart_is_kept_with_its_shapes(tmp_path: Path) -> None:
    tensors = {"x": (1, 4, 4, 3), "block": ints(2, 2), "pads": np.zeros((2, 2), np.int32), "y": (4, 2, 2, 3)}
    table = options("SpaceToBatchND")
    content = model([("SPACE_TO_BATCH_ND", ["x", "block", "pads"], ["y"], table)], tensors, ["x"], ["y"])

    graph = load_graph(save(content, tmp_path))

    assert unknown_operators(graph) == ["SPACE_TO_BATCH_ND"]
    assert graph.shape("y") == (4, 2, 2, 3)


UNCONVERTED = sorted(
    name
    for name, value in vars(schema.BuiltinOperator).items()
    if isinstance(value, int) and name not in {*CONVERSIONS, *RECURRENT, "CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
)


@pytest.mark.parametrize("kind", UNCONVERTED)
def test_no_builtin_operator_is_refused_because_it_is_unknown(kind: str, tmp_path: Path) -> None:
    content = model([(kind, ["x"], ["y"], None)], {"x": (1, 4), "y": (2, 3)}, ["x"], ["y"])

    graph = load_graph(save(content, tmp_path))

    assert op_types(graph) == [kind]
    assert graph.shape("y") == (2, 3)


def test_an_operator_that_is_only_estimated_keeps_the_sizes_that_are_given(tmp_path: Path) -> None:
    path = save(model([("custom:Pool", ["x"], ["y"], None)], {"x": (1, 3, 8), "y": (1, 9)}, ["x"], ["y"]), tmp_path)

    graph = load_graph(path, shapes={"x": (5, 3, 8)})

    assert graph.shape("y") == (5, 9)
    assert graph.notes == ("pool:y is assumed to keep the sizes that were given, and to give [5, 9]",)
    with pytest.raises(
        ModelError, match=r"pool:y is not known well enough.*\[1, 4, 8\]; convert the model with inputs of that size"
    ):
        load_graph(path, shapes={"x": (1, 4, 8)})


def test_a_condition_of_one_axis_chooses_rows(tmp_path: Path) -> None:
    tensors = {"c": Typed((2,), "bool"), "a": (2, 3), "b": (2, 3), "y": (2, 3)}
    content = model([("SELECT", ["c", "a", "b"], ["y"], None)], tensors, ["c", "a", "b"], ["y"])

    assert run(content, [np.ones(2, bool), zeros(2, 3), zeros(2, 3)])[0].shape == load_graph(save(content, tmp_path)).shape("y")


def test_complex_numbers_are_numbers(tmp_path: Path) -> None:
    tensors = {"x": (4, 1, 512), "length": ints(1, 512), "spectrum": Typed((4, 1, 257), "complex64"), "y": (4, 1, 257)}
    operations = [("RFFT2D", ["x", "length"], ["spectrum"], None), ("COMPLEX_ABS", ["spectrum"], ["y"], None)]
    content = model(operations, tensors, ["x"], ["y"])
    run(content, [zeros(4, 1, 512)])

    graph = load_graph(save(content, tmp_path))

    assert graph.tensors["spectrum"].size_bytes == 4 * 257 * 8


SIZED_BY_VALUES: Mapping[str, tuple[Operation, Mapping[str, Any], Sequence[str]]] = {
    "tile": (("TILE", ["x", "n"], ["y"], None), {"n": Typed((2,), "int32"), "y": (4, 8)}, ["x", "n"]),
    "strided slice": (
        ("STRIDED_SLICE", ["x", "b", "n", "s"], ["y"], options("StridedSlice")),
        {"b": ints(0, 0), "n": Typed((2,), "int32"), "s": ints(1, 1), "y": (2, 1)},
        ["x", "n"],
    ),
    "fill": (
        ("FILL", ["n", "v"], ["y"], None), {"n": Typed((2,), "int32"), "v": np.asarray(1, np.float32), "y": (4, 8)}, ["n"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SIZED_BY_VALUES))
def test_a_size_that_is_computed_is_assumed_as_the_file_states_it_and_said(name: str, tmp_path: Path) -> None:
    operation, more, inputs = SIZED_BY_VALUES[name]
    content = model([operation], {"x": (2, 4), **more}, inputs, ["y"])

    graph = load_graph(save(content, tmp_path))

    assert graph.shape("y") == more["y"]
    assert graph.run_time_sizes == (operation[0],)
    assert "at run time; the shape that the file states is assumed" in graph.notes[0]


def test_a_search_for_true_elements_may_find_all(tmp_path: Path) -> None:
    operations = [("WHERE", ["x"], ["found"], None), ("CAST", ["found"], ["y"], None)]
    tensors = {"x": Typed((3, 5), "bool"), "found": Typed((1, 2), "int64"), "y": Typed((1, 2), "int32")}
    path = save(model(operations, tensors, ["x"], ["y"]), tmp_path)
    content = path.read_bytes()

    assert run(content, [np.ones((3, 5), bool)])[0].shape == load_graph(path).shape("found") == (15, 2)
    assert load_graph(path).run_time_sizes == ("WHERE",)


def test_the_number_of_boxes_is_known_where_it_is_constant(tmp_path: Path) -> None:
    for most, sized in ((np.asarray(3, np.int32), ()), (Typed((), "int32"), ("NON_MAX_SUPPRESSION_V4",))):
        tensors = {
            "boxes": (10, 4), "scores": (10,), "most": most, "iou": np.asarray(0.5, np.float32),
            "least": np.asarray(0.1, np.float32), "y": Typed((3,), "int32"), "n": Typed((), "int32"),
        }  # fmt: skip
        operation = ("NON_MAX_SUPPRESSION_V4", ["boxes", "scores", "most", "iou", "least"], ["y", "n"], None)
        inputs = ["boxes", "scores", *(["most"] if sized else [])]

        assert load_graph(save(model([operation], tensors, inputs, ["y", "n"]), tmp_path)).run_time_sizes == sized


def test_names_of_the_file_are_not_taken_for_what_the_reader_makes_up(tmp_path: Path) -> None:
    tensors = {"x": (1, 4), "perm": ints(1, 0), "turned": (4, 1), "constant_0": np.asarray(2.0, np.float32), "y": (4, 1)}
    operations = [("RELU6", ["x"], ["six"], None), ("TRANSPOSE", ["six", "perm"], ["turned"], None)]
    operations += [("MUL", ["turned", "constant_0"], ["y"], options("Mul"))]

    graph = load_graph(save(model(operations, {**tensors, "six": (1, 4)}, ["x"], ["y"]), tmp_path))

    assert [float(graph.constants[name]) for name in graph.nodes[-1].inputs[1:]] == [2.0]


def test_other_input_shapes_are_given_channels_last_as_the_file_has_them(tmp_path: Path) -> None:
    tensors = {"x": Dynamic((1, 8, 8, 3)), "w": zeros(5, 3, 3, 3), "y": Dynamic((1, 8, 8, 5))}
    path = save(model([("CONV_2D", ["x", "w"], ["y"], conv(padding=0))], tensors, ["x"], ["y"]), tmp_path)

    graph = load_graph(path, shapes={"x": (2, 16, 12, 3)})

    assert graph.shape("x") == (2, 3, 16, 12)
    assert graph.shape("y") == (2, 5, 16, 12)
    assert load_graph(path).shape("y") == (1, 5, 8, 8)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello, I am no model", "it is not a TFLite model: it is text that begins with 'hello"),
        (b"version https://git-lfs", "git lfs pull"),
        (b"\x00\x00\x00\x00TFL3", "is damaged"),
    ],
)
def test_a_file_that_is_not_a_tflite_model_is_refused_in_one_line(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load_graph(save(content, tmp_path, "wrong.tflite"))

    assert "wrong.tflite" in str(caught.value)
    assert "\n" not in str(caught.value)


def written() -> bytes:
    return to_tflite(CONTRACT_NETWORKS["conv_stack"]())


def test_a_shape_that_contradicts_its_operator_is_found(tmp_path: Path) -> None:
    content = model([("RELU", ["x"], ["y"], None)], {"x": (1, 4), "y": (1, 5)}, ["x"], ["y"])

    with pytest.raises(ModelError, match=r"'y' should have shape \[1, 5\] by the file, but its operator gives \[1, 4\]"):
        load_graph(save(content, tmp_path))


def test_both_packages_of_bindings_give_the_same_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert", reason="compares LiteRT's bindings with those of the package 'tflite'")
    path = save(written(), tmp_path)
    keys = set()
    for hidden in ("tflite", "ai_edge_litert.schema_py_generated"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, hidden, None)
            tflite_file.bindings.cache_clear()
            keys.add(load_graph(path).structure_key)
    tflite_file.bindings.cache_clear()

    assert len(keys) == 1


def test_more_inputs_than_a_network_has_are_refused(tmp_path: Path) -> None:
    shapes = {"x": (1, 4), "y": (1, 4)}
    path = save(model([("RELU", ["x"], ["y"], None)], shapes, ["x"] * 270_000, ["y"]), tmp_path)

    with pytest.raises(ModelError, match="270,001 inputs and outputs of operators"):
        load_graph(path)
