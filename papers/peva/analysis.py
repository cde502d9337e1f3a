"""What the published measurements of Li et al. say by themselves (§3): several cores, int8, where GPUs spend their time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from latcast.records import Platform
from latcast.spaces.lineages import family_of
from papers.harness import Cell, PaperTable
from papers.peva.learners import latency_ms_by_type
from papers.peva.operations import category_of
from papers.peva.paper import INT8_ELEMENTWISE_SLOWER, INT8_PYTORCH_CONVOLUTIONS_SLOWER, MEASUREMENTS
from papers.peva.published import (
    LARGE_CORE,
    RUNTIME_TITLES,
    PublishedNetworks,
    cores_of,
    not_published,
    quartiles,
    runtime_and_soc,
)


def paired_ratio(published: PublishedNetworks, first: Platform, second: Platform, kind: str = "real") -> np.ndarray:
    """Return latency on the first platform over that on the second, of each network that both have."""
    above, below = published.latency_ms(first, kind), published.latency_ms(second, kind)
    return np.array([above[name] / below[name] for name in sorted(above.keys() & below.keys())])


def geometric_mean(ratios: np.ndarray) -> float:
    """Return the geometric mean of ratios, for which half and twice cancel."""
    return float(np.exp(np.log(ratios).mean()))


def equal_cores(published: PublishedNetworks, kind: str = "real", precision: str = "fp32") -> PaperTable:
    """Speedup of several equal cores over one of them."""
    rows: list[tuple[Cell, ...]] = []
    platforms = published.platforms(kind, precision=precision, compute="cpu")
    for platform in platforms:
        cores = cores_of(platform.unit)
        if len(cores) != 1:
            continue
        cluster, count = next(iter(cores.items()))
        one = replace(platform, unit=f"1{cluster}")
        if one not in platforms:
            continue
        speedup = paired_ratio(published, one, platform, kind)
        median_ms = float(np.median(list(published.latency_ms(platform, kind).values())))
        rows.append(
            (*runtime_and_soc(platform), platform.device, platform.unit, len(speedup), median_ms,
             geometric_mean(speedup), 100 * geometric_mean(speedup) / count, *quartiles(speedup))
        )  # fmt: skip
    several = [row for row in rows if not str(row[3]).startswith("1")]
    below = sum(1 for row in several if isinstance(row[7], float) and row[7] < 100)
    slower = [f"{row[2]} {row[3]} ({row[0]})" for row in several if isinstance(row[6], float) and row[6] < _before(rows, row)]
    text = f"sublinear on {below} of {len(several)} core sets"
    if slower:
        text += f"; slower on average than one core less: {', '.join(slower)}"
    return PaperTable(
        "figure 2",
        f"Several equal cores against one of them, {precision}, {kind} networks",
        ("runtime", "system on chip", "phone", "cores", "networks", "median ms", "speedup", "of ideal %", "lower quartile",
         "median", "upper quartile"),
        tuple(rows),
        (text,),
    )  # fmt: skip


def _before(rows: Sequence[tuple[Cell, ...]], row: tuple[Cell, ...]) -> float:
    """Speedup of the same cluster with one core less; 0 where it was not measured."""
    ((cluster, count),) = cores_of(str(row[3])).items()
    wanted = (row[0], row[2], f"{count - 1}{cluster}")
    found = [other[6] for other in rows if (other[0], other[2], other[3]) == wanted]
    return float(found[0]) if found and isinstance(found[0], float) else 0.0


def mixed_cores(published: PublishedNetworks, kind: str = "real") -> PaperTable:
    """Compare sets of unequal cores against the best of their parts."""
    rows: list[tuple[Cell, ...]] = []
    platforms = published.platforms(kind, compute="cpu")
    for platform in platforms:
        cores = cores_of(platform.unit)
        if len(cores) < 2:
            continue
        for part in (replace(platform, unit=f"{count}{cluster}") for cluster, count in cores.items()):
            if part in platforms:
                ratio = paired_ratio(published, platform, part, kind)
                rows.append(
                    (*runtime_and_soc(platform), platform.unit, platform.precision, part.unit, len(ratio),
                     1 / geometric_mean(ratio), 100 * float(np.mean(ratio > 1)), float(ratio.max()))
                )  # fmt: skip
    return PaperTable(
        "figure 2 mixed",
        f"Unequal cores together against some of them alone, {kind} networks",
        ("runtime", "system on chip", "cores", "precision", "against", "networks", "speedup", "networks slower %",
         "slowest of all, times"),
        tuple(rows),
        ("a speedup below 1 is a slowdown: work is split equally, so the slowest core sets the pace (§3.1.1)",),
    )  # fmt: skip


def pairs(published: PublishedNetworks, kind: str = "real", **chosen: str) -> list[tuple[Platform, Platform]]:
    """Platforms measured in fp32 and in int8."""
    int8 = set(published.platforms(kind, precision="int8", **chosen))
    found = [(each, replace(each, precision="int8")) for each in published.platforms(kind, precision="fp32", **chosen)]
    return [pair for pair in found if pair[1] in int8]


def by_scenario(published: PublishedNetworks, kind: str = "real") -> PaperTable:
    """Speedup of int8 on each core set."""
    rows: list[tuple[Cell, ...]] = []
    for fp32, int8 in pairs(published, kind):
        speedup = paired_ratio(published, fp32, int8, kind)
        rows.append(
            (*runtime_and_soc(fp32), fp32.device, fp32.unit, len(speedup), geometric_mean(speedup),
             *quartiles(speedup), 100 * float(np.mean(speedup < 1)))
        )  # fmt: skip
    slower = [f"{row[2]} {row[3]} ({row[0]})" for row in rows if isinstance(row[5], float) and row[5] < 1]
    return PaperTable(
        "figure 4",
        f"Speedup of int8 over fp32, {kind} networks",
        ("runtime", "system on chip", "phone", "cores", "networks", "speedup", "lower quartile", "median", "upper quartile",
         "networks slower %"),
        tuple(rows),
        (f"slower in int8 on average: {', '.join(slower) or 'none'}",),
    )  # fmt: skip


def by_family(published: PublishedNetworks) -> PaperTable:
    """Speedup of int8 for each family of real networks, over all core sets."""
    ratios: dict[tuple[str, str], dict[str, list[float]]] = {}
    for fp32, int8 in pairs(published):
        slow, fast = published.of_platform(fp32), published.of_platform(int8)
        for name in sorted(slow.keys() & fast.keys()):
            family = family_of(slow[name].reference)
            ratio = float(slow[name].latency_ms or 0.0) / float(fast[name].latency_ms or 1.0)
            ratios.setdefault((fp32.runtime, family), {}).setdefault(name, []).append(ratio)
    families = sorted({family for _, family in ratios})
    rows: list[tuple[Cell, ...]] = []
    for family in families:
        cells: list[Cell] = []
        for runtime in RUNTIME_TITLES:
            networks = ratios.get((runtime, family), {})
            means = {name: geometric_mean(np.array(found)) for name, found in networks.items()}
            worst = min(means, key=means.__getitem__) if means else None
            cells += [len(means), geometric_mean(np.array(list(means.values()))) if means else None,
                      f"{worst} ({means[worst]:.2f})" if worst else None]  # fmt: skip
        rows.append((family, *cells))
    columns = ["family", *(f"{title} {what}" for title in RUNTIME_TITLES.values() for what in ("networks", "speedup", "least"))]
    return PaperTable(
        "figure 4 networks", "Speedup of int8 over fp32 by family, mean over all core sets", tuple(columns), tuple(rows)
    )


def by_class(published: PublishedNetworks) -> PaperTable:
    """Speedup of int8 by class of kernel, on one large core, as fitted to whole networks."""
    rows: list[tuple[Cell, ...]] = []
    for fp32, int8 in pairs(published, unit=LARGE_CORE):
        both = sorted(published.latency_ms(fp32).keys() & published.latency_ms(int8).keys())
        slow, fast = (_by_operation(latency_ms_by_type(published, each, both)) for each in (fp32, int8))
        for name in slow:
            shares = [100 * of[name] / sum(of.values()) for of in (slow, fast)]
            told = min(shares) >= LEAST_PERCENT
            speedup = slow[name] / fast[name] if told else None
            rows.append((*runtime_and_soc(fp32), fp32.device, name, *shares, speedup))
    slower = ", ".join(f"{times:g} times on {soc}" for soc, times in INT8_ELEMENTWISE_SLOWER.items())
    return PaperTable(
        "figure 5",
        "Speedup of int8 by operation, one large core, from terms fitted to whole networks",
        ("runtime", "system on chip", "phone", "operation", "of fp32 %", "of int8 %", "speedup"),
        tuple(rows),
        (
            "no operation of a CPU was published: these are shares that whole networks imply, not measured operations; what "
            "occurs together cannot be told apart well",
            f"the paper measured element-wise operations of TFLite to take longer in int8: {slower}",
            f"and PyTorch's convolutions {INT8_PYTORCH_CONVOLUTIONS_SLOWER:g} times as long on one large core of Snapdragon 855",
        ),
    )


LEAST_PERCENT = 0.5
"""Of the latency in both precisions: what an operation needs, as the speedup of less cannot be told from whole networks."""

OPERATION_OF_TYPE: Mapping[str, str] = {
    "conv": "convolution",
    "grouped_conv": "grouped convolution",
    "depthwise_conv": "depthwise convolution",
    "linear": "fully connected",
    "reduce": "mean, pooling",
    "max_pool": "mean, pooling",
    "average_pool": "mean, pooling",
    "overhead": "overhead",
}
"""Kernel type to the operation of Fig. 5; all else computes or moves single elements."""

REST = "element-wise and other"


def _by_operation(of_types: Mapping[str, float]) -> dict[str, float]:
    found = dict.fromkeys([*dict.fromkeys(OPERATION_OF_TYPE.values()), REST], 0.0)
    for name, latency_ms in of_types.items():
        found[OPERATION_OF_TYPE.get(name.partition(".")[0], REST)] += latency_ms
    return found


def shares(published: PublishedNetworks, platform: Platform) -> dict[str, np.ndarray]:
    """Kind of kernel to its share of each network's latency, in percent; "overhead" is what no operation explains."""
    networks = published.with_operations(platform)
    found: dict[str, np.ndarray] = {}
    for row, network in enumerate(networks):
        whole = float(network.latency_ms or 0.0)
        for kernel in network.executed:
            found.setdefault(kernel.kind, np.zeros(len(networks)))[row] += 100 * kernel.latency_ms / whole
    found["overhead"] = 100 - sum(found.values(), np.zeros(len(networks)))
    return found


def figure_10(published: PublishedNetworks) -> PaperTable:
    """Return share of each kind of kernel in the latency of real networks."""
    rows: list[tuple[Cell, ...]] = []
    for platform in published.gpus_with_operations():
        counts: dict[str, int] = {}
        category: dict[str, str] = {"overhead": "-"}
        for network in published.of_platform(platform).values():
            for kernel in network.executed:
                counts[kernel.kind] = counts.get(kernel.kind, 0) + 1
                category[kernel.kind] = category_of(kernel)
        found = shares(published, platform)
        for kind in sorted(found, key=lambda name: -float(found[name].mean())):
            rows.append(
                (*runtime_and_soc(platform), kind, category[kind], counts.get(kind),
                 float(found[kind].mean()), *quartiles(found[kind]))
            )  # fmt: skip
    return PaperTable(
        "figure 10",
        "Share of the latency of real networks on GPUs, by kernel",
        ("runtime", "system on chip", "kernel", "operation", "kernels", "mean %", "lower quartile %", "median %",
         "upper quartile %"),
        tuple(rows),
        ("the overhead is the whole network's latency less that of its recorded operations; padding and element-wise operations "
         "of TFLite that were not fused were not recorded and count to it",),
    )  # fmt: skip


def figure_9(published: PublishedNetworks) -> PaperTable:
    """Return the latency of networks less the sum of their operations."""
    rows: list[tuple[Cell, ...]] = []
    for platform in published.gpus_with_operations():
        networks = published.with_operations(platform)
        whole = np.array([float(each.latency_ms or 0.0) for each in networks])
        beyond = whole - np.array([sum(kernel.latency_ms for kernel in each.executed) for each in networks])
        sizes = np.array([len(each.executed) for each in networks])
        rows.append(
            (*runtime_and_soc(platform), len(networks), float(beyond.mean()), *quartiles(beyond),
             100 * float(np.mean(beyond / whole)), 100 * float(np.mean(beyond < 0)),
             float(np.corrcoef(beyond, sizes)[0, 1]) if len(networks) > 1 and beyond.std() > 0 and sizes.std() > 0 else None)
        )  # fmt: skip
    return PaperTable(
        "figure 9",
        "Latency of real networks less the sum of their operations, GPUs",
        ("runtime", "system on chip", "networks", "mean ms", "lower quartile ms", "median ms", "upper quartile ms",
         "of the latency %", "networks below 0 %", "correlation with kernels"),
        tuple(rows),
        ("the paper takes the difference for constant; where it correlates with the number of kernels, it is not",),
    )  # fmt: skip


def figure_14(published: PublishedNetworks, kind: str = "synthetic", compute: str = "cpu") -> PaperTable:
    """Coefficient of variation of the runs on each core set."""
    rows: list[tuple[Cell, ...]] = []
    for platform in published.platforms(kind, compute=compute):
        found = published.variation(platform, kind)
        if len(found):
            rows.append(
                (*runtime_and_soc(platform), platform.device, platform.unit, platform.precision,
                 len(found), float(found.mean()), *quartiles(found))
            )  # fmt: skip
    return PaperTable(
        "figure 14",
        f"Coefficient of variation of the runs, {kind} networks",
        ("runtime", "system on chip", "phone", "cores", "precision", "networks", "mean %", "lower quartile %", "median %",
         "upper quartile %"),
        tuple(rows),
    )  # fmt: skip


FIGURES: Mapping[str, Callable[[PublishedNetworks], PaperTable]] = {
    "figure 2": equal_cores,
    "figure 2 mixed": mixed_cores,
    "figure 4": by_scenario,
    "figure 4 networks": by_family,
    "figure 5": by_class,
    "figure 9": figure_9,
    "figure 10": figure_10,
    "figure 14": partial(figure_14, kind="real"),
    "not published": lambda published: not_published(MEASUREMENTS),
}
"""In the paper's order."""
