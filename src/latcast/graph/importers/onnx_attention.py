"""Attention as ONNX, optimisers and ONNX Runtime's model builder write it, in terms of plain operators.

All forms become ONNX's Attention first: queries, keys and values with their past, on three or four axes. Masks by lengths are a
stored table of what is added to the scores; blocks of keys that a sparse form leaves out count, as an upper bound.

Sources: ONNX's Operators.md for Attention, ONNX Runtime's ContribOperators.md for the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.graph.importers.onnx_steps import FLOATS, MICROSOFT, NoRuleError, Rule, Steps
from latcast.graph.ir import AttributeValue, Node, Shape
from latcast.graph.operators import OperatorView
from latcast.graph.operators.contraction import attention_sizes


def _standard_attention(build: Steps) -> None:
    """Add products, mask and softmax on (batch, heads, tokens, size), parted from and merged to three axes.

    Query heads that share a head of keys are rows of one product, which moves nothing. A mask shorter than the keys, the
    length of each sequence as an input, and scores as an output have no rule.
    """
    node, assembly = build.node, build.assembly
    mask, past = build.input(3), build.input(4)
    if any(node.inputs[6:]) or any(node.outputs[3:]):
        raise NoRuleError
    sizes = attention_sizes(OperatorView(node, tuple(assembly.tensor(name) if name else None for name in node.inputs)))
    if mask and build.shape(mask)[-1] not in (1, sizes.keys):
        raise NoRuleError
    q, k, v = node.inputs[:3]
    dtype, three = build.dtype(q), len(build.shape(q)) == 3
    if three:
        heads = (sizes.query_heads, sizes.key_heads, sizes.key_heads)
        q, k, v = (_split_heads(build, name, count) for name, count in zip((q, k, v), heads, strict=True))
    if past:
        k, v = build("Concat", past, k, axis=2), build("Concat", build.input(5), v, axis=2)
    build.give(1, k)
    build.give(2, v)
    scale = build.node.real("scale") or sizes.key_size**-0.5
    scaled = build("Mul", q, build.number(scale, dtype))
    together: Shape = (sizes.batch, sizes.key_heads, sizes.sharing * sizes.queries)
    apart: Shape = (sizes.batch, sizes.query_heads, sizes.queries)
    if sizes.sharing > 1:
        scaled = build.reshape(scaled, *together, sizes.key_size)
    scores = build("MatMul", scaled, build("Transpose", k, perm=(0, 1, 3, 2)))
    softcap = build.node.real("softcap")
    if softcap:
        cap = build.number(softcap, dtype)
        scores = build("Mul", build("Tanh", build("Div", scores, cap)), cap)
    windows = (build.node.integer(f"{side}_window_size", -1) for side in ("left", "right"))
    banded = bool(build.node.integer("is_causal")) or any(size != -1 for size in windows)
    if mask or banded:
        if sizes.sharing > 1:
            scores = build.reshape(scores, *apart, sizes.keys)
        if banded:
            # Of the past, the future or what is far away: a table of real numbers, as exporters store it.
            scores = build("Add", scores, build.weight(f"{node.name or node.op_type}_mask", (sizes.queries, sizes.keys), dtype))
        if mask and build.dtype(mask) == "bool":
            lowest = np.finfo(dtype if dtype in FLOATS else "float32").min
            scores = build("Where", mask, scores, build.number(float(lowest), dtype))
        elif mask:
            scores = build("Add", scores, mask)
        if sizes.sharing > 1:
            scores = build.reshape(scores, *together, sizes.keys)
    mixed = build("MatMul", build("Softmax", scores, axis=-1), v)
    target: Shape = (*apart, sizes.value_size)
    if three:
        if sizes.sharing > 1:
            mixed = build.reshape(mixed, *apart, sizes.value_size)
        mixed = build("Transpose", mixed, perm=(0, 2, 1, 3))
        target = (sizes.batch, sizes.queries, sizes.query_heads * sizes.value_size)
    # Of four axes and without shared heads a reshape to its own shape, which disappears.
    build.end("Reshape", mixed, build.integers(*target))


def _split_heads(build: Steps, name: str, heads: int) -> str:
    batch, tokens, width = build.shape(name)
    return build("Transpose", build.reshape(name, batch, tokens, heads, width // heads), perm=(0, 2, 1, 3))


def _merged(build: Steps, name: str) -> str:
    """Return (batch, heads, tokens, size) as (batch, tokens, heads x size)."""
    batch, heads, tokens, size = build.shape(name)
    return build.reshape(build("Transpose", name, perm=(0, 2, 1, 3)), batch, tokens, heads * size)


def _attend(
    build: Steps,
    q: str,
    k: str,
    v: str,
    heads: tuple[int, int],
    *,
    output: str,
    mask: str = "",
    past: tuple[str, str] = ("", ""),
    causal: bool = False,
) -> tuple[str, str]:
    """Add ONNX's Attention on three axes.

    Args:
        build: Of the fused operator.
        q, k, v: (batch, tokens, heads x size).
        heads: Of queries, and of keys and values.
        output: Name of the result.
        mask: What is added to the scores.
        past: Keys and values of earlier tokens, (batch, heads, tokens, size).
        causal: Whether tokens see none behind them.

    Returns:
        All keys and all values, (batch, heads, tokens, size).
    """
    attributes: dict[str, AttributeValue] = {"q_num_heads": heads[0], "kv_num_heads": heads[1]}
    attributes |= {name: build.node.real(name) for name in ("scale", "softcap") if build.node.real(name)}
    if causal and build.shape(q)[1] > 1:
        attributes["is_causal"] = 1
    inputs = (q, k, v, mask, *past)
    present = (build.assembly.fresh(f"{output}_keys"), build.assembly.fresh(f"{output}_values"))
    build.add(Node("Attention", build.node.name, inputs, (output, *present), attributes))
    return present


def _mask(build: Steps, name: str, keys: int, like: str) -> str:
    """Return the table that a mask, by lengths or by a flag for each key, adds to the scores."""
    if not name:
        return ""
    batch, tokens = build.shape(like)[:2]
    rows = tokens if len(build.shape(name)) > 2 else 1
    return build.weight(f"{name}_table", (batch, 1, rows, keys), build.dtype(like))


def _heads(build: Steps) -> int:
    heads = build.node.integer("num_heads")
    if heads < 1:
        raise NoRuleError
    return heads


def _self_attention(build: Steps) -> None:
    """Add attention on (batch, tokens, channels) with one weight for queries, keys and values: Attention of com.microsoft."""
    heads = _heads(build)
    if len(build.shape(build.input(0))) != 3:
        raise NoRuleError
    projected = build.plus(build("MatMul", *build.node.inputs[:2]), build.input(2))
    _attend_projected(build, projected, heads, mask=3, past=4, bias=5, shared=bool(build.input(6)))


def _masked_self_attention(build: Steps) -> None:
    """Add DecoderMaskedSelfAttention: one token more, in a buffer of keys and values."""
    heads = _heads(build)
    projected = build.plus(build("MatMul", *build.node.inputs[:2]), build.input(2))
    _attend_projected(build, projected, heads, mask=3, past=4, bias=5, shared=True)


def _quantised_attention(build: Steps) -> None:
    """Add QAttention: the projection of integers gives real numbers, which the rest is computed in."""
    heads = _heads(build)
    x, weight, bias, x_scale, weight_scale, _, x_zero, weight_zero, _ = (build.input(index) for index in range(9))
    projected = build.assembly.fresh(f"{build.node.name or build.node.op_type}_projected")
    inputs = (x, weight, x_scale, weight_scale, x_zero, weight_zero, bias)
    build.add(Node("MatMulIntegerToFloat", build.node.name, inputs, (projected,), domain="com.microsoft"))
    shared = bool(build.node.integer("past_present_share_buffer"))
    _attend_projected(build, projected, heads, mask=5, past=8, bias=9, shared=shared)


def _attend_projected(build: Steps, projected: str, heads: int, *, mask: int, past: int, bias: int, shared: bool) -> None:
    """Add attention whose queries, keys and values one product computes; the past holds keys and values together."""
    width = build.shape(projected)[2]
    sizes = build.node.integers("qkv_hidden_sizes", (width // 3,) * 3)
    q, k, v = build.split(projected, 2, *sizes)
    tokens = build.shape(q)[1]
    old = ("", "")
    if build.input(past) and build.shape(build.input(past))[3]:
        parts = build.split(build.input(past), 0, 1, 1)
        keys, values = (build("Squeeze", part, build.integers(0)) for part in parts)
        old = _used_past(build, keys, values, tokens, shared=shared)
    total = tokens + (build.shape(old[0])[2] if old[0] else 0)
    added = build.input(bias) or _mask(build, build.input(mask), total, q)
    causal = bool(build.node.integer("unidirectional"))
    present = _attend(build, q, k, v, (heads, heads), output=build.output(0), mask=added, past=old, causal=causal)
    if build.output(1):
        rows = [build("Unsqueeze", part, build.integers(0)) for part in present]
        build.add(Node("Concat", f"{build.node.name}_present", tuple(rows), (build.output(1),), {"axis": 0}))


def _used_past(build: Steps, keys: str, values: str, tokens: int, *, shared: bool, total: int = 0) -> tuple[str, str]:
    """Return the keys and values before these tokens: of a buffer that the new ones are written into, the rest of it."""
    room = build.shape(keys)[2]
    used = total - tokens if total else room - tokens if shared else room
    if used >= room:
        return keys, values
    if used < 1:
        return "", ""
    bounds = [build.integers(number) for number in (0, used, 2)]
    return build("Slice", keys, *bounds), build("Slice", values, *bounds)


def _multi_head_attention(build: Steps) -> None:
    """Add MultiHeadAttention and DecoderMaskedMultiHeadAttention: attention on projected queries, keys and values.

    Queries, keys and values may be packed into one tensor of five axes, keys and values into one, or keys and values come on
    four axes from the encoder.
    """
    heads = _heads(build)
    decodes = build.node.op_type.startswith("Decoder")
    bias, mask, extra, past_keys = (10, 3, 4, 5) if decodes else (3, 4, 5, 6)
    q, k, v = _unpacked(build, heads, build.input(0), build.input(1), build.input(2))
    if build.input(bias):
        parts = build.split(build.input(bias), 0, *(build.shape(name)[2] for name in (q, k, v)))
        q, k, v = (build("Add", name, part) for name, part in zip((q, k, v), parts, strict=True))
    tokens, new = build.shape(q)[1], build.shape(k)[1]
    old = (build.input(past_keys), build.input(past_keys + 1))
    if old[0]:
        shared = bool(build.input(past_keys + 2))
        old = _used_past(build, *old, new, shared=shared) if build.shape(old[0])[2] else ("", "")
    total = new + (build.shape(old[0])[2] if old[0] else 0)
    added = build.input(extra) or _mask(build, build.input(mask), total, q)
    causal = bool(build.node.integer("unidirectional")) and tokens > 1
    present = _attend(build, q, k, v, (heads, heads), output=build.output(0), mask=added, past=old, causal=causal)
    build.give(1, present[0])
    build.give(2, present[1])


def _unpacked(build: Steps, heads: int, q: str, k: str, v: str) -> tuple[str, str, str]:
    """Return queries, keys and values, each (batch, tokens, heads x size)."""
    if build.output(3) or (k and not v and len(build.shape(k)) != 5):
        raise NoRuleError
    packed = q if not k else k if not v else ""
    if packed:
        if len(build.shape(packed)) != 5:
            raise NoRuleError
        batch, tokens, _, count, size = build.shape(packed)
        parts = build.split(packed, 3, *(1,) * count)
        three = [build.reshape(part, batch, tokens, heads * size) for part in parts]
        q, k, v = (three[0], three[1], three[2]) if not k else (q, three[0], three[1])
    k, v = (_merged(build, name) if len(build.shape(name)) == 4 else name for name in (k, v))
    q = _merged(build, q) if len(build.shape(q)) == 4 else q
    return q, k, v


def _grouped_attention(build: Steps) -> None:
    """Add GroupQueryAttention and SparseAttention: heads of queries that share keys, the past, and a rotation of both.

    The number of tokens so far is an input; where it is not constant, it is the past and the new tokens.
    """
    heads, key_heads = _heads(build), build.node.integer("kv_num_heads")
    sparse = build.node.op_type == "SparseAttention"
    total_at, angles_at, norms_at = (7, 9, 99) if sparse else (6, 7, 14)
    q, k, v = (build.input(index) for index in range(3))
    if key_heads < 1 or len(build.shape(q)) != 3:
        raise NoRuleError
    old = (build.input(3), build.input(4))
    if old[0] and 0 < build.node.integer("kv_cache_bit_width") < 8:
        raise NoRuleError
    if not k:
        size = build.shape(q)[2] // (heads + 2 * key_heads)
        q, k, v = build.split(q, 2, heads * size, key_heads * size, key_heads * size)
    if build.input(norms_at):
        q, k = (build("RMSNormalization", x, build.input(norms_at + place), axis=-1) for place, x in enumerate((q, k)))
    if build.node.integer("do_rotary"):
        angles = (build.input(angles_at), build.input(angles_at + 1))
        interleaved = build.node.integer("rotary_interleaved")
        q = build("RotaryEmbedding", q, *angles, num_heads=heads, interleaved=interleaved)
        k = build("RotaryEmbedding", k, *angles, num_heads=key_heads, interleaved=interleaved)
    tokens = build.shape(q)[1]
    stored = build.dtype(old[0]) if old[0] else ""
    room = build.shape(old[0])[2] if old[0] else 0
    value = build.assembly.value(build.input(total_at)) if build.input(total_at) else None
    total = 0 if value is None else int(value.reshape(-1)[0])
    if old[0]:
        if stored != build.dtype(q):
            old = (build("CastLike", old[0], q), build("CastLike", old[1], q))
        old = _used_past(build, *old, tokens, shared=sparse, total=total if total >= tokens else 0) if room else ("", "")
    present = _attend(
        build, q, k, v, (heads, key_heads), output=build.output(0), mask=build.input(10) if not sparse else "", past=old,
        causal=bool(build.node.integer("causal", 1)),
    )  # fmt: skip
    for index, name in enumerate(present, 1):
        if build.output(index):
            kept = name if build.shape(name)[2] >= room else build.input(2 + index)
            if stored and build.dtype(kept) != stored:
                kept = build("CastLike", kept, build.input(2 + index))
            build.give(index, kept)


def _packed_attention(build: Steps) -> None:
    """Add PackedAttention and PackedMultiHeadAttention: sequences without padding, one behind the other.

    A token attends to its own sequence, of the longest sequence's tokens at most.
    """
    heads, inputs = _heads(build), build.node.inputs
    if build.node.op_type == "PackedAttention":
        projected = build.plus(build("MatMul", *inputs[:2]), build.input(2))
        width = build.shape(projected)[1]
        sizes = build.node.integers("qkv_hidden_sizes", (width // 3,) * 3)
        q, k, v = build.split(projected, 1, *sizes)
        offsets = build.input(3)
    else:
        q, k, v, offsets = (*inputs[:3], build.input(4))
        if not k:
            tokens, _, _, size = build.shape(q)
            q, k, v = (build.reshape(part, tokens, heads * size) for part in build.split(q, 2, 1, 1, 1))
    longest = build.shape(offsets)[1]
    q, k, v = (build.reshape(name, 1, *build.shape(name)) for name in (q, k, v))
    if longest < build.shape(k)[1]:
        bounds = [build.integers(number) for number in (0, longest, 1)]
        k, v = build("Slice", k, *bounds), build("Slice", v, *bounds)
    mixed = build.assembly.fresh(f"{build.output(0)}_mixed")
    _attend(build, q, k, v, (heads, heads), output=mixed)
    build.end("Reshape", mixed, build.integers(*build.shape(mixed)[1:]))


def _paged_attention(build: Steps) -> None:
    """Add PagedAttention: keys and values lie in blocks, of which a table names those of each sequence."""
    heads, key_heads = _heads(build), build.node.integer("kv_num_heads")
    q, k, _, keys, values = (build.input(index) for index in range(5))
    if key_heads < 1 or len(build.shape(keys)) != 4 or not values:
        raise NoRuleError
    blocks, block, *_, size = build.shape(keys)
    if not k:
        q, k, _ = build.split(q, 1, heads * size, key_heads * size, key_heads * size)
    if build.node.integer("do_rotary"):
        q, k = (build.reshape(name, 1, *build.shape(name)) for name in (q, k))
        angles = (build.input(8), build.input(9))
        q = build("RotaryEmbedding", q, *angles, num_heads=heads)
        k = build("RotaryEmbedding", k, *angles, num_heads=key_heads)
        q, k = (build.reshape(name, *build.shape(name)[1:]) for name in (q, k))
    most = min(build.shape(build.input(7))[1], blocks)
    bounds = [build.integers(number) for number in (0, most, 0)]
    read = [build.reshape(build("Slice", name, *bounds), 1, most * block, key_heads * size) for name in (keys, values)]
    mixed = build.assembly.fresh(f"{build.output(0)}_mixed")
    _attend(build, build.reshape(q, 1, *build.shape(q)), read[0], read[1], (heads, key_heads), output=mixed)
    build.end("Reshape", mixed, build.integers(*build.shape(mixed)[1:]))
    build.give(1, keys)
    build.give(2, values)


def _windowed_attention(build: Steps) -> None:
    """Add LongformerAttention: blocks of a window, each with those beside it; a few tokens are seen by all.

    Queries, keys and values of those few have a second weight, applied to all tokens as ONNX Runtime does.
    """
    heads, window = _heads(build), build.node.integer("window")
    x, weight = build.node.inputs[:2]
    batch, tokens, channels = build.shape(x)
    if window < 1 or tokens % window:
        raise NoRuleError
    width = build.shape(weight)[1] // 3
    both = build.weight(f"{weight}_and_global", (channels, 6 * width), build.dtype(weight))
    q, k, v, *_ = build.split(build("MatMul", x, both), 2, *(width,) * 6)
    rows = batch * (tokens // window)
    q, k, v = (build.reshape(name, rows, window, width) for name in (q, k, v))
    around = [build("Concat", name, name, name, axis=1) for name in (k, v)]
    mixed = build.assembly.fresh(f"{build.output(0)}_mixed")
    _attend(build, q, around[0], around[1], (heads, heads), output=mixed)
    build.end("Reshape", mixed, build.integers(batch, tokens, width))


def _decoder_attention(build: Steps) -> None:
    """Add DecoderAttention on (tokens, batch, channels), with a cache that is the encoder's where its keys are static."""
    heads = _heads(build)
    query, key, q_weight, kv_weight, bias = build.node.inputs[:5]
    flags = [build.assembly.value(name) if name else None for name in (build.input(8), build.input(9))]
    if any(flag is None for flag in flags):
        raise NoRuleError
    static, past = (bool(flag.reshape(-1)[0]) for flag in flags if flag is not None)
    width = build.shape(q_weight)[1]
    parts = build.split(bias, 0, width, 2 * width)
    q = build("Transpose", build("Add", build("MatMul", query, q_weight), parts[0]), perm=(1, 0, 2))
    old = (build.input(6), build.input(7)) if past else ("", "")
    if static and past:
        k, v, old = _merged(build, old[0]), _merged(build, old[1]), ("", "")
    else:
        both = build("Transpose", build("Add", build("MatMul", key, kv_weight), parts[1]), perm=(1, 0, 2))
        k, v = build.split(both, 2, width, width)
    mixed = build.assembly.fresh(f"{build.output(0)}_mixed")
    present = _attend(build, q, k, v, (heads, heads), output=mixed, past=old)
    build.give(1, present[0])
    build.give(2, present[1])
    build.end("Transpose", mixed, perm=(1, 0, 2))


_OF_MICROSOFT: Mapping[str, Rule] = {
    "Attention": _self_attention,
    "DecoderAttention": _decoder_attention,
    "DecoderMaskedMultiHeadAttention": _multi_head_attention,
    "DecoderMaskedSelfAttention": _masked_self_attention,
    "GroupQueryAttention": _grouped_attention,
    "LongformerAttention": _windowed_attention,
    "MultiHeadAttention": _multi_head_attention,
    "PackedAttention": _packed_attention,
    "PackedMultiHeadAttention": _packed_attention,
    "PagedAttention": _paged_attention,
    "QAttention": _quantised_attention,
    "SparseAttention": _grouped_attention,
}

ATTENTION: Mapping[tuple[str, str], Rule] = {
    ("", "Attention"): _standard_attention,
    **{(MICROSOFT, name): rule for name, rule in _OF_MICROSOFT.items()},
}
