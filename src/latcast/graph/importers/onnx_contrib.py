"""Operators that optimisers and quantisers write (com.microsoft and its layouts, QONNX), in terms of plain operators.

A fused operator becomes several again: which operators run as one kernel is for the fusion rules of a platform to say. Of a
quantised operator (QLinearConv) the plain one remains, on tensors of 8 bits; scales and zero points do not decide latency. Of a
product whose weight is stored in blocks of a few bits (MatMulNBits) the plain product remains, with a weight of that many bits.

Sources: ONNX Runtime's ContribOperators.md for the domains of Microsoft, ONNX's Operators.md for QLinearConv and
QLinearMatMul, QONNX's documentation of ``qonnx.custom_op.general``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import cast

from latcast.errors import ModelError
from latcast.graph.importers import onnx_attention as attention
from latcast.graph.importers.assembly import Assembly
from latcast.graph.importers.onnx_steps import NoRuleError, Steps
from latcast.graph.ir import AttributeValue, Node
from latcast.graph.operators import lookup

Attributes = dict[str, AttributeValue]
Rule = Callable[[Steps], None]

MICROSOFT = "com.microsoft"
BLOCKED = "com.microsoft.nchwc"
CHANNELS_LAST = "com.ms.internal.nhwc"
QONNX = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")


def expand(node: Node, assembly: Assembly, add: Callable[[Node], None]) -> bool:
    """Add standard operators that compute the same, or return False without a rule for this one.

    Raises:
        ModelError: It is no operator of a single latency, or was compiled for one machine.
    """
    if node.domain == CHANNELS_LAST:
        rule: Rule | None = _channels_last
    else:
        rule = _RULES.get((node.domain, node.op_type))
    if rule is None:
        return False
    try:
        rule(Steps(node, assembly, add))
    except NoRuleError:
        return False
    return True


def _rename(op_type: str, inputs: int | None = None) -> Rule:
    def rule(build: Steps) -> None:
        node = build.node
        build.add(Node(op_type, node.name, node.inputs[:inputs], node.outputs, node.attributes))

    return rule


def _refuse(reason: str) -> Rule:
    def rule(build: Steps) -> None:
        raise ModelError(f"node '{build.node.name}' ({build.node.op_type}) {reason}")

    return rule


_SAMPLES = _refuse(
    "samples tokens until it meets the last one, so it has no single latency; give the model of one step, the decoder "
    "that lies inside it"
)


# Quantised operators


def _plain(op_type: str, *own_inputs: int) -> Rule:
    """Return a rule to the plain operator, which has these of the inputs; the others are scales and zero points."""

    def rule(build: Steps) -> None:
        node = build.node
        inputs = [name for name in map(build.input, own_inputs) if name]
        kept = {name: value for name, value in node.attributes.items() if name not in ("channels_last", "opset")}
        if not build.integer("channels_last"):
            build.end(op_type, *inputs, **kept)
            return
        first = build.channels_first(inputs[0])
        build.end("Transpose", build(op_type, first, *inputs[1:], **kept), perm=_last(len(build.shape(first))))

    return rule


def _last(rank: int) -> tuple[int, ...]:
    """Return the order of axes that brings channels to the end."""
    return (0, *range(2, rank), 1)


def _qlinear_concat(build: Steps) -> None:
    build.end("Concat", *build.node.inputs[2::3], **build.node.attributes)


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
    if bias:
        build.end("Add", build("Mul", real, scale), bias)
    else:
        build.end("Mul", real, scale)


def _bits(count: int) -> str:
    """Return the element type of a weight that is stored in so many bits."""
    return "uint8" if count > 4 else "uint4" if count > 2 else "uint2"


def _matmul_of_bits(build: Steps) -> None:
    """Add the product that a weight stored in blocks of a few bits takes part in."""
    x, stored, node = build.node.inputs[0], build.node.inputs[1], build.node
    bias = ""
    if node.op_type == "MatMulNBits":
        columns, bits, bias = build.integer("N"), build.integer("bits", 4), build.input(5)
    elif node.op_type == "MatMulBnb4":
        columns, bits = build.integer("N"), 4
    elif node.op_type == "MatMulFpQ4":
        sizes = build.assembly.value(build.input(2))
        if sizes is None:
            raise NoRuleError
        columns, bits = int(sizes.reshape(-1)[-1]), 4
    else:  # MatMulBlockQuantizedFp4Weight, MatMulBlockQuantizedFp8Weight
        four = "Fp4" in node.op_type
        columns, bits, bias = build.shape(stored)[0], 4 if four else 8, build.input(5 if four else 4)
    _product(build, x, stored, columns, bits, bias)


def _product(build: Steps, x: str, stored: str, columns: int, bits: int, bias: str = "", output: int = 0) -> None:
    weight = build.weight(f"{stored}_unpacked", (build.shape(x)[-1], columns), _bits(bits))
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
    columns, dtype = build.integer("N"), _bits(build.integer("bits", 4))
    gate, up = (
        build.plus(build("MatMul", x, build.weight(build.input(at), (build.shape(x)[-1], columns), dtype)), build.input(at + 2))
        for at in (3, 6)
    )
    build.end("Mul", build.activation(build.text("activation", "silu"), gate), up)


def _bits_projections(build: Steps) -> None:
    """Add MatMulNBitsQkv: the projections to queries, keys and values."""
    x = _normalised(build, build.input(1), build.input(2), 3)
    for output, at in enumerate((3, 6, 9)):
        columns = build.integer("Nkv" if output else "Nq")
        if build.output(output):
            _product(build, x, build.input(at), columns, build.integer("bits", 4), build.input(at + 2), output)


def _gather_of_bits(build: Steps) -> None:
    """Add rows of a table that is stored in blocks of a few bits."""
    data, indices, scales = build.node.inputs[:3]
    shape, bits = build.shape(data), build.integer("bits", 4)
    packed = build.dtype(data) == "uint8" and bits < 8
    dtype = _bits(bits) if build.dtype(data) == "uint8" else build.dtype(data)
    table = build.weight(f"{data}_unpacked", (*shape[:-1], shape[-1] * (8 // bits if packed else 1)), dtype)
    rows = build("Gather", table, indices, axis=build.integer("gather_axis"))
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
    dtype = _bits(width).removeprefix("u") if build.integer("signed", 1) else _bits(width)
    zero = build.weight("zero", (), dtype)
    scale = scale if build.shape(scale) == () else build.number(1.0, "float32")  # as many do not decide latency
    build.end("DequantizeLinear", build("QuantizeLinear", x, scale, zero), scale, zero)


# Fused operators


def _ended(build: Steps, x: str) -> None:
    """Let a fused convolution or product end with its activation."""
    node, kind = build.node, build.text("activation")
    given = cast("tuple[float, ...]", node.attributes.get("activation_params", ()))
    row = lookup(kind)
    names = () if row is None else tuple(row.attributes)
    parameters: Attributes = dict(zip(names, given, strict=False))
    parameters |= {name: node.attributes[f"activation_{name}"] for name in names if f"activation_{name}" in node.attributes}
    bounds = [build.assembly.constant(bound, "float32") for bound in given] if kind == "Clip" else []
    build.give(0, build.activation(kind, x, *bounds, **parameters))


def _own(build: Steps) -> Attributes:
    return {name: value for name, value in build.node.attributes.items() if not name.startswith("activation")}


def _fused_conv(build: Steps) -> None:
    x = build("Conv", *build.node.inputs[:3], **_own(build))
    _ended(build, build.plus(x, build.input(3)))


def _nhwc_conv(build: Steps) -> None:
    """Add a convolution of channels that lie last, with its weight as ONNX has it (NhwcConv, NhwcFusedConv)."""
    x = build("Conv", build.channels_first(build.input(0)), build.input(1), build.input(2), **_own(build))
    x = build.activation(build.text("activation"), build.plus(x, build.channels_first(build.input(3)) if build.input(3) else ""))
    build.end("Transpose", x, perm=_last(len(build.shape(x))))


def _channels_last(build: Steps) -> None:
    """Add any operator on images between two transposes."""
    node, x = build.node, build.channels_first(build.input(0))
    op_type, made = node.op_type.removeprefix("Nhwc"), build.assembly.fresh(f"{node.op_type}_first")
    build.add(Node(op_type, node.name, (x, *node.inputs[1:]), (made,), node.attributes))
    build.end("Transpose", made, perm=_last(len(build.shape(x))))


def _fused_gemm(build: Steps) -> None:
    _ended(build, build("Gemm", *build.node.inputs, **_own(build)))


def _fused_matmul(build: Steps) -> None:
    """Add a product of transposed sides; with ``transBatch`` the first axis lies behind the others but the last."""
    sides = []
    for side, name in zip("AB", build.node.inputs, strict=True):
        rank = len(build.shape(name))
        order = list(range(rank))
        if build.integer(f"transBatch{side}") and rank > 2:
            order = [*order[1:-1], 0, order[-1]]
        if build.integer(f"trans{side}") and rank > 1:
            order = [*order[:-2], order[-1], order[-2]]
        sides.append(name if order == sorted(order) else build("Transpose", name, perm=tuple(order)))
    alpha = build.real("alpha", 1.0)
    x = build("MatMul", *sides)
    _ended(build, x if alpha == 1.0 else build("Mul", x, build.number(alpha, build.dtype(x))))


def _bias_gelu(approximate: str) -> Rule:
    def rule(build: Steps) -> None:
        attributes: Attributes = {"approximate": approximate} if approximate != "none" else {}
        build.end("Gelu", build.plus(build.input(0), build.input(1)), **attributes)

    return rule


def _gemm_gelu(build: Steps) -> None:
    build.end("Gelu", build.plus(build("MatMul", *build.node.inputs[:2]), build.input(2)))


def _quick_gelu(build: Steps) -> None:
    x = build.input(0)
    alpha = build.number(build.real("alpha", 1.702), build.dtype(x))
    build.end("Mul", x, build("Sigmoid", build("Mul", x, alpha)))


def _split_gelu(build: Steps) -> None:
    x = build("Add", *build.node.inputs[:2])
    width = build.shape(x)[-1] // 2
    value, gate = build.split(x, len(build.shape(x)) - 1, width, width)
    build.end("Mul", value, build("Gelu", gate))


def _sums(build: Steps) -> None:
    """Add all inputs up: BiasAdd, and dropouts with a bias, whose ratio does nothing in inference."""
    *first, last = [name for name in build.node.inputs[:3] if name]
    x = first[0]
    for name in first[1:]:
        x = build("Add", x, name)
    build.end("Add", x, last)


def _bias_softmax(build: Steps) -> None:
    build.end("Softmax", build("Add", *build.node.inputs[:2]), axis=build.integer("axis", 1))


def _skip_normalization(op_type: str, bias_index: int) -> Rule:
    """Add the sum of two branches (and a bias), then a normalisation; output 3 is the sum."""

    def rule(build: Steps) -> None:
        if any(map(build.output, (1, 2))):
            raise NoRuleError
        total = build.plus(build("Add", *build.node.inputs[:2]), build.input(bias_index))
        build.give(3, total)
        scales = [name for name in build.node.inputs[2:bias_index] if name]
        build.end(op_type, total, *scales, axis=-1, epsilon=build.real("epsilon", 1e-5))

    return rule


def _simplified_layer_norm(build: Steps) -> None:
    kept = {name: build.node.attributes[name] for name in ("axis", "epsilon") if name in build.node.attributes}
    build.end("RMSNormalization", *build.node.inputs, **kept)


def _group_norm(build: Steps) -> None:
    """Add GroupNorm and SkipGroupNorm, of channels that lie last unless it says otherwise, with SiLU behind it."""
    x, scale, bias = build.node.inputs[:3]
    if build.node.op_type == "SkipGroupNorm":
        x = build.plus(build("Add", x, build.input(3)), build.input(4))
        build.give(1, x)
    last = build.integer("channels_last", 1)
    x = build.channels_first(x) if last else x
    x = build("GroupNormalization", x, scale, bias, num_groups=build.integer("groups", 1))
    x = build.activation("silu" if build.integer("activation") else "", x)
    build.give(0, build.channels_last(x) if last else x)


def _rotary_embedding(build: Steps) -> None:
    x, positions, cosines, sines = build.node.inputs[:4]
    kept = {name: build.node.attributes[name] for name in ("interleaved", "num_heads", "rotary_embedding_dim")
            if name in build.node.attributes}  # fmt: skip
    build.end("RotaryEmbedding", x, cosines, sines, positions, **kept)


def _embeddings(build: Steps) -> None:
    """Add the sum of the embeddings of words, positions and segments, normalised (EmbedLayerNormalization, also quantised)."""
    quantised = build.node.op_type.startswith("Q")
    ids, segments, words, positions, segment_table = (build.input(index) for index in range(5))
    scale_at = 8
    placed = "" if quantised else build.input(8)
    tokens = build.shape(ids)[1]
    rows = build("Gather", positions, placed) if placed else build("Slice", positions, *map(build.integers, (0, tokens, 0)))
    parts = [build("Gather", words, ids), rows]
    if segments and segment_table:
        parts.append(build("Gather", segment_table, segments))
    if quantised:
        parts = [build("DequantizeLinear", part, build.input(scale_at + index)) for index, part in enumerate(parts)]
    total = parts[0]
    for part in parts[1:]:
        total = build("Add", total, part)
    if build.output(1):  # of each sentence how many words it has
        counted = build.input(7) or ids
        build.add(Node("ReduceSum", f"{build.node.name}_mask", (counted,), (build.output(1),), {"axes": (1,), "keepdims": 0}))
    build.give(2, total)
    scales = build.node.inputs[5:7]
    if quantised:
        scales = tuple(build.weight(name, build.shape(name), "float32") for name in scales)
    build.end("LayerNormalization", total, *scales, axis=-1, epsilon=build.real("epsilon", 1e-12))


def _experts(build: Steps) -> None:
    """Add MoE and QMoE: of many experts, a few for each token.

    The experts that are used are one product of as many multiply-accumulates: each reads an equal share of the tokens, so that
    their number, and the weights that are read, is rounded down to one that parts the tokens.
    """
    quantised = build.node.op_type == "QMoE"
    x, router = build.node.inputs[:2]
    first, third = (build.input(index) for index in ((2, 8) if quantised else (2, 6)))
    experts, hidden = build.shape(router)[-1], build.shape(x)[-1]
    tokens, chosen = prod(build.shape(router)[:-1]), max(build.integer("k", 1), 1)
    used = next(count for count in range(min(experts, tokens * chosen), 0, -1) if tokens * chosen % count == 0)
    kind, wide = build.text("activation_type", "relu"), build.shape(first)[1]
    fused = build.integer("swiglu_fusion") > 0 or (kind == "swiglu" and not third)
    inner = used * (wide // 2 if fused else wide)
    bits = build.integer("expert_weight_bits", 4)
    dtypes = [_bits(build.integer(f"fc{layer}_expert_weight_bits") or bits) if quantised else build.dtype(x) for layer in (1, 2)]

    def product(tensor: str, outputs: int, dtype: str) -> str:
        return build("MatMul", tensor, build.weight("experts", (build.shape(tensor)[-1], outputs), dtype))

    shared = _rows_of(build, build.reshape(x, tokens, hidden), tokens * chosen // used)
    y = build.activation("silu" if kind == "swiglu" else kind, product(shared, inner, dtypes[0]))
    if fused or third:
        y = build("Mul", y, product(shared, inner, dtypes[0]))
    y = _rows_of(build, product(y, hidden, dtypes[1]), tokens)
    build.end("Reshape", y, build.integers(*build.shape(x)))


def _rows_of(build: Steps, x: str, rows: int) -> str:
    """Return so many rows of a matrix."""
    return x if build.shape(x)[0] == rows else build("Gather", x, build.weight("rows", (rows,), "int64"), axis=0)


def _causal_conv(build: Steps) -> None:
    """Add the past, a depthwise convolution along the last axis, and what is the past of the next step."""
    x, weight, bias, past = (build.input(index) for index in range(4))
    if build.integer("state_window"):
        raise NoRuleError
    last = build.integer("channels_last")
    x, past = (build.channels_first(name) if last and name else name for name in (x, past))
    kernel, dilation, rank = build.shape(weight)[2:], build.integer("dilation", 1), len(build.shape(x))
    room = (kernel[-1] - 1) * dilation
    around = [(size - 1) // 2 for size in kernel[:-1]]
    pads = (*around, 0 if past else room, *(size - 1 - pad for size, pad in zip(kernel[:-1], around, strict=True)), 0)
    joined = build("Concat", past, x, axis=rank - 1) if past and room else x
    y = build("Conv", joined, weight, bias, group=build.shape(weight)[0], kernel_shape=kernel, pads=pads,
              dilations=(*(1 for _ in kernel[:-1]), dilation))  # fmt: skip
    if build.output(1) and room:
        size = build.shape(joined)[-1]
        if size < room:
            before = build.integers(*(0,) * (rank - 1), room - size, *(0,) * rank)
            kept = build("Pad", joined, before)
        else:
            kept = build("Slice", joined, *map(build.integers, (size - room, size, rank - 1)))
        build.give(1, build.channels_last(kept) if last else kept)
    y = build.activation(build.text("activation", "none"), y)
    build.give(0, build.channels_last(y) if last else y)


def _deformable_conv(build: Steps) -> None:
    """Add a sample of the image for each tap of each output, then a convolution that reads each patch of samples once."""
    x, weight, offsets, bias, mask = (build.input(index) for index in range(5))
    batch, channels, *image = build.shape(x)
    kernel = build.shape(weight)[2:]
    taps, axes, groups = prod(kernel), len(kernel), build.integer("offset_group", 1)
    if len(build.shape(offsets)) != axes + 2 or build.shape(offsets)[1] != groups * axes * taps:
        raise NoRuleError
    out = build.shape(offsets)[2:]
    patches = tuple(size * k for size, k in zip(out, kernel, strict=True))
    # From (taps, axes, positions) to the positions of a map in which the taps of each output lie side by side.
    parted = build.reshape(offsets, batch * groups, *kernel, axes, *out)
    order = (0, *(place for axis in range(axes) for place in (2 + axes + axis, 1 + axis)), 1 + axes)
    grid = build.reshape(build("Transpose", parted, perm=order), batch * groups, *patches, axes)
    grid = build("Add", grid, build.weight("places", (1, *patches, axes), build.dtype(offsets)))
    images = build.reshape(x, batch * groups, channels // groups, *image)
    samples = build("GridSample", images, grid, mode="linear")
    if mask:
        weights = build.reshape(mask, batch * groups, *kernel, *out)
        order = (0, *(place for axis in range(axes) for place in (1 + axes + axis, 1 + axis)))
        weights = build.reshape(build("Transpose", weights, perm=order), batch * groups, 1, *patches)
        samples = build("Mul", samples, weights)
    samples = build.reshape(samples, batch, channels, *patches)
    build.end("Conv", samples, weight, bias, group=build.integer("group", 1), kernel_shape=kernel, strides=kernel)


def _constant_pads(build: Steps) -> None:
    """Add ConvTransposeWithDynamicPads, whose pads are an input."""
    pads = build.assembly.value(build.input(2)) if build.input(2) else None
    if build.input(2) and pads is None:
        raise NoRuleError
    attributes = dict(build.node.attributes)
    if pads is not None:
        attributes["pads"] = tuple(int(pad) for pad in pads.reshape(-1))
    build.end("ConvTranspose", *build.node.inputs[:2], build.input(3), **attributes)


def _expand_dims(build: Steps) -> None:
    axis = build.assembly.value(build.input(1))
    if axis is None:
        raise NoRuleError
    build.end("Unsqueeze", build.input(0), build.integers(int(axis.reshape(-1)[0])))


def _masked_pool(build: Steps) -> None:
    build.end("MaxPool", build.input(0), **build.node.attributes)


def _distances(build: Steps) -> None:
    """Add CDist: of two lists of vectors the product of each with each, and the root of what it gives."""
    first, second = build.node.inputs[:2]
    products = build("Abs", build("MatMul", first, build("Transpose", second, perm=(1, 0))))
    build.give(0, build("Sqrt", products) if build.text("metric") == "euclidean" else products)


def _gated_sum(build: Steps) -> None:
    x, y, gate = build.node.inputs[:3]
    build.end("Add", x, build("Mul", y, gate))


def _gated_norm(build: Steps) -> None:
    x, scale, gate = build.node.inputs[:3]
    gated = build.activation(build.text("activation", "silu"), gate)
    build.end("Mul", build("RMSNormalization", x, scale, axis=-1), gated)


def _position_bias(build: Steps) -> None:
    """Add RelativePositionBias: a table's row for every distance of a query from a key, (1, heads, queries, keys)."""
    table, *ends = build.node.inputs[:3]
    sizes = [build.assembly.value(name) for name in ends]
    if any(size is None for size in sizes):
        raise NoRuleError
    queries, keys = (int(size.reshape(-1)[0]) for size in sizes if size is not None)
    heads = build.shape(table)[1]
    rows = build("Gather", table, build.weight("distances", (queries * keys,), "int64"), axis=0)
    build.end("Reshape", build("Transpose", rows, perm=(1, 0)), build.integers(1, heads, queries, keys))


def _gated_position_bias(build: Steps) -> None:
    """Add GatedRelativePositionBias: two gates from the queries of each head, which scale its bias."""
    query, bias, positions, weight, added, eco = build.node.inputs[:6]
    if build.input(6) or len(build.shape(query)) != 3:
        raise NoRuleError
    batch, tokens, width = build.shape(query)
    heads = build.integer("num_heads", 1)
    parted = build.reshape(build("Add", query, bias), batch, tokens, heads, width // heads)
    gates = build("Add", build("MatMul", build("Transpose", parted, perm=(0, 2, 1, 3)), weight), added)
    half = build.shape(gates)[-1] // 2
    summed = build("ReduceSum", build.reshape(gates, batch, heads, tokens, 2, half), axes=(4,), keepdims=0)
    first, second = build.split(build("Sigmoid", summed), 3, 1, 1)
    build.end("Mul", build("Add", build("Mul", build("Mul", first, second), eco), second), positions)


def _without_padding(build: Steps) -> None:
    """Add RemovePadding, as if no sequence had any: tokens one behind the other, and where they come from."""
    x = build.input(0)
    batch, tokens, width = build.shape(x)
    for index, shape in enumerate(((batch, tokens), (batch + 1,), (1,)), 1):
        build.give(index, build.weight("offsets", shape, "int32"))
    kept = build.weight("kept", (batch * tokens,), "int64")
    build.end("Gather", build.reshape(x, batch * tokens, width), kept, axis=0)


def _with_padding(build: Steps) -> None:
    x, offsets = build.node.inputs[:2]
    batch, tokens = build.shape(offsets)
    index = build.weight("places", (batch * tokens,), "int64")
    build.end("Reshape", build("Gather", x, index, axis=0), build.integers(batch, tokens, build.shape(x)[1]))


def _crop_and_resize(build: Steps) -> None:
    sizes = build.assembly.value(build.input(3))
    if sizes is None:
        raise NoRuleError
    height, width = (int(size) for size in sizes.reshape(-1))
    build.end("RoiAlign", *build.node.inputs[:3], output_height=height, output_width=width, sampling_ratio=1)


# Operators that ONNX had before it settled on its own, which ONNX Runtime still runs


def _scaled(inner: str) -> Rule:
    """Return a rule to alpha f(beta x), or without a function to alpha x + beta."""

    def rule(build: Steps) -> None:
        x, dtype = build.input(0), build.dtype(build.input(0))
        alpha, beta = (build.number(build.real(name, 1.0), dtype) for name in ("alpha", "beta"))
        if inner:
            build.end("Mul", build(inner, build("Mul", x, beta)), alpha)
        else:
            build.end("Add", build("Mul", x, alpha), beta)

    return rule


def _scaled_image(build: Steps) -> None:
    x = build.input(0)
    channels, dtype = build.shape(x)[1], build.dtype(x)
    scaled = build("Mul", x, build.number(build.real("scale", 1.0), dtype))
    build.end("Add", scaled, build.weight("bias", (channels, 1, 1), dtype))


def _crop(build: Steps) -> None:
    """Add a slice without the border (left, top, right, bottom), or of a given size from left and top."""
    height, width = build.shape(build.input(0))[2:]
    left, top, right, bottom = (*cast("tuple[int, ...]", build.node.attributes.get("border", ())), 0, 0, 0, 0)[:4]
    ends = (height - bottom, width - right)
    if "scale" in build.node.attributes:
        tall, wide = cast("tuple[int, ...]", build.node.attributes["scale"])
        ends = (top + tall, left + wide)
    build.end("Slice", build.input(0), build.integers(top, left), build.integers(*ends), build.integers(2, 3))


def _spectrum(build: Steps) -> None:
    """Add Rfft: real numbers in, real and imaginary parts on a last axis."""
    x = build.input(0)
    if build.integer("signal_ndim", 1) != 1:
        raise NoRuleError
    signal = build("Unsqueeze", x, build.integers(-1))
    axis = build.assembly.constant(len(build.shape(x)) - 1, "int64")
    build.end("DFT", signal, "", axis, onesided=build.integer("onesided", 1))


def _signal(build: Steps) -> None:
    """Add Irfft: real and imaginary parts of one half in, real numbers out."""
    x = build.input(0)
    if build.integer("signal_ndim", 1) != 1:
        raise NoRuleError
    axis = build.assembly.constant(len(build.shape(x)) - 2, "int64")
    build.end("Squeeze", build("DFT", x, "", axis, onesided=1, inverse=1), build.integers(-1))


# The layout that ONNX Runtime chooses for one machine: channels in blocks, their number rounded up


def _blocked_conv(build: Steps) -> None:
    x, weight = build.node.inputs[:2]
    wanted, have = build.shape(weight)[1] * build.integer("group", 1), build.shape(x)[1]
    if wanted > have:
        rest = (0,) * (len(build.shape(x)) - 2)
        x = build("Pad", x, build.integers(0, 0, *rest, 0, wanted - have, *rest))
    y = build("Conv", x, weight, build.input(2), **_own(build))
    _ended(build, build.plus(y, build.input(3)))


def _blocked(build: Steps) -> None:
    """Give the image itself: the copy into blocks of channels is the start of a convolution's kernel."""
    x = build.input(0)
    build.give(0, build.channels_first(x) if build.integer("channels_last") else x)


def _unblocked(build: Steps) -> None:
    """Add the copy out of blocks, without the channels that were added."""
    x, channels = build.input(0), build.integer("channels")
    if channels and channels != build.shape(x)[1]:
        x = build("Slice", x, *map(build.integers, (0, channels, 1)))
    build.give(0, build.channels_last(x) if build.integer("channels_last") else x)


def _blocked_upsample(build: Steps) -> None:
    x = build.input(0)
    factors = cast("tuple[int, ...]", build.node.attributes.get("scales", (1, 1, 1, 1)))
    sizes = [size * factor for size, factor in zip(build.shape(x), factors, strict=True)]
    build.end("Resize", x, "", "", build.integers(*sizes), mode=build.text("mode", "nearest"))


_SUMS = dict.fromkeys(("BiasAdd", "BiasDropout", "BitmaskBiasDropout"), _sums)
_BITS = dict.fromkeys(
    ("MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulBnb4", "MatMulFpQ4", "MatMulNBits"), _matmul_of_bits
)
_OF_MICROSOFT: Mapping[str, Rule] = {
    **_BITS,
    **_SUMS,
    **dict.fromkeys(("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"), _SAMPLES),
    "Attention": attention.self_attention,
    "BiasGelu": _bias_gelu("none"),
    "BiasSoftmax": _bias_softmax,
    "BiasSplitGelu": _split_gelu,
    "CDist": _distances,
    "BitmaskDropout": _rename("Dropout", 1),
    "CausalConvWithState": _causal_conv,
    "ConvTransposeWithDynamicPads": _constant_pads,
    "CropAndResize": _crop_and_resize,
    "DecoderAttention": attention.decoder_attention,
    "DecoderMaskedMultiHeadAttention": attention.multi_head_attention,
    "DecoderMaskedSelfAttention": attention.masked_self_attention,
    "DequantizeLinear": _rename("DequantizeLinear"),
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
    "EmbedLayerNormalization": _embeddings,
    "ExpandDims": _expand_dims,
    "FastGelu": _bias_gelu("tanh"),
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "GatedAdd": _gated_sum,
    "GatedRMSNorm": _gated_norm,
    "GatedRelativePositionBias": _gated_position_bias,
    "GatherBlockQuantized": _gather_of_bits,
    "GatherND": _rename("GatherND"),
    "Gelu": _rename("Gelu"),
    "GemmFastGelu": _gemm_gelu,
    "GemmFloat8": _rename("Gemm", 3),
    "GridSample": _rename("GridSample"),
    "GroupNorm": _group_norm,
    "GroupQueryAttention": attention.grouped_attention,
    "Irfft": _signal,
    "LinearAttention": _rename("LinearAttention"),
    "LongformerAttention": attention.windowed_attention,
    "MRotaryEmbedding": _rotary_embedding,
    "MatMulInteger16": _rename("MatMulInteger"),
    "MatMulIntegerToFloat": _matmul_integer_to_float,
    "MatMulNBitsMlp": _bits_gated,
    "MatMulNBitsQkv": _bits_projections,
    "MaxpoolWithMask": _masked_pool,
    "MoE": _experts,
    "MultiHeadAttention": attention.multi_head_attention,
    "NhwcConv": _nhwc_conv,
    "NhwcFusedConv": _nhwc_conv,
    "NhwcMaxPool": _channels_last,
    "PackedAttention": attention.packed_attention,
    "PackedMultiHeadAttention": attention.packed_attention,
    "Pad": _rename("Pad"),
    "PagedAttention": attention.paged_attention,
    "QAttention": attention.quantised_attention,
    "QEmbedLayerNormalization": _embeddings,
    "QLinearConcat": _qlinear_concat,
    "QLinearWhere": _plain("Where", 0, 1, 4),
    "QMoE": _experts,
    "QuantizeLinear": _rename("QuantizeLinear"),
    "QuickGelu": _quick_gelu,
    "Range": _rename("Range"),
    "ReduceSumInteger": _rename("ReduceSum"),
    "RelativePositionBias": _position_bias,
    "RemovePadding": _without_padding,
    "RestorePadding": _with_padding,
    "Rfft": _spectrum,
    "RotaryEmbedding": _rotary_embedding,
    "SimplifiedLayerNormalization": _simplified_layer_norm,
    "SkipGroupNorm": _group_norm,
    "SkipLayerNormalization": _skip_normalization("LayerNormalization", 4),
    "SkipSimplifiedLayerNormalization": _skip_normalization("RMSNormalization", 3),
    "SparseAttention": attention.grouped_attention,
    "SparseToDenseMatMul": _fused_matmul,
    "TorchEmbedding": _rename("Gather", 2),
    "TransposeMatMul": _fused_matmul,
    "Trilu": _rename("Trilu"),
    "Unique": _rename("Unique"),
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

_RULES: Mapping[tuple[str, str], Rule] = {
    ("", "Affine"): _scaled(""),
    ("", "Attention"): attention.standard_attention,
    ("", "Crop"): _crop,
    ("", "DeformConv"): _deformable_conv,
    ("", "ImageScaler"): _scaled_image,
    ("", "ParametricSoftplus"): _scaled("Softplus"),
    ("", "ScaledTanh"): _scaled("Tanh"),
    ("", "CausalConvWithState"): _causal_conv,
    ("", "SimplifiedLayerNormalization"): _simplified_layer_norm,
    **{(MICROSOFT, name): rule for name, rule in _OF_MICROSOFT.items()},
    **{(domain, name): rule for domain in ("", MICROSOFT) for name, rule in _OF_EITHER_DOMAIN.items()},
    (BLOCKED, "AveragePool"): _rename("AveragePool"),
    (BLOCKED, "Conv"): _blocked_conv,
    (BLOCKED, "GlobalAveragePool"): _rename("GlobalAveragePool"),
    (BLOCKED, "GlobalMaxPool"): _rename("GlobalMaxPool"),
    (BLOCKED, "MaxPool"): _rename("MaxPool"),
    (BLOCKED, "ReorderInput"): _blocked,
    (BLOCKED, "ReorderOutput"): _unblocked,
    (BLOCKED, "Upsample"): _blocked_upsample,
    **{(domain, name): _qonnx_quant for domain in QONNX for name in ("Quant", "IntQuant", "FloatQuant", "BipolarQuant")},
    **{(domain, "Trunc"): _rename("Identity", 1) for domain in QONNX},
}
