"""Sweeps in the cache format of Kernel Tuner (JSON): those of others in, our own out.

A cache holds one kernel on one device with all values of its tunable parameters. ``block_size_x``, ``_y`` and ``_z`` are the
work-group size; every combination of the others is a variant of the kernel with a sweep of its own. A cache written here has an
object ``latcast`` besides, which Kernel Tuner ignores, with what the format has no place for.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import DatasetError, LatcastError
from latcast.reading import parse_json, read_bytes
from latcast.records import check_ms, listed
from latcast.workgroups.devices import MOST_ITEMS, DeviceProfile, load_profile, profile_names
from latcast.workgroups.sizes import Grid, WorkGroup
from latcast.workgroups.sweep import Sweep
from latcast.workgroups.workloads import KERNELS, KernelDescriptor

SIZE_KEYS = ("block_size_x", "block_size_y", "block_size_z")
TILE_KEYS = ("tile_size_x", "tile_size_y", "tile_size_z")
"""Outputs of a work item along each dimension, as Kernel Tuner's examples name them."""

FAILURES = {"CompilationFailedConfig": "does not compile", "RuntimeFailedConfig": "does not run", "InvalidConfig": "not allowed"}
_FAILED_FROM_MS = 1e10
"""Older caches write a failure as a time of 1e20."""

OURS = "latcast"

MOST_WORK_ITEMS = 2**53
"""Of a kernel's grid; more cannot be counted exactly."""

_TYPES: Mapping[str, type] = {
    "device_name": str, "kernel_name": str, "tune_params_keys": list, "tune_params": dict, "cache": dict, OURS: dict,
}  # fmt: skip
_NAMES: Mapping[type, str] = {str: "a text", list: "a list", dict: "an object"}


def read_cache(path: str | Path, device: DeviceProfile | None = None) -> list[Sweep]:
    """The sweeps of a cache, one for each variant of the kernel that ran with more than one size.

    Args:
        path: A ``.json`` or ``.json.gz`` file; its last two brackets may be missing, as after an interrupted tuning.
        device: What is known of the device; looked up by the cache's device name where None.

    Raises:
        DatasetError: The file is missing or not such a cache; the message names the entry.
    """
    path = Path(path)
    text = read_bytes(path, error=DatasetError)
    try:
        return _sweeps(_parsed(text), device)
    except (LatcastError, OverflowError) as problem:
        raise DatasetError(f"{path}: {problem}") from problem


def _sweeps(data: Mapping[str, Any], device: DeviceProfile | None) -> list[Sweep]:
    for key in ("device_name", "kernel_name", "problem_size", "tune_params_keys", "cache"):
        if key not in data:
            raise DatasetError(f"no '{key}'; expected a cache file of Kernel Tuner")
    for key, kind in _TYPES.items():
        if not isinstance(data.get(key, kind()), kind):
            raise DatasetError(f"'{key}' is a {type(data[key]).__name__}; expected {_NAMES[kind]}")
    ours: Mapping[str, Any] = data.get(OURS, {})
    keys = data["tune_params_keys"]
    if not all(isinstance(key, str) for key in keys):
        raise DatasetError("'tune_params_keys' holds something else than names")
    if SIZE_KEYS[0] not in keys:
        raise DatasetError(f"none of its parameters is {SIZE_KEYS[0]} (found: {', '.join(keys)}); it tunes no work-group size")
    values = {key: data.get("tune_params", {}).get(key, [0, 1]) for key in keys}
    wrong = next((key for key in keys if not isinstance(values[key], list)), None)
    if wrong is not None:
        raise DatasetError(f"'tune_params' has no list of values for {wrong}")
    varied = [key for key in keys if key not in SIZE_KEYS and len(values[key]) > 1]
    entries: dict[tuple[Any, ...], list[tuple[str, Mapping[str, Any]]]] = {}
    for name, entry in data["cache"].items():
        if not isinstance(entry, dict):
            raise DatasetError(f"entry '{name}' is a {type(entry).__name__}; expected an object")
        missing = [key for key in keys if key not in entry]
        if missing or "time" not in entry:
            raise DatasetError(f"entry '{name}' has no '{(missing or ['time'])[0]}'")
        wrong = next((key for key in keys if not isinstance(entry[key], (str, int, float))), None)
        if wrong is not None:
            raise DatasetError(f"entry '{name}': {wrong} is a {type(entry[wrong]).__name__}; expected a number or a text")
        try:
            _size(entry)
        except DatasetError as problem:
            raise DatasetError(f"entry '{name}': {problem}") from problem
        entries.setdefault(tuple(entry[key] for key in varied), []).append((name, entry))
    if device is None:
        device = _device_of(data, ours)
    sweeps = [
        sweep
        for found_values, found in entries.items()
        if (sweep := _sweep(data, ours, device, dict(zip(varied, found_values, strict=True)), found)) is not None
    ]
    if not sweeps:
        raise DatasetError("no variant of its kernel ran with two work-group sizes or more")
    return sweeps


def write_cache(path: str | Path, sweep: Sweep) -> Path:
    """A sweep as a cache of Kernel Tuner, gzipped where the name ends in ``.gz``.

    Returns:
        The path.
    """
    path = Path(path)
    text = json.dumps(cache_of(sweep), indent=1, allow_nan=False)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def cache_of(sweep: Sweep) -> dict[str, Any]:
    """A sweep as the JSON of a cache."""
    keys = [*SIZE_KEYS, *sweep.variant]
    cache: dict[str, Any] = {}
    for row, size in enumerate(sweep.sizes):
        times = [float(time) for time in sweep.times_ms[row]]
        entry = {**dict(zip(SIZE_KEYS, size.shape, strict=True)), **sweep.variant, "time": float(np.mean(times)), "times": times}
        if sweep.tuning_ms is not None:
            # The format tells compiling from running; what is known here is the sum.
            entry |= {"compile_time": max(float(sweep.tuning_ms[row]) - sum(times), 0.0), "benchmark_time": sum(times)}
        cache[_name(entry, keys)] = entry
    for size, why in sweep.failed.items():
        error = next((name for name, text in FAILURES.items() if text == why), "RuntimeFailedConfig")
        entry = {**dict(zip(SIZE_KEYS, size.shape, strict=True)), **sweep.variant, "time": error}
        cache[_name(entry, keys)] = entry
    tried = [*sweep.sizes, *sweep.failed]
    values = {key: sorted({size.shape[place] for size in tried}) for place, key in enumerate(SIZE_KEYS)}
    return {
        "device_name": sweep.device.title,
        "kernel_name": sweep.descriptor.name,
        "problem_size": list(sweep.grid.shape),
        "tune_params_keys": keys,
        "tune_params": {**values, **{name: [value] for name, value in sweep.variant.items()}},
        "objective": "time",
        OURS: {
            "operator": sweep.operator,
            "descriptor": asdict(sweep.descriptor),
            "device": sweep.device.to_json(),
            "grid": list(sweep.grid.shape),
            "variant": dict(sweep.variant),
            "interleaved": sweep.interleaved,
            "filter_size": list(sweep.filter_size),
        },
        "cache": cache,
    }


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        data = parse_json(text, "the file", error=DatasetError)
    except DatasetError:
        try:
            data = parse_json(text.rstrip().rstrip(b",") + b"}}", "the file", error=DatasetError)
        except DatasetError:
            data = None
        if data is None:
            raise
    if not isinstance(data, dict):
        raise DatasetError(f"holds a {type(data).__name__}; expected a JSON object, a cache file of Kernel Tuner")
    return data


def _whole(what: str, value: Any, most: int) -> int:
    """A whole number from 1; Kernel Tuner writes some as floats.

    Raises:
        DatasetError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= most or value != int(value):
        raise DatasetError(f"{what} is {value!r}; expected a whole number from 1 to {most}")
    return int(value)


def _size(entry: Mapping[str, Any]) -> WorkGroup:
    return WorkGroup(*(_whole(key, entry.get(key, 1), MOST_ITEMS) for key in SIZE_KEYS))


def _sweep(
    data: Mapping[str, Any], ours: Mapping[str, Any], device: DeviceProfile, variant: Mapping[str, Any],
    entries: Sequence[tuple[str, Mapping[str, Any]]],
) -> Sweep | None:  # fmt: skip
    sizes: list[WorkGroup] = []
    times: list[Sequence[float]] = []
    tuning: list[float] = []
    failed: dict[WorkGroup, str] = {}
    for name, entry in entries:
        try:
            size = _size(entry)
            why = _failure(entry["time"])
            runs = () if why else listed("times", entry.get("times") or [entry["time"]])
            check_ms("times", runs, above_zero=True)
            spent = [entry.get(key, 0.0) for key in ("compile_time", "benchmark_time", "verification_time")]
            check_ms("compile_time, benchmark_time and verification_time", spent)
        except LatcastError as problem:
            raise DatasetError(f"entry '{name}': {problem}") from problem
        if why:
            failed[size] = why
            continue
        sizes.append(size)
        times.append(runs)
        tuning.append(sum(spent))
    if len(sizes) < 2:
        return None
    rounds = min(len(runs) for runs in times)
    found = _descriptor_and_grid(data, ours, {**entries[0][1], **variant})
    said = ours.get("variant", variant)
    if not isinstance(said, dict) or not all(isinstance(value, (str, int, float)) for value in said.values()):
        raise DatasetError(f"'{OURS}' has a variant that is no object of numbers and texts")
    return Sweep(
        device, str(ours.get("operator", _operator(data))), *found, tuple(sizes), np.array([runs[:rounds] for runs in times]),
        variant=said, interleaved=bool(ours.get("interleaved", False)),
        tuning_ms=np.array(tuning) if any(tuning) else None, failed=failed, filter_size=_filter_size(ours, entries[0][1]),
    )  # fmt: skip


def _failure(time: Any) -> str:
    """Why an entry has no time; empty where it has one."""
    if isinstance(time, str):
        return FAILURES.get(time, time)
    return FAILURES["RuntimeFailedConfig"] if isinstance(time, (int, float)) and time >= _FAILED_FROM_MS else ""


def _grid(what: str, shape: Any, tiles: Sequence[int] = (1, 1, 1)) -> Grid:
    listed_shape = shape if isinstance(shape, list) else [shape]
    if not 1 <= len(listed_shape) <= 3:
        raise DatasetError(f"{what} is {shape!r}; expected one to three numbers")
    wholes = [_whole(what, whole, MOST_WORK_ITEMS) for whole in listed_shape]
    if math.prod(wholes) > MOST_WORK_ITEMS:
        raise DatasetError(f"{what} is {shape!r}; expected at most {MOST_WORK_ITEMS} work items")
    return Grid(*(-(-whole // tile) for whole, tile in zip(wholes, tiles, strict=False)))


def _descriptor_and_grid(
    data: Mapping[str, Any], ours: Mapping[str, Any], entry: Mapping[str, Any]
) -> tuple[KernelDescriptor, Grid]:
    if "descriptor" in ours:
        return _own_descriptor(ours["descriptor"]), _grid(f"the grid under '{OURS}'", ours.get("grid"))
    tiles = [_whole(key, entry.get(key, 1), MOST_ITEMS) for key in TILE_KEYS]
    grid = _grid("problem_size", data["problem_size"], tiles)
    # Neighbouring work items read neighbouring numbers, whatever their tiles; what else they read is not known here.
    block_x, block_y, block_z = tiles
    descriptor = KernelDescriptor(
        data["kernel_name"], "conv", block_x, block_y, block_z, vector=1, read_along_x=1, accesses_counted=False
    )
    return descriptor, grid


def _own_descriptor(found: Any) -> KernelDescriptor:
    fields = dict(found) if isinstance(found, dict) else {}
    unknown = sorted(set(fields) - {field.name for field in dataclass_fields(KernelDescriptor)})
    if not isinstance(fields.get("name"), str) or fields.get("kind") not in tuple(KERNELS) or unknown:
        raise DatasetError(
            f"what it says under '{OURS}' is malformed: a descriptor without name and kind, or with strange fields"
        )
    for name in set(fields) - {"name", "kind", "accesses_counted"}:
        if fields[name] is not None or name != "read_along_x":
            fields[name] = _whole(f"{name} under '{OURS}'", fields[name], MOST_ITEMS)
    return KernelDescriptor(**{**fields, "accesses_counted": bool(fields.get("accesses_counted", True))})


def _filter_size(ours: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[int, int]:
    """Of our own, or as Kernel Tuner's example names it; 1 x 1 where nothing is said."""
    found = ours.get("filter_size") or [entry.get("filter_height", 1), entry.get("filter_width", 1)]
    if not isinstance(found, list) or len(found) != 2:
        raise DatasetError(f"the filter size is {found!r}; expected two numbers")
    rows, columns = (_whole("the filter size", value, MOST_ITEMS) for value in found)
    return rows, columns


def _operator(data: Mapping[str, Any]) -> str:
    size = data["problem_size"]
    return f"{data['kernel_name']} {'x'.join(map(str, size)) if isinstance(size, list) else size}"


def _device_of(data: Mapping[str, Any], ours: Mapping[str, Any]) -> DeviceProfile:
    if "device" in ours:
        found = ours["device"]
        known = {field.name for field in dataclass_fields(DeviceProfile)}
        texts = {"name": "", "title": "", "source": "", "family": None}
        if not isinstance(found, dict) or not set(found) <= known or not {"name", "title"} <= set(found):
            raise DatasetError(
                f"the device that the cache describes under '{OURS}' is malformed: expected {', '.join(sorted(known))}"
            )
        if not all(isinstance(found.get(key, ""), str) or found[key] is usual for key, usual in texts.items()):
            raise DatasetError(f"the device under '{OURS}' is malformed: a name that is no text")
        return DeviceProfile(**{**dict.fromkeys(("max_work_group_size", "max_x", "max_y", "max_z")), **found})
    title = data["device_name"]
    for name in profile_names():
        profile = load_profile(name)
        if profile.title == title:
            return profile
    # No profile: the limits are what was tried, the rest is not known, and the rules say so.
    sizes = np.array([_size(entry).shape for entry in data["cache"].values()], dtype=np.int64).reshape(-1, 3)
    x, y, z = sizes.max(axis=0, initial=1).tolist()
    source = "no profile of this device; the limits are the largest sizes in the cache"
    most = min(int(sizes.prod(axis=1).max(initial=1)), MOST_ITEMS)
    return DeviceProfile(title, title, most, x, y, z, source=source)


def _name(entry: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ",".join(str(entry[key]) for key in keys)
