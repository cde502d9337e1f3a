"""Numbers that ncnn computes from the written network, against ONNX Runtime's from the same graph and weights.

Sizes are odd and maps are not square; channels are few (plain layout) or a multiple of 16 (packed layout).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.graph import Graph, GraphBuilder
from latcast.runtimes.ncnn import Ncnn
from latcast.runtimes.session import random_inputs
from tests.graph.running import run
from tests.graph.writers.cases import CASES as SHARED
from tests.graph.writers.cases import graph_of
from tests.random_networks import random_network

pytest.importorskip("ncnn")

TOLERANCE = 2e-5
"""Relative to the largest output; both compute in float32, in another order."""

Build = Callable[[GraphBuilder, str], "str | tuple[str, ...]"]


def ncnn_outputs(graph: Graph, inputs: list[np.ndarray], precision: str = "fp32") -> list[np.ndarray]:
    session = Ncnn().load(graph, precision=precision)
    try:
        session.set_inputs(inputs)
        session.run()
        return session.outputs()
    finally:
        session.close()


def largest_error(graph: Graph) -> float:
    inputs = random_inputs(graph, seed=7)
    pairs = zip(ncnn_outputs(graph, inputs), run(graph, *inputs), strict=True)
    return max(float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-6)) for actual, expected in pairs)


def built(build: Build, shape: tuple[int, ...]) -> Graph:
    b = GraphBuilder("case")
    outputs = build(b, b.input(shape))
    return b.finish(*((outputs,) if isinstance(outputs, str) else outputs))


def op(op_type: str, **attributes: object) -> Build:
    """One operator without weights."""
    return lambda b, x: b.op(op_type, [x], attributes)[0]  # type: ignore[arg-type]


def number(b: GraphBuilder, value: object) -> str:
    return b.constant(value, dtype="float32")


def whole(b: GraphBuilder, value: object) -> str:
    return b.constant(value, dtype="int64")


def conv(weight: tuple[int, ...], *, bias: bool = False, **attributes: object) -> Build:
    """A convolution with any attributes on an input that fits its weight."""

    def build(b: GraphBuilder, x: str) -> str:
        inputs = [x, b.weight(weight), *([b.weight(weight[:1])] if bias else [])]
        return b.op("Conv", inputs, attributes)[0]  # type: ignore[arg-type]

    return build


def transposed_conv(weight: tuple[int, ...], **attributes: object) -> Build:
    return lambda b, x: b.relu(b.batch_norm(b.op("ConvTranspose", [x, b.weight(weight)], attributes)[0]))  # type: ignore[arg-type]


def binary(op_type: str, shape: tuple[int, ...], *, constant_first: bool = False) -> Build:
    def build(b: GraphBuilder, x: str) -> str:
        other = number(b, np.random.default_rng(1).uniform(0.5, 2.0, shape))
        operands = [b.op("Abs", [x])[0], other]
        return b.op(op_type, operands[::-1] if constant_first else operands)[0]

    return build


def slices(b: GraphBuilder, x: str, starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> str:
    return b.op("Slice", [x, *(whole(b, numbers) for numbers in (starts, ends, axes, steps))])[0]


def position_bias(b: GraphBuilder, x: str) -> str:
    table = b.op("Gather", [b.weight((9, 2)), whole(b, np.arange(16) % 9)], {"axis": 0})[0]
    bias = b.transpose(b.reshape(table, (4, 4, 2)), (2, 0, 1))
    return b.softmax(b.add(x, b.op("Unsqueeze", [bias, whole(b, [0])])[0]))


def gated_by_vector(b: GraphBuilder, x: str) -> str:
    return b.mul(x, b.reshape(b.linear(b.flatten(b.global_average_pool(x)), 6), (1, 6, 1, 1)))


MAP, PACKED, TOKENS, SQUARE = (1, 6, 7, 9), (1, 16, 7, 9), (1, 5, 12), (1, 6, 6, 6)

CASES: dict[str, tuple[tuple[int, ...], Build]] = {
    "convolution, asymmetric pads": (MAP, conv((8, 6, 3, 3), pads=(0, 1, 1, 2), strides=(2, 2))),
    "convolution, same lower": (MAP, conv((8, 6, 4, 4), auto_pad="SAME_LOWER", strides=(2, 2))),
    "convolution 1D": ((1, 6, 11), conv((8, 6, 3), bias=True, pads=(1, 0), strides=(2,))),
    "convolution 1D, depthwise": ((1, 6, 11), conv((6, 1, 3), group=6, dilations=(2,))),
    "padded convolution": (MAP, lambda b, x: b.conv(b.pad(x, (0, 0, 1, 2, 0, 0, 0, 1)), 8, 3, padding=0)),
    "convolution padded with a value": (
        MAP, lambda b, x: b.conv(b.op("Pad", [x, whole(b, [0, 0, 1, 2, 0, 0, 0, 1]), number(b, 1.5)])[0], 8, 3, padding=0)),
    "transposed convolution": (PACKED, transposed_conv((16, 8, 2, 2), strides=(2, 2))),
    "transposed convolution, depthwise": (
        PACKED, transposed_conv((16, 1, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1), group=16)),
    "mish after a convolution": (
        MAP, lambda b, x: b.mul(y := b.conv(x, 8, 3), b.op("Tanh", [b.op("Softplus", [y])[0]])[0])),
    "batch normalisation of a matrix product": ((1, 12), lambda b, x: b.relu(b.batch_norm(b.linear(x, 7)))),
    "hard-swish after a matrix product": ((1, 12), lambda b, x: b.hard_swish(b.linear(x, 7, bias=False))),
    "flattened packed map": (PACKED, lambda b, x: b.linear(b.flatten(b.relu(x)), 7)),
    "linear on one row": ((1, 1, 12), lambda b, x: b.linear(x, 7)),
    "linear on a map of rows": ((1, 3, 5, 12), lambda b, x: b.linear(x, 7, bias=False)),
    "gemm with alpha and beta": (
        (1, 12), lambda b, x: b.op("Gemm", [x, b.weight((12, 5)), b.weight((1, 5))], {"alpha": 0.5, "beta": 2.0})[0]),
    "product with itself transposed": ((1, 3, 5, 12), lambda b, x: b.matmul(x, b.transpose(x, (0, 1, 3, 2)))),
    "transposed left operand": (TOKENS, lambda b, x: b.matmul(b.transpose(x, (0, 2, 1)), x)),
    "a weight for each head": ((1, 3, 5, 12), lambda b, x: b.matmul(x, b.weight((3, 12, 4)))),
    "relative positions": ((1, 2, 4, 4), position_bias),
    "layer norm of five axes": ((1, 2, 3, 5, 12), lambda b, x: b.layer_norm(x)),
    "RMS norm": (TOKENS, lambda b, x: b.op("RMSNormalization", [x, b.weight((12,))], {"axis": -1})[0]),
    "group norm": (
        MAP, lambda b, x: b.op("GroupNormalization", [x, b.weight((6,)), b.weight((6,))], {"num_groups": 3})[0]),
    "squeeze and excitation": (PACKED, lambda b, x: b.squeeze_excite(x, 4)),
    "squeeze and excitation with a mean": (
        PACKED, lambda b, x: b.mul(x, b.sigmoid(b.conv(b.reduce_mean(x, (2, 3)), 16, 1, bias=True)))),
    "gate from a matrix product": (SQUARE, gated_by_vector),
    "depthwise on a pooled vector": (MAP, lambda b, x: b.conv(b.global_average_pool(x), 6, 1, groups=6)),
    "pooled sequence": ((1, 6, 11), lambda b, x: b.global_average_pool(x)),
    "mean of tokens": (TOKENS, lambda b, x: b.linear(b.reduce_mean(x, (1,), keepdims=False), 3)),
    "average, same upper": (MAP, op("AveragePool", kernel_shape=(3, 3), strides=(2, 2), auto_pad="SAME_UPPER")),
    "maximum, rounded up and dropped": (SQUARE, lambda b, x: b.max_pool(x, 1, 2, 0, ceil=True)),
    "average, rounded up": (
        MAP, op("AveragePool", kernel_shape=(2, 2), strides=(2, 2), ceil_mode=1, count_include_pad=1)),
    "average with padding": (
        MAP, op("AveragePool", kernel_shape=(3, 2), strides=(1, 2), pads=(1, 0, 1, 0), count_include_pad=1)),
    "average without padding": (PACKED, op("AveragePool", kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))),
    "channel shuffle on flat maps": (
        (1, 12, 5, 7), lambda b, x: b.reshape(b.transpose(b.reshape(x, (1, 4, 3, 35)), (0, 2, 1, 3)), (1, 12, 5, 7))),
    "windows": ((1, 8, 12, 6), lambda b, x: b.transpose(b.reshape(x, (1, 4, 2, 4, 3, 6)), (0, 1, 3, 2, 4, 5))),
    "strided slice": ((1, 6, 8, 10), lambda b, x: slices(b, x, [0], [99], [2], [2])),
    "gathered range": (TOKENS, lambda b, x: b.op("Gather", [x, whole(b, [2, 3])], {"axis": 2})[0]),
    "padded tokens": (TOKENS, lambda b, x: b.pad(x, (0, 1, 3, 0, 2, 0))),
    "square": (MAP, lambda b, x: b.op("Pow", [x, number(b, 2.0)])[0]),
    "a weight along the last of equal axes": (SQUARE, lambda b, x: b.add(x, b.weight((6,)))),
    "a weight along the last of two equal axes": ((1, 6, 6), lambda b, x: b.add(x, b.weight((6,)))),
    "a row against a column": (SQUARE, lambda b, x: b.mul(b.reduce_mean(x, (1,)), b.global_average_pool(x))),
    "a mean over rows of equal axes": (SQUARE, lambda b, x: b.mul(x, b.reduce_mean(x, (1, 2)))),
    "two vectors": (SQUARE, lambda b, x: b.add(b.global_average_pool(x), b.reduce_mean(x, (2, 3)))),
    **{f"every {step} from {start} to {end} along {axis}": (
        MAP, lambda b, x, cut=([start], [end], [axis], [step]): slices(b, x, *cut))  # type: ignore[misc]
       for axis, start, end, step in (
        (2, 0, 99, 2), (3, 1, 99, 2), (2, 1, 6, 3), (3, 2, 8, 2), (1, 0, 99, 4), (1, 5, 99, 3), (3, 0, 99, 5), (3, 7, 9, 5),
        (2, -6, -1, 2))},
    "every second pixel of an odd map": (MAP, lambda b, x: slices(b, x, [0, 1], [99, 99], [2, 3], [2, 2])),
    "cut and stepped at once": (MAP, lambda b, x: slices(b, x, [1, 2, 0], [5, 7, 99], [1, 2, 3], [1, 2, 3])),
    "one output in two shapes": (MAP, lambda b, x: (y := b.relu(x), b.reshape(y, (1, 6, 63)))),
    "a step behind an unsqueeze": (
        (1, 6, 7), lambda b, x: b.conv(b.op("Unsqueeze", [x, whole(b, [1])])[0], 4, 3)),
    "two inputs": (MAP, lambda b, x: b.sub(x, b.input(MAP))),
    **{f"{kind} {axes} keeping {keep}": (MAP, op(kind, axes=axes, keepdims=keep))
       for kind in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")
       for axes, keep in (((2, 3), 1), ((1,), 0), ((-1,), 0), ((1, 2, 3), 0))},
    **{f"element-wise {kind}": (MAP, op(kind)) for kind in (
        "Erf", "Selu", "Celu", "LeakyRelu", "Gelu")},
    "GELU by tanh": (MAP, op("Gelu", approximate="tanh")),
    **{f"softmax over {axis} of {len(shape)}": (shape, op("Softmax", axis=axis))
       for shape, axis in ((MAP, 1), (MAP, 3), (TOKENS, 1), ((1, 2, 3, 4, 5), -1))},
    **{f"{kind} with {list(shape)}": (MAP, binary(kind, shape))
       for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")
       for shape in ((6, 1, 1), (9,), (7, 1), (1, 6, 7, 9), (), (1, 6, 1, 9))},
    **{f"{kind} of a constant {list(shape)}": (MAP, binary(kind, shape, constant_first=True))
       for kind in ("Sub", "Div", "Pow") for shape in ((6, 1, 1), ())},
    **{f"concatenation along {axis}": (MAP, lambda b, x, axis=axis: b.concat([x, b.relu(x), x], axis))  # type: ignore[misc]
       for axis in (1, 2, 3)},
    **{f"split along {axis}": (MAP, lambda b, x, axis=axis, sizes=sizes: tuple(b.split(x, sizes, axis)))  # type: ignore[misc]
       for axis, sizes in ((1, (2, 2, 2)), (2, (3, 4)), (3, (4, 5)))},
    **{f"padding by {mode}": (
        MAP, lambda b, x, mode=mode: b.op("Pad", [x, whole(b, [0, 0, 1, 2, 0, 0, 2, 1])], {"mode": mode})[0])  # type: ignore[misc]
       for mode in ("constant", "edge", "reflect")},
    **{f"{mode} resizing to {size}": (MAP, lambda b, x, mode=mode, size=size: b.resize(x, size, mode=mode))  # type: ignore[misc]
       for mode in ("nearest", "linear", "cubic") for size in ((14, 18), (10, 9), (3, 5))},
    **{f"permutation {order}": ((1, 2, 3, 4, 5), lambda b, x, order=order: b.transpose(x, (0, *order)))  # type: ignore[misc]
       for order in list(permutations(range(1, 5)))[1:]},
}  # fmt: skip


NOT_IN_NCNN = {
    "conv_batch", "batch_norm_of_features", "sign", "cast", "broadcast_plane", "linear", "gemm_untransposed",
    "gemm_transposed_input", "gemm_of_two", "matmul", "matmul_broadcast", "matmul_batched_weight", "gather", "swin_windows",
    "resize_nearest_half_pixel", "resize_linear_asymmetric", "arg_max", "arg_max_kept",
}  # fmt: skip
"""Cases of all writers that need a batch, an operator or a form that ncnn does not have."""


@pytest.mark.parametrize("name", sorted(SHARED.keys() - NOT_IN_NCNN))
def test_ncnn_computes_the_cases_of_all_writers(name: str) -> None:
    assert largest_error(graph_of(SHARED[name])) <= TOLERANCE


@pytest.mark.parametrize("name", CASES)
def test_ncnn_computes_what_onnx_runtime_does(name: str) -> None:
    shape, build = CASES[name]
    assert largest_error(built(build, shape)) <= TOLERANCE


@st.composite
def convolutions(draw: st.DrawFn, *, grouped: bool = True) -> Graph:
    """A convolution with batch normalisation or bias, and an activation."""
    groups = draw(st.sampled_from([1, 1, 2, 4])) if grouped else 1
    if draw(st.integers(0, 3)) == 0:
        groups, inputs, outputs = draw(st.sampled_from([4, 7, 16, 32])), 1, 1
    else:
        inputs, outputs = draw(st.sampled_from([1, 3, 4, 8, 16])), draw(st.sampled_from([1, 5, 8, 16]))
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel = draw(st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 3, 3, 5])))
    attributes = {"group": groups, "strides": draw(pair), "dilations": draw(pair), "kernel_shape": kernel,
                  "pads": draw(st.tuples(*[st.integers(0, 2)] * 4))}  # fmt: skip
    b = GraphBuilder("convolution")
    x = b.input((1, groups * inputs, draw(st.integers(13, 20)), draw(st.integers(13, 20))))
    x = b.op("Conv", [x, b.weight((groups * outputs, inputs, *kernel)), b.weight((groups * outputs,))], attributes)[0]
    x = b.batch_norm(x) if draw(st.booleans()) else x
    return b.finish(b.activation(x, draw(st.sampled_from([None, "relu", "relu6", "hard_swish", "silu", "sigmoid"]))))


@given(convolutions())
@settings(max_examples=60)
def test_any_convolution_is_computed_right(graph: Graph) -> None:
    assert largest_error(graph) <= TOLERANCE


@given(convolutions(grouped=False))
@settings(max_examples=40)
def test_any_int8_convolution_follows_the_fp32_one(graph: Graph) -> None:
    inputs = random_inputs(graph, seed=7)
    (actual,), (expected,) = ncnn_outputs(graph, inputs, "int8"), run(graph, *inputs)
    assert np.abs(actual - expected).max() <= 0.12 * np.abs(expected).max()


@pytest.mark.parametrize("seed", range(15))
def test_random_networks_are_computed_right(seed: int) -> None:
    assert largest_error(random_network(seed)) <= TOLERANCE
