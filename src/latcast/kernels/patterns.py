"""Several operators that mean one: GELU, hard-swish, layer norm, attention... as exporters write them.

A pattern is an expression in ONNX operators, for instance ``Mul(Mul(x, Add(Erf(Div(x, #)), #)), #)``: ``#`` is a constant or
a weight, a lower-case name stands for an activation (the same name for the same tensor). Operands of Add and Mul match in
either order. Inner results must have no reader outside the match. Patterns are data (``rules/patterns.json``); which of
them a runtime runs as one kernel is in its fusion rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from latcast.errors import LatcastError
from latcast.graph.ir import Graph, Node

COMMUTATIVE = frozenset({"Add", "Mul"})


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed pattern: an operator with operands, ``#``, or a variable (no operands, lower case)."""

    head: str
    operands: tuple[Expression, ...] = ()

    @property
    def is_operator(self) -> bool:
        return self.head[0].isupper()


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


def _match_node(graph: Graph, want: Expression, node: Node, bound: dict[str, str], taken: list[Node]) -> bool:
    if node.op_type != want.head:
        return False
    inputs = [name for name in node.inputs if name]
    if len(want.operands) > len(inputs):
        return False
    orders: list[tuple[Expression, ...]] = [want.operands]
    if want.head in COMMUTATIVE and len(want.operands) == 2:
        orders.append((want.operands[1], want.operands[0]))
    for order in orders:
        trial, nodes = dict(bound), list(taken)
        nodes.append(node)
        # Operands that the pattern leaves out (a Clip's bounds, a LayerNorm's scale) must not be activations.
        rest = inputs[len(order) :]
        if all(
            _match_tensor(graph, operand, tensor, trial, nodes) for operand, tensor in zip(order, inputs, strict=False)
        ) and not any(graph.is_activation(name) for name in rest):
            bound.clear()
            bound.update(trial)
            taken[:] = nodes
            return True
    return False


def _match_tensor(graph: Graph, want: Expression, tensor: str, bound: dict[str, str], taken: list[Node]) -> bool:
    if want.head == "#":
        return not graph.is_activation(tensor)
    if not want.is_operator:
        if not graph.is_activation(tensor):
            return False
        return bound.setdefault(want.head, tensor) == tensor
    producer = graph.producers.get(tensor)
    if producer is None:
        return False
    if any(producer is node for node in taken):
        return producer.op_type == want.head
    return _match_node(graph, want, producer, bound, taken)


def _closed(graph: Graph, nodes: list[Node]) -> bool:
    """Whether only the first node's output (the pattern's root) is read outside the match."""
    inside = {node.name for node in nodes}
    for node in nodes[1:]:
        for output in node.outputs:
            if output in graph.outputs:
                return False
            if any(reader.name not in inside for reader in graph.consumers.get(output, ())):
                return False
    return True


def find_patterns(graph: Graph, names: Iterable[str], spellings: Mapping[str, tuple[str, ...]]) -> list[Match]:
    """All matches of the named patterns, none overlapping; longer spellings win over shorter ones.

    Raises:
        LatcastError: A name that has no spelling.
    """
    by_root: dict[str, list[tuple[str, Expression, int]]] = {}
    for name in names:
        if name not in spellings:
            raise LatcastError(f"no pattern is called '{name}'; known: {', '.join(sorted(spellings))}")
        for text in spellings[name]:
            expression = parse_pattern(text)
            by_root.setdefault(expression.head, []).append((name, expression, text.count("(")))
    for candidates in by_root.values():
        candidates.sort(key=lambda candidate: -candidate[2])
    matches: list[Match] = []
    used: set[str] = set()
    order = {node.name: index for index, node in enumerate(graph.nodes)}
    # From the end, so that the outermost operator of an expression is tried before the inner ones.
    for node in reversed(graph.nodes):
        if node.name in used:
            continue
        for name, expression, _ in by_root.get(node.op_type, ()):
            taken: list[Node] = []
            if not _match_node(graph, expression, node, {}, taken):
                continue
            unique = list({found.name: found for found in taken}.values())
            if any(found.name in used for found in unique) or not _closed(graph, unique):
                continue
            used.update(found.name for found in unique)
            matches.append(Match(name, tuple(sorted(unique, key=lambda found: order[found.name]))))
            break
    matches.reverse()
    return matches
