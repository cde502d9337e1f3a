"""Networks drawn by a seed, not chosen: one of each design in timm's, torchvision's and transformers' registries.

No family of latcast builds them, and no segment of their designs is trained on
(:data:`latcast.spaces.published_segments.HELD_OUT_DESIGNS`); their graphs are those of the published modules. Half of them, by a
checksum of their names, are there to be looked at while predictors are worked on; the other half is what is reported. That half
has been consulted too by now, so that a third draw of other designs is kept, which was looked at twice.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.campaigns import (
    LABEL_PROCESSES,
    LABEL_ROUNDS,
    Bench,
    examined,
    profile_taken,
    take_labels,
    take_profile,
    train_again,
)
from benchmarks.command import Cap, Cpu, Judge, Minutes, Processes, Rounds, print_campaign
from benchmarks.judge import Columns, Row, figures_of_rows, misses, table, with_interval
from benchmarks.result_files import keep, kept_runs
from latcast.datasets.store import Store
from latcast.kernels.rules import instruction_set
from latcast.measure.labels import label_error_of_halves, label_error_to_json
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import model
from latcast.spaces.published_segments import HELD_OUT_DESIGNS, NEAR_RELATIVES, design_of, networks_by_design
from latcast.spaces.published_segments import NAME as SEGMENTS
from latcast.tables import signed
from latcast.training.from_store import environment_of

NAMES = (
    "timm/starnet_s050", "timm/lcnet_100", "timm/efficientvim_m1", "timm/efficientvit_m3", "timm/hardcorenas_c",
    "timm/repghostnet_150", "timm/spnasnet_100", "timm/ese_vovnet19b_slim_dw", "timm/fbnetv3_d", "timm/inception_next_atto",
    "timm/dla46x_c", "timm/convnext_atto", "torchvision/ssdlite320_mobilenet_v3_large", "timm/lcnetv2_base",
    "timm/shvit_s3", "timm/mobilenetv1_100h", "timm/gernet_s", "timm/repvit_m0_9", "huggingface/van-tiny",
    "timm/mobileone_s0", "timm/gmlp_ti16_224", "timm/mambaout_kobe", "timm/gc_efficientnetv2_rw_t", "timm/coat_lite_mini",
    "torchvision/lraspp_mobilenet_v3_large", "timm/pvt_v2_b1", "timm/gcvit_xxtiny", "timm/resnetrs50", "timm/dpn68",
    "timm/resnetblur18", "timm/bat_resnext26ts", "timm/ecaresnet50d_pruned", "timm/hrnet_w18_small_v2",
    "timm/ecaresnext26t_32x4d", "timm/seresnext26t_32x4d", "timm/pit_s_distilled_224", "timm/densenetblur121d",
    "timm/poolformerv2_s24", "timm/rexnet_300", "timm/repvgg_b0", "timm/selecsls60b", "timm/gcresnext50ts",
    "timm/mixer_s16_224", "timm/twins_pcpvt_small", "timm/edgenext_base", "timm/darknet21", "timm/regnetz_d8",
    "timm/regnety_040_sgn", "timm/regnetv_040", "timm/cspnext_l", "timm/maxxvit_rmlp_nano_rw_256",
    "timm/resnest50d_1s4x24d", "timm/coatnet_0_rw_224", "timm/resnetaa34d", "timm/focalnet_tiny_lrf",
    "timm/swinv2_cr_tiny_224", "timm/hgnet_tiny", "timm/deit_small_patch16_224", "timm/visformer_small",
    "timm/poolformer_s36",
)  # fmt: skip
"""A network of each held-out design, drawn by ``Random(0)`` before any result was known; the smallest first."""

THIRD_NAMES = (
    "timm/cs3darknet_l", "timm/resnetv2_50", "timm/convit_tiny", "timm/eva02_tiny_patch14_224", "timm/crossvit_9_dagger_240",
    "timm/nf_ecaresnet26", "timm/mixnet_l", "timm/mvitv2_tiny", "huggingface/levit-128", "timm/efficientformer_l1",
    "timm/cpubone_b0_bfrobust", "timm/skresnet50d", "timm/caformer_s18", "timm/sebotnet33ts_256", "huggingface/mit-b2",
    "timm/gcresnet33ts", "timm/nfnet_l0", "timm/mobilevitv2_050", "timm/botnet26t_256", "timm/hgnetv2_b1",
)  # fmt: skip
"""Networks of 20 designs beside the 60, drawn by :func:`draw_third`, looked at twice so far. Profiles hold segments of these
designs, which a predictor that is judged on them does not learn from. No other design shares 99 % of its blocks with them."""

HALVES = ("looked at", "reported")

WIDEST = 1.35
"""Most that the interval of the median network may reach, as its upper bound over its lower one."""

TARGETS = ("MAPE", "±10 %", "coverage", "width")


# Networks


def outsider_networks() -> tuple[Reference, ...]:
    """Return the networks of :data:`NAMES`."""
    return tuple(map(model, NAMES))


def half_of(name: str) -> str:
    """Return which of :data:`HALVES` a network is in."""
    return HALVES[zlib.crc32(name.encode()) % 2]


def draw_third() -> tuple[str, ...]:
    """Draw the networks of :data:`THIRD_NAMES`: of 20 of the designs that profiles hold segments of, one of each."""
    designs = networks_by_design()
    rng = Random(1)
    drawn = rng.sample([each for each in designs if each not in (*HELD_OUT_DESIGNS, *NEAR_RELATIVES)], 20)
    return tuple(rng.choice(designs[each]) for each in drawn)


def is_of_the_third_draw(reference: Reference) -> bool:
    """Return whether a reference is a segment of a network whose design is in the third draw."""
    network = str(reference.parameters.get("network", ""))
    return reference.space == SEGMENTS and design_of(network) in {design_of(name) for name in THIRD_NAMES}


# Commands


def outsiders(
    runtime: str,
    precision: str = "fp32",
    cpu: Cpu = None,
    seed: Annotated[int, typer.Option(help="Of the profile; the labels are taken once.", min=0)] = 0,
    threads: Annotated[
        int, typer.Option(help="Threads of one inference; several want a machine with nothing else to do.", min=1)
    ] = 1,
    cap: Cap = "",
    minutes: Minutes = 5.0,
    processes: Processes = LABEL_PROCESSES,
    rounds: Rounds = LABEL_ROUNDS,
    judge: Judge = True,
    third: Annotated[
        bool, typer.Option("--third", help="Judge the profile on the third draw instead, 20 networks of other designs: seldom.")
    ] = False,
) -> None:
    """Profile one platform and judge it on networks of 60 designs that latcast does not build; resumable.

    The first pass over the networks comes before the profile, the others after it.
    """
    bench, labels_of = (outsiders_bench(runtime, precision, cpu, each, threads, cap) for each in (seed, 0))
    networks = outsider_networks()
    if third:
        labels_of, networks = third_bench(labels_of), tuple(map(model, THIRD_NAMES))
    for count in range(1, processes + 1):
        if count == 2 or processes == 1:
            take_profile(bench, minutes, seed)
        take_labels(labels_of, count, rounds, print_campaign(f"{labels_of.name} labels {count}"), networks)
    if judge and third:
        keep(f"outsiders_third/{bench.results_name}", judge_third(bench))
        print(third_table())
    elif judge and not cap:
        found = judge_outsiders(bench, labels_of)
        keep(f"outsiders/{bench.results_name}", found)
        print(outsiders_table({bench.results_name: found}))


def instruction_sets(
    runtime: str,
    precision: str = "fp32",
    cap: Cap = "",
    machine: Annotated[str, typer.Option(help="Processor that measured what is judged, where this host did not.")] = "",
) -> None:
    """Judge what ``outsiders`` measured, with or without a cap; writes benchmarks/results/instruction_sets.

    What another machine measured is judged where its ``.latcast/bench`` was copied to.
    """
    bench = outsiders_bench(runtime, precision, None, 0, cap=cap)
    found, cpu = judge_instruction_set(bench)
    of_machine = "-".join(["", *machine.partition(",")[0].lower().split()])
    keep(f"instruction_sets/{bench.results_name}{of_machine}", {**({"machine": machine} if machine else {}), **found}, cpu)
    print(instruction_sets_table())


def outsiders_bench(runtime: str, precision: str, cpu: int | None, seed: int, threads: int = 1, cap: str = "") -> Bench:
    """Return where measurements are; every seed is a profile of its own, all are judged on the labels of seed 0."""
    return Bench(runtime, precision, cpu, f"-outsiders{f'-{seed}' if seed else ''}", threads, cap)


def third_bench(bench: Bench) -> Bench:
    """Return where the labels of the third draw are, the same for all profiles of a platform."""
    return replace(bench, suffix="-third")


# Judging


def judge_outsiders(bench: Bench, labels_of: Bench) -> dict[str, Any]:
    """Judge a bench's profile by ``latcast evaluate`` on labels: both halves and all, and the baselines on all.

    Raises:
        MeasurementError: Something is not measured yet.
    """
    seen = examined(bench, labels_of)
    found = seen.evaluate(seen.profiled["platform"])
    halves_ms = {each.reference.name: each.halves_ms for each in seen.labels}
    rows = found["per_network"]
    parts = {"all": rows, **{half: [row for row in rows if half_of(row["model"]) == half] for half in HALVES}}
    return {
        "platform": found["platform"], "command": seen.profiled["command"], "wall_seconds": seen.profiled["wall_seconds"],
        "failed": sorted(set(NAMES) - {row["model"] for row in rows}),
        **{name: figures_with_label_error(part, halves_ms) for name, part in parts.items()},
        "baselines": found["baselines"], "per_network": rows,
    }  # fmt: skip


def judge_third(bench: Bench) -> dict[str, Any]:
    """Judge a bench's profile, trained without segments of the third draw's designs, on that draw's labels.

    Raises:
        MeasurementError: Something is not measured yet.
    """
    profiled = profile_taken(bench)
    with Store(profiled["store"]) as store:
        measured = list(store.measurements(platform=profiled["platform"]))
    part = replace(bench, suffix=f"{bench.suffix}-without-third")
    train_again(part, profiled, [each for each in measured if not is_of_the_third_draw(each.reference)])
    seen = examined(part, third_bench(bench))
    found = seen.evaluate(seen.profiled["platform"])
    halves_ms = {each.reference.name: each.halves_ms for each in seen.labels}
    return {
        "platform": found["platform"], "command": profiled["command"],
        "failed": sorted(set(THIRD_NAMES) - {row["model"] for row in found["per_network"]}),
        "all": figures_with_label_error(found["per_network"], halves_ms), "baselines": found["baselines"],
        "per_network": found["per_network"],
    }  # fmt: skip


def judge_instruction_set(bench: Bench) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Judge a bench's profile as :func:`judge_outsiders` does, also without the level that all predictions are off by.

    Returns:
        What was found, and the processor that measured it.

    Raises:
        MeasurementError: Something is not measured yet.
    """
    found = judge_outsiders(bench, bench)
    with Store(profile_taken(bench)["store"]) as store:
        cpu = environment_of(store, Platform.parse(found["platform"]))["host"]["cpu"]
    off = np.log([row["latency_ms"] / row["measured_ms"] for row in found["per_network"]])
    level = np.median(off)
    return {
        "platform": found["platform"], "command": found["command"], "instruction_set": instruction_set(bench.unit, cpu["flags"]),
        "level": 100 * float(np.expm1(level)), "mape_without_level": 100 * float(np.abs(np.expm1(off - level)).mean()),
        **{part: found[part] for part in ("all", *HALVES)},
        "baselines": {name: each["mape"] for name, each in found["baselines"].items()},
    }, cpu  # fmt: skip


def figures_with_label_error(
    rows: Sequence[Row], halves_ms: Mapping[str, tuple[float, float] | None]
) -> dict[str, Any]:  # fmt: skip
    """Return the figures of networks with their label error and the width of the median network's interval.

    Args:
        halves_ms: Network to its latency by each half of its rounds, or None.
    """
    halves = [found for row in rows if (found := halves_ms.get(row["model"])) is not None]
    error = label_error_of_halves(*np.array(halves).T) if halves else None
    wide = [row["high_ms"] / row["low_ms"] for row in rows]
    return {**figures_of_rows(rows), **label_error_to_json(error), "median_high_over_low": float(np.median(wide))}


def above_label_error(platform: str) -> float:
    """Return the points by which the MAPE of a platform may lie above its label error."""
    if platform.endswith("/int8"):
        return 3.0
    return 2.0 if re.search(r"/cpu1\b", platform) else 4.0


def platform_misses(platform: str, figures: Row) -> list[str]:
    """Return the targets of :data:`TARGETS` that a platform's predictions miss."""
    wide = ["width"] if figures["median_high_over_low"] > WIDEST else []
    return [*misses(figures, above_label_error(platform)), *wide]


# Tables

FIGURES: Columns = {
    "label error %": "{label_error:.1f}", "MAPE %": with_interval("mape"), "±5 %": "{within_5:.0f}", "±10 %": "{within_10:.0f}",
}  # fmt: skip

MEANS = ("label_error", "mape", "within_5", "within_10", "interval_coverage", "median_high_over_low")

INTERVAL: Columns = {"interval coverage %": "{interval_coverage:.0f}", "high/low": "{median_high_over_low:.2f}"}


def outsiders_table(documents: Mapping[str, Row]) -> str:
    """Return a line for each profile and half with the targets that it misses, and a sentence that counts them."""
    rows = [
        {**found[half], "profile": profile_title(name, found), "half": half, "baselines": found["baselines"],
         "missed": platform_misses(found["platform"], found[half])}
        for name, found in documents.items() for half in HALVES
    ]  # fmt: skip
    columns = {
        "platform": "{profile}", "networks": "{networks} {half}", **FIGURES, "RMSPE %": "{rmspe:.1f}",
        "Spearman": "{spearman:.3f}", **INTERVAL, "FLOPs MAPE %": "{baselines[flops][mape]:.0f}",
        "FLOPs+MAC MAPE %": "{baselines[flops_mac][mape]:.0f}", "missed": _missed_cell,
    }  # fmt: skip
    missed = Counter(name for row in rows if row["half"] == HALVES[1] for name in row["missed"])
    counts = ", ".join(f"{missed[name]} the target for {name}" for name in TARGETS)
    return f"{table(rows, columns)}\n\nOf {len(documents)} rows of the {HALVES[1]} half miss: {counts}."


def mean_table(documents: Mapping[str, Row] | None = None) -> str:
    """Return a line for each platform: means over its profiles of what the reported half shows, and which targets they miss.

    Networks made of blocks that profiles hold, from other designs, are left out of a column of their own.
    """
    profiles: dict[str, list[Row]] = {}
    for found in (kept_runs("outsiders") if documents is None else documents).values():
        profiles.setdefault(found["platform"], []).append(found)
    rows = []
    for platform, each in profiles.items():
        parts = [found[HALVES[1]] for found in each]
        means = {name: float(np.mean([part[name] for part in parts])) for name in MEANS}
        errors = [
            100 * abs(row["latency_ms"] / row["measured_ms"] - 1)
            for found in each for row in found["per_network"]
            if half_of(row["model"]) == HALVES[1] and row["model"] not in OF_KNOWN_BLOCKS
        ]  # fmt: skip
        simple = float(np.mean([found["baselines"]["flops_mac"]["mape"] for found in each]))
        mapes = sorted(part["mape"] for part in parts)
        rows.append(
            {
                **means, "platform": platform, "simple": simple,
                "others": float(np.mean(errors)) if errors else None, "least": mapes[0], "most": mapes[-1], "run": _runs(each),
                "missed": ", ".join(dict.fromkeys(name for part in parts for name in platform_misses(platform, part))) or "none",
            }
        )  # fmt: skip
    return table(
        rows,
        {
            "platform": lambda row: row["platform"].removeprefix("local/"), "label error %": "{label_error:.1f}",
            "MAPE % (of profiles)": "{mape:.1f} ({least:.1f} to {most:.1f})", "without known blocks": "{others:.1f}",
            "±10 %": "{within_10:.0f}", **INTERVAL, "FLOPs+MAC MAPE %": "{simple:.0f}",
            "missed by a profile": "{missed}", "measured on": "{run}",
        },
    )  # fmt: skip


def _runs(profiles: Sequence[Row]) -> str:
    """Return the machines that profiles were judged on, each with its last day and the commits there."""
    found: dict[str, list[tuple[str, str]]] = {}
    for machine, date, commit in (each["run"] for each in profiles):
        found.setdefault(machine, []).append((date, commit))
    return "; ".join(
        f"{machine}, {max(each)[0]} ({', '.join(dict.fromkeys(commit for _, commit in each))})" for machine, each in found.items()
    )


def third_table() -> str:
    """Return a line for each profile judged on the third draw."""
    rows = [
        {**found, **found["all"], "missed": platform_misses(found["platform"], found["all"]), "run": _runs([found])}
        for found in kept_runs("outsiders_third").values()
    ]
    columns = {
        "platform": "{platform}", "networks": "{networks}", **FIGURES, **INTERVAL,
        "FLOPs+MAC MAPE %": "{baselines[flops_mac][mape]:.0f}", "missed": _missed_cell, "measured on": "{run}",
    }  # fmt: skip
    return table(rows, columns)


def profile_title(name: str, found: Row) -> str:
    """Return a profile's platform, with the seed that the name of its file ends with."""
    seed = name.rpartition("-")[2]
    return f"{found['platform']}, seed {seed}" if seed.isdigit() else str(found["platform"])


def _missed_cell(row: Row) -> str:
    return ", ".join(row["missed"]) or "none"


def instruction_sets_table() -> str:
    """Return a line for each runtime, processor and instruction set."""
    return table(
        [*kept_runs("instruction_sets").values()],
        {
            "platform": "{platform}", "measured on": lambda found: _runs([found]),
            "instructions up to": "{instruction_set}", "label error %": "{all[label_error]:.1f}",
            "MAPE %": "{all[mape]:.1f}", "level %": lambda found: signed(found["level"]),
            "±10 %": "{all[within_10]:.0f}", "interval coverage %": "{all[interval_coverage]:.0f}",
            "FLOPs+MAC MAPE %": "{baselines[flops_mac]:.0f}",
        },
    )  # fmt: skip


OF_KNOWN_BLOCKS = (
    "timm/deit_small_patch16_224", "timm/densenetblur121d", "timm/gernet_s", "timm/pit_s_distilled_224", "timm/spnasnet_100",
)  # fmt: skip
"""Networks made of blocks that something in the training mix has (:func:`benchmarks.lineages.blocks_by_operators`): 99 % of the
multiply-accumulates in their blocks, which are half of all or more. Their designs were held out, and their blocks were not."""
