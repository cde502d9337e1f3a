"""Operators that optimisers write (com.microsoft), the quantised ones and attention, in terms of plain operators.

A fused operator becomes several again: which operators run as one kernel is for the fusion rules of a platform to say. Of a
quantised operator (QLinearConv) the plain one remains, on tensors of 8 bits; scales and zero points do not decide latency.

Sources: onnxruntime's ContribOperators.md for the domain com.microsoft, ONNX's Operators.md for Attention, QLinearConv and
QLinearMatMul.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from latcast.graph.importers.assembly import Assembly
from latcast.graph.ir import AttributeValue, Node, Shape, Tensor
from latcast.graph.operators import OperatorView, lookup
from latcast.graph.operators.contraction import attention_sizes

Attributes = dict[str, AttributeValue]
Expand = Callable[[Node, Assembly], "list[Node] | None"]

MICROSOFT = "com.microsoft"


def expand(node: Node, assembly: Assembly) -> list[Node] | None:
    """Return standard operators that compute the same, or None without a rule for this one.

    The last of them makes the node's outputs; tensors between them have new names.
    """
    quantized = _QUANTIZED.get(node.op_type)
    if quantized is not None and node.domain in ("", MICROSOFT):
        return _plain(node, *quantized)
    function = _EXPANSIONS.get((node.domain, node.op_type))
    return None if function is None else function(node, assembly)


def _input(node: Node, index: int) -> str:
    return node.inputs[index] if index < len(node.inputs) else ""


# Quantised operators: the plain operator and which of the inputs are its own (the others are scales and zero points)

_QUANTIZED: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "QLinearConv": ("Conv", (0, 3, 8)),
    "QLinearMatMul": ("MatMul", (0, 3)),
    "QGemm": ("Gemm", (0, 3, 6)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearLeakyRelu": ("LeakyRelu", (0,)),
    "QLinearReduceMean": ("ReduceMean", (0,)),
    "QLinearSigmoid": ("Sigmoid", (0,)),
    "QLinearSoftmax": ("Softmax", (0,)),
}


def _plain(node: Node, op_type: str, own_inputs: tuple[int, ...]) -> list[Node] | None:
    if node.attributes.get("channels_last", 0):
        return None
    inputs = tuple(name for name in (_input(node, index) for index in own_inputs) if name)
    attributes = {name: value for name, value in node.attributes.items() if name not in ("channels_last", "opset")}
    return [Node(op_type, node.name, inputs, node.outputs, attributes)]


def _qlinear_concat(node: Node, assembly: Assembly) -> list[Node]:
    return [Node("Concat", node.name, node.inputs[2::3], node.outputs, node.attributes)]


# Fused operators


def _end(build: _Steps, x: str) -> list[Node]:
    """Let a fused convolution or product end with its activation."""
    node = build.node
    kind = str(node.attributes.get("activation", ""))
    given = cast("tuple[float, ...]", node.attributes.get("activation_params", ()))
    row = lookup(kind)
    names = () if row is None else tuple(row.attributes)
    parameters: Attributes = dict(zip(names, given, strict=False))
    parameters |= {name: node.attributes[f"activation_{name}"] for name in names if f"activation_{name}" in node.attributes}
    bounds = [build.assembly.constant(bound, "float32") for bound in given] if kind == "Clip" else []
    return build.end(kind, x, *bounds, **parameters) if kind else build.end_with_last()


def _own(node: Node) -> Attributes:
    return {name: value for name, value in node.attributes.items() if not name.startswith("activation")}


def _fused_conv(node: Node, assembly: Assembly) -> list[Node]:
    build = _Steps(node, assembly)
    x = build("Conv", *node.inputs[:3], **_own(node))
    return _end(build, build("Add", x, node.inputs[3]) if _input(node, 3) else x)


def _fused_gemm(node: Node, assembly: Assembly) -> list[Node]:
    build = _Steps(node, assembly)
    return _end(build, build("Gemm", *node.inputs, **_own(node)))


def _fused_matmul(node: Node, assembly: Assembly) -> list[Node] | None:
    if node.attributes.get("transBatchA", 0) or node.attributes.get("transBatchB", 0):
        return None
    build = _Steps(node, assembly)
    sides = []
    for side, name in zip("AB", node.inputs, strict=True):
        rank = len(assembly.tensor(name).shape)
        if node.attributes.get(f"trans{side}", 0) and rank > 1:
            turned = assembly.fresh(f"{name}_transposed")
            order = (*range(rank - 2), rank - 1, rank - 2)
            build.nodes.append(Node("Transpose", f"{node.name}_{side.lower()}", (name,), (turned,), {"perm": order}))
            name = turned
        sides.append(name)
    alpha = node.attributes.get("alpha", 1.0)
    if alpha == 1.0:
        return build.end("MatMul", *sides)
    return build.end("Mul", build("MatMul", *sides), assembly.constant(alpha, assembly.tensor(node.inputs[0]).dtype))


def _bias_gelu(approximate: str) -> Expand:
    def function(node: Node, assembly: Assembly) -> list[Node]:
        attributes: Attributes = {"approximate": approximate} if approximate != "none" else {}
        build = _Steps(node, assembly)
        return build.end("Gelu", build("Add", *node.inputs[:2]) if _input(node, 1) else node.inputs[0], **attributes)

    return function


def _quick_gelu(node: Node, assembly: Assembly) -> list[Node]:
    x, build = node.inputs[0], _Steps(node, assembly)
    alpha = assembly.constant(node.attributes.get("alpha", 1.702), assembly.tensor(x).dtype)
    return build.end("Mul", x, build("Sigmoid", build("Mul", x, alpha)))


def _skip_normalization(op_type: str, bias_index: int) -> Expand:
    """Add the sum of two branches (and a bias), then a normalisation; output 3 is the sum."""

    def function(node: Node, assembly: Assembly) -> list[Node] | None:
        if any(node.outputs[1:3]):
            return None
        total = node.outputs[3] if len(node.outputs) > 3 and node.outputs[3] else ""
        total = total or assembly.fresh(f"{node.name or node.op_type}_sum")
        bias = _input(node, bias_index)
        first = assembly.fresh(f"{node.name or node.op_type}_skip") if bias else total
        nodes = [Node("Add", f"{node.name}_add", node.inputs[:2], (first,))]
        if bias:
            nodes.append(Node("Add", f"{node.name}_bias", (first, bias), (total,)))
        scales = [name for name in node.inputs[2:bias_index] if name]
        attributes: Attributes = {"axis": -1, "epsilon": node.attributes.get("epsilon", 1e-5)}
        nodes.append(Node(op_type, node.name, (total, *scales), node.outputs[:1], attributes))
        return nodes

    return function


def _simplified_layer_norm(node: Node, assembly: Assembly) -> list[Node]:
    kept = {name: node.attributes[name] for name in ("axis", "epsilon") if name in node.attributes}
    return [Node("RMSNormalization", node.name, node.inputs, node.outputs[:1], kept)]


def _rename(op_type: str, inputs: int | None = None) -> Expand:
    def function(node: Node, assembly: Assembly) -> list[Node]:
        return [Node(op_type, node.name, node.inputs[:inputs], node.outputs, node.attributes)]

    return function


_FLOATS = ("float16", "float32", "float64")
"""Element types in which numpy can write a constant down."""


def _standard_attention(node: Node, assembly: Assembly) -> list[Node] | None:
    """Return ONNX's Attention: products, mask and softmax on (batch, heads, tokens, size), parted from and merged to three axes.

    Query heads that share a head of keys are rows of one product, which moves nothing. A mask shorter than the keys, the
    length of each sequence as an input, and scores as an output have no rule.
    """
    mask, past = _input(node, 3), _input(node, 4)
    if any(node.inputs[6:]) or any(node.outputs[3:]):
        return None
    inputs = tuple(assembly.tensor(name) if name else None for name in node.inputs)
    sizes = attention_sizes(OperatorView(node, inputs))
    if mask and assembly.tensor(mask).shape[-1] not in (1, sizes.keys):
        return None
    build = _Steps(node, assembly)
    dtype = assembly.tensor(node.inputs[0]).dtype
    q, k, v = node.inputs[:3]
    if len(assembly.tensor(q).shape) == 3:
        heads = (sizes.query_heads, sizes.key_heads, sizes.key_heads)
        parted = []
        for name, count in zip((q, k, v), heads, strict=True):
            batch, tokens, width = assembly.tensor(name).shape
            parted.append(_split_heads(build, name, batch, tokens, count, width // count))
        q, k, v = parted
    if past:
        k, v = build("Concat", past, k, axis=2), build("Concat", _input(node, 5), v, axis=2)
    for name, output in zip((k, v), node.outputs[1:], strict=False):
        if output:
            build.nodes.append(Node("Identity", f"{node.name}_present", (name,), (output,)))
    scale = float(cast(float, node.attributes.get("scale", 0.0))) or sizes.key_size**-0.5
    scaled = build("Mul", q, _number(assembly, scale, dtype))
    together: Shape = (sizes.batch, sizes.key_heads, sizes.sharing * sizes.queries)
    apart: Shape = (sizes.batch, sizes.query_heads, sizes.queries)
    if sizes.sharing > 1:
        scaled = build("Reshape", scaled, assembly.constant((*together, sizes.key_size), "int64"))
    scores = build("MatMul", scaled, build("Transpose", k, perm=(0, 1, 3, 2)))
    softcap = float(cast(float, node.attributes.get("softcap", 0.0)))
    if softcap:
        cap = _number(assembly, softcap, dtype)
        scores = build("Mul", build("Tanh", build("Div", scores, cap)), cap)
    windows = (node.attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    banded = bool(node.attributes.get("is_causal", 0)) or any(size != -1 for size in windows)
    if mask or banded:
        if sizes.sharing > 1:
            scores = build("Reshape", scores, assembly.constant((*apart, sizes.keys), "int64"))
        if banded:
            # Of the past, the future or what is far away: a table of real numbers, as exporters store it.
            table = assembly.fresh(f"{node.name or node.op_type}_mask")
            assembly.add_static(table, Tensor((sizes.queries, sizes.keys), dtype))
            scores = build("Add", scores, table)
        if mask and assembly.tensor(mask).dtype == "bool":
            lowest = np.finfo(dtype if dtype in _FLOATS else "float32").min
            scores = build("Where", mask, scores, _number(assembly, float(lowest), dtype))
        elif mask:
            scores = build("Add", scores, mask)
        if sizes.sharing > 1:
            scores = build("Reshape", scores, assembly.constant((*together, sizes.keys), "int64"))
    mixed = build("MatMul", build("Softmax", scores, axis=-1), v)
    if len(inputs[0].shape if inputs[0] else ()) == 4:
        target: Shape = (*apart, sizes.value_size)
    else:
        if sizes.sharing > 1:
            mixed = build("Reshape", mixed, assembly.constant((*apart, sizes.value_size), "int64"))
        mixed = build("Transpose", mixed, perm=(0, 2, 1, 3))
        target = (sizes.batch, sizes.queries, sizes.query_heads * sizes.value_size)
    # Of four axes and without shared heads a reshape to its own shape, which disappears.
    return build.end("Reshape", mixed, assembly.constant(target, "int64"))


def _number(assembly: Assembly, value: float, dtype: str) -> str:
    """Add a constant; without its value if numpy lacks its element type (bfloat16)."""
    if dtype in _FLOATS:
        return assembly.constant(value, dtype)
    name = assembly.fresh("constant")
    assembly.add_static(name, Tensor((), dtype))
    return name


def _attention(node: Node, assembly: Assembly) -> list[Node] | None:
    """Return self-attention on (batch, tokens, channels) with one weight for queries, keys and values."""
    heads = int(cast(int, node.attributes.get("num_heads", 0)))
    if not heads or any(node.inputs[3:]) or "qkv_hidden_sizes" in node.attributes or any(node.outputs[1:]):
        return None
    x, weight = node.inputs[:2]
    batch, tokens, _ = assembly.tensor(x).shape
    width = assembly.tensor(weight).shape[1] // 3
    build = _Steps(node, assembly)
    projected = build("MatMul", x, weight)
    if _input(node, 2):
        projected = build("Add", projected, node.inputs[2])
    sizes = assembly.constant((width,) * 3, "int64")
    parts = build.many("Split", 3, projected, sizes, axis=2)
    q, k, v = (_split_heads(build, part, batch, tokens, heads, width // heads) for part in parts)
    return build.attend(q, k, v, (batch, tokens, width))


def _multi_head_attention(node: Node, assembly: Assembly) -> list[Node] | None:
    """Return attention on projected queries, keys and values of (batch, tokens, channels)."""
    heads = int(cast(int, node.attributes.get("num_heads", 0)))
    if not heads or any(node.inputs[3:]) or not all(node.inputs[:3]) or any(node.outputs[1:]):
        return None
    tensors: list[Tensor] = [assembly.tensor(name) for name in node.inputs[:3]]
    if any(len(tensor.shape) != 3 for tensor in tensors):
        return None
    build = _Steps(node, assembly)
    q, k, v = (
        _split_heads(build, name, tensor.shape[0], tensor.shape[1], heads, tensor.shape[2] // heads)
        for name, tensor in zip(node.inputs[:3], tensors, strict=True)
    )
    batch, tokens = tensors[0].shape[:2]
    return build.attend(q, k, v, (batch, tokens, tensors[2].shape[2]))


class _Steps:
    """Nodes that stand for one fused node, built one by one."""

    def __init__(self, node: Node, assembly: Assembly) -> None:
        self.node = node
        self.assembly = assembly
        self.nodes: list[Node] = []

    def many(self, op_type: str, count: int, *inputs: str, **attributes: AttributeValue) -> list[str]:
        stem = f"{self.node.name or self.node.op_type}_{op_type.lower()}"
        outputs = tuple(self.assembly.fresh(stem) for _ in range(count))
        self.nodes.append(Node(op_type, stem, inputs, outputs, attributes))
        return list(outputs)

    def __call__(self, op_type: str, *inputs: str, **attributes: AttributeValue) -> str:
        return self.many(op_type, 1, *inputs, **attributes)[0]

    def end(self, op_type: str, *inputs: str, **attributes: AttributeValue) -> list[Node]:
        """Return all nodes, with the one that makes the fused node's output."""
        self.nodes.append(Node(op_type, self.node.name, inputs, self.node.outputs[:1], attributes))
        return self.nodes

    def end_with_last(self) -> list[Node]:
        """Return all nodes; the last one so far makes the fused node's output."""
        last = self.nodes.pop()
        return self.end(last.op_type, *last.inputs, **last.attributes)

    def attend(self, q: str, k: str, v: str, shape: tuple[int, ...]) -> list[Node]:
        """Return softmax(q k^T scale) v, merged to ``shape``."""
        heads_size = shape[2] // int(cast(int, self.node.attributes["num_heads"]))
        scale = self.node.attributes.get("scale", 0.0) or heads_size**-0.5
        dtype = self.assembly.tensor(self.node.inputs[0]).dtype
        scores = self("MatMul", q, self("Transpose", k, perm=(0, 1, 3, 2)))
        scores = self("Mul", scores, self.assembly.constant(scale, dtype))
        mixed = self("MatMul", self("Softmax", scores, axis=-1), v)
        mixed = self("Transpose", mixed, perm=(0, 2, 1, 3))
        return self.end("Reshape", mixed, self.assembly.constant(shape, "int64"))


def _split_heads(build: _Steps, name: str, batch: int, tokens: int, heads: int, size: int) -> str:
    shaped = build("Reshape", name, build.assembly.constant((batch, tokens, heads, size), "int64"))
    return build("Transpose", shaped, perm=(0, 2, 1, 3))


_EXPANSIONS: Mapping[tuple[str, str], Expand] = {
    ("", "Attention"): _standard_attention,
    ("", "SimplifiedLayerNormalization"): _simplified_layer_norm,
    (MICROSOFT, "Attention"): _attention,
    (MICROSOFT, "BiasGelu"): _bias_gelu("none"),
    (MICROSOFT, "FastGelu"): _bias_gelu("tanh"),
    (MICROSOFT, "FusedConv"): _fused_conv,
    (MICROSOFT, "FusedGemm"): _fused_gemm,
    (MICROSOFT, "FusedMatMul"): _fused_matmul,
    (MICROSOFT, "Gelu"): _rename("Gelu"),
    (MICROSOFT, "MultiHeadAttention"): _multi_head_attention,
    (MICROSOFT, "QLinearConcat"): _qlinear_concat,
    (MICROSOFT, "QuickGelu"): _quick_gelu,
    (MICROSOFT, "SimplifiedLayerNormalization"): _simplified_layer_norm,
    (MICROSOFT, "SkipLayerNormalization"): _skip_normalization("LayerNormalization", 4),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _skip_normalization("RMSNormalization", 3),
    (MICROSOFT, "TransposeMatMul"): _fused_matmul,
    (MICROSOFT, "DequantizeLinear"): _rename("DequantizeLinear"),
    (MICROSOFT, "QuantizeLinear"): _rename("QuantizeLinear"),
}
