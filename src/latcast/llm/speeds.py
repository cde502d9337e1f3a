"""Measured speeds of language models, and the platforms they were measured on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from statistics import median
from typing import Any

from latcast.chips.chip_names import chip_of
from latcast.chips.chip_table import Chip, chips
from latcast.llm import read_facts
from latcast.records import Platform, Unit


@dataclass(frozen=True, slots=True)
class SpeedMeasurement:
    """Speeds of one model on one platform; what was not measured is None.

    Attributes:
        model: Name that :func:`latcast.llm.reading.read_language_model` knows.
        quantisation: Recipe of its weights: ``q4_k_m``.
        platform: Platform id.
        chip: As the source names it; empty where it does not.
        prompt_tokens: Length of the prompt.
        context_tokens: Tokens in the cache during decoding, their mean.
        prefill_tokens_per_s, decode_tokens_per_s, ttft_ms: As measured.
        source, licence: Where it was published.
    """

    model: str
    quantisation: str
    platform: str
    chip: str = ""
    prompt_tokens: int | None = None
    context_tokens: float = 64.0
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    ttft_ms: float | None = None
    source: str = ""
    licence: str = ""

    def has(self, phase: str) -> bool:
        """Return whether a phase was measured."""
        return bool(self.decode_tokens_per_s if phase == "decode" else self.prefill_tokens_per_s and self.prompt_tokens)

    def tokens(self, phase: str) -> float:
        """Return the length of the prompt, or of decoding of the context."""
        return self.context_tokens if phase == "decode" else float(self.prompt_tokens or 0)


def by_platform(measurements: Iterable[SpeedMeasurement]) -> Mapping[str, list[SpeedMeasurement]]:
    """Return the measurements of each platform, in their order."""
    found: dict[str, list[SpeedMeasurement]] = defaultdict(list)
    for each in measurements:
        found[each.platform].append(each)
    return dict(found)


def merged(measurements: Iterable[SpeedMeasurement]) -> list[SpeedMeasurement]:
    """Return one measurement, the median, for each model, platform and number of tokens."""

    def key(each: SpeedMeasurement) -> tuple[str, str, str, int, float]:
        return each.platform, each.model, each.quantisation, each.prompt_tokens or 0, each.context_tokens

    found = []
    for _, group in groupby(sorted(measurements, key=key), key):
        same = list(group)
        values: dict[str, Any] = {
            name: median(present) if (present := [value for each in same if (value := getattr(each, name)) is not None]) else None
            for name in ("prefill_tokens_per_s", "decode_tokens_per_s", "ttft_ms")
        }
        found.append(replace(same[0], **values))
    return found


_BACKENDS = {"nvidia": "cuda", "apple": "metal", "intel": "vulkan", "amd": "vulkan", "qualcomm": "opencl"}
"""What llama.cpp computes with on GPUs of a vendor."""

_X86 = re.compile(r"\b(core|xeon|ryzen|epyc|celeron|pentium|i[3579])\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Machine:
    """What prices of a platform are expected from.

    Attributes:
        platform: Platform id.
        kind: Platforms of a kind share much of their prices: ``cpu-arm``, ``gpu-opencl``, ``npu-hexagon``, ``gpu-openvino``.
        chip: Id of the chip in :mod:`latcast.chips`; empty where unknown.
        bandwidth_gb_s: Peak bandwidth of its memory; None where unknown.
        compute_tops: Peak of its unit, of int8 on CPUs and NPUs, of fp16 on GPUs; None where unknown.
        token_tops: The same of a CPU for a token, most of whose work is dealt out in equal parts; None of others.
        profiled: Whether stacks of layers were timed on it, which separate more quantities than whole models do.
    """

    platform: str
    kind: str
    chip: str = ""
    bandwidth_gb_s: float | None = None
    compute_tops: float | None = None
    token_tops: float | None = None
    profiled: bool = False


def machine_of(platform: str, chip_text: str = "") -> Machine:
    """Return what is known of a platform from its id and its chip's name."""
    parsed = Platform.parse(platform)
    unit = Unit.parse(parsed.unit)
    chip = chip_of(parsed.device, chip_text, unit.kind)
    vendor = (chip.vendor if chip else "").lower()
    known_x86 = any({"avx", "avx2"} & each.features for each in chip.cpu) if chip else _X86.search(f"{platform} {chip_text}")
    isa = "x86" if known_x86 else "arm"
    if unit.kind == "cpu":
        kind = f"cpu-{isa}" + ("+i8mm" if chip and chip.cpu and "i8mm" in chip.cpu[0].features else "")
    elif unit.kind == "gpu":
        kind = f"gpu-{_BACKENDS.get(vendor, vendor or 'vulkan')}"
    else:
        kind = "npu-hexagon" if vendor == "qualcomm" else f"npu-{parsed.runtime}"
    if unit.qualifiers:
        kind = f"{unit.kind}-{unit.qualifiers[0]}"
    elif parsed.runtime != "llama.cpp" and vendor != "apple":
        kind = f"{unit.kind}-{parsed.runtime}"
    elif vendor == "apple" and unit.kind == "npu":
        kind = "npu-ane"
    bandwidth = (chip.bandwidth_gb_s or _usual_bandwidth(chip.memory)) if chip else None
    compute, for_token = _peak_tops(chip, unit.kind, unit.threads) if chip else (None, None)
    found = read_facts("shipped/peaks.json")["peaks"].get(f"{parsed.device}/{unit.kind}", (None, None))
    return Machine(platform, kind, chip.id if chip else "", found[0] or bandwidth, found[1] or compute, for_token)


@cache
def _usual_bandwidth(memory: str | None) -> float | None:
    """Return the bandwidth that a quarter of the chips with a kind of memory stay below: most that state none are small."""
    found = sorted(chip.bandwidth_gb_s for chip in chips().values() if chip.bandwidth_gb_s and chip.memory == memory)
    return found[len(found) // 4] if memory and found else None


_OPERATIONS = {frozenset({"i8mm", "amx"}): 4.0, frozenset({"dotprod", "vnni"}): 2.0, frozenset({"avx2"}): 1.0}
"""Operations on int8 of a cycle for each byte that fused multiply-adds take, by the best instructions of a core."""

_DEALT_EVENLY = 0.75
"""Part of a token's work, in logarithms, that cores take in equal parts; of the rest each takes more as it gets free."""


def _peak_tops(chip: Chip, unit_kind: str, threads: int) -> tuple[float | None, float | None]:
    """Return the peak of a chip's unit in 10^12 operations a second; of a CPU, of its fastest ``threads`` cores.

    The second is a CPU's for a token: where cores take equal parts, the slowest one decides.
    """
    if unit_kind == "gpu":
        return 2 * chip.gpu_gflops / 1000 if chip.gpu_gflops else None, None
    if unit_kind == "npu":
        return chip.npu_tops, None
    each: list[float] = []
    for cluster in chip.cpu:
        lanes = (cluster.fma_bits or (cluster.simd_bits or 128) * (1 if cluster.in_order else 2)) / 8
        of_lane = next((operations for names, operations in _OPERATIONS.items() if cluster.features & names), 0.5)
        each += (cluster.cores or 1) * [(cluster.ghz or 2.0) * lanes * of_lane / 1000]
    used = each[:threads]
    whole, even = sum(used), len(used) * min(used, default=0.0)
    return whole or None, even**_DEALT_EVENLY * whole ** (1 - _DEALT_EVENLY) or None


def machines_of(measurements: Sequence[SpeedMeasurement]) -> dict[str, Machine]:
    """Return the machine of each platform that was measured."""
    return {each.platform: machine_of(each.platform, each.chip) for each in measurements}
