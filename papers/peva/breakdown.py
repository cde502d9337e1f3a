"""Where GPUs spend their time, and what is left beyond the operations: Figs. 9 and 10."""

from __future__ import annotations

import numpy as np

from latcast.records import Platform
from papers.comparison import Cell, Comparison
from papers.peva.end_to_end import has_operations
from papers.peva.operation_features import category_of
from papers.peva.published import RUNTIME_TITLES, Published, soc_of


def gpus_with_operations(published: Published, runtime: str = "") -> list[Platform]:
    """GPUs whose operations were published."""
    return [each for each in published.platforms(runtime=runtime, compute="gpu") if has_operations(published, each)]


def shares(published: Published, platform: Platform) -> dict[str, np.ndarray]:
    """Kind of kernel to its share of each network's latency, in percent; "overhead" is what no operation explains."""
    networks = [each for each in published.of_platform(platform).values() if each.executed]
    found: dict[str, np.ndarray] = {}
    for row, network in enumerate(networks):
        whole = float(network.latency_ms or 0.0)
        for kernel in network.executed:
            found.setdefault(kernel.kind, np.zeros(len(networks)))[row] += 100 * kernel.latency_ms / whole
    found["overhead"] = 100 - sum(found.values(), np.zeros(len(networks)))
    return found


def figure_10(published: Published) -> Comparison:
    """Share of each kind of kernel in the latency of real networks."""
    rows: list[tuple[Cell, ...]] = []
    for platform in gpus_with_operations(published):
        counts: dict[str, int] = {}
        category: dict[str, str] = {"overhead": "-"}
        for network in published.of_platform(platform).values():
            for kernel in network.executed:
                counts[kernel.kind] = counts.get(kernel.kind, 0) + 1
                category[kernel.kind] = category_of(kernel)
        found = shares(published, platform)
        for kind in sorted(found, key=lambda name: -float(found[name].mean())):
            low, middle, high = np.percentile(found[kind], (25, 50, 75))
            rows.append(
                (RUNTIME_TITLES[platform.runtime], soc_of(platform), kind, category[kind], counts.get(kind),
                 float(found[kind].mean()), float(low), float(middle), float(high))
            )  # fmt: skip
    return Comparison(
        "figure 10",
        "Share of the latency of real networks on GPUs, by kernel",
        ("runtime", "system on chip", "kernel", "operation", "kernels", "mean %", "lower quartile %", "median %",
         "upper quartile %"),
        tuple(rows),
        ("the overhead is the whole network's latency less that of its recorded operations; padding and element-wise operations "
         "of TFLite that were not fused were not recorded and count to it",),
    )  # fmt: skip


def figure_9(published: Published) -> Comparison:
    """The latency of networks less the sum of their operations."""
    rows: list[tuple[Cell, ...]] = []
    for platform in gpus_with_operations(published):
        networks = [each for each in published.of_platform(platform).values() if each.executed]
        whole = np.array([float(each.latency_ms or 0.0) for each in networks])
        beyond = whole - np.array([sum(kernel.latency_ms for kernel in each.executed) for each in networks])
        low, middle, high = np.percentile(beyond, (25, 50, 75))
        sizes = np.array([len(each.executed) for each in networks])
        rows.append(
            (RUNTIME_TITLES[platform.runtime], soc_of(platform), len(networks), float(beyond.mean()), float(low), float(middle),
             float(high), 100 * float(np.mean(beyond / whole)), 100 * float(np.mean(beyond < 0)),
             float(np.corrcoef(beyond, sizes)[0, 1]) if len(networks) > 1 and beyond.std() > 0 and sizes.std() > 0 else None)
        )  # fmt: skip
    return Comparison(
        "figure 9",
        "Latency of real networks less the sum of their operations, GPUs",
        ("runtime", "system on chip", "networks", "mean ms", "lower quartile ms", "median ms", "upper quartile ms",
         "of the latency %", "networks below 0 %", "correlation with kernels"),
        tuple(rows),
        ("the paper takes the difference for constant; where it correlates with the number of kernels, it is not",),
    )  # fmt: skip


def figure_14(published: Published, kind: str = "synthetic", compute: str = "cpu") -> Comparison:
    """Coefficient of variation of the runs on each core set."""
    rows: list[tuple[Cell, ...]] = []
    for platform in published.platforms(kind, compute=compute):
        found = published.variation(platform, kind)
        if len(found):
            low, middle, high = np.percentile(found, (25, 50, 75))
            rows.append(
                (RUNTIME_TITLES[platform.runtime], soc_of(platform), platform.device, platform.unit, platform.precision,
                 len(found), float(found.mean()), float(low), float(middle), float(high))
            )  # fmt: skip
    return Comparison(
        "figure 14",
        f"Coefficient of variation of the runs, {kind} networks",
        (
            "runtime",
            "system on chip",
            "phone",
            "cores",
            "precision",
            "networks",
            "mean %",
            "lower quartile %",
            "median %",
            "upper quartile %",
        ),
        tuple(rows),
    )
