"""ONNX models written by hand, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from latcast.errors import ModelError
from latcast.graph.importers import load_graph

Dimension = int | str | None
node = helper.make_node


def value(name: str, shape: Sequence[Dimension] | None, dtype: int = onnx.TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def integers(*numbers: int) -> np.ndarray[Any, Any]:
    return np.asarray(numbers, dtype=np.int64)


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype=np.float32)


def body(nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "body", list(inputs), [onnx.ValueInfoProto(name=name) for name in outputs])


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Dimension] | None] | Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    stored: Mapping[str, np.ndarray[Any, Any]] | None = None,
    *,
    opset: int = 20,
    domains: Sequence[str] = (),
    **more: Any,
) -> onnx.ModelProto:
    """A model; ``inputs`` by name and shape are float32."""
    given = [value(*pair) for pair in inputs.items()] if isinstance(inputs, Mapping) else list(inputs)
    graph = helper.make_graph(
        list(nodes),
        "graph",
        given,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (stored or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def save(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def refusal(path: Path) -> str:
    """Why a file is refused; empty where it is read. Any error of another kind is the test's failure."""
    try:
        load_graph(path)
    except ModelError as error:
        return str(error)
    return ""
