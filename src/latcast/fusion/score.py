"""How well detected rules agree with the kernels that the runtime says it executed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from latcast.fusion.detection import Detection, PairAnswer
from latcast.fusion.quantities import Quantity
from latcast.fusion.stopwatch import Stopwatch
from latcast.fusion.test_cases import TestCase, pair_case, pattern_case, tested_patterns
from latcast.records import ExecutedKernel, decimal
from latcast.spaces.operator_pairs import ChainStep, chain_network

NETWORKS_AT_ONCE = 100


@dataclass(frozen=True)
class Disagreement:
    """A decided question to which the runtime's own kernels give the other answer.

    Attributes:
        question: The pair, or the pattern.
        detected: Whether timing says "fused".
        explanation: What the times and the kernels are.
    """

    question: tuple[str, ...]
    detected: bool
    explanation: str

    def to_json(self) -> dict[str, Any]:
        return {
            "operators": list(self.question),
            "detected": self.detected,
            "executed": not self.detected,
            "explanation": self.explanation,
        }


@dataclass(frozen=True)
class Score:
    """Detected answers against executed kernels.

    Attributes:
        truths: By question, for every question that was decided.
        answers: The decided answers.
        disagreements: Where they differ.
    """

    truths: Mapping[tuple[str, ...], Truth]
    answers: Mapping[tuple[str, ...], bool]
    disagreements: tuple[Disagreement, ...]

    def _pairs(self) -> list[tuple[bool, bool]]:
        """(detected, executed) of every pair that was decided and of which the runtime tells."""
        return [
            (answer, bool(self.truths[question].fused))
            for question, answer in self.answers.items()
            if len(question) == 2 and self.truths[question].fused is not None
        ]

    @property
    def judged(self) -> int:
        """Number of decided pairs of which the runtime tells what it did."""
        return len(self._pairs())

    @property
    def agreement(self) -> float | None:
        """Share of them in which timing and kernels agree."""
        pairs = self._pairs()
        return sum(detected == executed for detected, executed in pairs) / len(pairs) if pairs else None

    @property
    def precision(self) -> float | None:
        """Share of the fusions detected that were executed."""
        return _share(executed for detected, executed in self._pairs() if detected)

    @property
    def recall(self) -> float | None:
        """Share of the fusions executed that were detected, among decided pairs."""
        return _share(detected for detected, executed in self._pairs() if executed)

    @property
    def untold(self) -> dict[str, str]:
        """Decided questions of which the runtime does not clearly say what it did, and why."""
        return {" ".join(question): truth.reason for question, truth in self.truths.items() if truth.fused is None}


def _share(values: Iterable[bool]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def score(detection: Detection, stopwatch: Stopwatch, watch: Callable[[float], None] = lambda share: None) -> Score:
    """Asks the runtime what it executed of the networks behind every decided answer.

    One block tells as much as several. Nothing here has any influence on the answers.

    Args:
        detection: What was found by timing.
        stopwatch: Of the same runtime.
        watch: Told the share that is done.
    """
    decided: dict[tuple[str, ...], tuple[TestCase, PairAnswer]] = {}
    for pair, found in detection.pairs.items():
        if found.fused is not None and found.case is not None:
            decided[pair] = pair_case(*pair, replace(found.case.setting, blocks=1)), found
    for pattern, found in detection.patterns.items():
        if found.fused is not None and found.case is not None:
            case = pattern_case(pattern, tested_patterns()[pattern], replace(found.case.setting, blocks=1))
            decided[pattern,] = case, found
    networks = list({r.key: r for case, _ in decided.values() for r in (case.together, *case.saved.networks)}.values())
    kernels: dict[str, Any] = {}
    for start in range(0, len(networks), NETWORKS_AT_ONCE):
        watch(start / len(networks))
        kernels |= stopwatch.executed(networks[start : start + NETWORKS_AT_ONCE]).kernels
    truths = {question: executed_truth(case, kernels) for question, (case, _) in decided.items()}
    answers = {question: bool(found.fused) for question, (_, found) in decided.items()}
    disagreements = [
        Disagreement(question, answers[question], _explained(found, truths[question], detection.quantity))
        for question, (_, found) in decided.items()
        if truths[question].fused is not None and truths[question].fused != answers[question]
    ]
    return Score(truths, answers, tuple(disagreements))


def _explained(found: PairAnswer, truth: Truth, quantity: Quantity) -> str:
    assert found.answer is not None
    saved, error, own = (
        quantity.scale * cost for cost in (found.answer.saved.value, found.answer.saved.error, found.answer.share.value)
    )
    unit = quantity.unit.replace("us", "µs")
    kernels = "one kernel that costs as much as separate ones" if truth.fused else "separate kernels that cost as much as one"
    return f"{kernels}: {decimal(saved, 2)} ± {error:.2f} of {own:.2f} {unit} are saved ({truth.reason})"


LAYOUT_WORDS = ("reorder", "copy", "convert", "memorydata", "split", "reshape", "transpose", "concat")
"""Words in the kinds of kernels that runtimes insert to change layouts; such a kernel computes no operator."""

Kernels = Mapping[str, Sequence[ExecutedKernel]]
"""Network key to what was executed of it."""


@dataclass(frozen=True)
class Truth:
    """Answer of the executed kernels to a case.

    Attributes:
        fused: Whether the operators ran as one kernel; None where the runtime does not say so clearly.
        reason: The kernels' kinds, or why the answer is None.
    """

    fused: bool | None
    reason: str


def executed_truth(case: TestCase, kernels: Kernels) -> Truth:
    """Whether the operators of a case ran as one kernel.

    Two things must agree. The names: the first operator and all of the second stand in one executed kernel, in every block.
    The number: the kernels of the networks, put into the case's sum in place of their costs, show one saved. Names are
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


def _questioned(case: TestCase, steps: Sequence[ChainStep]) -> list[str]:
    """The nodes of a block that one kernel would hold: all of a pattern; of a pair the first's last and all of the second."""
    waiting = list(steps)
    found: list[ChainStep] = []
    for element in case.elements:
        step = next(step for step in waiting if step.element == element)
        waiting.remove(step)
        found.append(step)
    if len(found) == 1:
        return list(found[0].nodes)
    return [found[0].nodes[-1], *(name for step in found[1:] for name in step.nodes)]
