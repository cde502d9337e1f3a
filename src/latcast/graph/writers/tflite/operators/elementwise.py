"""Element-wise operators, normalisations and softmax."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.graph.ir import Shape
from latcast.graph.operators import Kind, operators
from latcast.graph.operators.elementwise import clip_bounds
from latcast.graph.writers.folding import batch_norm_terms
from latcast.graph.writers.tflite.layout import CHANNELS_LAST, Order, logical, physical_shape
from latcast.graph.writers.tflite.schema import Activation, TensorType
from latcast.graph.writers.tflite.steps import Step, unsupported
from latcast.graph.writers.tflite.writer import GraphWriter, emits

UNARY = {row.op_type: row.tflite for row in operators(Kind.UNARY) if row.tflite and not row.boolean}

BINARY = {row.op_type: row.tflite for row in operators(Kind.BINARY) if row.tflite and not row.boolean} | {"Sum": "ADD"}

_CLAMPS: Mapping[tuple[float | None, float | None], str] = {
    (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1", (0.0, None): "RELU",
}  # fmt: skip

_ACTIVATED = frozenset(row.tflite for row in operators() if row.arithmetic)


@emits(*UNARY)
def unary(writer: GraphWriter, step: Step) -> None:
    source, order = writer.source(step)
    writer.finish(UNARY[step.op_type], (source,), step, order)


@emits("Gelu")
def gelu(writer: GraphWriter, step: Step) -> None:
    """Write a GELU: one operator, or the five that exporters write for it."""
    source, order = writer.source(step)
    approximate = step.node.op_type == "Gelu" and step.node.attributes.get("approximate", "none") == "tanh"
    writer.finish("GELU", (source,), step, order, approximate=approximate)


@emits("Elu", "LeakyRelu")
def sloped(writer: GraphWriter, step: Step) -> None:
    source, order = writer.source(step)
    alpha = step.node.real("alpha", 1.0 if step.op_type == "Elu" else 0.01)
    if step.op_type == "LeakyRelu":
        writer.finish("LEAKY_RELU", (source,), step, order, alpha=alpha)
    elif alpha == 1.0:
        writer.finish("ELU", (source,), step, order)
    else:
        raise unsupported(step.node, f"its alpha is {alpha}; TFLite's ELU has 1")


@emits("Identity", "Dropout")
def identity(writer: GraphWriter, step: Step) -> None:
    if len(step.outputs) > 1 and any(step.outputs[1:]):
        raise unsupported(step.node, "the mask of a dropout")
    writer.alias(step, writer.orders[step.inputs[0]])
    if step.inputs[0] in writer.feature_order:
        writer.feature_order[step.output] = writer.feature_order[step.inputs[0]]


@emits("Cast")
def cast(writer: GraphWriter, step: Step) -> None:
    order = writer.orders[step.inputs[0]]
    before, after = writer.type_of(step.inputs[0]), writer.type_of(step.output)
    if before == after:
        writer.alias(step, order)
    else:
        source = (writer.operand(step.inputs[0], order),)
        writer.finish("CAST", source, step, order, in_data_type=before, out_data_type=after)


@emits("Clip")
def clip(writer: GraphWriter, step: Step) -> None:
    """Write one of TFLite's clamped ReLUs if it has these bounds, else MAXIMUM and MINIMUM."""
    source, order = writer.source(step)
    low, high = clip_bounds(step.node, writer.values)
    if (low, high) in _CLAMPS:
        writer.finish(_CLAMPS[low, high], (source,), step, order)
        return
    shape = physical_shape(writer.shape(step.output), order)
    if low is not None and high is not None:
        source = writer.add("MAXIMUM", (source, _number(writer, step, "low", low)), shape, f"{step.output}/clipped_below")
    if high is not None:
        writer.finish("MINIMUM", (source, _number(writer, step, "high", high)), step, order)
    elif low is not None:
        writer.finish("MAXIMUM", (source, _number(writer, step, "low", low)), step, order)
    else:
        writer.alias(step, order)


def _number(writer: GraphWriter, step: Step, name: str, value: float) -> int:
    return writer.constant(np.float32(value), f"{step.output}/{name}")


@emits("HardSigmoid")
def hard_sigmoid(writer: GraphWriter, step: Step) -> None:
    """min(max(alpha x + beta, 0), 1); with the usual 1/6 and 0.5 as RELU6(x + 3) / 6, the form of converted models."""
    alpha, beta = step.node.real("alpha", 0.2), step.node.real("beta", 0.5)
    source, order = writer.source(step)
    shape = physical_shape(writer.shape(step.output), order)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        shifted = writer.add("ADD", (source, _number(writer, step, "three", 3.0)), shape, f"{step.output}/shifted",
                             {"fused_activation_function": Activation.RELU6})  # fmt: skip
        writer.finish("MUL", (shifted, _number(writer, step, "sixth", 1 / 6)), step, order)
        return
    scaled = writer.add("MUL", (source, _number(writer, step, "alpha", alpha)), shape, f"{step.output}/scaled")
    shifted = writer.add("ADD", (scaled, _number(writer, step, "beta", beta)), shape, f"{step.output}/shifted")
    writer.finish("RELU_0_TO_1", (shifted,), step, order)


@emits("Reciprocal")
def reciprocal(writer: GraphWriter, step: Step) -> None:
    source, order = writer.source(step)
    writer.finish("DIV", (_number(writer, step, "one", 1.0), source), step, order)


@emits("Swish")
def swish(writer: GraphWriter, step: Step) -> None:
    """x sigmoid(alpha x), which TFLite has in two operators."""
    source, order = writer.source(step)
    shape, gated = physical_shape(writer.shape(step.output), order), source
    alpha = step.node.real("alpha", 1.0)
    if alpha != 1.0:
        gated = writer.add("MUL", (source, _number(writer, step, "alpha", alpha)), shape, f"{step.output}/scaled")
    gate = writer.add("LOGISTIC", (gated,), shape, f"{step.output}/gate")
    writer.finish("MUL", (source, gate), step, order)


@emits("Softplus", "Mish")
def softplus(writer: GraphWriter, step: Step) -> None:
    """log(1 + exp x), and for Mish x tanh of that, operator by operator."""
    source, order = writer.source(step)
    shape = physical_shape(writer.shape(step.output), order)
    powers = writer.add("EXP", (source,), shape, f"{step.output}/powers")
    raised = writer.add("ADD", (powers, _number(writer, step, "one", 1.0)), shape, f"{step.output}/raised")
    if step.op_type == "Softplus":
        writer.finish("LOG", (raised,), step, order)
        return
    softened = writer.add("LOG", (raised,), shape, f"{step.output}/softplus")
    gate = writer.add("TANH", (softened,), shape, f"{step.output}/gate")
    writer.finish("MUL", (source, gate), step, order)


@emits("PRelu")
def prelu(writer: GraphWriter, step: Step) -> None:
    """Write a PRELU of one slope a channel; TFLite broadcasts it over height and width."""
    rank = len(writer.shape(step.inputs[0]))
    order = CHANNELS_LAST if rank == 4 else writer.orders[step.inputs[0]]
    slope = writer.weight(step, step.inputs[1])
    full = slope.reshape((1,) * (rank - slope.ndim) + slope.shape).transpose(order)
    if rank != 4 or full.shape[0] != 1:
        raise unsupported(step.node, f"its input is {list(writer.shape(step.inputs[0]))}, its slope {list(slope.shape)}")
    inputs = (writer.operand(step.inputs[0], order), writer.constant(full[0], step.inputs[1]))
    writer.finish("PRELU", inputs, step, order)


@emits(*BINARY)
def binary(writer: GraphWriter, step: Step) -> None:
    """Write a broadcasting operator; more than two inputs become a chain."""
    order = common_order(writer, step)
    names = step.inputs
    if len(names) == 1:
        writer.alias(step, writer.orders[names[0]])
        return
    builtin = BINARY[step.op_type]
    options: dict[str, float] = {"fused_activation_function": step.activation} if builtin in _ACTIVATED else {}
    left = writer.operand(names[0], order)
    shape: Shape = writer.shape(names[0])
    for name in names[1:-1]:
        shape = np.broadcast_shapes(shape, writer.shape(name))
        full = (1,) * (len(order) - len(shape)) + shape
        left = writer.add(builtin, (left, writer.operand(name, order)), physical_shape(full, order), f"{step.output}/{name}")
    writer.finish(builtin, (left, writer.operand(names[-1], order)), step, order, **options)


def common_order(writer: GraphWriter, step: Step) -> Order:
    """Return the order that costs least: the one wished for if an input has it, else that of the largest full-rank input."""
    rank = len(writer.shape(step.output))
    full = [name for name in step.inputs if name in writer.orders and len(writer.shape(name)) == rank]
    if not full:
        return logical(rank)
    wish = writer.wishes.get(step.output)
    sizes = {name: writer.graph.tensors[name].elements for name in full}
    largest = [name for name in full if sizes[name] == max(sizes.values())]
    for name in largest:
        if writer.orders[name] == wish:
            return writer.orders[name]
    return writer.orders[largest[0]]


@emits("ArgMax")
def arg_max(writer: GraphWriter, step: Step) -> None:
    rank = len(writer.shape(step.inputs[0]))
    source, order = writer.source(step)
    axis = step.node.integer("axis") % rank
    position = writer.constant(np.int32(order.index(axis)), f"{step.output}/axis")
    shape = tuple(size for a, size in zip(order, physical_shape(writer.shape(step.inputs[0]), order), strict=True) if a != axis)
    kept = step.node.integer("keepdims", 1)
    final = order if kept else tuple(a - (a > axis) for a in order if a != axis)
    if not kept:
        writer.finish("ARG_MAX", (source, position), step, final, output_type=TensorType.INT64)
        return
    found = writer.add("ARG_MAX", (source, position), shape, f"{step.output}/squeezed",
                       {"output_type": TensorType.INT64}, nodes=step.names, kind=TensorType.INT64)  # fmt: skip
    target = physical_shape(writer.shape(step.output), final)
    writer.finish("RESHAPE", (found, writer.indices(target, f"{step.output}/shape")), step, final)


@emits("BatchNormalization")
def batch_normalization(writer: GraphWriter, step: Step) -> None:
    """MUL and ADD: what is left of one that follows no convolution."""
    rank = len(writer.shape(step.inputs[0]))
    order = CHANNELS_LAST if rank == 4 else writer.orders[step.inputs[0]]
    if rank not in (2, 4):
        raise unsupported(step.node, f"its input has rank {rank}; 2 and 4 are written")
    scale, shift = (terms.astype(np.float32) for terms in batch_norm_terms(step.node, writer.values))
    source = writer.operand(step.inputs[0], order)
    shape = physical_shape(writer.shape(step.output), order)
    scaled = writer.add("MUL", (source, writer.constant(scale, step.inputs[1])), shape, f"{step.output}/scaled")
    inputs = (scaled, writer.constant(shift, step.inputs[2]))
    writer.finish("ADD", inputs, step, order, fused_activation_function=step.activation)


@emits("LayerNormalization")
def layer_normalization(writer: GraphWriter, step: Step) -> None:
    """Over the last axes, as converters compose it; TFLite has no operator for it."""
    if len(step.outputs) > 1 and any(step.outputs[1:]):
        raise unsupported(step.node, "its statistics are read, which only training needs")
    shape = writer.shape(step.inputs[0])
    rank = len(shape)
    axis = step.node.integer("axis", -1) % rank
    held = writer.orders[step.inputs[0]]
    order = held if held[axis:] == tuple(range(axis, rank)) else logical(rank)
    scale = writer.weight(step, step.inputs[1])
    shift = writer.weight(step, step.inputs[2]) if len(step.inputs) > 2 and step.inputs[2] else None
    source = writer.operand(step.inputs[0], order)
    _normalise(writer, step, source, tuple(range(axis, rank)), order, scale, shift)


@emits("InstanceNormalization")
def instance_normalization(writer: GraphWriter, step: Step) -> None:
    """Images with their channels last; what is no image (the groups of a group normalisation) as it lies."""
    rank = len(writer.shape(step.inputs[0]))
    scale, shift = (writer.weight(step, name) for name in step.inputs[1:3])
    if rank == 4:
        _normalise(writer, step, writer.operand(step.inputs[0], CHANNELS_LAST), (1, 2), CHANNELS_LAST, scale, shift)
        return
    order, by_channel = logical(rank), (-1, *(1,) * (rank - 2))
    source = writer.operand(step.inputs[0], order)
    _normalise(writer, step, source, tuple(range(2, rank)), order, scale.reshape(by_channel), shift.reshape(by_channel))


def _normalise(
    writer: GraphWriter, step: Step, source: int, axes: tuple[int, ...], order: Order, scale: np.ndarray, shift: np.ndarray | None
) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over physical axes."""
    full = physical_shape(writer.shape(step.output), order)
    reduced: Shape = tuple(1 if axis in axes else size for axis, size in enumerate(full))
    epsilon = np.float32(step.node.real("epsilon", 1e-5))

    def name(part: str) -> str:
        return f"{step.output}/{part}"

    which = writer.indices(axes, name("axes"))
    mean = writer.add("MEAN", (source, which), reduced, name("mean"), {"keep_dims": True})
    squares = writer.add("SQUARED_DIFFERENCE", (source, mean), full, name("squares"))
    variance = writer.add("MEAN", (squares, which), reduced, name("variance"), {"keep_dims": True})
    raised = writer.add("ADD", (variance, writer.constant(epsilon, name("epsilon"))), reduced, name("raised"))
    inverse = writer.add("RSQRT", (raised,), reduced, name("inverse"))
    centred = writer.add("SUB", (source, mean), full, name("centred"))
    normalised = writer.add("MUL", (centred, inverse), full, name("normalised"))
    factor = writer.constant(scale, step.inputs[1])
    if shift is None:
        writer.finish("MUL", (normalised, factor), step, order)
        return
    scaled = writer.add("MUL", (normalised, factor), full, name("scaled_to_unit"))
    writer.finish("ADD", (scaled, writer.constant(shift, step.inputs[2])), step, order)


@emits("Softmax", "LogSoftmax")
def softmax(writer: GraphWriter, step: Step) -> None:
    """TFLite's works on the last axis alone."""
    rank = len(writer.shape(step.inputs[0]))
    axis = step.node.integer("axis", -1) % rank
    held = writer.orders[step.inputs[0]]
    order = held if held[-1] == axis else (*(a for a in held if a != axis), axis)
    source = (writer.operand(step.inputs[0], order),)
    if step.op_type == "Softmax":
        writer.finish("SOFTMAX", source, step, order, beta=1.0)
    else:
        writer.finish("LOG_SOFTMAX", source, step, order)


@emits("LRN")
def local_response_normalization(writer: GraphWriter, step: Step) -> None:
    """Across channels; ONNX divides alpha by the window's size, TFLite does not."""
    size = step.node.integer("size")
    if size % 2 == 0 or len(writer.shape(step.inputs[0])) != 4:
        raise unsupported(step.node, f"a window of {size} channels; TFLite's are odd and its inputs 4-D")
    defaults = (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    alpha, beta, bias = (step.node.real(name, default) for name, default in defaults)
    source = (writer.operand(step.inputs[0], CHANNELS_LAST),)
    writer.finish("LOCAL_RESPONSE_NORMALIZATION", source, step, CHANNELS_LAST,
                  radius=size // 2, bias=bias, alpha=alpha / size, beta=beta)  # fmt: skip
