"""Layouts of tensors between kernels, and the reorders that a runtime inserts to change them.

A CPU library computes convolutions on images whose channels come last, and matrix products on rows as they are written; between
the two it copies. OpenVINO writes images whose second axis is short by a slower loop with a stride. ONNX Runtime writes
transposes and moves them along the network to where they cancel; a mean over the pixels of channels-last images then strides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from latcast.errors import BundleError
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import Kind, names_of, operators
from latcast.kernels.blocks import reads_plain
from latcast.kernels.kernel import Kernel

TO_LAST, TO_FIRST, TO_FIRST_STRIDED = (
    "transpose.to_channels_last", "transpose.to_channels_first", "transpose.to_channels_first_strided",
)  # fmt: skip
"""Kernel types of reorders: each moves an image as a matrix of pixels and channels."""

TO_BLOCKS, FROM_BLOCKS = "transpose.to_blocks", "transpose.from_blocks"
"""Kernel types of reorders into blocks of channels and back."""

CHANNELS_LAST = "channels_last"
"""Variant of a kernel type: as it runs on images with their channels last."""

TO_CHANNELS_SECOND, FROM_CHANNELS_SECOND = (0, 3, 1, 2), (0, 2, 3, 1)
"""Transposes of an image's channels from the last axis to the second, and back."""

ROWS = (0, 2, 1)
"""The transpose of rows of channels behind which an image has its channels last."""

TO_CHANNELS_FIRST, FROM_IMAGE = "transpose_to_channels_first", "transpose_from_image"
"""Transposes between an image and rows of channels, which a runtime that keeps images with their channels last has nothing to
do for: see :func:`layout_class`."""

OF_LEFT_OPERAND, OF_RIGHT_OPERAND = "transpose_of_left_operand", "transpose_of_right_operand"
"""Transposes of the last two axes that matrix products alone read, as their first or as their second operand: nothing to do for
products that can read it along the other axis, see :func:`layout_class`."""

BEFORE_RIGHT_OPERAND = "transpose_before_right_operand"
"""A transpose of rows and heads whose result is only read by one of :data:`OF_RIGHT_OPERAND`: a product may read through both."""

LAYOUT_CLASSES = (TO_CHANNELS_FIRST, FROM_IMAGE, OF_LEFT_OPERAND, OF_RIGHT_OPERAND, BEFORE_RIGHT_OPERAND)
"""Results of :func:`layout_class`."""

VIEWS = names_of(row for row in operators() if row.kind is Kind.VIEW or row.passes)
"""Operators that read the same memory by another shape."""

_ELEMENTWISE = names_of(operators(Kind.UNARY, Kind.BINARY))

REORDERS, TRANSPOSES, BLOCKS = "reorders", "transposes", "blocks"
"""What a runtime inserts: reorders where an operator wants another layout, as OpenVINO; transposes around such operators that
it then moves along the network, as ONNX Runtime on integers; or reorders into blocks of channels and back, as ONNX Runtime on
floats (:mod:`latcast.kernels.blocks`)."""


@dataclass(frozen=True)
class LayoutRules:
    """The rules by which a runtime lays images out.

    Attributes:
        channels_last: Classes of operators that read and write images with their channels last, or in blocks of channels.
        either: Classes that take the layout of what they read; all others read and write tensors as their shapes say.
        strided: Least and most size of the second axis, and least number of elements for each, of images that come back by
            the loop that writes with a stride.
        inserts: :data:`REORDERS`, :data:`TRANSPOSES` or :data:`BLOCKS`.
        apart: Kernel types that take another time on images with their channels last.
        block: Channels of a block; 0 where images have no blocks.
        pairs: First operator's class to the classes that are fused into it where both work on blocks, beside those that are
            wherever they lie.
    """

    channels_last: frozenset[str]
    either: frozenset[str]
    strided: tuple[int, int, int]
    inserts: str = REORDERS
    apart: frozenset[str] = frozenset()
    block: int = 0
    pairs: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        data = {"channels_last": sorted(self.channels_last), "either": sorted(self.either), "strided": list(self.strided)}
        others = {
            "inserts": self.inserts if self.inserts != REORDERS else "", "apart": sorted(self.apart), "block": self.block,
            "pairs": {first: sorted(seconds) for first, seconds in sorted(self.pairs.items())},
        }  # fmt: skip
        return {**data, **{name: value for name, value in others.items() if value}}

    @classmethod
    def from_json(cls, data: Any, source: str) -> LayoutRules:
        """Read the JSON that :meth:`to_json` wrote.

        Raises:
            BundleError: Something else was found.
        """
        try:
            least, most, elements = map(int, data["strided"])
            channels_last, either, apart = (
                frozenset(map(str, found)) for found in (data["channels_last"], data["either"], data.get("apart", ()))
            )
            inserts, block = str(data.get("inserts", REORDERS)), int(data.get("block", 0))
            pairs = {first: frozenset(map(str, seconds)) for first, seconds in data.get("pairs", {}).items()}
            if inserts not in _WALKS or (inserts == BLOCKS) != (block > 0):
                raise ValueError(f"inserts {inserts}, block {block}")
            if unknown := sorted(set(data) - {each.name for each in fields(cls)}):
                raise ValueError(f"unknown field {unknown[0]}")
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise BundleError(
                f"{source}: 'layouts' needs lists 'channels_last' and 'either' of operator classes, "
                f"three numbers 'strided', one of {', '.join(_WALKS)} as 'inserts', and for blocks a number 'block': {problem!r}"
            ) from problem
        return cls(channels_last, either, (least, most, elements), inserts, apart, block, pairs)


class Reorder(NamedTuple):
    """A tensor that is copied into another layout.

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
    """The layouts of a network's images.

    Attributes:
        reorders: In execution order; a tensor that several operators read is reordered once.
        channels_last: Names of the operators that read an image with its channels last.
        cancelled: Names of the transposes that a runtime which moves transposes has nothing to do for.
    """

    reorders: tuple[Reorder, ...]
    channels_last: frozenset[str]
    cancelled: frozenset[str]


def layouts(
    graph: Graph,
    kernels: Sequence[Kernel],
    classes: Mapping[str, str],
    rules: LayoutRules,
    on_integers: frozenset[str] = frozenset(),
    blocked: frozenset[str] = frozenset(),
) -> Layouts:
    """Return the layouts of a network's images under the rules.

    A tensor without pixels, or of one channel, is the same in both layouts, as is one made of such tensors alone.

    Args:
        graph: The network.
        kernels: What it falls into.
        classes: Its operators' names to their classes.
        rules: Of the runtime.
        on_integers: Classes that it computes on integers.
        blocked: Tensors that operators write in blocks of channels.
    """
    return _WALKS[rules.inserts](graph, kernels, classes, rules, on_integers, blocked).layouts()


class _Walk(ABC):
    """The layouts known while a network's operators are visited in order.

    Attributes:
        last: Whether an image's channels come last; images that lie as their readers want them are not in it.
        cancelled: As of :class:`Layouts`, so far.
    """

    def __init__(
        self,
        graph: Graph,
        kernels: Sequence[Kernel],
        classes: Mapping[str, str],
        rules: LayoutRules,
        on_integers: frozenset[str],
        blocked: frozenset[str],
    ) -> None:
        self.graph = graph
        self.classes = classes
        self.rules = rules
        self.on_integers = on_integers
        self.blocked = blocked
        self.shuffles = {kernel.nodes[0]: kernel.nodes for kernel in kernels if kernel.kernel_type == "channel_shuffle"}
        self.shuffled = {name for nodes in self.shuffles.values() for name in nodes}
        self.fused = {name for kernel in kernels for name in kernel.nodes[1:]} - self.shuffled
        self.last: dict[str, bool] = {}
        self.cancelled: set[str] = set()
        self._reorders: dict[tuple[str, bool], Reorder] = {}
        self._read_last: set[str] = set()

    @abstractmethod
    def visit(self, node: Node, images: Sequence[str]) -> bool | None:
        """Lay out what an operator reads; return whether its results have their channels last, None where either fits."""

    def layouts(self) -> Layouts:
        """Visit all operators."""
        graph = self.graph
        self.last.update((name, False) for name in graph.inputs if self.followed(name))
        made_by = {node.name: node.outputs for node in graph.nodes}
        for node in graph.nodes:
            if node.name not in self.shuffled:
                images = [name for name in dict.fromkeys(node.inputs) if name and self.followed(name)]
                made, outputs = self.visit(node, images), node.outputs
            elif node.name in self.shuffles:
                # Its own operators turn five axes; together they hand on what they read.
                made, outputs = self.last.get(node.inputs[0]), made_by[self.shuffles[node.name][-1]]
            else:
                continue
            if made is not None:
                self.last.update((name, made) for name in outputs if name and self.followed(name))
        self.lay_out(graph.outputs, False, None)
        return Layouts(tuple(self._reorders.values()), frozenset(self._read_last), frozenset(self.cancelled))

    def followed(self, tensor: str) -> bool:
        """Return whether the layout of a tensor is kept track of."""
        return self.image(tensor)

    def image(self, tensor: str) -> bool:
        """Return whether it lies differently with its channels last."""
        shape = self.graph.shape(tensor)
        return len(shape) == 4 and shape[1] > 1 and prod(shape[2:]) > 1 and tensor not in self.graph.static_names

    def wanted(self, name: str, images: Sequence[str]) -> bool | None:
        """Return the layout in which an operator of a class reads images; None for any."""
        if name in self.rules.channels_last:
            return True
        if name not in self.rules.either:
            return False
        known = [self.last[tensor] for tensor in images if tensor in self.last]
        return any(known) if known else None

    def lay_out(self, tensors: Iterable[str], channels_last: bool, reader: str | None) -> None:
        """Lay tensors out as a reader wants them, each once."""
        for tensor in filter(self.image, tensors):
            if channels_last and reader is not None:
                self._read_last.add(reader)
            if self.last.get(tensor, channels_last) != channels_last:
                self._reorders.setdefault((tensor, channels_last), Reorder(tensor, channels_last, reader))


class _Reorders(_Walk):
    """The walk that lays each image out as its reader wants it; operators of either layout follow any image with channels last.

    Rows of channels and images with their channels last are the same memory: neither is copied to become the other.
    """

    def visit(self, node: Node, images: Sequence[str]) -> bool | None:
        transpose = node.op_type == "Transpose"
        layout = self.wanted("transpose" if transpose else self.classes[node.name], images)
        if layout is not None and not self._beside_rows(node):
            self.lay_out(images, layout, node.name)
        if transpose:
            # Rows of channels become an image for nothing; any other transpose hands its layout on.
            return layout or node.attributes.get("perm") == TO_CHANNELS_SECOND
        return True if self._behind_rows(node) else layout

    def _beside_rows(self, node: Node) -> bool:
        """Return whether an operator makes an image rows that are transposed at once: the copy and the transpose cancel."""
        readers = [reader for output in node.outputs for reader in self.graph.consumers.get(output, ())]
        return node.op_type in VIEWS and bool(readers) and all(self.classes[reader.name] == FROM_IMAGE for reader in readers)

    def _behind_rows(self, node: Node) -> bool:
        """Return whether an operator makes an image of rows of channels that were transposed."""
        maker = self.graph.producers.get(node.inputs[0]) if node.op_type in VIEWS else None
        return maker is not None and maker.op_type == "Transpose" and maker.attributes.get("perm") == ROWS


class _Transposes(_Walk):
    """Transposes around operators that want their channels last are moved along the network, as by ONNX Runtime's optimiser.

    They pass an operator that takes either layout where more axes are turned before it than behind it, and one between
    conversions from and to integers only on the way to an operator that wants its channels last. What is fused behind another
    operator is no place where a transpose stands. Transposes of the network are merged with those that reach them.
    """

    def followed(self, tensor: str) -> bool:
        """Return whether a tensor is followed; a 1x1 map counts."""
        shape = self.graph.shape(tensor)
        return len(shape) == 4 and shape[1] > 1 and tensor not in self.graph.static_names

    def visit(self, node: Node, images: Sequence[str]) -> bool | None:
        if node.op_type == "Transpose":
            # It merges with the transpose before or behind it.
            order = node.attributes.get("perm")
            if order == TO_CHANNELS_SECOND:
                self.cancelled.add(node.name)
                return True
            if order == FROM_CHANNELS_SECOND and self.last.get(node.inputs[0]):
                self.cancelled.add(node.name)
            return None
        name = self.classes[node.name]
        if node.name in self.fused:
            layout: bool | None = any(self.last.get(tensor, False) for tensor in images)
        else:
            layout = self.wanted(name, images)
            if layout and name not in self.rules.channels_last:
                layout = self._pays(node, name)
        if layout is not None:
            self.lay_out(images, layout, node.name)
        return layout

    def _pays(self, node: Node, name: str) -> bool:
        """Return whether moving the transposes before an operator behind it turns fewer axes, those of size 1 not counted.

        What need not be turned any more counts for it; what must be turned now, and the result where nothing behind it wants
        its channels last, against it.
        """
        leads = not self._leading.isdisjoint(node.outputs)
        if not leads and name not in self.on_integers:
            return False
        turned = sum(self._axes(tensor) * (-1 if self.last.get(tensor) else 1) for tensor in self._read_by(node))
        return turned + (0 if leads else max(map(self._axes, node.outputs))) < 0

    def _axes(self, tensor: str) -> int:
        return sum(size > 1 for size in self.graph.shape(tensor))

    def _read_by(self, node: Node) -> list[str]:
        return [tensor for tensor in node.inputs if tensor and tensor not in self.graph.static_names]

    @cached_property
    def _leading(self) -> frozenset[str]:
        """Return the tensors from which operators of either layout lead to one with channels last, or to a transpose."""
        found: set[str] = set()
        for node in reversed(self.graph.nodes):
            fused, name = node.name in self.fused, self.classes[node.name]
            here = node.op_type == "Transpose" or (name in self.rules.channels_last and not fused)
            if here or ((fused or name in self.rules.either) and not found.isdisjoint(node.outputs)):
                found.update(self._read_by(node))
        return frozenset(found)


class _Blocks(_Walk):
    """The walk that lays each image out in blocks where its reader works on blocks, and as its shape says for all others."""

    def image(self, tensor: str) -> bool:
        """Return whether a tensor is an image; the copy of a 1x1 map is a kernel, too."""
        return len(self.graph.shape(tensor)) == 4 and tensor not in self.graph.static_names

    def visit(self, node: Node, images: Sequence[str]) -> bool:
        works = node.outputs[0] in self.blocked
        for tensor in images:
            self.lay_out([tensor], works and not reads_plain(self.graph, node, tensor, self.rules.block), node.name)
        if node.op_type == "Transpose" and self._merges(node):
            self.cancelled.add(node.name)
        return works

    def _merges(self, node: Node) -> bool:
        """Return whether a copy out of blocks writes the channels last, or one into blocks reads them so."""
        order = node.attributes.get("perm")
        if order == TO_CHANNELS_SECOND:
            readers = self.graph.consumers.get(node.outputs[0], ())
            return bool(readers) and all(reader.outputs[0] in self.blocked for reader in readers)
        return order == FROM_CHANNELS_SECOND and node.inputs[0] in self.blocked


_WALKS: Mapping[str, type[_Walk]] = {REORDERS: _Reorders, TRANSPOSES: _Transposes, BLOCKS: _Blocks}


def with_reorders(
    graph: Graph,
    kernels: Sequence[Kernel],
    found: Layouts,
    rules: LayoutRules,
    reading_integers: frozenset[str] = frozenset(),
) -> tuple[Kernel, ...]:
    """Return kernels with the reorders as separate kernels, each before the one that needs it, those of outputs last.

    Kernels of ``rules.apart`` are described as they run on images with their channels last.

    Args:
        graph: The network.
        kernels: What it falls into.
        found: Its layouts.
        rules: Of the runtime.
        reading_integers: Names of the operators that read integers, which no loop that writes with a stride brings back.
    """
    place = {node: index for index, kernel in enumerate(kernels) for node in kernel.nodes}
    before: dict[int, list[Kernel]] = {}
    for each in found.reorders:
        index = len(kernels) if each.reader is None else place[each.reader]
        before.setdefault(index, []).append(_kernel(graph, each, rules, reading_integers))
    merged: list[Kernel] = []
    for index, kernel in enumerate(kernels):
        merged += before.get(index, ())
        if kernel.kernel_type in rules.apart and not found.channels_last.isdisjoint(kernel.nodes):
            kernel = _on_channels_last(graph, kernel)
        merged.append(kernel if found.cancelled.isdisjoint(kernel.nodes) else replace(kernel, free=True))
    return (*merged, *before.get(len(kernels), ()))


def _on_channels_last(graph: Graph, kernel: Kernel) -> Kernel:
    """Return a kernel as it runs on an image with its channels last: a reduction over other axes, or a variant."""
    if kernel.kernel_type != "reduce":
        return replace(kernel, kernel_type=f"{kernel.kernel_type}.{CHANNELS_LAST}")
    batch, channels, *pixels = graph.shape(graph.nodes[graph.positions[kernel.nodes[0]]].inputs[0])
    outer, reduced, inner = kernel.configuration[:3]
    if (outer, reduced, inner) == (batch * channels, prod(pixels), 1):
        outer, reduced, inner = batch, prod(pixels), channels
    elif (outer, reduced, inner) == (batch, channels, prod(pixels)):
        outer, reduced, inner = batch * prod(pixels), channels, 1
    return replace(kernel, configuration=(outer, reduced, inner, *kernel.configuration[3:]))


def _kernel(graph: Graph, found: Reorder, rules: LayoutRules, reading_integers: frozenset[str]) -> Kernel:
    shape = graph.shape(found.tensor)
    channels, pixels = shape[1], prod(shape[2:])
    least, most, elements = rules.strided
    name = TO_LAST
    if rules.inserts == BLOCKS:
        name = TO_BLOCKS if found.channels_last else FROM_BLOCKS
    elif not found.channels_last:
        strided = least <= channels <= most and prod(shape) >= elements * channels
        name = TO_FIRST_STRIDED if strided and found.reader not in reading_integers else TO_FIRST
    sides = (pixels, channels) if found.channels_last else (channels, pixels)
    reader = found.reader or graph.producers[found.tensor].name
    return Kernel(name, (prod(shape), *sides, 1, 0, 0, 0), reader, (), ("Reorder",))


def layout_class(graph: Graph, node: Node) -> str | None:
    """Return the class of a transpose that only changes the layout of images or of a product's operand, or None.

    :data:`TO_CHANNELS_FIRST`: channels from last to second, of an image, or of rows that a convolution reads as an image;
    :data:`FROM_IMAGE`: an image becomes rows of channels, which one operator or a chain of elementwise ones reads. Where others
    read it too (a normalisation and a residual), OpenVINO reorders the image and then transposes it.
    :data:`OF_LEFT_OPERAND`, :data:`OF_RIGHT_OPERAND`, :data:`BEFORE_RIGHT_OPERAND`: what products read, but for rows of images.
    """
    order = node.attributes.get("perm")
    if node.op_type != "Transpose" or not isinstance(order, tuple):
        return None
    return _image_class(graph, node, order) or _product_class(graph, node, order)


def _image_class(graph: Graph, node: Node, order: tuple[Any, ...]) -> str | None:
    if order not in ((0, 3, 1, 2), (0, 2, 1)):
        return None
    if order == (0, 3, 1, 2) or any(reader.op_type == "Conv" for reader in _readers(graph, node)):
        return TO_CHANNELS_FIRST
    readers = {reader.op_type for output in node.outputs for reader in graph.consumers.get(output, ())}
    if len(readers) > 1 and not readers <= _ELEMENTWISE:
        return None
    maker = graph.producers.get(node.inputs[0])
    while maker is not None and maker.op_type in VIEWS:
        maker = graph.producers.get(maker.inputs[0])
    return FROM_IMAGE if maker is not None and len(graph.shape(maker.outputs[0])) == 4 else None


def _product_class(graph: Graph, node: Node, order: tuple[Any, ...]) -> str | None:
    last = len(order) - 1
    [result] = node.outputs
    readers = graph.consumers.get(result, ())
    if order == (0, 2, 1, 3) and readers and all(layout_class(graph, reader) == OF_RIGHT_OPERAND for reader in readers):
        return BEFORE_RIGHT_OPERAND
    if order != (*range(last - 1), last, last - 1):
        return None
    for place, name in enumerate((OF_LEFT_OPERAND, OF_RIGHT_OPERAND)):
        if readers and all(reader.op_type == "MatMul" and reader.inputs[place] == result for reader in readers):
            return name
    return None


def _readers(graph: Graph, node: Node) -> Iterator[Node]:
    """Return the operators that read a result or views of it."""
    for output in node.outputs:
        for reader in graph.consumers.get(output, ()):
            if reader.op_type in VIEWS:
                yield from _readers(graph, reader)
            else:
                yield reader
