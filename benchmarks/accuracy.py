"""Accuracy of what a user gets: the bundle that ``latcast profile`` wrote, judged by ``latcast evaluate`` on real networks of
families that it never saw; and the same without what shares their blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.campaigns import (
    LABEL_PROCESSES,
    LABEL_ROUNDS,
    PROFILE_MINUTES,
    Bench,
    examined,
    is_published,
    take_labels,
    take_profile,
    test_networks,
)
from benchmarks.command import Cpu, Judge, Minutes, Processes, Rounds, print_campaign
from benchmarks.judge import Columns, Row, figures_of_rows, markdown_table, table, verdict, with_interval
from benchmarks.result_files import keep, kept_parts
from latcast.cli.output import console
from latcast.records import Reference
from latcast.spaces.lineages import lineage_of
from latcast.spaces.training_mix import TRAINING_FAMILIES, published_networks
from latcast.tables import signed

MIXED_BLOCKS = ("random_mixed", "random_small", "random_mobile", "published_segments")
"""Spaces of the training mix whose networks are made of the blocks of all published families, the tested ones included."""

WITHOUT: Mapping[str, Callable[[Sequence[Reference]], list[str]]] = {
    "random networks of mixed blocks": lambda trained: _spaces(trained, MIXED_BLOCKS),
    "anything that shares blocks": lambda trained: _spaces(trained, (*MIXED_BLOCKS, "block_sequence", *_relatives())),
}
"""Name to the spaces and families that are left out of training to see how much the tested families' own blocks helped;
``block_sequence`` has MobileNetV2's block among its own."""

CARD_FIGURES = ("mape", "within_10", "interval_coverage", "networks", "held_out_by")
"""Figures of the bundle's own card that results hold beside what was found."""


def _relatives() -> tuple[str, ...]:
    """Return the families of training with a published member of the lineage of a tested network."""
    tested = {lineage_of(reference) for reference in test_networks()}
    return tuple(name for name in TRAINING_FAMILIES if not tested.isdisjoint(map(lineage_of, published_networks((name,)))))


def _spaces(trained: Sequence[Reference], names: Sequence[str]) -> list[str]:
    """Return the spaces among `names` that training networks are from."""
    return sorted({reference.space for reference in trained} & set(names))


def judge_platform(bench: Bench) -> dict[str, Any]:
    """Judge one platform from what was measured, and keep what was found.

    Raises:
        MeasurementError: Something is not measured yet.
    """
    seen = examined(bench, bench)
    profiled, trained = seen.profiled, seen.trained
    found = seen.evaluate(profiled["platform"])
    [shown] = bench.latcast("platforms", "show", profiled["platform"])["platforms"]
    known = {lineage_of(reference) for reference in trained}
    kinds: Mapping[str, Callable[[Reference], bool]] = {
        "published members": is_published,
        "drawn variants": lambda reference: not is_published(reference),
        "lineages not trained on": lambda reference: lineage_of(reference) not in known,
    }
    parts = {}
    for name, belongs in kinds.items():
        names = {reference.name for reference in test_networks() if belongs(reference)}
        part = [row for row in found["per_network"] if row["model"] in names]
        parts[name] = figures_of_rows(part) if part else None
    document = {
        **{key: value for key, value in found.items() if key != "schema"},
        "interval": shown["interval"],
        "training": {
            "command": profiled["command"], "minutes": profiled["minutes"], "wall_seconds": profiled["wall_seconds"],
            "training_networks": len(shown["card"]["training_networks"]), "trained_on": shown["card"]["trained_on"],
            "families_tested": len({label.reference.space for label in seen.labels}),
            "card": {key: shown["card"].get(key) for key in CARD_FIGURES},
        },
        "labels": {
            "networks": len(seen.labels), "processes": min(label.processes for label in seen.labels),
            "rounds": min(label.rounds for label in seen.labels), "longest_ms": max(label.latency_ms for label in seen.labels),
        },
        "kinds": parts,
        "without": {name: _without(bench, profiled, choose(trained), seen.evaluate) for name, choose in WITHOUT.items()},
    }  # fmt: skip
    keep(f"accuracy/{bench.name}", document)
    return document


def _without(
    bench: Bench, profiled: Mapping[str, Any], names: Sequence[str], judged: Callable[[str], Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the figures of training, by the same command, without some spaces and families; None if none is to be left out."""
    if not names:
        return None
    bundle = str((bench.folder / "without.zip").absolute())
    leave_out = ",".join(names)
    bench.latcast("train", profiled["store"], "--on", profiled["platform"], "--leave-out", leave_out, "--output", bundle)
    [shown] = bench.latcast("platforms", "show", bundle)["platforms"]
    figures = judged(bundle)
    return {
        **{key: value for key, value in figures.items() if key not in ("schema", "per_network", "baselines")},
        "leave_out": leave_out, "training_networks": len(shown["card"]["training_networks"]),
    }  # fmt: skip


# Tables

SUMMARY: Columns = {
    "platform": "{platform}", "networks (families)": "{networks} ({training[families_tested]})",
    "label error %": with_interval("label_error"), "MAPE %": "{mape:.1f}", "±10 %": "{within_10:.0f}",
    "interval coverage %": "{interval_coverage:.0f}", "FLOPs+MAC MAPE %": "{baselines[flops_mac][mape]:.0f}", "targets": verdict,
}  # fmt: skip


def summary_table() -> str:
    """Return a line for each platform that was judged."""
    return table([*kept_parts("accuracy").values()], SUMMARY)


def blocks_table(documents: Mapping[str, Row] | None = None) -> str:
    """Return how much blocks of the tested families helped in training: MAPE / ±10 % by part of tests and of training."""
    judged = [each for each in (kept_parts("accuracy") if documents is None else documents).values() if "without" in each]
    if not judged:
        return ""
    kinds, parts = (list(dict.fromkeys(name for each in judged for name in each[key])) for key in ("kinds", "without"))
    rows = []
    for each in judged:
        whole = {**each, "training_networks": each["training"]["training_networks"]}
        figures = [whole, *(each["kinds"][name] for name in kinds), *(each["without"][name] for name in parts)]
        rows.append([each["platform"], *map(_short, figures)])
    return markdown_table(["platform", "all", *kinds, *(f"all, trained without {name}" for name in parts)], rows)


def _short(figures: Row | None) -> str:
    """Return MAPE / ±10 %, with the number of training networks where that differs, else of test networks."""
    if figures is None:
        return "-"
    trained = f" (from {figures['training_networks']})" if "training_networks" in figures else f" ({figures['networks']})"
    return f"{figures['mape']:.1f} / {figures['within_10']:.0f}{trained}"


def platform_table(document: Row) -> str:
    """Return a line for each network, the worst first, and the summary."""
    rows = sorted(document["per_network"], key=lambda row: -abs(row["latency_ms"] / row["measured_ms"] - 1))
    lines = [
        f"{row['model']:<24} predicted {row['latency_ms']:8.2f} ({row['low_ms']:.2f} to {row['high_ms']:.2f})  "
        f"measured {row['measured_ms']:8.2f}  {signed(100 * (row['latency_ms'] / row['measured_ms'] - 1))} %"
        for row in rows
    ]
    return "\n".join([*lines, "", table([document], SUMMARY), "", blocks_table({"": document})])


# Commands


def accuracy(
    runtime: str, precision: str = "fp32", cpu: Cpu = None, minutes: Minutes = PROFILE_MINUTES,
    processes: Processes = LABEL_PROCESSES, rounds: Rounds = LABEL_ROUNDS, judge: Judge = True,
) -> None:  # fmt: skip
    """Measure one platform and judge it; what is measured already is not measured again.

    Half of the passes over the test networks come before the profile, half after it.
    """
    bench = Bench(runtime, precision, cpu)
    for count in range(1, processes + 1):
        if count == processes // 2 + 1:
            take_profile(bench, minutes)
        take_labels(bench, count, rounds, print_campaign(f"{bench.name} labels {count}"))
    if judge:
        judge_again(runtime, precision)


def judge_again(runtime: str, precision: str = "fp32") -> None:
    """Judge one platform again from what was measured."""
    console().print(platform_table(judge_platform(Bench(runtime, precision))))


def print_tables() -> None:
    """Print the Markdown tables of all platforms judged so far."""
    print(f"{summary_table()}\n\n{blocks_table()}")


def everything() -> None:
    """Measure and judge all platforms of ``accuracy``, about three hours; what is measured already is not measured again."""
    from latcast.runtimes import RUNTIMES

    platforms = [(runtime, "fp32") for runtime in RUNTIMES.names()]
    for runtime, precision in [*platforms, ("onnxruntime", "int8"), ("openvino", "int8")]:
        accuracy(runtime, precision)
    print_tables()
