"""Networks with one thing changed: pure functions from graph to graph, for asking what a change would bring.

Each gives the graph that a file of the changed network would give: shapes are inferred again, weights have the shapes that the
change asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from latcast.errors import ModelError
from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph, Node, Shape, Tensor, rewire
from latcast.graph.operators import Kind, lookup, names_of, operators, view_among
from latcast.graph.passes.reshape_inputs import fitted_reshape

# Activation functions

_ACTIVATION_OPERATORS = {row.op_type: row.kernel_class for row in operators() if row.softens_relu}
"""Operator to its name here; sigmoids and other gates are left out."""

_ACTIVATION_IDIOMS = tuple(sorted(idiom for row in operators() if row.softens_relu for idiom in row.idioms))


def activations(graph: Graph) -> dict[str, list[tuple[Node, ...]]]:
    """Return the activation functions other than ReLU: name ("hard_swish") to the operators that spell each occurrence."""
    found: dict[str, list[tuple[Node, ...]]] = {}
    used: set[str] = set()
    for idiom in choose_idioms(graph, _ACTIVATION_IDIOMS):
        found.setdefault(idiom.name, []).append(idiom.nodes)
        used.update(node.name for node in idiom.nodes)
    for node in graph.nodes:
        if node.op_type in _ACTIVATION_OPERATORS and node.name not in used:
            found.setdefault(_ACTIVATION_OPERATORS[node.op_type], []).append((node,))
    return found


def with_relu(graph: Graph, function: str) -> Graph:
    """Return the network with ReLU in the place of an activation function.

    Args:
        graph: The network.
        function: A name that :func:`activations` lists; without occurrence the graph is returned as it is.
    """
    gone: dict[str, Node | None] = {}
    for nodes in activations(graph).get(function, ()):
        inside = {name for node in nodes for name in node.outputs}
        source = next(name for node in nodes for name in graph.activation_inputs(node) if name not in inside)
        gone.update((node.name, None) for node in nodes)
        gone[nodes[-1].name] = Node("Relu", nodes[-1].name, (source,), nodes[-1].outputs[:1])
    kept = [found for node in graph.nodes if (found := gone.get(node.name, node)) is not None]
    return graph.with_nodes(kept) if gone else graph


# Normalisation

_TAKES_BATCH_NORM = names_of(operators(Kind.PRODUCT)) - {"MatMul"}


def foldable_batch_norms(graph: Graph) -> list[Node]:
    """Return the batch normalisations that could be folded into the operator before them, whose only reader they are."""
    return [
        node
        for node in graph.nodes_of_type.get("BatchNormalization", ())
        if (maker := graph.producers.get(node.inputs[0])) is not None
        and maker.op_type in _TAKES_BATCH_NORM
        and graph.sole_reader(node.inputs[0]) is not None
    ]


def without_batch_norms(graph: Graph) -> Graph:
    """Return the network with batch normalisations folded into the weights before them, each of which has a bias then."""
    folded = {node.name: node for node in foldable_batch_norms(graph)}
    before = {node.inputs[0] for node in folded.values()}
    tensors, weights = dict(graph.tensors), set(graph.weights)
    nodes = []
    for node in graph.nodes:
        if node.name in folded:
            continue
        if node.outputs[0] in before and len(node.inputs) == 2:
            bias = f"{node.name}/bias"
            tensors[bias] = Tensor((graph.shape(node.outputs[0])[1],), graph.tensors[node.inputs[1]].dtype)
            weights.add(bias)
            node = replace(node, inputs=(*node.inputs, bias))
        nodes.append(node)
    aliases = {node.outputs[0]: node.inputs[0] for node in folded.values()}
    return rewire(graph, nodes, aliases, tensors=tensors, weights=frozenset(weights)) if folded else graph


# Kernel sizes


def large_convolutions(graph: Graph, *, depthwise: bool) -> list[Node]:
    """Return the convolutions with square, padded kernels of 5x5 and more, except those that read the network's input."""
    return [node for node in graph.nodes_of_type.get("Conv", ()) if _is_large(graph, node, depthwise=depthwise)]


def _is_large(graph: Graph, node: Node, *, depthwise: bool) -> bool:
    kernel = node.integers("kernel_shape")
    dilations = node.integers("dilations", (1, 1))
    if len(kernel) != 2 or kernel[0] != kernel[1] or kernel[0] < 5 or kernel[0] % 2 == 0 or set(dilations) != {1}:
        return False
    padded = node.integers("pads") == (kernel[0] // 2,) * 4
    return padded and node.inputs[0] not in graph.inputs and (node.integer("group", 1) > 1) == depthwise


def with_small_kernels(graph: Graph, *, depthwise: bool) -> Graph:
    """Return the network with kernels of 3x3 in the place of :func:`large_convolutions`."""
    chosen = {node.name for node in large_convolutions(graph, depthwise=depthwise)}
    tensors, weights = dict(graph.tensors), set(graph.weights)
    nodes = []
    for node in graph.nodes:
        if node.name in chosen:
            weight = f"{node.name}/weight"
            old = graph.tensors[node.inputs[1]]
            tensors[weight] = replace(old, shape=(*old.shape[:2], 3, 3))
            weights.add(weight)
            attributes = {**node.attributes, "kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
            node = replace(node, inputs=(node.inputs[0], weight, *node.inputs[2:]), attributes=attributes)
        nodes.append(node)
    return replace(graph, tensors=tensors, weights=frozenset(weights)).with_nodes(nodes) if chosen else graph


# Channels

_UNARY = names_of(row for row in operators() if row.keeps_channels)

_BINARY = names_of(row for row in operators() if row.split_by_constant)

_DENSE = frozenset({"Conv", "ConvTranspose"})

_FLATTENS = (names_of(operators(Kind.PRODUCT)) - _DENSE) | {"Flatten", "Reshape"}
"""Operators that read channels as features, whose number follows from theirs."""


@dataclass(frozen=True)
class ChannelGroup:
    """Feature maps that must have as many channels as each other, as sums and depthwise convolutions tie them.

    Attributes:
        channels: How many.
        makers: Names of the dense convolutions that give them.
        tensors: The feature maps.
    """

    channels: int
    makers: tuple[str, ...]
    tensors: frozenset[str]


def channel_groups(graph: Graph) -> list[ChannelGroup]:
    """Return the feature maps whose number of channels could be another one, in the order of the graph.

    Left out is what enters or leaves the network, and what operators other than convolutions, sums, products, activations,
    pooling and concatenations read or make.
    """
    ties = _Ties()
    fixed: set[str] = {*graph.inputs, *graph.outputs}
    makers: dict[str, str] = {}
    for node in graph.nodes:
        result = node.outputs[0]
        maps = [name for name in graph.activation_inputs(node) if len(graph.shape(name)) == 4]
        if node.op_type in _DENSE and node.integer("group", 1) == 1:
            makers[result] = node.name
        elif (
            (node.op_type == "Conv" and _is_depthwise(graph, node))
            or node.op_type in _UNARY
            or (node.op_type == "ReduceMean" and len(graph.shape(result)) == 4)
        ):
            ties.join(node.inputs[0], result)
        elif node.op_type in _BINARY and maps:
            channels = graph.tensors[result].shape[1:2]
            for name in maps:
                if graph.shape(name)[1:2] == channels:
                    ties.join(name, result)
        elif node.op_type == "Concat":
            fixed.add(result)  # it has what its parts have
        elif node.op_type not in _FLATTENS:
            fixed.update((*node.outputs, *maps))
    groups: dict[str, list[str]] = {}
    for tensor in ties.members(makers):
        groups.setdefault(ties.root(tensor), []).append(tensor)
    fixed_roots = {ties.root(name) for name in fixed}
    found = []
    for root, tensors in groups.items():
        if root not in fixed_roots:
            made = tuple(makers[name] for name in tensors if name in makers)
            if made:
                found.append(ChannelGroup(graph.shape(tensors[0])[1], made, frozenset(tensors)))
    return sorted(found, key=lambda group: graph.positions[group.makers[0]])


class _Ties:
    """Tensors that belong together."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def root(self, name: str) -> str:
        while (parent := self._parent.get(name, name)) != name:
            self._parent[name] = name = self._parent.get(parent, parent)
        return name

    def join(self, first: str, second: str) -> None:
        for name in (first, second):
            self._parent.setdefault(name, name)
        self._parent[self.root(first)] = self.root(second)

    def members(self, others: Collection[str]) -> dict[str, None]:
        return dict.fromkeys((*self._parent, *others))


def with_channels(graph: Graph, channels: Mapping[str, int]) -> Graph:
    """Return the network with other numbers of channels.

    Args:
        graph: The network.
        channels: Name of a dense convolution to the channels that it gives; all makers of a group together.

    Raises:
        ModelError: The network does not fit these numbers, or holds operators of which that cannot be said.
    """
    tensors, weights, constants = dict(graph.tensors), set(graph.weights), dict(graph.constants)
    changed: set[str] = set()
    nodes = []

    def reshaped(node: Node, place: int, shape: Shape) -> Node:
        """Return the node with a weight of another shape, which it alone reads."""
        old = node.inputs[place]
        if tensors[old].shape == shape:
            return node
        if old not in graph.weights:
            raise ModelError(f"node '{node.name}' ({node.op_type}) holds constants for as many channels as it has")
        name = f"{node.name}/{place}"
        tensors[name] = replace(tensors[old], shape=shape)
        weights.add(name)
        return replace(node, inputs=(*node.inputs[:place], name, *node.inputs[place + 1 :]))

    for node in graph.nodes:
        wanted = channels.get(node.name)
        if wanted is not None or not changed.isdisjoint(node.inputs):
            node = _fitted(graph, node, tensors, wanted, reshaped, changed)
            if node.op_type == "Reshape":
                merged = fitted_reshape(graph, node, tensors, constants)
                if merged is None:
                    raise ModelError(f"node '{node.name}' (Reshape) parts the channels that change")
                node = merged
            view = view_among(node, tensors, constants)
            entry = lookup(node.op_type)
            assert entry is not None
            for name, tensor in zip(node.outputs, entry.infer(view), strict=False):
                if name and tensor.shape != graph.shape(name):
                    tensors[name] = replace(tensors[name], shape=tensor.shape)
                    changed.add(name)
        nodes.append(node)
    if not changed.isdisjoint(graph.outputs):
        raise ModelError(f"{graph.name} would have other outputs")
    return replace(graph, tensors=tensors, weights=frozenset(weights), constants=constants).with_nodes(nodes)


_FITS = _UNARY | _BINARY | _DENSE | _FLATTENS | {"Concat", "ReduceMean"}


def _fitted(
    graph: Graph,
    node: Node,
    tensors: Mapping[str, Tensor],
    wanted: int | None,
    reshaped: Callable[[Node, int, Shape], Node],
    changed: Collection[str],
) -> Node:
    """Return the node with weights that fit the channels before it and those wanted behind it."""
    if node.op_type not in _FITS:
        raise ModelError(f"node '{node.name}' ({node.op_type}) may hold numbers of channels")
    came = tensors[node.inputs[0]].shape
    if node.op_type in _DENSE:
        weight = list(tensors[node.inputs[1]].shape)
        groups = node.integer("group", 1)
        if groups == 1:
            given, taken = (0, 1) if node.op_type == "Conv" else (1, 0)
            weight[taken] = came[1]
            weight[given] = weight[given] if wanted is None else wanted
        elif node.op_type == "Conv" and _is_depthwise(graph, node):
            given, weight[0] = 0, came[1]
            node = replace(node, attributes={**node.attributes, "group": came[1]})
        elif came[1] != graph.shape(node.inputs[0])[1]:
            raise ModelError(f"node '{node.name}' is a convolution in {groups} groups")
        else:
            given = 0
        node = reshaped(node, 1, tuple(weight))
        return reshaped(node, 2, (weight[given],)) if len(node.inputs) > 2 and node.inputs[2] else node
    if node.op_type == "BatchNormalization":
        for place in range(1, 5):
            node = reshaped(node, place, (came[1],))
    elif node.op_type == "Gemm":
        rows, columns = tensors[node.inputs[1]].shape
        node = reshaped(node, 1, (rows, came[-1]) if node.attributes.get("transB") else (came[-1], columns))
    elif node.op_type == "MatMul":
        if node.inputs[1] not in graph.weights or node.inputs[0] not in changed:
            raise ModelError(f"node '{node.name}' (MatMul) has no weight to fit")
        node = reshaped(node, 1, (*tensors[node.inputs[1]].shape[:-2], came[-1], tensors[node.inputs[1]].shape[-1]))
    elif node.op_type in _BINARY or node.op_type == "PRelu":
        maps = [tensors[name].shape for name in graph.activation_inputs(node)]
        rank = max(map(len, maps))
        size = max((shape[1] for shape in maps if len(shape) == rank and rank > 1), default=1)
        for place, name in enumerate(node.inputs):
            axis = 1 - rank + len(tensors[name].shape)
            if name and not graph.is_activation(name) and axis >= 0 and tensors[name].shape[axis] > 1:
                shape = tensors[name].shape
                node = reshaped(node, place, (*shape[:axis], size, *shape[axis + 1 :]))
    return node


def _is_depthwise(graph: Graph, node: Node) -> bool:
    return node.integer("group", 1) == graph.shape(node.inputs[0])[1] == graph.shape(node.outputs[0])[1]


# Resolution


def smaller_images(graph: Graph) -> dict[str, Shape]:
    """Return the shapes of the inputs that are images, an eighth smaller and a multiple of 32; empty where none is one.

    Example:
        >>> import latcast
        >>> smaller_images(latcast.build(latcast.model("resnet18")))
        {'input': (1, 3, 192, 192)}
    """
    found: dict[str, Shape] = {}
    for name in graph.inputs:
        shape = graph.shape(name)
        if len(shape) == 4 and min(shape[2:]) >= 64:
            sizes = [max(32, size * 7 // 8 // 32 * 32) for size in shape[2:]]
            if all(size < old for size, old in zip(sizes, shape[2:], strict=True)):
                found[name] = (*shape[:2], sizes[0], sizes[1])
    return found


def rounded_channels(channels: int) -> list[int]:
    """Return the multiples of 4, 8, 16 and 32 next to a number of channels that is not one, at most a quarter of it away.

    Example:
        >>> rounded_channels(30), rounded_channels(64), rounded_channels(116)
        ([32, 28, 24], [], [120, 112, 128, 96])
    """
    found: dict[int, None] = {}
    for multiple in (4, 8, 16, 32):
        if channels % multiple:
            down = channels // multiple * multiple
            for size in (down, down + multiple):
                if size > 0 and abs(size - channels) <= channels / 4:
                    found[size] = None
    return sorted(found, key=lambda size: (abs(size - channels), -size))
