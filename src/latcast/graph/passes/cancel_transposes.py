"""Removes transposes that undo each other, also through the operators between them.

Converters from channels-last frameworks (tf2onnx) put transposes around every operator that ONNX defines channels-first. A
transpose commutes with element-wise operators and those that name the axes they work on: each is pushed down
through them until it meets its inverse. Runtimes do the same when they load a model.

A TFLite file has no such transposes, its importer writes them, as ONNX's operators are channels-first. Those
are *views*: nothing runs for them, so where they cannot be cancelled they become reshapes, and an input or output that is
only looked at through one takes the channels-first shape itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

import numpy as np

from latcast.graph.ir import Graph, Node, Shape, Tensor, resolved, rewire
from latcast.graph.operators import Kind, names_of, operators

Array = np.ndarray[Any, Any]
Permutation = tuple[int, ...]
"""``order[a]`` is the axis of the tensor before the transpose that is axis ``a`` after it."""

CHANNELS_LAST: Permutation = (0, 2, 3, 1)
"""The order of axes that makes a channels-last tensor of a channels-first one."""

_RESHAPING = names_of(operators(Kind.VIEW))


def cancel_transposes(graph: Graph, *, views: Collection[str] = ()) -> Graph:
    """Return the graph with fewer transposed bytes, or the same graph where there is nothing to gain.

    Args:
        graph: Any graph.
        views: Names of the transposes that only express a layout and that no runtime executes.
    """
    transposes = [node for node in graph.nodes if node.op_type == "Transpose"]
    if not transposes:
        return graph
    before = {node.name: graph.tensors[node.outputs[0]].size_bytes for node in transposes if node.name not in views}
    candidates = [_settled(graph, frozenset(views), before, absorb=absorb) for absorb in {False, bool(views)}]
    best = min(candidates, key=lambda candidate: candidate.cost)
    return best.graph if best.cost < sum(before.values()) or views else graph


def _settled(graph: Graph, views: frozenset[str], before: Mapping[str, float], *, absorb: bool) -> _Result:
    """Push transposes down, but leave those in their place that gain nothing from it."""
    result = _Pusher(graph, views, absorb=absorb).run()
    idle = frozenset(name for name, size in before.items() if result.blame.get(name, 0.0) >= size)
    if not idle:
        return result
    pinned = _Pusher(graph, views, absorb=absorb, pinned=idle).run()
    if pinned.cost <= result.cost:
        return pinned
    # Some stay only so that others can go: find out one by one which.
    kept: frozenset[str] = frozenset()
    for name in sorted(idle):
        attempt = _Pusher(graph, views, absorb=absorb, pinned=kept | {name}).run()
        if attempt.cost <= result.cost:
            kept, result = kept | {name}, attempt
    return result


@dataclass(frozen=True)
class _Result:
    graph: Graph
    cost: float
    """Bytes that the transposes left over write, views included."""
    blame: Mapping[str, float]
    """Transpose of the original graph to the bytes that are still written on its account."""


@dataclass(frozen=True)
class _Pending:
    """A tensor that is not there yet: the transpose of one that is."""

    source: str
    order: Permutation
    is_view: bool
    node_name: str
    origins: frozenset[str]
    """The transposes of the original graph that it is made of, views left out."""


def _identity(order: Permutation) -> bool:
    return order == tuple(range(len(order)))


def _inverse(order: Permutation) -> Permutation:
    return tuple(int(axis) for axis in np.argsort(order))


def _moves_only_ones(shape: Shape, order: Permutation) -> bool:
    """Return whether a transpose of this shape leaves all elements where they are in memory."""
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


class _Pusher:
    """A walk over the graph that holds transposes back for as long as operators allow it."""

    def __init__(self, graph: Graph, views: frozenset[str], *, absorb: bool, pinned: frozenset[str] = frozenset()) -> None:
        self.graph = graph
        self.views = views
        self.absorb = absorb
        self.pinned = pinned
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.constants = dict(graph.constants)
        self.weights = set(graph.weights)
        self.pending: dict[str, _Pending] = {}
        self.made: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.nodes: list[Node] = []
        self.node_names = {node.name for node in graph.nodes if node.op_type != "Transpose"}
        self.sources = set(graph.inputs)
        self.written: dict[str, frozenset[str]] = {}

    def run(self) -> _Result:
        inputs = {name: self._absorbed(name) for name in self.graph.inputs}
        for node in self.graph.nodes:
            self._visit(node)
        for name in self.graph.outputs:
            self._leave(name)
        graph = rewire(
            self.graph,
            self.nodes,
            self.aliases,
            inputs=tuple(inputs.values()),
            tensors=self.tensors,
            constants=self.constants,
            weights=frozenset(self.weights),
        )
        cost, blame = 0.0, dict.fromkeys(self.pinned, 0.0)
        for node in graph.nodes:
            if node.name in self.written:
                size = graph.tensors[node.outputs[0]].size_bytes
                cost += size
                for origin in self.written[node.name]:
                    blame[origin] = blame.get(origin, 0.0) + size
        return _Result(graph.renamed({new: old for old, new in inputs.items()}), cost, blame)

    def _absorbed(self, name: str) -> str:
        """Return the channels-first tensor that an input becomes; its old name becomes a view of that."""
        tensor = self.tensors[name]
        if not self.absorb or len(tensor.shape) != 4:
            return name
        source = _unused(f"{name}_channels_first", self.tensors)
        self.tensors[source] = replace(tensor, shape=self._source_shape(tensor.shape, CHANNELS_LAST))
        self.pending[name] = _Pending(source, CHANNELS_LAST, True, name, frozenset())
        self.sources.add(source)
        return source

    # Nodes

    def _visit(self, node: Node) -> None:
        if node.op_type == "Transpose":
            self._hold_back(node)
            return
        inputs = [resolved(self.aliases, name) for name in node.inputs]
        held = {name: self.pending[name] for name in inputs if name in self.pending}
        if not held:
            self.nodes.append(node)
            return
        first = held.get(inputs[0]) if node.op_type in _RESHAPING else None
        if first is not None and (first.is_view or _moves_only_ones(self.tensors[first.source].shape, first.order)):
            target = self._new_constant(self.graph.shape(node.outputs[0]))
            self.nodes.append(Node("Reshape", node.name, (first.source, target), node.outputs))
            return
        if not self._push(node, inputs, held):
            self.nodes.append(replace(node, inputs=tuple(self._now(name) for name in inputs)))

    def _hold_back(self, node: Node) -> None:
        name = resolved(self.aliases, node.inputs[0])
        order = node.attributes["perm"]
        assert isinstance(order, tuple)
        own = tuple(int(axis) for axis in order)
        nothing = _Pending(name, tuple(range(len(own))), True, node.name, frozenset())
        before = self.pending.get(name, nothing)
        composed = tuple(before.order[axis] for axis in own)
        if _identity(composed):
            self.aliases[node.outputs[0]] = before.source
            return
        is_view = before.is_view and node.name in self.views
        origins = before.origins if node.name in self.views else before.origins | {node.name}
        self.pending[node.outputs[0]] = _Pending(before.source, composed, is_view, node.name, origins)

    def _push(self, node: Node, inputs: list[str], held: dict[str, _Pending]) -> bool:
        """Run the operator on the tensors before the transposes, which are held back further."""
        orders = {entry.order for entry in held.values()}
        origins = frozenset[str]().union(*(entry.origins for entry in held.values()))
        if len(orders) != 1 or origins & self.pinned:
            return False
        order, is_view = orders.pop(), all(entry.is_view for entry in held.values())
        outputs = [self.graph.tensors[name] for name in node.outputs if name]
        reduced = permuted_reduction(node, order)
        if reduced is not None:
            moved, left = reduced
        else:
            if any(len(tensor.shape) != len(order) for tensor in outputs):
                return False
            changed = permuted_operator(node, order, self.constants)
            if changed is None:
                return False
            moved, left = changed.node, order
            for position, value in changed.constants.items():
                inputs = [*inputs[:position], self._new_constant(value), *inputs[position + 1 :]]
            along = {0, *changed.elementwise}
            others = [name for index, name in enumerate(inputs) if index in along and name and name not in held]
            if not all(self._can_turn(name, order, is_view=is_view) for name in others):
                return False
            inputs = [self._turn(name, order, broadcasts=changed.broadcasts) if name in others else name for name in inputs]
        sources = [held[name].source if name in held else name for name in inputs]
        names = []
        for name in node.outputs:
            if not name:
                names.append("")
                continue
            tensor = self.graph.tensors[name]
            if _identity(left):
                names.append(name)
                continue
            source = _unused(f"{name}_before_transpose", self.tensors)
            self.tensors[source] = replace(tensor, shape=self._source_shape(tensor.shape, left))
            self.pending[name] = _Pending(source, left, is_view, f"{node.name}_transpose", origins)
            names.append(source)
        self.nodes.append(replace(moved, inputs=tuple(sources), outputs=tuple(names)))
        return True

    # Operands that are not held back

    def _can_turn(self, name: str, order: Permutation, *, is_view: bool) -> bool:
        """Return whether an operand can be had in the order of the tensors before the transposes at no cost."""
        if name in self.pending or name in self.weights or name in self.constants or is_view:
            return True
        shape = self._expanded(self.tensors[name].shape, len(order))
        return _moves_only_ones(shape, _inverse(order))

    def _turn(self, name: str, order: Permutation, *, broadcasts: bool) -> str:
        """Return the operand in that order; one that broadcasts keeps no leading axes of size one."""
        tensor = self.tensors[name]
        if tensor.elements == 1:
            return name
        shape = self._expanded(tensor.shape, len(order))
        turned = self._source_shape(shape, order)
        if broadcasts and not self.graph.is_activation(name):
            turned = turned[next(index for index, size in enumerate(turned) if size != 1) :]
        if name in self.constants:
            return self._new_constant(self.constants[name].reshape(shape).transpose(_inverse(order)).reshape(turned))
        if turned == tensor.shape:
            return name
        new = _unused(f"{name}_permuted", self.tensors)
        self.tensors[new] = replace(tensor, shape=turned)
        if name in self.weights:
            self.weights.add(new)
        else:
            node_name = _unused(new, self.node_names)
            self.node_names.add(node_name)
            self.nodes.append(Node("Reshape", node_name, (name, self._new_constant(turned)), (new,)))
        return new

    @staticmethod
    def _expanded(shape: Shape, rank: int) -> Shape:
        return (*((1,) * (rank - len(shape))), *shape)

    @staticmethod
    def _source_shape(shape: Shape, order: Permutation) -> Shape:
        return tuple(shape[axis] for axis in _inverse(order))

    # Transposes that have to happen

    def _now(self, name: str) -> str:
        """Return the tensor itself, transposed here if it was not before."""
        if name not in self.pending:
            return name
        if name in self.made:
            return self.made[name]
        held = self.pending[name]
        output = _unused(f"{name}_channels_last", self.tensors) if name in self.graph.inputs else name
        self.made[name] = output
        source = self.tensors[held.source]
        self.tensors[output] = replace(source, shape=tuple(source.shape[axis] for axis in held.order))
        node_name = _unused(held.node_name, self.node_names)
        self.node_names.add(node_name)
        self.written[node_name] = held.origins
        if held.is_view:
            target = self._new_constant(self.tensors[output].shape)
            self.nodes.append(Node("Reshape", node_name, (held.source, target), (output,)))
        else:
            self.nodes.append(Node("Transpose", node_name, (held.source,), (output,), {"perm": held.order}))
        return output

    def _leave(self, name: str) -> None:
        """Make an output of the graph; one that is a view leaves in the layout it has."""
        target = resolved(self.aliases, name)
        held = self.pending.get(target)
        if held is None:
            return
        free = held.source not in self.sources and held.source not in self.graph.outputs and target not in self.made
        if self.absorb and held.is_view and held.order == CHANNELS_LAST and free:
            self.aliases[target] = held.source
            return
        made = self._now(target)
        if made != target:
            self.aliases[target] = made

    def _new_constant(self, value: object) -> str:
        array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=np.int64)
        name = _unused("constant_permuted", self.tensors)
        self.tensors[name] = Tensor(tuple(array.shape), str(array.dtype))
        self.constants[name] = array
        return name


def _unused(stem: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: the stem, or that with a number."""
    return next(name for name in chain([stem], (f"{stem}_{number}" for number in count(1))) if name not in taken)


# Operators moved before a transpose of their input: the same work with permuted axes

_UNARY = names_of(operators(Kind.UNARY)) - {"CastLike"}
_BINARY = names_of(operators(Kind.BINARY))
_REDUCTIONS = names_of(operators(Kind.REDUCTION))
_ALONG_AXIS = names_of(row for row in operators() if row.along_axis)
_QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear"})


@dataclass(frozen=True)
class PermutedOperator:
    """An operator that works before the transpose, and what it needs for that.

    Attributes:
        node: With the attributes it has there.
        constants: Constant inputs by position that change their values.
        elementwise: Positions of inputs that go along with the first.
        broadcasts: Whether those inputs may be of lower rank.
    """

    node: Node
    constants: Mapping[int, Array] = field(default_factory=dict)
    elementwise: frozenset[int] = frozenset()
    broadcasts: bool = False


def permuted_operator(node: Node, order: Permutation, constants: Mapping[str, Array]) -> PermutedOperator | None:
    """Return the operator before a transpose of its input, such that the same transpose of its result gives the same.

    Args:
        node: Reads a tensor whose axes were permuted by ``order``.
        order: Of the transpose.
        constants: Values of constant inputs.

    Returns:
        None where the operator does not commute with a transpose.
    """
    op_type = node.op_type
    if op_type in _UNARY:
        return PermutedOperator(node)
    if op_type in _BINARY:
        return PermutedOperator(node, elementwise=frozenset(range(len(node.inputs))), broadcasts=True)
    if op_type == "Concat":
        moved = _with_axis(node, order, default=0)
        return PermutedOperator(moved, elementwise=frozenset(range(len(node.inputs))))
    if op_type == "Split":
        return PermutedOperator(_with_axis(node, order, default=0))
    if op_type in _ALONG_AXIS:
        return PermutedOperator(_with_axis(node, order, default=-1, from_end=True))
    if op_type in _QUANTIZERS:
        scale = constants.get(node.inputs[1])
        return PermutedOperator(node) if scale is not None and scale.size == 1 else None
    if op_type == "Slice":
        return _permuted_slice(node, order, constants)
    if op_type == "Pad":
        return _permuted_pad(node, order, constants)
    if op_type == "Resize":
        return _permuted_resize(node, order, constants)
    return None


def permuted_reduction(node: Node, order: Permutation) -> tuple[Node, Permutation] | None:
    """Return a reduction moved before a transpose of its input, and the transpose left for its result.

    Returns:
        None where the operator is not a reduction over given axes.
    """
    rank = len(order)
    if node.op_type in _REDUCTIONS and len(node.inputs) == 1 and "axes" in node.attributes:
        axes = {order[axis % rank] for axis in node.integers("axes")}
        moved = replace(node, attributes={**node.attributes, "axes": tuple(sorted(axes))})
    elif node.op_type in ("ArgMax", "ArgMin"):
        moved = _with_axis(node, order, default=0)
        axes = {moved.integer("axis")}
    else:
        return None
    if node.attributes.get("keepdims", 1):
        return moved, order
    kept = [axis for axis in order if axis not in axes]
    places = {axis: place for place, axis in enumerate(sorted(kept))}
    return moved, tuple(places[axis] for axis in kept)


def _with_axis(node: Node, order: Permutation, *, default: int, from_end: bool = False) -> Node:
    axis = order[node.integer("axis", default) % len(order)]
    if from_end and axis == len(order) - 1:
        axis = -1
    return replace(node, attributes={**node.attributes, "axis": axis})


def _permuted_slice(node: Node, order: Permutation, constants: Mapping[str, Array]) -> PermutedOperator | None:
    starts = constants.get(node.inputs[1])
    if starts is None:
        return None
    axes = np.arange(starts.size)
    if len(node.inputs) > 3 and node.inputs[3]:
        given = constants.get(node.inputs[3])
        if given is None:
            return None
        axes = given.reshape(-1)
    moved = np.asarray([order[int(axis) % len(order)] for axis in axes], dtype=np.int64)
    return PermutedOperator(node, {3: moved})


def _permuted_pad(node: Node, order: Permutation, constants: Mapping[str, Array]) -> PermutedOperator | None:
    pads = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if pads is None or pads.size != 2 * len(order) or any(node.inputs[3:]):
        return None
    moved = np.empty_like(pads).reshape(2, -1)
    moved[:, list(order)] = pads.reshape(2, -1)
    return PermutedOperator(node, {1: moved.reshape(-1)})


def _permuted_resize(node: Node, order: Permutation, constants: Mapping[str, Array]) -> PermutedOperator | None:
    sizes = constants.get(node.inputs[3]) if len(node.inputs) > 3 else None
    if sizes is None or sizes.size != len(order) or "axes" in node.attributes or any(node.inputs[1:3]):
        return None
    moved = np.empty_like(sizes)
    moved[list(order)] = sizes
    return PermutedOperator(node, {3: moved})
