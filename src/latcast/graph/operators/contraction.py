"""Operators that hold several matrix products: recurrent layers, attention, einsum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from latcast.graph.ir import Shape, Tensor
from latcast.graph.operators.selection import infer_as_first
from latcast.graph.operators.table import Operator, OperatorView, define


def recurrent_sizes(view: OperatorView) -> tuple[int, int, int, int]:
    """Return steps, batch, directions and size of a step's output of a recurrent layer."""
    x, recurrence = view.shape(0), view.shape(2)
    batch_first = view.node.integer("layout")
    steps, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
    size = recurrence[2] if view.has_input(8) else view.node.integer("hidden_size", recurrence[2])
    return steps, batch, recurrence[0], size


def infer_recurrent(gates: int, view: OperatorView) -> list[Tensor]:
    """Return the steps' outputs, the last one, and the last cell.

    TFLite's layers with coupled gates lack the matrices of one gate; input 8, which ONNX lacks, projects the hidden values.
    """
    steps, batch, directions, size = recurrent_sizes(view)
    gates -= view.node.integer("input_forget") and view.shape(1)[1] == (gates - 1) * size
    hidden = view.shape(1)[1] // gates
    projection = view.shape(8) if view.has_input(8) else (directions, hidden, hidden)
    rows = (directions, gates * hidden)
    if (view.shape(1), view.shape(2)[:2], projection) != ((*rows, view.shape()[-1]), rows, (directions, size, hidden)):
        raise view.fail(f"a weight of shape {list(view.shape(1))} does not fit a hidden size of {size}")
    for state, width in ((5, size), (6, hidden)):
        if view.has_input(state) and prod(view.shape(state)) != directions * batch * width:
            raise view.fail(
                f"a state of shape {list(view.shape(state))} does not fit {batch} sequences and a hidden size of {width}"
            )
    if view.node.integer("layout"):
        sequence: Shape = (batch, steps, directions, size)
        last: Shape = (batch, directions)
    else:
        sequence, last = (steps, directions, batch, size), (directions, batch)
    shapes = (sequence, (*last, size), (*last, hidden))[: len(view.node.outputs)]
    return [Tensor(shape, view.dtype()) for shape in shapes]


def macs_recurrent(view: OperatorView) -> int:
    steps, batch, _, _ = recurrent_sizes(view)
    return steps * batch * sum(prod(view.shape(index)) for index in (1, 2, 8) if view.has_input(index))


def flops_recurrent(view: OperatorView) -> int:
    """Count two per multiply-accumulate, and 10 per hidden value and gate for the gates' activations and products."""
    steps, batch, _, _ = recurrent_sizes(view)
    return 2 * macs_recurrent(view) + 10 * steps * batch * prod(view.shape(1)[:2])


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """Sizes of ONNX's Attention.

    Attributes:
        batch, query_heads, key_heads: Sequences, and heads of the queries and of keys and values.
        queries, keys: Lengths; that of the keys with the past.
        key_size, value_size: Of a head.
    """

    batch: int
    query_heads: int
    key_heads: int
    queries: int
    keys: int
    key_size: int
    value_size: int

    @property
    def sharing(self) -> int:
        """Return how many query heads read the same head of keys."""
        return self.query_heads // self.key_heads


def attention_sizes(view: OperatorView) -> AttentionSizes:
    """Return the sizes of an attention on axes (batch, tokens, heads x size) or (batch, heads, tokens, size).

    Raises:
        ModelError: The inputs do not fit each other.
    """
    q, k, v = view.shape(0), view.shape(1), view.shape(2)
    if {len(q), len(k), len(v)} not in ({3}, {4}):
        raise view.fail("queries, keys and values must all have three axes, or all four")
    if len(q) == 4:
        query_heads, key_heads = q[1], k[1]
        queries, keys, key_size, value_size = q[2], k[2], q[3], v[3]
        fitting = k == (q[0], key_heads, keys, key_size) and v == (q[0], key_heads, keys, value_size)
    else:
        query_heads, key_heads = (view.node.integer(f"{name}_num_heads") for name in ("q", "kv"))
        if query_heads < 1 or key_heads < 1:
            raise view.fail("three-dimensional queries need q_num_heads and kv_num_heads")
        queries, keys = q[1], k[1]
        key_size, value_size = q[2] // query_heads, v[2] // key_heads
        fitting = (q[2], k, v) == (
            query_heads * key_size, (q[0], keys, key_heads * key_size), (q[0], keys, key_heads * value_size),
        )  # fmt: skip
    if not fitting or query_heads % key_heads:
        raise view.fail(f"{query_heads} query heads and {key_heads} key heads do not fit the shapes")
    if view.has_input(4) != view.has_input(5):
        raise view.fail("past keys and past values must be given together")
    past = 0
    if view.has_input(4):
        old_keys, old_values = view.shape(4), view.shape(5)
        past = old_keys[2] if len(old_keys) == 4 else 0
        if (old_keys, old_values) != ((q[0], key_heads, past, key_size), (q[0], key_heads, past, value_size)):
            raise view.fail(f"past keys {list(old_keys)} and past values {list(old_values)} do not fit the keys and values")
    return AttentionSizes(q[0], query_heads, key_heads, queries, keys + past, key_size, value_size)


def infer_attention(view: OperatorView) -> list[Tensor]:
    s = attention_sizes(view)
    four = len(view.shape(0)) == 4
    shapes: list[Shape] = [
        (s.batch, s.query_heads, s.queries, s.value_size) if four else (s.batch, s.queries, s.query_heads * s.value_size),
        (s.batch, s.key_heads, s.keys, s.key_size),
        (s.batch, s.key_heads, s.keys, s.value_size),
        (s.batch, s.query_heads, s.queries, s.keys),
    ]
    return [Tensor(shape, view.dtype()) for shape in shapes[: len(view.node.outputs)]]


def macs_attention(view: OperatorView) -> int:
    s = attention_sizes(view)
    return s.batch * s.query_heads * s.queries * s.keys * (s.key_size + s.value_size)


def flops_attention(view: OperatorView) -> int:
    """Count two per multiply-accumulate, and a softmax (6) over the scores after scaling them (1)."""
    s = attention_sizes(view)
    return 2 * macs_attention(view) + 7 * s.batch * s.query_heads * s.queries * s.keys


@dataclass(frozen=True, slots=True)
class LinearAttentionSizes:
    """Sizes of ONNX's LinearAttention: sequences, heads of queries and of keys, tokens, and sizes of a head."""

    batch: int
    query_heads: int
    key_heads: int
    tokens: int
    key_size: int
    value_size: int


def linear_attention_sizes(view: OperatorView) -> LinearAttentionSizes:
    """Return the sizes of an attention through a state of (key size, value size), on (batch, tokens, heads x size).

    Raises:
        ModelError: The inputs do not fit each other.
    """
    q, k, v = view.shape(0), view.shape(1), view.shape(2)
    query_heads, key_heads = (view.node.integer(f"{name}_num_heads") for name in ("q", "kv"))
    if query_heads < 1 or key_heads < 1 or query_heads % key_heads or {len(q), len(k), len(v)} != {3}:
        raise view.fail("expected three axes, and q_num_heads a multiple of kv_num_heads")
    key_size, value_size = k[2] // key_heads, v[2] // key_heads
    if q != (*k[:2], query_heads * key_size) or k[:2] != v[:2] or (k[2] % key_heads, v[2] % key_heads) != (0, 0):
        raise view.fail(f"{query_heads} query heads and {key_heads} key heads do not fit the shapes")
    return LinearAttentionSizes(q[0], query_heads, key_heads, q[1], key_size, value_size)


def infer_linear_attention(view: OperatorView) -> list[Tensor]:
    s = linear_attention_sizes(view)
    state = view.dtype(3) if view.has_input(3) else view.dtype()
    shapes = [
        Tensor((s.batch, s.tokens, s.query_heads * s.value_size), view.dtype()),
        Tensor((s.batch, s.key_heads, s.key_size, s.value_size), state),
    ]
    return shapes[: len(view.node.outputs)]


def macs_linear_attention(view: OperatorView) -> int:
    """Count for each token a read of the state by each query head and an update by each key head; delta rules read it again."""
    s = linear_attention_sizes(view)
    updates = 2 if "delta" in view.node.text("update_rule", "gated_delta") else 1
    return s.batch * s.tokens * s.key_size * s.value_size * (s.query_heads + updates * s.key_heads)


def flops_linear_attention(view: OperatorView) -> int:
    """Count two per multiply-accumulate, and where it is gated a product for each element of the state."""
    s = linear_attention_sizes(view)
    gates = s.key_heads * s.key_size * s.value_size if "gated" in view.node.text("update_rule", "gated_delta") else 0
    return 2 * macs_linear_attention(view) + s.batch * s.tokens * gates


def _einsum_terms(view: OperatorView) -> tuple[list[list[str]], list[str], dict[str, int]]:
    """Return the index names of each operand and of the result, and the size of each index.

    The dimensions under an ellipsis become separate indices, named by their place from the right.
    """
    equation = view.node.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    sizes: dict[str, int] = {}
    operands: list[list[str]] = []
    for index, term in enumerate(left.split(",")):
        shape = view.shape(index)
        hidden = len(shape) - len(term.replace("...", ""))
        indices = _spell_out(term, hidden)
        if len(indices) != len(shape):
            raise view.fail(f"the term '{term}' of '{equation}' does not fit rank {len(shape)}")
        for name, size in zip(indices, shape, strict=True):
            if size != 1 and sizes.get(name, 1) not in (1, size):
                raise view.fail(f"index '{name}' of '{equation}' has sizes {sizes[name]} and {size}")
            sizes[name] = sizes.get(name, 1) if size == 1 else size
        operands.append(indices)
    named = [name for indices in operands for name in indices]
    dots = sorted({name for name in named if name[0] == "."}, key=lambda name: -int(name[1:]))
    if arrow:
        before, ellipsis, after = right.partition("...")
        result = [*before, *(dots if ellipsis else ()), *after]
    else:
        result = dots + sorted(name for name in set(named) if name[0] != "." and named.count(name) == 1)
    if not set(result) <= set(sizes):
        raise view.fail(f"the result of '{equation}' names an index that no operand has")
    return operands, result, sizes


def _spell_out(term: str, hidden: int) -> list[str]:
    before, ellipsis, after = term.partition("...")
    dots = [f".{place}" for place in range(hidden - 1, -1, -1)] if ellipsis else []
    return [*before, *dots, *after]


def infer_einsum(view: OperatorView) -> list[Tensor]:
    _, result, sizes = _einsum_terms(view)
    return [Tensor(tuple(sizes[name] for name in result), view.dtype())]


def macs_einsum(view: OperatorView) -> int:
    """Count the loop nest over all indices once for each operand beyond the first."""
    operands, _, sizes = _einsum_terms(view)
    return prod(sizes.values()) * (len(operands) - 1)


def einsum_sizes(view: OperatorView) -> tuple[int, int, int, int] | None:
    """Return batch, rows, inner and columns of a contraction; None unless it has two operands and repeats no index.

    An index that only one operand has and the result has not is summed beforehand and counts as inner.
    """
    operands, result, sizes = _einsum_terms(view)
    if len(operands) != 2 or any(len(set(indices)) != len(indices) for indices in operands):
        return None
    left, right, kept = (set(indices) for indices in (*operands, result))
    groups = (left & right & kept, (left - right) & kept, (left | right) - kept, (right - left) & kept)
    batch, rows, inner, columns = (prod(sizes[name] for name in group) for group in groups)
    return batch, rows, inner, columns


def flops_einsum(view: OperatorView) -> int:
    """Count two per multiply-accumulate; of a single operand one per element, as for a sum."""
    operands, _, sizes = _einsum_terms(view)
    return 2 * macs_einsum(view) if len(operands) > 1 else prod(sizes.values())


def flops_rotary_embedding(view: OperatorView) -> int:
    """Count two products and a sum for every element."""
    return 3 * view.outputs[0].elements


def _recurrent(op_type: str, gates: int, learned: frozenset[int]) -> Operator:
    return Operator(op_type, partial(infer_recurrent, gates), flops_recurrent, macs_recurrent, learned=learned)


define(
    _recurrent("LSTM", 4, frozenset({1, 2, 3, 7, 8})),
    _recurrent("GRU", 3, frozenset({1, 2, 3})),
    _recurrent("RNN", 1, frozenset({1, 2, 3})),
    Operator("Attention", infer_attention, flops_attention, macs_attention),
    Operator("LinearAttention", infer_linear_attention, flops_linear_attention, macs_linear_attention),
    Operator("Einsum", infer_einsum, flops_einsum, macs_einsum),
    Operator("RotaryEmbedding", infer_as_first, flops_rotary_embedding),
)
