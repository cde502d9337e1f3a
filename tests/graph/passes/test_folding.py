"""Quantised operators stand alone on integer tensors; what changes between reals and integers stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from latcast.graph import GraphBuilder, Tensor
from latcast.graph.ir import Graph, Node
from latcast.graph.passes import fold_quantization
from latcast.graph.passes.folding import fold_padding
from tests.graph.op_types import op_types
from tests.graph.running import run


class QuantizedBuilder(GraphBuilder):
    """Writes a network in QDQ format."""

    def scale_and_zero(self, dtype: str = "int8") -> Sequence[str]:
        return self.constant(0.1, dtype="float32"), self.constant(0, dtype=dtype)

    def quantize(self, x: str) -> str:
        return self.op("QuantizeLinear", [x, *self.scale_and_zero()])[0]

    def dequantize(self, x: str) -> str:
        return self.op("DequantizeLinear", [x, *self.scale_and_zero()])[0]

    def pair(self, x: str) -> str:
        return self.dequantize(self.quantize(x))

    def integer_weight(self, *shape: int, dtype: str = "int8") -> str:
        """A stored integer weight, dequantised."""
        name = self.weight(shape)
        self._tensors[name] = Tensor(shape, dtype)
        scale = self.constant(0.1, dtype="float32")
        return self.op("DequantizeLinear", [name, scale])[0]

    def quantized_conv(self, x: str, channels: int) -> str:
        filters = self.integer_weight(channels, self.channels(x), 1, 1)
        bias = self.integer_weight(channels, dtype="int32")
        return self.op("Conv", [x, filters, bias], {"kernel_shape": (1, 1)})[0]


def types(graph: Graph, names: Sequence[str]) -> list[str]:
    return [graph.tensors[name].dtype for name in names]


def test_a_graph_without_quantization_is_returned_unchanged() -> None:
    b = GraphBuilder("float")
    graph = b.finish(b.relu(b.input((1, 3))))

    assert fold_quantization(graph) is graph


def test_operators_between_pairs_run_on_integers() -> None:
    b = QuantizedBuilder("chain")
    x = b.pair(b.input((1, 3, 8, 8)))
    x = b.pair(b.quantized_conv(x, 8))
    y = b.pair(b.quantized_conv(x, 8))
    graph = b.finish(b.pair(b.add(x, y)))

    folded = fold_quantization(graph)

    assert op_types(folded) == ["QuantizeLinear", "Conv", "Conv", "Add", "DequantizeLinear"]
    first, second, total = folded.nodes[1:4]
    assert types(folded, first.inputs) == ["int8", "int8", "int32"]
    assert types(folded, [node.outputs[0] for node in (first, second, total)]) == ["int8"] * 3
    assert folded.parameter_count == 3 * 8 + 8 + 8 * 8 + 8
    assert folded.tensors[folded.outputs[0]].dtype == "float32"


def test_activations_and_moves_before_the_quantization_run_on_integers_too() -> None:
    b = QuantizedBuilder("activation")
    x = b.quantized_conv(b.pair(b.input((1, 3, 8, 8))), 8)
    graph = b.finish(b.pair(b.max_pool(b.relu(x), 2)))

    folded = fold_quantization(graph)

    assert op_types(folded) == ["QuantizeLinear", "Conv", "Relu", "MaxPool", "DequantizeLinear"]
    assert {folded.tensors[node.outputs[0]].dtype for node in folded.nodes[:4]} == {"int8"}


def test_an_operator_that_is_read_in_reals_too_stays_real() -> None:
    b = QuantizedBuilder("both")
    x = b.pair(b.input((1, 3, 8, 8)))
    total = b.add(x, x)
    graph = b.finish(b.pair(total), b.sigmoid(total))

    folded = fold_quantization(graph)

    addition = next(node for node in folded.nodes if node.op_type == "Add")
    assert types(folded, [*addition.inputs, *addition.outputs]) == ["float32"] * 3
    assert op_types(folded).count("DequantizeLinear") == 2


def test_a_product_whose_result_stays_real_still_reads_integers() -> None:
    b = QuantizedBuilder("last")
    graph = b.finish(b.softmax(b.quantized_conv(b.pair(b.input((1, 3, 1, 1))), 8)))

    folded = fold_quantization(graph)

    assert op_types(folded) == ["QuantizeLinear", "Conv", "Softmax"]
    conv = folded.nodes[1]
    assert types(folded, [*conv.inputs[:2], *conv.outputs]) == ["int8", "int8", "float32"]


def test_weights_that_are_dequantized_for_real_operators_are_real() -> None:
    b = QuantizedBuilder("weights only")
    graph = b.finish(b.matmul(b.input((1, 16)), b.integer_weight(16, 4)))

    folded = fold_quantization(graph)

    assert op_types(folded) == ["MatMul"]
    assert types(folded, folded.nodes[0].inputs) == ["float32", "float32"]
    assert folded.parameter_count == 64


def test_real_weights_that_go_through_a_pair_are_integers() -> None:
    b = QuantizedBuilder("fake")
    x = b.pair(b.input((1, 16)))
    turned = b.transpose(b.pair(b.weight((4, 16))), (1, 0))
    graph = b.finish(b.pair(b.matmul(x, turned)))

    folded = fold_quantization(graph)

    assert op_types(folded) == ["QuantizeLinear", "MatMul", "DequantizeLinear"]
    weight = folded.nodes[1].inputs[1]
    assert folded.tensors[weight] == Tensor((16, 4), "int8")
    assert folded.weights == {weight}


def test_a_single_number_that_was_quantized_is_a_constant_again() -> None:
    b = QuantizedBuilder("scaled")
    x = b.pair(b.input((1, 16)))
    stored = b.constant(5, dtype="int8")
    factor = b.op("DequantizeLinear", [stored, b.constant(0.1, dtype="float32"), b.constant(1, dtype="int8")])[0]
    graph = b.finish(b.pair(b.mul(x, factor)))

    folded = fold_quantization(graph)

    assert op_types(folded) == ["QuantizeLinear", "Mul", "DequantizeLinear"]
    assert folded.parameter_count == 0
    assert folded.constants[factor] == pytest.approx(0.4)


def dynamic(op_type: str) -> Graph:
    """A product as dynamic quantisation writes it."""
    b = QuantizedBuilder("dynamic")
    x = b.input((1, 8, 4, 4) if op_type == "ConvInteger" else (2, 8))
    weight = b.weight((5, 8, 1, 1) if op_type == "ConvInteger" else (8, 5))
    b._tensors[weight] = Tensor(b.shape(weight), "int8")
    q, scale, zero = b.op("DynamicQuantizeLinear", [x], outputs=3)
    product = b.op("Cast", [b.op(op_type, [q, weight, zero])[0]], {"to": 1})[0]
    return b.finish(b.relu(b.mul(product, b.mul(scale, b.constant(0.1, dtype="float32")))))


def test_dynamic_quantization_is_a_plain_product_with_an_integer_weight() -> None:
    for op_type, plain in (("MatMulInteger", "MatMul"), ("ConvInteger", "Conv")):
        folded = fold_quantization(dynamic(op_type))

        assert op_types(folded) == [plain, "Relu"]
        assert types(folded, [*folded.nodes[0].inputs, *folded.nodes[0].outputs]) == ["float32", "int8", "float32"]
        assert folded.nodes[0].inputs[0] == "input"


def test_an_integer_product_that_nothing_scales_back_stays_one_operator() -> None:
    b = QuantizedBuilder("bare")
    weight = b.weight((8, 5))
    b._tensors[weight] = Tensor((8, 5), "int8")
    graph = b.finish(*b.op("MatMulInteger", [b.input((2, 8), dtype="uint8"), weight]))

    (product,) = fold_quantization(graph).nodes

    assert product == Node("MatMul", product.name, ("input", weight), product.outputs, {})


def test_a_convolution_pads_what_an_operator_padded_before_it() -> None:
    b = GraphBuilder("uneven")
    x = b.pad(b.input((1, 3, 8, 8)), (0, 0, 0, 1, 0, 0, 2, 3))
    graph = b.finish(b.conv(x, 4, 3, stride=2, padding=1))

    folded = fold_padding(graph)

    assert op_types(folded) == ["Conv"]
    assert folded.nodes[0].attributes["pads"] == (1, 2, 3, 4)
    assert folded.shape(folded.outputs[0]) == graph.shape(graph.outputs[0])
    np.testing.assert_array_equal(run(folded)[0], run(graph)[0])


AROUND = (0, 0, 1, 1, 0, 0, 1, 1)


def padded(b: GraphBuilder, pads: Sequence[int] = AROUND, *value: str, **attributes: str) -> str:
    return b.op("Pad", [b.input((1, 3, 6, 6)), b.constant(pads, dtype="int64"), *value], attributes)[0]


@pytest.mark.parametrize(
    "build",
    [
        lambda b: (b.conv(x := padded(b), 4, 3), b.relu(x)),
        lambda b: (b.conv(x := padded(b), 4, 3), x),
        lambda b: (b.conv(padded(b, (0, 1, 0, 0, 0, 0, 0, 0)), 4, 3),),
        lambda b: (b.conv(padded(b, (0, 0, -1, 0, 0, 0, 0, 0)), 4, 3),),
        lambda b: (b.conv(padded(b, AROUND, b.constant(1.0, dtype="float32")), 4, 3),),
        lambda b: (b.conv(padded(b, mode="reflect"), 4, 3),),
    ],
    ids=["second reader", "output", "channels", "cropping", "ones", "reflected"],
)
def test_padding_that_a_convolution_cannot_do_stays(build: Callable[[GraphBuilder], tuple[str, ...]]) -> None:
    b = GraphBuilder("stays")
    graph = b.finish(*build(b))

    assert fold_padding(graph) is graph


def test_two_convolutions_that_read_the_same_padding_both_pad() -> None:
    b = GraphBuilder("branches")
    x = b.pad(b.relu(b.input((1, 3, 6, 6))), (0, 0, 1, 1, 0, 0, 1, 1))
    graph = b.finish(b.add(b.conv(x, 4, 3), b.conv(x, 4, 3)))

    folded = fold_padding(graph)

    assert op_types(folded) == ["Relu", "Conv", "Conv", "Add"]
    np.testing.assert_array_equal(run(folded)[0], run(graph)[0])
