"""Advice of refusals: which input values to give so that a tensor is known that the network computes at run time."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from latcast.errors import ModelError
from latcast.graph.ir import Node
from latcast.graph.operators import Operator
from latcast.graph.operators.evaluation import EVALUATED

if TYPE_CHECKING:
    from latcast.graph.importers.assembly import Assembly

MOST_GIVEN = 16
"""Most elements of an input whose value a message asks for: a switch, a rate or a size, not the data itself."""


def advice_on(
    assembly: Assembly,
    name: str,
    otherwise: str,
    examples: Mapping[str, str] = MappingProxyType({}),
    *,
    every_round: bool = False,
) -> str:
    """Return what to do where a tensor must be known: give values of the inputs that decide it, or its own.

    Args:
        assembly: The graph so far.
        name: The tensor.
        otherwise: What to do where too many numbers would have to be given.
        examples: Tensor to a value that it may be given.
        every_round: Whether there is such a tensor in every round of a loop, so that only inputs can be given for all.
    """
    name = assembly.resolve(name)
    deciding = _deciding(assembly, name)
    can_be_given = name in assembly.inputs or (assembly.has_name(name) and not every_round)
    if deciding == [name] and (assembly.tensors[name].elements > MOST_GIVEN or not can_be_given):
        return otherwise
    named = " and ".join(f"'{each}'" for each in deciding)
    values = [f"{each}={examples.get(each) or _example(assembly, each)}" for each in deciding]
    options = " ".join(f"--value {shlex.quote(value)}" for value in values)
    if deciding == [name] and name not in assembly.inputs:
        return f"give its value: {options}"
    return f"input{'s' * (len(deciding) > 1)} {named} decide{'s' * (len(deciding) == 1)} it; give a value: {options}"


def no_single_latency(assembly: Assembly, what: str, name: str, otherwise: str, *, every_round: bool = False) -> ModelError:
    """Return the error of a branch or a loop that a tensor decides whose value is not known.

    Args:
        assembly, name, otherwise, every_round: As for :func:`advice_on`.
        what: The operator, and what it decides as the network runs.
    """
    advice = advice_on(assembly, name, otherwise, every_round=every_round)
    return ModelError(f"{what}, so the network has no single latency; {advice}")


def explain_missing_value(assembly: Assembly, row: Operator, node: Node) -> None:
    """Raise a ModelError where an operator's outputs have sizes that a value decides which the file does not hold."""
    for position in sorted(row.constants):
        name = node.inputs[position] if position < len(node.inputs) else ""
        if name in assembly.stored and assembly.value(name) is None:
            raise ModelError(
                f"node '{node.name}' ({node.op_type}) needs the values of '{name}', which the model file does "
                "not hold; put the file of its external data beside it"
            )
        # A shape of ones has too few elements, unless one of them stands for the rest.
        example = "100" if node.op_type == "Range" else ""
        if name and node.op_type == "Reshape":
            example = ",".join(["-1", *["1"] * (min(assembly.tensors[name].elements, MOST_GIVEN) - 1)])
        if name and assembly.value(name) is None and (advice := advice_on(assembly, name, "", {name: example})):
            raise ModelError(f"node '{node.name or node.outputs[0]}' ({node.op_type}) computes '{name}' at run time; {advice}")


def _deciding(assembly: Assembly, name: str) -> list[str]:
    """Return the few small inputs that a tensor can be worked out from, in the network's order; else the tensor itself."""
    producers = {output: node for node in assembly.nodes for output in node.outputs}
    waiting, seen = [name], {""}
    while waiting:
        if (current := waiting.pop()) not in seen:
            seen.add(current)
            if current in producers and producers[current].op_type not in EVALUATED:
                return [name]
            waiting += producers[current].inputs if current in producers else ()
    found = [each for each in assembly.inputs if each in seen and each not in assembly.given]
    return found if found and all(assembly.tensors[each].elements <= MOST_GIVEN for each in found) else [name]


def _example(assembly: Assembly, name: str) -> str:
    """Return a value that may be given for a tensor: the positive number that it is first computed with, else 1."""
    for node in assembly.nodes:
        if name in node.inputs:
            others = [assembly.value(each) for each in node.inputs if each and each != name]
            if len(others) == 1 and others[0] is not None and others[0].size == 1 and others[0].reshape(-1)[0] > 0:
                return str(others[0].reshape(-1)[0])
    return "1"
