"""What kernels do for the prediction: which are found (Table 4), where the time goes (Fig. 6), how well each is predicted
(Table 9), what summing operators instead would cost (Fig. 11), and adaptive against random sampling (Table 10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from latcast.errors import DatasetError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel, operator_class
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.predictors.analytical import fit_from_kernels
from latcast.predictors.kernel_predictor import ANALYTICAL_GBDT, fit_kernel_predictor
from latcast.predictors.metrics import Metrics, judge
from latcast.records import Platform
from latcast.spaces import build
from latcast.spaces.catalogue import model
from latcast.training.from_store import rules_of_store
from latcast.training.samples import KernelSamples, collect, kernel_samples
from papers.harness import Cell, PaperTable, mean
from papers.nn_meter.benchmark import HeldOutFamily, MeasuredBenchmark, Training, pooled
from papers.nn_meter.paper import (
    DEVICES,
    FAMILY_TITLES,
    FIGURE_6_CONVOLUTIONS,
    FIGURE_11,
    FIGURE_11_FAMILIES,
    KINDS_OF_KERNELS,
    TABLE_4,
    TABLE_9,
    TABLE_10,
)

if TYPE_CHECKING:
    from latcast.datasets.store import Store

PAPER_NAMES: Mapping[str, str] = {
    "batch_normalization": "bn", "depthwise_conv": "dwconv", "linear": "fc", "max_pool": "maxpool", "average_pool": "avgpool",
    "global_average_pool": "avgpool", "hard_swish": "hswish",
}  # fmt: skip
"""Our operator classes as the paper writes them, where it differs."""


def composition(graph: Graph, kernel: Kernel) -> str:
    """Return a kernel's operators in the paper's words: "conv+bn+relu"."""
    nodes = {node.name: node for node in graph.nodes}
    classes = [operator_class(graph, nodes[name]) for name in kernel.nodes]
    return "+".join(PAPER_NAMES.get(name, name) for name in classes)


def compositions(graph: Graph, rules: FusionRules) -> Counter[str]:
    """Return how often each kind of kernel is found in a network; views are left out."""
    return Counter(composition(graph, kernel) for kernel in find_kernels(graph, rules) if not kernel.free)


def table_4(rules: FusionRules, benchmark: MeasuredBenchmark | None = None) -> PaperTable:
    """Return kernels found for ResNet18, under a runtime's rules.

    Args:
        benchmark: Whose networks' kinds of kernels are counted, where given.
    """
    found = compositions(build(model("resnet18")), rules)
    names = list(dict.fromkeys([*found, *(name for kernels in TABLE_4.values() for name in kernels)]))
    rows: list[tuple[Cell, ...]] = [
        (name, found.get(name, 0), *(TABLE_4[device].get(name, 0) for device in DEVICES)) for name in names
    ]
    notes = []
    if benchmark is not None:
        kinds: set[str] = set()
        seen: set[str] = set()
        for samples in benchmark.tests.values():
            for sample in samples:
                shape = "/".join("+".join(kernel.operators) for kernel in sample.kernels)
                if shape not in seen:
                    seen.add(shape)
                    kinds |= set(compositions(build(sample.reference), rules))
        printed = ", ".join(f"{device} {count}" for device, count in KINDS_OF_KERNELS.items())
        notes.append(f"{len(kinds)} kinds of kernels in the measured networks (paper, all networks: {printed})")
    return PaperTable(
        "table 4",
        f"Kernels found for ResNet18 under the rules of {rules.runtime}",
        ("kernel", rules.runtime, *(f"paper {device}" for device in DEVICES)),
        tuple(rows),
        tuple(notes),
    )


def figure_6(benchmark: MeasuredBenchmark) -> PaperTable:
    """Return where the time goes: shares of kernel types in the time of kernels, as the runtime's profiler has it."""
    columns = ("conv", "depthwise_conv", "linear", "pooling", "concat", "others")
    family_of = {sample.reference.key: name for name, samples in benchmark.tests.items() for sample in samples}
    time_of: dict[str, Counter[str]] = {}
    for observation in benchmark.data.profiled:
        family = family_of.get(observation.network)
        if family is not None:
            time_of.setdefault(family, Counter())[_group(observation.kernel.kernel_type)] += observation.latency_ms  # type: ignore[assignment]
    rows: list[tuple[Cell, ...]] = []
    for family in benchmark.families:
        times = time_of.get(family)
        if times:
            whole = sum(times.values())
            shares = [100 * times[name] / whole for name in columns]
            rows.append((FAMILY_TITLES[family], shares[0] + shares[1], *shares))
    if rows:
        rows.append(("mean", *(mean([row[place] for row in rows]) for place in range(1, len(columns) + 2))))
    printed = ", ".join(f"{device} {share:g} %" for device, share in FIGURE_6_CONVOLUTIONS.items())
    notes = [f"Conv and DWConv in the paper, mean over its models: {printed} (§5.1)"]
    if not rows:
        notes.append("no network was measured with its kernels (--kernels), so no shares are known")
    return PaperTable(
        "figure 6",
        f"Latency by kernel type, {benchmark.platform}",
        ("family", "Conv and DWConv %", *(f"{name} %" for name in columns)),
        tuple(rows),
        tuple(notes),
    )


def _group(kernel_type: str) -> str:
    if kernel_type in ("max_pool", "average_pool", "reduce"):
        return "pooling"
    if kernel_type == "grouped_conv":
        return "conv"
    return kernel_type if kernel_type in ("conv", "depthwise_conv", "linear", "concat") else "others"


def table_9(benchmark: MeasuredBenchmark, families: Sequence[HeldOutFamily]) -> PaperTable:
    """Return how well kernel predictors do on the kernels inside networks of families held out."""
    actual: dict[str, list[np.ndarray]] = {}
    predicted: dict[str, list[np.ndarray]] = {}
    for held in families:
        keys = {sample.reference.key for sample in benchmark.tests[held.family]}
        inside = [observation for observation in benchmark.data.profiled if observation.network in keys]
        for name, samples in kernel_samples(inside).items():
            actual.setdefault(name, []).append(samples.latency_ms)
            predicted.setdefault(name, []).append(held.predictor.raw_kernel_latency_ms({name: samples.configurations}))
    order = [*TABLE_9, *sorted(set(actual) - set(TABLE_9))]
    rows: list[tuple[Cell, ...]] = []
    for name in order:
        title, printed = TABLE_9.get(name, ("", {}))
        paper = [printed[device].within_10 if device in printed else None for device in DEVICES]
        if name in actual:
            found = judge(pooled(predicted[name]), pooled(actual[name]))
            rows.append((name, title, found.networks, found.mape, found.rmse_ms, found.within_10, *paper))
        else:
            rows.append((name, title, 0, None, None, None, *paper))
    return PaperTable(
        "table 9",
        f"Kernel predictors on kernels of families held out, {benchmark.platform}",
        ("kernel type", "paper's kernel", "kernels", "MAPE %", "RMSE ms", "±10 %",
         *(f"paper {device} ±10 %" for device in DEVICES)),
        tuple(rows),
        ("kernels as the runtime's profiler timed them in a few runs; the paper times them alone and holds out a fifth of them",
         "a type that no other family has is estimated by the throughput of all kernels"),
    )  # fmt: skip


def figure_11(benchmark: MeasuredBenchmark, families: Sequence[HeldOutFamily]) -> PaperTable:
    """Return the same kernel predictors, summed over operators as if nothing was fused and over the kernels that are executed."""
    rows: list[tuple[Cell, ...]] = []
    for held in families:
        printed = FIGURE_11_FAMILIES.get(held.family, {})
        paper = tuple(printed.get(device) for device in DEVICES)
        rows.append((FAMILY_TITLES[held.family], len(held.actual_ms), *_levels([held]), *paper))
    rows.append(("all", sum(len(held.actual_ms) for held in families), *_levels(families),
                 *(FIGURE_11[device][0] for device in DEVICES)))  # fmt: skip
    better = sum(_levels([held])[3] < _levels([held])[0] for held in families)
    kernels = ", ".join(f"{device} {FIGURE_11[device][1]:g} %" for device in DEVICES)
    return PaperTable(
        "figure 11",
        f"Sums over operators and over kernels, {benchmark.platform}",
        ("family", "networks", "operators MAPE %", "operators ±5 %", "operators ±10 %", "kernels MAPE %", "kernels ±5 %",
         "kernels ±10 %", *(f"paper {device} operators ±10 %" for device in DEVICES)),
        tuple(rows),
        (f"kernels do better than operators on {better} of {len(families)} families",
         f"±10 % accuracy by kernels in the paper, all networks: {kernels}"),
    )  # fmt: skip


def _levels(families: Sequence[HeldOutFamily]) -> tuple[float, ...]:
    """MAPE, ±5 % and ±10 % by operators, then by kernels."""
    actual = pooled(held.actual_ms for held in families)
    operators = judge(pooled(held.operator_level_ms for held in families), actual)
    kernels = judge(pooled(held.kernel_level_ms for held in families), actual)
    return (operators.mape, operators.within_5, operators.within_10, kernels.mape, kernels.within_5, kernels.within_10)


SAMPLED_TYPE = "conv"


def table_10(samplings: Mapping[str, Store], test: Store, platform: Platform, training: Training) -> PaperTable:
    """Convolutions of a fixed test set, by predictors that learned from as many convolutions of each sampling.

    Args:
        samplings: Sampling ("random", "adaptive") to the store of the kernels it chose.
        test: Store of the fixed test set's kernels; those of them that a sampling chose too are not learned from.
        training: How the kernel type is modelled, and the seed.

    Raises:
        DatasetError: A store holds no convolutions measured alone.
    """
    wanted = convolutions(test, platform)
    tested = {tuple(row) for row in wanted.configurations.tolist()}
    parts = {name: _without(convolutions(store, platform), tested) for name, store in samplings.items()}
    budget = min(len(part.latency_ms) for part in parts.values())
    rows: list[tuple[Cell, ...]] = []
    for name, part in parts.items():
        found = _metrics(part, budget, wanted, training)
        printed = [TABLE_10[device][name].within_10 if name in TABLE_10[device] else None for device in DEVICES]
        rows.append((name, budget, found.mape, found.rmse_ms, found.within_10, *printed))
    return PaperTable(
        "table 10",
        f"Convolutions of the fixed test set ({len(tested)}), by how those learned from were sampled, {platform}",
        ("sampling", "kernels", "MAPE %", "RMSE ms", "±10 %", *(f"paper {device} ±10 %" for device in DEVICES)),
        tuple(rows),
    )


def convolutions(store: Store, platform: Platform) -> KernelSamples:
    """Convolutions that a store holds, timed alone, in the order they were measured in.

    Raises:
        DatasetError: There are none.
    """
    rules = rules_of_store(store, platform)
    measurements = store.measurements(platform=platform.id, role="kernel", space=f"kernel/{SAMPLED_TYPE}")
    found = kernel_samples(collect(measurements, rules, build).isolated)
    if SAMPLED_TYPE not in found:
        raise DatasetError(
            f"{store.location} has no convolutions timed alone on {platform}; measure with: latcast profile --learn-from kernels"
        )
    return found[SAMPLED_TYPE]


def _without(samples: KernelSamples, configurations: set[tuple[int, ...]]) -> KernelSamples:
    kept = np.array([tuple(row) not in configurations for row in samples.configurations.tolist()], dtype=bool)
    parts = (samples.configurations, samples.latency_ms, samples.coldness)
    return KernelSamples(*(part[kept] for part in parts))


def _metrics(part: KernelSamples, budget: int, test: KernelSamples, training: Training) -> Metrics:
    rows, latency_ms = part.configurations[:budget], part.latency_ms[:budget]
    analytical = fit_from_kernels({SAMPLED_TYPE: (rows, latency_ms)})
    predictor = fit_kernel_predictor(
        SAMPLED_TYPE, rows, latency_ms, analytical, model=training.model or ANALYTICAL_GBDT, seed=training.seed
    )
    return judge(predictor.latency_ms(analytical, test.configurations), test.latency_ms)
