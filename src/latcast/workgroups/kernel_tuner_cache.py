"""Sweeps in the cache format of Kernel Tuner (JSON): those of others in, our own out.

A cache holds one kernel on one device with all values of its tunable parameters. ``block_size_x``, ``_y`` and ``_z`` are the
work-group size; every combination of the others is a variant of the kernel with a sweep of its own. A cache written here has an
object ``latcast`` besides, which Kernel Tuner ignores, with what the format has no place for.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import DatasetError, LatcastError
from latcast.workgroups.devices import DeviceProfile, load_profile, profile_names
from latcast.workgroups.sizes import Grid, WorkGroup
from latcast.workgroups.sweep import Sweep
from latcast.workgroups.workloads import KernelDescriptor

SIZE_KEYS = ("block_size_x", "block_size_y", "block_size_z")
TILE_KEYS = ("tile_size_x", "tile_size_y", "tile_size_z")
"""Outputs of a work item along each dimension, as Kernel Tuner's examples name them."""

FAILURES = {"CompilationFailedConfig": "does not compile", "RuntimeFailedConfig": "does not run", "InvalidConfig": "not allowed"}
_FAILED_FROM_MS = 1e10
"""Older caches write a failure as a time of 1e20."""

OURS = "latcast"


def read_cache(path: str | Path, device: DeviceProfile | None = None) -> list[Sweep]:
    """The sweeps of a cache, one for each variant of the kernel that ran with more than one size.

    Args:
        path: A ``.json`` or ``.json.gz`` file; its last two brackets may be missing, as after an interrupted tuning.
        device: What is known of the device; looked up by the cache's device name where None.

    Raises:
        DatasetError: The file is missing or not such a cache; the message names the entry.
    """
    path = Path(path)
    data = _opened(path)
    for key in ("device_name", "kernel_name", "problem_size", "tune_params_keys", "cache"):
        if key not in data:
            raise DatasetError(f"{path}: no '{key}'; expected a cache file of Kernel Tuner")
    ours: Mapping[str, Any] = data.get(OURS, {})
    keys = [str(key) for key in data["tune_params_keys"]]
    if SIZE_KEYS[0] not in keys:
        raise DatasetError(
            f"{path}: none of its parameters is {SIZE_KEYS[0]} (found: {', '.join(keys)}); it tunes no work-group size"
        )
    varied = [key for key in keys if key not in SIZE_KEYS and len(data.get("tune_params", {}).get(key, (0, 1))) > 1]
    entries: dict[tuple[Any, ...], list[tuple[str, Mapping[str, Any]]]] = {}
    for name, entry in data["cache"].items():
        missing = [key for key in keys if key not in entry]
        if missing or "time" not in entry:
            raise DatasetError(f"{path}: entry '{name}' has no '{(missing or ['time'])[0]}'")
        entries.setdefault(tuple(entry[key] for key in varied), []).append((name, entry))
    if device is None:
        device = _device_of(data, ours)
    sweeps = [
        sweep
        for values, found in entries.items()
        if (sweep := _sweep(path, data, ours, device, dict(zip(varied, values, strict=True)), found)) is not None
    ]
    if not sweeps:
        raise DatasetError(f"{path}: no variant of its kernel ran with two work-group sizes or more")
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


def _opened(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise DatasetError(f"there is no cache file {path}")
    try:
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise DatasetError(f"{path}: cannot be read: {problem}") from problem
    try:
        data = json.loads(text)
    except json.JSONDecodeError as problem:
        try:
            data = json.loads(text.rstrip().rstrip(",") + "}}")
        except json.JSONDecodeError:
            raise DatasetError(f"{path}: not JSON: {problem}") from problem
    if not isinstance(data, dict):
        raise DatasetError(f"{path}: holds a {type(data).__name__}; expected a JSON object, a cache file of Kernel Tuner")
    return data


def _sweep(
    path: Path, data: Mapping[str, Any], ours: Mapping[str, Any], device: DeviceProfile, variant: Mapping[str, Any],
    entries: Sequence[tuple[str, Mapping[str, Any]]],
) -> Sweep | None:  # fmt: skip
    sizes: list[WorkGroup] = []
    times: list[Sequence[float]] = []
    tuning: list[float] = []
    failed: dict[WorkGroup, str] = {}
    for name, entry in entries:
        try:
            size = WorkGroup(*(int(entry.get(key, 1)) for key in SIZE_KEYS))
            why = _failure(entry["time"])
            runs = [] if why else [float(time) for time in entry.get("times") or [entry["time"]]]
        except (LatcastError, TypeError, ValueError) as problem:
            raise DatasetError(f"{path}: entry '{name}': {problem}") from problem
        if why:
            failed[size] = why
            continue
        sizes.append(size)
        times.append(runs)
        tuning.append(sum(float(entry.get(key, 0.0)) for key in ("compile_time", "benchmark_time", "verification_time")))
    if len(sizes) < 2:
        return None
    rounds = min(len(runs) for runs in times)
    found = _descriptor_and_grid(path, data, ours, {**entries[0][1], **variant})
    return Sweep(
        device, str(ours.get("operator", _operator(data))), *found, tuple(sizes), np.array([runs[:rounds] for runs in times]),
        variant=ours.get("variant", variant), interleaved=bool(ours.get("interleaved", False)),
        tuning_ms=np.array(tuning) if any(tuning) else None, failed=failed, filter_size=_filter_size(ours, entries[0][1]),
    )  # fmt: skip


def _failure(time: Any) -> str:
    """Why an entry has no time; empty where it has one."""
    if isinstance(time, str):
        return FAILURES.get(time, time)
    return FAILURES["RuntimeFailedConfig"] if float(time) >= _FAILED_FROM_MS else ""


def _descriptor_and_grid(
    path: Path, data: Mapping[str, Any], ours: Mapping[str, Any], entry: Mapping[str, Any]
) -> tuple[KernelDescriptor, Grid]:
    if "descriptor" in ours:
        try:
            return KernelDescriptor(**ours["descriptor"]), Grid(*ours["grid"])
        except (TypeError, KeyError) as problem:
            raise DatasetError(f"{path}: what it says under '{OURS}' is malformed: {problem}") from problem
    problem_size = data["problem_size"] if isinstance(data["problem_size"], list) else [data["problem_size"]]
    tiles = [int(entry.get(key, 1)) for key in TILE_KEYS]
    try:
        grid = Grid(*(-(-int(whole) // tile) for whole, tile in zip(problem_size, tiles, strict=False)))
    except (TypeError, ValueError) as problem:
        raise DatasetError(f"{path}: problem_size is {data['problem_size']!r}; expected one to three numbers") from problem
    # Neighbouring work items read neighbouring numbers, whatever their tiles; what else they read is not known here.
    block_x, block_y, block_z = tiles
    descriptor = KernelDescriptor(
        str(data["kernel_name"]), "conv", block_x, block_y, block_z, vector=1, read_along_x=1, accesses_counted=False
    )
    return descriptor, grid


def _filter_size(ours: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[int, int]:
    """Of our own, or as Kernel Tuner's example names it; 1 x 1 where nothing is said."""
    rows, columns = ours.get("filter_size") or (entry.get("filter_height", 1), entry.get("filter_width", 1))
    return int(rows), int(columns)


def _operator(data: Mapping[str, Any]) -> str:
    size = data["problem_size"]
    return f"{data['kernel_name']} {'x'.join(map(str, size)) if isinstance(size, list) else size}"


def _device_of(data: Mapping[str, Any], ours: Mapping[str, Any]) -> DeviceProfile:
    if "device" in ours:
        try:
            return DeviceProfile(**ours["device"])
        except TypeError as problem:
            raise DatasetError(f"the device that the cache describes under '{OURS}' is malformed: {problem}") from problem
    title = str(data["device_name"])
    for name in profile_names():
        profile = load_profile(name)
        if profile.title == title:
            return profile
    # No profile: the limits are what was tried, the rest is not known, and the rules say so.
    sizes = np.array([[int(entry.get(key, 1)) for key in SIZE_KEYS] for entry in data["cache"].values()], dtype=np.int64)
    x, y, z = sizes.max(axis=0, initial=1).tolist()
    source = "no profile of this device; the limits are the largest sizes in the cache"
    return DeviceProfile(title, title, int(sizes.prod(axis=1).max(initial=1)), x, y, z, source=source)


def _name(entry: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ",".join(str(entry[key]) for key in keys)
