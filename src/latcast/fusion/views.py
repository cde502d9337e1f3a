"""Operators that cost nothing: views of the same memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from latcast.fusion.decision import Estimate, estimate
from latcast.fusion.quantities import Quantity
from latcast.fusion.stopwatch import Stopwatch
from latcast.fusion.surroundings import Surroundings
from latcast.fusion.test_cases import VIEWS, own_time, view_time
from latcast.spaces.operator_pairs import MAP, stands_behind

SIZE = 64
"""Height of the maps: touching every element shows (256 KB), and a core's own cache holds a few."""

COPY_SHARE = 0.25
"""An operator is a view where it takes less than this part of one pass over the elements."""

TOUCHING = ("relu", "leaky_relu", "sigmoid", "tanh")
"""Operators that read and write every element; the shortest one that is seen is one pass."""

CONFIDENCE = 0.9


@dataclass(frozen=True)
class ViewAnswer:
    """The answer to whether an operator costs nothing.

    Attributes:
        operators: The operator classes that it applies to.
        free: Whether they cost nothing; None where that is undecided.
        confidence: Probability of the likelier answer.
        own: Cost of the operator; None where it could not be timed.
        touch_cost: Cost of one pass over the elements.
    """

    operators: tuple[str, ...]
    free: bool | None
    confidence: float = 0.5
    own: Estimate | None = None
    touch_cost: float = 0.0

    def to_json(self, quantity: Quantity) -> dict[str, float | bool | None]:
        """Return the answer for scripts, without the cost where it could not be timed."""
        known = {} if self.own is None else {"own": self.own.value}
        return {
            "free": self.free,
            "confidence": round(self.confidence, 4),
            **quantity.figures(**known, touch=self.touch_cost),
        }


def find_views(stopwatch: Stopwatch, surroundings: Surroundings) -> dict[str, ViewAnswer]:
    """Time the candidates on tensors so large that touching their elements would show.

    A view may cost a change of layout between one sort of walls and nothing between another: it is one where it costs nothing
    between any.
    """
    found: dict[str, ViewAnswer] = {}
    for chosen in surroundings.settings[MAP]:
        setting = replace(chosen, size=SIZE)
        names = [name for name in VIEWS if stands_behind(setting.wall, name, MAP) and not (name in found and found[name].free)]
        views = {name: view_time(name, setting) for name in names}
        passes = [own_time(name, setting) for name in TOUCHING]
        networks = {r.key: r for combination in (*views.values(), *passes) for r in combination.networks}
        batch = stopwatch.time(list(networks.values()))
        touches = [touch.value for each in passes if (touch := estimate(each, [batch])) is not None and touch.value > 0]
        for name, view in views.items():
            answer = _decide(name, estimate(view, [batch]), min(touches, default=0.0))
            if name not in found or answer.free or (found[name].free is None and answer.free is False):
                found[name] = answer
    return found


def _decide(name: str, own: Estimate | None, touch_cost: float) -> ViewAnswer:
    operators = ("squeeze", "unsqueeze") if name == "squeeze" else (name,)
    if own is None or touch_cost <= 0:
        return ViewAnswer(operators, None, 0.5, own, touch_cost)
    above = own.probability_above(COPY_SHARE * touch_cost)
    sure = max(above, 1 - above)
    return ViewAnswer(operators, above < 0.5 if sure >= CONFIDENCE else None, sure, own, touch_cost)
