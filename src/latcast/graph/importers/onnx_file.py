"""Reading an ONNX file without its weights.

Latency depends on shapes, so the weights, nearly all of a file, are never looked at: the protobuf encoding is walked over
the memory-mapped file and large tensors lose their data before the rest is parsed. Reading a 14 MB MobileNetV2 takes
0.8 ms this way, against 2 to 10 ms for ``onnx.load`` and 7 to 11 ms for ``onnx_ir.load``, and the time does not grow with the
weights: of a 500 MB file only the pages with names and shapes are touched.

Encoding: https://protobuf.dev/programming-guides/encoding; field numbers: ``onnx.proto``.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from latcast.errors import ModelError
from latcast.graph.importers.budget import Budget, Resource

KEPT_TENSOR_BYTES = 16384
"""Tensors that take more bytes in the file lose their data."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_VALUE_INFO, _GRAPH_ANNOTATION = 1, 5, 13, 14
_NODE_ATTRIBUTE, _NODE_METADATA = 5, 9
_ATTRIBUTE_TENSOR = 5
_TENSOR_SHAPE_FIELDS = frozenset({1, 2, 8, 13, 14})  # dims, data_type, name, external_data, data_location


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
    """A length-delimited field."""
    size, encoded = len(body), bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes((number << 3 | _BYTES,)) + bytes(encoded) + body


def _tensor_without_data(buffer: Buffer, at: int, end: int) -> bytes:
    kept = (buffer[start:stop] for number, start, _, stop in _fields(buffer, at, end) if number in _TENSOR_SHAPE_FIELDS)
    return b"".join(kept)


def _attribute_without_data(buffer: Buffer, at: int, end: int) -> bytes:
    parts = []
    for number, start, body, stop in _fields(buffer, at, end):
        if number == _ATTRIBUTE_TENSOR and stop - body > KEPT_TENSOR_BYTES:
            parts.append(_message(_ATTRIBUTE_TENSOR, _tensor_without_data(buffer, body, stop)))
        else:
            parts.append(buffer[start:stop])
    return b"".join(parts)


def _node_without_data(node: bytes) -> bytes:
    """The node without large tensors in its attributes and without metadata."""
    parts: list[bytes] = []
    copied = 0
    for number, start, body, stop in _fields(node, 0, len(node)):
        if number == _NODE_METADATA:
            replacement = b""
        elif number == _NODE_ATTRIBUTE and stop - body > KEPT_TENSOR_BYTES:
            replacement = _message(_NODE_ATTRIBUTE, _attribute_without_data(node, body, stop))
        else:
            continue
        parts += (node[copied:start], replacement)
        copied = stop
    if not parts:
        return node
    parts.append(node[copied:])
    return b"".join(parts)


def _graph_without_weights(buffer: Buffer, at: int, end: int) -> bytes:
    parts: list[bytes] = []
    copied = at
    budget = Budget()
    for number, start, body, stop in _fields(buffer, at, end):
        if number == _GRAPH_NODE:
            budget.take(Resource.NODES)
            node = buffer[body:stop]
            kept = _node_without_data(node)
            if kept is node:
                continue
            replacement = _message(_GRAPH_NODE, kept)
        elif number == _GRAPH_INITIALIZER:
            if stop - body <= KEPT_TENSOR_BYTES:
                continue
            replacement = _message(_GRAPH_INITIALIZER, _tensor_without_data(buffer, body, stop))
        elif number in (_GRAPH_VALUE_INFO, _GRAPH_ANNOTATION):
            replacement = b""
        else:
            continue
        parts += (buffer[copied:start], replacement)
        copied = stop
    parts.append(buffer[copied:end])
    return b"".join(parts)


def _walk(buffer: Buffer) -> onnx.ModelProto:
    model = onnx.ModelProto()
    header: list[bytes] = []
    graphs: list[bytes] = []
    for number, start, body, stop in _fields(buffer, 0, len(buffer)):
        if number == _MODEL_GRAPH:
            graphs.append(_graph_without_weights(buffer, body, stop))
        else:
            header.append(buffer[start:stop])
    model.ParseFromString(b"".join(header))
    if graphs:
        model.graph.ParseFromString(b"".join(graphs))
    return model


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from error
    except ValueError as error:  # mmap refuses a file of no bytes
        raise ModelError(f"'{path}' is empty; expected an ONNX model") from error


def read_without_weights(path: Path) -> onnx.ModelProto:
    """The model of a file without the data of large tensors, node metadata and recorded intermediate shapes.

    Raises:
        ModelError: The file cannot be read, is empty, truncated, of too many nodes, or no ONNX model.
    """
    with _map(path) as buffer:
        try:
            model = _walk(buffer)
        except ModelError as error:
            raise ModelError(f"'{path}': {error}") from error
        except (EOFError, IndexError) as error:
            if _looks_like_model(buffer):
                raise ModelError(f"'{path}' is truncated: {error}; copy or download it again") from error
            raise ModelError(_not_a_model(path, buffer)) from error
        except (DecodeError, UnicodeDecodeError, ValueError) as error:
            raise ModelError(_not_a_model(path, buffer)) from error
        if not model.HasField("graph") or not model.opset_import:
            raise ModelError(_not_a_model(path, buffer))
    return model


def read_recorded_shapes(path: Path) -> onnx.GraphProto:
    """The shapes of intermediate tensors that an exporter recorded (``value_info``), and nothing else."""
    graph = onnx.GraphProto()
    with _map(path) as buffer:
        kept = [
            buffer[start:stop]
            for outer, _, graph, end in _fields(buffer, 0, len(buffer))
            if outer == _MODEL_GRAPH
            for number, start, _, stop in _fields(buffer, graph, end)
            if number == _GRAPH_VALUE_INFO
        ]
    graph.ParseFromString(b"".join(kept))
    return graph


def _looks_like_model(buffer: Buffer) -> bool:
    """Whether the file begins as a ModelProto does: with its version, a small number in field 1."""
    return buffer[0] == 1 << 3 | _VARINT and len(buffer) > 1 and buffer[1] < 64


def _not_a_model(path: Path, buffer: Buffer) -> str:
    start = buffer[:80]
    if start.startswith(b"version https://git-lfs"):
        return f"'{path}' is a Git LFS pointer, not the model itself; fetch it with: git lfs pull"
    first_line = start.splitlines()[0] if start.splitlines() else start
    if first_line and all(32 <= byte < 127 or byte == 9 for byte in first_line):
        return f"'{path}' is not an ONNX model: it is text that begins with '{first_line[:40].decode()}'"
    return f"'{path}' is not an ONNX model or is damaged"
