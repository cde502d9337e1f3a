"""The surroundings in which each pair is tested: the size of the tensors, and the walls around it.

A wall is an operator that separates those under test (:mod:`latcast.spaces.operator_pairs`). It must not be fused itself, and
must not hide a change of layout: neighbours that share one look fused. The extra cost of an operator between one sort of walls,
over another, is the cost of its layout there; a pair can gain as much as the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from latcast.errors import MeasurementError
from latcast.fusion.decision import VISIBLE_ERRORS, Estimate, TimedBatch, estimate
from latcast.fusion.quantities import Quantity
from latcast.fusion.stopwatch import Stopwatch
from latcast.fusion.test_cases import (
    ChainSetting,
    Combination,
    TestCase,
    distinct_networks,
    forms,
    own_time,
    pair_case,
    wall_time,
)
from latcast.spaces.operator_pairs import MAP, OPERATORS, ROWS, TOKENS, WALL, WALLS, operator, stands_behind

LONG, SHORT = "conv", ("relu", "add")
"""Operators by whose pairs the size is chosen: one that takes long before those that take least."""

CLEAR_ERRORS = 6.0
"""Standard errors of the saving that the shorter operator must take: half is the distance to the threshold; 2.3 are sure."""

PREFERENCE = {"average_pool": 2.0, "max_pool": 1.8}
"""Factors on how clearly a pair is seen: between poolings data are in the layout that they have in most networks."""

SELF_FUSED_SHARE = 0.5
"""An operator that takes less behind another of its kind than this part of its time between other walls is not a wall."""

HIDDEN_SHARE = 0.25
"""Part of the shorter operator's time that a change of layout may take without looking like a fusion."""


@dataclass(frozen=True)
class Surroundings:
    """Settings in which operators can be distinguished, and the costs of single operators there.

    Attributes:
        settings: By form, the healthy settings, that of the shortest wall first.
        own_cost: Cost of an operator by itself, by setting and name.
        failures: Why an operator could not be run, by name.
        kernel: Cost of one kernel, where that is known.
    """

    settings: Mapping[str, tuple[ChainSetting, ...]]
    own_cost: Mapping[tuple[ChainSetting, str], Estimate]
    failures: Mapping[str, str] = field(default_factory=dict)
    kernel: float = 0.0

    def intrinsic_cost(self, name: str, form: str) -> float:
        """Return the cost of an operator in the layout that suits it: the least over all walls that show it, errors added."""
        known = [found for setting in self.settings[form] if (found := self.own_cost.get((setting, name))) is not None]
        seen = [found for found in known if found.value > VISIBLE_ERRORS * found.error] or known
        return min((max(found.value, 0.0) + found.error for found in seen), default=0.0)

    def hidden_cost(self, setting: ChainSetting, first: str, second: str) -> float:
        """Return the time that neighbours may save by sharing a change of layout: the smaller of the two costs."""
        costs = []
        for name in (first, second):
            # An operator that changes the shape is timed with those that restore it: its own layout is not known.
            unknown = not operator(name).keeps_shape
            # A transposition is itself a change of layout, which becomes one kernel with a neighbour's where they meet.
            own = 0.0 if self.kernel and name == "transpose" else self.intrinsic_cost(name, setting.form)
            costs.append(np.inf if unknown else self.own_cost[setting, name].value - own)
        return max(float(min(costs)), 0.0)

    def shrinking_cost(self, setting: ChainSetting, second: str, own_cost: float) -> float:
        """Return the extra cost of an operator that reads a shrunken tensor, over a whole one."""
        intrinsic = self.intrinsic_cost(second, setting.form)
        return own_cost - intrinsic if own_cost > (1 + HIDDEN_SHARE) * intrinsic else 0.0

    def suits(self, setting: ChainSetting, names: Sequence[str]) -> bool:
        """Return whether, with kernels counted, operators need no more of them here than between their best walls."""
        extra = (self.own_cost[setting, name].value - self.intrinsic_cost(name, setting.form) for name in names)
        return all(cost < self.kernel / 2 for cost in extra)

    def misleads(self, setting: ChainSetting, first: str, second: str) -> bool:
        """Return whether a change of layout that neighbours share could look like a fusion."""
        intrinsic = min(self.intrinsic_cost(name, setting.form) for name in (first, second))
        return self.hidden_cost(setting, first, second) > HIDDEN_SHARE * intrinsic

    def choices(self, first: str, second: str) -> tuple[ChainSetting, ...]:
        """Return the settings for a pair, the best first; empty where the pair cannot be tested.

        Settings in which a shared change of layout could be taken for a fusion come last; of the others, those come first in
        which the shorter operator is seen most clearly, a pooling counting twice.
        """
        for form in forms(first, second):
            known = [s for s in self.settings.get(form, ()) if (s, first) in self.own_cost and (s, second) in self.own_cost]
            if known:
                return tuple(sorted(known, key=lambda setting: self._preference(setting, first, second)))
        return ()

    def ordered_for(self, names: Sequence[str], form: str) -> tuple[ChainSetting, ...]:
        """Return the settings of a form in which all these operators run, the one in which they take least first."""
        known = [s for s in self.settings.get(form, ()) if all((s, name) in self.own_cost for name in names)]
        return tuple(sorted(known, key=lambda setting: sum(self.own_cost[setting, name].value for name in names)))

    def _preference(self, setting: ChainSetting, first: str, second: str) -> tuple[bool, bool, float]:
        estimates = {name: self.own_cost[setting, name] for name in (first, second)}
        unseen = any(found.value <= VISIBLE_ERRORS * found.error for found in estimates.values())
        errors = max(sum(found.error**2 for found in estimates.values()) ** 0.5, 1e-12)
        # The cost of its layout here does not count: fusing would not save it.
        shortest = min(min(found.value, self.intrinsic_cost(name, setting.form)) for name, found in estimates.items())
        clearness = shortest / errors * PREFERENCE.get(setting.wall, 1.0)
        return (self.misleads(setting, first, second), unseen, -clearness)


def choose_surroundings(
    stopwatch: Stopwatch, operators: Sequence[str], earlier: Sequence[TimedBatch] = ()
) -> tuple[Surroundings, list[TimedBatch]]:
    """Time every operator alone between every sort of wall.

    Args:
        stopwatch: Times the networks.
        operators: Names of operators.
        earlier: Batches known already; one that holds all networks of a setting is not timed again.

    Returns:
        The surroundings, and the batches behind them (all operators of one setting in the same rounds).

    Raises:
        MeasurementError: No wall works on this runtime.
    """
    base = _earlier_setting(earlier, stopwatch.quantity) or _smallest_setting(stopwatch)
    operators = list(dict.fromkeys([*operators, *(wall for wall in WALLS if wall in OPERATORS)]))
    settings: dict[str, tuple[ChainSetting, ...]] = {}
    wall_costs: dict[ChainSetting, float] = {}
    own_cost: dict[tuple[ChainSetting, str], Estimate] = {}
    failures: dict[str, str] = {}
    batches: list[TimedBatch] = []
    for form in (MAP, ROWS, TOKENS):
        healthy: list[ChainSetting] = []
        names = [
            name
            for name in operators
            # Other forms than maps are for neighbours of operators that work on those alone.
            if form in operator(name).forms
            and (form == MAP or any(form in forms(name, other) or form in forms(other, name) for other in operators))
        ]
        for wall in (name for name, wall in WALLS.items() if form in wall.forms and names):
            setting = replace(base, form=form, wall=wall)
            wanted = [name for name in names if stands_behind(wall, name, form)]
            chains = [setting.network(*[WALL] * walls) for walls in (1, 2, 3)] + [setting.network(WALL, operand=True)]
            single = [reference for name in wanted for reference in own_time(name, setting).networks]
            networks = list({reference.key: reference for reference in (*chains, *single)}.values())
            known = next((b for b in earlier if all(reference.key in b.costs for reference in networks)), None)
            batch = stopwatch.time(networks) if known is None else known
            batches.append(batch)
            found = _wall_cost(setting, batch)
            if found is None:
                continue
            elsewhere = [own_cost[other, wall].value for other in healthy if (other, wall) in own_cost]
            if elsewhere and found < SELF_FUSED_SHARE * (stopwatch.quantity.kernel or min(elsewhere)):
                continue
            healthy.append(setting)
            wall_costs[setting] = found
            for name in wanted:
                own = estimate(own_time(name, setting), [batch])
                if own is not None:
                    own_cost[setting, name] = own
                elif (problem := batch.failures.get(setting.network(name, WALL).key)) is not None:
                    failures.setdefault(name, problem)
        settings[form] = tuple(sorted(healthy, key=wall_costs.__getitem__))
    if not settings[MAP]:
        reason = next(iter(failures.values()), "no wall could be seen in the noise")
        raise MeasurementError(
            f"no wall works on {stopwatch.platform.id}, so that operators cannot be distinguished ({reason}); "
            "measure on a quieter machine"
        )
    runs = {name for _, name in own_cost}
    return Surroundings(
        settings, own_cost, {k: v for k, v in failures.items() if k not in runs}, stopwatch.quantity.kernel
    ), batches


def _wall_cost(setting: ChainSetting, batch: TimedBatch) -> float | None:
    """Return the cost of a wall; None where it cannot be seen, or where a runtime merges neighbouring walls."""
    second = estimate(wall_time(setting), [batch])
    longer, shorter = setting.network(WALL, WALL, WALL), setting.network(WALL, WALL)
    third = estimate(Combination.of(setting.blocks, (1, longer), (-1, shorter)), [batch])
    if second is None or third is None or second.value <= VISIBLE_ERRORS * second.error:
        return None
    return second.value if third.value > 0.5 * second.value else None


def _earlier_setting(earlier: Sequence[TimedBatch], quantity: Quantity) -> ChainSetting | None:
    """Return the size that was chosen last before, so that earlier timings count."""
    candidates = [ChainSetting(size=size, blocks=blocks) for size, blocks in quantity.sizes]
    for batch in reversed(earlier):
        for setting in candidates:
            if all(setting.network(*[WALL] * walls).key in batch.costs for walls in (1, 2, 3)):
                return setting
    return None


def _smallest_setting(stopwatch: Stopwatch) -> ChainSetting:
    """Return the smallest network that takes long enough and shows short operators, or the one that shows them best."""
    clearest: list[tuple[float, ChainSetting]] = []
    for size, blocks in stopwatch.quantity.sizes:
        settings = [ChainSetting(wall=wall, size=size, blocks=blocks) for wall in ("average_pool", "p_relu")]
        network = settings[0].network(WALL, WALL, WALL)
        cases = [pair_case(LONG, short, setting) for setting in settings for short in SHORT]
        batch = stopwatch.time([settings[0].network(WALL), network, *distinct_networks(cases)])
        rounds = batch.costs.get(network.key)
        clear = max(min(_clearness(case, batch) for case in cases if case.setting == setting) for setting in settings)
        clearest.append((clear, settings[0]))
        if rounds is None or (float(np.median(rounds)) >= stopwatch.quantity.least and clear >= CLEAR_ERRORS):
            return settings[0]
    return max(clearest, key=lambda found: found[0])[1]


def _clearness(case: TestCase, batch: TimedBatch) -> float:
    """Return the cost of the shorter operator, in standard errors of the saving by the pair's fusion."""
    saved, shares = estimate(case.saved, [batch]), [estimate(share, [batch]) for share in case.shares]
    if saved is None or saved.error <= 0:
        return 0.0
    return min((found.value / saved.error for found in shares if found is not None), default=0.0)
