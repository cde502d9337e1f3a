"""Measurements from tools' timings: their network and their platform."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath

from latcast.datasets.importers.benchmark_tools.manifest import KitManifest
from latcast.datasets.importers.ncnn_boards import SPACE as NCNN_BENCHMARK
from latcast.environment import MOMENT
from latcast.errors import LatcastError, ModelError, UnknownNameError, abridged
from latcast.networks import resolve_model
from latcast.predictors.platform_names import collection_of
from latcast.records import UNSTATED, ExecutedKernel, Measurement, Platform, Reference, Unit, device_name
from latcast.runtimes.benchmark_tools.output import Section, Timing, ToolReader, network_name
from latcast.runtimes.benchmark_tools.readers import NcnnReader
from latcast.runtimes.benchmark_tools.tflite_nodes import executed_by
from latcast.spaces.catalogue import build, resized
from latcast.spaces.catalogue import model as published_model
from latcast.spaces.model_names import find_in_any_spelling
from latcast.spaces.published_names import network_called, network_in

MOST_UNSIZED = 20
"""Networks that a note on images' sizes names."""

PLATFORM_FORM = "device/runtime-version/unit/precision"


class NetworkNames:
    """Networks by tools' names for them: those of the kit that was run, published ones, files, and ncnn's own."""

    def __init__(self, kit: KitManifest | None) -> None:
        self.kit = kit
        self.notes: dict[str, None] = {}
        self._references: dict[tuple[object, ...], Reference | None] = {}
        self._unsized: dict[str, None] = {}

    def all_notes(self) -> tuple[str, ...]:
        """Return what was assumed and left out, a sentence each."""
        if not self._unsized:
            return tuple(self.notes)
        listed = abridged([*self._unsized], MOST_UNSIZED)
        return (*self.notes, f"left out, as not known for images of the size that the table states, {listed}: give model files")

    def reference(self, reader: ToolReader, section: Section, timing: Timing, platform: Platform) -> Reference | None:
        """Return the network that was run on a platform, or raise a DatasetError where none of that name is known.

        It is None, which :meth:`all_notes` tells, where the timing states an image that the network is not known for.
        """
        key = (reader.name, str(section.file), section.header.get("network", ""), timing.network, timing.image, platform.id)
        if key not in self._references:
            self._references[key] = self._of_image(self._found(reader, section, timing, platform), timing)
        return self._references[key]

    def _of_image(self, found: Reference, timing: Timing) -> Reference | None:
        """Return the network for the image that the timing states; None where it is not known for that."""
        if timing.image is None:
            return found
        bare, size = found.name.rpartition("/")[2], "x".join(map(str, timing.image))
        if str(found.parameters.get("input", "")).startswith(size):  # as its collection publishes it
            return found
        graph = build(found)
        shape = graph.shape(graph.inputs[0])
        if len(shape) != 4:  # "1x384" of a network that reads text is no image
            return found
        for each in (found, find_in_any_spelling(bare), network_called(bare, size)):
            with suppress(ModelError):
                if each is not None:
                    return resized(each, {"": (*shape[:2], *timing.image)})
        self._unsized[f"{found.name} at {size}"] = None
        return None

    def _found(self, reader: ToolReader, section: Section, timing: Timing, platform: Platform) -> Reference:
        names = _names(reader, section, timing)
        if self.kit is not None:
            known = self.kit.references
            found = next((known[name] for name in names if name in known), None)
            if found is None:
                raise section.refused(f"the kit has no network '{names[-1]}'; it has {', '.join(known)}", timing.line)
            return found
        if isinstance(reader, NcnnReader) and timing.network == names[-1] and "network" not in section.header:
            return Reference(NCNN_BENCHMARK, {"name": names[-1]}, names[-1])
        file = _model_file(reader, section, timing, names)
        if file is not None:
            return resolve_model(file)
        own = collection_of(platform)
        found = network_in(own, names[-1])
        if found is not None:
            self.notes[f"names of networks that {own} has mean its networks; predict takes them so, too"] = None
            return found
        try:
            published = published_model(names[-1], as_measured=True)
        except UnknownNameError as problem:
            remedy = f"there is no file '{timing.network}' here or beside this one; export it to ONNX, or leave the row out"
            if reader.runtimes:
                endings = "".join(f" ({ending})" for ending in reader.endings[:1])
                remedy = (
                    f"put the model's file{endings} beside this one, name the kit that was run with --kit DIR, or call it after "
                    "a published network"
                )
            raise section.refused(f"the network '{names[-1]}' is not known: {remedy}; {problem}", timing.line) from None
        if timing.network != names[-1]:
            self.notes["files that are not here are taken for the published networks that they are called after"] = None
        return published

    def executed(self, timing: Timing, reference: Reference, platform: Platform) -> tuple[ExecutedKernel, ...]:
        """Return the profiled operators with the nodes that they compute; where they do not fit, without, and note it."""
        if not timing.profile:
            return ()
        try:
            return executed_by(timing.profile, reference, platform)
        except LatcastError as problem:
            note = f"the operators profiled in '{reference.name or reference.key}' are not matched with its nodes: {problem}"
            self.notes[note] = None
        return tuple(ExecutedKernel(line.name, line.kind, (), line.latency_ms) for line in timing.profile)


def _names(reader: ToolReader, section: Section, timing: Timing) -> list[str]:
    """Return the network's possible names: the kit script's or the tool's, else the file's."""
    said = section.header.get("network") or (network_name(timing.network) if timing.network else "")
    # A tool prints paths. What a person wrote, timm/resnet50, is one only where it ends as files of models do.
    if timing.network and not reader.runtimes and said == PurePath(timing.network).name:
        said = timing.network
    return [said] if said else list(dict.fromkeys((section.file.stem, section.file.name.partition(".")[0])))


def _model_file(reader: ToolReader, section: Section, timing: Timing, names: Sequence[str]) -> Path | None:
    """Find the model's file: as the tool names it, in the current folder, or beside the tool's output."""
    printed = [timing.network, network_name(timing.network, endings=())] if timing.network else []
    for text in (*printed, *(f"{name}{ending}" for name in names for ending in reader.endings)):
        for folder in (Path(), section.file.parent):
            # Path.is_file raises where the text is too long for a name.
            if os.path.isfile(folder / text):
                return folder / text
    return None


def tool_measurement(
    reader: ToolReader, section: Section, timing: Timing, networks: NetworkNames, platform: Platform | None
) -> Measurement | None:
    """Return the record of a timing, or raise a DatasetError where its network or platform is not the stated one.

    It is None where the network is not known for the image that the timing states.
    """
    header = section.header
    where = _checked_platform(reader, section, timing, platform) if platform else _stated_platform(reader, section, timing)
    reference = networks.reference(reader, section, timing, where)
    if reference is None:
        return None
    batch = Unit.parse(where.unit).batch
    if timing.batch not in (None, batch):
        remedy = f"leave the row out, or name the batch in the unit, as in gpu+b{timing.batch}"
        found = f"the batch is {timing.batch}; expected {batch}, as the unit {where.unit} says"
        raise section.refused(f"{found}: {remedy}", timing.line)
    latency_ms = timing.latency_ms * (batch if timing.each else 1)
    moment = {"row": f"{section.file.name}:{timing.line.number}", "runs": timing.runs, "figures_ms": dict(timing.figures_ms)}
    told = {name: header[name] for name in ("model", "soc", "abi", "system", "cpus", "gpu") if header.get(name)}
    return Measurement(
        where.id,
        reference,
        latency_ms=latency_ms,
        raw_latency_ms=latency_ms,
        statistic=f"{timing.statistic}, {timing.runs} runs, by {reader.name}" if timing.runs else timing.statistic,
        warmup_runs=timing.warmup_runs,
        taken_at=header.get("taken_at", ""),
        executed=networks.executed(timing, reference, where),
        environment={"tool": reader.name, "device": told, MOMENT: moment},
    )


def _stated_platform(reader: ToolReader, section: Section, timing: Timing) -> Platform:
    """Return the platform that the output, and the kit's script before it, name."""
    header = section.header
    device = device_name(header.get("device", ""))
    runtime = header.get("runtime") or next(iter(reader.runtimes), "")
    if not device or not runtime:
        missing = "runtime" if device else "device"
        raise section.refused(
            f"the output does not say which {missing} it is of; name the platform with --on {PLATFORM_FORM}", timing.line
        )
    said = header.get("threads", "")
    threads = timing.threads or (int(said) if said.isdecimal() else 0)
    unit = header.get("unit") or ("gpu" if timing.gpu else f"cpu{threads}{timing.cores}")
    if unit.startswith("cpu0"):
        raise section.refused(
            f"the output does not say on how many threads it ran; name the platform with --on {PLATFORM_FORM}", timing.line
        )
    version = timing.version or header.get("version") or UNSTATED
    precision = "int8" if header.get("precision") == "int8" else timing.precision or header.get("precision") or "fp32"
    try:
        return Platform.parse(f"{device}/{runtime}-{version}/{unit}/{precision}")
    except LatcastError as problem:
        raise section.refused(str(problem), timing.line) from problem


def _checked_platform(reader: ToolReader, section: Section, timing: Timing, platform: Platform) -> Platform:
    """Return the platform that the user names, unless the output contradicts it."""
    if reader.runtimes and not any(
        platform.runtime == name or platform.runtime.startswith(f"{name}-") for name in reader.runtimes
    ):
        raise section.refused(
            f"this is the output of {reader.name}, and {platform.id} is a platform of {platform.runtime}; expected "
            f"{' or '.join(reader.runtimes)}",
            timing.line,
        )
    on_gpu = platform.unit.partition("+")[0] == "gpu"
    if timing.gpu is not None and timing.gpu != on_gpu:
        ran = "a GPU" if timing.gpu else "a CPU"
        raise section.refused(f"it ran on {ran}, and the unit of {platform.id} is {platform.unit}", timing.line)
    if not on_gpu and timing.threads is not None and timing.threads != platform.threads:
        raise section.refused(
            f"it ran on {timing.threads} threads, and the unit of {platform.id}, {platform.unit}, has {platform.threads}",
            timing.line,
        )
    if timing.version is not None and platform.runtime_version not in (timing.version, UNSTATED):
        raise section.refused(
            f"it ran on version {timing.version}, and {platform.id} is of {platform.runtime_version}", timing.line
        )
    # A tool's model may be in int8 and its arithmetic in another precision; what people write down is the platform's.
    return platform if reader.runtimes else replace(platform, precision=timing.precision or platform.precision)
