"""Operators that hold several matrix products: recurrent layers, attention, einsum."""

from __future__ import annotations

from math import prod

from latcast.graph.ir import Shape, Tensor
from latcast.graph.operators.table import OperatorView, define

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _sequence(view: OperatorView) -> tuple[int, int, int, int]:
    """Steps, batch, directions and hidden size of a recurrent layer."""
    x, recurrence = view.shape(0), view.shape(2)
    batch_first = view.int_attribute("layout", 0)
    steps, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
    return steps, batch, recurrence[0], recurrence[2]


def infer_recurrent(view: OperatorView) -> list[Tensor]:
    steps, batch, directions, hidden = _sequence(view)
    gates = _GATES[view.node.op_type]
    if view.shape(1) != (directions, gates * hidden, view.shape()[-1]):
        raise view.fail(f"a weight of shape {list(view.shape(1))} does not fit a hidden size of {hidden}")
    if view.int_attribute("layout", 0):
        sequence: Shape = (batch, steps, directions, hidden)
        last: Shape = (batch, directions, hidden)
    else:
        sequence, last = (steps, directions, batch, hidden), (directions, batch, hidden)
    shapes = (sequence, last, last)[: len(view.node.outputs)]
    return [Tensor(shape, view.dtype()) for shape in shapes]


def macs_recurrent(view: OperatorView) -> int:
    steps, batch, _, _ = _sequence(view)
    return steps * batch * (prod(view.shape(1)) + prod(view.shape(2)))


def flops_recurrent(view: OperatorView) -> int:
    """Two per multiply-accumulate; the gates' activations and products are 10 per hidden value and gate."""
    steps, batch, directions, hidden = _sequence(view)
    return 2 * macs_recurrent(view) + 10 * _GATES[view.node.op_type] * steps * batch * directions * hidden


def _attention_sizes(view: OperatorView) -> tuple[int, int, int, int, int, int, int]:
    """Batch, query heads, key heads, query length, key length (with the past), key and value head sizes."""
    q, k, v = view.shape(0), view.shape(1), view.shape(2)
    if len(q) == 4:
        query_heads, key_heads, queries, keys = q[1], k[1], q[2], k[2]
        key_size, value_size = q[3], v[3]
    else:
        query_heads, key_heads = (view.int_attribute(f"{name}_num_heads", 0) for name in ("q", "kv"))
        if not query_heads or not key_heads:
            raise view.fail("three-dimensional queries need q_num_heads and kv_num_heads")
        queries, keys = q[1], k[1]
        key_size, value_size = q[2] // query_heads, v[2] // key_heads
    past = view.shape(4)[2] if view.has_input(4) else 0
    return q[0], query_heads, key_heads, queries, keys + past, key_size, value_size


def infer_attention(view: OperatorView) -> list[Tensor]:
    batch, query_heads, key_heads, queries, keys, key_size, value_size = _attention_sizes(view)
    four = len(view.shape(0)) == 4
    shapes: list[Shape] = [
        (batch, query_heads, queries, value_size) if four else (batch, queries, query_heads * value_size),
        (batch, key_heads, keys, key_size),
        (batch, key_heads, keys, value_size),
        (batch, query_heads, queries, keys),
    ]
    return [Tensor(shape, view.dtype()) for shape in shapes[: len(view.node.outputs)]]


def macs_attention(view: OperatorView) -> int:
    batch, heads, _, queries, keys, key_size, value_size = _attention_sizes(view)
    return batch * heads * queries * keys * (key_size + value_size)


def flops_attention(view: OperatorView) -> int:
    """Two per multiply-accumulate, and a softmax (6) over the scores after scaling them (1)."""
    batch, heads, _, queries, keys, _, _ = _attention_sizes(view)
    return 2 * macs_attention(view) + 7 * batch * heads * queries * keys


def _einsum_terms(view: OperatorView) -> tuple[list[list[str]], list[str], dict[str, int]]:
    """Index names of each operand and of the result, and the size of each index.

    The dimensions under an ellipsis become indices of their own, named by their place from the right.
    """
    equation = view.str_attribute("equation", "").replace(" ", "")
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
            sizes[name] = max(size, sizes.get(name, 1))
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
    """The loop nest over all indices, for a product of two operands or more."""
    operands, _, sizes = _einsum_terms(view)
    return prod(sizes.values()) * (len(operands) - 1)


def flops_einsum(view: OperatorView) -> int:
    """Two per multiply-accumulate; a single operand is at most summed, one per element."""
    operands, _, sizes = _einsum_terms(view)
    return 2 * macs_einsum(view) if len(operands) > 1 else prod(sizes.values())


def infer_rotary_embedding(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), view.dtype())]


def flops_rotary_embedding(view: OperatorView) -> int:
    """Two products and a sum for every element."""
    return 3 * view.outputs[0].elements


define("LSTM", "GRU", "RNN", infer=infer_recurrent, flops=flops_recurrent, macs=macs_recurrent)
define("Attention", infer=infer_attention, flops=flops_attention, macs=macs_attention)
define("Einsum", infer=infer_einsum, flops=flops_einsum, macs=macs_einsum)
define("RotaryEmbedding", infer=infer_rotary_embedding, flops=flops_rotary_embedding)
