"""Elementwise kernels: activations, arithmetic, normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.graph.operators import Kind, operators
from latcast.kernels.kernel import LAYER_NORM_OF_IMAGES, operator_class
from latcast.kernels.types.kernel_type import (
    Columns,
    KernelType,
    Quantities,
    add_kernel_type,
    add_kernel_variant,
    channel_remainders,
    no_features,
    one_class,
)

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder

ACTIVATIONS = (
    "relu", "relu6", "clip", "leaky_relu", "sigmoid", "hard_sigmoid", "hard_swish", "silu", "gelu", "tanh", "erf", "mish",
    "elu", "softplus", "sqrt", "exp", "p_relu", "unary",
)  # fmt: skip
"""Functions by code (their index); a new one goes to the end, as bundles hold codes."""

ARITHMETIC = (
    "add", "mul", "sub", "div", "bias_add", "mul_weight", "add_scalar", "mul_scalar", "div_scalar", "pow_scalar", "arithmetic",
)  # fmt: skip
"""Operations by code."""

_IDIOMS = tuple(idiom for row in operators(Kind.UNARY) for idiom in row.idioms)

_COMPUTING = {row.kernel_class: row for row in operators(Kind.UNARY) if row.each}
"""Functions of one value by class; those that compute nothing are kernels of type ``copy``."""


def _activation_code(graph: Graph, nodes: Sequence[Node]) -> int:
    if len(nodes) > 1:
        ending = (idiom for name in _IDIOMS for idiom in graph.idioms(name).get(nodes[-1].name, ()))
        return next(ACTIVATIONS.index(idiom.name) for idiom in ending if len(idiom.nodes) == len(nodes))
    name = operator_class(graph, nodes[0])
    return ACTIVATIONS.index(name) if name in ACTIVATIONS else ACTIVATIONS.index("unary")


def _channels(shape: Sequence[int]) -> int:
    """Return the channels of a map, or the features of a token or a vector."""
    if len(shape) >= 4:
        return shape[1]
    return shape[-1] if shape else 1


def extract_activation(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    shape = graph.shape(nodes[-1].outputs[0])
    return prod(shape), _channels(shape), _activation_code(graph, nodes)


_ACTIVATION_COST = np.array([_COMPUTING[name].each if name in _COMPUTING else 2 for name in ACTIVATIONS], dtype=np.float64)


def activation_quantities(c: Columns) -> Quantities:
    cost = _ACTIVATION_COST[c["function"].astype(int)]
    return Quantities(cost * c["elements"], c["elements"], c["elements"], 0 * c["elements"])


def activation_class(c: Columns) -> np.ndarray:
    names = np.array([f"activation {name}" for name in ACTIVATIONS], dtype=object)
    return names[c["function"].astype(int)]


def build_activation(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    channels = c["channels"]
    x = builder.input((1, channels, *square(max(c["elements"] // channels, 1))))
    name = ACTIVATIONS[c["function"]]
    if name in ("tanh", "erf", "elu", "softplus", "sqrt", "exp"):
        return builder.op(_COMPUTING[name].op_type, [x])[0]
    if name == "unary":
        return builder.op("Abs", [x])[0]
    if name == "clip":
        return builder.clip(x, -1.0, 1.0)
    if name == "p_relu":
        return builder.op("PRelu", [x, builder.weight((channels, 1, 1), stem="slope")])[0]
    if name == "mish":
        return builder.mul(x, builder.op("Tanh", [builder.op("Softplus", [x])[0]])[0])
    return builder.activation(x, name)


def square(pixels: int) -> tuple[int, int]:
    """Return the height and width of so many pixels, as near to a square as divides them."""
    side = int(pixels**0.5)
    while side > 1 and pixels % side:
        side -= 1
    return max(side, 1), pixels // max(side, 1)


def extract_arithmetic(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    node = nodes[0]
    shape = graph.shape(node.outputs[0])
    name = operator_class(graph, node)
    smallest = min(graph.tensors[i].elements for i in node.inputs if i)
    code = ARITHMETIC.index(name) if name in ARITHMETIC else ARITHMETIC.index("arithmetic")
    return prod(shape), _channels(shape), smallest, code


def arithmetic_quantities(c: Columns) -> Quantities:
    return Quantities(c["elements"], c["elements"] + c["small_elements"], c["elements"], 0 * c["elements"])


def arithmetic_class(c: Columns) -> np.ndarray:
    """Return classes by whether both sides have one shape or one is broadcast."""
    return np.where(c["small_elements"] == c["elements"], "add", "broadcast").astype(object)


def build_arithmetic(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    name = ARITHMETIC[c["operation"]]
    shape, other_shape = _broadcast_shapes(c["elements"], c["channels"], c["small_elements"])
    x = builder.input(shape)
    if name.endswith("_scalar"):
        other = builder.constant(2.0 if name == "pow_scalar" else 0.5, dtype="float32")
        return builder.op(name.removesuffix("_scalar").capitalize(), [x, other])[0]
    if name in ("bias_add", "mul_weight"):
        return builder.op("Add" if name == "bias_add" else "Mul", [x, builder.weight(other_shape)])[0]
    # Operators without a code are measured as a maximum, which has none either.
    op_type = "Max" if name == "arithmetic" else name.capitalize()
    return builder.op(op_type, [x, builder.input(other_shape)])[0]


def _broadcast_shapes(elements: int, channels: int, small: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of a map, and of a tensor of ``small`` elements that broadcasts over it.

    It spans the channels and some rows where their product is ``small``, otherwise the last axis; where neither fits (both
    sides were broadcast), it is a scalar.
    """
    pixels = max(elements // channels, 1)
    if small == channels:
        return (1, channels, *square(pixels)), (1, channels, 1, 1)
    rows = small // channels
    if small % channels == 0 and pixels % rows == 0:
        return (1, channels, rows, pixels // rows), (1, channels, rows, 1)
    if small > 1 and pixels % small == 0:
        return (1, channels, pixels // small, small), (1, 1, 1, small)
    return (1, channels, *square(pixels)), (1, 1, 1, 1)


def extract_batch_norm(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    shape = graph.shape(nodes[0].outputs[0])
    return prod(shape), shape[1] if len(shape) > 1 else 1


def batch_norm_quantities(c: Columns) -> Quantities:
    return Quantities(2 * c["elements"], c["elements"], c["elements"], 4 * c["channels"])


def build_batch_norm(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    return builder.batch_norm(builder.input((1, c["channels"], *square(max(c["elements"] // c["channels"], 1)))))


def extract_rows(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return rows and columns: how many times how many elements are normalised together."""
    node = nodes[-1]
    shape = graph.shape(node.outputs[0])
    axis = node.integer("axis", -1) % max(len(shape), 1)
    if node.op_type in ("LayerNormalization", "RMSNormalization"):
        columns = prod(shape[axis:])
    elif node.op_type == "InstanceNormalization":
        columns = prod(shape[2:])
    elif node.op_type == "GroupNormalization":
        columns = prod(shape[1:]) // node.integer("num_groups")
    else:
        columns = shape[axis] if shape else 1
    return prod(shape) // max(columns, 1), columns


def rows_quantities(flops_per_element: int, weights_per_column: int) -> Callable[[Columns], Quantities]:
    def quantities(c: Columns) -> Quantities:
        elements = c["rows"] * c["columns"]
        return Quantities(flops_per_element * elements, elements, elements, weights_per_column * c["columns"])

    return quantities


def extract_softmax(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return rows, columns, and how many elements lie between neighbours of a row: 0 where these are adjacent."""
    shape = graph.shape(nodes[-1].outputs[0])
    axis = nodes[-1].integer("axis", -1) % max(len(shape), 1)
    inner = prod(shape[axis + 1 :])
    return *extract_rows(graph, nodes), inner if inner > 1 else 0


SOFTMAX_VECTOR = 16
"""Neighbours below which OpenVINO's strided softmax works on one value at a time: vectors of AVX-512 hold as many floats."""


def softmax_class(c: Columns) -> np.ndarray:
    narrow = _is_narrow(c)
    return np.select([narrow, c["inner"] > 0], ["softmax strided narrow", "softmax strided"], "softmax").astype(object)


def softmax_features(c: Columns) -> Mapping[str, np.ndarray]:
    return {"narrow": _is_narrow(c).astype(np.float64)}


def _is_narrow(c: Columns) -> np.ndarray:
    return (c["inner"] > 0) & (c["inner"] < SOFTMAX_VECTOR)


def build_softmax(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a softmax over the last axis, or over the one before it where neighbours are not adjacent."""
    rows, columns, inner = c["rows"], c["columns"], c["inner"]
    if not inner:
        return builder.softmax(builder.input((1, rows, columns)))
    return builder.softmax(builder.input((1, max(rows // inner, 1), columns, inner)), axis=2)


def build_layer_norm(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a layer normalisation with the sums in front of it that are fused into it."""
    shape = (1, c["rows"], c["columns"])
    x = builder.input(shape)
    for _ in range(c.get("fused_inputs", 0)):
        x = builder.add(x, builder.input(shape))
    return builder.layer_norm(x)


def extract_lrn(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return elements, channels, and how many channels the sum of squares spans."""
    shape = graph.shape(nodes[0].outputs[0])
    return prod(shape), shape[1], nodes[0].integer("size")


def lrn_quantities(c: Columns) -> Quantities:
    return Quantities(8 * c["elements"], c["elements"], c["elements"], 0 * c["elements"])


def build_lrn(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    x = builder.input((1, c["channels"], *square(max(c["elements"] // c["channels"], 1))))
    return builder.op("LRN", [x], {"size": c["size"]})[0]


ACTIVATION = add_kernel_type(
    KernelType(
        "activation", ("elements", "channels", "function"), tuple(dict.fromkeys((*ACTIVATIONS, *_COMPUTING))),
        extract_activation, activation_quantities, activation_class, channel_remainders, build_activation,
        kinds={"function": ACTIVATIONS},
    )
)  # fmt: skip
add_kernel_variant(ACTIVATION, "floating")
ARITHMETIC_TYPE = add_kernel_type(
    KernelType(
        "arithmetic", ("elements", "channels", "small_elements", "operation"),
        (*ARITHMETIC, "sub_scalar", "max_scalar", "min_scalar", "sub_weight", "div_weight", "pow_weight", "max_weight",
         "min_weight", "pow", "max", "min", "sum", "mean", "where"),
        extract_arithmetic, arithmetic_quantities, arithmetic_class, channel_remainders, build_arithmetic,
        kinds={"operation": ARITHMETIC},
    )
)  # fmt: skip
add_kernel_variant(ARITHMETIC_TYPE, "floating")
BATCH_NORM = add_kernel_type(
    KernelType(
        "batch_norm", ("elements", "channels"), ("batch_normalization",), extract_batch_norm, batch_norm_quantities,
        one_class("batch norm"), channel_remainders, build_batch_norm,
    )
)  # fmt: skip
add_kernel_variant(BATCH_NORM, "floating")
LRN = add_kernel_type(
    KernelType(
        "lrn", ("elements", "channels", "size"), ("lrn",), extract_lrn, lrn_quantities, one_class("lrn"), channel_remainders,
        build_lrn,
    )
)  # fmt: skip
SOFTMAX = add_kernel_type(
    KernelType(
        "softmax", ("rows", "columns", "inner"), ("softmax", "log_softmax"), extract_softmax, rows_quantities(6, 0),
        softmax_class, softmax_features, build_softmax, added=("inner",),
    )
)  # fmt: skip
add_kernel_variant(SOFTMAX, "floating")
LAYER_NORM = add_kernel_type(
    KernelType(
        "layer_norm", ("rows", "columns"),
        ("layer_norm", "plain_layer_norm", "layer_normalization", "rms_normalization", "group_normalization",
         "instance_normalization"),
        extract_rows, rows_quantities(7, 2), one_class("layer norm"), no_features, build_layer_norm,
    )
)  # fmt: skip
add_kernel_variant(LAYER_NORM, "of_images", classes=(LAYER_NORM_OF_IMAGES,))


def filters_quantities(c: Columns) -> Quantities:
    """Return those of a normalisation that reads learned filters and writes standardised ones."""
    elements = c["rows"] * c["columns"]
    return Quantities(7 * elements, elements, elements, elements)


OF_FILTERS = add_kernel_variant(LAYER_NORM, "of_filters", quantities=filters_quantities)
"""Standardises the filters of a convolution: a row is what makes one output channel."""
