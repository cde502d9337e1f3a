"""Detection of a runtime's fusion rules: time, decide, time undecided pairs again, until the budget ends."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

from latcast.fusion.connections import ConnectionRules, find_connections
from latcast.fusion.decision import ALPHA, Answer, TimedBatch, aligned, decide, estimate
from latcast.fusion.quantities import Quantity
from latcast.fusion.stopwatch import Stopwatch
from latcast.fusion.surroundings import Surroundings, choose_surroundings
from latcast.fusion.test_cases import (
    SHRINKING,
    ChainSetting,
    TestCase,
    connectable,
    distinct_networks,
    in_batches,
    pair_case,
    pattern_case,
    tested_operators,
    tested_patterns,
)
from latcast.fusion.views import ViewAnswer, find_views
from latcast.kernels.rules import FusionRules
from latcast.records import Platform
from latcast.spaces.operator_pairs import MAP, TOKENS, operator

MOST_NETWORKS = 100
"""Networks of a batch: more would lie further apart in time than the host stays the same."""

SHARE_AFTER_PAIRS = 0.15
"""Part of the budget kept for connections, patterns and views, which build on the pairs."""

PASSES_A_SETTING = 2
"""Times that an undecided pair is timed in one setting before the next one is tried."""

PATTERN_SETTINGS = 2
"""Settings in which a pattern is tested until it is decided."""

MOST_PASSES = 8
"""Times that a pair is timed in all: if it is undecided then, it lies on the border or cannot be seen."""

CONTRADICTION = "other walls give the opposite answer"


@dataclass(frozen=True)
class DetectionProgress:
    """Progress of a detection: the name of the stage and the share of the budget that is spent."""

    name: str
    share: float
    detail: str = ""


@dataclass(frozen=True)
class PairAnswer:
    """Answer of one pair.

    Attributes:
        case: The case by which it was decided, or the last one that was timed; None where none could be.
        answer: From its timings; None where there are none.
        problem: Why there is no answer.
    """

    case: TestCase | None
    answer: Answer | None
    problem: str = ""

    @property
    def fused(self) -> bool | None:
        return None if self.answer is None else self.answer.yes


@dataclass(frozen=True)
class Detection:
    """The outcome of a detection.

    Attributes:
        platform: The platform.
        quantity: The cost of test networks by which it was decided.
        pairs: By first and second operator.
        patterns: By name.
        views: By operator.
        connections: Rules for several inputs and several readers.
        alpha: The threshold of Inequation 1.
        seconds: Its duration.
        failures: Operators that the runtime cannot run, and why.
    """

    platform: Platform
    quantity: Quantity
    pairs: Mapping[tuple[str, str], PairAnswer]
    patterns: Mapping[str, PairAnswer]
    views: Mapping[str, ViewAnswer]
    connections: ConnectionRules
    alpha: float
    seconds: float
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def decided(self) -> float:
        """Share of the pairs that could be tested which have an answer."""
        if not self.pairs:
            return 0.0
        return sum(1 for pair in self.pairs.values() if pair.fused is not None) / len(self.pairs)

    def rules(self) -> FusionRules:
        """Return the rules, in the format that kernel search reads, with the evidence beside each."""
        fused: dict[str, set[str]] = {}
        for (first, second), found in self.pairs.items():
            if found.fused:
                fused.setdefault(first, set()).add(second)
        for first, join in self.connections.joined:
            fused.setdefault(first, set()).add(join)
        free = {name for view, found in self.views.items() if found.free for name in found.operators}
        return FusionRules(
            runtime=self.platform.runtime,
            version=self.platform.runtime_version,
            pairs={first: frozenset(seconds) for first, seconds in fused.items()},
            patterns=tuple(name for name, found in self.patterns.items() if found.fused),
            free=frozenset(free),
            multi_inbound=self.connections.multi_inbound,
            multi_outbound=self.connections.multi_outbound,
            evidence=self.evidence(),
        )

    def evidence(self) -> dict[str, Any]:
        """Return times, margin and confidence behind every answer, undecided ones too, as JSON values."""
        return {
            "platform": self.platform.id,
            "by": self.quantity.name,
            "alpha": self.alpha,
            "pairs": {f"{first} {second}": self._evidence_of(found) for (first, second), found in self.pairs.items()},
            "patterns": {name: self._evidence_of(found) for name, found in self.patterns.items()},
            "free": {name: found.to_json(self.quantity) for name, found in self.views.items()},
            "connections": self.connections.to_json(self.quantity),
            "failures": dict(self.failures),
            "seconds": round(self.seconds, 1),
        }

    def _evidence_of(self, found: PairAnswer) -> dict[str, Any]:
        if found.answer is None:
            return {"fused": None, "problem": found.problem}
        data: dict[str, Any] = found.answer.to_json(self.quantity)
        if found.case is not None:
            data |= asdict(found.case.setting)
        if found.answer.yes is None:
            why = "the time saved lies too near the threshold for its error"
            if not found.answer.plausible:
                why = "the time saved is neither nothing nor that of an operator: a layout may play a part"
            if not found.answer.visible:
                why = "an operator is too short to be seen between these walls"
            data["problem"] = found.problem or why
        return data


class Detector:
    """One detection.

    Args:
        stopwatch: Times the networks.
        budget_s: Seconds for everything.
        operators: Every ordered pair of these is tested; of :func:`tested_operators` where None.
        alpha: Part of the shorter operator's time that must be saved.
        watch: Told at every step.
        clock: Returns seconds.
    """

    def __init__(
        self,
        stopwatch: Stopwatch,
        *,
        budget_s: float,
        operators: Sequence[str] | None = None,
        alpha: float = ALPHA,
        watch: Callable[[DetectionProgress], None] = lambda step: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stopwatch = stopwatch
        self._budget_s = budget_s
        self._operators = tested_operators() if operators is None else tuple(operators)
        self._alpha = alpha
        self._watch, self._clock = watch, clock
        self._start_s = clock()
        self._levels: dict[str, float] = {}
        """Costs of networks in the state of the host in which they were first timed, by key."""
        self._earlier = [self._align(batch) for batch in stopwatch.remembered()]
        self._batches: dict[tuple[tuple[str, ...], ChainSetting], list[TimedBatch]] = {}
        """Batches that hold all networks of a question and setting, by these."""
        self._answers: dict[tuple[tuple[str, ...], ChainSetting], Answer | None] = {}
        self._surroundings: Surroundings | None = None
        self._failures: dict[str, str] = {}
        """Why a network could not be timed, by its key."""

    def run(self) -> Detection:
        """Detect until everything is decided or the budget is spent.

        Raises:
            MeasurementError: The runtime cannot be tested at all.
            RuntimeFailure: The runtime cannot be started.
        """
        self._report("timing operators alone")
        members = {name for spelling in tested_patterns().values() for name in operator(spelling).members}
        surroundings, batches = choose_surroundings(
            self._stopwatch, [*self._operators, *sorted(members - set(self._operators))], self._earlier
        )
        self._surroundings = surroundings
        self._earlier += [self._align(batch) for batch in batches if batch not in self._earlier]
        runnable = [name for name in self._operators if name not in surroundings.failures]
        pairs = self._find_pairs(surroundings, [pair for pair in product(runnable, runnable) if connectable(*pair)])
        fused = [pair for pair, found in pairs.items() if found.fused]
        self._report("patterns")
        patterns = self._find_patterns(surroundings)
        self._report("connections")
        connections = find_connections(self._time, self._decide, surroundings, fused)
        self._report("views")
        views = find_views(self._stopwatch, surroundings)
        return Detection(
            self._stopwatch.platform, self._stopwatch.quantity, pairs, patterns, views, connections, self._alpha,
            self._clock() - self._start_s, surroundings.failures,
        )  # fmt: skip

    def _decide(self, case: TestCase) -> Answer | None:
        """Return the answer from all timings so far."""
        key = (case.question, case.setting)
        if key not in self._answers:
            self._answers[key] = decide(
                case, self._batches_of(case), alpha=self._alpha,
                hidden_cost=self._hidden_cost(case), kernel=self._stopwatch.quantity.kernel if len(case.elements) > 1 else 0.0,
            )  # fmt: skip
        return self._answers[key]

    def _hidden_cost(self, case: TestCase) -> float:
        """Return the time that a pair may save by sharing a change of layout, where it is too much to be neglected."""
        found = self._surroundings
        if found is None or len(case.question) != 2 or len(case.elements) != 2:
            return 0.0
        first, second = case.elements
        hidden_cost = found.hidden_cost(case.setting, first, second) if found.misleads(case.setting, first, second) else 0.0
        own = estimate(case.shares[1], self._batches_of(case)) if first in SHRINKING else None
        return hidden_cost if own is None else max(hidden_cost, found.shrinking_cost(case.setting, second, own.value))

    def _batches_of(self, case: TestCase) -> list[TimedBatch]:
        key = (case.question, case.setting)
        if key not in self._batches:
            self._batches[key] = [batch for batch in self._earlier if case.known(batch.costs)]
        return self._batches[key]

    def _time(self, cases: Sequence[TestCase], *, until: float = 1.0) -> None:
        """Time the networks of some cases in batches; none is begun after this part of the budget."""
        for together in in_batches(cases, MOST_NETWORKS):
            if self._spent_share() >= until:
                return
            networks = [r for r in distinct_networks(together) if r.key not in self._failures]
            batch = self._align(self._stopwatch.time(networks))
            self._failures.update(batch.failures)
            for case in together:
                if case.known(batch.costs):
                    self._batches_of(case).append(batch)
                    self._answers.pop((case.question, case.setting), None)
            self._report("timing pairs", f"{together[0].question[0]}, {len(networks)} networks")

    def _align(self, batch: TimedBatch) -> TimedBatch:
        """Return a batch in the same state of the host as all before it."""
        found = aligned(batch, self._levels)
        for key, level in found.levels.items():
            self._levels.setdefault(key, level)
        return found

    def _spent_share(self) -> float:
        """Return the part of the budget that is spent."""
        return (self._clock() - self._start_s) / self._budget_s

    def _report(self, name: str, detail: str = "") -> None:
        self._watch(DetectionProgress(name, min(self._spent_share(), 1.0), detail))

    def _find_pairs(self, surroundings: Surroundings, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], PairAnswer]:
        choices = {pair: [pair_case(*pair, setting) for setting in surroundings.choices(*pair)] for pair in pairs}
        asked: Counter[tuple[str, str, ChainSetting]] = Counter()
        first_pass = True
        while True:
            found = {pair: self._answer(cases) for pair, cases in choices.items()}
            waiting = [
                case
                for pair, cases in choices.items()
                if not _settled(found[pair]) and (case := self._next_case(cases, asked)) is not None
            ]
            if not waiting or self._spent_share() >= 1 - SHARE_AFTER_PAIRS:
                return found
            if not first_pass:
                self._stopwatch.renew()
            first_pass = False
            asked.update((case.elements[0], case.elements[1], case.setting) for case in waiting)
            self._time(waiting, until=1 - SHARE_AFTER_PAIRS)

    def _answer(self, cases: Sequence[TestCase]) -> PairAnswer:
        """Return the answer of the first setting that gives one; otherwise of the first in which both operators can be seen.

        A runtime fuses a pair between any walls or between none: where two sorts give opposite answers, there is no answer. But
        where kernels are counted, walls that suit both operators go before those that change their layouts.
        """
        timed = [(case, answer) for case in cases if (answer := self._decide(case)) is not None]
        decided = [(case, answer) for case, answer in timed if answer.yes is not None]
        visible = [(case, answer) for case, answer in timed if answer.visible]
        found = self._surroundings
        if found is not None and found.kernel and len({answer.yes for _, answer in decided}) == 2 and len(cases[0].elements) == 2:
            decided = [(case, answer) for case, answer in decided if found.suits(case.setting, case.elements)] or decided
        if len({answer.yes for _, answer in decided}) == 2:
            case, answer = decided[0]
            return PairAnswer(case, replace(answer, yes=None), CONTRADICTION)
        for case, answer in (*decided, *visible, *timed):
            return PairAnswer(case, answer)
        if not cases:
            return PairAnswer(None, None, "the runtime cannot run both between walls of one sort")
        failed = next((self._failures[r.key] for r in cases[0].networks if r.key in self._failures), "")
        return PairAnswer(cases[0], None, failed or "not timed within the budget")

    def _next_case(self, cases: Sequence[TestCase], asked: Mapping[tuple[str, str, ChainSetting], int]) -> TestCase | None:
        """Return the case with which to time an undecided pair next; None where it cannot be timed anywhere.

        In the same setting while only noise prevents an answer, for :data:`PASSES_A_SETTING`; else in the next one; after the
        last, in the one that was timed least.
        """
        usable = [case for case in cases if not any(reference.key in self._failures for reference in case.networks)]
        counts = [asked.get((case.elements[0], case.elements[1], case.setting), 0) for case in usable]
        if sum(counts) >= MOST_PASSES:
            return None
        for case, count in zip(usable, counts, strict=True):
            answer = self._decide(case)
            if answer is None or answer.yes or (answer.visible and answer.plausible and count < PASSES_A_SETTING):
                return case
        return min(zip(counts, range(len(usable)), usable, strict=True))[2] if usable else None

    def _find_patterns(self, surroundings: Surroundings) -> dict[str, PairAnswer]:
        cases: dict[str, list[TestCase]] = {}
        for pattern, spelling in tested_patterns().items():
            form = MAP if MAP in operator(spelling).forms and pattern != "unscaled_attention" else TOKENS
            settings = surroundings.ordered_for(operator(spelling).members, form)
            cases[pattern] = [pattern_case(pattern, spelling, setting) for setting in settings[:PATTERN_SETTINGS]]
        for index in range(PATTERN_SETTINGS):
            for _ in range(PASSES_A_SETTING):
                open_cases = [c[index] for c in cases.values() if len(c) > index and self._answer(c).fused is None]
                self._time(open_cases)
        return {pattern: self._answer(found) for pattern, found in cases.items()}


def _settled(found: PairAnswer) -> bool:
    """Return whether a pair need not be timed again; a fused one, which is rare, is timed by a second process."""
    return found.fused is False or (found.fused is True and found.answer is not None and found.answer.batches > 1)
