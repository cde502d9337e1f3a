"""The graph: a network with static shapes in ONNX vocabulary, without weights.

Latency depends on shapes, not on values, so a tensor here is a shape and a type; only small constants that decide shapes
or semantics (reshape targets, clip bounds, axes) keep their values. Tensors are logical NCHW whatever file they came from.
Graphs are immutable: a pass takes one and returns another.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING

from latcast.errors import ModelError

if TYPE_CHECKING:
    import numpy as np

    from latcast.graph.idioms import Idioms


Shape = tuple[int, ...]
AttributeValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]

Values = Mapping[str, object]
"""Input name to its value: a number, a list, or an array."""

DTYPE_BYTES: Mapping[str, float] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "int4": 0.5, "uint4": 0.5,
    "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn": 0.5, "int2": 0.25, "uint2": 0.25, "complex64": 8, "complex128": 16, "string": 32,
    "resource": 0, "variant": 0,
}  # fmt: skip
"""Bytes of an element by its type; a text counts as a short one, a handle (of a variable, of a list) as nothing."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape and element type (numpy's name) of one value."""

    shape: Shape
    dtype: str = "float32"

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> float:
        return self.elements * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator. Inputs that ONNX leaves out are empty strings. ``name`` is unique in its graph."""

    op_type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    domain: str = ""

    def integer(self, name: str, default: int = 0) -> int:
        return int(self.attributes.get(name, default))  # type: ignore[arg-type]

    def real(self, name: str, default: float = 0.0) -> float:
        return float(self.attributes.get(name, default))  # type: ignore[arg-type]

    def text(self, name: str, default: str = "") -> str:
        return str(self.attributes.get(name, default))

    def integers(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        return tuple(map(int, self.attributes.get(name, default)))  # type: ignore[arg-type]

    def renamed(self, names: Mapping[str, str]) -> Node:
        """Return the operator with some tensors renamed."""
        inputs, outputs = (tuple(names.get(name, name) for name in listed) for listed in (self.inputs, self.outputs))
        return replace(self, inputs=inputs, outputs=outputs)


@dataclass(frozen=True)
class Graph:
    """A network.

    Attributes:
        name: For people.
        nodes: In topological order.
        inputs, outputs: Names of the activations that enter and leave.
        tensors: Every tensor that occurs: activations and weights.
        weights: Names of the tensors whose values were learned (values are not kept).
        constants: Values of small constants that semantics depend on; their names are in ``tensors`` too.
        precision: "fp32", "fp16", "bf16" or "int8": what the file says it computes in.
        notes: What its reader assumed or chose, a sentence each; warnings of its predictions.
        run_time_sizes: Operators whose results have sizes that only values decide; here the most, or what the file says.
        called: The text that a user named a published network by, at its own size; empty for others.
        standardised: Weights that the network computes by normalising learned ones (Qiao et al. 2019, arXiv:1903.10520),
            which runtimes that do not fold constants repeat at every inference.

    Example:
        >>> import latcast
        >>> graph = latcast.build(latcast.model("mobilenet_v2"))
        >>> graph.nodes[0].op_type, graph.shape(graph.inputs[0])
        ('Conv', (1, 3, 224, 224))
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    weights: frozenset[str] = frozenset()
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    precision: str = "fp32"
    notes: tuple[str, ...] = ()
    run_time_sizes: tuple[str, ...] = ()
    called: str = field(default="", compare=False)
    standardised: frozenset[str] = frozenset()

    @cached_property
    def producers(self) -> dict[str, Node]:
        """Tensor name to the node that makes it."""
        return {output: node for node in self.nodes for output in node.outputs if output}

    @cached_property
    def consumers(self) -> dict[str, list[Node]]:
        """Tensor name to the nodes that read it, in order; a node that reads it twice is listed twice."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.inputs:
                if name:
                    found.setdefault(name, []).append(node)
        return found

    @cached_property
    def nodes_of_type(self) -> dict[str, list[Node]]:
        """ONNX type to its nodes, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(node.op_type, []).append(node)
        return found

    @cached_property
    def mean_weight_bytes(self) -> float:
        """Bytes that a learned value is stored in, the mean; 0 without any."""
        weights = [self.tensors[name] for name in self.weights]
        return sum(each.size_bytes for each in weights) / max(sum(each.elements for each in weights), 1)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Node name to its place in ``nodes``."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    @cached_property
    def static_names(self) -> frozenset[str]:
        """Names among a node's inputs that are not activations: weights, constants, and the empty one."""
        return self.weights.union(self.constants, ("",))

    def idioms(self, name: str) -> Idioms:
        """Return where several operators together compute one, found once; see :mod:`latcast.graph.idioms`.

        Raises:
            LatcastError: No idiom has this name.
        """
        found = self._idioms.get(name)
        if found is None:
            from latcast.graph.idioms import find_idioms

            found = self._idioms[name] = find_idioms(self, name)
        return found

    @cached_property
    def _idioms(self) -> dict[str, Idioms]:
        return {}

    def sole_reader(self, tensor: str) -> Node | None:
        """Return the only node that reads a tensor, where it reads it once and the tensor does not leave the network."""
        readers = self.consumers.get(tensor, [])
        return readers[0] if len(readers) == 1 and tensor not in self.outputs else None

    def shape(self, tensor: str) -> Shape:
        return self.tensors[tensor].shape

    def is_activation(self, tensor: str) -> bool:
        """Return whether the tensor depends on the network's input (neither weight, constant, nor left out)."""
        return tensor not in self.static_names

    def activation_inputs(self, node: Node) -> list[str]:
        return [name for name in node.inputs if self.is_activation(name)]

    def with_nodes(self, nodes: Iterable[Node], **changes: object) -> Graph:
        """Return the graph with other nodes; tensors that are no longer used are dropped."""
        changed = replace(self, nodes=tuple(nodes), **changes)  # type: ignore[arg-type]
        used = set(changed.inputs) | set(changed.outputs)
        for node in changed.nodes:
            used.update(node.inputs)
            used.update(node.outputs)
        return replace(
            changed,
            tensors={name: tensor for name, tensor in changed.tensors.items() if name in used},
            weights=frozenset(name for name in changed.weights if name in used),
            standardised=changed.standardised & used,
            constants={name: value for name, value in changed.constants.items() if name in used},
        )

    def renamed(self, names: Mapping[str, str]) -> Graph:
        """Return the network with some tensors renamed."""
        return replace(
            self,
            nodes=tuple(node.renamed(names) for node in self.nodes),
            inputs=tuple(names.get(name, name) for name in self.inputs),
            outputs=tuple(names.get(name, name) for name in self.outputs),
            tensors={names.get(name, name): tensor for name, tensor in self.tensors.items()},
            weights=frozenset(names.get(name, name) for name in self.weights),
            standardised=frozenset(names.get(name, name) for name in self.standardised),
            constants={names.get(name, name): value for name, value in self.constants.items()},
        )

    @property
    def parameter_count(self) -> int:
        """Number of learned values."""
        return sum(self.tensors[name].elements for name in self.weights)

    @cached_property
    def structure_key(self) -> str:
        """Hash (16 hex digits) of operators, shapes, attributes, constants and connections; names do not enter it."""
        number = {name: str(index) for index, name in enumerate(self.inputs)}
        digest = hashlib.sha256()
        digest.update(repr([(self.tensors[name].shape, self.tensors[name].dtype) for name in self.inputs]).encode())
        for node in self.nodes:
            ins = [number.get(name) or self._described(name) for name in node.inputs]
            outs = [self._described(name) for name in node.outputs]
            for output in node.outputs:
                if output:
                    number[output] = str(len(number))
            # Rounded to single precision, as files hold: 1/6 from code and from a file are the same.
            attributes = [
                (key, f"{value:.7g}" if isinstance(value, float) else value) for key, value in sorted(node.attributes.items())
            ]
            digest.update(repr((node.op_type, ins, attributes, outs)).encode())
        digest.update(repr([number.get(name) or self._described(name) for name in self.outputs]).encode())
        digest.update(self.precision.encode())
        return digest.hexdigest()[:16]

    def _described(self, name: str) -> str:
        if not name:
            return ""
        value = self.constants.get(name)
        return repr(self.tensors[name]) + ("" if value is None else value.tobytes().hex())


def check_input_names(given: Iterable[str], inputs: Iterable[str], network: str = "", what: str = "shape") -> None:
    """Raise if a shape or value is given for a name that is not an input.

    Args:
        given: Names that it is given for.
        inputs: Names of the inputs that there are.
        network: What to call the network.
        what: What is given.

    Raises:
        ModelError: A name is not among them.
    """
    there = list(inputs)
    unknown = sorted(set(given) - set(there))
    if unknown:
        of = f" of {network}" if network else ""
        raise ModelError(f"a {what} is given for '{unknown[0]}', which is no input{of}; the inputs are: {', '.join(there)}")


def shapes_by_input(given: Mapping[str, Sequence[int]], inputs: Iterable[str], network: str = "") -> dict[str, Shape]:
    """Return the shapes given by input; one without a name ("") is of the only input.

    Args:
        given: By the name of an input.
        inputs: Names of the inputs that there are.
        network: What to call the network.

    Raises:
        ModelError: A name is not among them; or there is none, and there are several inputs.
    """
    there = list(inputs)
    shapes = {name: tuple(int(size) for size in shape) for name, shape in given.items()}
    if "" in shapes and "" not in there:
        if len(there) != 1 or len(shapes) != 1:
            raise ModelError(f"found a shape without a name, and the inputs are: {', '.join(there)}; name the one that it is of")
        shapes = {there[0]: shapes[""]}
    check_input_names(shapes, there, network)
    return shapes


def topological_order(nodes: Iterable[Node], available: Iterable[str]) -> list[Node]:
    """Sort nodes so that each comes after the producers of its inputs, keeping the given order where it can.

    Args:
        nodes: The nodes.
        available: Tensors that exist before any node runs (inputs, weights, constants).

    Raises:
        ModelError: A cycle, or an input that nothing produces; the message names the node.
    """
    waiting = list(nodes)
    produced_by_nodes = {output for node in waiting for output in node.outputs}
    ready = set(available) | {""}
    missing: dict[int, int] = {}
    readers: dict[str, list[int]] = {}
    for index, node in enumerate(waiting):
        needs = {name for name in node.inputs if name not in ready}
        for name in needs:
            if name not in produced_by_nodes:
                raise ModelError(
                    f"node '{node.name}' ({node.op_type}) reads '{name}', which no node, input or weight provides; "
                    "the file is incomplete"
                )
            readers.setdefault(name, []).append(index)
        missing[index] = len(needs)
    queue = [index for index, count in missing.items() if count == 0]
    heapq.heapify(queue)
    ordered: list[Node] = []
    while queue:
        node = waiting[heapq.heappop(queue)]
        ordered.append(node)
        for output in node.outputs:
            if output in ready:
                continue
            ready.add(output)
            for index in readers.get(output, ()):
                missing[index] -= 1
                if missing[index] == 0:
                    heapq.heappush(queue, index)
    if len(ordered) != len(waiting):
        stuck = next(waiting[index] for index, count in missing.items() if count > 0)
        raise ModelError(f"the graph has a cycle through node '{stuck.name}' ({stuck.op_type}); a network must be acyclic")
    return ordered


# Putting a graph back together after a pass: tensors replaced by others, operators that no output depends on


def rewire(graph: Graph, nodes: Iterable[Node], aliases: Mapping[str, str], **changes: object) -> Graph:
    """Return the graph with these nodes and with aliases resolved; the graph unchanged if no node would be left.

    Outputs of the graph keep their names wherever that is possible: not where an input, or another output, leaves directly.

    Args:
        graph: The graph that is changed.
        nodes: The nodes that stay, in topological order; they may still read aliases.
        aliases: Tensor to the tensor that replaces it, which may be an alias itself.
        **changes: Other fields of the new graph.
    """
    resolve = partial(resolved, aliases)
    kept = [
        replace(node, inputs=tuple(map(resolve, node.inputs))) if any(name in aliases for name in node.inputs) else node
        for node in nodes
    ]
    produced = {name for node in kept for name in node.outputs}
    tensors = changes.pop("tensors", graph.tensors)
    assert isinstance(tensors, Mapping)
    renamed: dict[str, str] = {}
    outputs = []
    for name in graph.outputs:
        target = resolve(name)
        if target != name and target in produced and target not in graph.outputs and target not in renamed:
            renamed[target] = name
        outputs.append(renamed.get(target, target))
    if renamed:
        kept = [node.renamed(renamed) for node in kept]
        tensors = {**tensors, **{new: tensors[old] for old, new in renamed.items()}}
    unique = tuple(dict.fromkeys(outputs))
    live = live_nodes(kept, unique)
    return graph.with_nodes(live, outputs=unique, tensors=tensors, **changes) if live else graph


def resolved(aliases: Mapping[str, str], name: str) -> str:
    """Return the tensor that stands in the end for one of this name."""
    while name in aliases:
        name = aliases[name]
    return name


def live_nodes(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """Return the nodes, in topological order, that the outputs depend on."""
    needed = set(outputs)
    live = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            live.append(node)
            needed.update(node.inputs)
            needed.discard("")
    live.reverse()
    return live


def remove_dead_nodes(graph: Graph) -> Graph:
    """Return the graph without unused operators, weights and constants; inputs stay."""
    live = live_nodes(graph.nodes, graph.outputs)
    return graph if len(live) == len(graph.nodes) else graph.with_nodes(live)
