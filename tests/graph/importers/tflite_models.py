"""TFLite models written by hand with the schema's object classes, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

Array = np.ndarray[Any, Any]
TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "string": 5, "bool": 6, "complex64": 8, "int8": 9,
    "resource": 13, "variant": 14,
}  # fmt: skip


@dataclass(frozen=True)
class Quantized:
    """A tensor of 8 bits (or its bias), with values where it is a weight."""

    shape: Sequence[int]
    dtype: str = "int8"
    scale: Sequence[float] = (0.5,)
    zero_point: Sequence[int] = (0,)
    values: Array | None = None


@dataclass(frozen=True)
class Dynamic:
    """A tensor of real numbers whose first axis may be resized, or those that are negative in its signature."""

    shape: Sequence[int]
    signature: Sequence[int] = ()


@dataclass(frozen=True)
class State:
    """A tensor that keeps its values from one inference to the next."""

    shape: Sequence[int]


@dataclass(frozen=True)
class Typed:
    """A computed tensor of another type than float32."""

    shape: Sequence[int]
    dtype: str


Given = Sequence[int] | Array | Quantized | Dynamic | State | Typed
Operation = tuple[str, Sequence[str], Sequence[str], Any]
Network = tuple[Sequence[Operation], Mapping[str, Given], Sequence[str], Sequence[str]]
"""A subgraph: its operations, tensors, inputs and outputs, as of :func:`model`."""


def options(kind: str, **values: Any) -> Any:
    """An option table: ``options("Conv2D", strideH=2)``."""
    table = getattr(schema, f"{kind}OptionsT")()
    for name, value in values.items():
        assert hasattr(table, name), name
        setattr(table, name, value)
    return table


def model(
    operations: Sequence[Operation],
    tensors: Mapping[str, Given],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *more: Network,
    signatures: Mapping[str, int] | None = None,
) -> bytes:
    """The bytes of a model.

    Args:
        operations: Builtin name (or "custom:NAME"), inputs ("" is left out), outputs, options.
        tensors: By name: the shape of a computed tensor of float32, values of a constant, or one of the classes above.
        inputs: Of the model.
        outputs: Of the model.
        more: Further subgraphs: number 1, 2 and so on.
        signatures: Name of each to the number of its subgraph.
    """
    whole = schema.ModelT()
    whole.version, whole.description = 3, b"test"
    whole.operatorCodes, whole.buffers = [], [schema.BufferT()]
    whole.subgraphs = [_subgraph(network, whole) for network in ((operations, tensors, inputs, outputs), *more)]
    if signatures:
        whole.signatureDefs = [_signature(name, whole.subgraphs[place], place) for name, place in signatures.items()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _signature(name: str, graph: Any, place: int) -> Any:
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = name.encode(), place
    signature.inputs, signature.outputs = [], []
    for maps, indices in ((signature.inputs, graph.inputs), (signature.outputs, graph.outputs)):
        for index in indices:
            named = schema.TensorMapT()
            named.name, named.tensorIndex = graph.tensors[index].name, index
            maps.append(named)
    return signature


def _subgraph(network: Network, whole: Any) -> Any:
    operations, tensors, inputs, outputs = network
    graph = schema.SubGraphT()
    index = {name: place for place, name in enumerate(tensors)}
    graph.tensors = [_tensor(name, given, whole.buffers) for name, given in tensors.items()]
    graph.inputs = [index[name] for name in inputs]
    graph.outputs = [index[name] for name in outputs]
    graph.operators = []
    for kind, reads, writes, table in operations:
        operator, code = schema.OperatorT(), schema.OperatorCodeT()
        if kind.startswith("custom:"):
            code.builtinCode = schema.BuiltinOperator.CUSTOM
            code.customCode = kind.removeprefix("custom:").encode()
        else:
            code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = 2 if kind == "BROADCAST_TO" else 1
        operator.opcodeIndex = len(whole.operatorCodes)
        operator.inputs = [index[name] if name else -1 for name in reads]
        operator.outputs = [index[name] for name in writes]
        if table is not None:
            name = type(table).__name__.removesuffix("T")
            if hasattr(schema.BuiltinOptions, name):
                operator.builtinOptions, operator.builtinOptionsType = table, getattr(schema.BuiltinOptions, name)
            else:
                operator.builtinOptions2, operator.builtinOptions2Type = table, getattr(schema.BuiltinOptions2, name)
        whole.operatorCodes.append(code)
        graph.operators.append(operator)
    return graph


def _tensor(name: str, given: Given, buffers: list[Any]) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.buffer, tensor.type = name.encode(), 0, TYPES["float32"]
    values: Array | None = None
    if isinstance(given, Quantized):
        tensor.shape, tensor.type, values = list(given.shape), TYPES[given.dtype], given.values
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = list(given.scale)
        tensor.quantization.zeroPoint = list(given.zero_point)
    elif isinstance(given, Dynamic):
        tensor.shape, tensor.shapeSignature = list(given.shape), list(given.signature) or [-1, *given.shape[1:]]
    elif isinstance(given, State):
        tensor.shape, tensor.isVariable = list(given.shape), True
    elif isinstance(given, Typed):
        tensor.shape, tensor.type = list(given.shape), TYPES[given.dtype]
    elif isinstance(given, np.ndarray):
        tensor.shape, tensor.type, values = list(given.shape), TYPES[str(given.dtype)], given
    else:
        tensor.shape = list(given)
    if values is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        tensor.buffer = len(buffers)
        buffers.append(buffer)
    return tensor


def ints(*numbers: int) -> Array:
    return np.asarray(numbers, dtype=np.int32)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, dtype=np.float32)


def save(content: bytes, folder: Path, name: str = "model.tflite") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def run(content: bytes, feeds: Sequence[Array]) -> list[Array]:
    """What LiteRT computes, with its reference kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    interpreter.allocate_tensors()
    for detail, values in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(detail["index"], values)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]
