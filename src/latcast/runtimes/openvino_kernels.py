"""Which of a graph's nodes each primitive of OpenVINO's CPU plugin computes.

A primitive lists the layers that were fused into it, by the names they had after OpenVINO's own rewriting: nodes of the file
under their names (a network's last ones under their tensor's), parts of them with something appended
(``conv_1/WithoutBiases``), and made-up names for what a rewriting produced (``Multiply_3647`` is a convolution with a folded
batch normalisation). The made-up ones are recovered from the others: see :class:`~.kernel_assignment.Assignment`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from latcast.graph.ir import Graph
from latcast.graph.operators import Kind, names_of, operators
from latcast.graph.writers.onnx_qdq import original_tensor
from latcast.runtimes.kernel_assignment import Assignment

_INPUTS = frozenset({"Input", "Parameter"})

_OUTPUTS = frozenset({"Output", "Result"})

_MOVERS = {"Transpose", "Split"} | names_of(operators(Kind.VIEW))

_OPERATOR_OF_LAYER: Mapping[str, str] = {
    "Multiply": "Mul", "Add": "Add", "Subtract": "Sub", "Divide": "Div", "Transpose": "Transpose", "Convolution": "Conv",
}  # fmt: skip
"""OpenVINO's names of operators to the graph's, where rewriting is known to leave one behind without its name."""


@dataclass
class Primitive:
    """A node of OpenVINO's executed model, and what was found out about it."""

    name: str
    kind: str
    layers: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()
    readers: list[Primitive] = field(default_factory=list)


def read_executed(model: Any) -> list[Primitive]:
    """The primitives of an ``openvino.Model`` as ``get_runtime_model`` returns it, linked, in execution order."""

    def text(operation: Any, key: str) -> str:
        info = operation.get_rt_info()
        if key not in info:
            return ""
        return str(getattr(info[key], "value", info[key]))

    operations = model.get_ordered_ops()
    operations.sort(key=lambda operation: int(text(operation, "execOrder") or 0))
    found: dict[str, Primitive] = {}
    # What depends on weights alone was computed when the network was compiled.
    dynamic: set[str] = set()
    for operation in operations:
        name, layer = operation.get_friendly_name(), text(operation, "layerType")
        makers = {value.get_node().get_friendly_name() for value in operation.input_values()} & dynamic
        if makers or layer in _INPUTS:
            dynamic.add(name)
        if makers and layer not in _OUTPUTS:
            layers = tuple(part for part in text(operation, "originalLayersNames").split(",") if part)
            found[name] = Primitive(name, f"{layer} {text(operation, 'primitiveType')}".strip(), layers)
            for maker in makers & found.keys():
                found[maker].readers.append(found[name])
    return list(found.values())


def assign_nodes(graph: Graph, primitives: Sequence[Primitive]) -> None:
    """Fills ``nodes`` of every primitive with the names of the graph's nodes that it computes.

    Each node of the graph lands in one primitive at most. An operator that OpenVINO computes in several primitives belongs
    to the last of them; primitives without nodes are the others, layout changes, quantisations and dequantisations.
    """
    assignment = Assignment(graph)
    names = {node.name: node for node in graph.nodes}

    def tensors(layer: str) -> tuple[str, ...]:
        """What a layer makes; nothing for a name that the file does not have."""
        if layer.endswith("_DequantizeLinear"):
            return ()
        tensor = original_tensor(layer.removesuffix("_original").removesuffix("_QuantizeLinear"))
        if tensor in graph.producers:
            return (tensor,)
        # Names may themselves have slashes, so what was appended is cut off piece by piece.
        while layer not in names and "/" in layer:
            layer = layer.rpartition("/")[0]
        return names[layer].outputs if layer in names else ()

    for primitive in primitives:
        made = {tensor for layer in primitive.layers for tensor in tensors(layer)}
        primitive.named = frozenset(graph.producers[tensor].name for tensor in made if tensor in graph.producers)
        primitive.nodes = assignment.claim(made)
    _return_rewritten(assignment.types, primitives)
    for primitive in primitives:
        primitive.nodes = assignment.without_eliminated(primitive.nodes)


def _return_rewritten(types: Mapping[str, str], primitives: Sequence[Primitive]) -> None:
    """Gives an operator that was renamed back from the primitive that reads it."""
    for primitive in primitives:
        if primitive.nodes:
            continue
        made_up = (re.fullmatch(r"([A-Z][A-Za-z]*)_\d+", layer) for layer in primitive.layers)
        # A convolution with a folded normalisation is called after the multiplication of its weights.
        names = {"Convolution"} if primitive.kind.startswith("Convolution") else {m.group(1) for m in made_up if m}
        wanted = {_OPERATOR_OF_LAYER[name] for name in names if name in _OPERATOR_OF_LAYER}
        for reader in _computing_readers(types, primitive) if wanted else ():
            moved = [name for name in reader.nodes if types[name] in wanted and name not in reader.named]
            if moved and len(reader.nodes) > 1:
                reader.nodes = tuple(name for name in reader.nodes if name != moved[0])
                primitive.nodes = (moved[0],)
                break


def _computing_readers(types: Mapping[str, str], primitive: Primitive) -> list[Primitive]:
    """The primitives that read another's result, past views and moves."""
    found: list[Primitive] = []
    waiting = list(primitive.readers)
    while waiting:
        reader = waiting.pop()
        if all(types[name] in _MOVERS for name in reader.nodes):
            waiting.extend(reader.readers)
        elif reader not in found:
            found.append(reader)
    return found
