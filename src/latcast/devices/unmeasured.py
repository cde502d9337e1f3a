"""Predictors of platforms where nothing was measured, from what is known of their chip."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from latcast.chips.chip_names import SAME_FAMILY, SAME_SILICON, chip_of, chips_of, nearest, vendor_of
from latcast.chips.chip_table import Chip, Device
from latcast.devices.added_device import add_device
from latcast.devices.device_model_file import load_device_model
from latcast.devices.measured_networks import MeasuredNetworks
from latcast.errors import LatcastError, UnknownPlatformError
from latcast.predictors.platform_names import (
    LIBRARIES,
    NATURAL_PRECISIONS,
    Named,
    names_of_runtime,
    platforms_of,
    words_of_platform,
)
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import PUBLISHED_PRECISIONS, UNIT_KINDS, Platform, Unit, device_name, runtime_and_version

USUAL = {
    "cpu": "any/tflite-unstated/cpu4/fp32", "gpu": "any/tflite-unstated/gpu/fp16", "npu": "any/tflite-unstated/npu/int8",
}  # fmt: skip
"""What networks run with on a kind of unit, where nothing else is said."""

USUAL_OF_VENDOR = {
    ("NVIDIA", "gpu"): "any/tensorrt-unstated/gpu/fp16",
    **dict.fromkeys((("AMD", "gpu"), ("Broadcom", "gpu"), ("Intel", "gpu")), "any/ncnn-unstated/gpu/fp32"),
    **dict.fromkeys((("AMD", "cpu"), ("Intel", "cpu")), "any/onnxruntime-unstated/cpu/fp32"),
}
"""The same of vendors on whose units people run others: computers' CPUs take as many threads as the runtime chooses."""


def unmeasured_platforms(named: Named, known: Sequence[str]) -> list[PlatformPredictor]:
    """Return predictors of a device of which only the chip is known: of each kind of unit that it has, or of that which is said.

    Runtime, threads and precision are those that are said; the rest is :data:`USUAL`, or as on a GPU of its silicon or an NPU of
    its family. Units that no known platform has under the runtime that is said are left out, and more threads than cores.

    Args:
        named: What the user named.
        known: Ids of all platforms.

    Returns:
        None of a whole id that is not well formed, or whose device has known platforms under this runtime: one may be meant.

    Raises:
        UnknownPlatformError: The id's device may have one of several chips, or is not in the table of chips; or only the CPU of a
            microcontroller is named.
    """
    if named.is_id:
        runtime = runtime_and_version(named.said[0])[0]
        if named.platforms or any(
            Platform.parse(name).runtime == runtime for name in platforms_of(named.device, named.entries, known)
        ):
            return []
        try:
            platform = Platform.stated(named.device, *named.said)
        except LatcastError:
            return []
        _raise_if_unknown(platform, named.entries)
        return [_predictor(platform, named.device)]
    platforms = [Platform.parse(name) for name in known]
    runtimes = {name for each in platforms for name in names_of_runtime(each.runtime)}
    kinds = _kinds_meant(named.said, platforms)
    found, answered, too_small = [], set[tuple[str, str]](), ""
    for entry in named.entries:
        having = {kind: chip for chip in reversed(chips_of(entry)) for kind in UNIT_KINDS if chip.has(kind)}
        for kind, chip in ((kind, having[kind]) for kind in UNIT_KINDS if kind in having):
            if kind in kinds and kind == "cpu" and chip.is_microcontroller:
                too_small = chip.name
            elif kind in kinds and (kind, chip.id) not in answered:
                answered.add((kind, chip.id))  # devices with the same chip are answered alike
                usual = _usual(chip, kind, named.said, platforms)
                like = _with(usual, device_name(entry.name), named.said, runtimes)
                unit = Unit.parse(like.unit)
                if unit.kind == "cpu" and chip.cores is not None and chip.cores < unit.threads:
                    like = replace(like, unit=f"cpu{chip.cores}")
                found.append(_predictor(like, entry.name))
    if too_small and not found:
        raise UnknownPlatformError(
            f"{too_small} is a microcontroller, and no network was measured on the CPU of any; time some there and add the "
            "device: latcast device add NAME --unit cpu1 --runtime tflite-micro --precision int8 --measured latencies.csv"
        )
    return found


def _kinds_meant(said: Sequence[str], known: Sequence[Platform]) -> set[str]:
    """Return the kinds of units that are said, or else that known platforms have under the runtime that is said, or else all."""
    mentioned = {Unit.parse(word).kind for word in said}.intersection(UNIT_KINDS)
    runtimes = {name for word in said for name in names_of_runtime(runtime_and_version(word)[0])}
    under = {Unit.parse(each.unit).kind for each in known if each.runtime in runtimes}.intersection(UNIT_KINDS)
    return mentioned or under or set(UNIT_KINDS)


def _raise_if_unknown(platform: Platform, entries: Sequence[Device | Chip]) -> None:
    if chip_of(platform.device, "", Unit.parse(platform.unit).kind, vendor_of(platform)) is None:
        may_be = ", ".join(device_name(each.name) for each in entries)
        instead = f"it may be {may_be}; name one of these" if may_be else "name the chip in its place"
        raise UnknownPlatformError(
            f"nothing was measured on '{platform.device}', and its chip is not known; {instead} (latcast platforms --find), or "
            "add the device from a few timed networks: latcast device kit"
        )


def _usual(chip: Chip, kind: str, said: Sequence[str], known: Sequence[Platform]) -> Platform:
    """Return a platform like that which people have on a kind of unit, of those that what is said allows."""
    usual = Platform.parse(USUAL_OF_VENDOR.get((chip.vendor, kind), USUAL[kind]))
    if kind == "cpu":
        return usual
    order, farthest = nearest(chip, kind), SAME_SILICON if kind == "gpu" else SAME_FAMILY
    relatives = [
        each for each in known if Unit.parse(each.unit).kind == kind and order(chip_of(each.device, "", kind))[0] <= farthest
    ]
    allowed = [each for each in relatives if words_of_platform(each.id).issuperset(said)]
    natural = [each for precision in NATURAL_PRECISIONS[kind] for each in allowed if each.precision == precision]
    return min(natural, key=lambda each: order(chip_of(each.device, "", kind)), default=usual)


def _with(like: Platform, device: str, said: Sequence[str], runtimes: Collection[str]) -> Platform:
    """Return the platform of a device that runs as another does, but for the runtime, threads and precision that are said."""
    found = replace(like, device=device)
    for word in said:
        runtime, version = runtime_and_version(word)
        if word in PUBLISHED_PRECISIONS:
            found = replace(found, precision=word)
        elif word in words_of_platform(like.id) or word in UNIT_KINDS:
            pass
        elif re.fullmatch(r"cpu\d+", word):
            found = replace(found, unit=word)
        elif runtime in runtimes and runtime not in LIBRARIES.get(like.runtime, ()):
            found = replace(found, runtime=runtime, runtime_version=version)
        else:  # a library of kernels, or a size of cores
            found = replace(found, unit=f"{found.unit}+{word}")
    return found


def _predictor(platform: Platform, device: str) -> PlatformPredictor:
    found = add_device(platform, MeasuredNetworks(()), load_device_model(), device_text=device)
    card = dict(found.predictor.card)
    card["warning"] = f"{card['warning']}; a few networks timed there narrow it: latcast device kit"
    return found.predictor.with_card(card)
