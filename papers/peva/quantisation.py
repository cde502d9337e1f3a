"""int8 against fp32 on phones' CPUs: Fig. 4, and Fig. 5 from fitted terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latcast.datasets.splits import family_of
from latcast.records import Platform
from papers.comparison import Cell, Comparison
from papers.peva.cores import geometric_mean, paired_ratio
from papers.peva.paper import INT8_ELEMENTWISE_SLOWER, INT8_PYTORCH_CONVOLUTIONS_SLOWER
from papers.peva.published import LARGE_CORE, RUNTIME_TITLES, Published, soc_of
from papers.peva.whole_networks import KernelsOfNetworks, latency_ms_by_type


def _in_int8(platform: Platform) -> Platform:
    return Platform(platform.device, platform.runtime, platform.runtime_version, platform.unit, "int8")


def pairs(published: Published, kind: str = "real", **chosen: str) -> list[tuple[Platform, Platform]]:
    """Platforms measured in fp32 and in int8."""
    int8 = {each.id for each in published.platforms(kind, precision="int8", **chosen)}
    found = published.platforms(kind, precision="fp32", **chosen)
    return [(each, _in_int8(each)) for each in found if _in_int8(each).id in int8]


def by_scenario(published: Published, kind: str = "real") -> Comparison:
    """Speedup of int8 on each core set."""
    rows: list[tuple[Cell, ...]] = []
    for fp32, int8 in pairs(published, kind):
        speedup = paired_ratio(published, fp32, int8, kind)
        low, middle, high = np.percentile(speedup, (25, 50, 75))
        rows.append(
            (RUNTIME_TITLES[fp32.runtime], soc_of(fp32), fp32.device, fp32.unit, len(speedup), geometric_mean(speedup),
             float(low), float(middle), float(high), 100 * float(np.mean(speedup < 1)))
        )  # fmt: skip
    slower = [f"{row[2]} {row[3]} ({row[0]})" for row in rows if isinstance(row[5], float) and row[5] < 1]
    return Comparison(
        "figure 4",
        f"Speedup of int8 over fp32, {kind} networks",
        ("runtime", "system on chip", "phone", "cores", "networks", "speedup", "lower quartile", "median", "upper quartile",
         "networks slower %"),
        tuple(rows),
        (f"slower in int8 on average: {', '.join(slower) or 'none'}",),
    )  # fmt: skip


def by_family(published: Published) -> Comparison:
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
    return Comparison(
        "figure 4 networks", "Speedup of int8 over fp32 by family, mean over all core sets", tuple(columns), tuple(rows)
    )


def by_class(published: Published, kernels: KernelsOfNetworks, *, watch: Callable[[str], None] = lambda name: None) -> Comparison:
    """Speedup of int8 by class of kernel, on one large core, as fitted to whole networks."""
    rows: list[tuple[Cell, ...]] = []
    for fp32, int8 in pairs(published, unit=LARGE_CORE):
        watch(f"fitting {fp32.device} {RUNTIME_TITLES[fp32.runtime]}")
        both = sorted(published.latency_ms(fp32).keys() & published.latency_ms(int8).keys())
        slow, fast = (_by_operation(latency_ms_by_type(published, kernels, each, both)) for each in (fp32, int8))
        for name in slow:
            shares = [100 * of[name] / sum(of.values()) for of in (slow, fast)]
            told = min(shares) >= LEAST_PERCENT
            rows.append(
                (
                    RUNTIME_TITLES[fp32.runtime],
                    soc_of(fp32),
                    fp32.device,
                    name,
                    *shares,
                    slow[name] / fast[name] if told else None,
                )
            )
    return Comparison(
        "figure 5",
        "Speedup of int8 by operation, one large core, from terms fitted to whole networks",
        ("runtime", "system on chip", "phone", "operation", "of fp32 %", "of int8 %", "speedup"),
        tuple(rows),
        tuple(_sentences()),
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


def _sentences() -> Sequence[str]:
    slower = ", ".join(f"{times:g} times on {soc}" for soc, times in INT8_ELEMENTWISE_SLOWER.items())
    return (
        "no operation of a CPU was published: these are shares that whole networks imply, not measured operations; what occurs "
        "together cannot be told apart well",
        f"the paper measured element-wise operations of TFLite to take longer in int8: {slower}",
        f"and PyTorch's convolutions {INT8_PYTORCH_CONVOLUTIONS_SLOWER:g} times as long on one large core of Snapdragon 855",
    )
