"""Which tensors a runtime lays out anew between two kernels, and the reorders that do it.

A CPU library computes convolutions on images whose channels come last, and matrix products on rows as they are written. Between
the two a runtime inserts copies that no operator of the network asks for. OpenVINO spends up to a third of a network's latency
in them: of images whose second axis is short it uses a loop that writes with a stride, several times slower than its other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from latcast.errors import BundleError
from latcast.graph.ir import Graph, Node
from latcast.kernels.kernel import FROM_IMAGE, VIEWS, Kernel, layout_class, operator_class

TO_LAST, TO_FIRST, TO_FIRST_STRIDED = (
    "transpose.to_channels_last", "transpose.to_channels_first", "transpose.to_channels_first_strided",
)  # fmt: skip
"""Kernel types of reorders: each moves an image as a matrix of pixels and channels."""

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
    """

    channels_last: frozenset[str]
    either: frozenset[str]
    strided: tuple[int, int, int]

    def to_json(self) -> dict[str, Any]:
        return {"channels_last": sorted(self.channels_last), "either": sorted(self.either), "strided": list(self.strided)}

    @classmethod
    def from_json(cls, data: Any, source: str) -> LayoutRules:
        """Reads what :meth:`to_json` wrote.

        Raises:
            BundleError: Something else was found.
        """
        try:
            least, most, elements = map(int, data["strided"])
            return cls(frozenset(map(str, data["channels_last"])), frozenset(map(str, data["either"])), (least, most, elements))
        except (KeyError, TypeError, ValueError) as problem:
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


def reorders(graph: Graph, kernels: Sequence[Kernel], rules: LayoutRules) -> Iterator[Reorder]:
    """The reorders of a network, in execution order; a tensor that several operators read is laid out anew once.

    A tensor without pixels, or of one channel, lies alike either way. So does one that is made of such tensors alone.
    """
    shuffled = {kernel.nodes[0]: kernel.nodes for kernel in kernels if kernel.kernel_type == "channel_shuffle"}
    inside = {name for nodes in shuffled.values() for name in nodes}
    nodes_of = {node.name: node for node in graph.nodes}
    static = graph.static_names
    last: dict[str, bool] = {}
    """Whether an image's channels come last; images that lie as their readers want them are not in it."""
    done: set[tuple[str, bool]] = set()

    def image(tensor: str) -> bool:
        shape = graph.shape(tensor)
        return tensor not in static and len(shape) == 4 and shape[1] > 1 and prod(shape[2:]) > 1

    def laid_out(tensors: Iterable[str], channels_last: bool, reader: str | None) -> Iterator[Reorder]:
        for tensor in tensors:
            if last.get(tensor, channels_last) != channels_last and (tensor, channels_last) not in done:
                done.add((tensor, channels_last))
                yield Reorder(tensor, channels_last, reader)

    last.update((name, False) for name in graph.inputs if image(name))
    for node in graph.nodes:
        if node.name in inside:
            # Its own operators turn five axes; together they hand on what they read.
            if node.name in shuffled and node.inputs[0] in last:
                end = nodes_of[shuffled[node.name][-1]]
                last.update(dict.fromkeys(end.outputs, last[node.inputs[0]]))
            continue
        images = [name for name in dict.fromkeys(node.inputs) if name and image(name)]
        layout = _layout_of(graph, node, rules, images, last)
        if layout is not None and not _beside_rows(graph, node):
            yield from laid_out(images, layout, node.name)
        made = layout
        if node.op_type == "Transpose":
            # Rows of channels become an image for nothing; any other transpose hands its layout on.
            made = layout or node.attributes.get("perm") == (0, 3, 1, 2)
        elif _behind_rows(graph, node):
            made = True
        if made is not None:
            last.update((name, made) for name in node.outputs if name and image(name))
    yield from laid_out(graph.outputs, False, None)


def _layout_of(graph: Graph, node: Node, rules: LayoutRules, images: Sequence[str], last: Mapping[str, bool]) -> bool | None:
    """How an operator wants the images that it reads; None where it takes them as they are."""
    name = operator_class(graph, node)
    if name in rules.channels_last:
        return True
    if name not in rules.either:
        return False
    known = [last[tensor] for tensor in images if tensor in last]
    return any(known) if known else None


def _beside_rows(graph: Graph, node: Node) -> bool:
    """Whether an operator makes an image rows that are transposed at once: the copy and the transpose cancel."""
    readers = [reader for output in node.outputs for reader in graph.consumers.get(output, ())]
    return node.op_type in VIEWS and bool(readers) and all(layout_class(graph, reader) == FROM_IMAGE for reader in readers)


def _behind_rows(graph: Graph, node: Node) -> bool:
    """Whether an operator makes an image of rows of channels that were transposed."""
    maker = graph.producers.get(node.inputs[0]) if node.op_type in VIEWS else None
    return maker is not None and maker.op_type == "Transpose" and maker.attributes.get("perm") == ROWS


def with_reorders(graph: Graph, kernels: Sequence[Kernel], rules: LayoutRules) -> tuple[Kernel, ...]:
    """Kernels with the reorders as kernels of their own, each before the one for whose sake it runs, those of outputs last."""
    place = {node: index for index, kernel in enumerate(kernels) for node in kernel.nodes}
    before: dict[int, list[Kernel]] = {}
    for found in reorders(graph, kernels, rules):
        index = len(kernels) if found.reader is None else place[found.reader]
        before.setdefault(index, []).append(_kernel(graph, found, rules))
    if not before:
        return tuple(kernels)
    return tuple(kernel for index in range(len(kernels) + 1) for kernel in (*before.get(index, ()), *kernels[index : index + 1]))


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
