"""Latencies of kernels for tools that show graphs: Model Explorer and Netron."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latcast.errors import LatcastError
from latcast.graph.ir import Graph
from latcast.predictors.prediction import Prediction
from latcast.tables import milliseconds

GRADIENT = (
    {"stop": 0, "bgColor": "#f4f7f6"},
    {"stop": 0.25, "bgColor": "#ffe2a8"},
    {"stop": 1, "bgColor": "#e0552e", "textColor": "#ffffff"},
)  # fmt: skip
"""Colours from no time to the longest kernel's."""

KEY = "latcast"
"""Prefix of the keys of metadata."""


def check_overlay(path: Path, model: str) -> None:
    """Raise if an overlay cannot be written there; for commands that work long before they write it.

    Raises:
        LatcastError: No overlay has this suffix, or the model's format cannot be annotated.
    """
    if path.suffix not in (".json", ".onnx"):
        raise LatcastError(f"--overlay {path} is neither a .json file (Model Explorer) nor an .onnx file (Netron)")
    if path.suffix == ".onnx" and not (model.endswith(".onnx") and Path(model).is_file()):
        raise LatcastError(f"--overlay {path} annotates a copy of an ONNX file; found '{model}'; give a .json file instead")
    if path.suffix == ".onnx" and path.exists() and path.samefile(model):
        raise LatcastError(f"--overlay {path} is the model itself; give another file")


def write_overlay(found: Prediction, graph: Graph, path: str | os.PathLike[str], model: str) -> Path:
    """Write latencies in the form that the file's suffix names.

    Args:
        found: With its kernels.
        graph: The network.
        path: ``.json`` for Model Explorer, ``.onnx`` for Netron.
        model: The file that the network was read from.

    Raises:
        LatcastError: The file cannot be written, or no overlay has this suffix.
    """
    file = Path(path)
    check_overlay(file, model)
    try:
        if file.suffix == ".json":
            file.write_text(json.dumps(node_data(found, graph), indent=1), encoding="utf-8")
        else:
            file.write_bytes(annotated(found, Path(model).read_bytes()))
    except OSError as problem:
        raise LatcastError(f"cannot write {file}: {problem.strerror}") from problem
    return file


def node_data(found: Prediction, graph: Graph) -> dict[str, Any]:
    """Latencies as Model Explorer's node data of one graph: name of a tensor to the milliseconds of the node that makes it.

    A kernel of several operators gives its latency to the first of them, and 0 to the others, so that sums over layers are right;
    a reorder gives its latency to the operator for whose sake it runs.

    The schema is that of ``GraphNodeData`` in ``model_explorer.node_data_builder`` of ai-edge-model-explorer 0.1.34.
    """
    from_tflite = found.model.endswith(".tflite")
    outputs = {node.name: next((name for name in node.outputs if name), "") for node in graph.nodes}

    def tensor(node: str) -> str:
        # Operators of a TFLite file are named after the tensors that they make there; the graph's own are others.
        return node.partition(":")[2] if from_tflite else outputs[node]

    values = {tensor(name): 0.0 for kernel in found.kernels for name in kernel.nodes}
    for kernel in found.kernels:
        values[tensor(kernel.name)] += kernel.latency_ms
    results = {name: {"value": round(value, 6)} for name, value in values.items()}
    return {"name": f"{found.platform}, ms", "results": results, "gradient": list(GRADIENT)}


def annotated(found: Prediction, content: bytes) -> bytes:
    """Write an ONNX file: latencies in the metadata and description of each node, the prediction in the model's metadata.

    Netron shows a node's description and metadata where the node is selected, the model's where nothing is. Weights in other
    files stay there.
    """
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(content)
    kernel_of = {name: kernel for kernel in found.kernels for name in kernel.nodes}
    for node in model.graph.node:
        kernel = kernel_of.get(node.name)
        if kernel is None:
            continue
        first = kernel.nodes[0] == node.name
        said = (
            f"{milliseconds(kernel.latency_ms)} ms on {found.platform}, as one kernel: {' + '.join(kernel.operators)}"
            if first
            else f"in the kernel of {kernel.name} on {found.platform}"
        )
        node.doc_string = f"{node.doc_string}\n{said}".strip()
        values = {"kernel": kernel.name, "kernel_type": kernel.kernel_type, "limit": kernel.limit}
        _put(node.metadata_props, {**values, "latency_ms": f"{kernel.latency_ms if first else 0.0:.6g}"})
    whole = {"platform": found.platform, "latency_ms": found.latency_ms, "low_ms": found.low_ms, "high_ms": found.high_ms}
    _put(model.metadata_props, {name: value if isinstance(value, str) else f"{value:.6g}" for name, value in whole.items()})
    return model.SerializeToString()


def _put(properties: Any, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        entry = properties.add()
        entry.key, entry.value = f"{KEY}.{name}", value
