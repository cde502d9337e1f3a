"""Graphs written as .tflite compute what ONNX Runtime computes with the same synthetic weights."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from latcast.errors import ModelError, UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Node, Tensor
from latcast.graph.writers.tflite import TfliteNetwork, to_tflite, write_tflite
from latcast.graph.writers.tflite.quantisation import quantise
from latcast.graph.writers.tflite.schema import BUILTINS, Padding, TensorType
from tests.graph.running import run
from tests.graph.writers.cases import CASES, Build, graph_of, image, tokens


def inputs_of(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(graph.shape(name), dtype=np.float32) for name in graph.inputs]


def run_tflite(network: TfliteNetwork, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs in logical order, dequantised where the network is int8."""
    interpreters = pytest.importorskip("ai_edge_litert.interpreter", reason="pip install 'latcast[litert]'")
    interpreter = interpreters.Interpreter(model_content=network.data, num_threads=1)
    interpreter.allocate_tensors()
    for detail, values, order in zip(interpreter.get_input_details(), inputs, network.input_orders, strict=True):
        scale, zero_point = detail["quantization"]
        laid_out = np.ascontiguousarray(values.transpose(order))
        if scale:
            laid_out = np.clip(np.round(laid_out / scale) + zero_point, -128, 127).astype(np.int8)
        interpreter.set_tensor(detail["index"], laid_out)
    interpreter.invoke()
    outputs = []
    for detail, order in zip(interpreter.get_output_details(), network.output_orders, strict=True):
        values = interpreter.get_tensor(detail["index"])
        scale, zero_point = detail["quantization"]
        if scale:
            values = (values.astype(np.float32) - zero_point) * scale
        outputs.append(values.transpose(np.argsort(order)))
    return outputs


def builtins_of(graph: Graph, precision: str = "fp32") -> list[str]:
    return [operator.builtin for operator in write_tflite(graph, precision=precision).model.operators]


def options_of(graph: Graph, builtin: str) -> dict[str, float]:
    """The options of the only operator of a sort."""
    (found,) = [o for o in write_tflite(graph).model.operators if o.builtin == builtin]
    return dict(found.options)


# What it computes


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_file_computes_what_onnx_runtime_computes(case: str) -> None:
    graph = graph_of(CASES[case])
    inputs = inputs_of(graph)
    expected = run(graph, *inputs)

    outputs = run_tflite(write_tflite(graph), inputs)

    assert [output.shape for output in outputs] == [graph.shape(name) for name in graph.outputs]
    for output, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=2e-5 * max(1.0, float(np.abs(wanted).max())))


INT8_LOOSE = {"reciprocal", "div_of_scalar", "prelu", "log", "reduce_prod"}
"""Cases whose values have no range that 256 levels could hold, or no estimate of one."""


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_int8_file_follows_the_float_one(case: str) -> None:
    graph = graph_of(CASES[case])
    inputs = inputs_of(graph)
    expected = run(graph, *inputs)

    outputs = run_tflite(write_tflite(graph, precision="int8"), inputs)

    for output, wanted in zip(outputs, expected, strict=True):
        assert output.shape == wanted.shape
        if case not in INT8_LOOSE:
            assert np.corrcoef(output.ravel(), wanted.ravel())[0, 1] > 0.97


@settings(max_examples=60)
@given(
    size=st.tuples(st.integers(4, 13), st.integers(4, 13)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.integers(1, 2),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    groups=st.sampled_from([1, 2, 4]),
)
def test_any_convolution_keeps_its_borders(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: int,
    pads: tuple[int, int, int, int],
    groups: int,
) -> None:
    extent = [(k - 1) * dilation + 1 for k in kernel]
    assume(all(s + pads[a] + pads[a + 2] >= extent[a] for a, s in enumerate(size)))
    b = GraphBuilder("conv")
    x = b.input((1, 4, *size))
    attributes = {"kernel_shape": kernel, "strides": stride, "pads": pads, "dilations": (dilation, dilation), "group": groups}
    graph = b.finish(b.op("Conv", [x, b.weight((8, 4 // groups, *kernel)), b.weight((8,))], attributes)[0])
    inputs = inputs_of(graph)

    (output,) = run_tflite(write_tflite(graph), inputs)

    np.testing.assert_allclose(output, run(graph, *inputs)[0], rtol=1e-4, atol=1e-4)


@settings(max_examples=60)
@given(
    size=st.tuples(st.integers(4, 13), st.integers(4, 13)),
    kernel=st.tuples(st.integers(2, 4), st.integers(2, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 1)] * 4),
    ceil=st.booleans(),
    kind=st.sampled_from(["MaxPool", "AveragePool", "AveragePool with pads"]),
)
def test_any_pooling_keeps_its_borders(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    ceil: bool,
    kind: str,
) -> None:
    # ONNX Runtime divides by the whole window where a last window of ceil_mode leaves the padding; PyTorch does not.
    assume(not (ceil and kind == "AveragePool with pads"))
    b = GraphBuilder("pool")
    attributes: dict[str, int | tuple[int, ...]] = {"kernel_shape": kernel, "strides": stride, "pads": pads}
    attributes["ceil_mode"] = int(ceil)
    if kind == "AveragePool with pads":
        attributes["count_include_pad"] = 1
    graph = b.finish(b.op(kind.split()[0], [b.input((1, 3, *size))], attributes)[0])
    inputs = inputs_of(graph)

    (output,) = run_tflite(write_tflite(graph), inputs)

    np.testing.assert_allclose(output, run(graph, *inputs)[0], rtol=1e-5, atol=1e-5)


# What it looks like


def shown_before_its_norm(b: GraphBuilder) -> tuple[str, ...]:
    return b.batch_norm(x := b.conv(image(b), 8, 3)), x


def shuffle_units(b: GraphBuilder) -> str:
    x = b.conv(image(b, 8), 8, 1)
    for _ in range(2):
        left, right = b.split(x, (4, 4))
        x = b.channel_shuffle(b.concat([left, b.conv_bn(right, 4, 3)]), 2)
    return b.linear(b.flatten(b.global_average_pool(x)), 3)


UNIT = ["SPLIT", "CONV_2D", "CONCATENATION", "RESHAPE", "TRANSPOSE", "RESHAPE"]


@pytest.mark.parametrize(
    ("build", "precision", "builtins"),
    [
        (lambda b: b.conv_bn(image(b), 8, 3), "fp32", ["CONV_2D"]),
        (shown_before_its_norm, "fp32", ["CONV_2D", "MUL", "ADD"]),
        (lambda b: b.relu(b.linear(tokens(b), 7)), "fp32", ["FULLY_CONNECTED"]),
        # A map becomes tokens without a transpose.
        (
            lambda b: b.linear(b.transpose(b.reshape(b.conv(image(b, 6, 5, 7), 8, 1), (1, 8, 35)), (0, 2, 1)), 3),
            "fp32", ["CONV_2D", "RESHAPE", "FULLY_CONNECTED"],
        ),
        (shuffle_units, "fp32", ["CONV_2D", *UNIT, *UNIT, "MEAN", "RESHAPE", "FULLY_CONNECTED"]),
        (CASES["gelu"], "fp32", ["GELU"]),
        (CASES["gelu_in_another_order"], "fp32", ["GELU"]),
        (CASES["pow"], "int8", ["EXP", "DEQUANTIZE", "POW", "QUANTIZE"]),
    ],
)  # fmt: skip
def test_a_network_is_written_with_as_few_operators_as_tflite_needs(build: Build, precision: str, builtins: list[str]) -> None:
    assert builtins_of(graph_of(build), precision) == builtins


def test_flattening_before_a_linear_layer_moves_the_weights_instead_of_the_map() -> None:
    assert "TRANSPOSE" not in builtins_of(graph_of(CASES["flatten_linear"]))
    assert builtins_of(graph_of(CASES["flatten_and_show"])).count("TRANSPOSE") == 1
    assert "TRANSPOSE" not in builtins_of(
        graph_of(lambda b: b.layer_norm(b.transpose(b.op("Identity", [b.conv(image(b), 6, 1)])[0], (0, 2, 3, 1))))
    )


def test_stride_2_on_an_even_size_needs_a_pad_and_on_an_odd_size_none() -> None:
    found = {}
    for size in (12, 13):
        b = GraphBuilder("conv")
        graph = b.finish(b.conv(b.input((1, 3, size, size)), 8, 3, stride=2))
        found[size] = (builtins_of(graph), options_of(graph, "CONV_2D")["padding"])

    # SAME pads 12 with (0, 1), ONNX with (1, 1); both pad 13 with (1, 1).
    assert found == {12: (["PAD", "CONV_2D"], Padding.VALID), 13: (["CONV_2D"], Padding.SAME)}


def test_a_padded_max_pool_after_a_relu_pads_with_zeros_and_any_other_with_the_lowest_float() -> None:
    assert "PAD" in builtins_of(graph_of(CASES["max_pool_padded_after_relu"]))
    graph = graph_of(CASES["max_pool_padded"])
    model = write_tflite(graph).model
    (pad,) = [o for o in model.operators if o.builtin == "PADV2"]
    assert model.tensors[pad.inputs[2]].data == np.finfo(np.float32).min


def test_weights_lie_as_tflite_wants_them() -> None:
    b = GraphBuilder("weights")
    x = b.conv(image(b), 8, (3, 5), groups=2)
    x = b.conv(x, 16, 3, groups=8)
    graph = b.finish(b.linear(b.flatten(b.global_average_pool(x)), 10))
    shapes = {o.builtin: write_tflite(graph).model.tensors[o.inputs[1]].shape for o in write_tflite(graph).model.operators}

    assert shapes["CONV_2D"] == (8, 3, 5, 3)  # outputs, height, width, inputs a group
    assert shapes["DEPTHWISE_CONV_2D"] == (1, 3, 3, 16)
    assert shapes["FULLY_CONNECTED"] == (10, 16)
    assert options_of(graph, "DEPTHWISE_CONV_2D")["depth_multiplier"] == 2


def test_a_channel_shuffle_transposes_the_innermost_axes() -> None:
    b = GraphBuilder("shuffle")
    graph = b.finish(b.conv(b.channel_shuffle(b.conv(image(b), 6, 1), 3), 4, 1))
    model = write_tflite(graph).model
    (moved,) = [o for o in model.operators if o.builtin == "TRANSPOSE"]

    assert model.tensors[moved.inputs[0]].shape == (1, 11, 14, 3, 2)
    assert model.tensors[moved.outputs[0]].shape == (1, 11, 14, 2, 3)


def test_constants_of_constants_are_folded() -> None:
    b = GraphBuilder("bias_table")
    x = b.input((1, 2, 4, 4))
    table = b.op("Gather", [b.weight((9, 2)), b.constant(np.arange(16) % 9, dtype="int64")], {"axis": 0})[0]
    bias = b.op("Unsqueeze", [b.transpose(b.reshape(table, (4, 4, 2)), (2, 0, 1)), b.constant([0], dtype="int64")])[0]
    graph = b.finish(b.softmax(b.add(x, bias)))
    inputs = inputs_of(graph)

    assert builtins_of(graph)[-2:] == ["ADD", "SOFTMAX"]
    np.testing.assert_allclose(run_tflite(write_tflite(graph), inputs)[0], run(graph, *inputs)[0], rtol=1e-5, atol=1e-6)


# Names


def test_every_operator_names_its_nodes_and_its_output_carries_the_tensor_of_the_last() -> None:
    b = GraphBuilder("names")
    x = b.conv_bn(b.input((1, 3, 12, 12)), 8, 3, stride=2)
    graph = b.finish(b.relu(b.add(x, b.conv(x, 8, 1))))
    network = write_tflite(graph)
    found = [(o.builtin, network.model.tensors[o.outputs[0]].name, o.nodes) for o in network.model.operators]

    assert found == [
        ("PAD", "relu_0_out/padded", ("conv_0",)),
        ("CONV_2D", "relu_0_out", ("conv_0", "batchnormalization_0", "relu_0")),
        ("CONV_2D", "conv_1_out", ("conv_1",)),
        ("ADD", "relu_1_out", ("add_0", "relu_1")),
    ]
    assert network.model.operators[3].activation_node == "relu_1"


@pytest.mark.parametrize("case", sorted(CASES))
def test_every_graph_output_keeps_its_name_or_is_a_copy(case: str) -> None:
    graph = graph_of(CASES[case])
    model = write_tflite(graph).model
    made = {name for index in model.outputs for name in [model.tensors[index].name]}
    aliases = {node.outputs[0] for node in graph.nodes if node.op_type in ("Identity", "Dropout", "Transpose")}

    assert {name for name in graph.outputs if name not in aliases and name not in graph.inputs} <= made


# int8


def test_int8_weights_are_per_channel_and_biases_in_the_product_of_the_scales() -> None:
    b = GraphBuilder("int8")
    graph = b.finish(b.conv(image(b), 8, 3, bias=True))
    model = write_tflite(graph, precision="int8").model
    (conv,) = model.operators
    source, weight, bias = (model.tensors[index] for index in conv.inputs)

    assert (source.type, weight.type, bias.type) == (TensorType.INT8, TensorType.INT8, TensorType.INT32)
    assert source.quantisation is not None
    assert weight.quantisation is not None
    assert bias.quantisation is not None
    assert weight.quantisation.scales.shape == (8,)
    assert weight.data is not None
    assert np.array_equal(np.abs(weight.data).max(axis=(1, 2, 3)), np.full(8, 127))
    np.testing.assert_allclose(bias.quantisation.scales, weight.quantisation.scales * source.quantisation.scales[0], rtol=1e-6)


def test_operators_that_move_values_keep_their_scale() -> None:
    graph = graph_of(CASES["channel_shuffle"])
    model = write_tflite(graph, precision="int8").model
    scales = {float(model.tensors[o.outputs[0]].quantisation.scales[0]) for o in model.operators}  # type: ignore[union-attr]

    assert len(model.operators) == 4
    assert len(scales) == 1


def test_sigmoid_has_the_scale_that_its_kernel_demands_and_a_concat_rescales_it() -> None:
    b = GraphBuilder("fixed")
    x = image(b)
    graph = b.finish(b.concat([b.sigmoid(x), b.conv(x, 4, 1)]))
    model = write_tflite(graph, precision="int8").model

    (sigmoid,) = [model.tensors[o.outputs[0]].quantisation for o in model.operators if o.builtin == "LOGISTIC"]
    assert sigmoid is not None
    assert (float(sigmoid.scales[0]), int(sigmoid.zero_points[0])) == (1 / 256, -128)
    assert [o.builtin for o in model.operators].count("QUANTIZE") == 1


def test_a_constant_second_operand_of_a_product_gets_a_zero_point_other_than_0() -> None:
    b = GraphBuilder("product with a constant")
    graph = b.finish(b.matmul(b.input((2, 5, 2)), b.constant([[[-1.0, 1.0], [0.0, 1.0]]] * 2, dtype="float32")))
    model = write_tflite(graph, precision="int8").model
    constant = model.tensors[model.operators[0].inputs[1]]

    assert constant.quantisation is not None
    assert int(constant.quantisation.zero_points[0]) == 1
    # A step is 2 / 255 * 127 / 126, so that 1 is 126.496 of them.
    assert constant.data is not None
    assert constant.data.tolist() == [[[-126 + 1, 126 + 1], [1, 126 + 1]]] * 2


@pytest.mark.parametrize(
    ("high", "maker", "zero_points"),
    # -128 + 255 / 2 is -0.5, which rounds to 0; -128 + 255 / 4 is -64.25. A Tanh demands 0.
    [(1.0, "", [0, 1]), (3.0, "", [0, -64]), (1.0, "Tanh", [0, 0])],
)
def test_the_second_operand_of_a_product_gets_a_zero_point_other_than_0(high: float, maker: str, zero_points: list[int]) -> None:
    b = GraphBuilder("product")
    x, y = b.input((1, 2, 5, 3)), b.input((1, 2, 3, 4))
    y = b.op(maker, [y])[0] if maker else y
    model = write_tflite(b.finish(b.matmul(x, y))).model

    written = quantise(model, {tensor.name: (-1.0, 1.0) for tensor in model.tensors} | {y: (-1.0, high)})

    (product,) = [operator for operator in written.operators if operator.builtin == "BATCH_MATMUL"]
    found = [int(written.tensors[index].quantisation.zero_points[0]) for index in product.inputs]  # type: ignore[union-attr]
    assert found == zero_points


def test_an_unknown_precision_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOperatorError, match="fp13"):
        to_tflite(graph_of(CASES["conv"]), precision="fp13")


# What it refuses


def test_a_size_beyond_32_bits_is_refused_by_tensor() -> None:
    b = GraphBuilder("too long")
    graph = b.finish(b.relu(b.input((2**31,))))

    with pytest.raises(UnsupportedOperatorError, match=r"tensor 'input' of shape \(2147483648,\); TFLite counts to 2147483647"):
        to_tflite(graph)


def test_an_unknown_operator_is_refused_by_node() -> None:
    graph = graph_of(CASES["relu"])
    odd = Node("NoSuchOperator", "the_odd_one", graph.outputs, ("odd_out",))
    graph = replace(
        graph, nodes=(*graph.nodes, odd), outputs=("odd_out",), tensors={**graph.tensors, "odd_out": Tensor((1, 6, 11, 14))}
    )

    with pytest.raises(UnsupportedOperatorError, match="the_odd_one"):
        to_tflite(graph)


def test_a_weight_of_a_wrong_shape_is_an_error_although_litert_would_run_it() -> None:
    graph = graph_of(CASES["conv_1x1"])
    (weight,) = graph.weights
    graph = replace(graph, tensors={**graph.tensors, weight: Tensor((8, 3, 1, 1))})

    with pytest.raises(ModelError, match="conv_0"):
        to_tflite(graph)


def test_a_tensor_of_another_shape_than_its_node_makes_is_an_error() -> None:
    graph = graph_of(CASES["conv_1x1"])
    graph = replace(graph, tensors={**graph.tensors, graph.outputs[0]: Tensor((1, 8, 11, 15))})

    with pytest.raises(ModelError, match=re.escape("[1, 8, 11, 14]")):
        to_tflite(graph)


@pytest.mark.parametrize(
    ("op_type", "shape", "attributes", "reason"),
    [
        ("Elu", (1, 4, 6, 6), {"alpha": 0.5}, "alpha"),
        ("MaxPool", (1, 4, 6, 6), {"kernel_shape": (2, 2), "dilations": (2, 2)}, "dilation"),
        ("LRN", (1, 4, 6, 6), {"size": 4}, "window"),
        ("MaxPool", (1, 4, 6), {"kernel_shape": (2,)}, "2-D"),
        ("Erf", (1, 10, 12), {}, "Erf"),
    ],
)
def test_a_node_that_tflite_cannot_express_is_refused_with_the_reason(
    op_type: str, shape: tuple[int, ...], attributes: dict[str, float], reason: str
) -> None:
    b = GraphBuilder("refused")
    graph = b.finish(b.op(op_type, [b.input(shape)], attributes, name="culprit")[0])

    with pytest.raises(UnsupportedOperatorError, match=f"culprit.*{reason}"):
        to_tflite(graph)


# The file


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    graph = graph_of(CASES["conv"])

    assert to_tflite(graph) == to_tflite(graph)
    assert to_tflite(graph) != to_tflite(graph, seed=1)


def test_litert_reads_the_model_that_was_written() -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="pip install 'latcast[litert]'")
    written: set[str] = set()
    for case in CASES.values():
        for precision in ("fp32", "int8"):
            network = write_tflite(graph_of(case), precision=precision)
            read = schema.ModelT.InitFromObj(schema.Model.GetRootAs(network.data, 0))
            (subgraph,) = read.subgraphs
            assert network.data[4:8] == b"TFL3"
            assert read.version == 3
            assert tuple(subgraph.inputs) == network.model.inputs
            assert tuple(subgraph.outputs) == network.model.outputs
            for tensor, found in zip(network.model.tensors, subgraph.tensors, strict=True):
                assert tuple(found.shape if found.shape is not None else ()) == tensor.shape
                assert (found.name.decode(), found.type) == (tensor.name, tensor.type)
                if tensor.data is not None:
                    assert bytes(read.buffers[found.buffer].data) == tensor.data.tobytes()
                if tensor.quantisation is not None:
                    assert np.array_equal(found.quantization.scale, tensor.quantisation.scales.astype(np.float32))
                    assert np.array_equal(found.quantization.zeroPoint, tensor.quantisation.zero_points)
                    assert found.quantization.quantizedDimension == tensor.quantisation.axis
            for operator, found in zip(network.model.operators, subgraph.operators, strict=True):
                code = read.operatorCodes[found.opcodeIndex]
                assert code.builtinCode == getattr(schema.BuiltinOperator, operator.builtin)
                assert tuple(found.inputs) == operator.inputs
                for name, value in operator.options.items():
                    assert getattr(found.builtinOptions, camel_case(name)) == pytest.approx(value)
                written.add(operator.builtin)
    # Every operator of the table is written by some case, so that no row of it goes unread.
    assert written == set(BUILTINS)


def camel_case(name: str) -> str:
    """``stride_w`` as the generated bindings call it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_weights_start_at_multiples_of_16_bytes() -> None:
    graph = graph_of(CASES["conv_bn_relu"])
    network = write_tflite(graph)

    for tensor in network.model.tensors:
        if tensor.data is not None and tensor.data.nbytes > 64:
            assert network.data.index(tensor.data.tobytes()) % 16 == 0


# Orders of axes
