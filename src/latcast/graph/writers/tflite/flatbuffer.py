"""A TFLite model in memory, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.graph.ir import Shape
from latcast.graph.writers.tflite.schema import BUILTINS, OPTIONS, TensorType

if TYPE_CHECKING:
    from flatbuffers import Builder

_BUFFER_ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class Quantisation:
    """Affine quantisation: real = scale (q - zero point), one pair for the tensor or one per slice of ``axis``."""

    scales: np.ndarray
    zero_points: np.ndarray
    axis: int = 0


@dataclass(frozen=True)
class TfliteTensor:
    """A tensor as the file holds it: physical shape; ``data`` for constants alone."""

    name: str
    shape: Shape
    type: TensorType = TensorType.FLOAT32
    data: np.ndarray | None = None
    quantisation: Quantisation | None = None


@dataclass(frozen=True)
class TfliteOperator:
    """A builtin operator on tensor indices (-1: left out).

    Attributes:
        nodes: Names of the graph's nodes that it computes, in the graph's order; none for a change of layout.
        activation_node: The one among them that it carries as its fused activation.
    """

    builtin: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, float] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    activation_node: str = ""


@dataclass
class TfliteModel:
    """One subgraph, filled operator by operator in execution order."""

    name: str
    tensors: list[TfliteTensor] = field(default_factory=list)
    operators: list[TfliteOperator] = field(default_factory=list)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    def add_tensor(self, tensor: TfliteTensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def serialise(model: TfliteModel) -> bytes:
    """The model's ``.tflite`` file."""
    import flatbuffers

    data_bytes = sum(tensor.data.nbytes + _BUFFER_ALIGNMENT_BYTES for tensor in model.tensors if tensor.data is not None)
    builder = flatbuffers.Builder(data_bytes + 512 * (len(model.tensors) + len(model.operators)) + 4096)

    buffers = [_end(builder, 0)]
    buffer_of: list[int] = []
    for tensor in model.tensors:
        buffer_of.append(0 if tensor.data is None else len(buffers))
        if tensor.data is not None:
            buffers.append(_buffer(builder, tensor.data))
    codes = sorted({(operator.builtin, _version(model, operator)) for operator in model.operators})
    tensors = [_tensor(builder, tensor, buffer) for tensor, buffer in zip(model.tensors, buffer_of, strict=True)]
    operators = [
        _operator(builder, operator, codes.index((operator.builtin, _version(model, operator)))) for operator in model.operators
    ]
    subgraph = _subgraph(builder, model, tensors, operators)
    operator_codes = _tables(builder, [_operator_code(builder, *code) for code in codes])
    subgraphs = _tables(builder, [subgraph])
    description = builder.CreateString("latcast")
    buffer_vector = _tables(builder, buffers)
    builder.StartObject(5)
    builder.PrependUint32Slot(0, 3, 0)
    for slot, offset in ((1, operator_codes), (2, subgraphs), (3, description), (4, buffer_vector)):
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"TFL3")
    return bytes(memoryview(builder.Bytes)[builder.Head() :])


def _version(model: TfliteModel, operator: TfliteOperator) -> int:
    builtin = BUILTINS[operator.builtin]
    if operator.builtin == "TRANSPOSE_CONV" and operator.options.get("fused_activation_function"):
        # Versions before this one would leave the activation out without a word.
        return 4
    touched = (model.tensors[index].type for index in (*operator.inputs, *operator.outputs) if index >= 0)
    return builtin.int8_version if TensorType.INT8 in touched else builtin.version


def _end(builder: Builder, slots: int) -> int:
    """An empty table."""
    builder.StartObject(slots)
    return int(builder.EndObject())


def _tables(builder: Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _buffer(builder: Builder, data: np.ndarray) -> int:
    # The schema asks for aligned data; kernels read weights in place. Written without the copies of CreateByteVector.
    builder.StartVector(1, data.nbytes, _BUFFER_ALIGNMENT_BYTES)
    builder.head = builder.Head() - data.nbytes
    if data.nbytes:
        memoryview(builder.Bytes)[builder.head : builder.head + data.nbytes] = data.reshape(-1).view(np.uint8).data
    offset = builder.EndVector()
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(0, offset, 0)
    return int(builder.EndObject())


def _tensor(builder: Builder, tensor: TfliteTensor, buffer: int) -> int:
    shape = builder.CreateNumpyVector(np.asarray(tensor.shape, dtype=np.int32))
    name = builder.CreateString(tensor.name)
    quantisation = 0
    if tensor.quantisation is not None:
        scales = builder.CreateNumpyVector(np.asarray(tensor.quantisation.scales, dtype=np.float32))
        zero_points = builder.CreateNumpyVector(np.asarray(tensor.quantisation.zero_points, dtype=np.int64))
        builder.StartObject(7)
        builder.PrependUOffsetTRelativeSlot(2, scales, 0)
        builder.PrependUOffsetTRelativeSlot(3, zero_points, 0)
        builder.PrependInt32Slot(6, tensor.quantisation.axis, 0)
        quantisation = builder.EndObject()
    builder.StartObject(9)
    builder.PrependUOffsetTRelativeSlot(0, shape, 0)
    builder.PrependInt8Slot(1, int(tensor.type), 0)
    builder.PrependUint32Slot(2, buffer, 0)
    builder.PrependUOffsetTRelativeSlot(3, name, 0)
    if quantisation:
        builder.PrependUOffsetTRelativeSlot(4, quantisation, 0)
    # Without this, a scalar reads as a tensor of unknown rank.
    builder.PrependBoolSlot(8, True, False)
    return int(builder.EndObject())


def _operator(builder: Builder, operator: TfliteOperator, code: int) -> int:
    inputs = builder.CreateNumpyVector(np.asarray(operator.inputs, dtype=np.int32))
    outputs = builder.CreateNumpyVector(np.asarray(operator.outputs, dtype=np.int32))
    name = BUILTINS[operator.builtin].options
    options = 0
    if name is not None:
        options = _options(builder, operator)
    builder.StartObject(5)
    builder.PrependUint32Slot(0, code, 0)
    builder.PrependUOffsetTRelativeSlot(1, inputs, 0)
    builder.PrependUOffsetTRelativeSlot(2, outputs, 0)
    if name is not None:
        builder.PrependUint8Slot(3, OPTIONS[name].code, 0)
        builder.PrependUOffsetTRelativeSlot(4, options, 0)
    return int(builder.EndObject())


def _options(builder: Builder, operator: TfliteOperator) -> int:
    fields = OPTIONS[str(BUILTINS[operator.builtin].options)].fields
    builder.StartObject(max((field.slot for field in fields.values()), default=-1) + 1)
    for name, value in operator.options.items():
        field = fields[name]
        number: Any = {"Bool": bool, "Float32": float}.get(field.kind, int)(value)
        default: Any = {"Bool": bool, "Float32": float}.get(field.kind, int)(field.default)
        getattr(builder, f"Prepend{field.kind}Slot")(field.slot, number, default)
    return int(builder.EndObject())


def _operator_code(builder: Builder, builtin: str, version: int) -> int:
    code = BUILTINS[builtin].code
    builder.StartObject(4)
    # Readers older than the 32-bit field look at the first slot; 127 sends newer ones to the last.
    builder.PrependInt8Slot(0, min(code, 127), 0)
    builder.PrependInt32Slot(2, version, 1)
    builder.PrependInt32Slot(3, code, 0)
    return int(builder.EndObject())


def _subgraph(builder: Builder, model: TfliteModel, tensors: Sequence[int], operators: Sequence[int]) -> int:
    tensor_vector = _tables(builder, tensors)
    inputs = builder.CreateNumpyVector(np.asarray(model.inputs, dtype=np.int32))
    outputs = builder.CreateNumpyVector(np.asarray(model.outputs, dtype=np.int32))
    operator_vector = _tables(builder, operators)
    name = builder.CreateString(model.name)
    builder.StartObject(5)
    for slot, offset in enumerate((tensor_vector, inputs, outputs, operator_vector, name)):
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    return int(builder.EndObject())
