"""``latcast workgroups export``, from a program cache that LiteRT might have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.workgroups.program_cache import read_program_cache
from latcast.workgroups.sizes import WorkGroup
from tests.cli.conftest import Latcast
from tests.workgroups.program_caches import program_cache

NAME = "net_mldrift_program_cache.bin"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.write_bytes(program_cache())
    return path


def test_a_cache_is_written_with_the_sizes_of_a_formula(latcast: Latcast, cache: Path, tmp_path: Path) -> None:
    found = latcast("workgroups", "export", cache, "-o", tmp_path / "out", "--by", "8x4x1", "--on", "mi9", "--json").json

    assert (found["cache"], found["model_cache_key"], found["device"]) == (str(tmp_path / "out" / NAME), "net", "a gpu")
    assert [kernel["size"] for kernel in found["kernels"]] == [[8, 4, 1], [8, 4, 1], [4, 8, 1]]
    assert [kernel["own"] for kernel in found["kernels"]] == [[8, 4, 1], [16, 1, 4], [4, 8, 1]]
    written = read_program_cache(tmp_path / "out" / NAME)
    assert [kernel.size for kernel in written.kernels] == [WorkGroup(8, 4, 1), WorkGroup(8, 4, 1), WorkGroup(4, 8, 1)]
    assert read_program_cache(cache).kernels[1].size == WorkGroup(16, 1, 4)


def test_the_table_of_an_export_shows_changes_and_how_to_load_it(latcast: Latcast, cache: Path, tmp_path: Path) -> None:
    out = latcast("workgroups", "export", cache, "-o", tmp_path / "out", "--by", "8x4x1", "--on", "mi9").out

    (row,) = [line for line in out.splitlines() if line.startswith("depthwise")]
    assert row.split()[-4:] == ["28x14x16", "1", "16x1x4", "8x4x1"]
    assert f'serialization_dir = "{tmp_path / "out"}", model_cache_key = "net"' in out


def test_a_cache_is_not_written_over_itself(latcast: Latcast, cache: Path) -> None:
    found = latcast("workgroups", "export", cache, "-o", cache.parent, "--by", "kfast", "--on", "mi9")

    assert found.code == 1
    assert "would be overwritten; give another folder" in found.err
