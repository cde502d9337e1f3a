"""Latencies under lasting load on phones: what published curves of ten minutes say of a class, each held out from the others."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.command import PUBLISHED, Data
from benchmarks.judge import table
from benchmarks.result_files import keep, kept
from latcast.errors import DatasetError
from latcast.predictors.sustained import PHONE_CHIPS, SHIPPED, Curve
from latcast.reading import read_csv

MINUTES = 10.0

COOL = ("nominal", "fair")
"""Thermal states, as Apple calls them, in which a curve has to begin."""

STUDENT_95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860)
"""95 % quantiles of Student's distribution with 1 to 8 degrees of freedom."""

_NOTE = re.compile(r"thermal (\w+)->\w+;.*rolling decode first ([\d.]+) last ([\d.]+)")


@dataclass(frozen=True)
class PublishedCurve:
    """Speeds of one network on one device, cool, after ten minutes without a pause, and on average."""

    device: str
    unit: str
    model: str
    first: float
    last: float
    mean: float


def sustained(data: Data = PUBLISHED, ship: Annotated[bool, typer.Option(help="Write what latcast ships.")] = False) -> None:
    """Judge latencies after ten minutes on phones, each curve by the others of its kind of unit."""
    curves = read_curves(data / "llm" / "apple_silicon_bench.csv")
    kinds = sorted({curve.unit for curve in curves})
    keep("sustained", [judge([curve for curve in curves if curve.unit == kind]) for kind in kinds])
    if ship:
        learned = {kind: asdict(class_curve([curve for curve in curves if curve.unit == kind])) for kind in kinds}
        SHIPPED.write_text(json.dumps(learned, indent=1) + "\n", encoding="utf-8")
    print(sustained_table())


def read_curves(file: Path) -> list[PublishedCurve]:
    """Return the curves on phones' chips that begin cool."""
    rows = [cells for _, cells in read_csv(file, error=DatasetError)]
    named = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    found = []
    for row in named:
        noted = _NOTE.search(row["note"])
        if noted is not None and noted[1] in COOL and re.match(PHONE_CHIPS, row["chip"]):
            speeds = (float(noted[2]), float(noted[3]), float(row["decode_tokens_per_s"]))
            found.append(PublishedCurve(row["device"], row["unit"], row["model"], *speeds))
    return found


def class_curve(curves: Sequence[PublishedCurve]) -> Curve:
    """Return what curves of a class say of a new one: the geometric mean of their rises, with a 90 % interval."""
    logs = np.log([curve.first / curve.last for curve in curves])
    reach = STUDENT_95[len(logs) - 2] * logs.std(ddof=1) * np.sqrt(1 + 1 / len(logs))
    expected, low, high = np.exp([logs.mean(), max(logs.mean() - reach, 0.0), logs.mean() + reach]) - 1
    devices = sorted({curve.device for curve in curves})
    basis = (
        f"{len(curves)} curves of {MINUTES:g} minutes without a pause on {len(devices)} phone ({', '.join(devices)}), "
        "of language models; on other phones it may be otherwise"
    )
    constant_s = float(np.median([constant for curve in curves if (constant := time_constant_s(curve)) is not None]))
    return Curve(float(expected), float(low), float(high), constant_s, MINUTES, basis)


def time_constant_s(curve: PublishedCurve) -> float | None:
    """Return the seconds until 63 % of the loss of speed, from the mean speed; None where that is outside."""
    part = (curve.mean - curve.last) / (curve.first - curve.last)
    constants = np.geomspace(1.0, 60 * MINUTES, 1000)
    means = constants / (60 * MINUTES) * (1 - np.exp(-60 * MINUTES / constants))
    return float(constants[np.argmin(np.abs(means - part))]) if means[0] < part < means[-1] else None


def judge(curves: Sequence[PublishedCurve]) -> dict[str, object]:
    """Predict the last latency of each curve by the others, beside taking it for the first."""
    errors, none, inside = [], [], []
    for held in curves:
        others = class_curve([curve for curve in curves if curve is not held])
        actual = held.first / held.last
        errors.append(100 * abs((1 + others.rise) / actual - 1))
        none.append(100 * abs(1 / actual - 1))
        inside.append(others.rise_low <= actual - 1 <= others.rise_high)
    whole = class_curve(curves)
    return {
        "unit": curves[0].unit, "curves": len(curves), "devices": len({curve.device for curve in curves}),
        "mape": float(np.mean(errors)), "unchanged_mape": float(np.mean(none)), "inside": int(sum(inside)),
        "rise_percent": 100 * whole.rise, "low_percent": 100 * whole.rise_low, "high_percent": 100 * whole.rise_high,
        "constant_s": whole.constant_s,
    }  # fmt: skip


def sustained_table() -> str:
    """Return a line for each kind of unit of phones."""
    return table(
        kept("sustained"),
        {
            "unit of phones": "{unit}", "curves": "{curves}", "devices": "{devices}",
            "longer after ten minutes, %": "{rise_percent:.0f} ({low_percent:.0f} to {high_percent:.0f})",
            "63 % of it after, s": "{constant_s:.0f}", "held out, last latency: MAPE %": "{mape:.0f}",
            "taken as unchanged: MAPE %": "{unchanged_mape:.0f}", "curves in the interval": "{inside} of {curves}",
        },
    )  # fmt: skip
