"""The operator table against what a runtime computes, and against sums done by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latcast.errors import ModelError
from latcast.graph import GraphBuilder, Node, Tensor
from latcast.graph.operators import OperatorView, graph_flops, graph_macs, lookup, names_of, node_flops, operators
from latcast.graph.operators.evaluation import EVALUATED, evaluate
from latcast.graph.operators.linear import spatial_pads
from tests.graph.operator_cases import CALLS, Call, calls

Array = np.ndarray[Any, Any]


def dtype_of(value: Array) -> str:
    return "string" if value.dtype.kind in "OU" else str(value.dtype)


def node_of(call: Call) -> Node:
    inputs = tuple("" if value is None else f"x{index}" for index, value in enumerate(call.inputs))
    outputs = tuple(f"y{index}" for index in range(call.outputs))
    return Node(call.op_type, "node", inputs, outputs, call.attributes)


def view_of(call: Call, *, all_known: bool = False) -> OperatorView:
    tensors = tuple(None if x is None else Tensor(x.shape, dtype_of(x)) for x in call.inputs)
    values = tuple(x if all_known or index in call.constant else None for index, x in enumerate(call.inputs))
    return OperatorView(node_of(call), tensors, values)


def run(call: Call) -> list[Array]:
    """What onnxruntime gives, or ONNX's own implementation where it has no kernel."""
    node = node_of(call)
    row = lookup(node.op_type)
    domain = "" if row is None else row.domain
    proto = onnx.helper.make_node(node.op_type, node.inputs, node.outputs, domain=domain, **dict(node.attributes))
    code = onnx.helper.np_dtype_to_tensor_dtype
    named = [(f"x{index}", value) for index, value in enumerate(call.inputs) if value is not None]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [proto],
            "one",
            [onnx.helper.make_tensor_value_info(name, code(value.dtype), value.shape) for name, value in named],
            [onnx.ValueInfoProto(name=name) for name in node.outputs],
        ),
        opset_imports=[onnx.helper.make_opsetid("", call.opset), onnx.helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=10,
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(named)))
    except (
        onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented,
        onnxruntime.capi.onnxruntime_pybind11_state.Fail,  # an opset that it does not know yet
    ):
        from onnx.reference import ReferenceEvaluator

        return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, dict(named))]


def test_every_operator_of_the_table_has_random_calls() -> None:
    assert set(CALLS) == names_of(operators())


NO_TENSORS = {"TreeEnsemble": "needs tensors in attributes", "ZipMap": "gives maps"}


@pytest.mark.parametrize("op_type", sorted(names_of(operators()) - set(NO_TENSORS)))
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_shapes_and_types_are_those_that_a_runtime_gives(op_type: str, data: st.DataObject) -> None:
    call = data.draw(calls(op_type))
    entry = lookup(op_type)
    assert entry is not None

    inferred = entry.infer(view_of(call))[: call.outputs]

    computed = run(call)
    assert [tensor.shape for tensor in inferred] == [value.shape for value in computed]
    assert [tensor.dtype for tensor in inferred] == [dtype_of(value) for value in computed]


def known_after(call: Call) -> list[Array] | None:
    return evaluate(view_of(call, all_known=True))


@pytest.mark.parametrize("op_type", sorted(names_of(operators()) & set(EVALUATED)))
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_constants_are_evaluated_to_what_a_runtime_computes(op_type: str, data: st.DataObject) -> None:
    call = data.draw(calls(op_type))

    evaluated = known_after(call)

    assert evaluated is not None
    for value, expected in zip(evaluated, run(call), strict=True):
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_results_of_many_elements_are_not_evaluated() -> None:
    shape = np.asarray([100, 100])

    assert known_after(Call("Expand", [np.zeros(1, np.float32), shape])) is None


def test_operands_that_do_not_fit_are_left_to_shape_inference() -> None:
    call = Call("Add", [np.zeros(2), np.zeros(3)])

    assert known_after(call) is None


# FLOPs, by hand


def only(graph_builder: GraphBuilder, output: str) -> tuple[int, int]:
    graph = graph_builder.finish(output)
    return graph_macs(graph), graph_flops(graph)


def lstm(b: GraphBuilder) -> str:
    weights = b.weight((1, 128, 16)), b.weight((1, 128, 32))
    return b.op("LSTM", [b.input((5, 1, 16)), *weights], {"hidden_size": 32}, outputs=3)[0]


def integer_product(b: GraphBuilder) -> str:
    sizes = (2, 10), (10, 7), (1,), (1,)
    return b.op("MatMulInteger", [b.input(size, dtype="uint8") for size in sizes])[0]


@pytest.mark.parametrize(
    ("build", "macs", "flops"),
    [
        # 16 maps of 4x4, each value a window of 3 channels of 3x3 and a bias.
        (lambda b: b.conv(b.input((1, 3, 8, 8)), 16, 3, stride=2, bias=True), 256 * 27, 2 * 256 * 27 + 256),
        (lambda b: b.conv(b.input((1, 8, 4, 4)), 8, 3, groups=4), 8 * 16 * 2 * 9, None),
        (lambda b: b.depthwise_conv(b.input((1, 32, 4, 4)), 3), 32 * 16 * 9, None),
        # A window of 6 channels of 2x2 for each input.
        (lambda b: b.conv_transpose(b.input((1, 4, 5, 5)), 6, 2, stride=2), 4 * 25 * 6 * 4, None),
        # 2 x 7 results of 10 products and a bias, written in three ways; zero points are no bias.
        (lambda b: b.linear(b.input((2, 10)), 7), 140, 280 + 14),
        (lambda b: b.linear(b.input((2, 1, 10)), 7), 140, 280 + 14),
        (lambda b: b.op("Gemm", [b.input((10, 2)), b.weight((10, 7)), b.weight((7,))], {"transA": 1})[0], 140, 280 + 14),
        (integer_product, 140, 280),
        (lambda b: b.concat([b.transpose(x := b.input((1, 4, 4, 4)), (0, 1, 3, 2)), b.reshape(x, (1, 4, 4, 4))]), 0, 0),
        (lambda b: b.max_pool(b.input((1, 2, 8, 8)), 2), 0, 2 * 16 * 4),
        # 5 steps, 4 gates of 32 units, each with 16 inputs and 32 states.
        (lstm, 5 * 4 * 32 * (16 + 32), None),
        # 2 heads, 3 queries, 5 keys of 8 and values of 4.
        (lambda b: b.op("Attention", [b.input((1, 2, n, d)) for n, d in ((3, 8), (5, 8), (5, 4))])[0], 30 * (8 + 4), None),
        (
            lambda b: b.op("Einsum", [b.input((2, 3, 4)), b.input((2, 4, 5))], {"equation": "bij,bjk->bik"})[0],
            2 * 3 * 4 * 5, 2 * 2 * 3 * 4 * 5,
        ),
    ],
)  # fmt: skip
def test_multiply_accumulates_and_flops_by_hand(build: Callable[[GraphBuilder], str], macs: int, flops: int | None) -> None:
    b = GraphBuilder("one")
    found = only(b, build(b))

    assert found == (macs, found[1] if flops is None else flops)


def test_attention_looks_at_the_keys_of_the_past_too() -> None:
    b = GraphBuilder("cached")
    now, past = (1, 2, 1, 8), (1, 2, 9, 8)
    inputs = [b.input(now), b.input(now), b.input(now), "", b.input(past), b.input(past)]
    y, keys, values = b.op("Attention", inputs, outputs=3)

    assert (b.shape(y), b.shape(keys), b.shape(values)) == (now, (1, 2, 10, 8), (1, 2, 10, 8))
    # 2 heads, one query, 9 keys of the past and its own, each a product of 8 with the key and of 8 with the value; a softmax
    # of 6 and a scale over 20 scores.
    assert only(b, y) == (2 * 10 * 16, 2 * 2 * 10 * 16 + 7 * 20)


@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize(("inputs", "flops"), [(1, 6), (2, 6), (4, 18)])
def test_a_value_of_n_inputs_takes_one_operation_fewer(op_type: str, inputs: int, flops: int) -> None:
    """Two by three values; a single input is copied by one operation each."""
    b = GraphBuilder("variadic")
    (y,) = b.op(op_type, [b.input((2, 3)) for _ in range(inputs)])

    assert only(b, y) == (0, flops)


@pytest.mark.parametrize(
    ("mode", "strides", "pads"),
    [
        # 8 pixels, a window of 3 with 1 between its taps reaches over 5: 8 steps need 8 - 1 + 5 = 12 pixels.
        ("SAME_UPPER", (1, 1), (2, 2, 2, 2)),
        # 4 steps of 2 need 6 + 5 = 11; the third pixel goes to the end, or to the begin.
        ("SAME_UPPER", (2, 2), (1, 1, 2, 2)),
        ("SAME_LOWER", (2, 2), (2, 2, 1, 1)),
        ("VALID", (1, 1), (0, 0, 0, 0)),
    ],
)
def test_padding_that_keeps_the_size_counts_the_gaps_of_a_dilated_window(
    mode: str, strides: tuple[int, int], pads: tuple[int, ...]
) -> None:
    attributes = {"auto_pad": mode, "strides": strides, "dilations": (2, 2)}
    view = view_of(Call("Conv", [np.zeros((1, 1, 8, 8)), np.zeros((1, 1, 3, 3))], attributes))

    assert spatial_pads(view, (8, 8), (3, 3), strides, (2, 2)) == pads


def called(op_type: str, *shapes: tuple[int, ...], **attributes: Any) -> int:
    """FLOPs of one operator on activations of real numbers."""
    b = GraphBuilder("one")
    graph = b.finish(b.op(op_type, [b.input(shape) for shape in shapes], attributes)[0])
    [node] = graph.nodes
    return node_flops(graph, node) or 0


FEW = {
    # 2 x 3 x 5 x 7 values: a product, 3 more for the window, a power of 4... 8 each by convention; read and written.
    "local response normalisation": (called("LRN", (2, 3, 5, 7), size=5), 8 * 210),
    # 7 for each: mean, deviation, scale and shift; read, written, with two values of 4 bytes a channel.
    "instance normalisation": (called("InstanceNormalization", (1, 3, 4, 4), (3,), (3,)), 7 * 48),
    # Four blocks of channels are one of pixels: nothing is computed.
    "depth to space": (called("DepthToSpace", (1, 8, 3, 3), blocksize=2), 0),
    # 2 x 5 samples of 3 channels, each of four neighbours: 4 products and 3 sums.
    "bilinear grid": (called("GridSample", (1, 3, 4, 4), (1, 2, 5, 2)), 30 * 7),
    "nearest grid": (called("GridSample", (1, 3, 4, 4), (1, 2, 5, 2), mode="nearest"), 30),
    # Sixteen neighbours, and eight in three dimensions.
    "cubic grid": (called("GridSample", (1, 3, 4, 4), (1, 2, 5, 2), mode="cubic"), 30 * 31),
    "trilinear grid": (called("GridSample", (1, 3, 4, 4, 4), (1, 2, 5, 2, 3)), 60 * 15),
    # 6 x 8 results of 4 products.
    "einsum": (called("Einsum", (6, 4), (4, 8), equation="ij,jk->ik"), 2 * 192),
    # A filter of 2 x 3 x 3 over 4 channels for each of 8 x 3 x 4 x 4 results, every second pixel.
    "convolution of volumes": (
        called("Conv", (1, 4, 4, 9, 9), (8, 4, 2, 3, 3), strides=(1, 2, 2)), 2 * 384 * 72,
    ),
    # Rows of 8 complex points: 5 x 8 x 3 FLOPs for each of 6.
    "complex transform": (called("DFT", (6, 8, 2)), 6 * 120),
    # Of real numbers half of that; 5 of 8 points are written.
    "one-sided transform": (called("DFT", (6, 8, 1), onesided=1), 6 * 60),
    # 2 x 3 boxes of 5, all of which may stay: 5 boxes times ceil(log2 5) = 3 to sort, 12 for each of 25 pairs.
    "non-maximum suppression": (
        called("NonMaxSuppression", (2, 5, 4), (2, 3, 5), (1,)), 6 * (15 + 300),
    ),
    # 10 tokens: 4 query heads read a state of 8 x 6, 2 key heads add to it.
    "linear attention": (
        called("LinearAttention", (1, 10, 32), (1, 10, 16), (1, 10, 12), q_num_heads=4, kv_num_heads=2, update_rule="linear"),
        2 * 10 * 48 * 6,
    ),
    # The key heads read it too, and a gate scales it.
    "gated linear attention": (
        called("LinearAttention", (1, 10, 32), (1, 10, 16), (1, 10, 12), q_num_heads=4, kv_num_heads=2),
        2 * 10 * 48 * 8 + 10 * 48 * 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(FEW))
def test_flops_by_hand(case: str) -> None:
    found, flops = FEW[case]

    assert found == flops


def test_flops_of_operators_with_constants_by_hand() -> None:
    b = GraphBuilder("constants")
    x = b.input((1, 2, 4, 6))
    table = b.weight((1000, 16))
    rows = b.input((1, 5), dtype="int64")
    outputs = [
        b.op("Expand", [b.input((1, 2, 1, 1)), b.constant((1, 2, 4, 6), dtype="int64")])[0],
        b.pad(x, (0, 0, 1, 1, 0, 0, 1, 1)),
        b.resize(x, (8, 12)),
        b.resize(x, (8, 12), mode="linear"),
        b.op("Gather", [table, rows])[0],
        b.op("CumSum", [x, b.constant(2, dtype="int64")])[0],
        b.op("TopK", [x, b.constant((3,), dtype="int64")], outputs=2)[0],
    ]
    graph = b.finish(*outputs)

    assert [(node.op_type, node_flops(graph, node)) for node in graph.nodes] == [
        ("Expand", 0),
        ("Pad", 0),
        ("Resize", 192),
        # Four neighbours weighed for each of 192: 7 each.
        ("Resize", 7 * 192),
        ("Gather", 0),
        ("CumSum", 48),
        ("TopK", 48),
    ]


def test_an_operator_outside_the_table_counts_as_unknown_rather_than_as_nothing() -> None:
    b = GraphBuilder("unknown")
    x = b.input((1, 4))
    graph = b.finish(b.relu(x))
    strange = Node("Strange", "s", ("input",), ("y",))

    assert node_flops(graph, strange) is None


# Calls that cannot be


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("Conv", [np.zeros((1, 3, 8, 8)), np.zeros((4, 5, 3, 3))]), "3 input channels do not fit"),
        (Call("Conv", [np.zeros((1, 3, 2, 2)), np.zeros((4, 3, 5, 5))]), "larger than its padded input"),
        (Call("MatMul", [np.zeros((2, 3)), np.zeros((4, 5))]), "inner dimensions 3 and 4 differ"),
        (Call("Add", [np.zeros((2, 3)), np.zeros((2, 4))]), "do not broadcast"),
        (Call("Concat", [np.zeros((2, 3)), np.zeros((3, 3))], {"axis": 1}), "differ in more than axis 1"),
        (Call("Reshape", [np.zeros(6), np.asarray([4, -1])], constant=frozenset({1})), "cannot reshape"),
        (Call("Reshape", [np.zeros(6), np.asarray([6])]), "at run time"),
        (Call("Squeeze", [np.zeros((2, 3)), np.asarray([0])], constant=frozenset({1})), "cannot squeeze"),
        (Call("TopK", [np.zeros(3), np.asarray([4])], constant=frozenset({1})), "4 largest of 3"),
        (Call("Einsum", [np.zeros((2, 3)), np.zeros((4, 5))], {"equation": "ij,jk->ik"}), "sizes 3 and 4"),
        (Call("Cast", [np.zeros(2)], {"to": 99}), "element type 99"),
        (Call("Transpose", [np.zeros((2, 3))], {"perm": (0, 2)}), "does not fit"),
        (Call("Relu", [None]), "lacks its input 0"),
        (Call("TopK", [np.zeros(3), np.asarray([1])], {"axis": 1}, constant=frozenset({1})), "axis 1 is out of range .* rank 1"),
        (Call("DFT", [np.zeros((2, 8, 1)), None, np.asarray(3)], constant=frozenset({2})), "axis 3 is out of range .* rank 3"),
        (Call("DFT", [np.zeros((2, 8, 1)), None, np.asarray(-1)], constant=frozenset({2})), "real and imaginary parts"),
        (Call("Attention", [*[np.zeros((1, 2, 4, 8))] * 3, None, np.zeros((1, 2, 3, 8))]), "given together"),
        (
            Call("Attention", [*[np.zeros((1, 2, 4, 8))] * 3, None, *[np.zeros((1, 3, 8))] * 2]),
            r"past keys \[1, 3, 8\].* do not fit",
        ),
    ],
)
def test_calls_that_do_not_fit_are_refused_with_the_node_and_the_reason(call: Call, words: str) -> None:
    entry = lookup(call.op_type)
    assert entry is not None

    with pytest.raises(ModelError, match=words) as caught:
        entry.infer(view_of(call))

    assert call.op_type in str(caught.value)
