"""Several operators that mean one: GELU, hard-swish, layer norm, attention... as exporters write them.

A spelling of an idiom is an expression in ONNX operators, for instance ``Mul(Scale(x, 0.5), Shift(Erf(Scale(x, 0.7071)), 1))``:

- A lower-case name is an activation; the same name is the same tensor. Operands of Add and Mul match in either order.
- ``#`` is a constant or a weight; ``#weight`` is one that the idiom reads.
- ``Scale(x, c)`` multiplies by a constant or divides by its reciprocal, ``Shift(x, c)`` adds it or subtracts its negative;
  there ``#name`` is a number that the idiom's attributes depend on.
- A number is the value that a constant must have for the idiom to compute what its name says. An expression matches with
  other values too: a runtime that fuses by structure does not look at them.

Inner results must have no reader outside. Spellings are data (``idioms.json``, and what other distributions announce in the
entry-point group ``latcast.idioms``). :meth:`latcast.graph.ir.Graph.idioms` keeps
what is found in a graph, each idiom looked for once, in time linear in its nodes; the search for kernels and the writers of
files read it there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from math import isclose, prod
from typing import NamedTuple

from latcast.errors import LatcastError
from latcast.graph.ir import AttributeValue, Graph, Node
from latcast.graph.operators.elementwise import clip_bounds
from latcast.graph.operators.table import view_of
from latcast.registry import Registry

COMMUTATIVE = frozenset({"Add", "Mul"})

_SCALING: Mapping[str, tuple[str, str]] = {"Scale": ("Mul", "Div"), "Shift": ("Add", "Sub")}
"""Names of an expression to the operator with the constant and the one with its inverse."""

IN_GROUPS = "in_groups"
"""Attribute, 1, of a depthwise Conv that its file has as a convolution in groups, as Keras writes ``Conv2D(groups=channels)`` and
TFLite its CONV_2D: that is not the operator DEPTHWISE_CONV_2D to TFLite, whose CPU kernels run it by their generic path."""

_TOLERANCE = 1e-3
"""Relative; exporters print constants with few digits."""


@dataclass(frozen=True)
class Expression:
    """A parsed spelling: an operator with operands, a constant (``#``, ``#name``, a number) or a variable (lower case)."""

    head: str
    operands: tuple[Expression, ...] = ()

    @cached_property
    def is_operator(self) -> bool:
        return self.head[0].isupper()

    @cached_property
    def is_constant(self) -> bool:
        return not self.head[0].isalpha()

    @cached_property
    def operators(self) -> frozenset[str]:
        """ONNX types that a graph must have to hold the expression."""
        own = frozenset({self.head} if self.is_operator and self.head not in _SCALING else ())
        return own.union(*(operand.operators for operand in self.operands))

    @cached_property
    def op_types(self) -> tuple[str, ...]:
        """ONNX types that the outermost operator may have."""
        return _SCALING.get(self.head, (self.head,))

    @cached_property
    def makers(self) -> tuple[frozenset[str], ...]:
        """ONNX types that the operators have that make its operands, for each operand that an operator makes."""
        return tuple(frozenset(operand.op_types) for operand in self.operands if operand.is_operator)

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Names of the tensors that the idiom reads: its activations, then its named weights, in the order of the text."""
        found = list(dict.fromkeys(self._tensors()))
        return (*(name for name in found if name[0] != "#"), *(name for name in found if name[0] == "#"))

    def _tensors(self) -> Iterator[str]:
        if not self.is_operator:
            yield from () if self.is_constant and not self.head[1:].isidentifier() else (self.head,)
        for operand in self.operands[: 1 if self.head in _SCALING else None]:
            yield from operand._tensors()


@dataclass(frozen=True, slots=True)
class Idiom:
    """A place of an idiom in a graph.

    Attributes:
        name: "gelu", "layer_norm"...: a name in :data:`IDIOMS`.
        nodes: The operators that spell it, in the graph's order; the last makes its result.
        inputs: The activations that it reads, then its weights, in the order of the spelling.
        attributes: Of the one operator that computes the same, under ONNX's names; None where the constants or axes are
            not those of the idiom.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] | None

    @property
    def output(self) -> str:
        return self.nodes[-1].outputs[0]


Idioms = Mapping[str, Sequence[Idiom]]
"""Name of a node to the places of one idiom that end in it."""

_TOKEN = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*|[0-9][0-9.]*|#[a-z_]*|[(),])")


@cache
def parse_spelling(text: str) -> Expression:
    """Read an expression.

    Raises:
        LatcastError: The text is not an expression; the message shows where.
    """
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text):
        raise LatcastError(f"spelling '{text}' has a character that is no name, number, '#', comma or parenthesis")
    position = 0

    def expression() -> Expression:
        nonlocal position
        if position >= len(tokens) or tokens[position] in "(),":
            raise LatcastError(f"spelling '{text}' lacks an operand after '{' '.join(tokens[:position])}'")
        head = tokens[position]
        position += 1
        operands: list[Expression] = []
        if position < len(tokens) and tokens[position] == "(":
            while tokens[position] in "(,":
                position += 1
                operands.append(expression())
                if position >= len(tokens):
                    raise LatcastError(f"spelling '{text}' lacks a closing parenthesis")
            if tokens[position] != ")":
                raise LatcastError(f"spelling '{text}' expected ')' at '{tokens[position]}'")
            position += 1
        return Expression(head, tuple(operands))

    found = expression()
    if position != len(tokens):
        raise LatcastError(f"spelling '{text}' goes on after its end: '{' '.join(tokens[position:])}'")
    return found


def _shipped_idioms() -> Registry[Sequence[str]]:
    registry: Registry[Sequence[str]] = Registry("idiom", {}, group="latcast.idioms")
    text = resources.files("latcast.graph").joinpath("idioms.json").read_text(encoding="utf-8")
    for name, texts in json.loads(text)["idioms"].items():
        registry.register(name, tuple(texts))
    return registry


IDIOMS = _shipped_idioms()
"""Every idiom's name to its spellings."""


def find_idioms(graph: Graph, name: str, texts: Sequence[str] | None = None) -> Idioms:
    """Return all places of one idiom in a graph, overlapping ones too; :meth:`Graph.idioms` keeps the result.

    Args:
        graph: The network.
        name: The idiom.
        texts: Its spellings; those of :data:`IDIOMS` unless given.

    Raises:
        UnknownNameError: No idiom has this name.
    """
    expressions = [parse_spelling(text) for text in (IDIOMS.get(name) if texts is None else texts)]
    expressions = [expression for expression in expressions if expression.operators <= graph.nodes_of_type.keys()]
    found: dict[str, list[Idiom]] = {}
    if expressions:
        matcher = _Matcher(graph)
        for expression in expressions:
            for root in (node for op_type in expression.op_types for node in graph.nodes_of_type.get(op_type, ())):
                idiom = matcher.idiom(name, expression, root)
                if idiom is not None:
                    found.setdefault(root.name, []).append(idiom)
    return found


def choose_idioms(graph: Graph, names: Iterable[str], accepts: Callable[[Idiom], bool] = lambda idiom: True) -> list[Idiom]:
    """Return the idioms of these names that do not overlap, in the graph's order.

    Later ones win over those inside them, longer ones over shorter ones, then those that are named first.

    Args:
        graph: The network.
        names: Idioms to take.
        accepts: What else must hold of one.

    Raises:
        UnknownNameError: No idiom has one of the names.
    """
    candidates = [idiom for name in names for ending in graph.idioms(name).values() for idiom in ending if accepts(idiom)]
    # From the end, so that an idiom is tried before those inside it.
    candidates.sort(key=lambda idiom: (-graph.positions[idiom.nodes[-1].name], -len(idiom.nodes)))
    chosen: list[Idiom] = []
    used: set[str] = set()
    for idiom in candidates:
        names_inside = [node.name for node in idiom.nodes]
        if used.isdisjoint(names_inside):
            used.update(names_inside)
            chosen.append(idiom)
    return chosen[::-1]


class _Bound(NamedTuple):
    """The tensors and nodes that a part of an expression matched."""

    tensors: Mapping[str, str]
    numbers: Mapping[str, float]
    exact: bool
    """True if every constant has the value that the expression gives it."""


_Found = tuple[_Bound, tuple[Node, ...]]
"""The names that a part of an expression bound, and the nodes it matched, the outermost first."""


class _Matcher:
    """Looks for expressions in one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inert = graph.static_names
        self.outputs = frozenset(graph.outputs)
        self.makers: dict[str, set[str]] = {}
        """Node to the types of the operators that make its inputs."""

    def idiom(self, name: str, want: Expression, root: Node) -> Idiom | None:
        """Return the match of one spelling that ends in a node."""
        for bound, nodes in self._node(want, root, _Bound({}, {}, True)):
            unique = {node.name: node for node in nodes}
            # Only the root's result may be read outside.
            inner = [output for node in unique.values() if node is not root for output in node.outputs]
            readers = self.graph.consumers
            if self.outputs.isdisjoint(inner) and all(
                reader.name in unique for name in inner for reader in readers.get(name, ())
            ):
                ordered = tuple(sorted(unique.values(), key=lambda node: self.graph.positions[node.name]))
                attributes = _ATTRIBUTES[name](self.graph, ordered, bound) if name in _ATTRIBUTES else {}
                if attributes is None and name in _DECIDED_BY_ATTRIBUTES:
                    continue
                inputs = tuple(bound.tensors[tensor] for tensor in want.tensors)
                return Idiom(name, ordered, inputs, attributes if bound.exact else None)
        return None

    def _may_match(self, want: Expression, node: Node) -> bool:
        """Return False where the operators that make a node's inputs already exclude a match."""
        if node.op_type not in want.op_types:
            return False
        makers = self.makers.get(node.name)
        if makers is None:
            producers = self.graph.producers
            makers = self.makers[node.name] = {producers[name].op_type for name in node.inputs if name in producers}
        return not any(types.isdisjoint(makers) for types in want.makers)

    def _node(self, want: Expression, node: Node, bound: _Bound) -> Iterator[_Found]:
        """Return all ways in which an operator of the expression matches this node."""
        if not self._may_match(want, node):
            return
        inputs = [name for name in node.inputs if name]
        count = len(want.operands)
        # Operands that the expression leaves out (a Clip's bounds, a LayerNorm's scale) must not be activations.
        if count > len(inputs) or any(name not in self.inert for name in inputs[count:]):
            return
        orders = [want.operands]
        if node.op_type in COMMUTATIVE and count == 2:
            orders.append(want.operands[::-1])
        for order in orders:
            for found, nodes in self._operands(want, node, order, inputs, bound):
                yield found, (node, *nodes)

    def _operands(
        self, parent: Expression, node: Node, wanted: Sequence[Expression], tensors: Sequence[str], bound: _Bound
    ) -> Iterator[_Found]:
        if not wanted:
            yield bound, ()
            return
        for first, nodes in self._operand(parent, node, wanted[0], tensors[0], bound):
            for found, others in self._operands(parent, node, wanted[1:], tensors[1:], first):
                yield found, nodes + others

    def _operand(self, parent: Expression, node: Node, want: Expression, tensor: str, bound: _Bound) -> Iterator[_Found]:
        active = tensor not in self.inert
        if want.is_constant:
            if not active:
                yield self._with_constant(parent, node, want.head, tensor, bound), ()
        elif want.is_operator:
            producer = self.graph.producers.get(tensor)
            if producer is not None:
                yield from self._node(want, producer, bound)
        elif active and bound.tensors.get(want.head, tensor) == tensor:
            yield bound._replace(tensors={**bound.tensors, want.head: tensor}), ()

    def _with_constant(self, parent: Expression, node: Node, head: str, tensor: str, bound: _Bound) -> _Bound:
        if head == "#":
            return bound
        if head[0] == "#" and parent.head not in _SCALING:
            return bound._replace(tensors={**bound.tensors, head: tensor})
        constant = self.graph.constants.get(tensor)
        value = float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None
        if value is not None and node.op_type == "Sub":
            value = -value
        elif value is not None and parent.head == "Scale" and node.op_type == "Div":
            value = 1.0 / value if value else None
        if head[0] == "#":
            return bound if value is None else bound._replace(numbers={**bound.numbers, head[1:]: value})
        fits = value is not None and isclose(value, float(head), rel_tol=_TOLERANCE)
        return bound if fits else bound._replace(exact=False)


_Attributes = Mapping[str, AttributeValue]


def _hard_sigmoid(graph: Graph, nodes: Sequence[Node], bound: _Bound) -> _Attributes | None:
    """Match clip(scale (x + shift), 0, 1), which is clip(alpha x + beta, 0, 1)."""
    for node in nodes:
        if node.op_type == "HardSigmoid":
            return {"alpha": node.attributes.get("alpha", 0.2), "beta": node.attributes.get("beta", 0.5)}
    clip = next(node for node in nodes if node.op_type == "Clip")
    if not graph.constants.keys() >= set(filter(None, clip.inputs[1:])):
        return None
    low, high = clip_bounds(clip, graph.constants)
    scale, shift = bound.numbers.get("scale"), bound.numbers.get("shift")
    if scale is None or shift is None or low != 0.0 or high is None or not isclose(scale * high, 1.0, rel_tol=_TOLERANCE):
        return None
    return {"alpha": scale, "beta": scale * shift}


def _gelu(graph: Graph, nodes: Sequence[Node], bound: _Bound) -> _Attributes:
    return {"approximate": "tanh" if any(node.op_type == "Tanh" for node in nodes) else "none"}


def _layer_norm(graph: Graph, nodes: Sequence[Node], bound: _Bound) -> _Attributes | None:
    """Match a normalisation over the last axis, with a weight and a bias for each of its places if any."""
    shape = graph.shape(bound.tensors["x"])
    epsilon = bound.numbers.get("epsilon")
    for node in nodes:
        view = view_of(graph, node)
        if node.op_type == "ReduceMean":
            axes = view.ints_from("axes", 1) or ()
            if not node.integer("keepdims", 1) or [axis % len(shape) for axis in axes] != [len(shape) - 1]:
                return None
    for name in ("#weight", "#bias"):
        given = graph.shape(bound.tensors[name]) if name in bound.tensors else shape[-1:]
        if prod(given) != shape[-1] or given[-1:] != shape[-1:]:
            return None
    return None if epsilon is None else {"axis": -1, "epsilon": epsilon}


def _channel_shuffle(graph: Graph, nodes: Sequence[Node], bound: _Bound) -> _Attributes | None:
    """Match (N, C, ...) reshaped to (N, groups, C / groups, ...), the two exchanged, and back, as in ShuffleNet."""
    first, transpose, last = nodes
    shape, grouped = graph.shape(first.inputs[0]), graph.shape(first.outputs[0])
    order = transpose.integers("perm")
    if len(shape) != 4 or len(grouped) < 4 or graph.shape(last.outputs[0]) != shape:
        return None
    if order != (0, 2, 1, *range(3, len(grouped))):
        return None
    if grouped[0] != shape[0] or grouped[1] * grouped[2] != shape[1]:
        return None
    return {"group": grouped[1]}


def _depthwise_pointwise(graph: Graph, nodes: Sequence[Node], bound: _Bound) -> _Attributes | None:
    """Find a depthwise convolution and a plain 1x1 one after it, perhaps with a normalisation and an activation between.

    The attributes are ``channels`` and ``depthwise_weights`` of the first, ``pointwise_channels`` and
    ``pointwise_weights`` of the second.
    """
    first, second = (node for node in nodes if node.op_type == "Conv")
    channels, weight = graph.shape(first.inputs[0])[1], graph.shape(second.inputs[1])
    if first.attributes.get("group", 1) != channels or channels == 1 or graph.shape(first.outputs[0])[1] != channels:
        return None
    if weight[2:] != (1, 1) or set(second.integers("strides", (1, 1))) != {1} or any(second.integers("pads")):
        return None
    # On a 1x1 map the second is a fully connected layer.
    if second.integer("group", 1) != 1 or graph.shape(second.inputs[0])[2:] == (1, 1):
        return None
    return {
        "channels": channels,
        "depthwise_weights": prod(graph.shape(first.inputs[1])),
        "pointwise_channels": weight[0],
        "pointwise_weights": prod(weight),
    }


def _conv_in_groups(graph: Graph, nodes: Sequence[Node], bound: _Bound) -> _Attributes | None:
    return {} if nodes[0].attributes.get(IN_GROUPS) else None


_ATTRIBUTES: Mapping[str, Callable[[Graph, Sequence[Node], _Bound], _Attributes | None]] = {
    "channel_shuffle": _channel_shuffle, "conv_in_groups": _conv_in_groups, "depthwise_pointwise": _depthwise_pointwise,
    "gelu": _gelu,
    "hard_sigmoid": _hard_sigmoid, "hard_swish": _hard_sigmoid, "layer_norm": _layer_norm, "plain_layer_norm": _layer_norm,
}  # fmt: skip
"""Idiom to what works out its attributes, None where the constants or shapes are others; without an entry it has none."""

_DECIDED_BY_ATTRIBUTES = frozenset({"channel_shuffle", "conv_in_groups", "depthwise_pointwise"})
"""Idioms that the operators alone do not tell from something else."""
