"""The nodes of a graph that each operator of MNN computes.

MNN's converter names an operator after its output tensor, sometimes with a suffix (``matmul_0_out__matmul_converted`` is a linear
layer as a convolution, ``conv_1_out__group__3`` one group of a grouped one). Operators fused into a preceding convolution or
addition (batch normalisation, ReLU) leave no name; neither do the inner operators of a SiLU or GELU, which is named after the
last. In a session, all operators that move elements (concatenation, slices, transposition) become ``Raster`` operators that run
right before the operator that reads the result and are named after it: ``conv_5_out_raster_0``. Several of them for one reader
differ in the shapes of their outputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from latcast.graph.ir import Graph, Node, Shape
from latcast.graph.operators import Kind, names_of, operators
from latcast.runtimes.kernel_assignment import VIEWS, Assignment, dynamic_nodes

_MOVERS = VIEWS | {"Cast"} | names_of(operators(Kind.MOVEMENT))
"""Operators that only move elements."""

_FOLLOWERS = frozenset({"BatchNormalization", "Relu", "Clip"})
"""Operators that the converter fuses into the one before."""

_MOVING_KINDS = ("Raster", "FloatToInt8", "Int8ToFloat")


@dataclass(frozen=True)
class MnnCall:
    """One operator as MNN ran it: MNN's name and type, its number of input tensors, and the shapes of its outputs."""

    name: str
    kind: str
    inputs: int
    shapes: tuple[Shape, ...]


@dataclass
class MnnKernel:
    """Calls that together compute some nodes.

    Attributes:
        name: Name of its last call; the tensor's, where there is one call for each group of a convolution.
        kind: The types of operators in it, each once.
        calls: Positions of the calls, in execution order.
        nodes: Names of the graph's nodes, in its order.
    """

    name: str
    kind: str
    calls: list[int]
    nodes: tuple[str, ...] = ()


@dataclass
class _Step:
    """Consecutive calls for one tensor, which move its operands or compute it."""

    tensor: str | None
    moving: bool
    group: bool
    calls: list[int] = field(default_factory=list)


def _tensor_of(name: str, known: Collection[str]) -> str | None:
    """Return the tensor that an operator is named after, or None for a generated name."""
    while name not in known:
        shorter = name.rpartition("_")[0].rstrip("_")
        if not shorter:
            return None
        name = shorter
    return name


def assign_nodes(graph: Graph, calls: Sequence[MnnCall]) -> list[MnnKernel]:
    """Return the kernels in execution order, each node in one at most.

    A kernel without nodes changes a layout or repeats an operand for a broadcast. The groups of a grouped convolution are one
    kernel, with the slices they read and the concatenation of their results; so are several calls that compute one node.
    """
    return _Assigner(graph, calls).run()


class _Assigner:
    """One walk over the calls of one network."""

    def __init__(self, graph: Graph, calls: Sequence[MnnCall]) -> None:
        self._graph = graph
        self._calls = calls
        self._assignment = Assignment(graph)
        self._tensors = [_tensor_of(call.name, graph.producers) for call in calls]
        self._moving = frozenset(node.name for node in dynamic_nodes(graph) if node.op_type in _MOVERS)
        self._computed = {
            tensor for tensor, call in zip(self._tensors, calls, strict=True) if tensor is not None and not _moves(call)
        }
        self._kernels: list[MnnKernel] = []
        self._kernel_of: dict[str, MnnKernel] = {}

    def run(self) -> list[MnnKernel]:
        steps = self._steps()
        for number, step in enumerate(steps):
            if not step.moving:
                tensor = step.tensor
                nodes = list(self._assignment.claim([tensor])) if tensor is not None else []
                while tensor is not None:
                    tensor = self._taken_in(tensor)
                    if tensor is not None:
                        nodes += self._assignment.claim([tensor])
                self._add(step.calls, self._assignment.in_order(nodes), step.tensor if step.group else None)
            elif not self._ends_groups(steps[number - 1] if number else None, step):
                self._move(step)
        for kernel in self._kernels:
            kernel.nodes = self._assignment.without_eliminated(kernel.nodes)
        return self._kernels

    def _steps(self) -> list[_Step]:
        """Treat calls with generated names as part of the next computation of a known one, with what is moved in between."""
        steps: list[_Step] = []
        nameless: list[int] = []
        for number, (call, tensor) in enumerate(zip(self._calls, self._tensors, strict=True)):
            moving, group = _moves(call), "__group__" in call.name
            if tensor is None or (moving and any(not _moves(self._calls[other]) for other in nameless)):
                nameless.append(number)
                continue
            last = steps[-1] if steps and steps[-1].tensor == tensor and not nameless else None
            if last is not None and group and last.group:
                last.calls.append(number)
                last.moving = False
            elif last is not None and last.moving == moving and last.group == group:
                last.calls.append(number)
            else:
                steps.append(_Step(tensor, moving, group, [*nameless, number]))
                nameless = []
        if nameless:
            steps.append(_Step(None, False, False, nameless))
        return steps

    def _taken_in(self, tensor: str) -> str | None:
        """Return what the only reader of a tensor computes from it, where that reader has no call."""
        readers = self._graph.consumers.get(tensor, ())
        if len(readers) != 1 or tensor in self._graph.outputs:
            return None
        (reader,) = readers
        fused = reader.op_type in _FOLLOWERS or (reader.op_type == "Add" and self._graph.activation_inputs(reader) == [tensor])
        return reader.outputs[0] if fused and reader.outputs[0] not in self._computed else None

    def _ends_groups(self, before: _Step | None, step: _Step) -> bool:
        """Give the concatenation of the groups' results to the grouped convolution, where it moves nothing else."""
        if before is None or not before.group or self._moved_for(step.tensor):
            return False
        groups = sum("__group__" in self._calls[number].name and not _moves(self._calls[number]) for number in before.calls)
        if self._calls[step.calls[0]].inputs != groups:
            return False
        self._join(self._kernels[-1], step.calls[:1])
        if len(step.calls) > 1:
            self._add(step.calls[1:], ())
        return True

    def _move(self, step: _Step) -> None:
        """Divide the movers that lead to a tensor among the calls before it, by the shapes that those make."""
        moved = self._moved_for(step.tensor)
        if not moved:
            earlier = self._moved_before(step.tensor)
            if earlier is not None:
                self._join(earlier, step.calls)
            else:
                self._add(step.calls, ())
            return
        waiting: list[int] = []
        for number in step.calls:
            waiting.append(number)
            last = number == step.calls[-1]
            made = [
                name for node in moved for name in node.outputs if last or self._graph.shape(name) in self._calls[number].shapes
            ]
            nodes = self._assignment.claim(made if last else made[-1:])
            if nodes:
                moved = [node for node in moved if node.name not in nodes]
                self._add(waiting, nodes)
                waiting = []
        if waiting:
            self._add(waiting, ())

    def _moved_for(self, tensor: str | None) -> list[Node]:
        """Return the movers, not assigned yet, between what was computed and an operator, in the graph's order."""
        found: dict[str, Node] = {}
        waiting = [tensor]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            node = self._graph.producers.get(name) if name is not None else None
            if node is None or node.name in seen or node.name in self._kernel_of:
                continue
            seen.add(node.name)
            if node.name in self._moving:
                found[node.name] = node
            if name == tensor or name not in self._computed:
                waiting.extend(self._graph.activation_inputs(node))
        return [node for node in self._graph.nodes if node.name in found and node.op_type not in VIEWS]

    def _moved_before(self, tensor: str | None) -> MnnKernel | None:
        """Return the kernel of movers whose result is moved once more for this reader: another part of a split."""
        waiting = [tensor]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop(0)
            node = self._graph.producers.get(name) if name is not None else None
            if node is None or node.name in seen:
                continue
            seen.add(node.name)
            kernel = self._kernel_of.get(node.name)
            if kernel is not None and node.name in self._moving and kernel.kind.startswith("Raster"):
                return kernel
            if kernel is None or node.name in self._moving:
                waiting.extend(self._graph.activation_inputs(node))
        return None

    def _add(self, calls: Sequence[int], nodes: tuple[str, ...], name: str | None = None) -> None:
        kernel = MnnKernel(name or self._calls[calls[-1]].name, "", [], nodes)
        self._join(kernel, calls)
        self._kernels.append(kernel)
        self._kernel_of.update(dict.fromkeys(nodes, kernel))

    def _join(self, kernel: MnnKernel, calls: Sequence[int]) -> None:
        kernel.calls.extend(calls)
        kernel.kind = " + ".join(dict.fromkeys(self._calls[number].kind for number in kernel.calls))


def _moves(call: MnnCall) -> bool:
    """Return whether a call only moves operands; a pooling may be called ``..._raster_0`` too."""
    return call.kind.startswith(_MOVING_KINDS) and re.search(r"_raster_\d+$", call.name) is not None
