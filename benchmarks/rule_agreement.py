"""Compares shipped fusion rules with the runtimes' own profilers: which operators share a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

import typer

from benchmarks.campaigns import Bench, profile_taken
from benchmarks.command import Cap, Cpu, say
from benchmarks.judge import Columns, Row, table
from benchmarks.outsiders import outsiders_bench
from benchmarks.result_files import keep, kept_parts
from latcast.datasets.store import Store
from latcast.environment import cpu_description
from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, rules_for
from latcast.kernels.search import find_kernels, operator_classes
from latcast.measure.campaign import Campaign, CampaignItem
from latcast.records import ExecutedKernel, Platform, Reference
from latcast.runtimes.onnxruntime import optimised_kernels
from latcast.spaces.catalogue import build, model, models
from latcast.spaces.training_mix import training_mix
from latcast.training.from_store import rules_of_store
from latcast.training.profiling import MOST_WEIGHTS_AT_LEAST, TRIAL_PLAN

DRAWN = 40
"""Networks of the training mix of which the small ones are run where no profile says what is executed."""

MOST_MILLION = 30
"""Weights of the named networks that are compared."""

SHOWN = 3
"""Pairs of operators named of each sort."""

SAY_EVERY = 200
"""Networks."""


def agreement(
    runtime: str,
    precision: str = "fp32",
    cpu: Cpu = None,
    cap: Cap = "",
    named: Annotated[
        bool, typer.Option("--named", help="As ONNX Runtime optimises the named networks, without running them.")
    ] = False,
) -> None:
    """Compare which operators share a kernel by the shipped rules and as the runtime ran the profile of ``outsiders``.

    With a cap, as the runtime runs networks of the training mix once each.
    """
    if named:
        keep("rule_agreement/onnxruntime-fp32-named", judge_named())
    else:
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
    free = {node for kernel in kernels if kernel.free for node in kernel.nodes}
    predicted = {node: index for index, kernel in enumerate(kernels) for node in kernel.nodes}
    real = {node: index for index, kernel in enumerate(executed) for node in kernel.nodes}
    agreed, only_rules, only_runtime = 0, Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for node in graph.nodes:
        for tensor in graph.activation_inputs(node):
            producer = graph.producers.get(tensor)
            if producer is None or node.name not in real or producer.name not in real:
                continue
            pair = classes[producer.name], classes[node.name]
            if not rules.free.isdisjoint(pair) or not free.isdisjoint((producer.name, node.name)):
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


def judge_named() -> dict[str, Any]:
    """Compare shipped rules with what ONNX Runtime makes of named networks on the processor here."""
    rules = rules_for("onnxruntime", "fp32", cpu_flags=cpu_description()["flags"])
    small = [model(each.name) for each in models() if each.million_parameters and each.million_parameters <= MOST_MILLION]
    return _compared(f"local/onnxruntime-{rules.version}/cpu1/fp32, named networks", rules, _optimised(small), len(small))


def _optimised(networks: Iterable[Reference]) -> Iterator[tuple[Reference, Sequence[ExecutedKernel]]]:
    """Yield networks with the kernels that ONNX Runtime makes of them, without those that it cannot load."""
    for each in networks:
        with suppress(RuntimeFailure, UnsupportedOperatorError):
            yield each, optimised_kernels(build(each))


def _judged(store: Store, platform: Platform) -> dict[str, Any]:
    """Compare the rules of a platform and its instruction set with what was executed of a store's networks."""
    rules = rules_of_store(store, platform)
    measured = [(each.reference, each.executed) for each in store.measurements(platform=platform.id) if each.ok and each.executed]
    return _compared(platform.id, rules, measured, len(measured))


def _compared(
    platform: str, rules: FusionRules, networks: Iterable[tuple[Reference, Sequence[ExecutedKernel]]], count: int
) -> dict[str, Any]:
    """Compare rules with the kernels of so many networks."""
    found, done = Agreement(0, Counter(), Counter()), 0
    for done, (reference, executed) in enumerate(networks, 1):
        if done % SAY_EVERY == 0:
            say(f"{done} of {count} networks")
        graph = build(reference)
        found = found.with_other(edge_agreement(graph, find_kernels(graph, rules), executed, rules))
    return {
        "platform": platform, "networks": done, "edges": found.edges, "agreed": found.agreed,
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
