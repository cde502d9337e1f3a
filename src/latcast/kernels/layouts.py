"""Which tensors a runtime lays out anew between two kernels, and the reorders that do it.

A CPU library computes convolutions on images whose channels come last, and matrix products on rows as they are written. Between
the two a runtime inserts copies that no operator of the network asks for. OpenVINO spends up to a third of a network's latency
in them: of images whose second axis is short it uses a loop that writes with a stride, several times slower than its other.
ONNX Runtime writes them as transposes and moves these along the network, to where they cancel; a mean over the pixels of an image
whose channels come last then strides through memory and takes eight to twenty times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from latcast.errors import BundleError
from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph, Node
from latcast.kernels.kernel import FROM_IMAGE, VIEWS, Kernel, layout_class, operator_class

TO_LAST, TO_FIRST, TO_FIRST_STRIDED = (
    "transpose.to_channels_last", "transpose.to_channels_first", "transpose.to_channels_first_strided",
)  # fmt: skip
"""Kernel types of reorders: each moves an image as a matrix of pixels and channels."""

CHANNELS_LAST = "channels_last"
"""Variant of a kernel type: as it runs on images with their channels last."""

FLOATING = "floating"
"""Variant of a kernel type: between a conversion from integers and one back."""

TO_CHANNELS_SECOND, FROM_CHANNELS_SECOND = (0, 3, 1, 2), (0, 2, 3, 1)
"""Transposes of an image's channels from the last axis to the second, and back."""

FUSED = "fused"
"""In place of the class of an operator that runs in the kernel of one before it, and on images as that has them."""

ROWS = (0, 2, 1)
"""The transpose of rows of channels behind which an image has its channels last."""


@dataclass(frozen=True)
class LayoutRules:
    """How a runtime lays images out.

    Attributes:
        channels_last: Classes of operators that read and write images with their channels last.
        either: Classes that take the layout of what they read; all others read and write tensors as their shapes say.
        strided: Least and most size of the second axis, and least number of elements for each, of images that come back by
            the loop that writes with a stride.
        on_integers: Classes computed on integers, of a runtime that moves transposes past operators to save some of them. An
            operator of ``either`` then takes an image with its channels last only where more axes are turned before it than
            behind it, and one between conversions from and to integers only on the way to an operator of ``channels_last``. None
            of a runtime whose operators of ``either`` take every image as it comes.
        apart: Kernel types that take another time on images with their channels last.
        converted: Kernel types of which some run on integers and others, which take longer, between conversions.
    """

    channels_last: frozenset[str]
    either: frozenset[str]
    strided: tuple[int, int, int]
    on_integers: frozenset[str] | None = None
    apart: frozenset[str] = frozenset()
    converted: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        found = {"channels_last": sorted(self.channels_last), "either": sorted(self.either), "strided": list(self.strided)}
        if self.on_integers is not None:
            found["on_integers"] = sorted(self.on_integers)
        found |= {name: sorted(getattr(self, name)) for name in ("apart", "converted") if getattr(self, name)}
        return found

    @classmethod
    def from_json(cls, data: Any, source: str) -> LayoutRules:
        """Reads what :meth:`to_json` wrote.

        Raises:
            BundleError: Something else was found.
        """
        try:
            least, most, elements = map(int, data["strided"])
            on_integers = data.get("on_integers")
            return cls(
                frozenset(map(str, data["channels_last"])), frozenset(map(str, data["either"])), (least, most, elements),
                None if on_integers is None else frozenset(map(str, on_integers)),
                *(frozenset(map(str, data.get(name, ()))) for name in ("apart", "converted")),
            )  # fmt: skip
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise BundleError(
                f"{source}: 'layouts' holds no lists 'channels_last' and 'either' of operator classes "
                f"and three numbers 'strided': {problem!r}"
            ) from problem


class Reorder(NamedTuple):
    """A tensor laid out anew.

    Attributes:
        tensor: Its name.
        channels_last: How it lies afterwards.
        reader: Name of the operator that wants it so; None at the network's end.
    """

    tensor: str
    channels_last: bool
    reader: str | None


@dataclass(frozen=True)
class Layouts:
    """How a network's images lie.

    Attributes:
        reorders: In execution order; a tensor that several operators read is laid out anew once.
        channels_last: Names of the operators that read an image with its channels last.
        cancelled: Names of the transposes that a runtime which moves transposes has nothing to do for.
    """

    reorders: tuple[Reorder, ...]
    channels_last: frozenset[str]
    cancelled: frozenset[str]


def layouts(graph: Graph, kernels: Sequence[Kernel], rules: LayoutRules) -> Layouts:
    """How the images of a network lie under the rules.

    A tensor without pixels, or of one channel, lies alike either way. So does one that is made of such tensors alone.
    """
    shuffled = {kernel.nodes[0]: kernel.nodes for kernel in kernels if kernel.kernel_type == "channel_shuffle"}
    inside = {name for nodes in shuffled.values() for name in nodes}
    nodes_of = {node.name: node for node in graph.nodes}
    classes = {node.name: operator_class(graph, node) for node in graph.nodes}
    followers = {name for kernel in kernels for name in kernel.nodes[1:]} - inside if rules.on_integers is not None else set()
    state = _State(graph, rules, {name: FUSED if name in followers else found for name, found in classes.items()})
    state.last.update((name, False) for name in graph.inputs if state.followed(name))
    for node in graph.nodes:
        if node.name in inside:
            # Its own operators turn five axes; together they hand on what they read.
            if node.name in shuffled and node.inputs[0] in state.last:
                end = nodes_of[shuffled[node.name][-1]]
                state.last.update(dict.fromkeys(end.outputs, state.last[node.inputs[0]]))
            continue
        images = [name for name in dict.fromkeys(node.inputs) if name and state.followed(name)]
        if node.op_type == "Transpose" and rules.on_integers is not None:
            made = state.merged(node)
        else:
            layout = made = state.wanted(node, images)
            if layout is not None and (rules.on_integers is not None or not _beside_rows(graph, node)):
                state.lay_out(images, layout, node.name)
            if node.op_type == "Transpose":
                # Rows of channels become an image for nothing; any other transpose hands its layout on.
                made = layout or node.attributes.get("perm") == TO_CHANNELS_SECOND
            elif rules.on_integers is None and _behind_rows(graph, node):
                made = True
        if made is not None:
            state.last.update((name, made) for name in node.outputs if name and state.followed(name))
    state.lay_out(graph.outputs, False, None)
    return Layouts(tuple(state.reorders), frozenset(state.read_last), frozenset(state.cancelled))


class _State:
    """What is known of a network's images while its operators are visited in order.

    Attributes:
        last: Whether an image's channels come last; images that lie as their readers want them are not in it.
        reorders, read_last, cancelled: As of :class:`Layouts`, so far.
    """

    def __init__(self, graph: Graph, rules: LayoutRules, classes: Mapping[str, str]) -> None:
        self.graph = graph
        self.rules = rules
        self.classes = classes
        self.static = graph.static_names
        self.last: dict[str, bool] = {}
        self.reorders: list[Reorder] = []
        self.read_last: set[str] = set()
        self.cancelled: set[str] = set()
        self._done: set[tuple[str, bool]] = set()
        self._leading = self._leading_to_channels_last() if rules.on_integers is not None else frozenset()

    def image(self, tensor: str) -> bool:
        """Whether it lies differently with its channels last."""
        shape = self.graph.shape(tensor)
        return self.followed(tensor) and prod(shape[2:]) > 1

    def followed(self, tensor: str) -> bool:
        """Whether its layout is kept track of: where transposes are counted, those of one pixel count too."""
        shape = self.graph.shape(tensor)
        if tensor in self.static or len(shape) != 4 or shape[1] <= 1:
            return False
        return self.rules.on_integers is not None or prod(shape[2:]) > 1

    def wanted(self, node: Node, images: Sequence[str]) -> bool | None:
        """How an operator wants the images that it reads; None where it takes them as they are."""
        name = self.classes[node.name]
        if name in self.rules.channels_last:
            return True
        if name == FUSED:
            return any(self.last.get(tensor, False) for tensor in images)
        if name not in self.rules.either:
            return False
        known = [self.last[tensor] for tensor in images if tensor in self.last]
        if not known:
            return None
        return any(known) if self.rules.on_integers is None else any(known) and self._pays(node, name)

    def merged(self, node: Node) -> bool | None:
        """How the result of a transpose lies that becomes one with the transpose before or behind it."""
        order = node.attributes.get("perm")
        if order == TO_CHANNELS_SECOND:
            self.cancelled.add(node.name)
            return True
        if order == FROM_CHANNELS_SECOND and self.last.get(node.inputs[0]):
            self.cancelled.add(node.name)
        return None

    def lay_out(self, tensors: Iterable[str], channels_last: bool, reader: str | None) -> None:
        """Lays tensors out as a reader wants them."""
        for tensor in tensors:
            known = self.last.get(tensor)
            if channels_last and reader is not None and self.image(tensor):
                self.read_last.add(reader)
            if known in (None, channels_last) or (tensor, channels_last) in self._done or not self.image(tensor):
                continue
            self._done.add((tensor, channels_last))
            self.reorders.append(Reorder(tensor, channels_last, reader))

    def _pays(self, node: Node, name: str) -> bool:
        """Whether moving the transposes before an operator behind it turns fewer axes, those of size 1 not counted.

        As ONNX Runtime's transpose optimiser decides: what it need not turn any more counts for it; what must be turned now,
        and the result where nothing behind it wants its channels last, against it. An operator between conversions is reached by
        a transpose only where something behind it does.
        """
        leads = any(output in self._leading for output in node.outputs)
        if not leads and name not in (self.rules.on_integers or ()):
            return False
        read = [tensor for tensor in node.inputs if tensor and tensor not in self.static]
        saved = sum(self._axes(tensor) * (-1 if self.last.get(tensor) else 1) for tensor in read)
        return saved + (0 if leads else max(map(self._axes, node.outputs))) < 0

    def _axes(self, tensor: str) -> int:
        return sum(size > 1 for size in self.graph.shape(tensor))

    def _leading_to_channels_last(self) -> frozenset[str]:
        """Tensors from which operators that take either layout lead to one that wants its channels last, or to a transpose."""
        found: set[str] = set()
        for node in reversed(self.graph.nodes):
            name = self.classes[node.name]
            here = name in self.rules.channels_last or node.op_type == "Transpose"
            if here or ((name == FUSED or name in self.rules.either) and not found.isdisjoint(node.outputs)):
                found.update(tensor for tensor in node.inputs if tensor and tensor not in self.static)
        return frozenset(found)


def _beside_rows(graph: Graph, node: Node) -> bool:
    """Whether an operator makes an image rows that are transposed at once: the copy and the transpose cancel."""
    readers = [reader for output in node.outputs for reader in graph.consumers.get(output, ())]
    return node.op_type in VIEWS and bool(readers) and all(layout_class(graph, reader) == FROM_IMAGE for reader in readers)


def _behind_rows(graph: Graph, node: Node) -> bool:
    """Whether an operator makes an image of rows of channels that were transposed."""
    maker = graph.producers.get(node.inputs[0]) if node.op_type in VIEWS else None
    return maker is not None and maker.op_type == "Transpose" and maker.attributes.get("perm") == ROWS


def with_reorders(graph: Graph, kernels: Sequence[Kernel], rules: LayoutRules) -> tuple[Kernel, ...]:
    """Kernels with the reorders as kernels of their own, each before the one for whose sake it runs, those of outputs last.

    Those of types that the rules tell apart are described as they run on images with their channels last.
    """
    found = layouts(graph, kernels, rules)
    nodes = {node.name: node for node in graph.nodes} if rules.apart or rules.converted else {}
    floating = {node.name for idiom in choose_idioms(graph, ("gelu",)) for node in idiom.nodes} if rules.converted else set()

    def as_run(kernel: Kernel) -> Kernel:
        first = nodes.get(kernel.nodes[0])
        if first is None:
            return kernel
        described = kernel
        if kernel.kernel_type in rules.apart and not found.channels_last.isdisjoint(kernel.nodes):
            described = _on_channels_last(graph, kernel, first)
        if kernel.kernel_type in rules.converted and (first.name in floating or not on_integers(first)):
            described = replace(described, kernel_type=f"{kernel.kernel_type}.{FLOATING}")
        return described

    def on_integers(node: Node) -> bool:
        return operator_class(graph, node) in (rules.on_integers or ())

    kernels = [as_run(kernel) for kernel in kernels]
    kernels = [kernel if found.cancelled.isdisjoint(kernel.nodes) else replace(kernel, free=True) for kernel in kernels]
    place = {node: index for index, kernel in enumerate(kernels) for node in kernel.nodes}
    before: dict[int, list[Kernel]] = {}
    for each in found.reorders:
        index = len(kernels) if each.reader is None else place[each.reader]
        before.setdefault(index, []).append(_kernel(graph, each, rules))
    if not before:
        return tuple(kernels)
    return tuple(kernel for index in range(len(kernels) + 1) for kernel in (*before.get(index, ()), *kernels[index : index + 1]))


def _on_channels_last(graph: Graph, kernel: Kernel, node: Node) -> Kernel:
    """A kernel as it runs on an image with its channels last: a reduction over other axes, or a variant of its type."""
    if kernel.kernel_type != "reduce":
        return replace(kernel, kernel_type=f"{kernel.kernel_type}.{CHANNELS_LAST}")
    batch, channels, *pixels = graph.shape(node.inputs[0])
    outer, reduced, inner = kernel.configuration[:3]
    if (outer, reduced, inner) == (batch * channels, prod(pixels), 1):
        outer, reduced, inner = batch, prod(pixels), channels
    elif (outer, reduced, inner) == (batch, channels, prod(pixels)):
        outer, reduced, inner = batch * prod(pixels), channels, 1
    return replace(kernel, configuration=(outer, reduced, inner, *kernel.configuration[3:]))


def _kernel(graph: Graph, found: Reorder, rules: LayoutRules) -> Kernel:
    shape = graph.shape(found.tensor)
    channels, pixels = shape[1], prod(shape[2:])
    least, most, elements = rules.strided
    name = TO_LAST
    if not found.channels_last:
        strided = least <= channels <= most and prod(shape) >= elements * channels
        name = TO_FIRST_STRIDED if strided else TO_FIRST
    sides = (pixels, channels) if found.channels_last else (channels, pixels)
    reader = found.reader or graph.producers[found.tensor].name
    return Kernel(name, (prod(shape), *sides, 1, 0, 0, 0), reader, (), ("Reorder",))
