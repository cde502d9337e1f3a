"""Pooling over windows, over whole maps, and reductions over other axes; squeeze-and-excitation as one kernel.

The latter on runtimes that run its six operators together (nn-Meter Table 6: "SE").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.graph.operators import Kind, operators
from latcast.kernels.types.convolution import padding
from latcast.kernels.types.kernel_type import (
    Columns,
    KernelType,
    NotThisType,
    Quantities,
    add_kernel_type,
    add_kernel_variant,
    channel_remainders,
    no_features,
    one_class,
)

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder

WINDOW_FIELDS = ("batch", "channels", "in_h", "in_w", "out_h", "out_w", "kernel_h", "kernel_w", "stride_h", "stride_w")


def extract_window(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    node = nodes[0]
    x, y = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    if len(x) != 4:
        raise NotThisType
    kernel = node.integers("kernel_shape")
    strides = node.integers("strides", (1, 1))
    return (*x, *y[2:], *kernel, *strides)


def window_quantities(c: Columns) -> Quantities:
    maps = c["batch"] * c["channels"]
    outputs = maps * c["out_h"] * c["out_w"]
    return Quantities(outputs * c["kernel_h"] * c["kernel_w"], maps * c["in_h"] * c["in_w"], outputs, 0 * maps)


def build_window(op_type: str) -> Callable[[GraphBuilder, Mapping[str, int]], str]:
    def build(builder: GraphBuilder, c: Mapping[str, int]) -> str:
        x = builder.input((c["batch"], c["channels"], c["in_h"], c["in_w"]))
        pads = [padding(c[f"in_{axis}"], c[f"out_{axis}"], c[f"kernel_{axis}"], c[f"stride_{axis}"]) for axis in ("h", "w")]
        attributes = {
            "kernel_shape": (c["kernel_h"], c["kernel_w"]),
            "strides": (c["stride_h"], c["stride_w"]),
            "pads": (pads[0][0], pads[1][0], pads[0][1], pads[1][1]),
        }
        return builder.op(op_type, [x], attributes)[0]

    return build


def extract_reduce(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return the sizes before, along and behind the reduced axes: (outer, reduced, inner)."""
    node = nodes[0]
    x, y = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    if node.op_type.startswith("Global"):
        return x[0] * x[1], prod(x[2:]), 1
    axes = node.integers("axes")
    if not axes and len(node.inputs) > 1 and node.inputs[1] in graph.constants:
        axes = tuple(int(axis) for axis in graph.constants[node.inputs[1]].reshape(-1))
    chosen = {axis % len(x) for axis in axes} if axes else set(range(len(x)))
    inner = prod(x[max(chosen) + 1 :]) if chosen else 1
    reduced = prod(x[axis] for axis in chosen)
    return max(prod(y) // max(inner, 1), 1), reduced, inner


def reduce_quantities(c: Columns) -> Quantities:
    inputs = c["outer"] * c["reduced"] * c["inner"]
    return Quantities(inputs, inputs, c["outer"] * c["inner"], 0 * inputs)


def build_reduce(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    if c["inner"] == 1:
        side = int(c["reduced"] ** 0.5)
        shape = (side, side) if side * side == c["reduced"] else (1, c["reduced"])
        return builder.global_average_pool(builder.input((1, c["outer"], *shape)))
    x = builder.input((c["outer"], c["reduced"], c["inner"]))
    return builder.reduce_mean(x, (1,), keepdims=True)


def reduce_class(c: Columns) -> np.ndarray:
    return np.where(c["inner"] == 1, "global pool", "reduce").astype(object)


MAX_POOL = add_kernel_type(
    KernelType(
        "max_pool", WINDOW_FIELDS, ("max_pool",), extract_window, window_quantities, one_class("max pool"), channel_remainders,
        build_window("MaxPool"),
    )
)  # fmt: skip
AVERAGE_POOL = add_kernel_type(
    KernelType(
        "average_pool", WINDOW_FIELDS, ("average_pool", "lp_pool"), extract_window, window_quantities,
        one_class("average pool"), channel_remainders, build_window("AveragePool"),
    )
)  # fmt: skip
add_kernel_variant(AVERAGE_POOL, "channels_last")
REDUCE = add_kernel_type(
    KernelType(
        "reduce", ("outer", "reduced", "inner"),
        ("global_average_pool", "global_max_pool", "global_lp_pool", *(row.kernel_class for row in operators(Kind.REDUCTION))),
        extract_reduce, reduce_quantities, reduce_class, no_features, build_reduce,
    )
)  # fmt: skip


add_kernel_variant(REDUCE, "floating")


def extract_squeeze_excite(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return the map's sizes, and the channels it is squeezed to by the first of two 1x1 convolutions."""
    pool = next(node for node in nodes if node.op_type == "GlobalAveragePool")
    reduce = next(node for node in nodes if node.op_type == "Conv")
    shape = graph.shape(pool.inputs[0])
    if len(shape) != 4:
        raise NotThisType
    return (*shape, graph.shape(reduce.outputs[0])[1])


def squeeze_excite_quantities(c: Columns) -> Quantities:
    """Pooling and scaling: a FLOP each for every element; two products of 2·C·S FLOPs with biases; an activation of 1 FLOP, a
    gate of 4. The map is read twice, by the pooling and by the scaling."""
    elements = c["batch"] * c["channels"] * c["in_h"] * c["in_w"]
    products = 4 * c["channels"] * c["squeezed"] + 2 * c["squeezed"] + 5 * c["channels"]
    return Quantities(
        2 * elements + c["batch"] * products,
        2 * elements,
        elements,
        2 * c["channels"] * c["squeezed"] + c["channels"] + c["squeezed"],
    )


def squeeze_excite_features(c: Columns) -> Mapping[str, np.ndarray]:
    """Return the ratio of nn-Meter Table 6, and how far vectors of 16 are filled."""
    return {"ratio": c["channels"] / np.maximum(c["squeezed"], 1), "channels_mod_16": c["channels"] % 16}


def build_squeeze_excite(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    return builder.squeeze_excite(builder.input((c["batch"], c["channels"], c["in_h"], c["in_w"])), c["squeezed"])


SQUEEZE_EXCITE = add_kernel_type(
    KernelType(
        "squeeze_excite", ("batch", "channels", "in_h", "in_w", "squeezed"), ("squeeze_excite",), extract_squeeze_excite,
        squeeze_excite_quantities, one_class("squeeze excite"), squeeze_excite_features, build_squeeze_excite,
    )
)  # fmt: skip
