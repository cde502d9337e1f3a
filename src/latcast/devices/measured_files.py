"""Reading latencies that were measured on a new device: tables, JSON, a store, output of the runtimes' own tools, the folder
of a kit.

Odd values are kept, and values are scaled only where their unit is stated; what was assumed is in the notes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from latcast.datasets.importers.benchmark_tools import MANIFEST_FILE, KitManifest, output_files, read_outputs, read_sections
from latcast.datasets.importers.benchmark_tools.stated import AS_STATED
from latcast.datasets.opening import MOST_LOOKED_AT, SQLITE, open_measurements, records_of
from latcast.devices.measured_networks import MOST_NAMED, MeasuredNetwork, MeasuredNetworks
from latcast.environment import MOMENT
from latcast.errors import DatasetError, abridged
from latcast.measure.labels import combine
from latcast.reading import require_regular
from latcast.records import UNSTATED, Measurement, Platform

DISAGREEMENT = 1.2
"""Values of one network that are so many times apart are told of one by one."""

LOCAL = "local"


def read_measured(sources: Sequence[str | os.PathLike[str]], platform: Platform) -> MeasuredNetworks:
    """Read latencies of networks on a new device.

    Args:
        sources: Tables with the columns ``model`` and ``latency_ms`` (a model is a file, beside the table or in the current
            folder, or a name that :func:`latcast.model` takes), or JSON of the same; JSON Lines of measurements; stores; output
            of benchmark tools; folders of them; a kit's folder.
        platform: The new one. Where a source says on what it was measured, runtime, unit and precision must be these; its
            device may have another name. A version that is ``unstated`` is any.

    Raises:
        DatasetError: A source cannot be read, a line of it is refused (the message has file and line, and names near an unknown
            one), or it holds nothing of this platform.
        LatcastError: Measurements cannot be combined.
    """
    if not sources:
        raise DatasetError("found no file of measured latencies; expected at least one")
    notes: dict[str, None] = {}
    groups: dict[str, list[tuple[str, Measurement]]] = {}
    for source in sources:
        for place, item in _of_source(source, platform, notes):
            # A file is the same network wherever it lies.
            parameters = item.reference.parameters if item.reference.space == "file" else {}
            content = parameters.get("sha256")
            key = f"file {content} {parameters.get('shapes')}" if content else item.reference.key
            groups.setdefault(key, []).append((place, item))
    networks = [_combined(_without_profiled(group, notes), platform) for group in groups.values()]
    if not networks:
        raise DatasetError(
            f"{', '.join(map(str, sources))}: no measurement of a network that succeeded; expected at least one"
            + (f" ({next(iter(notes))})" if notes else "")
        )
    return MeasuredNetworks(tuple(networks), (*notes, *_repetitions(networks)))


def _of_source(source: str | os.PathLike[str], platform: Platform, notes: dict[str, None]) -> list[tuple[str, Measurement]]:
    """Read measurements of networks on the platform, each with its place."""
    text = str(source)
    path = Path(os.path.expanduser(text))
    start = b"" if "://" in text or path.is_dir() else _beginning(path)
    if "://" in text or start.startswith(SQLITE):
        found = [(text, item) for item in _stored(text)]
    elif not start or (records := records_of(path, start)) is None:
        found = _outputs(path, platform, notes)
    else:
        # Those with probes are brought to one quiet time, which takes a store.
        found = [(text, item) for item in (_stored(text) if any(item.probe_ms for item in records) else records)]
    found = [(place, item) for place, item in found if item.role == "network"]
    failed = {item.reference.name or item.reference.key: item.error for _, item in found if not item.ok}
    if failed:
        name, reason = next(iter(failed.items()))
        notes[f"{text}: no latency of {abridged(list(failed), MOST_NAMED)}, whose measuring failed ({name}: {reason})"] = None
    found = [(place, item) for place, item in found if item.ok]
    wanted = _chosen({item.platform for _, item in found}, platform, text)
    if others := {item.platform for _, item in found} - wanted:
        notes[f"{text}: what was measured on {abridged(sorted(others), MOST_NAMED)} is left out"] = None
    devices = {Platform.parse(name).device for name in wanted} - {platform.device, LOCAL}
    for device in sorted(devices):
        notes[f"{text}: what was measured on {device} is taken for {platform.device}"] = None
    return [(place, item) for place, item in found if item.platform in wanted]


def _beginning(path: Path) -> bytes:
    require_regular(path, error=DatasetError, what="measured latencies from ")
    try:
        with path.open("rb") as file:
            return file.read(MOST_LOOKED_AT)
    except OSError as problem:
        raise DatasetError(f"cannot read measured latencies from {path}: {problem.strerror}") from problem


def _stored(location: str) -> list[Measurement]:
    with open_measurements(location) as store:
        return list(store.measurements(role="network"))


def _outputs(path: Path, platform: Platform, notes: dict[str, None]) -> list[tuple[str, Measurement]]:
    kit = KitManifest.read(path) if path.is_dir() and (path / MANIFEST_FILE).is_file() else None
    found: list[tuple[str, Measurement]] = []
    for file in output_files([path]):
        # The kit's script says where it ran; of all else the user does.
        said = all(section.header.get("device") for _, section in read_sections(file))
        read = read_outputs([file], kit=kit, platform=None if said else platform)
        notes.update(dict.fromkeys(read.notes))
        found += [(str(item.environment.get(MOMENT, {}).get("row", file.name)), item) for item in read.measurements]
    return found


def _chosen(found: set[str], wanted: Platform, source: str) -> set[str]:
    """Choose the platforms of a source that match the wanted one, whatever name their device has.

    Raises:
        DatasetError: None is, or those of several devices or versions are.
    """
    alike = []
    for each in map(Platform.parse, sorted(found)):
        versions = {each.runtime_version, wanted.runtime_version} - {UNSTATED}
        same = (each.runtime, each.unit, each.precision) == (wanted.runtime, wanted.unit, wanted.precision)
        if same and len(versions) < 2:
            alike.append(each)
    if found and not alike:
        raise DatasetError(
            f"{source} holds measurements on {abridged(sorted(found), MOST_NAMED)}; expected runtime "
            f"{wanted.runtime}-{wanted.runtime_version}, unit {wanted.unit} and precision {wanted.precision}"
        )
    alike = [each for each in alike if each.device == wanted.device] or alike
    if len({(each.device, each.runtime_version) for each in alike}) > 1:
        raise DatasetError(
            f"{source} holds measurements on {abridged([each.id for each in alike], MOST_NAMED)}, which may all be "
            "meant; give those of one device and version in a file of their own"
        )
    return {each.id for each in alike}


def _without_profiled(group: list[tuple[str, Measurement]], notes: dict[str, None]) -> list[tuple[str, Measurement]]:
    """Leave out runs under a tool's profiler, which takes time itself, where there are others."""
    plain = [(place, item) for place, item in group if not (item.executed and "tool" in item.environment)]
    if plain and len(plain) < len(group):
        notes["runs under a tool's profiler, which takes time itself, are not counted beside others of the same network"] = None
    return plain or group


def _combined(group: Sequence[tuple[str, Measurement]], platform: Platform) -> MeasuredNetwork:
    places, items = zip(*group, strict=True)
    reference = items[0].reference
    label = combine(replace(item, platform=platform.id, reference=reference) for item in items)
    values = tuple(item.latency_ms for item in items)
    single = len(items) == 1 and not items[0].runs_ms
    converted = all(item.statistic != AS_STATED for item in items)
    return MeasuredNetwork(reference, values[0] if single else label.latency_ms, values, tuple(places), converted)


def _repetitions(networks: Iterable[MeasuredNetwork]) -> list[str]:
    """Describe networks that have several values."""
    repeated = [each for each in networks if len(each.values_ms) > 1]
    if not repeated:
        return []
    counts = {each.name: len(each.values_ms) for each in repeated}
    listed = abridged([f"{name} ({n})" for name, n in counts.items()], MOST_NAMED)
    found = [f"of several values of one network the median counts: {listed}"]
    for each in repeated:
        low, high = min(each.values_ms), max(each.values_ms)
        if high > DISAGREEMENT * low:
            found.append(f"{each.name}: from {low:.4g} ms ({_at(each, low)}) to {high:.4g} ms ({_at(each, high)})")
    return found


def _at(network: MeasuredNetwork, value: float) -> str:
    return network.places[network.values_ms.index(value)]
