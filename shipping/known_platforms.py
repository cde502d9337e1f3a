"""The pool: every platform whose latencies of whole networks are at hand, as the model of devices is fitted to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latcast.chips.chip_names import chip_of, silicon
from latcast.chips.chip_table import chips
from latcast.datasets.importers import IMPORTERS
from latcast.devices.covariates import covariates_of, kind_of
from latcast.devices.device_model import KINDS, KnownPlatform
from latcast.environment import MOMENT
from latcast.errors import LatcastError
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.predictors.network_features import RULES, UNFOLDED_RULES, NetworkFeatures, network_rules
from latcast.records import Measurement, Platform, Reference, Unit
from latcast.spaces import build
from latcast.spaces.catalogue import SYNTHETIC_NAMES
from latcast.spaces.lineages import lineage_of
from latcast.spaces.measured_only import can_build

DATASETS = (
    "mlperf", "timm", "paddle", "aihub", "netspresso", "ti", "hailo", "rknn", "renesas_drpai", "mmdeploy", "xnnpack", "iiswc20",
    "usc", "ncnn_boards",
)  # fmt: skip
"""Published datasets of measured latencies of whole networks."""

LEAST_SHARE_ON_UNIT = 0.98
"""Part of a network's layers that must run on the NPU for its latency to be the NPU's: one layer in twenty on the CPU can make a
network forty times as slow."""

UNLIKE: Mapping[str, frozenset[str]] = {
    "renesas_drpai": frozenset({"cpu"}),  # TVM's loops without vectors: ResNet-18 takes half a minute.
}
"""Dataset to kinds of units whose latencies tell nothing of others."""

LEAST_MS = 0.02
"""A shorter latency is mostly that of the clock that took it."""

LEAST_STEPS = 4
"""Steps of a rounded latency: rounding a shorter one changes it by more than an eighth."""


@dataclass(frozen=True)
class KnownPlatforms:
    """A pool.

    Attributes:
        platforms: Their networks are indices into ``references``.
        references: Networks.
        features: Of the networks.
        lineages: (networks,) what each is held out with; "" for those of a synthetic space, each of which is held out alone.
        left_out: Reason to how many latencies were left out for it.
    """

    platforms: tuple[KnownPlatform, ...]
    references: tuple[Reference, ...]
    features: NetworkFeatures
    lineages: tuple[str, ...]
    left_out: Mapping[str, int]


def read_datasets(folder: Path, names: Sequence[str] = DATASETS) -> Iterable[tuple[str, Measurement]]:
    """Read measurements of whole networks of the published datasets in a folder, with the dataset's name."""
    for name in names:
        if (folder / name).is_dir():
            for item in IMPORTERS.get(name).read(folder / name).measurements:
                if item.role == "network":
                    yield name, item


def known_platforms(
    measurements: Iterable[tuple[str, Measurement]], watch: Callable[[str, int, int], None] = lambda *_: None
) -> KnownPlatforms:
    """Collect the pool of some measurements.

    Left out, and counted: networks without a graph, latencies of batches, those that are rounded too far, and those of networks
    that partly ran on another unit.

    Args:
        measurements: Dataset or other source, and measurement.
        watch: Told of every network that is built.
    """
    left_out: dict[str, int] = {}
    cells: dict[tuple[str, str], dict[str, list[float]]] = {}
    about: dict[tuple[str, str], KnownPlatform] = {}
    references: dict[str, Reference] = {}
    keys: dict[int, tuple[Reference, str]] = {}
    for source, item in measurements:
        reason = _why_left_out(source, item)
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        # Records of one import share their references, and hashing one is the costly part.
        if id(item.reference) not in keys:
            keys[id(item.reference)] = (item.reference, item.reference.key)
        _, key = keys[id(item.reference)]
        place = (source, item.platform)
        if place not in about:
            about[place] = _described(source, item)
        references.setdefault(key, item.reference)
        cells.setdefault(place, {}).setdefault(key, []).append(float(item.latency_ms or 0.0))
    unfolds = {place: network_rules(Platform.parse(each.name)).standardises for place, each in about.items()}
    kernels: dict[tuple[str, bool], tuple[Kernel, ...]] = {}
    for done, (key, reference) in enumerate(references.items()):
        watch("reading networks", done, len(references))
        try:
            kernels |= _kernels(key, reference, {unfolds[place] for place, listed in cells.items() if key in listed})
        except LatcastError:
            left_out["the network cannot be built"] = left_out.get("the network cannot be built", 0) + 1
    watch("reading networks", len(references), len(references))
    index = {found: place for place, found in enumerate(kernels)}
    features = NetworkFeatures.of(list(kernels.values()))
    platforms = []
    for place, each in about.items():
        where = {key: index.get((key, unfolds[place]), index.get((key, False))) for key in cells[place]}
        known = {row: cells[place][key] for key, row in where.items() if row is not None}
        if known:
            rows = np.array([*known])
            log_ms = np.log([float(np.median(values)) for values in known.values()])
            if _impossible(each, features.totals[rows, 0], log_ms):
                why = "its platform would compute faster than its chip can"
                left_out[why] = left_out.get(why, 0) + len(rows)
                continue
            platforms.append(
                KnownPlatform(each.name, each.kind, each.silicon, each.covariates, rows, log_ms, each.source)
            )  # fmt: skip
    listed = tuple(references[key] for key, _ in kernels)
    return KnownPlatforms(tuple(platforms), listed, features, tuple(lineage_or_none(each) for each in listed), left_out)


def _kernels(key: str, reference: Reference, ran: Collection[bool]) -> dict[tuple[str, bool], tuple[Kernel, ...]]:
    """Return a network's kernels by its key and whether constants are not folded, where that makes a difference.

    Args:
        key: Of the reference.
        reference: The network.
        ran: Of each platform that ran it, whether it does not fold constants.

    Raises:
        LatcastError: It cannot be built.
    """
    graph = build(reference)
    used = set(ran) if graph.standardised else {False}
    return {(key, each): find_kernels(graph, load_rules(UNFOLDED_RULES if each else RULES)) for each in sorted(used)}


LEAST_FLOPS, PEAKS = 5e8, 4.0
"""FLOPs of a network whose throughput is compared with the chip's peak in fp32; more times that than any precision reaches."""


def _impossible(platform: KnownPlatform, flops: np.ndarray, log_ms: np.ndarray) -> bool:
    """Return whether a GPU would be several times as fast as its peak, as with drivers that return early."""
    chip = chips().get(platform.silicon)
    if platform.kind != "gpu" or chip is None or chip.gpu_gflops is None:
        return False
    gflops = flops / np.exp(log_ms) * 1e-6
    return bool((gflops[flops > LEAST_FLOPS] > PEAKS * chip.gpu_gflops).any())


def _described(source: str, item: Measurement) -> KnownPlatform:
    platform = Platform.parse(item.platform)
    kind = kind_of(platform, item.environment)
    device_text, chip_text = named_in(platform.device, item.environment)
    return KnownPlatform(
        platform.id, kind, silicon(device_text, chip_text, kind), covariates_of(platform, kind, device_text, chip_text),
        np.zeros(0, dtype=int), np.zeros(0), source,
    )  # fmt: skip


def named_in(device: str, environment: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of device and chip in a measurement's platform and environment, for :func:`chip_of`.

    Importers put the chip in ``chip``, or in ``device`` as ``soc``, the device in ``device`` as ``name``, ``board`` or ``model``;
    measurements from here have ``host``.
    """
    known = environment.get("device")
    known = known if isinstance(known, Mapping) else {}
    host = environment.get("host")
    cpu = host.get("cpu") if isinstance(host, Mapping) else None
    model = cpu.get("model") if isinstance(cpu, Mapping) else None
    chip = environment.get("chip") or known.get("soc") or model or ""
    return str(known.get("name") or known.get("board") or known.get("model") or device), str(chip)


def _why_left_out(source: str, item: Measurement) -> str:
    """Return why a measurement is left out; "" where it is a latency of a network on its platform."""
    if not item.ok or item.latency_ms is None:
        return "it failed"
    if item.latency_ms < LEAST_MS:
        return f"it is shorter than {LEAST_MS} ms"
    if item.latency_ms < LEAST_STEPS * item.environment.get("dataset", {}).get("rounded_ms", 0.0):
        return f"it is rounded, and shorter than {LEAST_STEPS} steps"
    if "+b" in item.platform and Unit.parse(item.platform.split("/")[2]).batch > 1:
        return "it is of a batch"
    moment = item.environment.get(MOMENT) or {}
    layers = [moment.get(f"{unit}_layers") for unit in KINDS]
    counts = dict(zip(KINDS, (float(count) if isinstance(count, int | float) else 0.0 for count in layers), strict=True))
    kind = item.environment.get("unit_kind")
    if kind in UNLIKE.get(source, ()):
        return "its unit ran code that was not optimised"
    if sum(counts.values()) and kind in counts and counts[kind] < LEAST_SHARE_ON_UNIT * sum(counts.values()):
        return "more than a fiftieth of its layers ran on another unit"
    platform = Platform.parse(item.platform)
    if kind == "gpu" or platform.unit.startswith("gpu"):
        if platform.runtime == "ncnn" and platform.precision == "int8":
            return "ncnn runs quantised networks on the CPU"
        chip = chip_of(*named_in(platform.device, item.environment), "gpu")
        if chip is not None and not chip.has("gpu"):
            return "its chip has no GPU, so that another unit ran it"
    if not can_build(item.reference):
        return "its network has no graph"
    return ""


def lineage_or_none(reference: Reference) -> str:
    """Return the lineage of a network; "" for one of a synthetic space, which is held out alone."""
    return "" if reference.space in SYNTHETIC_NAMES else lineage_of(reference)
