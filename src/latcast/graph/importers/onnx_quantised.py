"""Quantised operators, and products whose weights are stored in a few bits, in terms of plain operators.

Of a quantised operator (QLinearConv) the plain one remains, on tensors of 8 bits; scales and zero points do not decide latency.
Of a product whose weight is stored in blocks (MatMulNBits) the plain product remains, with a weight of that many bits.

Sources: ONNX Runtime's ContribOperators.md, ONNX's Operators.md for QLinearConv and QLinearMatMul, QONNX's documentation of
``qonnx.custom_op.general``.
"""

from __future__ import annotations

from collections.abc import Mapping

from latcast.graph.importers.onnx_steps import MICROSOFT, Rule, Steps, rename
from latcast.graph.ir import Node


def _plain(op_type: str, *own_inputs: int) -> Rule:
    """Return a rule to the plain operator, which has these of the inputs; the others are scales and zero points."""

    def rule(build: Steps) -> None:
        node = build.node
        inputs = [name for name in map(build.input, own_inputs) if name]
        kept = {name: value for name, value in node.attributes.items() if name not in ("channels_last", "opset")}
        if not build.node.integer("channels_last"):
            build.end(op_type, *inputs, **kept)
            return
        build.give(0, build.channels_last(build(op_type, build.channels_first(inputs[0]), *inputs[1:], **kept)))

    return rule


def _dynamic_quantize_matmul(build: Steps) -> None:
    a, b, scale, zero, bias = (build.input(index) for index in range(5))
    integers, a_scale, a_zero = build.many("DynamicQuantizeLinear", 3, a)
    _scaled_product(build, (integers, b, a_zero, zero), build("Mul", a_scale, scale), bias)


def _matmul_integer_to_float(build: Steps) -> None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (build.input(index) for index in range(7))
    _scaled_product(build, (a, b, a_zero, b_zero), build("Mul", a_scale, b_scale), bias)


def _scaled_product(build: Steps, inputs: tuple[str, ...], scale: str, bias: str) -> None:
    """Add a product of integers and what brings it back to real numbers, which folds into one product."""
    real = build("Cast", build("MatMulInteger", *inputs), to=1)
    build.give(0, build.plus(build("Mul", real, scale), bias))


def dtype_of_bits(count: int) -> str:
    """Return the element type of a weight that is stored in so many bits."""
    return "uint8" if count > 4 else "uint4" if count > 2 else "uint2"


def _matmul_of_bits(build: Steps) -> None:
    """Add the product that a weight stored in blocks of a few bits takes part in."""
    x, stored, node = build.node.inputs[0], build.node.inputs[1], build.node
    bias = ""
    if node.op_type == "MatMulNBits":
        columns, bits, bias = build.node.integer("N"), build.node.integer("bits", 4), build.input(5)
    elif node.op_type == "MatMulBnb4":
        columns, bits = build.node.integer("N"), 4
    elif node.op_type == "MatMulFpQ4":
        columns, bits = build.numbers(2)[-1], 4
    else:  # MatMulBlockQuantizedFp4Weight, MatMulBlockQuantizedFp8Weight
        four = "Fp4" in node.op_type
        columns, bits, bias = build.shape(stored)[0], 4 if four else 8, build.input(5 if four else 4)
    _product(build, x, stored, columns, bits, bias)


def _product(build: Steps, x: str, stored: str, columns: int, bits: int, bias: str = "", output: int = 0) -> None:
    weight = build.weight(f"{stored}_unpacked", (build.shape(x)[-1], columns), dtype_of_bits(bits))
    build.give(output, build.plus(build("MatMul", x, weight), bias))


def _normalised(build: Steps, skip: str, scale: str, total: int) -> str:
    """Return the first input behind its root mean square, perhaps added to a skip; that sum is the output ``total``."""
    x = build.input(0)
    if skip:
        x = build("Add", x, skip)
        build.give(total, x)
    return build("RMSNormalization", x, scale, axis=-1) if scale else x


def _bits_gated(build: Steps) -> None:
    """Add MatMulNBitsMlp: the gate and the value of a language model's layer."""
    x = _normalised(build, build.input(1), build.input(2), 1)
    columns, dtype = build.node.integer("N"), dtype_of_bits(build.node.integer("bits", 4))
    gate, up = (
        build.plus(build("MatMul", x, build.weight(build.input(at), (build.shape(x)[-1], columns), dtype)), build.input(at + 2))
        for at in (3, 6)
    )
    build.end("Mul", build.activation(build.node.text("activation", "silu"), gate), up)


def _bits_projections(build: Steps) -> None:
    """Add MatMulNBitsQkv: the projections to queries, keys and values."""
    x = _normalised(build, build.input(1), build.input(2), 3)
    for output, at in enumerate((3, 6, 9)):
        columns = build.node.integer("Nkv" if output else "Nq")
        if build.output(output):
            _product(build, x, build.input(at), columns, build.node.integer("bits", 4), build.input(at + 2), output)


def _gather_of_bits(build: Steps) -> None:
    """Add rows of a table that is stored in blocks of a few bits."""
    data, indices, scales = build.node.inputs[:3]
    shape, bits = build.shape(data), build.node.integer("bits", 4)
    packed = build.dtype(data) == "uint8" and bits < 8
    dtype = dtype_of_bits(bits) if build.dtype(data) == "uint8" else build.dtype(data)
    table = build.weight(f"{data}_unpacked", (*shape[:-1], shape[-1] * (8 // bits if packed else 1)), dtype)
    rows = build("Gather", table, indices, axis=build.node.integer("gather_axis"))
    # In blocks or not, as many scales do not decide latency.
    build.end("DequantizeLinear", rows, build.number(1.0, build.dtype(scales)))


def _dynamic_quantize_lstm(build: Steps) -> None:
    """Add an LSTM whose weights, of 8 bits, are stored transposed."""
    weights = []
    for name in build.node.inputs[1:3]:
        directions, inner, gates = build.shape(name)
        weights.append(build.weight(f"{name}_transposed", (directions, gates, inner), build.dtype(name)))
    inputs = (build.input(0), *weights, *(build.input(index) for index in range(3, 8)))
    build.add(Node("LSTM", build.node.name, inputs, build.node.outputs, build.node.attributes))


def _qonnx_quant(build: Steps) -> None:
    """Add a quantisation and back, of as many bits as are stored; of more than 8 bits nothing is stored smaller."""
    x, scale = build.node.inputs[:2]
    stored = build.assembly.value(build.input(3)) if build.input(3) else None
    width = 1 if build.node.op_type == "BipolarQuant" else 8 if stored is None else int(stored.reshape(-1)[0])
    if width > 8:
        build.give(0, x)
        return
    dtype = dtype_of_bits(width).removeprefix("u") if build.node.integer("signed", 1) else dtype_of_bits(width)
    zero = build.weight("zero", (), dtype)
    scale = scale if build.shape(scale) == () else build.number(1.0, "float32")  # as many do not decide latency
    build.end("DequantizeLinear", build("QuantizeLinear", x, scale, zero), scale, zero)


_OF_MICROSOFT: Mapping[str, Rule] = {
    "DequantizeLinear": rename("DequantizeLinear"),
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
    "GatherBlockQuantized": _gather_of_bits,
    "GemmFloat8": rename("Gemm", 3),
    "MatMulBlockQuantizedFp4Weight": _matmul_of_bits,
    "MatMulBlockQuantizedFp8Weight": _matmul_of_bits,
    "MatMulBnb4": _matmul_of_bits,
    "MatMulFpQ4": _matmul_of_bits,
    "MatMulInteger16": rename("MatMulInteger"),
    "MatMulIntegerToFloat": _matmul_integer_to_float,
    "MatMulNBits": _matmul_of_bits,
    "MatMulNBitsMlp": _bits_gated,
    "MatMulNBitsQkv": _bits_projections,
    "QLinearConcat": lambda build: build.end("Concat", *build.node.inputs[2::3], **build.node.attributes),
    "QLinearWhere": _plain("Where", 0, 1, 4),
    "QuantizeLinear": rename("QuantizeLinear"),
    "ReduceSumInteger": rename("ReduceSum"),
}

_OF_EITHER_DOMAIN: Mapping[str, Rule] = {
    "QGemm": _plain("Gemm", 0, 3, 6),
    "QLinearAdd": _plain("Add", 0, 3),
    "QLinearAveragePool": _plain("AveragePool", 0),
    "QLinearConv": _plain("Conv", 0, 3, 8),
    "QLinearGlobalAveragePool": _plain("GlobalAveragePool", 0),
    "QLinearLeakyRelu": _plain("LeakyRelu", 0),
    "QLinearMatMul": _plain("MatMul", 0, 3),
    "QLinearMul": _plain("Mul", 0, 3),
    "QLinearReduceMean": _plain("ReduceMean", 0),
    "QLinearSigmoid": _plain("Sigmoid", 0),
    "QLinearSoftmax": _plain("Softmax", 0),
}

_QONNX_DOMAINS = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")

QUANTISED: Mapping[tuple[str, str], Rule] = {
    **{(MICROSOFT, name): rule for name, rule in _OF_MICROSOFT.items()},
    **{(domain, name): rule for domain in ("", MICROSOFT) for name, rule in _OF_EITHER_DOMAIN.items()},
    **{(domain, name): _qonnx_quant for domain in _QONNX_DOMAINS for name in ("Quant", "IntQuant", "FloatQuant", "BipolarQuant")},
    **{(domain, "Trunc"): rename("Identity", 1) for domain in _QONNX_DOMAINS},
}
