"""The search for sizes with which a file can be read, where its inputs leave some open.

Usual sizes mostly fit. Where reading fails at an operator, its own shape inference says which sizes of its inputs would fit, and
the open sizes are moved until these come out there. What is suggested was read.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import inf, log, prod

from latcast.errors import DynamicShapeError, ModelError
from latcast.graph.importers import Shapes
from latcast.graph.importers.assembly import MALFORMED
from latcast.graph.importers.input_sizes import ModelInput, Reading
from latcast.graph.importers.open_sizes import LARGEST_SIDE, USUAL_SIDES, Group, Layout, Values, layouts_of
from latcast.graph.importers.wanted_sizes import Outcome, Target, targets_of, view_of
from latcast.graph.ir import Shape
from latcast.graph.limits import Resource

_MOST_READINGS = 10.0
"""Readings of the largest file that a search may take, about 10 s of a laptop; a hub stops a request after 20 s."""

_MOST_TRIALS = 400
"""Sizes that are tried, so that small networks are answered at once."""

_Reached = tuple[Group, list[tuple[Target, float]]]
"""Dimensions that move together, with what an operator asks for and the size of theirs at which it would get that."""


class SizeSearch:
    """The search for sizes with which a file can be read.

    Args:
        inputs: All inputs.
        missing: Those that need a size.
        given: Shapes of others.
        start: Returns a reading of the file with these shapes.
    """

    def __init__(
        self,
        inputs: Sequence[ModelInput],
        missing: Sequence[ModelInput],
        given: Mapping[str, Shape],
        start: Callable[[Shapes], Reading],
    ) -> None:
        self._inputs, self._missing, self._given, self._start = inputs, missing, given, start
        self._tried: dict[tuple[Shape, ...], Outcome] = {}
        self._most_trials = _MOST_TRIALS
        self._readings = 0.0

    def refusal(self) -> DynamicShapeError:
        """Return the error that asks for the missing sizes, with a suggestion where one can be read."""
        layouts = list(layouts_of(self._inputs, self._missing, self._given))
        first = layouts[0].shapes(layouts[0].usual())
        for number, layout in enumerate(layouts):
            self._most_trials = len(self._tried) + (_MOST_TRIALS - len(self._tried)) // (len(layouts) - number)
            values: Values | None = layout.usual()
            while values is not None:
                outcome = self._try(layout, values)
                if outcome.progress == inf:
                    return self._suggesting(layout.shapes(values))
                values = self._better(layout, values, outcome)
        listed = ", ".join(f"'{name}' of shape {list(shape)}" for name, shape in first.items())
        return DynamicShapeError(
            f"{self._complaint()}; give the sizes it was made for with --shape: latcast found none that can be read in "
            f"{len(self._tried)} tries ({listed}: {self._tried[tuple(first.values())].problem})"
        )

    def _complaint(self) -> str:
        each = self._missing[0]
        if len(each.forms) > 1:
            text = f"input '{each.name}' has no shape"
        else:
            axis = each.open_axes()[0]
            symbol = each.forms[0][axis]
            text = f"input '{each.name}' has dimension {axis}{f' {symbol!r}' if symbol else ''} without a size"
        others = len(self._missing) - 1
        return text if not others else f"{text}, as {others} other input{'s have' if others > 1 else ' has'}"

    def _suggesting(self, shapes: Mapping[str, Shape]) -> DynamicShapeError:
        texts = [f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items()]
        listed = " ".join(f"--shape {shlex.quote(text)}" for text in texts)
        return DynamicShapeError(f"{self._complaint()}; give {'it' if len(shapes) == 1 else 'them'}: {listed}")

    def _goes_on(self) -> bool:
        return len(self._tried) < self._most_trials and self._readings < _MOST_READINGS

    def _try(self, layout: Layout, values: Values) -> Outcome:
        shapes = layout.shapes(values)
        key = tuple(shapes.values())
        if key not in self._tried:
            reading = self._start({**self._given, **shapes})
            budget = reading.assembly.budget
            try:
                reading.graph()
                empty = "an output holds no elements" if reading.assembly.has_empty_outputs else ""
                self._tried[key] = Outcome(budget.spent(Resource.NODES) if empty else inf, empty)
            except (ModelError, *MALFORMED) as error:
                self._tried[key] = Outcome(budget.spent(Resource.NODES), str(error), view_of(error))
            self._readings += budget.share()
        return self._tried[key]

    def _better(self, layout: Layout, values: Values, at: Outcome) -> Values | None:
        """Return sizes with which the reading comes farther, or None."""
        for there in self._candidates(layout, values, at):
            if not self._goes_on():
                return None
            if self._try(layout, there).progress > at.progress:
                return there
        return None

    def _candidates(self, layout: Layout, values: Values, at: Outcome) -> Iterator[Values]:
        """Yield sizes to try, each after the one before came no farther: what the operator asks for, multiples, usual sizes."""
        targets = list(targets_of(at.view))
        movable: list[_Reached] = []
        for tier in layout.groups():
            of_tier: list[_Reached] = []
            for group in tier:
                yield from self._asked_for(layout, values, at, group, targets, of_tier)
            for target in targets:
                yield from _together(values, target, of_tier)
            movable += of_tier
        for (group, asked), step in product(movable, (32, 8, 1)):
            if asked:
                yield from self._multiples(layout, values, at, group, asked[0][0], step)
        for group in [group for group, _ in movable] or [group for tier in layout.groups() for group in tier]:
            yield from _usual(layout, values, group)

    def _asked_for(
        self, layout: Layout, values: Values, at: Outcome, group: Group, targets: Sequence[Target], movable: list[_Reached]
    ) -> Iterator[Values]:
        """Yield two usual sizes of a group, then those with which the operator gets what it asks for.

        Adds the group, with these, to ``movable`` if it has an influence.
        """
        now = values[group.keys[0]]
        reachable: list[tuple[Target, float]] = []
        has_influence = False
        for size in group.sizes(now)[:2]:
            there = group.resized(values, size)
            yield there
            outcome = self._try(layout, there)
            has_influence |= (outcome.progress, outcome.problem) != (at.progress, at.problem)
            if not reachable:
                found = [(target, target.size(at, now, outcome, size)) for target in targets]
                reachable = [(target, goal) for target, goal in found if goal is not None]
        if not has_influence or (targets and not reachable and outcome.progress == at.progress):
            return
        reachable.sort(key=lambda each: abs(log(each[1] / now)))
        for _, goal in reachable:
            for size in group.near(goal):
                yield group.resized(values, size)
        movable.append((group, reachable))

    def _multiples(
        self, layout: Layout, values: Values, at: Outcome, group: Group, target: Target, step: int
    ) -> Iterator[Values]:
        """Yield multiples of a step, by bisection: what an operator gets grows with the sizes of the inputs."""
        low, high = -(-group.least // step), LARGEST_SIDE // step
        while low <= high:
            middle = (low + high) // 2
            there = group.resized(values, middle * step)
            yield there
            found = target.found(self._try(layout, there), at)
            if found is not None and prod(found) == target.elements:
                return
            if found is None or prod(found) < target.elements:
                low = middle + 1
            else:
                high = middle - 1


def _together(values: Values, target: Target, movable: Sequence[_Reached]) -> Iterator[Values]:
    """Yield sizes where several groups have to move for one target, as frames and sides of a video."""
    reached = [(group, round(size)) for group, asked in movable for each, size in asked if each == target]
    if len(reached) > 1 and all(size >= group.least for group, size in reached):
        yield {**values, **{key: size for group, size in reached for key in group.keys}}


def _usual(layout: Layout, values: Values, group: Group) -> Iterator[Values]:
    """Yield usual sizes of a group, before them for a length the sums of two others (a past and what is new)."""
    sums = [values[one] + values[two] for one, two in combinations(layout.kinds, 2)] if group.kind == "length" else []
    for size in dict.fromkeys((*sums, *group.sizes(values[group.keys[0]]))):
        yield group.resized(values, size)
    if group.kind == "side" and len(group.keys) == 2:
        for pair in USUAL_SIDES:
            yield {**values, **dict(zip(group.keys, pair, strict=True))}
