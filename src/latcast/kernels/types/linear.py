"""Matrix products: with a weight (fully connected) and of two activations; attention as one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import AttributeValue, Graph, Node
from latcast.graph.operators.contraction import attention_sizes, einsum_sizes, linear_attention_sizes
from latcast.graph.operators.table import view_of
from latcast.kernels.kernel import LINEAR_OF_IMAGES
from latcast.kernels.types.kernel_type import (
    Columns,
    KernelType,
    NotThisType,
    Quantities,
    add_kernel_type,
    filled_lanes,
    no_features,
    one_class,
)

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder


def extract_linear(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return rows, input and output features of a product with a weight; a weight on the left gives the features."""
    node = nodes[0]
    y = graph.shape(node.outputs[0])
    a, b = graph.shape(node.inputs[0]), graph.shape(node.inputs[1])
    inner = a[0] if node.attributes.get("transA", 0) else a[-1]
    weight, features = (b, -1) if node.inputs[1] in graph.weights else (a, -2)
    if len(weight) != 2 or len(y) < -features:
        raise NotThisType
    return prod(y) // y[features], inner, y[features]


def linear_quantities(c: Columns) -> Quantities:
    rows, i, o = c["rows"], c["in_features"], c["out_features"]
    return Quantities(2 * rows * i * o, rows * i, rows * o, i * o)


def linear_class(c: Columns) -> np.ndarray:
    """Return vector for a few rows, bound by reading the weights; else matrix."""
    return np.where(c["rows"] <= 4, "linear vector", "linear matrix").astype(object)


def linear_features(c: Columns) -> Mapping[str, np.ndarray]:
    return {
        "out_features_mod_16": c["out_features"] % 16,
        **filled_lanes(c["out_features"]),
        "rows_mod_8": c["rows"] % 8,
        "macs_blocked_16": c["rows"] * c["in_features"] * np.ceil(c["out_features"] / 16) * 16,
    }


def build_linear(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a Gemm with its bias for one row, as classifiers have it; a product for several, whose bias is fused behind."""
    if c["rows"] == 1:
        return builder.linear(builder.input((1, c["in_features"])), c["out_features"])
    return builder.linear(builder.input((1, c["rows"], c["in_features"])), c["out_features"], bias=has_bias_behind(c))


def has_bias_behind(c: Mapping[str, int]) -> bool:
    """Return whether the first of the fused FLOPs is the sum with a bias."""
    return c["rows"] > 1 and c.get("fused_flops", 0) > c.get("fused_inputs", 0)


def extract_matmul(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return batch, rows, inner, columns of a product of two activations, perhaps with a scale and a transposition in front."""
    node = nodes[-1]
    a, b, y = (graph.shape(name) for name in (*node.inputs[:2], node.outputs[0]))
    if min(len(a), len(b)) < 2:
        raise NotThisType
    return prod(y[:-2]), y[-2], a[0] if node.attributes.get("transA", 0) else a[-1], y[-1]


def matmul_quantities(c: Columns) -> Quantities:
    b, m, k, n = c["batch"], c["rows"], c["inner"], c["columns"]
    return Quantities(2 * b * m * k * n, b * k * (m + n), b * m * n, 0 * b)


def matmul_features(c: Columns) -> Mapping[str, np.ndarray]:
    return {"columns_mod_16": c["columns"] % 16, "rows_mod_8": c["rows"] % 8, "macs_each": c["rows"] * c["inner"] * c["columns"]}


def build_matmul(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    a = builder.input((1, c["batch"], c["rows"], c["inner"]))
    b = builder.input((1, c["batch"], c["inner"], c["columns"]))
    return builder.matmul(a, b)


def extract_attention(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return batch times heads, queries, keys, mean size of a head, heads that share another's keys."""
    if nodes[0].op_type == "Attention":
        s = attention_sizes(view_of(graph, nodes[0]))
        size = -(-(s.key_size + s.value_size) // 2)
        return s.batch * s.query_heads, s.queries, s.keys, size, s.sharing - 1
    products = [node for node in nodes if node.op_type == "MatMul"]
    scores, mixed = graph.shape(products[0].outputs[0]), graph.shape(products[-1].outputs[0])
    if len(scores) < 3:
        raise NotThisType
    return prod(scores[:-2]), scores[-2], scores[-1], mixed[-1], 0


def attention_quantities(c: Columns) -> Quantities:
    """Count two products of 2·q·k·d FLOPs and a softmax of 6 a score; heads that share keys and values read them once."""
    b, q, k, d = c["batch_heads"], c["queries"], c["keys"], c["head_size"]
    key_heads = b / (1 + c["sharing_heads"])
    return Quantities(b * q * k * (4 * d + 6), d * (b * q + 2 * key_heads * k), b * q * d, 0 * b)


def attention_features(c: Columns) -> Mapping[str, np.ndarray]:
    return {"scores": c["batch_heads"] * c["queries"] * c["keys"]}


def build_attention(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add the products without a scale, which not all runtimes fuse; shared heads are one operator."""
    if c["sharing_heads"]:
        key_heads = max(c["batch_heads"] // (1 + c["sharing_heads"]), 1)
        rows = (c["batch_heads"], c["queries"]), (key_heads, c["keys"]), (key_heads, c["keys"])
        return builder.op("Attention", [builder.input((1, *shape, c["head_size"])) for shape in rows])[0]
    q = builder.input((1, c["batch_heads"], c["queries"], c["head_size"]))
    k = builder.input((1, c["batch_heads"], c["head_size"], c["keys"]))
    v = builder.input((1, c["batch_heads"], c["keys"], c["head_size"]))
    return builder.matmul(builder.softmax(builder.matmul(q, k)), v)


def extract_einsum(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return the sizes of the equivalent batched product: indices of both and of the result, of one operand and
    the result, and of operands alone."""
    sizes = einsum_sizes(view_of(graph, nodes[0]))
    if sizes is None:
        raise NotThisType
    return sizes


def build_einsum(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    a = builder.input((c["batch"], c["rows"], c["inner"]))
    b = builder.input((c["batch"], c["columns"], c["inner"]))
    return builder.op("Einsum", [a, b], {"equation": "bik,bjk->bij"})[0]


def extract_linear_attention(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return batch times key heads, query heads for each, tokens, sizes of a head, and the rule by which the state changes."""
    node = nodes[0]
    s = linear_attention_sizes(view_of(graph, node))
    rule = LINEAR_ATTENTION_RULES.index(node.text("update_rule", "gated_delta"))
    return s.batch * s.key_heads, s.query_heads // s.key_heads, s.tokens, s.key_size, s.value_size, rule


LINEAR_ATTENTION_RULES = ("linear", "gated", "delta", "gated_delta")
"""Rules by code."""


def linear_attention_quantities(c: Columns) -> Quantities:
    """Count 2 FLOPs an element of the state for each query head, the update and the delta rules' reading; 1 for a gate."""
    heads, tokens, state = c["key_heads"], c["tokens"], c["key_size"] * c["value_size"]
    rule = c["rule"].astype(int)
    each = 2 * (c["sharing"] + 1 + (rule >= 2)) + (rule % 2)
    reads = c["sharing"] * c["key_size"] + c["key_size"] + c["value_size"]
    return Quantities(
        heads * tokens * state * each, heads * tokens * reads, heads * tokens * c["sharing"] * c["value_size"], 0 * heads
    )


def build_linear_attention(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    heads, tokens = c["key_heads"], c["tokens"]
    widths = (c["sharing"] * heads * c["key_size"], heads * c["key_size"], heads * c["value_size"])
    attributes: dict[str, AttributeValue] = {
        "q_num_heads": c["sharing"] * heads, "kv_num_heads": heads, "update_rule": LINEAR_ATTENTION_RULES[c["rule"]],
    }  # fmt: skip
    return builder.op("LinearAttention", [builder.input((1, tokens, width)) for width in widths], attributes)[0]


LINEAR = add_kernel_type(
    KernelType(
        "linear", ("rows", "in_features", "out_features"), ("linear", LINEAR_OF_IMAGES), extract_linear, linear_quantities,
        linear_class, linear_features, build_linear,
    )
)  # fmt: skip
MATMUL = add_kernel_type(
    KernelType(
        "matmul", ("batch", "rows", "inner", "columns"), ("matmul", "scaled_matmul", "matmul_of_scaled"), extract_matmul,
        matmul_quantities, one_class("matmul"), matmul_features, build_matmul,
    )
)  # fmt: skip
ATTENTION = add_kernel_type(
    KernelType(
        "attention", ("batch_heads", "queries", "keys", "head_size", "sharing_heads"),
        ("attention", "unscaled_attention"), extract_attention,
        attention_quantities, one_class("attention"), attention_features, build_attention, added=("sharing_heads",),
    )
)  # fmt: skip
EINSUM = add_kernel_type(
    KernelType(
        "einsum", ("batch", "rows", "inner", "columns"), ("einsum",), extract_einsum, matmul_quantities, one_class("einsum"),
        matmul_features, build_einsum,
    )
)  # fmt: skip
LINEAR_ATTENTION = add_kernel_type(
    KernelType(
        "linear_attention", ("key_heads", "sharing", "tokens", "key_size", "value_size", "rule"), ("linear_attention",),
        extract_linear_attention, linear_attention_quantities, one_class("linear attention"), no_features,
        build_linear_attention, kinds={"rule": LINEAR_ATTENTION_RULES},
    )
)  # fmt: skip
