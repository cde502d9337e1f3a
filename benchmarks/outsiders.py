"""Networks that nobody here chose: one of each design in timm's, torchvision's and transformers' registries, drawn by a seed.

No family of latcast builds them, and no segment of their designs is trained on
(:data:`latcast.spaces.published_segments.HELD_OUT_DESIGNS`); their graphs are those of the published modules. Half of them, by a
checksum of their names, are there to be looked at while predictors are worked on; the other half is what is reported. That half
has been consulted too by now, so that a third draw of other designs is kept for the next time, to be looked at once.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from benchmarks.campaigns import Bench, examined, profile_taken, train_again
from benchmarks.result_files import kept_parts
from benchmarks.tables import markdown_table, misses
from latcast.datasets.store import Store
from latcast.kernels.rules import instruction_set
from latcast.measure.labels import label_error_of_halves, label_error_to_json
from latcast.predictors.metrics import judge
from latcast.predictors.training_from_store import environment_of
from latcast.records import Platform, Reference, signed
from latcast.spaces.catalogue import model
from latcast.spaces.published_segments import HELD_OUT_DESIGNS, NEAR_RELATIVES, design_of, networks_by_design
from latcast.spaces.published_segments import NAME as SEGMENTS

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
"""Networks of 20 designs beside the 60, drawn by :func:`draw_third` and to be looked at once. Profiles hold segments of these
designs, which a predictor that is judged on them does not learn from. No other design shares 99 % of its blocks with them."""

HALVES = ("looked at", "reported")

WIDEST = 1.35
"""Most that the interval of the median network may reach, as its upper bound over its lower one."""

TARGETS = ("MAPE", "±10 %", "coverage", "width")


def outsiders() -> tuple[Reference, ...]:
    """The networks, the same for everybody."""
    return tuple(map(model, NAMES))


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


def half_of(name: str) -> str:
    """Which of :data:`HALVES` a network is in."""
    return HALVES[zlib.crc32(name.encode()) % 2]


def outsiders_bench(runtime: str, precision: str, cpu: int | None, seed: int, threads: int = 1, cap: str = "") -> Bench:
    """Where its measurements are; every seed is a profile of its own, all are judged on the same labels."""
    return Bench(runtime, precision, cpu, f"-outsiders{f'-{seed}' if seed else ''}", threads, cap)


def judge_outsiders(bench: Bench, labels_of: Bench) -> dict[str, Any]:
    """Judges the bench's profile by ``latcast evaluate`` on labels, both halves and all, and the baselines on all.

    Raises:
        MeasurementError: Something is not measured yet.
    """
    seen = examined(bench, labels_of)
    profiled, found = seen.profiled, seen.evaluate(seen.profiled["platform"])
    halves_ms = {each.reference.name: each.halves_ms for each in seen.labels}
    rows = found["per_network"]
    parts = {half: [row for row in rows if half_of(row["model"]) == half] for half in HALVES}
    return {
        "platform": found["platform"], "command": profiled["command"], "wall_seconds": profiled["wall_seconds"],
        "failed": sorted({each.name or "" for each in outsiders()} - {row["model"] for row in rows}),
        **{name: _figures(part, halves_ms) for name, part in {"all": rows, **parts}.items()},
        "baselines": found["baselines"], "per_network": rows,
    }  # fmt: skip


def judge_third(bench: Bench) -> dict[str, Any]:
    """Judge the bench's profile, trained without segments of the third draw's designs, on that draw's labels.

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
        "all": _figures(found["per_network"], halves_ms), "baselines": found["baselines"], "per_network": found["per_network"],
    }  # fmt: skip


def third_bench(bench: Bench) -> Bench:
    """Return where the labels of the third draw are, the same for all profiles of a platform."""
    return replace(bench, suffix="-third")


def _figures(rows: Sequence[Mapping[str, Any]], halves_ms: Mapping[str | None, tuple[float, float] | None]) -> dict[str, Any]:
    columns = ("latency_ms", "measured_ms", "low_ms", "high_ms")
    halves = [found for row in rows if (found := halves_ms.get(row["model"])) is not None]
    error = label_error_of_halves(*np.array(halves).T) if halves else None
    wide = [row["high_ms"] / row["low_ms"] for row in rows]
    judged = judge(*(np.array([row[column] for row in rows]) for column in columns)).to_json()
    return {**judged, **label_error_to_json(error), "median_high_over_low": float(np.median(wide))}


def above_label_error(platform: str) -> float:
    """Return the points by which the MAPE of a platform may lie above its label error."""
    return 3.0 if platform.endswith("/int8") else 2.0


def platform_misses(platform: str, figures: Mapping[str, Any]) -> list[str]:
    """Return the targets that a platform's predictions of outsiders miss, the width of the interval among them."""
    wide = ["width"] if figures["median_high_over_low"] > WIDEST else []
    return [*misses(figures, above_label_error(platform)), *wide]


def judge_instruction_set(bench: Bench) -> dict[str, Any]:
    """The figures of a bench's profile and what they were found on: the CPU, and the newest instruction set its processes saw.

    Raises:
        MeasurementError: Something is not measured yet.
    """
    found = judge_outsiders(bench, bench)
    with Store(profile_taken(bench)["store"]) as store:
        cpu = environment_of(store, Platform.parse(found["platform"]))["host"]["cpu"]
    known = instruction_set(bench.unit, cpu["flags"])
    off = [float(np.log(row["latency_ms"] / row["measured_ms"])) for row in found["per_network"]]
    without = 100 * float(np.abs(np.exp(np.array(off) - np.median(off)) - 1).mean())
    parts = {part: found[part] for part in ("all", *HALVES)}
    return {
        "platform": found["platform"], "command": found["command"], "instruction_set": known,
        "cpu": {"model": cpu["model"], "flags": cpu["flags"]}, "level": 100 * float(np.expm1(np.median(off))),
        "mape_without_level": without, **parts, "baselines": {name: each["mape"] for name, each in found["baselines"].items()},
    }  # fmt: skip


def instruction_sets_table() -> str:
    """A line for each runtime and instruction set."""
    rows = []
    for found in kept_parts("instruction_sets").values():
        part = found["all"]
        rows.append([
            found["platform"], found["instruction_set"], *(f"{part[name]:.1f}" for name in ("label_error", "mape")),
            signed(found["level"]), f"{found['mape_without_level']:.1f}", f"{part['within_10']:.0f}",
            f"{part['interval_coverage']:.0f}", f"{found['baselines']['flops_mac']:.0f}",
        ])  # fmt: skip
    head = [
        "platform", "instructions up to", "label error %", "MAPE %", "level %", "MAPE without level %", "±10 %",
        "interval coverage %", "FLOPs+MAC MAPE %",
    ]  # fmt: skip
    return markdown_table(head, rows)


def outsiders_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a line for each platform and half with the targets that it misses, and a sentence that counts them."""
    head = ["platform", "networks", "label error %", "MAPE %", "±5 %", "±10 %", "RMSPE %", "Spearman", "interval coverage %",
            "high/low", "FLOPs MAPE %", "FLOPs+MAC MAPE %", "missed"]  # fmt: skip
    lines, missed = [], Counter[str]()
    for name, found in documents.items():
        seed = f", seed {name.rpartition('-')[2]}" if name.rpartition("-")[2].isdigit() else ""
        base = [f"{found['baselines'][each]['mape']:.0f}" for each in ("flops", "flops_mac")]
        for half in HALVES:
            part, here = found[half], platform_misses(found["platform"], found[half])
            missed.update(here if half == HALVES[1] else ())
            lines.append(
                [f"{found['platform']}{seed}", f"{part['networks']} {half}", f"{part['label_error']:.1f}", f"{part['mape']:.1f}",
                 f"{part['within_5']:.0f}", f"{part['within_10']:.0f}", f"{part['rmspe']:.1f}", f"{part['spearman']:.3f}",
                 f"{part['interval_coverage']:.0f}", f"{part['median_high_over_low']:.2f}", *base, ", ".join(here) or "none"]
            )  # fmt: skip
    counts = ", ".join(f"{missed[name]} the target for {name}" for name in TARGETS)
    return f"{markdown_table(head, lines)}\n\nOf {len(documents)} rows of the {HALVES[1]} half miss: {counts}."


def third_table() -> str:
    """Return a line for each profile judged on the third draw."""
    head = ["platform", "networks", "label error %", "MAPE %", "±5 %", "±10 %", "interval coverage %", "high/low", "missed"]
    rows = []
    for found in kept_parts("outsiders_third").values():
        part = found["all"]
        figures = [part[name] for name in ("within_5", "within_10", "interval_coverage")]
        rows.append(
            [found["platform"], str(part["networks"]), f"{part['label_error']:.1f}", f"{part['mape']:.1f}",
             *(f"{each:.0f}" for each in figures), f"{part['median_high_over_low']:.2f}",
             ", ".join(platform_misses(found["platform"], part)) or "none"]
        )  # fmt: skip
    return markdown_table(head, rows)


OF_KNOWN_BLOCKS = (
    "timm/deit_small_patch16_224", "timm/densenetblur121d", "timm/gernet_s", "timm/pit_s_distilled_224", "timm/spnasnet_100",
)  # fmt: skip
"""Networks made of blocks that something in the training mix has (:func:`benchmarks.lineages.blocks_by_operators`): 99 % of the
multiply-accumulates in their blocks, which are half of all or more. Their designs were held out, and their blocks were not."""


def known_blocks_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """The reported networks made of blocks that profiles hold, and the others: a line for each profile."""
    rows = []
    for name, found in documents.items():
        errors: dict[bool, list[float]] = {True: [], False: []}
        for row in found["per_network"]:
            if half_of(row["model"]) == "reported":
                error = 100 * abs(row["latency_ms"] / row["measured_ms"] - 1)
                errors[row["model"] in OF_KNOWN_BLOCKS].append(error)
        seed = f", seed {name.rpartition('-')[2]}" if name.rpartition("-")[2].isdigit() else ""
        rows.append([f"{found['platform']}{seed}", *(f"{np.mean(errors[known]):.1f} ({len(errors[known])})" for known in errors)])
    return markdown_table(["platform", "made of blocks that profiles hold: MAPE % (networks)", "the others"], rows)
