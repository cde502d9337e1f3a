"""What a runtime says it executed, as the truth that answers are scored by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from latcast.fusion.test_cases import TestCase
from latcast.records import ExecutedKernel
from latcast.spaces.operator_pairs import Step, chain_network

LAYOUT_WORDS = ("reorder", "copy", "convert", "memorydata", "split", "reshape", "transpose", "concat")
"""Words in the kinds of kernels that runtimes insert to change layouts; such a kernel computes no operator."""

Kernels = Mapping[str, Sequence[ExecutedKernel]]
"""Network key to what was executed of it."""


@dataclass(frozen=True)
class Truth:
    """What the executed kernels say of a case.

    Attributes:
        fused: Whether the operators ran as one kernel; None where the runtime does not say so clearly.
        reason: The kernels' kinds, or why the answer is None.
    """

    fused: bool | None
    reason: str


def executed_truth(case: TestCase, kernels: Kernels) -> Truth:
    """Whether the operators of a case ran as one kernel.

    Two things must agree. The names: the first operator and all of the second stand in one executed kernel, in every block.
    The number: the kernels of the networks, put into the case's sum in place of their latencies, show one saved. Names are
    read from what the runtime calls its kernels, and where an optimiser has moved or split operators they can be wrong. Of
    patterns the names alone count: operators that stand for their members need not run as these do.
    """
    together = case.together
    if together.key not in kernels or not all(reference.key in kernels for reference in case.saved.networks):
        return Truth(None, "the runtime did not tell what it executed")
    found = kernels[together.key]
    named = _named_together(case, found)
    counts = {key: _computing(found) for key, found in kernels.items()}
    saved = sum(coefficient * counts[reference.key] for reference, coefficient in case.saved.terms)
    kinds = " | ".join(kernel.kind for kernel in found)
    if named is None:
        return Truth(None, f"the runtime names no kernel of one of the operators: {kinds}")
    if len(case.elements) > 1 and named != (saved > 0.5):
        return Truth(None, f"the kernels' names say {_word(named)} and their number says {_word(not named)}: {kinds}")
    return Truth(named, kinds)


def _word(fused: bool) -> str:
    return "fused" if fused else "apart"


def _computing(found: Sequence[ExecutedKernel]) -> int:
    """Number of kernels, less those that a runtime inserted to change a layout."""
    inserted = sum(1 for kernel in found if not kernel.nodes and any(word in kernel.kind.lower() for word in LAYOUT_WORDS))
    return len(found) - inserted


def _named_together(case: TestCase, found: Sequence[ExecutedKernel]) -> bool | None:
    """Whether the operators stand in one kernel, in every block; None where one of them stands in none."""
    steps = chain_network(**case.together.parameters).steps
    kernel_of = {name: index for index, kernel in enumerate(found) for name in kernel.nodes}
    votes = []
    for block in range(case.setting.blocks):
        ran = [kernel_of.get(name) for name in _questioned(case, [step for step in steps if step.block == block])]
        if None in ran:
            return None
        votes.append(len(set(ran)) == 1)
    return all(votes)


def _questioned(case: TestCase, steps: Sequence[Step]) -> list[str]:
    """The nodes of a block that one kernel would hold: all of a pattern; of a pair the first's last and all of the second."""
    waiting = list(steps)
    found: list[Step] = []
    for element in case.elements:
        step = next(step for step in waiting if step.element == element)
        waiting.remove(step)
        found.append(step)
    if len(found) == 1:
        return list(found[0].nodes)
    return [found[0].nodes[-1], *(name for step in found[1:] for name in step.nodes)]
