"""The module of the framework's model that each operator came from, as its file says: ``layer1.0.conv2``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from latcast.graph.ir import Graph, Node

_UNNAMED = ("onnx::", "val_", "_v_")
"""Prefixes of names of weights that an exporter made up."""


_TFLITE_KIND = re.compile(r"^[a-z0-9_]+:(?=.)")
"""Prefix that the TFLite importer puts before a tensor's name to name the operator that makes it."""


def module_paths(graph: Graph) -> Mapping[str, str]:
    """Name of each node to the path of its module; empty where the network's names hold no modules.

    TorchScript's exporter and TensorFlow write scopes into the names of operators (``/layer1/layer1.0/conv2/Conv``), PyTorch's
    newer exporter names weights after their modules (``layer1.0.conv2.weight``). An operator without either lies in the module
    that holds both the operators before and after it which have one.

    Example:
        >>> import latcast
        >>> from latcast.graph.module_paths import module_paths
        >>> list(module_paths(latcast.build(latcast.model("timm/resnet18"))).values())[3]
        'layer1.0.conv1'
    """
    own = [_own_path(graph, node) for node in graph.nodes]
    if not any(own):
        return {node.name: "" for node in graph.nodes}
    before = _nearest(own)
    after = _nearest(own[::-1])[::-1]
    return {
        node.name: path if path is not None else _common(before[index], after[index])
        for index, (node, path) in enumerate(zip(graph.nodes, own, strict=True))
    }


def _own_path(graph: Graph, node: Node) -> str | None:
    for name in (_TFLITE_KIND.sub("", node.name), *node.outputs[:1]):
        parts = [part for part in name.partition(";")[0].split("/") if part]
        if len(parts) > 1:
            return _joined(parts[:-1])
        if name.startswith("/"):
            return ""  # an operator of the model itself
    for name in node.inputs:
        if name in graph.weights and "." in name and not name.startswith(_UNNAMED):
            return name.rpartition(".")[0]
    return None


def _joined(scopes: Sequence[str]) -> str:
    """Return ``"layer1.0.conv2"`` for ``("layer1", "layer1.0", "conv2")``: a scope that names its parent replaces both."""
    kept: list[str] = []
    for scope in scopes:
        if kept and scope.startswith(f"{kept[-1]}."):
            kept.pop()
        kept.append(scope)
    return ".".join(kept)


def _nearest(paths: Sequence[str | None]) -> list[str]:
    """Return the last path up to each place; empty before the first."""
    found, last = [], ""
    for path in paths:
        last = last if path is None else path
        found.append(last)
    return found


def _common(first: str, second: str) -> str:
    """Return the module that holds both.

    >>> _common("layer1.0.conv2", "layer1.1.conv1"), _common("layer4.1.conv2", "fc")
    ('layer1', '')
    """
    shared = []
    for one, other in zip(first.split("."), second.split("."), strict=False):
        if one != other:
            break
        shared.append(one)
    return ".".join(shared)
