"""Several operators that mean one: GELU, hard-swish, layer norm, attention... as exporters write them.

A pattern is an expression in ONNX operators, for instance ``Mul(Mul(x, Add(Erf(Div(x, #)), #)), #)``: ``#`` is a constant or
a weight, a lower-case name stands for an activation (the same name for the same tensor). Operands of Add and Mul match in
either order. Inner results must have no reader outside the match. Patterns are data (``rules/patterns.json``); which of
them a runtime runs as one kernel is in its fusion rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import resources

from latcast.errors import LatcastError
from latcast.graph.ir import Graph, Node

COMMUTATIVE = frozenset({"Add", "Mul"})


@dataclass(frozen=True)
class Expression:
    """A parsed pattern: an operator with operands, ``#``, or a variable (no operands, lower case)."""

    head: str
    operands: tuple[Expression, ...] = ()

    @property
    def is_operator(self) -> bool:
        return self.head[0].isupper()

    @cached_property
    def operators(self) -> frozenset[str]:
        """ONNX types of all operators in the expression."""
        own = frozenset({self.head}) if self.is_operator else frozenset()
        return own.union(*(operand.operators for operand in self.operands))


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern was found."""

    pattern: str
    nodes: tuple[Node, ...]


_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|[#(),])")


@cache
def parse_pattern(text: str) -> Expression:
    """Reads an expression.

    Raises:
        LatcastError: The text is not an expression; the message shows where.
    """
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text):
        raise LatcastError(f"pattern '{text}' has a character that is no name, '#', comma or parenthesis")
    position = 0

    def expression() -> Expression:
        nonlocal position
        if position >= len(tokens) or tokens[position] in "(),":
            raise LatcastError(f"pattern '{text}' lacks an operand after '{' '.join(tokens[:position])}'")
        head = tokens[position]
        position += 1
        operands: list[Expression] = []
        if position < len(tokens) and tokens[position] == "(":
            while tokens[position] in "(,":
                position += 1
                operands.append(expression())
                if position >= len(tokens):
                    raise LatcastError(f"pattern '{text}' lacks a closing parenthesis")
            if tokens[position] != ")":
                raise LatcastError(f"pattern '{text}' expected ')' at '{tokens[position]}'")
            position += 1
        return Expression(head, tuple(operands))

    found = expression()
    if position != len(tokens):
        raise LatcastError(f"pattern '{text}' goes on after its end: '{' '.join(tokens[position:])}'")
    return found


@lru_cache(maxsize=1)
def shipped_patterns() -> Mapping[str, tuple[str, ...]]:
    """Pattern name to its spellings."""
    text = resources.files("latcast.kernels").joinpath("rules/patterns.json").read_text()
    return {name: tuple(spellings) for name, spellings in json.loads(text)["patterns"].items()}


Bindings = Mapping[str, str]
"""Variable of a pattern to the tensor it stands for."""

Found = tuple[Bindings, tuple[Node, ...]]
"""What a part of a pattern bound, and the nodes it matched, the outermost first."""


def _node_matches(graph: Graph, want: Expression, node: Node, bound: Bindings) -> Iterator[Found]:
    """All ways in which an operator of the pattern matches this node."""
    if node.op_type != want.head:
        return
    inputs = [name for name in node.inputs if name]
    count = len(want.operands)
    # Operands that the pattern leaves out (a Clip's bounds, a LayerNorm's scale) must not be activations.
    if count > len(inputs) or any(graph.is_activation(name) for name in inputs[count:]):
        return
    orders = [want.operands]
    if want.head in COMMUTATIVE and count == 2:
        orders.append(want.operands[::-1])
    for order in orders:
        for bindings, nodes in _operands_match(graph, order, inputs[:count], bound):
            yield bindings, (node, *nodes)


def _operands_match(graph: Graph, wanted: Sequence[Expression], tensors: Sequence[str], bound: Bindings) -> Iterator[Found]:
    if not wanted:
        yield bound, ()
        return
    for bindings, nodes in _tensor_matches(graph, wanted[0], tensors[0], bound):
        for all_bindings, others in _operands_match(graph, wanted[1:], tensors[1:], bindings):
            yield all_bindings, nodes + others


def _tensor_matches(graph: Graph, want: Expression, tensor: str, bound: Bindings) -> Iterator[Found]:
    if want.head == "#":
        if not graph.is_activation(tensor):
            yield bound, ()
    elif want.is_operator:
        producer = graph.producers.get(tensor)
        if producer is not None:
            yield from _node_matches(graph, want, producer, bound)
    elif graph.is_activation(tensor) and bound.get(want.head, tensor) == tensor:
        yield {**bound, want.head: tensor}, ()


def _closed(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether only the first node's output (the pattern's root) is read outside the match."""
    inside = {node.name for node in nodes}
    for node in nodes[1:]:
        for output in node.outputs:
            if output in graph.outputs:
                return False
            if any(reader.name not in inside for reader in graph.consumers.get(output, ())):
                return False
    return True


Condition = Callable[[Graph, Match], bool]
"""What must hold of a match beside its expression."""


def find_patterns(
    graph: Graph,
    names: Iterable[str],
    spellings: Mapping[str, tuple[str, ...]],
    conditions: Mapping[str, Condition] | None = None,
) -> list[Match]:
    """All matches of the named patterns, none overlapping; longer spellings win over shorter ones.

    Args:
        graph: The network.
        names: Patterns to look for.
        spellings: Pattern name to its expressions.
        conditions: Pattern name to what must hold of a match beside the expression.

    Raises:
        LatcastError: A name that has no spelling.
    """
    present = {node.op_type for node in graph.nodes}
    by_root: dict[str, list[tuple[str, Expression, int]]] = {}
    for name in names:
        if name not in spellings:
            raise LatcastError(f"no pattern is called '{name}'; known: {', '.join(sorted(spellings))}")
        for text in spellings[name]:
            expression = parse_pattern(text)
            if expression.operators <= present:
                by_root.setdefault(expression.head, []).append((name, expression, text.count("(")))
    if not by_root:
        return []
    for candidates in by_root.values():
        candidates.sort(key=lambda candidate: -candidate[2])
    order = {node.name: index for index, node in enumerate(graph.nodes)}
    matches: list[Match] = []
    used: set[str] = set()
    # From the end, so that the outermost operator of an expression is tried before the inner ones.
    for node in reversed(graph.nodes):
        if node.op_type not in by_root or node.name in used:
            continue
        match = _first_match(graph, node, by_root[node.op_type], used, order, conditions or {})
        if match is not None:
            used.update(found.name for found in match.nodes)
            matches.append(match)
    matches.reverse()
    return matches


def _first_match(
    graph: Graph,
    root: Node,
    candidates: Iterable[tuple[str, Expression, int]],
    used: set[str],
    order: Mapping[str, int],
    conditions: Mapping[str, Condition],
) -> Match | None:
    """The first candidate that ends in this node, leaves no inner result to others, and fulfils its condition."""
    for name, expression, _ in candidates:
        for _, nodes in _node_matches(graph, expression, root, {}):
            unique = list({found.name: found for found in nodes}.values())
            if any(found.name in used for found in unique) or not _closed(graph, unique):
                continue
            match = Match(name, tuple(sorted(unique, key=lambda found: order[found.name])))
            if name not in conditions or conditions[name](graph, match):
                return match
    return None
