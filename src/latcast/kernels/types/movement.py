"""Kernels that move data, and ``other``: whatever no type describes, by its elements and FLOPs alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.graph.ir import Graph, Node
from latcast.graph.operators.table import node_flops
from latcast.kernels.types.elementwise import _square
from latcast.kernels.types.kernel_type import (
    Columns,
    KernelType,
    NotThisType,
    Quantities,
    add_kernel_type,
    no_features,
    one_class,
)

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder


def move_quantities(c: Columns) -> Quantities:
    return Quantities(0 * c["elements"], c["elements"], c["elements"], 0 * c["elements"])


def extract_concat(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Inputs, elements written, contiguous run of one input (mean), channels out."""
    node = nodes[0]
    shape = graph.shape(node.outputs[0])
    axis = cast(int, node.attributes.get("axis", 0)) % max(len(shape), 1)
    count = sum(1 for name in node.inputs if name)
    return count, prod(shape), prod(shape[axis:]) // max(count, 1), shape[1] if len(shape) > 1 else 1


def build_concat(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    count, channels = c["inputs"], max(c["channels"], c["inputs"])
    height, width = _square(max(c["elements"] // channels, 1))
    sizes = [channels // count + (1 if index < channels % count else 0) for index in range(count)]
    return builder.concat([builder.input((1, size, height, width)) for size in sizes], axis=1)


def extract_split(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Outputs, elements written, contiguous run of one output (mean)."""
    node = nodes[0]
    shape = graph.shape(node.inputs[0])
    axis = cast(int, node.attributes.get("axis", 0)) % max(len(shape), 1)
    if node.op_type == "Slice":
        out = graph.shape(node.outputs[0])
        changed = [a for a, (before, after) in enumerate(zip(shape, out, strict=True)) if before != after]
        return 1, prod(out), prod(out[changed[-1] :]) if changed else prod(out)
    count = len(node.outputs)
    return count, prod(shape), prod(shape[axis:]) // count


def build_split(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    count = max(c["outputs"], 2)
    per = max(c["run"], 1)
    outer = max(c["elements"] // (per * count), 1)
    x = builder.input((1, outer, count, per))
    return builder.split(x, (1,) * count, axis=2)[0]


def extract_transpose(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Elements; size of the last axis before and after; contiguous run that stays together."""
    node = nodes[0]
    shape = graph.shape(node.inputs[0])
    order = cast("tuple[int, ...]", node.attributes.get("perm", tuple(reversed(range(len(shape))))))
    run = 1
    for position in range(len(shape) - 1, -1, -1):
        if order[position] != position:
            break
        run *= shape[position]
    return prod(shape), shape[-1] if shape else 1, shape[order[-1]] if shape else 1, run


def build_transpose(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    run = max(c["run"], 1)
    if run > 1:
        rest = max(c["elements"] // run, 4)
        rows, columns = _square(rest)
        return builder.transpose(builder.input((1, rows, columns, run)), (0, 2, 1, 3))
    columns = max(c["last_in"], 1)
    return builder.transpose(builder.input((1, max(c["elements"] // columns, 1), columns)), (0, 2, 1))


def extract_shuffle(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    shape = graph.shape(nodes[-1].outputs[0])
    groups = graph.shape(nodes[0].outputs[0])[1] if len(nodes) > 1 else 1
    return prod(shape), shape[1], groups


def build_shuffle(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    channels = c["channels"]
    x = builder.input((1, channels, *_square(max(c["elements"] // channels, 1))))
    return builder.channel_shuffle(x, c["groups"])


def extract_resize(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    node = nodes[0]
    x, y = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    if len(x) != 4:
        raise NotThisType
    return x[1], x[2], x[3], y[2], y[3], int(node.attributes.get("mode", "nearest") != "nearest")


def resize_quantities(c: Columns) -> Quantities:
    outputs = c["channels"] * c["out_h"] * c["out_w"]
    return Quantities(outputs * (1 + 6 * c["linear"]), c["channels"] * c["in_h"] * c["in_w"], outputs, 0 * outputs)


def build_resize(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    x = builder.input((1, c["channels"], c["in_h"], c["in_w"]))
    return builder.resize(x, (c["out_h"], c["out_w"]), mode="linear" if c["linear"] else "nearest")


def extract_copy(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    node = nodes[0]
    out = sum(graph.tensors[name].elements for name in node.outputs if name)
    return out, graph.tensors[node.inputs[0]].elements if node.inputs else out


def copy_quantities(c: Columns) -> Quantities:
    return Quantities(0 * c["elements"], c["in_elements"], c["elements"], 0 * c["elements"])


def build_copy(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    x = builder.input((1, 1, *_square(max(c["elements"], 4))))
    return builder.pad(x, (0, 0, 1, 1, 0, 0, 1, 1))


def extract_other(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """FLOPs (0 where the operator is unknown), elements in, out and of weights, over all operators."""
    made = {output for node in nodes for output in node.outputs}
    reads = {name for node in nodes for name in node.inputs if name and name not in made}
    flops = sum(node_flops(graph, node) or 0 for node in nodes)
    ins = sum(graph.tensors[name].elements for name in reads if graph.is_activation(name))
    weights = sum(graph.tensors[name].elements for name in reads if name in graph.weights)
    outs = sum(graph.tensors[name].elements for name in nodes[-1].outputs if name)
    return flops, ins, outs, weights


def other_quantities(c: Columns) -> Quantities:
    return Quantities(c["flops"], c["in_elements"], c["out_elements"], c["weight_elements"])


def build_other(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    raise UnsupportedOperatorError(
        "a kernel of type 'other' stands for operators without a type of their own and cannot be built alone; "
        "measure a network that holds it"
    )


def shuffle_features(c: Columns) -> Mapping[str, np.ndarray]:
    return {"pixels": c["elements"] / np.maximum(c["channels"], 1)}


CONCAT = add_kernel_type(
    KernelType(
        "concat", ("inputs", "elements", "run", "channels"), ("concat",), extract_concat, move_quantities,
        one_class("concat"), no_features, build_concat,
    )
)  # fmt: skip
SPLIT = add_kernel_type(
    KernelType(
        "split", ("outputs", "elements", "run"), ("split", "slice"), extract_split, move_quantities, one_class("split"),
        no_features, build_split,
    )
)  # fmt: skip
TRANSPOSE = add_kernel_type(
    KernelType(
        "transpose", ("elements", "last_in", "last_out", "run"), ("transpose",), extract_transpose, move_quantities,
        one_class("transpose"), no_features, build_transpose,
    )
)  # fmt: skip
CHANNEL_SHUFFLE = add_kernel_type(
    KernelType(
        "channel_shuffle", ("elements", "channels", "groups"), ("channel_shuffle",), extract_shuffle, move_quantities,
        one_class("channel shuffle"), shuffle_features, build_shuffle,
    )
)  # fmt: skip
RESIZE = add_kernel_type(
    KernelType(
        "resize", ("channels", "in_h", "in_w", "out_h", "out_w", "linear"), ("resize", "upsample"), extract_resize,
        resize_quantities, one_class("resize"), no_features, build_resize,
    )
)  # fmt: skip
COPY = add_kernel_type(
    KernelType(
        "copy", ("elements", "in_elements"),
        ("pad", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "tile", "gather", "depth_to_space", "space_to_depth",
         "quantize_linear", "dequantize_linear", "cast", "identity", "dropout"),
        extract_copy, copy_quantities, one_class("copy"), no_features, build_copy,
    )
)  # fmt: skip
OTHER = add_kernel_type(
    KernelType(
        "other", ("flops", "in_elements", "out_elements", "weight_elements"), (), extract_other, other_quantities,
        one_class("other"), no_features, build_other,
    )
)  # fmt: skip
