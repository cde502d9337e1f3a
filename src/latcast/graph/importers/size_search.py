"""The search for sizes with which a file can be read, where its inputs leave some open.

Usual sizes are tried, and the numbers that the operator holds at which reading failed: in its shapes, constants and attributes.
Sizes with which reading comes farther are kept. What is suggested was read.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf

from latcast.errors import DynamicShapeError, ModelError
from latcast.graph.importers import Shapes
from latcast.graph.importers.assembly import MALFORMED
from latcast.graph.importers.input_sizes import ModelInput, Reading
from latcast.graph.importers.open_sizes import LARGEST, USUAL_SIDES, Group, Layout, Values, layouts_of
from latcast.graph.ir import Shape
from latcast.graph.limits import Resource
from latcast.graph.operators import MisfitError, OperatorView

_MOST_READINGS = 10.0
"""Readings of the largest file that a search may take, about 10 s of a laptop; a hub stops a request after 20 s."""

_MOST_TRIALS = 400
"""Sizes that are tried, so that small networks are answered at once."""

_MOST_NUMBERS = 16
"""Numbers of a constant or list that may be sizes; longer ones hold data."""

SMALLEST_SIDE = 8
"""Height and width below which no operator is believed to ask for it: small numbers fit by accident."""

_MOST_OPERANDS = 8
"""Inputs of an operator that are looked at, since a concatenation may have thousands."""


@dataclass(frozen=True)
class Outcome:
    """How far the reading of a suggestion came: all the way where ``progress`` is infinite."""

    progress: float
    problem: str = ""
    view: OperatorView | None = None


def refusing(error: BaseException | None) -> OperatorView | None:
    """Return the operator that refused its inputs; errors on the way up repeat its message only."""
    while error is not None:
        if isinstance(error, MisfitError) and error.view is not None:
            return error.view
        error = error.__cause__ or error.__context__
    return None


def numbers_of(view: OperatorView | None) -> list[int]:
    """Return the numbers that an operator holds, the largest first: sizes of its inputs, its small constants and attributes."""
    if view is None:
        return []
    lists = [value.reshape(-1).tolist() for value in view.values if value is not None and value.size <= _MOST_NUMBERS]
    lists += [value for value in view.node.attributes.values() if isinstance(value, tuple) and len(value) <= _MOST_NUMBERS]
    lists += [tensor.shape for tensor in view.inputs[:_MOST_OPERANDS] if tensor is not None]
    found = {number for numbers in lists for number in numbers if isinstance(number, int)}
    return sorted((number for number in found if 1 < number <= LARGEST), reverse=True)


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
                self._tried[key] = Outcome(budget.spent(Resource.NODES), str(error), refusing(error))
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
        """Yield sizes to try: for each group those that the operator which refused them holds, then usual ones."""
        groups = layout.groups()
        for group, size in product(groups, numbers_of(at.view)):
            if group.kind != "side" or size >= SMALLEST_SIDE:
                yield group.resized(values, size)
        for group in groups:
            yield from _usual(layout, values, group)


def _usual(layout: Layout, values: Values, group: Group) -> Iterator[Values]:
    """Yield usual sizes of a group, before them for a length the sums of two others (a past and what is new)."""
    sums = [values[one] + values[two] for one, two in combinations(layout.kinds, 2)] if group.kind == "length" else []
    for size in dict.fromkeys((*sums, *group.sizes(values[group.keys[0]]))):
        yield group.resized(values, size)
    if group.kind == "side" and len(group.keys) == 2:
        for pair in USUAL_SIDES:
            yield {**values, **dict(zip(group.keys, pair, strict=True))}
