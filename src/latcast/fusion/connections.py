"""Fusion where an operator reads several results, and where a result has several readers (nn-Meter §4.1, Fig. 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

from latcast.fusion.decision import Answer
from latcast.fusion.quantities import Quantity
from latcast.fusion.surroundings import Surroundings
from latcast.fusion.test_cases import TestCase, inbound_case, outbound_case
from latcast.spaces.operator_pairs import operator

JOINS = ("add", "mul")
"""Operators with two inputs that may be fused into the kernel of one of them."""

HEADS = ("conv", "depthwise_conv", "grouped_conv", "conv_transpose", "batch_normalization")
"""Operators into whose kernels a join may be fused."""

MOST_OUTBOUND = 4
"""Pairs tested with a second reader: a runtime has one rule for all."""

PASSES = 3
"""How often undecided cases are timed."""

UNTOLD_INBOUND = 4
"""Which input's kernel takes an operator in where both might: the first. No timing tells, either saves the same."""

DEFAULT_INBOUND, DEFAULT_OUTBOUND = 3, 0
"""Where nothing is known; the defaults of the rules' format."""


class CaseTimer(Protocol):
    """Times cases and decides them; :class:`latcast.fusion.detection.Detector` is one."""

    def time(self, cases: Sequence[TestCase]) -> None:
        """Times the networks of some cases."""

    def decide(self, case: TestCase) -> Answer | None:
        """Answer from the timings of a case."""


@dataclass(frozen=True)
class Connections:
    """Multi-inbound and multi-outbound rules with their evidence.

    Attributes:
        multi_inbound: As in :class:`latcast.kernels.rules.FusionRules`.
        multi_outbound: As there.
        joined: Pairs (first, join) seen to fuse when the join has two inputs.
        answers: By question.
        reasons: Why each rule has its value.
    """

    multi_inbound: int = DEFAULT_INBOUND
    multi_outbound: int = DEFAULT_OUTBOUND
    joined: tuple[tuple[str, str], ...] = ()
    answers: Mapping[tuple[str, ...], Answer] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    def to_json(self, quantity: Quantity) -> dict[str, Any]:
        return {
            "reasons": dict(self.reasons),
            "cases": {", ".join(question): answer.to_json(quantity) for question, answer in self.answers.items()},
        }


def find_connections(timer: CaseTimer, surroundings: Surroundings, fused: Sequence[tuple[str, str]]) -> Connections:
    """Tests the two connections with operators that are known to fuse.

    The plan whose time is closest to the measured one is chosen: a plan that fuses saves the shorter operator's time, one
    that does not saves nothing, and half of it is the border.
    """
    cases: dict[tuple[str, ...], TestCase] = {}
    for first, join in product(HEADS, JOINS):
        for setting in surroundings.choices(first, join)[:1]:
            found = [inbound_case(first, join, side, setting) for side in (0, 1)]
            cases |= {case.question: case for case in found}
    for first, second in _single_input(fused):
        for setting in surroundings.choices(first, second)[:1]:
            found = [outbound_case(first, second, side, setting) for side in (0, 1)]
            cases |= {case.question: case for case in found}
    answers = _answers(timer, cases)
    for _ in range(PASSES):
        waiting = [case for question, case in cases.items() if question not in answers or answers[question].yes is None]
        if waiting:
            timer.time(waiting)
            answers = _answers(timer, cases)
    yes = {question for question, answer in answers.items() if answer.yes}
    joined = tuple(dict.fromkeys((q[0], q[1]) for q in yes if q[2].endswith("input")))
    into, why_into = _inbound_rule(joined, yes, answers)
    out_of, why_out_of = _outbound_rule(answers)
    return Connections(into, out_of, joined, answers, {"multi_inbound": why_into, "multi_outbound": why_out_of})


def _answers(timer: CaseTimer, cases: Mapping[tuple[str, ...], TestCase]) -> dict[tuple[str, ...], Answer]:
    return {question: answer for question, case in cases.items() if (answer := timer.decide(case)) is not None}


def _single_input(fused: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Fused pairs that can be given a second reader, of different first operators before further ones of the same."""
    seen: Counter[str] = Counter()
    ranked = []
    for first, second in fused:
        if operator(first).keeps_shape and operator(second).keeps_shape and not operator(second).two_inputs:
            seen[first] += 1
            ranked.append((seen[first], first, second))
    return [(first, second) for _, first, second in sorted(ranked, key=lambda item: item[0])[:MOST_OUTBOUND]]


def _inbound_rule(
    joined: Sequence[tuple[str, str]], yes: set[tuple[str, ...]], answers: Mapping[tuple[str, ...], Answer]
) -> tuple[int, str]:
    first = [pair for pair in joined if (*pair, "first input") in yes]
    last = [pair for pair in joined if (*pair, "last input") in yes]
    if not joined:
        if any(answer.yes is False for question, answer in answers.items() if question[2].endswith("input")):
            return DEFAULT_INBOUND, "no operator with two inputs was seen to be fused, so the value does not matter"
        return DEFAULT_INBOUND, "undecided"
    if first and last:
        return UNTOLD_INBOUND, (
            f"fused into either input's kernel ({', '.join(first[0])}); which is preferred where both could take it makes no "
            "difference in time and is undecided: the first is assumed"
        )
    if any((*pair, "last input" if first else "first input") not in answers for pair in joined):
        return UNTOLD_INBOUND, "seen from one side only; either input's kernel is assumed"
    return (1, f"fused into the first input's kernel only ({', '.join(first[0])})") if first else (
        2, f"fused into the last input's kernel only ({', '.join(last[0])})"
    )  # fmt: skip


def _outbound_rule(answers: Mapping[tuple[str, ...], Answer]) -> tuple[int, str]:
    votes = {"first reader": [0, 0], "last reader": [0, 0]}
    for question, answer in answers.items():
        if question[2] in votes and answer.yes is not None:
            votes[question[2]][answer.yes] += 1
    said = ", ".join(f"{where}: fused {yes} times, apart {no}" for where, (no, yes) in votes.items())
    if not any(map(sum, votes.values())):
        return DEFAULT_OUTBOUND, "undecided"
    if votes["first reader"][1] > votes["first reader"][0]:
        return 1, said
    if votes["last reader"][1] > votes["last reader"][0]:
        return 2, said
    return 0, said
