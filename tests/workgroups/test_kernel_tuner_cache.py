"""Kernel Tuner's cache format in and out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latcast.errors import DatasetError
from latcast.workgroups.kernel_tuner_cache import cache_of, read_cache, write_cache
from latcast.workgroups.sizes import WorkGroup
from tests.workgroups.made_up_sweep import DEVICE, sweep_of


def entry(x: int, y: int, tile: int, times: list[float] | str) -> dict[str, Any]:
    found: dict[str, Any] = {"block_size_x": x, "block_size_y": y, "tile_size_x": tile, "use_cmem": 1}
    if isinstance(times, str):
        return {**found, "time": times, "times": []}
    return {**found, "time": sum(times) / len(times), "times": times, "compile_time": 100.0, "benchmark_time": 20.0}


def cache(**changes: Any) -> dict[str, Any]:
    entries = [
        entry(16, 1, 1, [3.0, 2.0]), entry(32, 2, 1, [1.0, 1.5]), entry(64, 1, 1, "RuntimeFailedConfig"),
        entry(16, 1, 2, [4.0, 4.0]), entry(32, 2, 2, [5.0, 6.0]), entry(32, 4, 2, [7.0, 6.0]), entry(16, 1, 4, [9.0, 9.0]),
    ]  # fmt: skip
    return {
        "device_name": "Some GPU",
        "kernel_name": "convolution_kernel",
        "problem_size": [4096, 100],
        "tune_params_keys": ["block_size_x", "block_size_y", "tile_size_x", "use_cmem"],
        "tune_params": {"block_size_x": [16, 32, 64], "block_size_y": [1, 2, 4], "tile_size_x": [1, 2, 4], "use_cmem": [1]},
        "cache": {str(place): found for place, found in enumerate(entries)},
        **changes,
    }


def written(folder: Path, data: object, name: str = "cache.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_every_variant_with_two_sizes_is_a_sweep(tmp_path: Path) -> None:
    first, second = read_cache(written(tmp_path, cache()))

    assert (dict(first.variant), dict(second.variant)) == ({"tile_size_x": 1}, {"tile_size_x": 2})
    assert first.sizes == (WorkGroup(16, 1), WorkGroup(32, 2))
    assert first.times_ms.tolist() == [[3.0, 2.0], [1.0, 1.5]]
    assert dict(first.failed) == {WorkGroup(64, 1): "does not run"}
    assert first.tuning_ms is not None
    assert first.tuning_ms.tolist() == [120.0, 120.0]
    assert not first.interleaved


def test_the_grid_is_the_problem_over_the_tile(tmp_path: Path) -> None:
    first, second = read_cache(written(tmp_path, cache()))

    assert (first.grid.shape, second.grid.shape) == ((4096, 100, 1), (2048, 100, 1))
    assert not first.descriptor.accesses_counted


def test_an_unknown_device_has_limits_alone(tmp_path: Path) -> None:
    device = read_cache(written(tmp_path, cache()))[0].device

    assert (device.title, device.max_work_group_size, device.max_x, device.max_y) == ("Some GPU", 128, 64, 4)
    assert (device.compute_units, device.simultaneous_items, device.cache_line_bytes) == (None, None, None)


def test_a_known_device_is_found_by_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, cache(device_name="NVIDIA RTX A4000"))

    assert read_cache(path)[0].device.name == "a4000"
    assert read_cache(path, DEVICE)[0].device == DEVICE


def test_a_file_cut_off_by_an_interrupted_tuning_is_read(tmp_path: Path) -> None:
    text = json.dumps(cache())

    assert len(read_cache(written(tmp_path, text[:-2] + ",\n"))) == 2


@pytest.mark.parametrize("name", ["own.json", "own.json.gz"])
def test_own_sweeps_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    sizes = [WorkGroup(1), WorkGroup(2, 3), WorkGroup(4, 1, 2)]
    made = sweep_of(lambda size: float(size.items), sizes, rounds=3, noise=0.1, variant={"block": 2})

    (found,) = read_cache(write_cache(tmp_path / name, made))

    assert found.sizes == made.sizes
    assert (found.times_ms == made.times_ms).all()
    assert (found.device, found.operator, found.descriptor, found.grid) == (DEVICE, made.operator, made.descriptor, made.grid)
    assert (dict(found.variant), found.interleaved) == ({"block": 2}, True)
    assert found.tuning_ms is not None
    assert np.allclose(found.tuning_ms, 100.0)


def test_a_written_cache_has_the_keys_of_kernel_tuner() -> None:
    found = cache_of(sweep_of(lambda size: 2.0, [WorkGroup(1), WorkGroup(2)], rounds=2))

    assert found["tune_params_keys"] == ["block_size_x", "block_size_y", "block_size_z"]
    assert found["tune_params"]["block_size_x"] == [1, 2]
    assert found["cache"]["2,1,1"]["time"] == 2.0
    assert found["cache"]["2,1,1"]["times"] == [2.0, 2.0]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "holds a list"),
        ({"cache": {}}, "no 'device_name'"),
        (cache(tune_params_keys=["tile_size_x"]), "tunes no work-group size"),
        (cache(cache={"a": {"block_size_x": 1}}), "entry 'a' has no 'block_size_y'"),
        (cache(cache={"a": entry(0, 1, 1, [1.0])}), "entry 'a': block_size_x is 0"),
        (cache(cache={"a": entry(16, 1, 1, [1.0])}), "two work-group sizes or more"),
        (cache(problem_size="many"), "problem_size is 'many'"),
        (cache(latcast={"descriptor": {"kind": "conv"}}), "the descriptor under 'latcast'"),
        (cache(latcast={"device": {"name": "a", "title": 3}}), "the device under 'latcast'"),
        (cache(latcast={"variant": [1]}), "variant"),
        (cache(device_name=3), "'device_name' is a int"),
        (cache(tune_params_keys=["block_size_x", 3]), "tune_params_keys"),
        (cache(tune_params={"block_size_x": 3}), "no list of values for block_size_x"),
        (cache(problem_size=[2**30, 2**30]), "problem_size is"),
        (cache(cache={"a": 3}), "entry 'a' is a int"),
        (cache(cache={"a": {**entry(16, 1, 1, [1.0]), "times": ["1"]}}), "entry 'a': times"),
        (cache(cache={"a": entry(16, 1, 1, [float("inf")])}), "found Infinity"),
        (cache(cache={"a": {**entry(16, 1, 1, [1.0]), "compile_time": "long"}}), "entry 'a': compile_time"),
    ],
)
def test_malformed_files_are_refused_with_the_reason(tmp_path: Path, data: object, reason: str) -> None:
    with pytest.raises(DatasetError, match=reason):
        read_cache(written(tmp_path, data))


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="No such file"):
        read_cache(tmp_path / "none.json")
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(b"{}")[:-4])
    with pytest.raises(DatasetError, match="cannot read"):
        read_cache(path)


def test_the_published_sweeps_hold_96_variants_of_which_most_have_60_sizes(published_data: Path) -> None:
    folder = published_data / "workgroup_sweeps"
    if not folder.is_dir():
        pytest.skip(f"no work-group sweeps at {folder}")

    sweeps = read_cache(folder / "conv_W6600.json.gz")

    assert len(sweeps) == 96
    assert sum(len(sweep.sizes) == 60 for sweep in sweeps) == 44
    assert {sweep.rounds for sweep in sweeps} == {32}
    assert all(sweep.rankable for sweep in sweeps)
    assert sweeps[0].device.compute_units == 28
