"""Fusion of an operator that reads several results, and of a result with several readers (nn-Meter §4.1, Fig. 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

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
"""Times that undecided cases are timed."""

UNTOLD_INBOUND = 4
"""An operator that both inputs' kernels might take in goes to the first: either saves the same time."""

DEFAULT_INBOUND, DEFAULT_OUTBOUND = 3, 0
"""Values where nothing is known; the defaults of the rules' format."""


@dataclass(frozen=True)
class ConnectionRules:
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
        """Return the evidence for scripts."""
        return {
            "reasons": dict(self.reasons),
            "cases": {", ".join(question): answer.to_json(quantity) for question, answer in self.answers.items()},
        }


def find_connections(
    time: Callable[[Sequence[TestCase]], None], decide: Callable[[TestCase], Answer | None], surroundings: Surroundings,
    fused: Sequence[tuple[str, str]],
) -> ConnectionRules:  # fmt: skip
    """Test the two connections with operators that are known to fuse.

    The plan whose time is closest to the measured one is chosen: fusing saves the shorter operator's time, and half of it is
    the border.

    Args:
        time: Times the networks of some cases.
        decide: Returns the answer from the timings of a case.
        surroundings: Settings for each pair.
        fused: Pairs that are fused where the result has one reader.
    """
    cases: list[TestCase] = []
    for make, pairs in ((inbound_case, product(HEADS, JOINS)), (outbound_case, _single_input(fused))):
        for first, second in pairs:
            for setting in surroundings.choices(first, second)[:1]:
                cases += [make(first, second, side, setting) for side in (0, 1)]
    for _ in range(PASSES):
        waiting = [case for case in cases if (answer := decide(case)) is None or answer.yes is None]
        if waiting:
            time(waiting)
    answers = {case.question: answer for case in cases if (answer := decide(case)) is not None}
    yes = {question for question, answer in answers.items() if answer.yes}
    joined = tuple(dict.fromkeys((q[0], q[1]) for q in yes if q[2].endswith("input")))
    into, why_into = _inbound_rule(joined, yes, answers)
    out_of, why_out_of = _outbound_rule(answers)
    return ConnectionRules(into, out_of, joined, answers, {"multi_inbound": why_into, "multi_outbound": why_out_of})


def _single_input(fused: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return fused pairs that can be given a second reader, of different first operators before further ones of the same."""
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
