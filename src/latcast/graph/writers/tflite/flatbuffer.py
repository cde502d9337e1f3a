"""A TFLite model in memory, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.importers.tflite_file import bindings
from latcast.graph.ir import Shape
from latcast.graph.writers.tflite.schema import BUILTINS, TensorType

if TYPE_CHECKING:
    from flatbuffers import Builder
    from numpy.typing import ArrayLike

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
    """A model of one subgraph, filled operator by operator in execution order."""

    name: str
    tensors: list[TfliteTensor] = field(default_factory=list)
    operators: list[TfliteOperator] = field(default_factory=list)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    def add_tensor(self, tensor: TfliteTensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def serialise(model: TfliteModel) -> bytes:
    """Return the model's ``.tflite`` file, written by the schema's bindings."""
    import flatbuffers

    data_bytes = sum(tensor.data.nbytes + _BUFFER_ALIGNMENT_BYTES for tensor in model.tensors if tensor.data is not None)
    builder = flatbuffers.Builder(data_bytes + 512 * (len(model.tensors) + len(model.operators)) + 4096)

    buffers = [_table(builder, "Buffer")]  # the first one is empty: tensors that are computed refer to it
    buffer_of: list[int] = []
    for tensor in model.tensors:
        buffer_of.append(0 if tensor.data is None else len(buffers))
        if tensor.data is not None:
            buffers.append(_table(builder, "Buffer", Data=_data(builder, tensor.data)))
    codes = sorted({(operator.builtin, _version(model, operator)) for operator in model.operators})
    tensors = [_tensor(builder, tensor, buffer) for tensor, buffer in zip(model.tensors, buffer_of, strict=True)]
    operators = [
        _operator(builder, operator, codes.index((operator.builtin, _version(model, operator)))) for operator in model.operators
    ]
    subgraph = _table(
        builder,
        "SubGraph",
        Tensors=_offsets(builder, tensors),
        Inputs=_numbers(builder, model.inputs),
        Outputs=_numbers(builder, model.outputs),
        Operators=_offsets(builder, operators),
        Name=builder.CreateString(model.name),
    )
    root = _table(
        builder,
        "Model",
        Version=3,
        OperatorCodes=_offsets(builder, [_operator_code(builder, *code) for code in codes]),
        Subgraphs=_offsets(builder, [subgraph]),
        Description=builder.CreateString("latcast"),
        Buffers=_offsets(builder, buffers),
    )
    builder.Finish(root, file_identifier=b"TFL3")
    return bytes(memoryview(builder.Bytes)[builder.Head() :])


def _version(model: TfliteModel, operator: TfliteOperator) -> int:
    builtin = BUILTINS[operator.builtin]
    if operator.builtin == "TRANSPOSE_CONV" and operator.options.get("fused_activation_function"):
        # Versions before this one would leave the activation out without a word.
        return 4
    touched = (model.tensors[index].type for index in (*operator.inputs, *operator.outputs) if index >= 0)
    return builtin.int8_version if TensorType.INT8 in touched else builtin.version


def _table(builder: Builder, name: str, **fields: float) -> int:
    """Write a table of the schema; a field that is itself a table, text or vector is given by its offset."""
    schema = bindings()
    getattr(schema, f"{name}Start")(builder)
    for field_name, value in fields.items():
        getattr(schema, f"{name}Add{field_name}")(builder, value)
    return int(getattr(schema, f"{name}End")(builder))


def _offsets(builder: Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _numbers(builder: Builder, numbers: ArrayLike, kind: type[np.generic] = np.int32) -> int:
    return int(builder.CreateNumpyVector(np.asarray(numbers, dtype=kind)))


def _data(builder: Builder, data: np.ndarray) -> int:
    # The schema asks for aligned data; kernels read weights in place. Written without the copies of CreateByteVector.
    builder.StartVector(1, data.nbytes, _BUFFER_ALIGNMENT_BYTES)
    builder.head = builder.Head() - data.nbytes
    if data.nbytes:
        memoryview(builder.Bytes)[builder.head : builder.head + data.nbytes] = data.reshape(-1).view(np.uint8).data
    return int(builder.EndVector())


def _tensor(builder: Builder, tensor: TfliteTensor, buffer: int) -> int:
    fields = dict(
        Shape=_numbers(builder, tensor.shape), Type=int(tensor.type), Buffer=buffer, Name=builder.CreateString(tensor.name)
    )
    if tensor.quantisation is not None:
        fields["Quantization"] = _table(
            builder,
            "QuantizationParameters",
            Scale=_numbers(builder, tensor.quantisation.scales, np.float32),
            ZeroPoint=_numbers(builder, tensor.quantisation.zero_points, np.int64),
            QuantizedDimension=tensor.quantisation.axis,
        )
    # Without HasRank, a scalar reads as a tensor of unknown rank.
    return _table(builder, "Tensor", **fields, HasRank=True)


def _operator(builder: Builder, operator: TfliteOperator, code: int) -> int:
    fields = dict(OpcodeIndex=code, Inputs=_numbers(builder, operator.inputs), Outputs=_numbers(builder, operator.outputs))
    options = BUILTINS[operator.builtin].options
    if options:
        fields["BuiltinOptionsType"] = getattr(bindings().BuiltinOptions, options)
        named = {"".join(word.capitalize() for word in name.split("_")): value for name, value in operator.options.items()}
        fields["BuiltinOptions"] = _table(builder, options, **named)
    return _table(builder, "Operator", **fields)


def _operator_code(builder: Builder, builtin: str, version: int) -> int:
    code = getattr(bindings().BuiltinOperator, builtin)
    # Readers older than the 32-bit field look at the deprecated one, where 127 sends newer ones to the other.
    return _table(builder, "OperatorCode", DeprecatedBuiltinCode=min(code, 127), Version=version, BuiltinCode=code)
