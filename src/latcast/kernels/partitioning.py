"""The partition of a network into what runs on a GPU or NPU and what falls back to the CPU, and the crossings between them.

Partitions are found as TensorFlow Lite finds them (``PartitionGraphIntoIndependentNodeSubsets``) and, in effect, ONNX Runtime:
from the network's inputs on, everything that can run on one unit is gathered, then everything that can run on the other, and so
on, so that no partition waits for itself. Small partitions and those beyond the most that a delegate runs are left to the CPU,
and the rest is gathered again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from latcast.errors import abridged, counted
from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import DTYPE_BYTES, Graph, Node
from latcast.graph.operators.table import sized_by_values
from latcast.kernels.delegates import Delegate
from latcast.records import ACTIVATION_BYTES
from latcast.tables import milliseconds

CPU = "CPU"

NO_WORK = frozenset({"Identity", "Dropout"})
"""Operators that no runtime runs; they go with their first reader, as what is worked out from constants alone does."""

QUANTISED = ("int8", "w8a16", "w16a16")
"""Precisions whose activations are narrower than the graph says."""

MOST_NAMES = 5
"""Operator types that a sentence lists."""


@dataclass(frozen=True)
class Segment:
    """Operators that run one after another on one unit: a partition where that is not the CPU.

    Attributes:
        unit: "CPU", or the delegate's.
        nodes: Their names, in execution order.
    """

    unit: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Crossing:
    """The tensors that a segment needs from the other unit before it begins.

    Attributes:
        segment: Index of the segment that needs it.
        tensors: Results of earlier segments that are not yet on its unit.
        size_bytes: Of these.
    """

    segment: int
    tensors: tuple[str, ...]
    size_bytes: float


@dataclass(frozen=True)
class Fallback:
    """The counts of what a delegate leaves to the CPU.

    Attributes:
        name: The delegate.
        unit: What it runs operators on ("gpu").
        partitions: Parts of the network that run there.
        operators, operators_on_cpu: Nodes of the network, and those of them that fall back.
        on_cpu: ONNX types that the delegate does not take, the most frequent first. Other operators fall back only because of
            them.
        crossings, crossing_bytes: Between the unit and the CPU inside the network.
        crossing_ms: An estimate of what they take, which the latency holds; 0 where it was measured, or learned, with them.
        confidence: Of the rules: "high", "medium" or "low".
    """

    name: str
    unit: str
    partitions: int
    operators: int
    operators_on_cpu: int
    on_cpu: tuple[str, ...]
    crossings: int
    crossing_bytes: float
    crossing_ms: float
    confidence: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on."""
        return {**vars(self), "on_cpu": list(self.on_cpu)}


@dataclass(frozen=True)
class Partitioning:
    """The units that the operators of one network run on.

    Attributes:
        delegate: The rules.
        segments: In execution order; every node is in exactly one.
        refused: ONNX type to the number of operators that the delegate does not take, the most frequent first.
        left: Number of operators that it takes and yet runs on the CPU: in partitions too small or too many.
        crossings: Between the unit and the CPU inside the network; its own inputs and outputs are none.
        unsized: ONNX types whose results have sizes that only values decide, where the delegate takes no network with such.
    """

    delegate: Delegate
    segments: tuple[Segment, ...]
    refused: tuple[tuple[str, int], ...]
    left: int
    crossings: tuple[Crossing, ...]
    unsized: tuple[str, ...] = ()

    @property
    def partitions(self) -> tuple[Segment, ...]:
        """Return the segments that the delegate runs."""
        return tuple(segment for segment in self.segments if segment.unit != CPU)

    @cached_property
    def on_cpu(self) -> frozenset[str]:
        """Return the names of the nodes that fall back."""
        return frozenset(name for segment in self.segments if segment.unit == CPU for name in segment.nodes)

    @property
    def operators(self) -> int:
        return sum(len(segment.nodes) for segment in self.segments)

    @property
    def crossing_bytes(self) -> float:
        return sum(crossing.size_bytes for crossing in self.crossings)

    @property
    def crossing_ms(self) -> float:
        """Return what the delegate says that the crossings take."""
        return self.delegate.crossing_ms(len(self.crossings), self.crossing_bytes)

    def sentence(self, crossing_ms: float = 0.0) -> str:
        """Return a sentence on what falls back; empty where nothing does.

        Args:
            crossing_ms: Estimated part of the latency; 0 where that was measured, or learned, with the crossings.
        """
        if not self.on_cpu:
            return ""
        unit, title = self.delegate.unit, self.delegate.title
        names = [name for name, _ in self.refused]
        share = f"{len(self.on_cpu)} of {self.operators} operators"
        if self.unsized:
            text = (
                f"nothing runs on the {unit} ({share} on the CPU): {title} takes no network with tensors whose size is "
                f"only known at run time, as {abridged(self.unsized, MOST_NAMES)} gives"
            )
        elif self.delegate.whole:
            text = f"the network does not run on the {unit}: {title} does not take {abridged(names, MOST_NAMES)}"
        elif not self.partitions:
            text = f"nothing runs on the {unit} ({share} on the CPU): {title} does not take {abridged(names, MOST_NAMES)}"
        else:
            partitions, crossings = counted(len(self.partitions), "partition"), counted(len(self.crossings), "crossing")
            outside = f", {self.left} of them only because they lie outside the {unit}'s partitions" if self.left else ""
            text = (
                f"{abridged(names, MOST_NAMES)} {'run' if len(names) > 1 else 'runs'} on the CPU ({share}{outside}): "
                f"{partitions} on the {unit}, {crossings} of {self.crossing_bytes / 1e6:.3g} MB together, "
                + (
                    f"about {milliseconds(crossing_ms)} ms of the latency (an estimate)"
                    if crossing_ms
                    else "which the latency holds"
                )
            )
        return text + ("; these rules are uncertain" if self.delegate.confidence == "low" else "")

    def summary(self, crossing_ms: float) -> Fallback:
        """Return the counts without the names of nodes, small enough to keep for a million networks.

        Args:
            crossing_ms: Part of the latency.
        """
        return Fallback(
            name=self.delegate.name,
            unit=self.delegate.unit.lower(),
            partitions=len(self.partitions),
            operators=self.operators,
            operators_on_cpu=len(self.on_cpu),
            on_cpu=self.unsized or tuple(name for name, _ in self.refused),
            crossings=len(self.crossings),
            crossing_bytes=self.crossing_bytes,
            crossing_ms=crossing_ms,
            confidence=self.delegate.confidence,
        )


def partition(graph: Graph, delegate: Delegate) -> Partitioning:
    """Return where each operator of a network runs, in time linear in its size.

    Args:
        graph: The network.
        delegate: Of the platform's version, precision and device (:meth:`Delegate.at`).
    """
    unsized = (*graph.run_time_sizes, *sized_by_values(graph)) if delegate.static_sizes else ()
    taken = set() if unsized else _taken(graph, delegate)
    refused = Counter(node.op_type for node in graph.nodes if node.name not in taken and not _is_no_work(graph, node))
    segments = _segments(graph, taken, delegate.unit)
    chosen = frozenset() if delegate.whole and refused else _chosen(segments, delegate)
    if len(chosen) < len(taken):
        segments = _segments(graph, chosen, delegate.unit)
    return Partitioning(
        delegate,
        segments,
        tuple(refused.most_common()),
        sum(node.name in taken and node.name not in chosen and not _is_no_work(graph, node) for node in graph.nodes),
        _crossings(graph, segments, delegate.precision),
        unsized,
    )


def _taken(graph: Graph, delegate: Delegate) -> set[str]:
    """Return the names of the nodes that a delegate takes."""
    verdicts: dict[str, bool] = {}
    for idiom in choose_idioms(graph, delegate.idioms):
        verdict = delegate.takes_operator(graph, idiom.nodes[-1], idiom.name)
        if verdict is not None:
            verdicts.update((node.name, verdict) for node in idiom.nodes)
    taken: set[str] = set()
    for node in reversed(graph.nodes):
        verdict = verdicts.get(node.name)
        if verdict is None and _is_no_work(graph, node):
            readers = [reader for name in node.outputs for reader in graph.consumers.get(name, ())]
            verdict = not readers or readers[0].name in taken
        elif verdict is None:
            verdict = delegate.takes_operator(graph, node)
        if verdict:
            taken.add(node.name)
    return taken


def _is_no_work(graph: Graph, node: Node) -> bool:
    return node.op_type in NO_WORK or graph.static_names.issuperset(node.inputs)


def _chosen(segments: Sequence[Segment], delegate: Delegate) -> frozenset[str]:
    """Return the nodes of the partitions that a delegate keeps: the largest, or the first, of those with enough operators."""
    kept = [segment for segment in segments if segment.unit != CPU and len(segment.nodes) >= delegate.least_operators]
    if not delegate.in_order:
        kept = sorted(kept, key=lambda segment: -len(segment.nodes))
    return frozenset(name for segment in kept[: delegate.most_partitions] for name in segment.nodes)


def _segments(graph: Graph, on_unit: Collection[str], unit: str) -> tuple[Segment, ...]:
    """Gather all that is ready for one unit, then for the other, in turn."""
    if len(on_unit) == len(graph.nodes):
        return (Segment(unit, tuple(node.name for node in graph.nodes)),) if graph.nodes else ()
    producers, positions = graph.producers, graph.positions
    missing = []
    readers: list[list[int]] = [[] for _ in graph.nodes]
    for index, node in enumerate(graph.nodes):
        makers = {positions[producers[name].name] for name in node.inputs if name in producers}
        missing.append(len(makers))
        for place in makers:
            readers[place].append(index)
    is_on_unit = [node.name in on_unit for node in graph.nodes]
    ready: dict[bool, list[int]] = {True: [], False: []}
    for index, count in enumerate(missing):
        if count == 0:
            ready[is_on_unit[index]].append(index)
    now = bool(graph.nodes) and is_on_unit[0]
    found = []
    while ready[now]:
        waiting = ready[now]
        gathered = []
        while waiting:
            index = waiting.pop()
            gathered.append(index)
            for reader in readers[index]:
                missing[reader] -= 1
                if missing[reader] == 0:
                    ready[is_on_unit[reader]].append(reader)
        found.append(Segment(unit if now else CPU, tuple(graph.nodes[index].name for index in sorted(gathered))))
        now = not now
    return tuple(found)


def _crossings(graph: Graph, segments: Sequence[Segment], precision: str) -> tuple[Crossing, ...]:
    if len(segments) < 2:
        return ()
    unit_of = {name: segment.unit for segment in segments for name in segment.nodes}
    there: set[tuple[str, str]] = set()
    found = []
    for place, segment in enumerate(segments):
        needed: dict[str, None] = {}
        for name in segment.nodes:
            for tensor in graph.nodes[graph.positions[name]].inputs:
                maker = graph.producers.get(tensor)
                if maker is not None and unit_of[maker.name] != segment.unit and (tensor, segment.unit) not in there:
                    needed[tensor] = None
        there.update((tensor, segment.unit) for tensor in needed)
        if needed:
            found.append(Crossing(place, tuple(needed), sum(_size_bytes(graph, name, precision) for name in needed)))
    return tuple(found)


def _size_bytes(graph: Graph, name: str, precision: str) -> float:
    tensor = graph.tensors[name]
    narrower = tensor.dtype.startswith("float") and precision in QUANTISED
    return tensor.elements * (ACTIVATION_BYTES[precision] if narrower else DTYPE_BYTES[tensor.dtype])
