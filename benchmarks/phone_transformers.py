"""How well phones' latencies of transformers are predicted whose lineage was held out, learned from CNNs and other transformers.

TFLite ran the transformers at version 2.15 and the CNNs at 2.10; what was learned from both together predicts for 2.15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.phone_splits import kind_of
from benchmarks.phones import TRANSFORMERS, measured
from latcast.datasets.importers.usc.networks import RUNTIMES, TRANSFORMER_RUNTIMES
from latcast.datasets.store import Store
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import platform_rules
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import TERMS, fit_nonnegative, term_values
from latcast.predictors.intervals import HeldOut, unseen_bounds_ms
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.samples import NetworkSample, TrainingData
from latcast.predictors.training import fit_predictor
from latcast.records import Platform
from papers.harness import process_pool

FEWEST = 20
"""Transformers measured on a platform."""

_CNN_RUNTIMES = {TRANSFORMER_RUNTIMES[name]: RUNTIMES[name] for name in RUNTIMES}


def transformer_platforms(store: Store) -> list[str]:
    """Platforms on which enough transformers were measured."""
    counts: dict[str, int] = {}
    for measurement in store.measurements(role="network", space=TRANSFORMERS):
        counts[measurement.platform] = counts.get(measurement.platform, 0) + measurement.ok
    return sorted(name for name, count in counts.items() if count >= FEWEST)


def cnn_platform(platform: Platform) -> Platform:
    """Where the CNNs were measured that are learned from."""
    runtime, version = _CNN_RUNTIMES[platform.runtime, platform.runtime_version]
    return Platform(platform.device, runtime, version, platform.unit, platform.precision)


def judge_platform(path: Path, platform_id: str) -> dict[str, Any]:
    """Figures of one platform: of latcast, of two baselines, and of what CNNs alone teach.

    Args:
        path: SQLite file of the imported measurements.
        platform_id: One of :func:`transformer_platforms`.
    """
    platform = Platform.parse(platform_id)
    networks = [*measured(path, cnn_platform(platform)).networks, *measured(path, platform, TRANSFORMERS).networks]
    actual = np.array([sample.latency_ms for sample in networks])
    lineages = np.array([sample.lineage for sample in networks])
    tested = np.array([sample.reference.space == TRANSFORMERS for sample in networks])
    found = HeldOut(np.empty(len(networks)), np.empty(len(networks)))
    sums = np.stack([_sums(sample.kernels) for sample in networks])
    by_flops, by_sums = np.empty(len(networks)), np.empty(len(networks))
    for lineage in np.unique(lineages):
        out = lineages == lineage
        found.latency_ms[out], found.outside_share[out] = _predicted(networks, ~out, out, platform)
        teaching = ~out & tested
        by_flops[out] = sums[out, 0] * np.median(actual[teaching] / sums[teaching, 0])
        by_sums[out] = sums[out] @ fit_nonnegative(sums[teaching], actual[teaching], strength=1e-6)
    bounds_ms = unseen_bounds_ms(actual, found, list(lineages))
    assert bounds_ms is not None  # there are more lineages than one
    low_ms, high_ms = bounds_ms
    by_cnns, _ = _predicted(networks, ~tested, tested, platform)
    return {
        "platform": platform_id,
        "latcast": judge(found.latency_ms[tested], actual[tested], low_ms[tested], high_ms[tested]).to_json(),
        "cnns_alone": judge(by_cnns, actual[tested]).to_json(),
        "flops": judge(by_flops[tested], actual[tested]).to_json(),
        "flops_and_memory": judge(by_sums[tested], actual[tested]).to_json(),
        "noise": _noise(path, platform),
        "lineages": {
            str(name): _of(found, actual, tested & (lineages == name), low_ms, high_ms).to_json()
            for name in np.unique(lineages[tested])
        },
    }


def _predicted(
    networks: Sequence[NetworkSample], known: np.ndarray, wanted: np.ndarray, platform: Platform
) -> tuple[np.ndarray, np.ndarray]:
    """Latencies of some networks by what others teach, and the shares of them outside what was learned from."""
    data = TrainingData(networks=tuple(sample for sample, kept in zip(networks, known, strict=True) if kept))
    predictor = fit_predictor(data, platform, platform_rules(platform), learn_from="networks")
    estimates = predictor.estimate([sample.kernels for sample, kept in zip(networks, wanted, strict=True) if kept])
    return estimates.latency_ms, estimates.outside_share


def _sums(kernels: Sequence[Kernel]) -> np.ndarray:
    """The analytical terms of a network, whatever their class, and 1 for the overhead, (len(TERMS) + 1,)."""
    busy = [(kernel_type(kernel.kernel_type), np.array([kernel.configuration])) for kernel in kernels if not kernel.free]
    each = [term_values(kind, configuration)[0] for kind, configuration in busy]
    return np.append(np.sum(each, axis=0) if each else np.zeros(len(TERMS)), 1.0)


def _of(found: HeldOut, actual: np.ndarray, rows: np.ndarray, low_ms: np.ndarray, high_ms: np.ndarray) -> Metrics:
    return judge(found.latency_ms[rows], actual[rows], low_ms[rows], high_ms[rows])


def _noise(path: Path, platform: Platform) -> float:
    """Mean coefficient of variation of the published runs, in percent."""
    with Store(path) as store:
        variations = [each.variation for each in store.measurements(platform=platform.id, space=TRANSFORMERS)]
    return 100 * float(np.mean([each for each in variations if each is not None]))


def judge_all(path: Path, only: Sequence[str] = ("*",), jobs: int | None = None) -> Iterator[dict[str, Any]]:
    """Figures of platforms as they are done.

    Args:
        path: SQLite file of the imported measurements.
        only: Patterns of platform ids.
        jobs: Processes; 1 computes in this one.
    """
    with Store(path) as store:
        names = [name for name in transformer_platforms(store) if any(fnmatchcase(name, pattern) for pattern in only)]
    if jobs == 1:
        yield from (judge_platform(path, name) for name in names)
        return
    with process_pool(jobs) as pool:
        yield from pool.map(judge_platform, [path] * len(names), names)


def figures_table(found: Sequence[Mapping[str, Any]]) -> str:
    """Means over platforms in Markdown, by runtime and precision, then each platform."""
    lines = [
        "| platforms | networks | MAPE % | ±5 % | ±10 % | interval coverage % | noise % "
        "| MAPE % by FLOPs | by FLOPs and memory | by CNNs alone |",
        "|---" * 10 + "|",
    ]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in found:
        groups.setdefault(kind_of(row["platform"]), []).append(row)
    for name, rows in sorted(groups.items()):
        lines.append(_line(f"**{name} ({len(rows)})**", rows))
        lines += [_line(row["platform"], [row]) for row in rows]
    return "\n".join(lines)


def _line(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    def mean(model: str, metric: str) -> float:
        return float(np.mean([row[model][metric] for row in rows]))

    networks = [row["latcast"]["networks"] for row in rows]
    coverage = np.average([row["latcast"]["interval_coverage"] for row in rows], weights=networks)
    cells = [
        title, str(max(networks)), f"{mean('latcast', 'mape'):.1f}", f"{mean('latcast', 'within_5'):.0f}",
        f"{mean('latcast', 'within_10'):.0f}", f"{coverage:.0f}", f"{np.mean([row['noise'] for row in rows]):.1f}",
        *(f"{mean(model, 'mape'):.0f}" for model in ("flops", "flops_and_memory", "cnns_alone")),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"
