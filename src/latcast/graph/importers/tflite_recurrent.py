"""TFLite's recurrent layers as ONNX's.

Their states start with what the inference before left and are updated in place: they are no inputs of the network. What TFLite
has beyond ONNX (coupled gates, projections, peepholes) keeps its sizes, so that its multiply-accumulates are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from latcast.graph.importers.tflite_conversion import DOMAIN, Attributes, Conversion
from latcast.graph.ir import Node, Tensor

Convert = Callable[[Conversion], Any]

_BASIC = 1
"""``BASIC`` of the schema's ``LSTMKernelType``."""


def _layer(c: Conversion, x: str, weights: Sequence[int], recurrent: Sequence[int], bias: int, *, backwards: bool = False) -> str:
    """Add a layer in one direction and return the output of all steps, (steps, batch, hidden).

    Args:
        c: The operator.
        x: Input, (steps, batch, features).
        weights, recurrent: Places of the matrices of its gates, (hidden, features) and (hidden, output); coupled gates lack one.
        bias: Place of the last gate's bias.
        backwards: Whether it goes through the steps from the last one.
    """
    gates = sum(c.has(place) for place in weights)
    hidden, features, width = c.shape(weights[-1])[0], c.assembly.tensor(x).shape[-1], c.shape(recurrent[-1])[1]
    inputs = [x, *_matrices(c, c.assembly.tensor(c.input(weights[-1])).dtype, gates * hidden, (features, width), c.has(bias))]
    attributes: Attributes = {"hidden_size": hidden, "direction": "reverse" if backwards else "forward"}
    if gates == 3:
        attributes["input_forget"] = 1
    output = c.op("LSTM" if len(weights) > 1 else "RNN", inputs, attributes)
    return c.op("Squeeze", [output, c.constant([1])])


def _matrices(c: Conversion, dtype: str, rows: int, columns: Sequence[int], has_bias: bool) -> list[str]:
    """Add ONNX's weights: one matrix of all gates for the input, one for the recurrence, and their biases."""
    names = []
    for label, shape in zip("WRB", (*((1, rows, width) for width in columns), (1, 2 * rows)), strict=True):
        if label != "B" or has_bias:
            names.append(c.assembly.fresh(f"{c.outputs[0]}_{label}"))
            c.assembly.add_static(names[-1], Tensor(shape, dtype if label != "B" else "float32"))
    return names


def _steps_first(c: Conversion, is_time_major: object, position: int = 0) -> str:
    return c.input(position) if is_time_major else c.view(c.input(position), (1, 0, 2))


def _give(c: Conversion, x: str, is_time_major: object, output: int = 0) -> None:
    if is_time_major:
        c.assembly.alias(c.outputs[output], x)
    else:
        c.view(x, (1, 0, 2), c.outputs[output])


def _projected(c: Conversion, x: str, weight: int, bias: int) -> str:
    """Return a layer's output behind its projection, where it has one."""
    if not c.has(weight):
        return x
    x = c.op("MatMul", [x, c.weight(weight, (1, 0))])
    return c.op("Add", [x, c.input(bias)]) if c.has(bias) else x


def _sequence_lstm(c: Conversion) -> None:
    major = c.options("UnidirectionalSequenceLSTMOptions").TimeMajor()
    x = _layer(c, _steps_first(c, major), range(1, 5), range(5, 9), 15)
    _give(c, _projected(c, x, 16, 17), major)


def _lstm(c: Conversion) -> None:
    """Add one step."""
    if c.options("LSTMOptions").KernelType() == _BASIC:
        _basic_lstm(c)
        return
    x = _layer(c, c.op("Unsqueeze", [c.input(0), c.constant([0])]), range(1, 5), range(5, 9), 15)
    *scratch, output = c.outputs
    c.op("Squeeze", [_projected(c, x, 16, 17), c.constant([0])], output=output)
    for place, name in enumerate(scratch):
        c.assembly.add_static(name, c.stated(place))


def _basic_lstm(c: Conversion) -> None:
    """Add one step whose gates are one matrix.

    Inputs: x, the output before, weights (4 hidden, features + hidden), bias, the state before. Outputs: output, state, scratch.
    """
    axis = c.constant([0])
    x, output, state = (c.op("Unsqueeze", [c.input(place), axis]) for place in (0, 1, 4))
    rows, columns = c.shape(2)
    features, hidden = c.shape()[1], rows // 4
    matrices = _matrices(c, c.assembly.tensor(c.input(2)).dtype, rows, (features, columns - features), c.has(3))
    given = [c.assembly.fresh(f"{c.outputs[0]}_{label}") for label in ("all", "last", "state")]
    if not c.has(3):
        matrices.append("")
    c.many("LSTM", [x, *matrices, "", output, state], {"hidden_size": hidden}, given)
    for name, result in zip(given[1:], c.outputs, strict=False):
        c.op("Squeeze", [name, axis], output=result)
    for place, name in enumerate(c.outputs[2:], start=2):
        c.assembly.add_static(name, c.stated(place))


def _rnn(c: Conversion) -> None:
    x = c.op("Unsqueeze", [c.input(0), c.constant([0])])
    c.op("Squeeze", [_layer(c, x, [1], [2], 3), c.constant([0])], output=c.outputs[0])


def _sequence_rnn(c: Conversion) -> None:
    major = c.options("SequenceRNNOptions").TimeMajor()
    _give(c, _layer(c, _steps_first(c, major), [1], [2], 3), major)


def _both(c: Conversion, forward: str, backward: str, options: Any) -> None:
    """Give the outputs of both directions, as one tensor or as two."""
    if options.MergeOutputs():
        _give(c, c.op("Concat", [forward, backward], {"axis": 2}), options.TimeMajor())
        return
    _give(c, forward, options.TimeMajor(), 0)
    _give(c, backward, options.TimeMajor(), 1)


def _read_by_both(c: Conversion, is_time_major: object, auxiliary: int, weights: Sequence[int]) -> list[str]:
    """Return what the layers of both directions read.

    A second input is read beside the first where it has weights, and by the backward layer instead where it has none.
    """
    first = _steps_first(c, is_time_major)
    if not c.has(auxiliary):
        return [first, first]
    second = _steps_first(c, is_time_major, auxiliary)
    if not any(c.has(place) for place in weights):
        return [first, second]
    both = c.op("Concat", [first, second], {"axis": 2})
    return [both, both]


def _bidirectional_lstm(c: Conversion) -> None:
    options = c.options("BidirectionalSequenceLSTMOptions")
    first, second = _read_by_both(c, options.TimeMajor(), 39, range(40, 48))
    forward = _layer(c, first, range(1, 5), range(5, 9), 15)
    backward = _layer(c, second, range(18, 22), range(22, 26), 32, backwards=True)
    _both(c, _projected(c, forward, 16, 17), _projected(c, backward, 33, 34), options)


def _bidirectional_rnn(c: Conversion) -> None:
    options = c.options("BidirectionalSequenceRNNOptions")
    first, second = _read_by_both(c, options.TimeMajor(), 9, (10, 11))
    _both(c, _layer(c, first, [1], [2], 3), _layer(c, second, [5], [6], 7, backwards=True), options)


def _svdf(c: Conversion) -> None:
    """Add the filter of a stream: one product with the frame, one with the memory of each filter.

    Inputs: frame (batch, features), filters of features (filters, features) and of time (filters, memory), bias, state.
    """
    options = c.options("SVDFOptions")
    filters, memory = c.shape(2)
    batch, units = c.shape()[0], filters // max(options.Rank(), 1)
    frame = c.op("Gemm", [c.input(0), c.input(1)], {"transB": 1})
    state = c.assembly.fresh(f"{c.outputs[0]}_state")
    c.reading.stated[state] = Tensor((batch, filters, memory), c.assembly.tensor(frame).dtype)
    c.assembly.add(Node(c.operator.kind, c.name, (frame,), (state,), {}, DOMAIN))
    x = c.op("Einsum", [state, c.input(2)], {"equation": "bfm,fm->bf"})
    x = c.op("ReduceSum", [c.reshape(x, (batch, units, -1)), c.constant([2])], {"keepdims": 0})
    activation = options.FusedActivationFunction()
    c.result("Add" if c.has(3) else "Identity", [x, *([c.input(3)] if c.has(3) else [])], activation=activation)


RECURRENT: Mapping[str, Convert] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": _bidirectional_lstm,
    "BIDIRECTIONAL_SEQUENCE_RNN": _bidirectional_rnn,
    "LSTM": _lstm,
    "RNN": _rnn,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _sequence_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _sequence_rnn,
}
"""Builtin operators by their name in the schema; their states may be left out."""
