"""Reading an ONNX file without its weights.

Latency depends on shapes, so the weights, nearly all of a file, are never looked at: the protobuf encoding is walked over
the memory-mapped file and large tensors lose their data before the rest is parsed. Time does not grow with the weights: of a
500 MB file only the pages with names and shapes are touched.

Encoding: https://protobuf.dev/programming-guides/encoding; field numbers: ``onnx.proto``.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from math import ceil, prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import numpy_helper

from latcast.errors import ModelError
from latcast.graph.importers.assembly import shortest
from latcast.graph.ir import DTYPE_BYTES, AttributeValue, Node, Tensor
from latcast.graph.limits import Budget, Resource
from latcast.graph.operators.elementwise import CAST_TYPES
from latcast.reading import other_content

KEPT_TENSOR_BYTES = 16384
"""Tensors that take more bytes in the file lose their data."""

MOST_FIELDS = 1 << 20
"""Most fields of a file, at every depth: a message of 2 bytes takes up to 175 in memory; 1,000 nodes have 16,000 fields."""

_NUMBERS_OF_A_FIELD = 8
"""Numbers one by one, as attributes list them, that count as one field: a forest has eight for every node of a tree."""

_NUMBERS_BYTES, _TENSOR_NUMBERS_BYTES = 16, 64
"""Bytes of a list of numbers that count as one more field; numbers in tensors never become Python objects."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_MODEL_GRAPH = 7
_GRAPH_VALUE_INFO = 13

_LEFT_OUT: Mapping[str, Mapping[int, tuple[str, int]]] = {
    "graph": {1: ("node", -1), 5: ("tensor", KEPT_TENSOR_BYTES), _GRAPH_VALUE_INFO: ("", -1), 14: ("", -1)},
    "node": {5: ("attribute", KEPT_TENSOR_BYTES), 9: ("", -1)},
    "attribute": {5: ("tensor", KEPT_TENSOR_BYTES)},
}
"""Fields that are rewritten, by message and number: the message in them (without one they go: recorded shapes, annotations,
metadata of nodes) and the most bytes up to which they stay."""

_TENSOR_KEPT = frozenset({1, 2, 8, 13, 14})
"""Fields of a tensor but for its values: dims, data_type, name, external_data, data_location."""

Buffer = mmap.mmap | bytes
Field = tuple[int, int, int, int]
"""Number, where the field begins (its tag), where its content begins, where it ends."""


def _varint(buffer: Buffer, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _fields(buffer: Buffer, at: int, end: int) -> Iterator[Field]:
    while at < end:
        start = at
        key = buffer[at]
        at += 1
        if key >= 0x80:
            key, at = _varint(buffer, start)
        kind = key & 7
        if kind == _BYTES:
            size = buffer[at]
            at += 1
            if size >= 0x80:
                size, at = _varint(buffer, at - 1)
        elif kind == _VARINT:
            _, after = _varint(buffer, at)
            size = after - at
        elif kind == _FIXED32:
            size = 4
        elif kind == _FIXED64:
            size = 8
        else:
            raise ValueError(f"field {key >> 3} has the unknown wire type {kind}")
        if at + size > end:
            raise EOFError(f"it ends {at + size - end} bytes too early")
        yield key >> 3, start, at, at + size
        at += size


def _message(number: int, body: bytes) -> bytes:
    """Return a length-delimited field."""
    size, encoded = len(body), bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes((number << 3 | _BYTES,)) + bytes(encoded) + body


def _stripped(buffer: Buffer, at: int, end: int, message: str, budget: Budget) -> bytes | None:
    """Return a message of the file without the fields of :data:`_LEFT_OUT`; None where it has none of them."""
    if message == "tensor":
        return b"".join(buffer[start:stop] for number, start, _, stop in _fields(buffer, at, end) if number in _TENSOR_KEPT)
    left_out = _LEFT_OUT[message]
    parts: list[bytes] = []
    copied = at
    for number, start, body, stop in _fields(buffer, at, end):
        if number not in left_out:
            continue
        inner, kept_bytes = left_out[number]
        if stop - body <= kept_bytes:
            continue
        replacement: bytes | None = b""
        if inner == "node":
            budget.take(Resource.NODES)
            replacement = _stripped(buffer[body:stop], 0, stop - body, inner, budget)
        elif inner:
            replacement = _stripped(buffer, body, stop, inner, budget)
        if replacement is None:
            continue
        parts += (buffer[copied:start], _message(number, replacement) if inner else b"")
        copied = stop
    return b"".join((*parts, buffer[copied:end])) if parts else None


@cache
def _counted(message: Any) -> Mapping[int, Any]:
    """Return, by number, the message type that a field holds, or the bytes that count as one more field."""
    found: dict[int, Any] = {}
    for each in message.fields:
        if each.message_type is not None:
            found[each.number] = each.message_type
        elif each.cpp_type == each.CPPTYPE_STRING:  # texts and raw data
            continue
        elif message.name != "TensorProto":
            found[each.number] = _NUMBERS_BYTES
        elif each.cpp_type not in (each.CPPTYPE_FLOAT, each.CPPTYPE_DOUBLE):  # which take no more than in the file
            found[each.number] = _TENSOR_NUMBERS_BYTES
    return found


def _check_fields(buffer: Buffer) -> None:
    """Refuse what would become too many objects, before the first of them is made; raw data is skipped by its length."""
    if len(buffer) <= 2 * MOST_FIELDS:  # of which each takes two bytes at least
        return
    count = numbers = 0
    waiting = [(onnx.ModelProto.DESCRIPTOR, 0, len(buffer))]
    while waiting:
        message, at, end = waiting.pop()
        inner = _counted(message)
        for number, start, body, stop in _fields(buffer, at, end):
            found = inner.get(number)
            if buffer[start] & 7 != _BYTES:
                listed = isinstance(found, int)
                numbers += listed
                count += not listed or numbers % _NUMBERS_OF_A_FIELD == 0
                found = None
            else:
                count += 1
            if isinstance(found, int):
                count += (stop - body) // found
            elif found is not None:
                waiting.append((found, body, stop))
            if count > MOST_FIELDS:
                raise ModelError(
                    f"it holds more than {MOST_FIELDS:,} fields of protobuf, more than any network; export a part of the "
                    "network, and do not use a file from an unknown source"
                )


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map a file into memory; errors in it are raised as a :class:`ModelError` that names it."""
    try:
        with path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from error
    except ValueError as error:  # mmap refuses a file of no bytes
        raise ModelError(f"'{path}' is empty; expected an ONNX model") from error
    with buffer:
        try:
            yield buffer
        except ModelError as error:
            raise ModelError(f"'{path}': {error}") from error
        except (EOFError, IndexError) as error:
            # A model begins with its version, a small number in field 1.
            if buffer[0] == 1 << 3 | _VARINT and len(buffer) > 1 and buffer[1] < 64:
                raise ModelError(f"'{path}' is truncated: {error}; copy or download it again") from error
            raise ModelError(f"'{path}' {other_content(buffer[:80], 'an ONNX model')}") from error
        except (DecodeError, UnicodeDecodeError, ValueError) as error:
            raise ModelError(f"'{path}' {other_content(buffer[:80], 'an ONNX model')}") from error


def read_without_weights(path: Path) -> onnx.ModelProto:
    """Return the model of a file without the data of large tensors, node metadata and recorded intermediate shapes.

    Raises:
        ModelError: The file cannot be read, is empty, truncated, of too many nodes or fields, or no ONNX model.
    """
    with _mapped(path) as buffer:
        _check_fields(buffer)
        model, budget = onnx.ModelProto(), Budget()
        header: list[bytes] = []
        graphs: list[bytes] = []
        for number, start, body, stop in _fields(buffer, 0, len(buffer)):
            if number == _MODEL_GRAPH:
                graph = _stripped(buffer, body, stop, "graph", budget)
                graphs.append(buffer[body:stop] if graph is None else graph)
            else:
                header.append(buffer[start:stop])
        model.ParseFromString(b"".join(header))
        if graphs:
            model.graph.ParseFromString(b"".join(graphs))
        # Files of the first two versions do not say which operators they mean: those of opset 1.
        if not model.HasField("graph") or not (model.opset_import or model.ir_version in (1, 2)):
            raise ValueError("no graph, or no version of its operators")
    return model


def read_recorded_shapes(path: Path) -> onnx.GraphProto:
    """Return the shapes of intermediate tensors that an exporter recorded (``value_info``), and nothing else.

    Raises:
        ModelError: They are damaged.
    """
    graph = onnx.GraphProto()
    with _mapped(path) as buffer:
        kept = [
            buffer[start:stop]
            for outer, _, graph_at, end in _fields(buffer, 0, len(buffer))
            if outer == _MODEL_GRAPH
            for number, start, _, stop in _fields(buffer, graph_at, end)
            if number == _GRAPH_VALUE_INFO
        ]
        graph.ParseFromString(b"".join(kept))
    return graph


_DATA_FIELDS = ("int32_data", "int64_data", "float_data", "double_data", "uint64_data")

_INT, _FLOAT, _STRING = onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT, onnx.AttributeProto.STRING
_INTS, _FLOATS, _STRINGS = onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS, onnx.AttributeProto.STRINGS
_WITH_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})

_GRAPH, _GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS


def node_of(proto: onnx.NodeProto) -> Node:
    """Return the node with the attributes that are numbers, texts or lists of them.

    Raises:
        ModelError: A name is not UTF-8 text.
    """
    attributes: dict[str, AttributeValue] = {}
    for attribute in proto.attribute:
        kind = attribute.type
        if kind == _INT:
            attributes[attribute.name] = attribute.i
        elif kind == _INTS:
            attributes[attribute.name] = tuple(attribute.ints)
        elif kind == _FLOAT:
            attributes[attribute.name] = shortest(attribute.f)
        elif kind == _STRING:
            attributes[attribute.name] = attribute.s.decode(errors="replace")
        elif kind == _FLOATS:
            attributes[attribute.name] = tuple(shortest(number) for number in attribute.floats)
        elif kind == _STRINGS:
            attributes[attribute.name] = tuple(text.decode(errors="replace") for text in attribute.strings)
    inputs, outputs, domain = tuple(proto.input), tuple(proto.output), proto.domain
    check_texts(proto.op_type, proto.name, domain, *inputs, *outputs, *attributes)
    return Node(proto.op_type, proto.name, inputs, outputs, attributes, "" if domain == "ai.onnx" else domain)


def check_texts(*texts: str) -> None:
    """Refuse bytes, which protobuf gives for texts that are not UTF-8.

    Raises:
        ModelError: One is bytes.
    """
    for text in texts:
        if not isinstance(text, str):
            raise ModelError(f"the name {bytes(text[:40])!r} is not UTF-8 text; is the file damaged?")


def tensor_dtype(code: int, name: str) -> str:
    """Return the numpy's name of the element type of a tensor.

    Raises:
        ModelError: ONNX has no such type.
    """
    try:
        return CAST_TYPES[code]
    except KeyError:
        raise ModelError(f"tensor '{name}' has elements of the unknown type {code}; is the file damaged?") from None


def tensor_type(value: onnx.ValueInfoProto | None, sizes: Mapping[str, int] = MappingProxyType({})) -> Tensor | None:
    """Return the shape and type that a file states, or None where a size is missing; ``sizes`` are those of its symbols."""
    if value is None or not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    dimensions = value.type.tensor_type.shape.dim
    shape = [size.dim_value if size.HasField("dim_value") else sizes.get(size.dim_param, 0) for size in dimensions]
    if any(size <= 0 for size in shape):
        return None
    return Tensor(tuple(shape), tensor_dtype(value.type.tensor_type.elem_type, value.name))


def small_array(proto: onnx.TensorProto, path: Path | None) -> np.ndarray[Any, Any] | None:
    """Return the values of a small tensor, or None where they are not there.

    Args:
        proto: The tensor; its data may have been left out, or lie in another file.
        path: The model file, beside which files of external data lie.
    """
    if proto.data_type == onnx.TensorProto.STRING:
        return None
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        return _external_array(proto, path)
    if not proto.raw_data and prod(proto.dims) and not any(len(getattr(proto, field)) for field in _DATA_FIELDS):
        return None
    try:
        return np.asarray(numpy_helper.to_array(proto))
    except (TypeError, ValueError) as error:
        raise ModelError(f"the data of tensor '{proto.name}' does not fit its shape: {error}") from error


def _external_array(proto: onnx.TensorProto, path: Path | None) -> np.ndarray[Any, Any] | None:
    """Return the values of a small tensor stored in a file beside the model; None if that is missing or too short."""
    if path is None:
        return None
    entries = {entry.key: entry.value for entry in proto.external_data}
    size_bytes = ceil(prod(proto.dims) * DTYPE_BYTES[tensor_dtype(proto.data_type, proto.name)])
    try:
        folder = path.resolve().parent
        file = (folder / entries.get("location", "")).resolve()
        if folder not in file.parents or not file.is_file():
            # Data outside the model's folder is never read: the file may come from anywhere.
            return None
        with file.open("rb") as data:
            data.seek(int(entries.get("offset", 0)))
            content = data.read(min(size_bytes, max(0, int(entries.get("length", size_bytes)))))
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"the external data of tensor '{proto.name}' cannot be read ({type(error).__name__}); "
            "expected the name of a file beside the model and an offset in it"
        ) from error
    if len(content) < size_bytes:
        return None
    copy = onnx.TensorProto()
    copy.CopyFrom(proto)
    copy.data_location = onnx.TensorProto.DEFAULT
    del copy.external_data[:]
    copy.raw_data = content
    return small_array(copy, None)


def captured_names(proto: onnx.NodeProto) -> frozenset[str]:
    """Return the tensors of the outer graph that the bodies of a node (If, Loop) read."""
    if proto.op_type not in _WITH_BODIES and not proto.domain:
        return frozenset()
    found: set[str] = set()
    for body in bodies_of(proto):
        own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
        for node in body.node:
            found |= (set(node.input) | captured_names(node)) - own
            own |= set(node.output)
        found |= {value.name for value in body.output} - own
    return frozenset(found - {""})


def bodies_of(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in proto.attribute:
        if attribute.type == _GRAPH:
            yield attribute.g
        elif attribute.type == _GRAPHS:
            yield from attribute.graphs


def attribute_of(proto: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    for attribute in proto.attribute:
        if attribute.name == name:
            return attribute
    return None
