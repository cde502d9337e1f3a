"""Normalisations and softmax."""

from __future__ import annotations

import numpy as np

from latcast.graph.ir import Shape
from latcast.graph.writers.tflite.folding import Step, number_of, unsupported
from latcast.graph.writers.tflite.layout import CHANNELS_LAST, Order, logical, physical_shape
from latcast.graph.writers.tflite.operators.linear import normalisation_terms
from latcast.graph.writers.tflite.writer import GraphWriter, emits


@emits("BatchNormalization")
def batch_normalization(writer: GraphWriter, step: Step) -> None:
    """MUL and ADD: what is left of one that follows no convolution."""
    rank = len(writer.shape(step.inputs[0]))
    order = CHANNELS_LAST if rank == 4 else writer.orders[step.inputs[0]]
    if rank not in (2, 4):
        raise unsupported(step.node, f"its input has rank {rank}; 2 and 4 are written")
    scale, shift = normalisation_terms(writer, step, step.node)
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
    axis = writer.view(step).int_attribute("axis", -1) % rank
    held = writer.orders[step.inputs[0]]
    order = held if held[axis:] == tuple(range(axis, rank)) else logical(rank)
    scale = writer.weight(step, step.inputs[1])
    shift = writer.weight(step, step.inputs[2]) if len(step.inputs) > 2 and step.inputs[2] else None
    source = writer.operand(step.inputs[0], order)
    _normalise(writer, step, source, tuple(range(axis, rank)), order, scale, shift)


@emits("InstanceNormalization")
def instance_normalization(writer: GraphWriter, step: Step) -> None:
    if len(writer.shape(step.inputs[0])) != 4:
        raise unsupported(step.node, "only 4-D inputs are normalised by instance")
    source = writer.operand(step.inputs[0], CHANNELS_LAST)
    scale, shift = (writer.weight(step, name) for name in step.inputs[1:3])
    _normalise(writer, step, source, (1, 2), CHANNELS_LAST, scale, shift)


def _normalise(
    writer: GraphWriter,
    step: Step,
    source: int,
    axes: tuple[int, ...],
    order: Order,
    scale: np.ndarray,
    shift: np.ndarray | None,
) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over physical axes."""
    full = physical_shape(writer.shape(step.output), order)
    reduced: Shape = tuple(1 if axis in axes else size for axis, size in enumerate(full))
    epsilon = np.float32(number_of(step.node, "epsilon", 1e-5))

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
    axis = writer.view(step).int_attribute("axis", -1) % rank
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
    size = writer.view(step).int_attribute("size", 0)
    if size % 2 == 0 or len(writer.shape(step.inputs[0])) != 4:
        raise unsupported(step.node, f"a window of {size} channels; TFLite's are odd and its inputs 4-D")
    defaults = (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    alpha, beta, bias = (number_of(step.node, name, default) for name, default in defaults)
    source = (writer.operand(step.inputs[0], CHANNELS_LAST),)
    writer.finish("LOCAL_RESPONSE_NORMALIZATION", source, step, CHANNELS_LAST,
                  radius=size // 2, bias=bias, alpha=alpha / size, beta=beta)  # fmt: skip
