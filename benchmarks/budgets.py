"""What a shorter profile would have given: predictors trained on the first minutes of one, judged on the same labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from benchmarks.campaigns import Bench, profile_taken, train_again
from benchmarks.outsiders import HALVES, judge_outsiders
from benchmarks.result_files import kept_parts
from benchmarks.tables import markdown_table
from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.records import Measurement

MINUTES = (1.5, 3.0, 5.0)
"""Budgets that are compared; the last is that of the whole profile."""


def first_part(measurements: Sequence[Measurement], share: float) -> list[Measurement]:
    """Those of a campaign that were taken in the first part of its time, in order; all for a share of 1."""
    ordered = sorted(measurements, key=lambda each: each.taken_at)
    times = [datetime.fromisoformat(each.taken_at) for each in ordered]
    if not ordered:
        return []
    end = times[0] + timedelta(seconds=share * (times[-1] - times[0]).total_seconds())
    return [each for each, taken in zip(ordered, times, strict=True) if taken <= end]


def judge_budgets(bench: Bench, labels_of: Bench, watch: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Judges predictors that ``latcast train`` makes of the first minutes of a bench's profile, by :data:`MINUTES`.

    Raises:
        MeasurementError: There is no profile, one that ended before its budget, or there are no labels.
    """
    profiled = profile_taken(bench)
    if profiled.get("stopped"):
        raise MeasurementError(f"the profile of {bench.name} ended before its budget, so that its parts are of no known budget")
    with Store(profiled["store"]) as store:
        measured = list(store.measurements(platform=profiled["platform"]))
    rows = []
    for minutes in MINUTES:
        watch(f"{bench.name}: {minutes:g} minutes")
        part = replace(bench, suffix=f"{bench.suffix}-first-{minutes:g}")
        kept = first_part(measured, minutes / profiled["minutes"])
        start = time.monotonic()
        train_again(part, profiled, kept, minutes=minutes)
        seconds = time.monotonic() - start
        found = judge_outsiders(part, labels_of)
        rows.append(
            {"minutes": minutes, "networks": len(kept), "training_seconds": seconds, **{half: found[half] for half in HALVES}}
        )
    return {"platform": profiled["platform"], "wall_seconds": profiled["wall_seconds"], "rows": rows}


def budgets_table() -> str:
    """A line for each platform: what a profile of five minutes took in all, then MAPE / ±10 % / coverage by budget."""
    lines = []
    for name, found in kept_parts("budgets").items():
        seed = f", seed {name.rpartition('-')[2]}" if name.rpartition("-")[2].isdigit() else ""
        for half in HALVES:
            cells = ["{mape:.1f} / {within_10:.0f} / {interval_coverage:.0f}".format(**row[half]) for row in found["rows"]]
            error = f"{found['rows'][-1][half]['label_error']:.1f}"
            lines.append([f"{found['platform']}{seed}", half, f"{found['wall_seconds']:.0f}", error, *cells])
    head = ["platform", "half", "5 minutes took, s", "label error %", *(f"{each:g} minutes" for each in MINUTES)]
    return markdown_table(head, lines)
