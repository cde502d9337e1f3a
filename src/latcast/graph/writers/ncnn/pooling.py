"""Pooling over windows or whole maps, and reductions over named axes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from latcast.graph.ir import Node
from latcast.graph.operators.linear import spatial_pads, window_output
from latcast.graph.writers.ncnn.layers import ParamValue
from latcast.graph.writers.ncnn.linear import along
from latcast.graph.writers.ncnn.lowering import MAX_DIMS, Lowering, blob_axes, failure, lowers

_FULL, _VALID = 0, 1
"""Parameter 5 of Pooling: whether the input is padded until the last window fits, or the last window left out."""

_REDUCTION: Mapping[str, int] = {
    "ReduceSum": 0, "ReduceSumSquare": 2, "ReduceMean": 3, "ReduceMax": 4, "ReduceMin": 5, "ReduceProd": 6, "ReduceL1": 7,
    "ReduceL2": 8, "ReduceLogSum": 9, "ReduceLogSumExp": 10,
}  # fmt: skip
"""Operator to parameter 0 of ncnn's Reduction."""


@lowers("MaxPool", "AveragePool")
def lower_pool(ctx: Lowering, node: Node) -> None:
    """Pooling with explicit pads.

    An average that counts padding also counts, in ncnn, what rounding up adds beyond the padding; ONNX does not. The values
    at that edge differ, the work does not.
    """
    view = ctx.view(node)
    shape = ctx.shape(node.inputs[0])
    kernel = view.ints("kernel_shape", ())
    if len(kernel) != 2 or any(size != 1 for size in view.ints("dilations", (1, 1))):
        raise failure(node, f"windows have two axes and no dilation, this one is {list(kernel)}")
    if len(node.outputs) > 1 and (node.outputs[1] in ctx.graph.consumers or node.outputs[1] in ctx.graph.outputs):
        raise failure(node, "ncnn's layer does not tell where a maximum was")
    strides = view.ints("strides", (1, 1))
    pads = spatial_pads(view, shape[2:], kernel, strides, (1, 1))
    output = ctx.shape(node.outputs[0])[1:]
    fits = window_output(view, shape[2:], kernel) == output[1:]
    params: dict[int, ParamValue] = {
        0: int(node.op_type == "AveragePool"),
        **along(kernel, 1, 11),
        **along(strides, 2, 12),
        **along(pads[:2], 3, 13),
        **along(pads[2:], 14, 15),
        5: _VALID if fits else _FULL,
    }
    if not fits and any(_full_size(shape[2 + axis], kernel, strides, pads, axis) != output[1 + axis] for axis in (0, 1)):
        raise failure(node, "ncnn rounds both axes up, this operator only one of them")
    if node.op_type == "AveragePool":
        params[6] = int(any(pads) and view.int_attribute("count_include_pad", 0))
    ctx.emit("Pooling", [ctx.shaped(node.inputs[0], shape[1:])], {node.outputs[0]: output}, [node], params)


def _full_size(size: int, kernel: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...], axis: int) -> int:
    """Output size along an axis where the input is padded until the last window fits."""
    return -(-(size + pads[axis] + pads[axis + 2] - kernel[axis]) // strides[axis]) + 1


@lowers("GlobalAveragePool", "GlobalMaxPool")
def lower_global_pool(ctx: Lowering, node: Node) -> None:
    """Pooling with parameter 4, which makes a vector."""
    shape = ctx.shape(node.inputs[0])
    bottom = ctx.shaped(node.inputs[0], shape[1:] if len(shape) == 4 else (shape[1], 1, prod(shape[2:])))
    params: dict[int, ParamValue] = {0: int(node.op_type == "GlobalAveragePool"), 4: 1}
    ctx.emit("Pooling", [bottom], {node.outputs[0]: shape[1:2]}, [node], params)


@lowers(*_REDUCTION)
def lower_reduction(ctx: Lowering, node: Node) -> None:
    """Reduction; axes of size 1 that the blob does not have need no reducing."""
    view = ctx.view(node)
    shape = ctx.shape(node.inputs[0])
    given = view.ints_from("axes", 1) or tuple(range(len(shape)))
    reduced = {axis % len(shape) for axis in given}
    keeps = view.int_attribute("keepdims", 1)
    axes = blob_axes(shape)
    if len(axes) > MAX_DIMS:
        raise failure(node, f"a blob has at most four axes, its input {list(shape)} more")
    positions = tuple(position for position, axis in enumerate(axes) if axis in reduced)
    if not positions:
        raise failure(node, "it reduces axes of size 1 alone; remove it")
    bottom = ctx.shaped(node.inputs[0], [shape[axis] for axis in axes])
    if keeps:
        result = [1 if axis in reduced else shape[axis] for axis in axes]
    else:
        result = [shape[axis] for axis in axes if axis not in reduced] or [1]
    params: dict[int, ParamValue] = {0: _REDUCTION[node.op_type], 1: 0, 3: positions, 4: keeps, 5: 1}
    ctx.emit("Reduction", [bottom], {node.outputs[0]: result}, [node], params)
