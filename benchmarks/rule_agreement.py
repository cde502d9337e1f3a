"""How far shipped fusion rules and the runtimes' own profilers agree: which operators share a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.campaigns import Bench, profile_taken
from benchmarks.result_files import kept_parts
from benchmarks.tables import markdown_table
from latcast.datasets.store import Store
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, platform_rules
from latcast.kernels.search import find_kernels, operator_classes
from latcast.measure.campaign import Campaign, CampaignItem
from latcast.predictors.profiling import MOST_WEIGHTS_AT_LEAST, TRIAL_PLAN
from latcast.predictors.training_from_store import environment_of, rules_of_host
from latcast.records import ExecutedKernel, Platform
from latcast.spaces.catalogue import build
from latcast.spaces.training_mix import training_mix

DRAWN = 40
"""Networks of the training mix of which the small ones are run where no profile says what is executed."""

SHOWN = 3
"""Pairs of operators named of each sort."""


class Agreement(NamedTuple):
    """Edges between operators on which rules and runtime agree (same kernel, or not), and the pairs on which they do not."""

    agreed: int
    only_rules: Counter[tuple[str, str]]
    only_runtime: Counter[tuple[str, str]]

    @property
    def edges(self) -> int:
        return self.agreed + self.only_rules.total() + self.only_runtime.total()

    def with_other(self, other: Agreement) -> Agreement:
        """Both together."""
        return Agreement(
            self.agreed + other.agreed, self.only_rules + other.only_rules, self.only_runtime + other.only_runtime
        )  # fmt: skip


def edge_agreement(graph: Graph, kernels: Sequence[Kernel], executed: Sequence[ExecutedKernel], rules: FusionRules) -> Agreement:
    """Compares edge by edge; operators that the runtime did not report and those that the rules call free are left out."""
    classes = operator_classes(graph, rules)
    predicted = {node: index for index, kernel in enumerate(kernels) for node in kernel.nodes}
    real = {node: index for index, kernel in enumerate(executed) for node in kernel.nodes}
    agreed, only_rules, only_runtime = 0, Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for node in graph.nodes:
        for tensor in graph.activation_inputs(node):
            producer = graph.producers.get(tensor)
            if producer is None or node.name not in real or producer.name not in real:
                continue
            pair = classes[producer.name], classes[node.name]
            if not rules.free.isdisjoint(pair):
                continue
            by_rules = predicted[producer.name] == predicted[node.name]
            by_runtime = real[producer.name] == real[node.name]
            if by_rules == by_runtime:
                agreed += 1
            else:
                (only_rules if by_rules else only_runtime)[pair] += 1
    return Agreement(agreed, only_rules, only_runtime)


def judge_rules(bench: Bench, watch: Callable[[int, int], None] = lambda *_: None) -> dict[str, Any]:
    """Shipped rules beside what was executed of the networks that a bench's profile measured.

    Raises:
        MeasurementError: There is no profile.
    """
    profiled = profile_taken(bench)
    with Store(profiled["store"]) as store:
        return _judged(store, Platform.parse(profiled["platform"]), watch)


def judge_without_clock(bench: Bench, watch: Callable[[int, int], None] = lambda *_: None) -> dict[str, Any]:
    """Shipped rules beside what the bench's runtime says it executes of networks of the training mix, each run once."""
    chosen = training_mix(DRAWN, 0, runtime=bench.runtime)
    items = [CampaignItem(each, plan=TRIAL_PLAN) for each in chosen if build(each).parameter_count <= MOST_WEIGHTS_AT_LEAST]
    with bench.store("executed") as store:
        platform = Campaign(store, bench.settings, items).run().platform
        return _judged(store, platform, watch)


def _judged(store: Store, platform: Platform, watch: Callable[[int, int], None]) -> dict[str, Any]:
    """Rules of a platform, of its instruction set, beside what was executed of the networks that a store holds."""
    rules = rules_of_host(environment_of(store, platform), platform, platform_rules(platform))
    found = Agreement(0, Counter(), Counter())
    measured = [each for each in store.measurements(platform=platform.id) if each.ok and each.executed]
    for done, each in enumerate(measured):
        watch(done, len(measured))
        graph = build(each.reference)
        found = found.with_other(edge_agreement(graph, find_kernels(graph, rules), each.executed, rules))
    return {
        "platform": platform.id, "networks": len(measured), "edges": found.edges, "agreed": found.agreed,
        **{
            name: [[*pair, count] for pair, count in pairs.most_common(SHOWN)]
            for name, pairs in (("only_rules", found.only_rules), ("only_runtime", found.only_runtime))
        },
    }  # fmt: skip


def agreement_table() -> str:
    """A line for each platform."""
    rows = []
    for each in kept_parts("rule_agreement").values():
        pairs = [
            ", ".join(f"{first} + {second} ({count})" for first, second, count in each[name]) or "none"
            for name in ("only_rules", "only_runtime")
        ]
        share = f"{100 * each['agreed'] / each['edges']:.1f}"
        rows.append([each["platform"], str(each["networks"]), str(each["edges"]), share, *pairs])
    head = ["platform", "networks", "edges", "agree %", "most often by the rules alone", "by the runtime alone"]
    return markdown_table(head, rows)
