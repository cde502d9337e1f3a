"""Agreement of detected rules with the kernels that the runtime says it executed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from latcast.fusion.detection import Detection, PairAnswer
from latcast.fusion.stopwatch import Stopwatch
from latcast.fusion.test_cases import TestCase, pair_case, pattern_case, tested_patterns
from latcast.records import ExecutedKernel
from latcast.spaces.operator_pairs import ChainStep, chain_network
from latcast.tables import decimal

NETWORKS_AT_ONCE = 100


@dataclass(frozen=True)
class Disagreement:
    """A decided question to which the runtime's own kernels give the other answer.

    Attributes:
        question: The pair, or the pattern.
        detected: Whether timing says "fused".
        explanation: The times and the kernels.
    """

    question: tuple[str, ...]
    detected: bool
    explanation: str

    def to_json(self) -> dict[str, Any]:
        """Return the disagreement for scripts."""
        return {
            "operators": list(self.question), "detected": self.detected, "executed": not self.detected,
            "explanation": self.explanation,
        }  # fmt: skip


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
        """Return (detected, executed) of every pair that was decided and of which the runtime tells."""
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
        return _share(detected == executed for detected, executed in self._pairs())

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
    """Compare every decided answer with the kernels that the runtime executes for its networks, of one block each.

    Args:
        detection: The answers by timing.
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
    disagreements = []
    scale, unit = detection.quantity.scale, detection.quantity.unit.replace("us", "µs")
    for question, (_, found) in decided.items():
        truth, answer = truths[question], found.answer
        if answer is None or truth.fused is None or truth.fused == answers[question]:
            continue
        what = "one kernel that costs as much as separate ones" if truth.fused else "separate kernels that cost as much as one"
        saved, error, own = (scale * cost for cost in (answer.saved.value, answer.saved.error, answer.share.value))
        why = f"{what}: {decimal(saved, 2)} ± {error:.2f} of {own:.2f} {unit} are saved ({truth.reason})"
        disagreements.append(Disagreement(question, answers[question], why))
    return Score(truths, answers, tuple(disagreements))


LAYOUT_WORDS = ("reorder", "copy", "convert", "memorydata", "split", "reshape", "transpose", "concat")
"""Words in the kinds of kernels that runtimes insert to change layouts; such a kernel computes no operator."""


@dataclass(frozen=True)
class Truth:
    """Answer of the executed kernels to a case.

    Attributes:
        fused: Whether the operators ran as one kernel; None where the runtime does not say so clearly.
        reason: The kernels' kinds, or why the answer is None.
    """

    fused: bool | None
    reason: str


def executed_truth(case: TestCase, kernels: Mapping[str, Sequence[ExecutedKernel]]) -> Truth:
    """Return whether the operators of a case ran as one kernel, from the executed kernels by network key.

    1. The names: the first operator and all of the second stand in one executed kernel, in every block.
    2. The number: the kernels of the networks, put into the case's sum in place of their costs, show one saved.

    Both must agree, since names can be wrong where an optimiser has moved or split operators. Of patterns the names alone
    count: operators that represent their members need not run as these do.
    """
    together = case.together
    if together.key not in kernels or not all(reference.key in kernels for reference in case.saved.networks):
        return Truth(None, "the runtime did not tell what it executed")
    found = kernels[together.key]
    named = _named_together(case, found)
    # Kernels that a runtime inserted to change a layout do not count.
    counts = {
        key: sum(bool(each.nodes) or not any(word in each.kind.lower() for word in LAYOUT_WORDS) for each in executed)
        for key, executed in kernels.items()
    }
    saved = sum(coefficient * counts[reference.key] for reference, coefficient in case.saved.terms)
    kinds = " | ".join(kernel.kind for kernel in found)
    if named is None:
        return Truth(None, f"the runtime names no kernel of one of the operators: {kinds}")
    if len(case.elements) > 1 and named != (saved > 0.5):
        said, counted = ("fused", "apart") if named else ("apart", "fused")
        return Truth(None, f"the kernels' names say {said} and their number says {counted}: {kinds}")
    return Truth(named, kinds)


def _named_together(case: TestCase, found: Sequence[ExecutedKernel]) -> bool | None:
    """Return whether the operators stand in one kernel, in every block; None where one of them stands in none."""
    steps = chain_network(**case.together.parameters).steps
    kernel_of = {name: index for index, kernel in enumerate(found) for name in kernel.nodes}
    votes = []
    for block in range(case.setting.blocks):
        waiting = [step for step in steps if step.block == block]
        asked: list[ChainStep] = []
        for element in case.elements:
            asked.append(next(step for step in waiting if step.element == element))
            waiting.remove(asked[-1])
        # One kernel would hold all of a pattern; of a pair the first's last node and all of the second.
        names = [name for step in asked for name in step.nodes]
        ran = [kernel_of.get(name) for name in (names if len(asked) == 1 else names[len(asked[0].nodes) - 1 :])]
        if None in ran:
            return None
        votes.append(len(set(ran)) == 1)
    return all(votes)
