"""The search for sizes with which a file can be read, where its inputs leave some open.

Usual sizes mostly fit. Where reading fails at an operator, other usual sizes are tried, and those that the file's weights have,
for as long as the reading comes farther. What is suggested was read.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

from latcast.errors import DynamicShapeError, ModelError
from latcast.graph.importers import Shapes
from latcast.graph.importers.assembly import MALFORMED
from latcast.graph.importers.input_sizes import ModelInput, Reading
from latcast.graph.importers.open_sizes import LARGEST, USUAL, USUAL_SIDES, Layout, Values, layouts_of
from latcast.graph.ir import Shape
from latcast.graph.limits import Resource

_MOST_READINGS = 10.0
"""Readings of the largest file that a search may take, about 10 s of a laptop; a hub stops a request after 20 s."""

_MOST_TRIALS = 400
"""Sizes that are tried, so that small networks are answered at once."""


@dataclass(frozen=True)
class _Outcome:
    """How far a file was read with some sizes; ``progress`` is infinite where it was read to the end.

    ``stored`` are the sizes of what the file holds, as far as it was read.
    """

    progress: float
    problem: str = ""
    stored: tuple[int, ...] = ()


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
        self._tried: dict[tuple[Shape, ...], _Outcome] = {}
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
                    shapes = layout.shapes(values)
                    texts = [f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items()]
                    listed = " ".join(f"--shape {shlex.quote(text)}" for text in texts)
                    return DynamicShapeError(f"{self._complaint()}; give {'it' if len(shapes) == 1 else 'them'}: {listed}")
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

    def _try(self, layout: Layout, values: Values) -> _Outcome:
        shapes = layout.shapes(values)
        key = tuple(shapes.values())
        if key not in self._tried:
            reading = self._start({**self._given, **shapes})
            assembly, problem = reading.assembly, ""
            try:
                reading.graph()
                if assembly.has_empty_outputs:
                    problem = "an output holds no elements"
            except (ModelError, *MALFORMED) as error:
                problem = str(error)
            stored = {size for name, each in assembly.tensors.items() if assembly.is_static(name) for size in each.shape}
            progress = assembly.budget.spent(Resource.NODES) if problem else inf
            self._tried[key] = _Outcome(progress, problem, tuple(sorted(stored)))
            self._readings += assembly.budget.share()
        return self._tried[key]

    def _better(self, layout: Layout, values: Values, at: _Outcome) -> Values | None:
        """Return sizes with which the reading comes farther, or None."""
        for there in _candidates(layout, values, at):
            if len(self._tried) >= self._most_trials or self._readings >= _MOST_READINGS:
                return None
            if self._try(layout, there).progress > at.progress:
                return there
        return None


def _candidates(layout: Layout, values: Values, at: _Outcome) -> Iterator[Values]:
    """Yield values with another size of one group: the sum of two lengths (a past and what is new), usual ones, stored ones."""
    for group in layout.groups():
        sums = [values[one] + values[two] for one, two in combinations(layout.kinds, 2)] if group.kind == "length" else []
        stored = at.stored if group.kind != "batch" else ()
        for size in dict.fromkeys((*sums, *USUAL[group.kind], *stored)):
            if group.least <= size <= LARGEST and size != values[group.keys[0]]:
                yield group.resized(values, size)
        if group.kind == "side" and len(group.keys) == 2:
            for pair in USUAL_SIDES:
                yield {**values, **dict(zip(group.keys, pair, strict=True))}
