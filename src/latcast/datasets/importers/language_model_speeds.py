"""Published speeds of language models: tables of one schema, a row a measurement, read into :class:`SpeedMeasurement`.

Rows that cannot be right, or do not say what was measured, are left out; :func:`why_left_out` has each reason.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from latcast.errors import DatasetError
from latcast.llm.speeds import SpeedMeasurement, merged
from latcast.records import UNSTATED, Platform, device_name

LICENCES = ("MIT", "Apache-2.0", "BSD-3-Clause", "CC-BY-4.0")
"""Licences under which learned prices may be shipped, with the sources named."""

Row = Mapping[str, str]

_NAMES: Sequence[tuple[str, str]] = tuple(
    (rf"(?:^|[/-]){pattern}", name)
    for pattern, name in (
        (r"deepseek.r1.(distill.qwen.)?1.5b|vibethinker.1.5b", "deepseek-r1-distill-qwen-1.5b"),
        (r"deepseek.r1.distill.qwen.7b|(qwen2|qwen2.5).(coder.)?7b", "qwen2.5-7b"), (r"deepseek.r1.distill.qwen.14b", "qwen2.5-14b"),
        (r"tinyswallow.1.5b|qwen2(.5)?.(coder.)?1.5b", "qwen2.5-1.5b"), (r"qwen2(.5)?.(coder.)?0.5b", "qwen2.5-0.5b"),
        (r"qwen2.5.(coder.)?3b", "qwen2.5-3b"), (r"qwen3.coder.next", "qwen3-next-80b-a3b"),
        (r"ornith.1.0.9b", "qwen3.5-9b"), (r"ornith.1.0.35b", "qwen3.6-35b-a3b"), (r"qwen(1.5)?.7b", "qwen-7b"),
        (r"qwen3-0-6b", "qwen3-0.6b"), (r"(qwen3(?:\.\d)?).(\d[\d.]*b(?:.a\d+b)?)", r"\1-\2"),
        (r"gemma.?(\d).?(e?\d+m?b?)(?:.it)?(.a4b)?", r"gemma-\1-\2\3"), (r"gemma-(2b|7b)", r"gemma-\1"),
        (r"phi.?3(.5)?.mini", "phi-3-mini"), (r"phi.4.mini", "phi-4-mini"), (r"phi.2", "phi-2"), (r"phi.3.medium", "phi-3-medium"),
        (r"(?:shisa.v2.)?llama.?v?(3)(?:[.-]\d)?.(?:instruct.|elyza.jp.|taide.|sea.lion.3.5.)?(70b|8b)", r"llama-\1-\2"),
        (r"llama.?v?3[.-]2.(1b|3b)", r"llama-3.2-\1"), (r"llama.4.scout", "llama-4-scout"),
        (r"llama.?v?2.(7b|13b)|vicuna.(7b)", r"llama-2-\1\2"), (r"codellama.7b", "llama-2-7b"), (r"tiny.?llama.1.1b", "tinyllama-1.1b"),
        (r"(?:zephyr|mistral|neural.chat).7b", "mistral-7b"), (r"mistral.small.(3.1.24b|4.119b)", r"mistral-small-\1"),
        (r"ministral.3.(3b|8b|14b)", r"ministral-3-\1"), (r"stablelm.3b|stable.zephyr.3b", "stablelm-3b"),
        (r"(?:dolly.v2|red.pajama.incite.chat).3b", "pythia-2.8b"), (r"opt.(125m|2.7b)", r"opt-\1"), (r"minicpm4.0.5b", "minicpm4-0.5b"),
        (r"minicpm.1b", "minicpm-1b"), (r"minicpm3.4b", "minicpm3-4b"), (r"chatglm[23].6b", "chatglm3-6b"), (r"glm.4.9b", "glm-4-9b"),
        (r"glm.4.(7.flash|5.air)", r"glm-4.\1"), (r"gpt.j.6b", "gpt-j-6b"), (r"gpt.oss.(20b|120b)", r"gpt-oss-\1"),
        (r"falcon.7b", "falcon-7b"), (r"baichuan2.7b", "baichuan2-7b"), (r"codegen25.7b", "codegen25-7b"),
        (r"orca.mini.3b", "orca-mini-3b"), (r"afm.4.5b", "afm-4.5b"), (r"hunyuan.a13b", "hunyuan-a13b"), (r"dots.llm1", "dots.llm1"),
    )
)  # fmt: skip
"""Names of models in the tables, in lower case with dashes, to names that latcast knows: copies and fine-tunings of one network are one."""


def model_name(text: str) -> str:
    """Return the name that latcast knows a published model by; empty where it is none of those."""
    plain = re.sub(r"[-_ :]+", "-", text.lower())
    for pattern, name in _NAMES:
        found = re.search(pattern, plain)
        if found:
            return re.sub(r"[-_.]+(?=-)", "", found.expand(name) if "\\" in name else name).replace(".flash", "-flash").replace(".air", "-air")
    return ""


def quantisation_name(text: str) -> str:
    """Return a recipe's name as :mod:`latcast.llm.tensor_types` spells it."""
    plain = text.lower().strip().replace(" - medium", "_m").replace(" - small", "_s").replace(" - large", "_l").removeprefix("(scout) ")
    plain = re.sub(r"[ -]+[\d.]+ ?bpw", "", plain).removeprefix("ud-").replace("_xl", "_m").replace("mxfp4_moe", "mxfp4")
    return {"q2_k_s": "q2_k_s", "int4-mixed": "int4", "int8-cw": "int8", "fp16": "f16", "q4": "mlx-4bit", "4bit": "mlx-4bit"}.get(plain, plain)


def _number(text: str) -> float | None:
    return float(text) if text else None


def _noted(row: Row, pattern: str, otherwise: str = "") -> str:
    found = re.search(pattern, row["note"])
    return found[1] if found else otherwise


def _platform(device: str, runtime: str, unit: str) -> str:
    return Platform.stated(device_name(device), runtime, unit, UNSTATED).id


def _phones(row: Row) -> str:
    threads = _noted(row, r"threads (\d+)", "6")
    unit = {"cpu": f"cpu{threads}", "gpu": "gpu+opencl", "npu": "npu+hexagon"}[row["unit"]]
    return _platform(row["device"].replace("samsung-s23", "galaxy-s23"), "llama.cpp-0.12", unit)


def _edge(row: Row) -> str:
    threads = _noted(row, r"threads (\d+)", "4")
    return _platform(row["device"].partition(",")[0].replace("Mac (", "mac-"), "llama.cpp-2026.03", "gpu+metal" if row["unit"] == "gpu" else f"cpu{threads}")


def _apple(row: Row) -> str:
    runtime = {"core-ai": "coreai", "mlx-swift": "mlx"}.get(row["runtime"].lower(), row["runtime"].lower())
    return _platform("mac-m4-max" if row["device"] != "iPhone 17 Pro" else row["device"], runtime, "gpu+metal" if row["unit"] == "gpu" else "npu+ane")


def _strix(row: Row) -> str:
    backend = "vulkan" if "vulkan" in row["runtime"] else "rocm"
    return _platform("ryzen-ai-max-395", "llama.cpp", f"gpu+{backend}")


TABLES: Mapping[str, Callable[[Row], str]] = {
    "pocketpal_phones": _phones,
    "krisdcosta_pixel_m4_x86": _edge,
    "apple_silicon_bench": _apple,
    "openvino_laptops": lambda row: _platform(row["chip"], "openvino", "gpu"),
    "aihub_llm": lambda row: _platform(re.sub(r" (QRD|ADP|\(Proxy\))$", "", row["device"]), "qairt", "npu"),
    "ghost91_4070laptop": lambda row: _platform("rtx-4070-laptop", "llama.cpp-2026.05", "gpu+cuda"),
    "ik_llama_164": lambda row: _platform(row["chip"], "llama.cpp-b4384", row["unit"]),
    "lhl_strix_halo": _strix,
}
"""Table to the platform that a row of it is of."""


def why_left_out(table: str, row: Row) -> str:
    """Return why a row is not used, in words; empty where it is."""
    note, runtime, made = row["note"], row["runtime"], _number(row["generated_tokens"]) or 0
    reasons = {
        f"licence '{row['licence']}'": row["licence"] not in LICENCES,
        "its source calls it unreliable": "UNRELIABLE" in note,
        "the cache is quantised": bool(re.search(r"kv q", note)),
        "layers are shared between two units": "+" in row["unit"],
        "the phone was throttled by a run of minutes": made > 2000 and "Halo" not in row["device"],
        "the phone was throttled": "thermal serious" in note,
    }
    if table == "aihub_llm":
        reasons["an older release of one that is there, or without its context"] = not re.match(r"v0\.4\d.*context \d", note)
        reasons["the time is of 1024 tokens, not of one chunk"] = row["ttft_ms"] == "1440.0"
        reasons["bits of activations are not stated"] = row["quantisation"] == "w4"
    if table == "apple_silicon_bench":
        reasons["its quantisation is not stated"] = row["quantisation"].lower() not in ("q4", "4bit", "q4_k_m")
    if table == "ik_llama_164":
        reasons["a fork with kernels of its own"] = "ik_llama" in runtime
    if table == "lhl_strix_halo":
        reasons["the unit is not the GPU's own"] = row["unit"] != "gpu" or row["parameters"] == "0.00B"
        reasons["another setting of the runtime than its usual one"] = (
            not re.search(r"fa (-fa )?1", note) or "batch default" not in note or "hipblaslt 0" not in note or "depth 0" not in note
            or not re.search(r"-(vulkan|vulkan_radv|rocwmma) ", runtime)
        )
        reasons["too few tokens for one speed"] = max(_number(row["prompt_tokens"]) or 0, made) < 128
    return next((reason for reason, holds in reasons.items() if holds), "")


def read_speeds(folder: Path) -> tuple[list[SpeedMeasurement], Counter[str]]:
    """Return the measurements in a folder of tables, duplicates merged, and how many rows were left out for each reason.

    Raises:
        DatasetError: None of the tables is there.
    """
    found: list[SpeedMeasurement] = []
    left_out: Counter[str] = Counter()
    files = [file for table in TABLES if (file := folder / f"{table}.csv").exists()]
    if not files:
        raise DatasetError(f"{folder} holds no table of speeds; expected one of {', '.join(f'{table}.csv' for table in TABLES)}")
    for file in files:
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                reason = why_left_out(file.stem, row)
                name = model_name(row["model"])
                if reason or not name:
                    left_out[reason or "a model that latcast does not know"] += 1
                else:
                    found.append(_measurement(file.stem, row, name))
    steady, unsteady = _steady(merged(found))
    left_out["a longer context is faster, or speeds jump by half between neighbours"] += unsteady
    return steady, left_out


def _measurement(table: str, row: Row, name: str) -> SpeedMeasurement:
    prompt, made = _number(row["prompt_tokens"]), _number(row["generated_tokens"]) or 0
    prefill, first_ms = _number(row["prefill_tokens_per_s"]), _number(row["ttft_ms"])
    quantisation = quantisation_name(row["quantisation"])
    context = (prompt or 0) + made / 2
    if table == "aihub_llm":
        # The time to the first token is of one chunk of 128 tokens; the cache is read whole whatever it holds.
        prompt, prefill, first_ms = 128, 128e3 / first_ms if first_ms else None, None
        context = float(_noted(row, r"context (\d+)", "4096"))
    elif table in ("ghost91_4070laptop", "ik_llama_164"):
        context = 64.0  # llama-bench generates from an empty cache
    elif table == "lhl_strix_halo":
        quantisation = "mxfp4" if name.startswith("gpt-oss") else quantisation
    elif table == "apple_silicon_bench" and (prompt or 0) < 100:
        prefill = None  # dominated by starting up
    return SpeedMeasurement(
        name, quantisation, TABLES[table](row), row["chip"], int(prompt) if prompt and prefill else None, max(context, 16.0),
        prefill, _number(row["decode_tokens_per_s"]), first_ms, _number(row["memory_mb"]), row["source"], row["licence"], row["note"],
    )  # fmt: skip


def _steady(measurements: Sequence[SpeedMeasurement]) -> tuple[list[SpeedMeasurement], int]:
    """Return measurements without sweeps over contexts in which neighbours differ by half or more; and how many those held.

    A token takes longer the more tokens it attends to, by a few percent from one context to the next.
    """
    sweeps: dict[tuple[str, str, str], list[SpeedMeasurement]] = {}
    for each in measurements:
        sweeps.setdefault((each.platform, each.model, each.quantisation), []).append(each)
    kept: list[SpeedMeasurement] = []
    for sweep in sweeps.values():
        speeds = [each.decode_tokens_per_s for each in sorted(sweep, key=lambda each: each.context_tokens) if each.decode_tokens_per_s]
        jumps = sum(max(a, b) > 1.5 * min(a, b) for a, b in zip(speeds, speeds[1:], strict=False))
        if len(speeds) < 5 or jumps < 0.2 * len(speeds):
            kept += sweep
    return kept, len(measurements) - len(kept)


def attribution(measurements: Iterable[SpeedMeasurement]) -> list[str]:
    """Return the sources of measurements with their licences, sorted."""
    return sorted({f"{each.source} ({each.licence})" for each in measurements})
