"""Published speeds of language models: tables of one schema, a row a measurement, read into :class:`SpeedMeasurement`.

Rows that cannot be right, or do not say what was measured, are left out; :func:`why_left_out` has each reason.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from latcast.errors import DatasetError, ModelError
from latcast.llm.reading import is_language_model, read_language_model
from latcast.llm.speeds import SpeedMeasurement, merged
from latcast.records import UNSTATED, Platform, device_name

LICENCES = ("MIT", "Apache-2.0", "BSD-3-Clause", "CC-BY-4.0")
"""Licences under which learned prices may be shipped, with the sources named."""

Row = Mapping[str, str]


@cache
def model_name(text: str) -> str:
    """Return latcast's name of a published model; empty where it has none."""
    try:
        return read_language_model(text).name if is_language_model(text) else ""
    except ModelError:
        return ""


_QUANTISATIONS: Mapping[str, str] = {
    "int4-mixed": "int4", "int8-cw": "int8", "fp16": "f16", "q4": "mlx-4bit", "4bit": "mlx-4bit", "mxfp4_moe": "mxfp4",
    "q8_k_m": "q8_0",
}  # fmt: skip


def quantisation_name(text: str) -> str:
    """Return a recipe's name as :mod:`latcast.llm.tensor_types` spells it: "Q4_K - Medium" is ``q4_k_m``."""
    plain = re.sub(r"^\(scout\) |^ud-|[ -]+[\d.]+ ?bpw", "", text.lower().strip())
    plain = re.sub(r" - (medium|small|large)$|_(x)l$", lambda found: f"_{(found[1] or 'm')[0]}", plain)
    return _QUANTISATIONS.get(plain, plain)


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
    return _platform(
        row["device"].partition(",")[0].replace("Mac (", "mac-"),
        "llama.cpp-2026.03",
        "gpu+metal" if row["unit"] == "gpu" else f"cpu{threads}",
    )


def _apple(row: Row) -> str:
    runtime = {"core-ai": "coreai", "mlx-swift": "mlx"}.get(row["runtime"].lower(), row["runtime"].lower())
    return _platform(
        "mac-m4-max" if row["device"] != "iPhone 17 Pro" else row["device"],
        runtime,
        "gpu+metal" if row["unit"] == "gpu" else "npu+ane",
    )


def _strix(row: Row) -> str:
    """Return the platform of a backend in an early or a later release, of the builds 6021 to 6111: it doubled ROCm's prompts."""
    backend = "vulkan" if "vulkan" in row["runtime"] else "rocm"
    return _platform("ryzen-ai-max-395", f"llama.cpp-b{5863 if ' 5863 ' in row['runtime'] else 6077}", f"gpu+{backend}")


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
            not re.search(r"fa (-fa )?1", note)
            or "batch default" not in note
            or "hipblaslt 0" not in note
            or "depth 0" not in note
            or not re.search(r"-(vulkan|vulkan_radv|rocwmma) ", runtime)
        )
        reasons["too few tokens for one speed"] = max(_number(row["prompt_tokens"]) or 0, made) < 128
    return next((reason for reason, holds in reasons.items() if holds), "")


def read_speeds(folder: Path) -> tuple[list[SpeedMeasurement], Counter[str]]:
    """Return the measurements in a folder of tables, duplicates merged, and how many rows were left out for each reason.

    Raises:
        DatasetError: None of the tables is there.
    """
    found, left_out = read_rows(folder)
    steady, unsteady = _steady(merged(found))
    left_out["speeds jump by half from one context to the next"] += unsteady
    return steady, left_out


def read_rows(folder: Path) -> tuple[list[SpeedMeasurement], Counter[str]]:
    """Return the measurements in a folder of tables, each repeat, and how many rows were left out for each reason.

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
    return found, left_out


def _measurement(table: str, row: Row, name: str) -> SpeedMeasurement:
    prompt, made = _number(row["prompt_tokens"]), _number(row["generated_tokens"]) or 0
    prefill, decode = _number(row["prefill_tokens_per_s"]), _number(row["decode_tokens_per_s"])
    first_ms = _number(row["ttft_ms"])
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
    elif table == "apple_silicon_bench" and ((prompt or 0) < 100 or (prefill or 0) < 2 * (decode or 0)):
        prefill = None  # dominated by starting up: many tokens of a prompt are read at once
    return SpeedMeasurement(
        name, quantisation, TABLES[table](row), row["chip"], int(prompt) if prompt and prefill else None, max(context, 16.0),
        prefill, decode, first_ms, row["source"], row["licence"],
    )  # fmt: skip


def _steady(measurements: Sequence[SpeedMeasurement]) -> tuple[list[SpeedMeasurement], int]:
    """Return measurements without the models of which a tenth of the steps between contexts jump on a platform; and their number.

    A token takes longer the more tokens it attends to, by a few percent from one context to the next: speeds that differ by half
    between neighbours were measured beside another load.
    """
    sweeps: dict[tuple[str, str], dict[str, list[float]]] = {}
    for each in sorted(measurements, key=lambda each: each.context_tokens):
        if each.decode_tokens_per_s:
            found = sweeps.setdefault((each.platform, each.model), {})
            found.setdefault(each.quantisation, []).append(each.decode_tokens_per_s)
    unsteady = set()
    for key, found in sweeps.items():
        jumping = [max(a, b) > 1.5 * min(a, b) for speeds in found.values() if len(speeds) >= 5 for a, b in pairwise(speeds)]
        if sum(jumping) > len(jumping) / 10:
            unsteady.add(key)
    kept = [each for each in measurements if (each.platform, each.model) not in unsteady]
    return kept, len(measurements) - len(kept)


def attribution(measurements: Iterable[SpeedMeasurement]) -> list[str]:
    """Return the sources of measurements with their licences, sorted."""
    return sorted({f"{each.source} ({each.licence})" for each in measurements})
