"""How a platform and a network are described to the model of devices: covariates of the chip, kernels under one set of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from latcast.chips.chip_names import ONE_CORE, chip_of, facts, vendor_of
from latcast.chips.chip_table import Chip, chips
from latcast.devices.device_model import INTERCEPT, KINDS
from latcast.errors import DatasetError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, unit_kind
from latcast.kernels.search import find_kernels
from latcast.predictors.platform_names import usual_runtime
from latcast.records import Platform, Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build, why_not

USUAL: Mapping[str, float] = {
    "year": 0.0, "log2_bandwidth_gb_s": 5.0, "log2_ghz": 1.2, "log2_cluster_cores": 2.0, "log2_cores": 3.0, "log2_simd_bits": 7.0,
    "log2_fma_bits": 8.0, "log2_peak": 11.2, "log2_gpu_fma": 9.0, "log2_gpu_ghz": 0.0, "log2_gpu_gflops": 9.0, "log2_tops": 4.0,
}  # fmt: skip
"""About the middle of each fact."""

_OF_ANY = {"year": "year", "log2_bandwidth_gb_s": "memory bandwidth", "log2_ghz": "CPU clock"}

FACTS: Mapping[str, Mapping[str, str]] = {
    "cpu": {**_OF_ANY, "log2_cores": "cores", "log2_simd_bits": "width of vectors", "log2_fma_bits": "arithmetic of a core"},
    "gpu": {**_OF_ANY, "log2_gpu_fma": "GPU arithmetic a cycle", "log2_gpu_ghz": "GPU clock", "log2_gpu_gflops": "GPU peak"},
    "npu": {**_OF_ANY, "log2_tops": "TOPS"},
}
"""Kind of unit to the facts that are filled in where they are not known, and what they are called."""

ONE_THREAD = "xnnpack"
"""A library that computes in one thread unless it is told a number; others take all cores."""

LOG2_MOST_THREADS = 4.0
"""Logarithm of the threads, 16, beyond which more hardly shorten the latency of one image."""

INTERCEPT_RIDGE, FACT_RIDGE, TRAIT_RIDGE = 1e-3, 0.3, 2.0
"""Chips without an effect that each counts as when facts are filled in."""


def network_kernels(network: Reference | Graph, rules: FusionRules) -> tuple[Kernel, ...]:
    """Find the kernels of a network under a runtime's rules.

    Raises:
        DatasetError: Only the network's name is known.
        LatcastError: It cannot be built.
    """
    if isinstance(network, Graph):
        return tuple(find_kernels(network, rules))
    if not can_build(network):
        raise DatasetError(f"the kernels of '{network.name or network.key}' are not known: {why_not(network)}")
    return tuple(find_kernels(build(network), rules))


def covariates_of(platform: Platform, kind: str, device_text: str = "", chip_text: str = "") -> dict[str, float]:
    """Return a platform's covariates: kind, runtime, precision, threads, facts of its chip, the peak of a CPU's threads in fp32.

    Args:
        platform: Its device is looked up in the table of chips where no text is given.
        kind: Of its unit.
        device_text, chip_text: What it is called, for :func:`latcast.chips.chip_names.chip_of`.
    """
    chip = chip_of(device_text or platform.device, chip_text, kind, vendor_of(platform))
    runtime = usual_runtime(platform.runtime)
    route = _route(platform, runtime, chip) if kind == "npu" else ""
    runtime = f"{runtime} {route}" if route else runtime
    found = {INTERCEPT: 1.0, f"kind {kind}": 1.0, f"runtime {runtime}": 1.0, f"precision {kind} {platform.precision}": 1.0}
    known = filled_in(chip, kind, platform.unit) if chip is not None else {}
    for name, value in known.items():
        found[f"{kind} {name}"] = value - USUAL.get(name, 0.0)
    if kind == "cpu":
        stated = any(character.isdigit() for character in platform.unit.partition("+")[0])
        unstated = 0.0 if ONE_THREAD in platform.unit.split("+") else known.get("log2_cores", 2.0)
        threads = float(np.log2(platform.threads)) if stated else unstated
        found["cpu threads"] = threads
        found["cpu threads stated"] = float(stated)
        if known:
            peak = known["log2_fma_bits"] + known["log2_ghz"] + min(threads, LOG2_MOST_THREADS)
            found["cpu log2_peak"] = peak - USUAL["log2_peak"]
    return found


ROUTES: Mapping[str, tuple[str, str]] = {
    "qairt": ("qnn_dlc", ""), "hailo-dfc": ("hailo", ""), "onnxruntime": ("onnx", ""), "tflite": ("qairt-2.42.0", "Qualcomm"),
}  # fmt: skip
"""Runtime to its usual route to an NPU, as known platforms call it, and the vendor to whose NPUs alone it leads."""


def _route(platform: Platform, runtime: str, chip: Chip | None) -> str:
    """Return the route by which a runtime reaches an NPU, the usual one in any version, or another that the unit says."""
    said = platform.unit.partition("+")[2].removeprefix(f"{ONE_CORE}+").split("+")[0]
    usual, vendor = ROUTES.get(runtime, ("", ""))
    leads_there = not vendor or (chip is not None and chip.vendor == vendor)
    return usual if said.partition("-")[0] == usual.partition("-")[0] or (leads_there and not said) else said


def filled_in(chip: Chip, kind: str, unit: str = "") -> Mapping[str, float]:
    """Return the facts of a chip's unit, those of :data:`FACTS` that are not known as chips alike in the others have them.

    Alike in the known facts, and in the vendor, the core's design, and the family and kind of memory.

    Args:
        chip, kind, unit: As for :func:`latcast.chips.chip_names.facts`.
    """
    known = facts(chip, kind, unit)
    given = tuple(name for name in FACTS[kind] if name in known)
    found = dict(known)
    for name in FACTS[kind]:
        if name not in known:
            traits, effects = _effects_on(name, kind, given)
            found[name] = float(_row(known, given, traits) @ effects)
    return found


def _row(known: Mapping[str, float], given: Sequence[str], traits: Sequence[str]) -> np.ndarray:
    return np.array([1.0, *(known[name] for name in given), *(known.get(name, 0.0) for name in traits)])


@cache
def _effects_on(fact: str, kind: str, given: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    """Regress a fact of the table's units of a kind on others and on traits; return the traits, and the effects of all."""
    units = (facts(chip, kind) for chip in chips().values() if getattr(chip, kind))
    listed = [known for known in units if fact in known and all(name in known for name in given)]
    traits = tuple(sorted({name for known in listed for name in known if "=" in name}))
    rows = np.array([_row(known, given, traits) for known in listed])
    ridge = np.diag([INTERCEPT_RIDGE, *[FACT_RIDGE] * len(given), *[TRAIT_RIDGE] * len(traits)])
    return traits, np.linalg.solve(rows.T @ rows + ridge, rows.T @ np.array([known[fact] for known in listed]))


def kind_of(platform: Platform, environment: Mapping[str, Any]) -> str:
    """Return the kind of unit: as the environment states it, else by the unit's name."""
    stated = environment.get("unit_kind") or unit_kind(platform.unit)
    if stated not in KINDS:
        raise DatasetError(f"the unit '{platform.unit}' of {platform.id} is of no known kind; expected one of {', '.join(KINDS)}")
    return str(stated)
