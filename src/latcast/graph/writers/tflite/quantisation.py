"""Full-integer quantisation of a float model, as post-training quantisation writes it.

Activations are int8 with one scale a tensor, weights int8 with one scale an output channel, biases int32; operators that only
move or select values share the scale of their input; sigmoid, tanh and softmax have the scales that their kernels demand.
What has no int8 kernel is computed in float between a DEQUANTIZE and a QUANTIZE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from latcast.graph.writers.ranges import int8_weights, int32_bias
from latcast.graph.writers.tflite.flatbuffer import Quantisation, TfliteModel, TfliteOperator, TfliteTensor
from latcast.graph.writers.tflite.schema import Activation, TensorType

Range = tuple[float, float]

SAME_SCALE = frozenset({
    "RESHAPE", "TRANSPOSE", "SPLIT", "SPLIT_V", "STRIDED_SLICE", "PAD", "PADV2", "MIRROR_PAD", "MAX_POOL_2D",
    "AVERAGE_POOL_2D", "GATHER", "TILE", "BROADCAST_TO", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "DEPTH_TO_SPACE",
    "SPACE_TO_DEPTH", "CONCATENATION", "MAXIMUM", "MINIMUM", "REDUCE_MAX", "REDUCE_MIN",
})  # fmt: skip
"""Operators whose kernels need inputs and outputs in one scale."""

FIXED_SCALES: Mapping[str, tuple[float, int]] = {
    "LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "TANH": (1 / 128, 0), "LOG_SOFTMAX": (16 / 256, 127),
}  # fmt: skip
"""Output scale and zero point that a kernel insists on."""

FLOAT_ONLY = frozenset({
    "POW", "DIV", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "NEG", "SQRT", "LOCAL_RESPONSE_NORMALIZATION",
    "REDUCE_PROD", "CAST", "SUM",
})  # fmt: skip
"""Operators without an int8 kernel (or, for sums, without one whose result does not overflow its scale)."""

CHANNEL_AXIS: Mapping[str, int] = {
    "CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0,
}  # fmt: skip
"""Operators with weights and a bias: the axis of the output channels in the weight."""

_SMALLEST_SCALE_RATIO = 2.0**-9
"""XNNPACK adds tensors whose scales lie within 2^-10 of the result's; a smaller constant is rounded to this."""


def quantise(model: TfliteModel, ranges: Mapping[str, Range]) -> TfliteModel:
    """Return the int8 form of a float model.

    Args:
        model: As :class:`~latcast.graph.writers.tflite.writer.GraphWriter` wrote it.
        ranges: Lowest and highest value of the graph's tensors; those of tensors in between are worked out.
    """
    return _Quantiser(model, ranges).run()


def affine(low: float, high: float) -> Quantisation:
    """Scale and zero point of an int8 tensor that holds a range, zero exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / 255.0, 1e-9)
    return _single(scale, int(np.clip(np.round(-128 - low / scale), -128, 127)))


def off_centre(given: Quantisation) -> Quantisation:
    """Return a quantisation whose zero point is not 0: the tensor's, or the finest with zero point 1 that holds its range.

    XNNPACK multiplies two activations only where the zero point of the second is 0; LiteRT's own loop, which has all others,
    takes ten to fifty times as long. The second is quantised like any activation, so that its zero point is 0 by chance alone:
    in one product of thirty.
    """
    if given.zero_points[0] != 0:
        return given
    return _single(float(given.scales[0]) * 127 / 126, 1)


def _single(scale: float, zero_point: int) -> Quantisation:
    return Quantisation(np.array([scale], dtype=np.float32), np.array([zero_point], dtype=np.int64))


class _Quantiser:
    def __init__(self, model: TfliteModel, ranges: Mapping[str, Range]) -> None:
        self.model = model
        self.given = ranges
        self.out = TfliteModel(model.name, inputs=model.inputs, outputs=model.outputs)
        self.parent = list(range(len(model.tensors)))
        self.fixed: dict[int, Quantisation] = {}
        self.ranges: dict[int, Range] = {}

    def run(self) -> TfliteModel:
        self._find_ranges()
        self._group()
        groups: dict[int, list[int]] = {}
        for index in self.ranges:
            groups.setdefault(self._root(index), []).append(index)
        scales = {
            root: self.fixed.get(root)
            or affine(min(self.ranges[index][0] for index in members), max(self.ranges[index][1] for index in members))
            for root, members in groups.items()
        }
        for operator in self.model.operators:
            root = self._root(operator.inputs[1]) if operator.builtin == "BATCH_MATMUL" else None
            if root in scales and root not in self.fixed:
                scales[root] = off_centre(scales[root])
        for index, tensor in enumerate(self.model.tensors):
            if self._is_real(index):
                tensor = replace(tensor, type=TensorType.INT8, quantisation=scales[self._root(index)])
            self.out.add_tensor(tensor)
        for operator in self.model.operators:
            self._rewrite(operator)
        return self.out

    def _is_real(self, index: int) -> bool:
        """Return whether a tensor is a float activation."""
        tensor = self.model.tensors[index]
        return tensor.type is TensorType.FLOAT32 and tensor.data is None

    # Ranges

    def _find_ranges(self) -> None:
        for index in self.model.inputs:
            if self._is_real(index):
                self.ranges[index] = self.given[self.model.tensors[index].name]
        for operator in self.model.operators:
            for output in operator.outputs:
                if self._is_real(output):
                    self.ranges[output] = self._range(operator, output)

    def _range(self, operator: TfliteOperator, output: int) -> Range:
        tensor = self.model.tensors[output]
        if operator.builtin == "SUM":
            source = self.model.tensors[operator.inputs[0]]
            count = prod(source.shape) / prod(tensor.shape)
            low, high = self._range_of(operator.inputs[0])
            return low * count, high * count
        return self.given[tensor.name] if tensor.name in self.given else self._between(operator, output)

    def _between(self, operator: TfliteOperator, output: int) -> Range:
        """Return the range of a tensor that the graph does not have, from the operator that makes it."""
        low, high = self._range_of(operator.inputs[0])
        builtin = operator.builtin
        base, _, part = self.model.tensors[output].name.rpartition("/")
        if base in self.given and (builtin == "TRANSPOSE_CONV" or part in ("normalised", "scaled_to_unit")):
            return self.given[base]
        if builtin == "MEAN":
            # Averages of many values, and squares averaged: much narrower than what they average.
            return low / 4, high / 4
        if builtin == "SQUARED_DIFFERENCE":
            return 0.0, max(-low, high) ** 2
        if builtin == "RSQRT":
            # The variance lies about the fifth part of its range; the inverse root reaches four times its typical value.
            return 0.0, 4.0 * (5.0 / max(high, 1e-12)) ** 0.5
        if builtin in ("ADD", "SUB", "MUL"):
            other = self._range_of(operator.inputs[1])
            if builtin == "MUL":
                products = [a * b for a in (low, high) for b in other]
                low, high = min(products), max(products)
            elif builtin == "ADD":
                low, high = low + other[0], high + other[1]
            else:
                low, high = low - other[1], high - other[0]
            bounds = {Activation.RELU: (0.0, np.inf), Activation.RELU6: (0.0, 6.0), Activation.RELU_N1_TO_1: (-1.0, 1.0)}
            least, most = bounds.get(Activation(int(operator.options.get("fused_activation_function", 0))), (-np.inf, np.inf))
            return float(np.clip(low, least, most)), float(np.clip(high, least, most))
        return low, high

    def _range_of(self, index: int) -> Range:
        data = self.model.tensors[index].data
        return self.ranges.get(index, (0.0, 0.0)) if data is None else (float(data.min()), float(data.max()))

    # Tensors that share a scale

    def _root(self, index: int) -> int:
        while self.parent[index] != index:
            self.parent[index] = self.parent[self.parent[index]]
            index = self.parent[index]
        return index

    def _group(self) -> None:
        for operator in self.model.operators:
            if operator.builtin in FIXED_SCALES:
                self.fixed[operator.outputs[0]] = _single(*FIXED_SCALES[operator.builtin])
        for operator in self.model.operators:
            if operator.builtin in SAME_SCALE:
                inputs = [index for index in operator.inputs if self._is_real(index)]
                for index in (*inputs, *operator.outputs[1:]):
                    self._join(operator.outputs[0], index, alone=len(inputs) == 1)

    def _join(self, first: int, second: int, *, alone: bool) -> None:
        """Put two tensors in one group; a fixed scale spreads only along operators with one input."""
        a, b = self._root(first), self._root(second)
        if a == b or (a in self.fixed and b in self.fixed) or (not alone and (a in self.fixed or b in self.fixed)):
            return
        if b in self.fixed:
            a, b = b, a
        self.parent[b] = a

    # Operators

    def _rewrite(self, operator: TfliteOperator) -> None:
        if operator.builtin in FLOAT_ONLY:
            self._in_float(operator)
            return
        inputs = list(operator.inputs)
        if operator.builtin in CHANNEL_AXIS:
            self._quantise_weights(operator)
        else:
            output = self.out.tensors[operator.outputs[0]].quantisation
            for position, index in enumerate(inputs):
                tensor = self.model.tensors[index]
                if tensor.type is TensorType.FLOAT32 and tensor.data is not None:
                    self._quantise_constant(operator, index, output)
                elif operator.builtin in SAME_SCALE and self._is_real(index) and output is not None:
                    inputs[position] = self._rescaled(operator, index, output)
        self.out.operators.append(replace(operator, inputs=tuple(inputs)))

    def _quantise_weights(self, operator: TfliteOperator) -> None:
        source, weight, bias = operator.inputs[:3]
        if operator.builtin == "TRANSPOSE_CONV":
            weight, source, bias = operator.inputs[1:4]
        axis = CHANNEL_AXIS[operator.builtin]
        tensor = self.model.tensors[weight]
        activation = self.out.tensors[source].quantisation
        assert tensor.data is not None
        assert activation is not None
        data, scales = int8_weights(tensor.data, axis)
        self._store(weight, TensorType.INT8, data, Quantisation(scales, np.zeros(len(scales), np.int64), axis))
        addend = self.model.tensors[bias].data
        assert addend is not None
        steps = scales.astype(np.float64) * float(activation.scales[0])
        self._store(bias, TensorType.INT32, int32_bias(addend, steps), Quantisation(steps, np.zeros(len(steps), np.int64), 0))

    def _quantise_constant(self, operator: TfliteOperator, index: int, output: Quantisation | None) -> None:
        tensor = self.model.tensors[index]
        assert tensor.data is not None
        if operator.builtin in SAME_SCALE and output is not None:
            quantisation = output
        elif output is not None and tensor.name.endswith("/epsilon"):
            # At least one step of the variance's scale: the inverse root must never see zero.
            quantisation = _single(float(output.scales[0]), 0)
            self._store(index, TensorType.INT8, np.ones_like(tensor.data, dtype=np.int8), quantisation)
            return
        else:
            quantisation = affine(float(tensor.data.min()), float(tensor.data.max()))
            if operator.builtin in ("ADD", "SUB") and output is not None:
                smallest = float(output.scales[0]) * _SMALLEST_SCALE_RATIO
                if quantisation.scales[0] < smallest:
                    quantisation = _single(smallest, 0)
            elif operator.builtin == "BATCH_MATMUL" and index == operator.inputs[1]:
                quantisation = off_centre(quantisation)
        # In float64: the padding of a maximum is the lowest float, and saturates.
        levels = np.round(tensor.data.astype(np.float64) / quantisation.scales[0]) + quantisation.zero_points[0]
        self._store(index, TensorType.INT8, np.clip(levels, -128, 127).astype(np.int8), quantisation)

    def _store(self, index: int, kind: TensorType, data: np.ndarray, quantisation: Quantisation) -> None:
        self.out.tensors[index] = replace(self.out.tensors[index], type=kind, data=data, quantisation=quantisation)

    def _rescaled(self, operator: TfliteOperator, index: int, output: Quantisation) -> int:
        """Return the input in the output's scale, by a QUANTIZE where it has another."""
        tensor = self.out.tensors[index]
        if tensor.quantisation is output:
            return index
        made = self.out.add_tensor(TfliteTensor(f"{tensor.name}/rescaled{len(self.out.tensors)}", tensor.shape,
                                                TensorType.INT8, None, output))  # fmt: skip
        self.out.operators.append(TfliteOperator("QUANTIZE", (index,), (made,), {}, operator.nodes))
        return made

    def _in_float(self, operator: TfliteOperator) -> None:
        inputs, outputs = list(operator.inputs), list(operator.outputs)
        for position, index in enumerate(inputs):
            if self._is_real(index):
                tensor = self.out.tensors[index]
                inputs[position] = self.out.add_tensor(TfliteTensor(f"{tensor.name}/real{len(self.out.tensors)}", tensor.shape))
                self.out.operators.append(TfliteOperator("DEQUANTIZE", (index,), (inputs[position],), {}, operator.nodes))
        real = [self._is_real(index) for index in outputs]
        for position, index in enumerate(outputs):
            if real[position]:
                tensor = self.out.tensors[index]
                outputs[position] = self.out.add_tensor(TfliteTensor(f"{tensor.name}/real", tensor.shape))
        self.out.operators.append(replace(operator, inputs=tuple(inputs), outputs=tuple(outputs)))
        for position, index in enumerate(operator.outputs):
            if real[position]:
                self.out.operators.append(TfliteOperator("QUANTIZE", (outputs[position],), (index,), {}, operator.nodes))
