"""From ONNX's protobuf messages to plain values."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from latcast.errors import ModelError
from latcast.graph.ir import DTYPE_BYTES, AttributeValue, Node, Tensor
from latcast.graph.operators.elementwise import CAST_TYPES

_DATA_FIELDS = ("int32_data", "int64_data", "float_data", "double_data", "uint64_data")

_INT, _FLOAT, _STRING = onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT, onnx.AttributeProto.STRING
_INTS, _FLOATS, _STRINGS = onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS, onnx.AttributeProto.STRINGS
_WITH_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})

_GRAPH, _GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS


def shortest(value: float) -> float:
    """A number of single precision as people write it: 1e-05, not 9.999999747378752e-06."""
    return float(f"{value:.7g}")


def node_of(proto: onnx.NodeProto) -> Node:
    """The node with the attributes that are numbers, texts or lists of them."""
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
    domain = proto.domain
    return Node(
        proto.op_type,
        proto.name,
        tuple(proto.input),
        tuple(proto.output),
        attributes,
        "" if domain == "ai.onnx" else domain,
    )


def tensor_dtype(code: int, name: str) -> str:
    """Numpy's name of the element type of a tensor.

    Raises:
        ModelError: The elements are no numbers.
    """
    try:
        return CAST_TYPES[code]
    except KeyError:
        known = onnx.TensorProto.DataType
        label = known.Name(code).lower() if code in known.values() else str(code)
        raise ModelError(f"tensor '{name}' has elements of type {label}; only numbers are supported") from None


def tensor_type(value: onnx.ValueInfoProto | None) -> Tensor | None:
    """Shape and type that a file states, or None where a size is missing."""
    if value is None or not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    sizes = [size.dim_value if size.HasField("dim_value") else 0 for size in value.type.tensor_type.shape.dim]
    if any(size <= 0 for size in sizes):
        return None
    return Tensor(tuple(sizes), tensor_dtype(value.type.tensor_type.elem_type, value.name))


def small_array(proto: onnx.TensorProto, path: Path | None) -> np.ndarray[Any, Any] | None:
    """The values of a small tensor, or None where they are not there.

    Args:
        proto: The tensor; its data may have been left out, or lie in another file.
        path: The model file, beside which files of external data lie.
    """
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        return _external_array(proto, path)
    if not proto.raw_data and prod(proto.dims) and not any(len(getattr(proto, field)) for field in _DATA_FIELDS):
        return None
    try:
        return np.asarray(numpy_helper.to_array(proto))
    except (TypeError, ValueError) as error:
        raise ModelError(f"the data of tensor '{proto.name}' does not fit its shape: {error}") from error


def _external_array(proto: onnx.TensorProto, path: Path | None) -> np.ndarray[Any, Any] | None:
    """The values of a small tensor whose data lies in a file beside the model; None where that is not there or not its data."""
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
    """Tensors of the outer graph that the bodies of a node (If, Loop) read."""
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
