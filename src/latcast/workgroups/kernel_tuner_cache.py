"""Sweeps in the cache format of Kernel Tuner (JSON): those of others in, our own out.

A cache holds one kernel on one device with all values of its tunable parameters. ``block_size_x``, ``_y`` and ``_z`` are the
work-group size; every combination of the others is a variant of the kernel with a separate sweep. A cache written here has an
object ``latcast`` besides, which Kernel Tuner ignores, with what the format has no place for.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import DatasetError, LatcastError
from latcast.reading import parse_json, read_bytes
from latcast.records import check_ms, listed
from latcast.workgroups.devices import MOST_ITEMS, DeviceProfile, load_profile, profile_names
from latcast.workgroups.sizes import Grid, WorkGroup
from latcast.workgroups.sweep import SizeSweep
from latcast.workgroups.workloads import KINDS, KernelDescriptor

SIZE_KEYS = ("block_size_x", "block_size_y", "block_size_z")
TILE_KEYS = ("tile_size_x", "tile_size_y", "tile_size_z")
"""Outputs of a work item along each dimension, as Kernel Tuner's examples name them."""

FAILURES = {"CompilationFailedConfig": "does not compile", "RuntimeFailedConfig": "does not run", "InvalidConfig": "not allowed"}
_FAILED_FROM_MS = 1e10
"""Older caches write a failure as a time of 1e20."""

OURS = "latcast"

MOST_WORK_ITEMS = 2**53
"""Work items of a kernel's grid; more cannot be counted exactly."""

_TYPES: Mapping[str, tuple[type, str]] = {
    "device_name": (str, "a text"), "kernel_name": (str, "a text"), "tune_params_keys": (list, "a list"),
    "cache": (dict, "an object"), "tune_params": (dict, "an object"), OURS: (dict, "an object"),
}  # fmt: skip


def read_cache(path: str | Path, device: DeviceProfile | None = None) -> list[SizeSweep]:
    """Read the sweeps of a cache, one for each variant of the kernel that ran with more than one size.

    Args:
        path: A ``.json`` or ``.json.gz`` file; its last two brackets may be missing, as after an interrupted tuning.
        device: The GPU; looked up by the cache's device name where None.

    Raises:
        DatasetError: The file is missing or not such a cache; the message names the entry.
    """
    path = Path(path)
    text = read_bytes(path, error=DatasetError)
    try:
        try:
            data = parse_json(text, "the file", error=DatasetError)
        except DatasetError as problem:
            try:
                data = parse_json(text.rstrip().rstrip(b",") + b"}}", "the file", error=DatasetError)
            except DatasetError:
                raise problem from None
        if not isinstance(data, dict):
            raise DatasetError(f"holds a {type(data).__name__}; expected a JSON object, a cache file of Kernel Tuner")
        for key in ("device_name", "kernel_name", "problem_size", "tune_params_keys", "cache"):
            if key not in data:
                raise DatasetError(f"no '{key}'; expected a cache file of Kernel Tuner")
        for key, (kind, name) in _TYPES.items():
            if not isinstance(data.get(key, kind()), kind):
                raise DatasetError(f"'{key}' is a {type(data[key]).__name__}; expected {name}")
        return _read_sweeps(data, device)
    except (LatcastError, OverflowError) as problem:
        raise DatasetError(f"{path}: {problem}") from problem


def _read_sweeps(data: Mapping[str, Any], device: DeviceProfile | None) -> list[SizeSweep]:
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
    tried: list[WorkGroup] = []
    for name, entry in data["cache"].items():
        if not isinstance(entry, dict):
            raise DatasetError(f"entry '{name}' is a {type(entry).__name__}; expected an object")
        missing = next((key for key in (*keys, "time") if key not in entry), None)
        if missing is not None:
            raise DatasetError(f"entry '{name}' has no '{missing}'")
        wrong = next((key for key in keys if not isinstance(entry[key], (str, int, float))), None)
        if wrong is not None:
            raise DatasetError(f"entry '{name}': {wrong} is a {type(entry[wrong]).__name__}; expected a number or a text")
        tried.append(_size(name, entry))
        entries.setdefault(tuple(entry[key] for key in varied), []).append((name, entry))
    if device is None:
        device = _find_device(data, tried)
    sweeps = [
        sweep
        for found_values, found in entries.items()
        if (sweep := _read_sweep(data, device, dict(zip(varied, found_values, strict=True)), found)) is not None
    ]
    if not sweeps:
        raise DatasetError("no variant of its kernel ran with two work-group sizes or more")
    return sweeps


def _whole(what: str, value: Any, most: int) -> int:
    """Return a whole number from 1, which Kernel Tuner may write as a float.

    Raises:
        DatasetError: It is not one.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= most or value != int(value):
        raise DatasetError(f"{what} is {value!r}; expected a whole number from 1 to {most}")
    return int(value)


def _size(name: str, entry: Mapping[str, Any]) -> WorkGroup:
    return WorkGroup(*(_whole(f"entry '{name}': {key}", entry.get(key, 1), MOST_ITEMS) for key in SIZE_KEYS))


def _find_device(data: Mapping[str, Any], tried: Sequence[WorkGroup]) -> DeviceProfile:
    found, title = data.get(OURS, {}).get("device"), data["device_name"]
    if "device" in data.get(OURS, {}):
        known = {field.name for field in fields(DeviceProfile)}
        if not isinstance(found, dict) or not set(found) <= known or not {"name", "title"} <= set(found):
            raise DatasetError(
                f"the device that the cache describes under '{OURS}' is malformed: expected {', '.join(sorted(known))}"
            )
        family = found.get("family")
        if not all(isinstance(found.get(key, ""), str) for key in ("name", "title", "source")) or not isinstance(
            family, str | None
        ):
            raise DatasetError(f"the device under '{OURS}' is malformed: expected a text for name, title, source and family")
        return DeviceProfile(**{**dict.fromkeys(("max_work_group_size", "max_x", "max_y", "max_z")), **found})
    for name in profile_names():
        profile = load_profile(name)
        if profile.title == title:
            return profile
    # Without a profile the limits are the sizes that were tried, and the rules say which numbers they miss.
    sizes = np.array([size.shape for size in tried], dtype=np.int64).reshape(-1, 3)
    x, y, z = sizes.max(axis=0, initial=1).tolist()
    source = "no profile of this device; the limits are the largest sizes in the cache"
    most = min(int(sizes.prod(axis=1).max(initial=1)), MOST_ITEMS)
    return DeviceProfile(title, title, most, x, y, z, source=source)


def _read_sweep(
    data: Mapping[str, Any], device: DeviceProfile, variant: Mapping[str, Any], entries: Sequence[tuple[str, Mapping[str, Any]]]
) -> SizeSweep | None:
    times: dict[WorkGroup, Sequence[float]] = {}
    tuning: dict[WorkGroup, float] = {}
    failed: dict[WorkGroup, str] = {}
    for name, entry in entries:
        size, time = _size(name, entry), entry["time"]
        if isinstance(time, str):
            failed[size] = FAILURES.get(time, time)
            continue
        if isinstance(time, (int, float)) and time >= _FAILED_FROM_MS:
            failed[size] = FAILURES["RuntimeFailedConfig"]
            continue
        try:
            times[size] = listed("times", entry.get("times") or [time])
            check_ms("times", times[size], above_zero=True)
            spent = [entry.get(key, 0.0) for key in ("compile_time", "benchmark_time", "verification_time")]
            check_ms("compile_time, benchmark_time and verification_time", spent)
        except LatcastError as problem:
            raise DatasetError(f"entry '{name}': {problem}") from problem
        tuning[size] = sum(spent)
    if len(times) < 2:
        return None
    rounds = min(map(len, times.values()))
    ours: Mapping[str, Any] = data.get(OURS, {})
    first = {**entries[0][1], **variant}
    said = ours.get("variant", variant)
    if not isinstance(said, dict) or not all(isinstance(value, (str, int, float)) for value in said.values()):
        raise DatasetError(f"'{OURS}' has a variant {said!r}; expected an object of numbers and texts")
    if "descriptor" in ours:
        descriptor, grid = _own_descriptor(ours["descriptor"]), _grid(f"the grid under '{OURS}'", ours.get("grid"))
    else:
        tiles = [_whole(key, first.get(key, 1), MOST_ITEMS) for key in TILE_KEYS]
        grid = _grid("problem_size", data["problem_size"], tiles)
        # Neighbouring work items read neighbouring numbers, whatever their tiles; their other accesses are not known here.
        block = dict(zip(("block_x", "block_y", "block_z"), tiles, strict=True))
        base = KernelDescriptor(data["kernel_name"], "conv", vector=1, read_along_x=1, accesses_counted=False)
        descriptor = replace(base, **block)  # type: ignore[arg-type]
    problem_size = data["problem_size"]
    shape = "x".join(map(str, problem_size)) if isinstance(problem_size, list) else problem_size
    return SizeSweep(
        device, str(ours.get("operator", f"{data['kernel_name']} {shape}")), descriptor, grid, tuple(times),
        np.array([runs[:rounds] for runs in times.values()]), variant=said, interleaved=bool(ours.get("interleaved", False)),
        tuning_ms=np.array(list(tuning.values())) if any(tuning.values()) else None, failed=failed,
    )  # fmt: skip


def _grid(what: str, shape: Any, tiles: Sequence[int] = (1, 1, 1)) -> Grid:
    wholes = shape if isinstance(shape, list) else [shape]
    if not 1 <= len(wholes) <= 3:
        raise DatasetError(f"{what} is {shape!r}; expected one to three numbers")
    wholes = [_whole(what, whole, MOST_WORK_ITEMS) for whole in wholes]
    if math.prod(wholes) > MOST_WORK_ITEMS:
        raise DatasetError(f"{what} is {shape!r}; expected at most {MOST_WORK_ITEMS} work items")
    return Grid(*(-(-whole // tile) for whole, tile in zip(wholes, tiles, strict=False)))


def _own_descriptor(found: Any) -> KernelDescriptor:
    values = dict(found) if isinstance(found, dict) else {}
    unknown = sorted(set(values) - {field.name for field in fields(KernelDescriptor)})
    if not isinstance(values.get("name"), str) or values.get("kind") not in KINDS or unknown:
        raise DatasetError(f"the descriptor under '{OURS}' is malformed: expected a name, a kind and no unknown fields")
    for name in set(values) - {"name", "kind", "accesses_counted"}:
        if values[name] is not None or name != "read_along_x":
            values[name] = _whole(f"{name} under '{OURS}'", values[name], MOST_ITEMS)
    return KernelDescriptor(**{**values, "accesses_counted": bool(values.get("accesses_counted", True))})


def write_cache(path: str | Path, sweep: SizeSweep) -> Path:
    """Write a sweep as a cache of Kernel Tuner, gzipped where the name ends in ``.gz``, and return the path."""
    path = Path(path)
    text = json.dumps(cache_of(sweep), indent=1, allow_nan=False)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def cache_of(sweep: SizeSweep) -> dict[str, Any]:
    """Return a sweep as the JSON of a cache."""
    keys = [*SIZE_KEYS, *sweep.variant]
    cache: dict[str, Any] = {}

    def add(size: WorkGroup, values: Mapping[str, Any]) -> None:
        entry = {**dict(zip(SIZE_KEYS, size.shape, strict=True)), **sweep.variant, **values}
        cache[",".join(str(entry[key]) for key in keys)] = entry

    for row, size in enumerate(sweep.sizes):
        times = [float(time) for time in sweep.times_ms[row]]
        spent = {}
        if sweep.tuning_ms is not None:
            # The format has compiling and running apart; the sweep has their sum.
            spent = {"compile_time": max(float(sweep.tuning_ms[row]) - sum(times), 0.0), "benchmark_time": sum(times)}
        add(size, {"time": float(np.mean(times)), "times": times, **spent})
    for size, why in sweep.failed.items():
        add(size, {"time": next((name for name, text in FAILURES.items() if text == why), "RuntimeFailedConfig")})
    tried = [*sweep.sizes, *sweep.failed]
    values = {key: sorted({size.shape[place] for size in tried}) for place, key in enumerate(SIZE_KEYS)}
    return {
        "device_name": sweep.device.title, "kernel_name": sweep.descriptor.name, "problem_size": list(sweep.grid.shape),
        "tune_params_keys": keys, "tune_params": {**values, **{name: [value] for name, value in sweep.variant.items()}},
        "objective": "time",
        OURS: {
            "operator": sweep.operator, "descriptor": asdict(sweep.descriptor), "device": sweep.device.to_json(),
            "grid": list(sweep.grid.shape), "variant": dict(sweep.variant), "interleaved": sweep.interleaved,
        },
        "cache": cache,
    }  # fmt: skip
