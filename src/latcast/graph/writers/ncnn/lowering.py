"""State that the lowerings of all operators share.

An ncnn blob has one to four dimensions and no batch. A tensor of the graph is held in a blob with the same elements in the
same order, whose shape is the tensor's without some of its axes of size 1. Which ones differs: global pooling makes a vector
where ONNX keeps (1, C, 1, 1). So a reshape costs nothing by itself; a Reshape layer is written where a reader needs a shape
that the blob does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.graph.ir import Graph, Node, Shape
from latcast.graph.operators import OperatorView, view_of
from latcast.graph.writers.ncnn.layers import Layer, ParamValue, dims_params, plain

MAX_DIMS = 4


@dataclass(frozen=True, slots=True)
class Blob:
    """The blob that holds a tensor's elements.

    Attributes:
        name: ncnn's name.
        shape: ncnn's sizes, outermost first (c, d, h, w).
        views: Names of the nodes that made this tensor from the blob without computing anything.
    """

    name: str
    shape: Shape
    views: tuple[str, ...] = ()


def blob_shape(shape: Shape) -> Shape:
    """Return the shape of a tensor without its batch axis, and without further axes of size 1 while it has more than four."""
    return tuple(shape[axis] for axis in blob_axes(shape))


def blob_axes(shape: Shape, *, keep: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the axes of a tensor that :func:`blob_shape` and ``keep`` keep; more than four where it cannot do with less."""
    kept = set(keep)
    axes = list(range(len(shape)))
    if len(axes) > 1 and shape[0] == 1 and 0 not in kept:
        axes.remove(0)
    for axis in tuple(axes):
        if len(axes) > MAX_DIMS and shape[axis] == 1 and axis not in kept:
            axes.remove(axis)
    return tuple(axes)


def failure(node: Node, problem: str) -> UnsupportedOperatorError:
    """Return the error that says why a node has no form in ncnn."""
    return UnsupportedOperatorError(
        f"node '{node.name}' ({node.op_type}) cannot be written for ncnn: {problem}; replace it, or take another runtime"
    )


def fitting_axes(node: Node, shape: Shape, *, keep: Iterable[int] = ()) -> tuple[int, ...]:
    """Return :func:`blob_axes` of a tensor of the node; refuse one that needs more than four."""
    axes = blob_axes(shape, keep=keep)
    if len(axes) > MAX_DIMS:
        raise failure(node, f"a blob has at most four axes, {list(shape)} more")
    return axes


class Lowering:
    """The network written so far.

    Args:
        graph: After :func:`latcast.graph.writers.ncnn.rewrite`.
        values: Of every weight and constant.
        origins: Names of the original nodes behind a recognised one.
        order: Position of every original node.
        scales: Of every activation, by the tensor's name, where the network computes in int8; None where it does not.
    """

    def __init__(
        self,
        graph: Graph,
        values: Mapping[str, np.ndarray],
        origins: Mapping[str, tuple[str, ...]],
        order: Mapping[str, int],
        scales: Mapping[str, float] | None = None,
    ) -> None:
        self.graph = graph
        self.values = values
        self.scales = scales
        self.layers: list[Layer] = []
        self._origins = origins
        self._order = order
        self._blobs: dict[str, Blob] = {}
        self._reshaped: dict[tuple[str, Shape], Blob] = {}
        self._makers: dict[str, Layer] = {}
        self._computed: set[str] = set()
        self._counts: dict[str, int] = {}
        self._done: set[str] = set()

    # Reading the graph

    def view(self, node: Node) -> OperatorView:
        return view_of(self.graph, node)

    def shape(self, tensor: str) -> Shape:
        return self.graph.shape(tensor)

    def known(self, tensor: str) -> np.ndarray | None:
        """Return the values of a weight or constant, None for an activation or a left-out input."""
        return self.values.get(tensor) if tensor else None

    def weight(self, node: Node, index: int) -> np.ndarray | None:
        """Return a weight input, None where it is left out.

        Raises:
            UnsupportedOperatorError: It is computed at run time.
        """
        name = node.inputs[index] if index < len(node.inputs) else ""
        if not name:
            return None
        value = self.known(name)
        if value is None:
            raise failure(node, f"its input {index} ('{name}') is not a weight; ncnn needs it when it loads the network")
        return value

    def is_done(self, node: Node) -> bool:
        """Return whether an earlier layer computes the node too."""
        return node.name in self._done

    # Blobs

    def blob(self, tensor: str) -> Blob:
        """Return the blob of an activation, in any shape; a weight is put into the network as a MemoryData layer."""
        return self._blobs[tensor] if tensor in self._blobs else self.shaped(tensor, blob_shape(self.shape(tensor)))

    def shaped(self, tensor: str, shape: Sequence[int]) -> Blob:
        """Return a tensor's elements in a blob of this shape, with a Reshape layer where it has another."""
        shape = tuple(shape)
        value = self.known(tensor)
        if value is not None:
            key = (tensor, shape)
            if key not in self._reshaped:
                name = self._new_blob()
                layer = Layer("MemoryData", self._new_name("MemoryData"), [], [name], dims_params(shape), [plain(value)])
                self._append(layer)
                self._reshaped[key] = Blob(name, shape)
            return self._reshaped[key]
        blob = self._blobs[tensor]
        if blob.shape == shape:
            return blob
        key = (blob.name, shape)
        if key not in self._reshaped:
            name = self._new_blob()
            kind = "Flatten" if len(shape) == 1 else "Reshape"
            params = {} if len(shape) == 1 else dims_params(shape)
            layer = Layer(kind, self._new_name(kind), [blob.name], [name], params, nodes=self._claim([blob], ()))
            self._append(layer)
            self._reshaped[key] = Blob(name, shape)
        return replace(self._reshaped[key], views=blob.views)

    def canonical(self, tensor: str) -> Blob:
        """Return a tensor in the shape of :func:`blob_shape`."""
        return self.shaped(tensor, blob_shape(self.shape(tensor)))

    # Writing

    def add_input(self, tensor: str, name: str) -> None:
        """Declare an input of the network."""
        shape = blob_shape(self.shape(tensor))
        self._append(Layer("Input", name, [], [name], dims_params(shape)))
        self._blobs[tensor] = Blob(name, shape)

    def emit(
        self,
        kind: str,
        bottoms: Sequence[Blob],
        outputs: Mapping[str, Sequence[int]],
        nodes: Sequence[Node],
        params: Mapping[int, ParamValue] | None = None,
        data: Sequence[bytes] = (),
    ) -> None:
        """Write a layer.

        Args:
            kind: ncnn's layer type.
            bottoms: What it reads.
            outputs: The tensors it makes and the shapes of their blobs.
            nodes: What it computes.
            params, data: Its parameters and weights.
        """
        self.emit_layer(Layer(kind, "", [], [], dict(params or {}), list(data)), bottoms, outputs, nodes)

    def emit_layer(
        self, layer: Layer, bottoms: Sequence[Blob], outputs: Mapping[str, Sequence[int]], nodes: Sequence[Node]
    ) -> None:
        """Connect a layer that has its kind, parameters and weights, and appends it."""
        layer.name = self._new_name(layer.kind)
        layer.bottoms = [blob.name for blob in bottoms]
        layer.tops = [self._new_blob() for _ in outputs]
        layer.nodes = self._claim(bottoms, nodes)
        self._append(layer)
        for (tensor, shape), top in zip(outputs.items(), layer.tops, strict=True):
            self._blobs[tensor] = Blob(top, tuple(shape))
        self._done.update(node.name for node in nodes)

    def emit_inner(self, kind: str, bottoms: Sequence[Blob], shape: Sequence[int], params: Mapping[int, ParamValue]) -> Blob:
        """Write a layer whose result is not a tensor of the graph, for operators that take several layers.

        The last of these layers, written with :meth:`emit`, is the one that lists the operator.
        """
        layer = Layer(kind, self._new_name(kind), [blob.name for blob in bottoms], [self._new_blob()], dict(params))
        layer.nodes = self._claim(bottoms, ())
        self._append(layer)
        return Blob(layer.tops[0], tuple(shape))

    def alias(self, node: Node) -> None:
        """Lets a node's output be its first input, unchanged but for its shape."""
        source = node.inputs[0]
        blob = self._blobs.get(source) or self.canonical(source)
        names = self._origins.get(node.name, (node.name,))
        self._blobs[node.outputs[0]] = replace(blob, views=(*blob.views, *names))
        self._done.add(node.name)

    def _claim(self, bottoms: Sequence[Blob], nodes: Sequence[Node]) -> tuple[str, ...]:
        """Return what a layer computes: its nodes, and the views before them that no other layer counts."""
        names = [name for node in nodes for name in self._origins.get(node.name, (node.name,))]
        names += [name for blob in bottoms for name in blob.views if name not in self._computed]
        self._computed.update(names)
        return tuple(sorted(set(names), key=self._order.__getitem__))

    def _append(self, layer: Layer) -> None:
        self.layers.append(layer)
        self._makers.update(dict.fromkeys(layer.tops, layer))

    def _new_blob(self) -> str:
        return self._new_name("blob")

    def _new_name(self, kind: str) -> str:
        count = self._counts.get(kind, 0)
        self._counts[kind] = count + 1
        return f"{kind.lower()}_{count}"

    def finish(self) -> list[str]:
        """Count views that no layer reads with the layer they view; return the blobs of the network's outputs."""
        for blob in self._blobs.values():
            maker = self._makers[blob.name]
            unclaimed = [name for name in blob.views if name not in self._computed]
            if unclaimed and maker.kind != "Input":
                self._computed.update(unclaimed)
                maker.nodes = (*maker.nodes, *unclaimed)
        return [self.blob(tensor).name for tensor in self.graph.outputs]


Lower = Callable[[Lowering, Node], None]

LOWERINGS: dict[str, Lower] = {}
"""Operator to the function that writes it."""


def lowers(*op_types: str) -> Callable[[Lower], Lower]:
    """Register a function as the one that writes these operators."""

    def register(function: Lower) -> Lower:
        LOWERINGS.update(dict.fromkeys(op_types, function))
        return function

    return register


def rows(shape: Sequence[int]) -> int:
    """Return the number of rows of a tensor seen as a matrix whose columns are its last axis."""
    return prod(shape[:-1])
