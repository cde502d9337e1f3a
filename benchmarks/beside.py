"""Latencies beside other programs on this machine: one factor a program, learned from some networks and judged on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.campaigns import Bench
from benchmarks.command import Judge, print_campaign
from benchmarks.judge import figures, table, target_cell, with_interval
from benchmarks.outsiders import HALVES, NAMES, half_of
from benchmarks.result_files import keep, kept
from latcast.environment import MOMENT
from latcast.forecast import predict_many
from latcast.measure.campaign import Campaign, CampaignItem
from latcast.measure.settings import MeasurePlan
from latcast.predictors.conditions import PROGRAMS, parse_beside
from latcast.predictors.contention import factor_of, shared_out
from latcast.spaces.catalogue import model

NETWORKS = 24
"""The smallest of those drawn by a seed."""

SCENARIOS = (*PROGRAMS, *(f"{each}+{each}" for each in PROGRAMS))

LEARNED_UNDER = "onnxruntime"
"""Runtime under which the factors are learned, of the half that is looked at; the other half is judged under all."""

TARGET = 12.0

Factors = Mapping[str, Mapping[str, float]]
"""By how much each network was slowed, by scenario."""


def beside(
    runtimes: Annotated[list[str], typer.Argument(help="Runtimes of this machine, that of the factors among them.")],
    judge: Judge = True,
) -> None:
    """Time networks alone and beside other programs under runtimes of this machine, and judge; resumable."""
    items = [CampaignItem(model(name), "beside", MeasurePlan(beside=",".join(SCENARIOS))) for name in NAMES[:NETWORKS]]
    found: dict[str, Factors] = {}
    for runtime in runtimes:
        bench = Bench(runtime, suffix="-beside")
        with bench.store("labels") as store:
            Campaign(store, bench.settings, items, progress=print_campaign(bench.name)).run()
            found[runtime] = {
                each.reference.name: each.environment[MOMENT]["beside"] for each in store.measurements(role="beside")
            }
    if judge:
        keep("beside", judge_beside(found, memory_shares()))
        print(beside_table())


def memory_shares() -> dict[str, float]:
    """Return the part of each network's latency in kernels that memory limits, by the profile of :data:`LEARNED_UNDER` here."""
    predictions = predict_many(NAMES[:NETWORKS], f"local/{LEARNED_UNDER}", breakdown=True)
    return {
        name: found.by_limit().get("memory", 0.0) / found.latency_ms
        for name, found in zip(NAMES[:NETWORKS], predictions, strict=True)
    }


def judge_beside(measured: Mapping[str, Factors], shares: Mapping[str, float]) -> list[dict[str, Any]]:
    """Predict by how much networks held out are slowed, by scenario, from the factors of the others under one runtime.

    Args:
        measured: By runtime.
        shares: Of memory-bound time, by network.
    """
    learned = {name: each for name, each in measured[LEARNED_UNDER].items() if half_of(name) == HALVES[0]}
    known = {each: [slowed[each] / shared_out((each,)) for slowed in learned.values()] for each in PROGRAMS}
    rows = []
    for scenario in SCENARIOS:
        programs = parse_beside(scenario)
        factor = factor_of(known, programs)
        assert factor is not None
        held_out = [
            (name, slowed[scenario])
            for found in measured.values() for name, slowed in found.items() if half_of(name) == HALVES[1]
        ]  # fmt: skip
        actual = np.array([slowed for _, slowed in held_out])
        fitted = np.polyfit([shares[name] for name in learned], [slowed[scenario] for slowed in learned.values()], 1)
        rivals = {
            "unchanged": np.ones(len(actual)),
            "its share of the core": np.full(len(actual), shared_out(programs)),
            "a factor and a slope": np.polyval(fitted, [shares[name] for name, _ in held_out]),
        }
        predicted, low, high = (np.full(len(actual), each) for each in factor)
        rows.append(
            {
                "beside": scenario, "runtimes": list(measured), "learned_from": len(learned), "factor": factor[0],
                "slowed": np.quantile(actual, (0.05, 0.5, 0.95)).tolist(), **figures(predicted, actual, low, high),
                "rivals": {name: figures(each, actual)["mape"] for name, each in rivals.items()}, "target": TARGET,
            }
        )  # fmt: skip
    return rows


def beside_table() -> str:
    """Return a line for each scenario."""
    rows: Sequence[Mapping[str, Any]] = kept("beside")
    return table(
        rows,
        {
            "beside": "`{beside}`", "networks held out, all runtimes": "{networks}",
            "times as long (5 % to 95 %)": lambda row: "{1:.2f} ({0:.2f} to {2:.2f})".format(*row["slowed"]),
            "MAPE %": with_interval("mape"), "in the 90 % interval, %": "{interval_coverage:.0f}",
            **{
                f"{name}: MAPE %": lambda row, name=name: f"{row['rivals'][name]:.1f}"
                for name in ("unchanged", "its share of the core", "a factor and a slope")
            },
            "target": lambda row: target_cell(row["target"], row["mape"]),
        },
    )  # fmt: skip
