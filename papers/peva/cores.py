"""Several cores instead of one: Fig. 2 and the text of §3.1.1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.records import Platform
from papers.comparison import Cell, Comparison
from papers.peva.published import RUNTIME_TITLES, Published, cores_of, soc_of


def paired_ratio(published: Published, first: Platform, second: Platform, kind: str = "real") -> np.ndarray:
    """Latency on the first platform over that on the second, of each network that both have."""
    above, below = published.latency_ms(first, kind), published.latency_ms(second, kind)
    return np.array([above[name] / below[name] for name in sorted(above.keys() & below.keys())])


def geometric_mean(ratios: np.ndarray) -> float:
    """Of ratios, for which half and twice cancel."""
    return float(np.exp(np.log(ratios).mean()))


def equal_cores(published: Published, kind: str = "real", precision: str = "fp32") -> Comparison:
    """Speedup of several equal cores over one of them."""
    rows: list[tuple[Cell, ...]] = []
    platforms = published.platforms(kind, precision=precision, compute="cpu")
    known = {each.id: each for each in platforms}
    for platform in platforms:
        cores = cores_of(platform.unit)
        if len(cores) != 1:
            continue
        cluster, count = next(iter(cores.items()))
        one = known.get(_with_unit(platform, f"1{cluster}").id)
        if one is None:
            continue
        speedup = paired_ratio(published, one, platform, kind)
        median_ms = float(np.median(list(published.latency_ms(platform, kind).values())))
        rows.append(
            (RUNTIME_TITLES[platform.runtime], soc_of(platform), platform.device, platform.unit, len(speedup), median_ms,
             geometric_mean(speedup), 100 * geometric_mean(speedup) / count, *_quartiles(speedup))
        )  # fmt: skip
    return Comparison(
        "figure 2",
        f"Several equal cores against one of them, {precision}, {kind} networks",
        ("runtime", "system on chip", "phone", "cores", "networks", "median ms", "speedup", "of ideal %", "lower quartile",
         "median", "upper quartile"),
        tuple(rows),
        (_sublinear_sentence(rows),),
    )  # fmt: skip


def _sublinear_sentence(rows: Sequence[tuple[Cell, ...]]) -> str:
    several = [row for row in rows if not str(row[3]).startswith("1")]
    below = sum(1 for row in several if isinstance(row[7], float) and row[7] < 100)
    slower = [f"{row[2]} {row[3]} ({row[0]})" for row in several if isinstance(row[6], float) and row[6] < _before(rows, row)]
    text = f"sublinear on {below} of {len(several)} core sets"
    if slower:
        text += f"; slower on average than one core less: {', '.join(slower)}"
    return text


def _before(rows: Sequence[tuple[Cell, ...]], row: tuple[Cell, ...]) -> float:
    """Speedup of the same cluster with one core less; 0 where it was not measured."""
    ((cluster, count),) = cores_of(str(row[3])).items()
    wanted = (row[0], row[2], f"{count - 1}{cluster}")
    found = [other[6] for other in rows if (other[0], other[2], other[3]) == wanted]
    return float(found[0]) if found and isinstance(found[0], float) else 0.0


def mixed_cores(published: Published, kind: str = "real") -> Comparison:
    """Sets of unequal cores against the best of their parts."""
    rows: list[tuple[Cell, ...]] = []
    platforms = published.platforms(kind, compute="cpu")
    known = {each.id for each in platforms}
    for platform in platforms:
        cores = cores_of(platform.unit)
        if len(cores) < 2:
            continue
        parts = [_with_unit(platform, f"{count}{cluster}") for cluster, count in cores.items()]
        for part in parts:
            if part.id in known:
                ratio = paired_ratio(published, platform, part, kind)
                rows.append(
                    (RUNTIME_TITLES[platform.runtime], soc_of(platform), platform.unit, platform.precision, part.unit, len(ratio),
                     1 / geometric_mean(ratio), 100 * float(np.mean(ratio > 1)), float(ratio.max()))
                )  # fmt: skip
    return Comparison(
        "figure 2 mixed",
        f"Unequal cores together against some of them alone, {kind} networks",
        ("runtime", "system on chip", "cores", "precision", "against", "networks", "speedup", "networks slower %",
         "slowest of all, times"),
        tuple(rows),
        ("a speedup below 1 is a slowdown: work is split equally, so the slowest core sets the pace (§3.1.1)",),
    )  # fmt: skip


def _with_unit(platform: Platform, unit: str) -> Platform:
    return Platform(platform.device, platform.runtime, platform.runtime_version, unit, platform.precision)


def _quartiles(values: np.ndarray) -> tuple[float, float, float]:
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float(low), float(middle), float(high)
