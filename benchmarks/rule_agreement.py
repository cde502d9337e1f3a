"""Compares shipped fusion rules with the runtimes' own profilers: which operators share a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.campaigns import Bench, profile_taken
from benchmarks.command import Cap, Cpu, say
from benchmarks.judge import Columns, Row, table
from benchmarks.outsiders import outsiders_bench
from benchmarks.result_files import keep, kept_parts
from latcast.datasets.store import Store
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, platform_rules
from latcast.kernels.search import find_kernels, operator_classes
from latcast.measure.campaign import Campaign, CampaignItem
from latcast.records import ExecutedKernel, Platform
from latcast.spaces.catalogue import build
from latcast.spaces.training_mix import training_mix
from latcast.training.from_store import environment_of, rules_of_host
from latcast.training.profiling import MOST_WEIGHTS_AT_LEAST, TRIAL_PLAN

DRAWN = 40
"""Networks of the training mix of which the small ones are run where no profile says what is executed."""

SHOWN = 3
"""Pairs of operators named of each sort."""

SAY_EVERY = 200
"""Networks."""


def agreement(runtime: str, precision: str = "fp32", cpu: Cpu = None, cap: Cap = "") -> None:
    """Compare which operators share a kernel by the shipped rules and as the runtime ran the profile of ``outsiders``.

    With a cap, as the runtime runs networks of the training mix once each.
    """
    bench = Bench(runtime, precision, cpu, cap=cap) if cap else outsiders_bench(runtime, precision, cpu, 0)
    keep(f"rule_agreement/{bench.results_name}", (judge_without_clock if cap else judge_rules)(bench))
    print(agreement_table())


class Agreement(NamedTuple):
    """Edges between operators on which rules and runtime agree (same kernel, or not), and the pairs on which they do not."""

    agreed: int
    only_rules: Counter[tuple[str, str]]
    only_runtime: Counter[tuple[str, str]]

    @property
    def edges(self) -> int:
        """Number of edges that were compared."""
        return self.agreed + self.only_rules.total() + self.only_runtime.total()

    def with_other(self, other: Agreement) -> Agreement:
        """Return both together."""
        return Agreement(
            self.agreed + other.agreed, self.only_rules + other.only_rules, self.only_runtime + other.only_runtime
        )  # fmt: skip


def edge_agreement(graph: Graph, kernels: Sequence[Kernel], executed: Sequence[ExecutedKernel], rules: FusionRules) -> Agreement:
    """Compare edge by edge; operators that the runtime did not report and those that the rules call free are left out."""
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


def judge_rules(bench: Bench) -> dict[str, Any]:
    """Compare shipped rules with what was executed of the networks that a bench's profile measured.

    Raises:
        MeasurementError: There is no profile.
    """
    profiled = profile_taken(bench)
    with Store(profiled["store"]) as store:
        return _judged(store, Platform.parse(profiled["platform"]))


def judge_without_clock(bench: Bench) -> dict[str, Any]:
    """Compare shipped rules with what the bench's runtime executes of networks of the training mix, each run once."""
    chosen = training_mix(DRAWN, 0, runtime=bench.runtime)
    items = [CampaignItem(each, plan=TRIAL_PLAN) for each in chosen if build(each).parameter_count <= MOST_WEIGHTS_AT_LEAST]
    with bench.store("executed") as store:
        platform = Campaign(store, bench.settings, items).run().platform
        return _judged(store, platform)


def _judged(store: Store, platform: Platform) -> dict[str, Any]:
    """Compare the rules of a platform and its instruction set with what was executed of a store's networks."""
    rules = rules_of_host(environment_of(store, platform), platform, platform_rules(platform))
    found = Agreement(0, Counter(), Counter())
    measured = [each for each in store.measurements(platform=platform.id) if each.ok and each.executed]
    for done, each in enumerate(measured):
        if done % SAY_EVERY == 0:
            say(f"{done} of {len(measured)} networks")
        graph = build(each.reference)
        found = found.with_other(edge_agreement(graph, find_kernels(graph, rules), each.executed, rules))
    return {
        "platform": platform.id, "networks": len(measured), "edges": found.edges, "agreed": found.agreed,
        **{
            name: [[*pair, count] for pair, count in pairs.most_common(SHOWN)]
            for name, pairs in (("only_rules", found.only_rules), ("only_runtime", found.only_runtime))
        },
    }  # fmt: skip


def agreement_table(pairs: bool = True) -> str:
    """Return a line for each platform; with ``pairs`` those of capped CPUs, too, and the pairs most often disagreed about."""
    columns: Columns = {
        "platform": "{platform}", "networks": "{networks}", "edges": "{edges}",
        "agree %": lambda row: f"{100 * row['agreed'] / row['edges']:.1f}",
    }  # fmt: skip
    disagreed: Columns = {
        "most often by the rules alone": lambda row: _pairs(row, "only_rules"),
        "by the runtime alone": lambda row: _pairs(row, "only_runtime"),
    }
    rows = [row for row in kept_parts("rule_agreement").values() if pairs or "+" not in row["platform"]]
    return table(rows, {**columns, **(disagreed if pairs else {})})


def _pairs(row: Row, name: str) -> str:
    return ", ".join(f"{first} + {second} ({count})" for first, second, count in row[name]) or "none"
