"""Networks that nobody here chose: one of each design in timm's, torchvision's and transformers' registries, drawn by a seed.

No family of latcast builds them, and no segment of their designs is trained on
(:data:`latcast.spaces.published_segments.HELD_OUT_DESIGNS`); their graphs are those of the published modules. Half of them, by a
checksum of their names, are there to be looked at while predictors are worked on; the other half is what is reported.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.campaigns import Bench, examined, profile_taken
from benchmarks.tables import markdown_table
from latcast.datasets.store import Store
from latcast.kernels.rules import instruction_set
from latcast.measure.labels import label_error_of_halves, label_error_to_json
from latcast.predictors.metrics import judge
from latcast.predictors.training_from_store import environment_of
from latcast.records import Platform, Reference
from latcast.spaces.named_graphs import reference_of

RESULTS = Path(__file__).parent / "results" / "outsiders"

INSTRUCTION_SETS_RESULTS = Path(__file__).parent / "results" / "instruction_sets.json"
"""Profiles and labels of the same hours, with all instructions of the CPU and capped."""

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

HALVES = ("looked at", "reported")


def outsiders() -> tuple[Reference, ...]:
    """The networks, the same for everybody."""
    return tuple(map(reference_of, NAMES))


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


def _figures(rows: Sequence[Mapping[str, Any]], halves_ms: Mapping[str | None, tuple[float, float] | None]) -> dict[str, Any]:
    columns = ("latency_ms", "measured_ms", "low_ms", "high_ms")
    halves = [found for row in rows if (found := halves_ms.get(row["model"])) is not None]
    error = label_error_of_halves(*np.array(halves).T) if halves else None
    wide = [row["high_ms"] / row["low_ms"] for row in rows]
    judged = judge(*(np.array([row[column] for row in rows]) for column in columns)).to_json()
    return {**judged, **label_error_to_json(error), "median_high_over_low": float(np.median(wide))}


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
    for found in json.loads(INSTRUCTION_SETS_RESULTS.read_text()).values():
        part = found["all"]
        rows.append([
            found["platform"], found["instruction_set"], *(f"{part[name]:.1f}" for name in ("label_error", "mape")),
            f"{found['level']:+.1f}", f"{found['mape_without_level']:.1f}", f"{part['within_10']:.0f}",
            f"{part['interval_coverage']:.0f}", f"{found['baselines']['flops_mac']:.0f}",
        ])  # fmt: skip
    head = [
        "platform", "instructions up to", "label error %", "MAPE %", "level %", "MAPE without level %", "±10 %",
        "interval coverage %", "FLOPs+MAC MAPE %",
    ]  # fmt: skip
    return markdown_table(head, rows)


def write(bench: Bench, found: Mapping[str, Any]) -> None:
    """Keeps what was judged in :data:`RESULTS`."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{bench.name.replace('-outsiders', '')}.json").write_text(json.dumps(found, indent=1) + "\n")


def outsiders_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """A line for each platform and half."""
    lines = [
        "| platform | networks | label error % | MAPE % | ±5 % | ±10 % | RMSPE % | Spearman | interval coverage % | high/low "
        "| FLOPs MAPE % | FLOPs+MAC MAPE % |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in documents.items():
        for half in HALVES:
            part = found[half]
            base = [f"{found['baselines'][each]['mape']:.0f}" for each in ("flops", "flops_mac")]
            seed = f", seed {name.rpartition('-')[2]}" if name.rpartition("-")[2].isdigit() else ""
            lines.append(
                f"| {found['platform']}{seed} | {part['networks']} {half} | {part['label_error']:.1f} | {part['mape']:.1f} "
                f"| {part['within_5']:.0f} | {part['within_10']:.0f} | {part['rmspe']:.1f} | {part['spearman']:.3f} "
                f"| {part['interval_coverage']:.0f} | {part['median_high_over_low']:.2f} | {' | '.join(base)} |"
            )
    return "\n".join(lines)


def results() -> dict[str, dict[str, Any]]:
    """Every platform's document that was written so far."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"), key=lambda path: path.stem)}
