"""What exporters spell with several operators and ncnn has one layer for.

ncnn fuses nothing when it loads a network: its converter (pnnx) does, when it writes one. The groups recognised here are
those that pnnx recognises: activations, GELU, layer normalisation, channel shuffle, transposed matrix products, padding
before a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isclose, pi, prod

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.graph.writers.ncnn.rewriting import Rewriter

Pattern = Callable[[Rewriter, Node], bool]

_TOLERANCE = 1e-3
"""Relative; exporters print constants with few digits."""


def recognise(graph: Graph, values: Mapping[str, np.ndarray]) -> tuple[Graph, Mapping[str, tuple[str, ...]]]:
    """Replaces every known group of nodes by one node.

    The new nodes are Gelu, HardSigmoid, HardSwish, Swish, Mish, LayerNormalization, ChannelShuffle (attribute ``group``),
    MatMul with an attribute ``transB``, Conv with an attribute ``pad_value``.

    Returns:
        The graph, and the names of the original nodes behind each of the new ones.
    """
    rewriter = Rewriter(graph, values)
    for patterns in _PASSES:
        for node in rewriter.nodes():
            for pattern in patterns.get(node.op_type, ()):
                if node in rewriter and pattern(rewriter, node):
                    break
    return rewriter.finish(), rewriter.origins


def close(value: float, expected: float) -> bool:
    return isclose(value, expected, rel_tol=_TOLERANCE)


def clip_bounds(rewriter: Rewriter, node: Node) -> tuple[float | None, float | None]:
    """Constant bounds of a Clip, given as inputs or, in old files, as attributes; None where it has none."""
    bounds = []
    for position, key in ((1, "min"), (2, "max")):
        given = node.attributes.get(key)
        if len(node.inputs) > position and node.inputs[position]:
            bounds.append(rewriter.scalar(node.inputs[position]))
        else:
            bounds.append(float(given) if isinstance(given, (int, float)) else None)
    return bounds[0], bounds[1]


def integers(rewriter: Rewriter, node: Node, attribute: str, position: int | None = None) -> tuple[int, ...] | None:
    """Integers given as an attribute or as a constant input; None where they are neither."""
    given = node.attributes.get(attribute)
    if isinstance(given, tuple):
        return tuple(int(number) for number in given)
    value = rewriter.values.get(node.inputs[position]) if position is not None and len(node.inputs) > position else None
    return None if value is None else tuple(int(number) for number in value.reshape(-1))


def _clipped_shift(rewriter: Rewriter, tensor: str) -> tuple[str, float, float, list[Node]] | None:
    """``(x, c, h, nodes)`` where the tensor is clip(x + c, 0, h)."""
    clip = rewriter.producer(tensor, "Clip")
    if clip is None:
        return None
    low, high = clip_bounds(rewriter, clip)
    add = rewriter.producer(clip.inputs[0])
    shifted = rewriter.shifted(add)
    if shifted is None or add is None or low != 0.0 or high is None or high <= 0:
        return None
    return shifted[0], shifted[1], high, [add, clip]


def hard_sigmoid(rewriter: Rewriter, node: Node) -> bool:
    """clip(x + 3, 0, 6) / 6."""
    scaled = rewriter.scaled(node)
    found = _clipped_shift(rewriter, scaled[0]) if scaled else None
    if scaled is None or found is None:
        return False
    x, shift, high, nodes = found
    factor = scaled[1]
    if not close(factor * high, 1.0):
        return False
    return rewriter.replace([*nodes, node], "HardSigmoid", (x,), {"alpha": factor, "beta": factor * shift})


def hard_swish(rewriter: Rewriter, node: Node) -> bool:
    """x * hardsigmoid(x)."""
    for gate, x in (node.inputs, node.inputs[::-1]):
        made = rewriter.producer(gate, "HardSigmoid")
        if made is not None and made.inputs[0] == x:
            attributes = {"alpha": made.attributes.get("alpha", 0.2), "beta": made.attributes.get("beta", 0.5)}
            return rewriter.replace([made, node], "HardSwish", (x,), attributes)
    return False


def hard_swish_divided_last(rewriter: Rewriter, node: Node) -> bool:
    """(x * clip(x + 3, 0, 6)) / 6."""
    scaled = rewriter.scaled(node)
    product = rewriter.producer(scaled[0], "Mul") if scaled else None
    if scaled is None or product is None:
        return False
    for gate, x in (product.inputs, product.inputs[::-1]):
        found = _clipped_shift(rewriter, gate)
        if found is not None and found[0] == x and close(scaled[1] * found[2], 1.0):
            attributes = {"alpha": scaled[1], "beta": scaled[1] * found[1]}
            return rewriter.replace([*found[3], product, node], "HardSwish", (x,), attributes)
    return False


def swish(rewriter: Rewriter, node: Node) -> bool:
    """x * sigmoid(x)."""
    for gate, x in (node.inputs, node.inputs[::-1]):
        made = rewriter.producer(gate, "Sigmoid")
        if made is not None and made.inputs[0] == x:
            return rewriter.replace([made, node], "Swish", (x,), {})
    return False


def mish(rewriter: Rewriter, node: Node) -> bool:
    """x * tanh(softplus(x))."""
    for gate, x in (node.inputs, node.inputs[::-1]):
        tanh = rewriter.producer(gate, "Tanh")
        softplus = rewriter.producer(tanh.inputs[0], "Softplus") if tanh else None
        if tanh is not None and softplus is not None and softplus.inputs[0] == x:
            return rewriter.replace([softplus, tanh, node], "Mish", (x,), {})
    return False


def gelu(rewriter: Rewriter, erf: Node) -> bool:
    """0.5 x (1 + erf(x / sqrt 2)), the products in any order."""
    inner = rewriter.producer(erf.inputs[0])
    scaled = rewriter.scaled(inner)
    if inner is None or scaled is None or not close(scaled[1], 0.5**0.5):
        return False
    return _gated_gelu(rewriter, scaled[0], [inner, erf], "none")


def tanh_gelu(rewriter: Rewriter, tanh: Node) -> bool:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the products in any order."""
    outer = rewriter.producer(tanh.inputs[0])
    scaled = rewriter.scaled(outer)
    if outer is None or scaled is None or not close(scaled[1], (2 / pi) ** 0.5):
        return False
    total = rewriter.producer(scaled[0], "Add")
    if total is None:
        return False
    for x, cubic in (total.inputs, total.inputs[::-1]):
        term = rewriter.producer(cubic)
        weighted = rewriter.scaled(term)
        power = rewriter.producer(weighted[0], "Pow") if weighted else None
        if term is None or weighted is None or power is None or not close(weighted[1], 0.044715):
            continue
        if power.inputs[0] == x and rewriter.scalar(power.inputs[1]) == 3.0:
            return _gated_gelu(rewriter, x, [power, term, total, outer, tanh], "tanh")
    return False


def _gated_gelu(rewriter: Rewriter, x: str, nodes: list[Node], approximate: str) -> bool:
    """Completes a GELU from the nodes up to its erf or tanh: adds 1, multiplies by x and by 0.5."""
    plus = rewriter.sole_consumer(nodes[-1].outputs[0], "Add")
    shifted = rewriter.shifted(plus)
    if plus is None or shifted is None or shifted[1] != 1.0:
        return False
    gate = plus.outputs[0]
    first = rewriter.sole_consumer(gate, "Mul", "Div")
    if first is None:
        return False
    other = rewriter.other_operand(first, gate)
    half = rewriter.producer(other) if other else None
    halved = rewriter.scaled(half)
    group = [*nodes, plus, first]
    if other != x and half is not None and halved is not None and halved[0] == x and close(halved[1], 0.5):
        return rewriter.replace([*group, half], "Gelu", (x,), {"approximate": approximate})
    second = rewriter.sole_consumer(first.outputs[0], "Mul", "Div")
    if second is None:
        return False
    by_x_first = first.op_type == "Mul" and other == x and _halves(rewriter, second, first.outputs[0])
    by_half_first = (
        _halves(rewriter, first, gate) and second.op_type == "Mul" and rewriter.other_operand(second, first.outputs[0]) == x
    )
    if not (by_x_first or by_half_first):
        return False
    return rewriter.replace([*group, second], "Gelu", (x,), {"approximate": approximate})


def _halves(rewriter: Rewriter, node: Node, tensor: str) -> bool:
    scaled = rewriter.scaled(node)
    return scaled is not None and scaled[0] == tensor and close(scaled[1], 0.5)


def layer_norm(rewriter: Rewriter, root: Node) -> bool:
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon), times a weight, plus a weight, over the last axis."""
    add = rewriter.producer(root.inputs[0], "Add")
    shifted = rewriter.shifted(add)
    variance = rewriter.producer(shifted[0], "ReduceMean") if shifted else None
    square = rewriter.producer(variance.inputs[0], "Pow", "Mul") if variance else None
    if add is None or shifted is None or variance is None or square is None:
        return False
    centred = rewriter.producer(square.inputs[0], "Sub")
    squared = square.inputs[0] == square.inputs[1] if square.op_type == "Mul" else rewriter.scalar(square.inputs[1]) == 2.0
    mean = rewriter.producer(centred.inputs[1], "ReduceMean") if centred else None
    divided = rewriter.sole_consumer(root.outputs[0], "Div")
    if centred is None or mean is None or divided is None or not squared or mean.inputs[0] != centred.inputs[0]:
        return False
    x = centred.inputs[0]
    if divided.inputs != (centred.outputs[0], root.outputs[0]) or not all(
        _reduces_last_axis(rewriter, node, x) for node in (mean, variance)
    ):
        return False
    group = [mean, centred, square, variance, add, root, divided]
    inputs = [x]
    size = rewriter.graph.shape(x)[-1]
    last = divided
    for op_type in ("Mul", "Add"):
        affine = rewriter.sole_consumer(last.outputs[0], op_type)
        weight = rewriter.other_operand(affine, last.outputs[0]) if affine else None
        known = rewriter.values.get(weight) if weight else None
        if affine is None or weight is None or known is None or known.size != size or known.shape[-1] != size:
            break
        inputs.append(weight)
        group.append(affine)
        last = affine
    if len(inputs) == 2:  # a factor alone stays outside: ncnn's layer has both or none
        inputs.pop()
        group.pop()
    return rewriter.replace(group, "LayerNormalization", inputs, {"axis": -1, "epsilon": shifted[1]})


def _reduces_last_axis(rewriter: Rewriter, node: Node, x: str) -> bool:
    rank = len(rewriter.graph.shape(x))
    axes = integers(rewriter, node, "axes", 1)
    keeps = bool(node.attributes.get("keepdims", 1))
    return axes is not None and keeps and [axis % rank for axis in axes] == [rank - 1]


def channel_shuffle(rewriter: Rewriter, transpose: Node) -> bool:
    """(N, C, ...) as (N, g, C/g, ...), the two exchanged, and back, as in ShuffleNet."""
    first = rewriter.producer(transpose.inputs[0], "Reshape")
    last = rewriter.sole_consumer(transpose.outputs[0], "Reshape")
    order = integers(rewriter, transpose, "perm")
    if first is None or last is None or order is None:
        return False
    x = rewriter.graph.shape(first.inputs[0])
    grouped = rewriter.graph.shape(first.outputs[0])
    if len(x) != 4 or rewriter.graph.shape(last.outputs[0]) != x or len(grouped) < 4:
        return False
    if order != (0, 2, 1, *range(3, len(grouped))):
        return False
    if grouped[0] != x[0] or grouped[1] * grouped[2] != x[1] or prod(grouped[3:]) != prod(x[2:]):
        return False
    return rewriter.replace([first, transpose, last], "ChannelShuffle", first.inputs[:1], {"group": grouped[1]})


def transposed_matmul(rewriter: Rewriter, node: Node) -> bool:
    """A matrix product whose right operand is transposed just before."""
    transpose = rewriter.producer(node.inputs[1], "Transpose")
    order = integers(rewriter, transpose, "perm") if transpose else None
    if transpose is None or order is None or node.attributes.get("transB", 0):
        return False
    rank = len(order)
    if rank < 2 or order != (*range(rank - 2), rank - 1, rank - 2):
        return False
    return rewriter.replace([transpose, node], "MatMul", (node.inputs[0], transpose.inputs[0]), {"transB": 1})


def padded_conv(rewriter: Rewriter, node: Node) -> bool:
    """Constant padding before a convolution becomes the convolution's own."""
    pad = rewriter.producer(node.inputs[0], "Pad")
    if pad is None or pad.attributes.get("mode", "constant") != "constant":
        return False
    pads = integers(rewriter, pad, "pads", 1)
    has_value = len(pad.inputs) > 2 and pad.inputs[2]
    value = rewriter.scalar(pad.inputs[2]) if has_value else pad.attributes.get("value", 0.0)
    rank = len(rewriter.graph.shape(pad.inputs[0]))
    if pads is None or len(pads) != 2 * rank or not isinstance(value, (int, float)):
        return False
    outer = (*pads[:2], *pads[rank : rank + 2])
    inner = (*pads[2:rank], *pads[rank + 2 :])
    own = integers(rewriter, node, "pads") or (0,) * len(inner)
    if any(outer) or min(inner) < 0:
        return False
    if node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or (any(own) and value != 0.0):
        return False
    total = tuple(a + b for a, b in zip(inner, own, strict=True))
    attributes = {**node.attributes, "pads": total, "auto_pad": "NOTSET", "pad_value": float(value)}
    return rewriter.replace([pad, node], "Conv", (pad.inputs[0], *node.inputs[1:]), attributes)


_PASSES: tuple[Mapping[str, tuple[Pattern, ...]], ...] = (
    {
        "Mul": (hard_sigmoid, hard_swish_divided_last, swish, mish),
        "Div": (hard_sigmoid, hard_swish_divided_last),
        "Erf": (gelu,),
        "Tanh": (tanh_gelu,),
        "Sqrt": (layer_norm,),
        "Transpose": (channel_shuffle,),
        "Conv": (padded_conv,),
    },
    {"Mul": (hard_swish,), "MatMul": (transposed_matmul,)},
)
"""Anchor operator to patterns; the second pass sees what the first made."""
