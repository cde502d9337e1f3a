"""Convolutions and matrix products, with the normalisation and activation that ncnn computes along with them; pooling over
windows or whole maps, and reductions over named axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from latcast.graph.ir import Node, Shape
from latcast.graph.ncnn_codes import REDUCTIONS
from latcast.graph.operators.elementwise import clip_bounds
from latcast.graph.operators.linear import spatial_pads, window_output
from latcast.graph.writers.folding import batch_norm_terms
from latcast.graph.writers.ncnn.layers import Layer, ParamValue, plain, quantise, quantised, tagged
from latcast.graph.writers.ncnn.lowering import Blob, Lowering, blob_axes, failure, fitting_axes, lowers, rows

FLOAT_MAX = float(np.finfo(np.float32).max)


@dataclass
class Affine:
    """A linear operator with all that is folded into it.

    Attributes:
        weight: Output channels first.
        bias: One for each output channel, or None.
        nodes: The nodes it computes so far, in order.
        output: The tensor that the last of them makes.
        activation: ncnn's parameters 9 and 10.
    """

    weight: np.ndarray
    bias: np.ndarray | None
    nodes: list[Node]
    output: str
    activation: dict[int, ParamValue]

    def absorb_batch_norm(self, ctx: Lowering) -> None:
        """Scales the weights by a BatchNormalization that alone reads the output."""
        node = ctx.graph.sole_reader(self.output)
        if node is None or node.op_type != "BatchNormalization" or node.inputs[0] != self.output:
            return
        scale, shift = batch_norm_terms(node, ctx.values)
        self.weight = self.weight * scale.reshape(-1, *(1,) * (self.weight.ndim - 1))
        self.bias = shift if self.bias is None else self.bias * scale + shift
        self._take(node)

    def absorb_activation(self, ctx: Lowering) -> None:
        """Take in an activation that alone reads the output, where ncnn computes it along with the layer."""
        node = ctx.graph.sole_reader(self.output)
        found = None if node is None else fused_activation(ctx, node)
        if node is not None and found is not None:
            self.activation = found
            self._take(node)

    def _take(self, node: Node) -> None:
        self.nodes.append(node)
        self.output = node.outputs[0]

    def bias_data(self) -> list[bytes]:
        return [] if self.bias is None else [plain(self.bias)]


def fused_activation(ctx: Lowering, node: Node) -> dict[int, ParamValue] | None:
    """Return parameters 9 (type) and 10 (numbers) for an activation that ncnn's linear layers compute, else None."""
    if node.op_type == "Relu":
        return {9: 1}
    if node.op_type == "LeakyRelu":
        return {9: 2, 10: (node.real("alpha", 0.01),)}
    if node.op_type == "Clip":
        low, high = clip_bounds(node, ctx.values)
        if low == 0.0 and high is None:
            return {9: 1}
        return {9: 3, 10: (-FLOAT_MAX if low is None else low, FLOAT_MAX if high is None else high)}
    if node.op_type == "Sigmoid":
        return {9: 4}
    if node.op_type == "Mish":
        return {9: 5}
    if node.op_type == "HardSwish":
        return {9: 6, 10: (node.real("alpha", 1 / 6), node.real("beta", 0.5))}
    return None


def along(values: tuple[int, ...], *numbers: int) -> dict[int, ParamValue]:
    """Return the sizes along (h, w) or (w,) as the parameters numbered for w, then for h."""
    return dict(zip(numbers, reversed(values), strict=False))


def _convolution_params(affine: Affine, dilations: Shape, strides: Shape, pads: Shape, groups: int) -> dict[int, ParamValue]:
    """Return what all kinds of convolutions are told."""
    rank = len(strides)
    return {
        0: affine.weight.shape[0],
        **along(affine.weight.shape[2:], 1, 11),
        **along(dilations, 2, 12),
        **along(strides, 3, 13),
        **along(pads[:rank], 4, 14),
        **along(pads[rank:], 15, 16),
        5: int(affine.bias is not None),
        6: affine.weight.size,
        **({7: groups} if groups > 1 else {}),
    }


@lowers("Conv")
def lower_conv(ctx: Lowering, node: Node) -> None:
    """Convolution, ConvolutionDepthWise (any grouped one) and their 1D forms; a 1x1 on a pooled vector is an InnerProduct.

    A grouped convolution that is not depthwise stays in fp32: where a group makes a multiple of eight channels, ncnn's int8
    form leaves its output unwritten on x86 with AVX (seen in version 20261020).
    """
    weight = ctx.weight(node, 1)
    rank = len(ctx.shape(node.inputs[0])) - 2
    if weight is None or rank not in (1, 2):
        raise failure(node, f"convolutions have one or two spatial axes, this one {rank}")
    affine = Affine(weight, ctx.weight(node, 2), [node], node.outputs[0], {})
    affine.absorb_batch_norm(ctx)
    affine.absorb_activation(ctx)

    view = ctx.view(node)
    groups = node.integer("group", 1)
    kernel = weight.shape[2:]
    strides, dilations = node.integers("strides", (1,) * rank), node.integers("dilations", (1,) * rank)
    pads = spatial_pads(view, ctx.shape(node.inputs[0])[2:], kernel, strides, dilations)
    source = ctx.blob(node.inputs[0])
    if len(source.shape) == 1 and prod(kernel) == 1 and groups == 1 and not any(pads):
        write_inner_product(ctx, affine, source, node.inputs[0])
        return
    output = ctx.shape(affine.output)
    params = _convolution_params(affine, dilations, strides, pads, groups)
    pad_value = node.real("pad_value")
    if pad_value:
        params[18] = pad_value
    kind = ("Convolution" if groups == 1 else "ConvolutionDepthWise") + ("1D" if rank == 1 else "")
    layer = Layer(kind, "", [], [], params, [tagged(affine.weight), *affine.bias_data()])
    depthwise = groups == weight.shape[0] and weight.shape[1] == 1
    if ctx.scales is not None and rank == 2 and (groups == 1 or depthwise):
        quantise(layer, affine.weight, weight.shape[0], ctx.scales[node.inputs[0]])
    bottom = ctx.shaped(node.inputs[0], ctx.shape(node.inputs[0])[1:])
    layer.params |= affine.activation
    ctx.emit_layer(layer, [bottom], {affine.output: output[1:]}, affine.nodes)


@lowers("ConvTranspose")
def lower_conv_transpose(ctx: Lowering, node: Node) -> None:
    """Deconvolution and DeconvolutionDepthWise."""
    given = ctx.weight(node, 1)
    if given is None or given.ndim != 4:
        raise failure(node, "transposed convolutions have two spatial axes")
    if node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or node.integers("output_shape"):
        raise failure(node, "write its padding out as 'pads' and 'output_padding'")
    groups = node.integer("group", 1)
    inputs, outputs, kernel = given.shape[0], given.shape[1] * groups, given.shape[2:]
    # ONNX keeps the input channels first, ncnn the output channels.
    weight = given.reshape(groups, inputs // groups, outputs // groups, *kernel).swapaxes(1, 2)
    affine = Affine(weight.reshape(outputs, inputs // groups, *kernel), ctx.weight(node, 2), [node], node.outputs[0], {})
    affine.absorb_batch_norm(ctx)
    affine.absorb_activation(ctx)
    pads, extra = node.integers("pads", (0,) * 4), node.integers("output_padding", (0, 0))
    dilations, strides = (node.integers(name, (1, 1)) for name in ("dilations", "strides"))
    params = _convolution_params(affine, dilations, strides, pads, groups) | along(extra, 18, 19)
    kind = "Deconvolution" if groups == 1 else "DeconvolutionDepthWise"
    bottom = ctx.shaped(node.inputs[0], ctx.shape(node.inputs[0])[1:])
    data = [tagged(affine.weight), *affine.bias_data()]
    ctx.emit(kind, [bottom], {affine.output: ctx.shape(affine.output)[1:]}, affine.nodes, params | affine.activation, data)


def write_inner_product(ctx: Lowering, affine: Affine, bottom: Blob, source: str) -> None:
    """Write a fully connected layer on a vector, which holds the tensor ``source``."""
    weight = affine.weight.reshape(affine.weight.shape[0], -1)
    params: dict[int, ParamValue] = {0: weight.shape[0], 1: int(affine.bias is not None), 2: weight.size}
    layer = Layer("InnerProduct", "", [], [], params, [tagged(weight), *affine.bias_data()])
    if ctx.scales is not None:
        quantise(layer, weight, weight.shape[0], ctx.scales[source])
    layer.params |= affine.activation
    ctx.emit_layer(layer, [bottom], {affine.output: weight.shape[:1]}, affine.nodes)


def write_gemm(ctx: Lowering, affine: Affine, bottom: Blob) -> None:
    """Write a matrix product with a constant right operand, as pnnx writes linear layers on more than one row."""
    columns, inner = affine.weight.shape
    params: dict[int, ParamValue] = {
        2: 0, 3: 1, 4: 0, 5: 1, 6: 1, 7: bottom.shape[0], 8: columns, 9: inner, 10: -1 if affine.bias is None else 4,
    }  # fmt: skip
    data = [tagged(affine.weight)] + ([] if affine.bias is None else [tagged(affine.bias)])
    if ctx.scales is not None:
        stored, scales = quantised(affine.weight, 1)
        params[18] = 2
        data = [stored, *data[1:], plain(scales)]
    ctx.emit("Gemm", [bottom], {affine.output: (bottom.shape[0], columns)}, affine.nodes, params, data)


def write_linear(ctx: Lowering, x: str, affine: Affine) -> None:
    """Write an InnerProduct for (1, features), a Gemm for several rows."""
    shape = ctx.shape(x)
    if len(shape) == 2 and shape[0] == 1:
        affine.absorb_batch_norm(ctx)
        affine.absorb_activation(ctx)
        write_inner_product(ctx, affine, ctx.shaped(x, shape[1:]), x)
    else:
        write_gemm(ctx, affine, ctx.shaped(x, (rows(shape), shape[-1])))


def channel_bias(value: np.ndarray, columns: int) -> np.ndarray | None:
    """Return a term that is the same in every row as one number a column, else None."""
    if value.size == 1:
        return np.full(columns, value.reshape(-1)[0], dtype=np.float32)
    return value.reshape(-1) if value.size == columns == value.shape[-1] else None


@lowers("Gemm")
def lower_gemm(ctx: Lowering, node: Node) -> None:
    """Write a product with a constant right operand; not every version of ncnn has a layer for others."""
    weight = ctx.known(node.inputs[1])
    if weight is None or ctx.known(node.inputs[0]) is not None or node.integer("transA"):
        raise failure(node, "its left operand must be an activation, not transposed, its right one a weight")
    weight = weight if node.integer("transB") else weight.T
    term = ctx.weight(node, 2)
    bias = None if term is None else channel_bias(term, weight.shape[0])
    if term is not None and bias is None:
        raise failure(node, f"its third operand of shape {list(term.shape)} differs from row to row")
    alpha, beta = (node.real(name, 1.0) for name in ("alpha", "beta"))
    affine = Affine(weight * alpha, None if bias is None else bias * beta, [node], node.outputs[0], {})
    write_linear(ctx, node.inputs[0], affine)


@lowers("MatMul")
def lower_matmul(ctx: Lowering, node: Node) -> None:
    """Gemm with a constant matrix (and the bias added after it), else MatMul on two blobs."""
    weight = ctx.known(node.inputs[1])
    if weight is None or weight.ndim != 2 or ctx.known(node.inputs[0]) is not None:
        _write_matmul(ctx, node)
        return
    affine = Affine(weight if node.integer("transB") else weight.T, None, [node], node.outputs[0], {})
    add = ctx.graph.sole_reader(node.outputs[0])
    if add is not None and add.op_type == "Add":
        other = add.inputs[1] if add.inputs[0] == node.outputs[0] else add.inputs[0]
        term = ctx.known(other)
        bias = None if term is None else channel_bias(term, affine.weight.shape[0])
        if bias is not None and ctx.shape(add.outputs[0]) == ctx.shape(node.outputs[0]):
            affine.bias = bias
            affine.nodes.append(add)
            affine.output = add.outputs[0]
    write_linear(ctx, node.inputs[0], affine)


def _write_matmul(ctx: Lowering, node: Node) -> None:
    transposed = node.integer("transB")
    output = ctx.shape(node.outputs[0])
    if min(len(ctx.shape(name)) for name in node.inputs) < 2:
        raise failure(node, "an operand is a vector; reshape it to a matrix")
    axes = blob_axes(output, keep=(len(output) - 2, len(output) - 1))
    if len(axes) > 4:
        raise failure(node, f"its output {list(output)} has more than two axes of matrices")

    def operand(name: str) -> Blob:
        shape: Shape = (*(1,) * (len(output) - len(ctx.shape(name))), *ctx.shape(name))
        return ctx.shaped(name, [shape[axis] for axis in axes])

    params: dict[int, ParamValue] = {0: 1} if transposed else {}
    bottoms = [operand(name) for name in node.inputs]
    ctx.emit("MatMul", bottoms, {node.outputs[0]: [output[axis] for axis in axes]}, [node], params)


_FULL, _VALID = 0, 1
"""Parameter 5 of Pooling: whether the input is padded until the last window fits, or the last window left out."""


@lowers("MaxPool", "AveragePool")
def lower_pool(ctx: Lowering, node: Node) -> None:
    """Pooling with explicit pads.

    An average that counts padding also counts, in ncnn, what rounding up adds beyond the padding; ONNX does not. The values
    at that edge differ, the work does not.
    """
    view = ctx.view(node)
    shape = ctx.shape(node.inputs[0])
    kernel = node.integers("kernel_shape")
    if len(kernel) != 2 or any(size != 1 for size in node.integers("dilations", (1, 1))):
        raise failure(node, f"windows have two axes and no dilation, this one is {list(kernel)}")
    if len(node.outputs) > 1 and (node.outputs[1] in ctx.graph.consumers or node.outputs[1] in ctx.graph.outputs):
        raise failure(node, "ncnn's layer does not tell where a maximum was")
    strides = node.integers("strides", (1, 1))
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
        params[6] = int(any(pads) and node.integer("count_include_pad"))
    ctx.emit("Pooling", [ctx.shaped(node.inputs[0], shape[1:])], {node.outputs[0]: output}, [node], params)


def _full_size(size: int, kernel: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...], axis: int) -> int:
    """Return the output size along an axis where the input is padded until the last window fits."""
    return -(-(size + pads[axis] + pads[axis + 2] - kernel[axis]) // strides[axis]) + 1


@lowers("GlobalAveragePool", "GlobalMaxPool")
def lower_global_pool(ctx: Lowering, node: Node) -> None:
    """Pooling with parameter 4, which makes a vector."""
    shape = ctx.shape(node.inputs[0])
    bottom = ctx.shaped(node.inputs[0], shape[1:] if len(shape) == 4 else (shape[1], 1, prod(shape[2:])))
    params: dict[int, ParamValue] = {0: int(node.op_type == "GlobalAveragePool"), 4: 1}
    ctx.emit("Pooling", [bottom], {node.outputs[0]: shape[1:2]}, [node], params)


@lowers(*REDUCTIONS)
def lower_reduction(ctx: Lowering, node: Node) -> None:
    """Reduction; axes of size 1 that the blob does not have need no reducing."""
    view = ctx.view(node)
    shape = ctx.shape(node.inputs[0])
    given = view.ints_from("axes", 1) or tuple(range(len(shape)))
    reduced = {axis % len(shape) for axis in given}
    keeps = node.integer("keepdims", 1)
    axes = fitting_axes(node, shape)
    positions = tuple(position for position, axis in enumerate(axes) if axis in reduced)
    if not positions:
        raise failure(node, "it reduces axes of size 1 alone; remove it")
    bottom = ctx.shaped(node.inputs[0], [shape[axis] for axis in axes])
    if keeps:
        result = [1 if axis in reduced else shape[axis] for axis in axes]
    else:
        result = [shape[axis] for axis in axes if axis not in reduced] or [1]
    params: dict[int, ParamValue] = {0: REDUCTIONS[node.op_type], 1: 0, 3: positions, 4: keeps, 5: 1}
    ctx.emit("Reduction", [bottom], {node.outputs[0]: result}, [node], params)
