"""The nodes of a graph that each kernel of ONNX Runtime computes.

ONNX Runtime runs an optimised copy of the model. Names survive in three ways: most tensors keep theirs (a fused node writes the
last tensor of its parts), a node with a new layout is named after the tensor it wrote (``relu_0_out_nchwc``) or its former node
(``conv_0_token_1``), and a fusion appends its own name to the node's (``matmul_0/MatMulAddFusion``). So the tensor that a kernel
ends with is found first; the kernel then computes everything between the results of earlier kernels and that tensor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph
from latcast.graph.writers.onnx_qdq import original_tensor
from latcast.records import ExecutedKernel
from latcast.runtimes.kernel_assignment import Assignment

_MOVERS = frozenset({"ReorderInput", "ReorderOutput", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Cast"})
"""Operators that the optimiser inserts to change the layout, the shape or the type of a tensor."""

_INTEGER_PREFIXES = ("QLinear", "QGemm", "Nhwc")

_CLAMPS = ("Relu", "Clip")


@dataclass
class OptimisedNode:
    """A node of the optimised model, linked to its neighbours, with the nodes of the graph that it computes."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    activation: str
    nodes: tuple[str, ...] = ()
    readers: list[OptimisedNode] = field(default_factory=list)
    makers: list[OptimisedNode] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Operator, with the layout domain where it is not the usual one: "Conv", "QLinearConv", "nchwc.Conv"."""
        layout = self.domain.removeprefix("com.microsoft").strip(".")
        return f"{layout}.{self.op_type}" if self.domain.startswith("com.microsoft") and layout else self.op_type


def read_optimised(model: Any) -> list[OptimisedNode]:
    """Return the nodes of an optimised ``onnx.ModelProto`` in its order, linked."""
    nodes = []
    makers: dict[str, OptimisedNode] = {}
    for proto in model.graph.node:
        activation = next((a.s.decode() for a in proto.attribute if a.name == "activation"), "")
        node = OptimisedNode(proto.name, proto.op_type, proto.domain, tuple(proto.input), tuple(proto.output), activation)
        nodes.append(node)
        makers.update(dict.fromkeys((name for name in node.outputs if name), node))
    for node in nodes:
        for name in node.inputs:
            if name in makers:
                node.makers.append(makers[name])
                makers[name].readers.append(node)
    return nodes


def assign_nodes(graph: Graph, optimised: Sequence[OptimisedNode]) -> None:
    """Fill ``nodes`` of every optimised node with the names of the graph's nodes that it computes.

    Each node of the graph lands in one kernel at most. Nodes without a kernel were computed at load (they depend on weights
    alone) or eliminated (views); kernels without nodes were inserted by the runtime or are parts of an operator that it
    decomposed, whose last part has the node.
    """
    names, assignment = _Names(graph), Assignment(graph)
    for kernel in optimised:
        kernel.nodes = assignment.claim(names.tensors(kernel))
    _return_moved_nodes(assignment.types, optimised)
    for kernel in optimised:
        kernel.nodes = assignment.without_eliminated(kernel.nodes)


def kernel_events(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of kernels among all events of a profile, in order of time."""
    kernels = [dict(event) for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")]
    return sorted(kernels, key=lambda event: int(event["ts"]))


def kernels_of(events: Sequence[Mapping[str, Any]], optimised: Sequence[OptimisedNode], runs: int) -> tuple[ExecutedKernel, ...]:
    """Return one kernel for each profiled node, in the order of the last run."""
    durations: dict[tuple[int, str], list[float]] = {}
    for event in events:
        key = (int(event["args"]["node_index"]), event["name"].removesuffix("_kernel_time"))
        # Re-inserted, so that the order is that of the last run.
        durations[key] = [*durations.pop(key, []), event["dur"] / 1e3]
    named = {node.name: node for node in optimised if node.name}
    unnamed = [node for node in optimised if not node.name]
    types = {int(event["args"]["node_index"]): event["args"]["op_name"] for event in events}
    kernels = []
    for (index, name), values in durations.items():
        node = named.get(name)
        if node is None:
            # Nodes that an operator was expanded into have no name in the file, and their type and index in the profile.
            node = next((candidate for candidate in unnamed if candidate.op_type == types[index]), None)
            if node is not None:
                unnamed.remove(node)
        kind = node.kind if node is not None else types[index]
        kernels.append(ExecutedKernel(name, kind, node.nodes if node is not None else (), median(values[-runs:])))
    return tuple(kernels)


def _return_moved_nodes(types: Mapping[str, str], optimised: Sequence[OptimisedNode]) -> None:
    """Give a transposition that the optimiser moved past its neighbour back to the kernel that does it."""
    for kernel in optimised:
        if kernel.nodes or kernel.domain or kernel.op_type not in _MOVERS:
            continue
        for neighbour in (*kernel.makers, *kernel.readers):
            moved = [name for name in neighbour.nodes if types[name] == kernel.op_type != neighbour.op_type]
            if moved and len(neighbour.nodes) > 1:
                neighbour.nodes = tuple(name for name in neighbour.nodes if name != moved[0])
                kernel.nodes = (moved[0],)
                break


class _Names:
    """The tensors of the graph that the optimised nodes' outputs are."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = {node.name: node for node in graph.nodes}
        self.gelu_outputs = {idiom.inputs[0]: idiom.output for idiom in choose_idioms(graph, ("gelu",))}
        self.known: dict[str, str] = {}

    def tensors(self, kernel: OptimisedNode) -> list[str]:
        """Return the graph's tensors that an optimised node's outputs are; to be called in the order of execution."""
        found = {output: self.tensor(kernel, index) for index, output in enumerate(kernel.outputs) if output}
        self.known.update({output: tensor for output, tensor in found.items() if tensor is not None})
        return [tensor for tensor in found.values() if tensor is not None]

    def tensor(self, kernel: OptimisedNode, index: int) -> str | None:
        """Return the graph's tensor that an output equals, up to its layout; None where nothing tells."""
        name = kernel.outputs[index]
        base = original_tensor(name.removesuffix("/duplicated"))
        if base in self.graph.producers and (base != name or not self._is_integer(kernel)):
            return base
        later = self._from_readers(name, kernel)
        if later is not None:
            return later
        found = self._from_node_name(kernel, index)
        if found or kernel.op_type != "Gelu":
            return found
        # The result of the idiom that a fusion replaced, from its input.
        return self.gelu_outputs.get(self.known.get(kernel.inputs[0], kernel.inputs[0]))

    def _is_integer(self, kernel: OptimisedNode) -> bool:
        return kernel.op_type.startswith(_INTEGER_PREFIXES)

    def _from_readers(self, name: str, kernel: OptimisedNode) -> str | None:
        """Return the name that the layout changes and quantisations reading a tensor give it."""
        for reader in kernel.readers:
            if name not in reader.inputs[:1]:
                continue
            if reader.op_type in ("QuantizeLinear", "DequantizeLinear"):
                base = original_tensor(re.sub(r"_(Q|Deq)uantizeLinear(/.*|_token_\d+)*$", "", reader.name))
                if base in self.graph.producers:
                    return base
            elif reader.op_type in _MOVERS and reader.name not in self.nodes and reader.outputs:
                after = original_tensor(reader.outputs[0])
                maker = self.graph.producers.get(after)
                if maker is None:
                    continue
                # A mover of the same kind is the graph's own, under another name.
                return maker.inputs[0] if maker.op_type == reader.op_type else after
        return None

    def _from_node_name(self, kernel: OptimisedNode, index: int) -> str | None:
        """Return the optimised node's name before it was changed."""
        name = re.sub(r"_token_\d+$", "", kernel.name.removeprefix("fused "))
        start = re.sub(r"(_bn|_mul)?_nchwc$", "", name)
        if start in self.graph.producers and start != name:
            return self._past_fused(kernel, start)
        node = self.nodes.get(name) or self.nodes.get(name.split("/", 1)[0]) or self.nodes.get(name.rsplit("/", 2)[0])
        if node is None or index >= len(node.outputs):
            return None
        return self._past_fused(kernel, node.outputs[index])

    def _past_fused(self, kernel: OptimisedNode, tensor: str) -> str:
        """Return the tensor after the operators that a kernel computes beyond the one it is named after."""
        if self._is_integer(kernel):
            reader = self.graph.sole_reader(tensor)
            while reader is not None and reader.op_type in ("BatchNormalization", *_CLAMPS):
                tensor = reader.outputs[0]
                reader = self.graph.sole_reader(tensor)
            return tensor
        made_by = self.graph.producers[tensor].op_type
        if kernel.op_type == "Conv" and len(kernel.inputs) > 3 and kernel.inputs[3]:
            reader = self.graph.sole_reader(tensor)
            if reader is not None and reader.op_type in ("Add", "Sum"):
                tensor, made_by = reader.outputs[0], reader.op_type
        if kernel.activation and kernel.activation != made_by:
            reader = self.graph.sole_reader(tensor)
            if reader is not None and reader.op_type == kernel.activation:
                tensor = reader.outputs[0]
        return tensor
