"""How good the cost model is: trained on one sweep alone, on a device's earlier sweeps, on another device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latcast.workgroups.cost_model import BUDGET, TuningRun, tune
from latcast.workgroups.strategies import follow_rules, measure_at_random, measure_by_rules, take_kfast
from latcast.workgroups.sweep import SizeSweep
from papers.harness import Cell, PaperTable, mean
from papers.workgroups.groups import Group

COUNTS = (1, 2, 3, BUDGET)
"""Sizes measured of a sweep; with 1 the choice rests on what was known before alone."""

WARM_UP = 6
"""Sweeps whose measurements are a device's first few dozen; judged are the later ones."""

SEEDS = 3


def cost_model(groups: Sequence[Group]) -> PaperTable:
    """Compare the best of the sizes measured, over the best of all: cost model, rules and chance."""
    rows: list[tuple[Cell, ...]] = []
    for group in groups:
        for trained_on in (_alone, _device, _other):
            rows += trained_on(_rankable(group), groups)
    notes = (
        "each figure is the best of the sizes measured over the best of all sizes of the sweep, mean over sweeps",
        "alone: nothing but the sweep's own measurements; so 1 is TFLite's default",
        f"earlier sweeps: other kernel variants on the same device, {BUDGET} sizes of each, tuned one after another in random "
        f"order ({SEEDS} orders); the first {WARM_UP} sweeps ({WARM_UP * BUDGET} measurements) are not judged",
        f"another device: {BUDGET} random sizes of each of its sweeps ({SEEDS} draws), and of this device the sweep's own "
        "measurements alone",
        "rules and random: the best of as many sizes drawn at random among those that the rules leave, and among all",
        "the model was developed on the NVIDIA RTX A4000 alone and then left as it was for all other devices",
    )
    columns = (
        "device and kernel", "cost model trained on", "sweeps", "sizes measured", "cost model", "cost model, worst", "rules",
        "random", "kFast",
    )  # fmt: skip
    return PaperTable("cost model", "Best of the sizes measured over the best size", columns, tuple(rows), notes)


def _rankable(group: Group) -> Group:
    sweeps = tuple(sweep for sweep in group.sweeps if sweep.rankable)
    return replace(group, sweeps=sweeps)


def _alone(group: Group, _: Sequence[Group]) -> list[tuple[Cell, ...]]:
    found = [((sweep,), tune((sweep,), [0], carry=False)) for sweep in group.sweeps]
    return _rows(group, "the sweep alone", found) if found else []


def _device(group: Group, _: Sequence[Group]) -> list[tuple[Cell, ...]]:
    if len(group.sweeps) < 2 * WARM_UP:
        return []
    runs = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(group.sweeps)).tolist()
        found = tune(group.sweeps, order, seed=seed)
        runs.append((group.sweeps, TuningRun(found.sweeps[WARM_UP:], found.measured[WARM_UP:])))
    return _rows(group, "earlier sweeps", runs)


def _other(group: Group, groups: Sequence[Group]) -> list[tuple[Cell, ...]]:
    others = [other for other in map(_rankable, groups) if other.kernel == group.kernel and other.device != group.device]
    known = [sweep for other in others for sweep in other.sweeps]
    if not known or not group.sweeps:
        return []
    both = (*group.sweeps, *known)
    order, learned = range(len(group.sweeps)), range(len(group.sweeps), len(both))
    runs = [(both, tune(both, order, known=learned, carry=False, seed=seed)) for seed in range(SEEDS)]
    return _rows(group, "another device", runs)


def _rows(group: Group, trained: str, runs: Sequence[tuple[Sequence[SizeSweep], TuningRun]]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    judged = [sweeps[number] for sweeps, run in runs for number in run.sweeps]
    for count in COUNTS:
        found = np.concatenate([run.regrets(sweeps, count) for sweeps, run in runs])
        by_rules = [(follow_rules(sweep) if count == 1 else measure_by_rules(sweep, count)).relative for sweep in judged]
        by_chance = [measure_at_random(sweep, count).relative for sweep in judged]
        default = [take_kfast(sweep).relative for sweep in judged] if count == 1 else []
        rows.append(
            (group.title, trained, len(group.sweeps), count, float(found.mean()), float(found.max()), mean(by_rules),
             mean(by_chance), mean(default))
        )  # fmt: skip
    return rows
