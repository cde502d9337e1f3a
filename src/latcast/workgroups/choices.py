"""How good the sizes that somebody recommends turned out, in a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from latcast.workgroups.defaults import FIXED, kfast
from latcast.workgroups.importance import situation_of
from latcast.workgroups.ranking import rank
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.sweep import Sweep


@dataclass(frozen=True)
class Choice:
    """One recommendation.

    Attributes:
        name: Whose ("rules", "kFast", "fixed").
        size: The size.
        rank: 1 for the best of the sweep; None where the size was not measured.
        relative: Its latency over that of the best.
    """

    name: str
    size: WorkGroup
    rank: int | None
    relative: float | None

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        return {"name": self.name, "size": list(self.size.shape), "rank": self.rank, "relative": self.relative}


def recommended_choices(sweep: Sweep) -> list[Choice]:
    """The rules' first size among those measured, TFLite's default and the fixed one, as they did in a sweep."""
    first = rank(sweep.sizes, situation_of(sweep)).shortlist(1)[0]
    named = (("rules", first), ("kFast", kfast(sweep.grid, sweep.descriptor, sweep.device.limits)), ("fixed", FIXED))
    return [_choice(sweep, name, size) for name, size in named]


def _choice(sweep: Sweep, name: str, size: WorkGroup) -> Choice:
    row = sweep.index_of(size)
    if row is None:
        return Choice(name, size, None, None)
    return Choice(name, size, 1 + int((sweep.latency_ms < sweep.latency_ms[row]).sum()), float(sweep.relative[row]))
