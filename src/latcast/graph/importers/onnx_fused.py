"""Operators that optimisers fuse (activations, sums, normalisations, experts), in terms of plain operators.

Which operators run as one kernel is for the fusion rules of a platform to say.

Source: ONNX Runtime's ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import cast

from latcast.graph.importers.onnx_quantised import dtype_of_bits
from latcast.graph.importers.onnx_steps import MICROSOFT, Attributes, NoRuleError, Rule, Steps, rename
from latcast.graph.ir import Node
from latcast.graph.operators import lookup


def end_activated(build: Steps, x: str) -> None:
    """Let a fused convolution or product end with its activation."""
    node, kind = build.node, build.node.text("activation")
    given = cast("tuple[float, ...]", node.attributes.get("activation_params", ()))
    row = lookup(kind)
    names = () if row is None else tuple(row.attributes)
    parameters: Attributes = dict(zip(names, given, strict=False))
    parameters |= {name: node.attributes[f"activation_{name}"] for name in names if f"activation_{name}" in node.attributes}
    bounds = [build.assembly.constant(bound, "float32") for bound in given] if kind == "Clip" else []
    build.give(0, build.activation(kind, x, *bounds, **parameters))


def without_activation(build: Steps) -> Attributes:
    return {name: value for name, value in build.node.attributes.items() if not name.startswith("activation")}


def _fused_conv(build: Steps) -> None:
    x = build("Conv", *build.node.inputs[:3], **without_activation(build))
    end_activated(build, build.plus(x, build.input(3)))


def _fused_matmul(build: Steps) -> None:
    """Add a product of transposed sides; with ``transBatch`` the first axis lies behind the others but the last."""
    sides = []
    for side, name in zip("AB", build.node.inputs, strict=True):
        rank = len(build.shape(name))
        order = list(range(rank))
        if build.node.integer(f"transBatch{side}") and rank > 2:
            order = [*order[1:-1], 0, order[-1]]
        if build.node.integer(f"trans{side}") and rank > 1:
            order = [*order[:-2], order[-1], order[-2]]
        sides.append(name if order == sorted(order) else build("Transpose", name, perm=tuple(order)))
    alpha = build.node.real("alpha", 1.0)
    x = build("MatMul", *sides)
    end_activated(build, x if alpha == 1.0 else build("Mul", x, build.number(alpha, build.dtype(x))))


def _bias_gelu(approximate: str) -> Rule:
    def rule(build: Steps) -> None:
        attributes: Attributes = {"approximate": approximate} if approximate != "none" else {}
        build.end("Gelu", build.plus(build.input(0), build.input(1)), **attributes)

    return rule


def _quick_gelu(build: Steps) -> None:
    x = build.input(0)
    alpha = build.number(build.node.real("alpha", 1.702), build.dtype(x))
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


def _skip_normalization(op_type: str, bias_index: int) -> Rule:
    """Add the sum of two branches (and a bias), then a normalisation; output 3 is the sum."""

    def rule(build: Steps) -> None:
        if any(map(build.output, (1, 2))):
            raise NoRuleError
        total = build.plus(build("Add", *build.node.inputs[:2]), build.input(bias_index))
        build.give(3, total)
        scales = [name for name in build.node.inputs[2:bias_index] if name]
        build.end(op_type, total, *scales, axis=-1, epsilon=build.node.real("epsilon", 1e-5))

    return rule


def _simplified_layer_norm(build: Steps) -> None:
    build.end("RMSNormalization", *build.node.inputs, **build.attributes("axis", "epsilon"))


def _group_norm(build: Steps) -> None:
    """Add GroupNorm and SkipGroupNorm, of channels that lie last unless it says otherwise, with SiLU behind it."""
    x, scale, bias = build.node.inputs[:3]
    if build.node.op_type == "SkipGroupNorm":
        x = build.plus(build("Add", x, build.input(3)), build.input(4))
        build.give(1, x)
    last = build.node.integer("channels_last", 1)
    x = build.channels_first(x) if last else x
    x = build("GroupNormalization", x, scale, bias, num_groups=build.node.integer("groups", 1))
    x = build.activation("silu" if build.node.integer("activation") else "", x)
    build.give(0, build.channels_last(x) if last else x)


def _gated_norm(build: Steps) -> None:
    x, scale, gate = build.node.inputs[:3]
    gated = build.activation(build.node.text("activation", "silu"), gate)
    build.end("Mul", build("RMSNormalization", x, scale, axis=-1), gated)


def _rotary_embedding(build: Steps) -> None:
    x, positions, cosines, sines = build.node.inputs[:4]
    kept = build.attributes("interleaved", "num_heads", "rotary_embedding_dim")
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
    build.end("LayerNormalization", total, *scales, axis=-1, epsilon=build.node.real("epsilon", 1e-12))


def _experts(build: Steps) -> None:
    """Add MoE and QMoE: of many experts, a few for each token.

    The experts that are used are one product of as many multiply-accumulates: each reads an equal share of the tokens, so that
    their number, and the weights that are read, is rounded down to one that parts the tokens.
    """
    quantised = build.node.op_type == "QMoE"
    x, router = build.node.inputs[:2]
    first, third = (build.input(index) for index in ((2, 8) if quantised else (2, 6)))
    experts, hidden = build.shape(router)[-1], build.shape(x)[-1]
    tokens, chosen = prod(build.shape(router)[:-1]), max(build.node.integer("k", 1), 1)
    used = next(count for count in range(min(experts, tokens * chosen), 0, -1) if tokens * chosen % count == 0)
    kind, wide = build.node.text("activation_type", "relu"), build.shape(first)[1]
    fused = build.node.integer("swiglu_fusion") > 0 or (kind == "swiglu" and not third)
    inner = used * (wide // 2 if fused else wide)
    bits = build.node.integer("expert_weight_bits", 4)
    dtypes = [
        dtype_of_bits(build.node.integer(f"fc{layer}_expert_weight_bits") or bits) if quantised else build.dtype(x)
        for layer in (1, 2)
    ]

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


_OF_MICROSOFT: Mapping[str, Rule] = {
    "BiasAdd": _sums,
    "BiasDropout": _sums,
    "BiasGelu": _bias_gelu("none"),
    "BiasSoftmax": lambda build: build.end("Softmax", build("Add", *build.node.inputs[:2]), axis=build.node.integer("axis", 1)),
    "BiasSplitGelu": _split_gelu,
    "BitmaskBiasDropout": _sums,
    "BitmaskDropout": rename("Dropout", 1),
    "EmbedLayerNormalization": _embeddings,
    "FastGelu": _bias_gelu("tanh"),
    "FusedConv": _fused_conv,
    "FusedGemm": lambda build: end_activated(build, build("Gemm", *build.node.inputs, **without_activation(build))),
    "FusedMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "GatedAdd": lambda build: build.end("Add", build.input(0), build("Mul", build.input(1), build.input(2))),
    "GatedRMSNorm": _gated_norm,
    "Gelu": rename("Gelu"),
    "GemmFastGelu": lambda build: build.end("Gelu", build.plus(build("MatMul", *build.node.inputs[:2]), build.input(2))),
    "GroupNorm": _group_norm,
    "MRotaryEmbedding": _rotary_embedding,
    "MoE": _experts,
    "QEmbedLayerNormalization": _embeddings,
    "QMoE": _experts,
    "QuickGelu": _quick_gelu,
    "RotaryEmbedding": _rotary_embedding,
    "SimplifiedLayerNormalization": _simplified_layer_norm,
    "SkipGroupNorm": _group_norm,
    "SkipLayerNormalization": _skip_normalization("LayerNormalization", 4),
    "SkipSimplifiedLayerNormalization": _skip_normalization("RMSNormalization", 3),
    "SparseToDenseMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
}

FUSED: Mapping[tuple[str, str], Rule] = {
    ("", "SimplifiedLayerNormalization"): _simplified_layer_norm,
    **{(MICROSOFT, name): rule for name, rule in _OF_MICROSOFT.items()},
}
