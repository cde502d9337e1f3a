"""Operators that cost nothing: views of the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from latcast.fusion.decision import Estimate, estimate
from latcast.fusion.quantities import Quantity
from latcast.fusion.stopwatch import Stopwatch
from latcast.fusion.surroundings import Surroundings
from latcast.fusion.test_cases import VIEWS, Setting, own_time, view_time
from latcast.spaces.operator_pairs import MAP, stands_behind

SIZE = 64
"""Height of the maps: so large that touching every element shows (256 KB), so small that a core's own cache holds a few."""

COPY_SHARE = 0.25
"""An operator is a view where it takes less than this part of what passing over the elements once takes."""

TOUCHING = ("relu", "leaky_relu", "sigmoid", "tanh")
"""Operators that read and write every element; the shortest one that is seen is one pass."""

CONFIDENCE = 0.9

OPERATORS_OF = {"squeeze": ("squeeze", "unsqueeze")}


@dataclass(frozen=True)
class ViewAnswer:
    """Whether an operator costs nothing.

    Attributes:
        operators: The operator classes that it speaks for.
        free: Whether it does; None where that is undecided.
        confidence: Probability of the likelier answer.
        own: What it takes; None where it could not be timed.
        touch_cost: What one pass over the elements takes.
    """

    operators: tuple[str, ...]
    free: bool | None
    confidence: float = 0.5
    own: Estimate | None = None
    touch_cost: float = 0.0

    def to_json(self, quantity: Quantity) -> dict[str, float | bool | None]:
        """What it takes is left out where it could not be timed."""
        known = {} if self.own is None else {"own": self.own.value}
        return {
            "free": self.free,
            "confidence": round(self.confidence, 4),
            **quantity.figures(**known, touch=self.touch_cost),
        }


def find_views(stopwatch: Stopwatch, surroundings: Surroundings) -> dict[str, ViewAnswer]:
    """Times the candidates on tensors so large that touching their elements would show.

    A view may cost a change of layout between one sort of walls and nothing between another: it is one where it costs nothing
    between any.
    """
    found: dict[str, ViewAnswer] = {}
    for chosen in surroundings.settings[MAP]:
        setting = replace(chosen, size=SIZE)
        names = [name for name in VIEWS if stands_behind(setting.wall, name, MAP) and not (name in found and found[name].free)]
        for name, answer in _between(stopwatch, setting, names).items():
            if name not in found or answer.free or (found[name].free is None and answer.free is False):
                found[name] = answer
    return found


def _between(stopwatch: Stopwatch, setting: Setting, names: Sequence[str]) -> dict[str, ViewAnswer]:
    """The answers of one sort of walls."""
    networks = {r.key: r for name in names for r in view_time(name, setting).networks}
    networks |= {r.key: r for name in TOUCHING for r in own_time(name, setting).networks}
    batch = stopwatch.time(list(networks.values()))
    passes = [found.value for name in TOUCHING if (found := estimate(own_time(name, setting), [batch])) is not None]
    shortest = min((value for value in passes if value > 0), default=0.0)
    return {name: _answer(name, setting, estimate(view_time(name, setting), [batch]), shortest) for name in names}


def _answer(name: str, setting: Setting, own: Estimate | None, touch_cost: float) -> ViewAnswer:
    operators = OPERATORS_OF.get(name, (name,))
    if own is None or touch_cost <= 0:
        return ViewAnswer(operators, None, 0.5, own, touch_cost)
    above = own.probability_above(COPY_SHARE * touch_cost)
    sure = max(above, 1 - above)
    return ViewAnswer(operators, above < 0.5 if sure >= CONFIDENCE else None, sure, own, touch_cost)
