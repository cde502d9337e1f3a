"""TFLite's operators that run other subgraphs, or that keep values between inferences.

A loop is unrolled: its rounds are counted by what its condition knows without the input, and of a condition that also looks at
computed values the most rounds are taken. Of two branches that the input chooses between the costlier one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from latcast.graph.importers.assembly import Assembly
from latcast.graph.importers.tflite_conversion import DOMAIN, Conversion
from latcast.graph.ir import Node
from latcast.graph.limits import Resource
from latcast.graph.operators import OperatorView, lookup

Convert = Callable[[Conversion], Any]


def _inputs(c: Conversion) -> list[str]:
    return [c.input(position) for position in range(len(c))]


def _inline(c: Conversion, subgraph: int) -> None:
    results = c.reading.inline(subgraph, _inputs(c), f"{c.name}/")
    for output, result in zip(c.outputs, results, strict=True):
        c.assembly.alias(output, result)


def _while(c: Conversion) -> None:
    options = c.options("WhileOptions")
    carried, rounds, may_end = _inputs(c), 0, False
    while True:
        (answer,) = c.reading.inline(options.CondSubgraphIndex(), carried, f"{c.name}/{rounds}/condition/")
        goes_on, is_certain = _goes_on(c.assembly, answer)
        if goes_on is None:
            from latcast.graph.importers.value_advice import no_single_latency

            what = f"operator {c.name} decides at run time how often it runs"
            raise no_single_latency(c.assembly, what, answer, "convert the model with a fixed number of rounds", every_round=True)
        if not goes_on:
            break
        may_end = may_end or not is_certain
        c.assembly.budget.take(Resource.ROUNDS)
        carried = c.reading.inline(options.BodySubgraphIndex(), carried, f"{c.name}/{rounds}/")
        rounds += 1
    for output, result in zip(c.outputs, carried, strict=True):
        c.assembly.alias(output, result)
    most = "at most " if may_end else ""
    c.assembly.notes.append(f"the loop {c.name} runs {most}{rounds} rounds, which are predicted one after another")


def _goes_on(assembly: Assembly, name: str) -> tuple[bool | None, bool]:
    """Return what is known of a condition: its value, None where nothing is; and whether that is certain."""
    value = assembly.value(name)
    if value is not None:
        return bool(value.reshape(-1)[0]), True
    node = next((node for node in reversed(assembly.nodes) if assembly.resolve(name) in node.outputs), None)
    if node is None or node.op_type != "And":
        return None, False
    sides = [_goes_on(assembly, side) for side in node.inputs]
    if (False, True) in sides:
        return False, True
    return (True if any(answer for answer, _ in sides) else None), all(is_certain for _, is_certain in sides)


def _if(c: Conversion) -> None:
    options = c.options("IfOptions")
    branches = {"then": options.ThenSubgraphIndex(), "else": options.ElseSubgraphIndex()}
    known = c.reading.value(c.operator.inputs[0])
    if known is not None:
        branches = {"": branches["then" if known.reshape(-1)[0] else "else"]}
    found = []
    for name, subgraph in branches.items():
        start = len(c.assembly.nodes)
        results = c.reading.inline(subgraph, _inputs(c)[1:], f"{c.name}/{name}/" if name else f"{c.name}/")
        found.append((sum(_work(c.assembly, node) for node in c.assembly.nodes[start:]), name, results))
    _, name, results = max(found, key=lambda branch: branch[0])
    for output, result in zip(c.outputs, results, strict=True):
        c.assembly.alias(output, result)
    if name:
        from latcast.graph.importers.value_advice import advice_on

        advice = advice_on(c.assembly, c.input(0), "")
        chosen = f"{c.name} chooses its branch at run time; the costlier one is predicted, '{name}'"
        c.assembly.notes.append(f"{chosen}; {advice}" if advice else chosen)


def _work(assembly: Assembly, node: Node) -> float:
    """Return the FLOPs of a node and the bytes that it moves."""
    inputs = tuple(assembly.tensor(name) if name else None for name in node.inputs)
    outputs = tuple(assembly.tensor(name) for name in node.outputs if name)
    row = lookup(node.op_type)
    view = OperatorView(node, inputs, tuple(assembly.value(name) if name else None for name in node.inputs), outputs)
    return sum(tensor.size_bytes for tensor in (*inputs, *outputs) if tensor) + (row.flops(view) if row else 0)


def _initialisation(c: Conversion) -> None:
    """Add nothing: it runs once, before the first inference."""


def _handle(c: Conversion) -> None:
    """Add a handle; nothing runs for it."""
    c.assembly.add_static(c.outputs[0], c.stated())


def _assign_variable(c: Conversion) -> None:
    """Add a copy of a value, which stays for the next inference."""
    value = c.input(1)
    kept = c.assembly.fresh(f"{value}_kept")
    c.reading.stated[kept] = c.assembly.tensor(value)
    c.assembly.add(Node(c.operator.kind, f"{c.name}:{value}", (value,), (kept,), {}, DOMAIN))
    c.reading.kept.append(kept)


CONTROL_FLOW: Mapping[str, Convert] = {
    "ASSIGN_VARIABLE": _assign_variable,
    "CALL": lambda c: _inline(c, c.options("CallOptions").Subgraph()),
    "CALL_ONCE": _initialisation,
    "HASHTABLE": _handle,
    "IF": _if,
    "READ_VARIABLE": lambda c: c.keep_unknown([c.stated()]),
    "STABLEHLO_COMPOSITE": lambda c: _inline(c, c.options("StableHLOCompositeOptions").DecompositionSubgraphIndex()),
    "VAR_HANDLE": _handle,
    "WHILE": _while,
}
"""Builtin operators by their name in the schema."""
