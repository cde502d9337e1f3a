"""Ranking work-group sizes by the rules, as the paper applies them: one after another, each to what the others left (§4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.workgroups.data_access import accesses_per_item
from latcast.workgroups.rules import Judgement, Situation, group_counts, judge_sizes
from latcast.workgroups.sizes import WorkGroup, sizes_array

ORDER: Mapping[str, Sequence[str]] = {
    "conv": ("V", "II", "III", "IV", "I"),
    "depthwise_conv": ("V", "II", "IV", "I", "III"),
}
"""Kind of operator to the order in which rules are applied: that of their importance in Table 3."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Sizes from the most to the least promising.

    Attributes:
        sizes: (sizes, 3), as they were given.
        judgements: One for each rule.
        order: (sizes,) rows, best first.
        survivors: How many pass all rules that can be applied; where a rule would leave none it is skipped, as are those that
            cannot be evaluated. The paper takes one of them at random.
        applied: The rules that were applied, in their order.
    """

    sizes: np.ndarray
    judgements: tuple[Judgement, ...]
    order: np.ndarray
    survivors: int
    applied: tuple[str, ...]

    def shortlist(self, count: int) -> list[WorkGroup]:
        """The first sizes."""
        return [WorkGroup(x, y, z) for x, y, z in self.sizes[self.order[:count]].tolist()]


def rank(sizes: Sequence[WorkGroup] | np.ndarray, situation: Situation) -> Ranking:
    """Ranks sizes by the rules.

    Rules are applied one after another in :data:`ORDER`: what passes the first comes before what fails it, among equals what
    passes the second, and so on. Sizes that the rules cannot tell apart are ordered by what rules V and IV are about, in
    degrees: by data accesses of an item, then by padding.

    Args:
        sizes: Candidates, at least one, as objects or (sizes, 3).
        situation: Grid, kernel and device.
    """
    shapes = sizes if isinstance(sizes, np.ndarray) else sizes_array(sizes)
    judgements = judge_sizes(shapes, situation)
    passes = {found.rule: found.passes for found in judgements if found.passes is not None}
    order = [rule for rule in ORDER[situation.kernel.kind] if rule in passes]
    left = np.ones(len(shapes), dtype=bool)
    applied = []
    for rule in order:
        remaining = left & passes[rule]
        if remaining.any():
            left = remaining
            applied.append(rule)
    keys = [~passes[rule] for rule in order]
    if situation.kernel.accesses_counted:
        keys.append(accesses_per_item(shapes, situation.kernel))
    keys += [padding_share(shapes, situation), -shapes.prod(axis=1)]
    return Ranking(shapes, tuple(judgements), np.lexsort(keys[::-1]), int(left.sum()), tuple(applied))


def padding_share(shapes: np.ndarray, situation: Situation) -> np.ndarray:
    """(sizes,) share of the launched work items that have nothing to do."""
    launched = (group_counts(shapes, situation.grid) * shapes).prod(axis=1)
    return 1 - situation.grid.items / launched
