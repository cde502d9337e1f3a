"""Pooling over windows or over whole maps."""

from __future__ import annotations

import numpy as np

from latcast.graph.ir import Shape
from latcast.graph.operators.linear import spatial_pads
from latcast.graph.writers.tflite.folding import Step, unsupported
from latcast.graph.writers.tflite.layout import CHANNELS_LAST
from latcast.graph.writers.tflite.operators.linear import pad_spatial, same_padding
from latcast.graph.writers.tflite.schema import Padding
from latcast.graph.writers.tflite.writer import GraphWriter, emits

_NEVER_NEGATIVE = frozenset({"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Sqrt"})
_KEEPS_SIGN = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "Reshape", "Flatten", "Identity", "Dropout"})


@emits("MaxPool", "AveragePool")
def pool(writer: GraphWriter, step: Step) -> None:
    """MAX_POOL_2D or AVERAGE_POOL_2D, with the borders exactly as ONNX has them."""
    view = writer.view(step)
    x, out = writer.shape(step.inputs[0]), writer.shape(step.output)
    if len(x) != 4 or len(step.outputs) > 1 or set(view.ints("dilations", (1, 1))) != {1}:
        raise unsupported(step.node, "only 2-D pooling without dilation and without indices is written")
    kernel = view.ints("kernel_shape", ())
    strides = view.ints("strides", (1, 1))
    pads = spatial_pads(view, x[2:], kernel, strides, (1, 1))
    begins, ends = pads[:2], pads[2:]
    # With ceil_mode the last window may reach further than the padding.
    reach = tuple((o - 1) * s + k - size - b
                  for o, s, k, size, b in zip(out[2:], strides, kernel, x[2:], begins, strict=True))  # fmt: skip
    ends = tuple(max(end, beyond) for end, beyond in zip(ends, reach, strict=True))
    fits_same = same_padding(x[2:], out[2:], kernel, strides, begins)
    maximum = step.op_type == "MaxPool"
    counts_pads = not maximum and bool(view.int_attribute("count_include_pad", 0))
    source = writer.operand(step.inputs[0], CHANNELS_LAST)
    options: dict[str, float] = {
        "stride_h": strides[0], "stride_w": strides[1], "filter_height": kernel[0], "filter_width": kernel[1],
    }  # fmt: skip
    builtin = "MAX_POOL_2D" if maximum else "AVERAGE_POOL_2D"
    if not any(begins) and all(beyond <= 0 for beyond in reach):
        writer.finish(builtin, (source,), step, CHANNELS_LAST, padding=Padding.VALID, **options)
        return
    if fits_same and not counts_pads:
        writer.finish(builtin, (source,), step, CHANNELS_LAST, padding=Padding.SAME, **options)
        return
    lowest = 0.0 if not maximum or never_negative(writer, step.inputs[0]) else float(np.finfo(np.float32).min)
    source = pad_spatial(writer, source, begins, ends, f"{step.output}/padded", value=lowest)
    factors = None if maximum else _corrections(x[2:], out[2:], kernel, strides, pads, counts_pads)
    if factors is None:
        writer.finish(builtin, (source,), step, CHANNELS_LAST, padding=Padding.VALID, **options)
        return
    shape = (out[0], *out[2:], out[1])
    averaged = writer.add(builtin, (source,), shape, f"{step.output}/padded_average", {"padding": Padding.VALID, **options})
    factor = writer.constant(factors[None, :, :, None], f"{step.output}/factors")
    writer.finish("MUL", (averaged, factor), step, CHANNELS_LAST)


def never_negative(writer: GraphWriter, name: str) -> bool:
    """Whether zeros can stand for "nothing" in a maximum: the values come from a ReLU or the like."""
    node = writer.graph.producers.get(name)
    while node is not None and node.op_type in _KEEPS_SIGN:
        node = writer.graph.producers.get(node.inputs[0])
    if node is None:
        return False
    if node.op_type == "Clip":
        low = writer.values.get(node.inputs[1]) if len(node.inputs) > 1 else None
        return low is not None and float(low.reshape(-1)[0]) >= 0
    return node.op_type in _NEVER_NEGATIVE


def _corrections(
    sizes: Shape, outputs: Shape, kernel: Shape, strides: Shape, pads: Shape, counts_pads: bool
) -> np.ndarray | None:
    """Factors (height, width) that turn an average over whole windows into one over the elements that ONNX counts.

    None where all are 1.
    """
    counted = []
    for axis in (0, 1):
        begins = np.arange(outputs[axis]) * strides[axis] - pads[axis]
        first, last = (-pads[axis], sizes[axis] + pads[axis + 2]) if counts_pads else (0, sizes[axis])
        counted.append(np.minimum(begins + kernel[axis], last) - np.maximum(begins, first))
    factors = kernel[0] * kernel[1] / np.outer(*counted).astype(np.float64)
    return None if np.all(factors == 1) else factors.astype(np.float32)


@emits("GlobalAveragePool", "GlobalMaxPool")
def global_pool(writer: GraphWriter, step: Step) -> None:
    """MEAN or REDUCE_MAX over height and width, which stay with size 1."""
    if len(writer.shape(step.inputs[0])) != 4:
        raise unsupported(step.node, "only 4-D inputs are pooled globally")
    builtin = "MEAN" if step.op_type == "GlobalAveragePool" else "REDUCE_MAX"
    axes = writer.indices((1, 2), f"{step.output}/axes")
    writer.finish(builtin, (writer.operand(step.inputs[0], CHANNELS_LAST), axes), step, CHANNELS_LAST, keep_dims=True)
