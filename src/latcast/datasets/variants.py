"""The benchmark of variants (nn-Meter §3, Table 2): twelve families of networks and the cells of NAS-Bench-201.

2,000 variants of each family with random widths and kernel sizes (:mod:`latcast.spaces.nn_meter_variants`), and as many cells:
26,000 networks, each a few JSON values from which its graph is built, and facts of the graph without running it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, zip_longest
from random import Random

from latcast.errors import DatasetError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_flops, graph_macs
from latcast.kernels.kernel import operator_class
from latcast.kernels.rules import FusionRules, load_rules
from latcast.kernels.search import find_kernels
from latcast.measure.campaign import Campaign, CampaignItem, CampaignReport, MeasurementSink, Progress
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.families.variants import VariantFamily
from latcast.spaces.nas.nas_bench_201 import NAME as CELLS
from latcast.spaces.nas.nas_bench_201 import SIZE as CELL_COUNT
from latcast.spaces.nas.nas_bench_201 import SPACE as CELL_SPACE
from latcast.spaces.nn_meter_variants import NN_METER_FAMILIES

FAMILIES = (*NN_METER_FAMILIES, CELLS)
"""The thirteen parts, in nn-Meter's order."""

COUNT = 2000
"""Networks of each part."""

RUNTIMES = ("onnxruntime", "openvino", "litert", "ncnn")
"""Runtimes under whose shipped fusion rules kernels are counted; "none" counts operators."""


@dataclass(frozen=True)
class GraphFacts:
    """Facts of a network without running it.

    Attributes:
        macs: Multiply-accumulates of convolutions and matrix products; nn-Meter's "FLOPs".
        flops: Floating-point operations of all operators, a multiply-accumulate as two.
        parameters: Values that a model file holds, running statistics of batch normalisation included.
        activations: Elements of all activations, each once, the input included.
        structure: Hash (12 hex digits) of operators and connections, without sizes.
        operators: ONNX operator to its count.
        kernels: Runtime to (kernel type to its count) under the runtime's fusion rules; views are not counted.
    """

    macs: int
    flops: int
    parameters: int
    activations: int
    structure: str
    operators: Mapping[str, int]
    kernels: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Variant:
    """One network of the benchmark: a member of ``family``, the ``index``-th (from 0) there."""

    family: str
    index: int
    reference: Reference
    facts: GraphFacts


class FactsReader:
    """Facts of graphs; kernels are searched once for each structure, of which 24,000 variants have twelve."""

    def __init__(self) -> None:
        self._rules: dict[str, FusionRules] = {name: load_rules(name) for name in RUNTIMES}
        self._kernels: dict[str, dict[str, dict[str, int]]] = {}

    def __call__(self, graph: Graph) -> GraphFacts:
        connections = [(operator_class(graph, node), node.inputs) for node in graph.nodes]
        structure = hashlib.sha256(repr(connections).encode()).hexdigest()[:12]
        if structure not in self._kernels:
            self._kernels[structure] = {
                name: _sorted_counts(kernel.kernel_type for kernel in find_kernels(graph, rules) if not kernel.free)
                for name, rules in self._rules.items()
            }
        inert = graph.weights.union(graph.constants)
        return GraphFacts(
            macs=graph_macs(graph),
            flops=graph_flops(graph),
            parameters=graph.parameter_count,
            activations=sum(tensor.elements for name, tensor in graph.tensors.items() if name not in inert),
            structure=structure,
            operators=_sorted_counts(node.op_type for node in graph.nodes),
            kernels=self._kernels[structure],
        )


def _sorted_counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def draw_variants(
    count: int = COUNT,
    seed: int = 0,
    *,
    families: Sequence[str] = FAMILIES,
    progress: Callable[[str, int], None] = lambda family, done: None,
) -> list[Variant]:
    """Draw the benchmark, ``count`` networks of each family (15,625 cells at most); a smaller count is the head of a larger one.

    ``progress`` is called after each network with its family and the number done.

    Raises:
        DatasetError: No such family.
    """
    unknown = sorted(set(families) - set(FAMILIES))
    if unknown:
        raise DatasetError(f"the benchmark of variants has no family '{unknown[0]}'; it has {', '.join(FAMILIES)}")
    read = FactsReader()
    found: list[Variant] = []
    for name in families:
        facts: list[GraphFacts] = []

        def keep(graph: Graph, name: str = name, facts: list[GraphFacts] = facts, before: int = len(found)) -> None:
            facts.append(read(graph))
            progress(name, before + len(facts))

        if name == CELLS:
            references = CELL_SPACE.sample(min(count, CELL_COUNT), seed)
            for reference in references:
                keep(build(reference))
        else:
            references = NN_METER_FAMILIES[name].sample(count, seed, keep)
        found += [Variant(name, index, *described) for index, described in enumerate(zip(references, facts, strict=True))]
    return found


MOST_MACS, MOST_PARAMETERS = VariantFamily.max_macs, VariantFamily.max_parameters
"""Limits for edge devices, the same as for the variants that predictors are trained on."""


def no_larger_than(variants: Iterable[Variant], macs: float = MOST_MACS, parameters: float = MOST_PARAMETERS) -> list[Variant]:
    """Return the variants with at most so many multiply-accumulates and values in their file."""
    return [variant for variant in variants if variant.facts.macs <= macs and variant.facts.parameters <= parameters]


def stratified(variants: Iterable[Variant], count: int, seed: int = 0) -> list[Variant]:
    """Return a representative part of the benchmark: equally many of each family, spread over its range of sizes.

    A family's variants are sorted by their multiply-accumulates and cut into as many strata as are wanted of it; one is drawn
    from each. The families alternate, so that any beginning holds all of them about equally.

    Raises:
        DatasetError: A family has fewer variants than its share.
    """
    by_family: dict[str, list[Variant]] = {}
    for variant in variants:
        by_family.setdefault(variant.family, []).append(variant)
    chosen = []
    for place, (name, members) in enumerate(by_family.items()):
        share = count // len(by_family) + (place < count % len(by_family))
        if share > len(members):
            raise DatasetError(f"{share} variants of {name} were asked for, there are {len(members)}; ask for fewer in all")
        members = sorted(members, key=lambda variant: (variant.facts.macs, variant.reference.key))
        rng = Random(f"stratified/{name}/{seed}")
        bounds = [len(members) * stratum // max(share, 1) for stratum in range(share + 1)]
        drawn = [members[rng.randrange(low, high)] for low, high in pairwise(bounds)]
        rng.shuffle(drawn)
        chosen.append(drawn)
    return [variant for variant in chain.from_iterable(zip_longest(*chosen)) if variant is not None]


VARIANT_PLAN = MeasurePlan(rounds=4, runs_per_round=6, warmup_runs=2, max_ms_per_round=200.0, profiled_runs=6)
"""Short, as variants are many and some are slow; three processes of these four rounds make a label."""


def measure_variants(
    variants: Iterable[Variant],
    settings: WorkerSettings,
    store: MeasurementSink,
    *,
    processes: int = 1,
    profile: bool = True,
    budget_s: float | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> CampaignReport:
    """Measure variants in order into a store (:class:`~latcast.measure.campaign.Campaign`); those that it holds are skipped.

    Args:
        processes: Measurements of each variant, each from another process; three make a label.
        profile: Whether to time executed kernels, which predictors learn from.
        budget_s: No batch is begun after this many seconds.

    Raises:
        RuntimeFailure: The runtime cannot be started.
        MeasurementError: The settings cannot be met.
    """
    plan = replace(VARIANT_PLAN, profile=profile)
    items = [CampaignItem(variant.reference, "network", plan) for variant in variants]
    return Campaign(store, settings, items, processes=processes, budget_s=budget_s, progress=progress).run()
