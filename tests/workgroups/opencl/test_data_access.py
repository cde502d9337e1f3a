"""Loads that a simulated GPU counts, beside the model of data accesses from which rule V follows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from latcast.workgroups.opencl import build_options, kernel_source
from latcast.workgroups.operands import size_arguments
from latcast.workgroups.rules import group_accesses
from latcast.workgroups.sizes import Grid, WorkGroup, sizes_array
from latcast.workgroups.workloads import CONV, DEPTHWISE_CONV, KernelDescriptor, convolution

pytestmark = pytest.mark.skipif(shutil.which("oclgrind-kernel") is None, reason="oclgrind is not installed: apt install oclgrind")

HERE = Path(__file__).parent
GRID = Grid(8, 8, 8)
TAPS, IN_SLICES = 9, 2


def counted_loads(
    folder: Path, source: str, kernel: str, grid: Grid, size: WorkGroup, options: Mapping[str, int] | Sequence[str],
    arguments: Sequence[str], value: int | None = None,
) -> int:  # fmt: skip
    """Loads from global memory of one launch; every buffer holds ones, and every number of the result must be ``value``."""
    (folder / "kernel.cl").write_text(source)
    shapes = [" ".join(map(str, shape)) for shape in (grid.padded(size), size.shape)]
    (folder / "run.sim").write_text("\n".join(["kernel.cl", kernel, *shapes, "", *arguments, ""]))
    defined = [f"-D{name}={value}" for name, value in options.items()] if isinstance(options, Mapping) else options
    ran = subprocess.run(
        ["oclgrind-kernel", "--inst-counts", "--build-options", " ".join(defined), "run.sim"],
        cwd=folder, capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    found = re.search(r"([\d,]+) - load global", ran.stdout)
    assert found is not None, ran.stdout + ran.stderr
    if value is not None:
        assert set(re.findall(r"result\[\d+\] = (\S+)", ran.stdout)) == {str(value)}
    return int(found[1].replace(",", ""))


def ones(vectors: int) -> str:
    """A buffer of this many vectors of four numbers."""
    return f"<size={16 * vectors} float fill=1>"


def written(vectors: int) -> str:
    """A buffer whose content is told afterwards."""
    return f"<size={16 * vectors} float fill=0 dump>"


def local(vectors: int) -> str:
    """Local memory for this many vectors."""
    return f"<size={16 * vectors}>"


def shared_conv_loads(folder: Path, kernel: KernelDescriptor, size: WorkGroup) -> int:
    out_w, out_h, slices = GRID.x * kernel.block_x, GRID.y * kernel.block_y, GRID.z * kernel.block_z
    options = {
        "KERNEL_W": 3, "KERNEL_H": 3, "BLOCK_X": kernel.block_x, "BLOCK_Y": kernel.block_y, "BLOCK_S": kernel.block_z,
    }  # fmt: skip
    numbers = (out_w + 2, out_h + 2, IN_SLICES, out_w, out_h)
    arguments = [
        ones(IN_SLICES * (out_w + 2) * (out_h + 2)), ones(slices * TAPS * IN_SLICES * 4), written(slices * out_w * out_h),
        local(size.x * size.y * kernel.block_x * kernel.block_y), local(4 * size.z * kernel.block_z),
        *(f"<size=4 int> {number}" for number in numbers),
    ]  # fmt: skip
    source = (HERE / "conv_shared.cl").read_text()
    return counted_loads(folder, source, "conv_shared", GRID, size, options, arguments, 4 * TAPS * IN_SLICES)


@pytest.mark.parametrize("block", [(1, 1, 1), pytest.param((2, 2, 2), marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [WorkGroup(4, 2, 4), pytest.param(WorkGroup(2, 2, 8), marks=pytest.mark.slow)], ids=str)
def test_a_convolutions_group_loads_as_many_vectors_as_the_model_counts(
    tmp_path: Path, block: tuple[int, int, int], size: WorkGroup
) -> None:
    kernel = KernelDescriptor("conv", "conv", *block)
    groups, steps = GRID.items // size.items, TAPS * IN_SLICES

    loads = shared_conv_loads(tmp_path, kernel, size)

    assert loads == groups * steps * group_accesses(sizes_array([size]), kernel)[0]


def test_a_group_of_32_items_loads_least_where_equation_6_holds(tmp_path: Path) -> None:
    # 2·wx·wy + 4·wz for 32, 16, 8 and 4 items in the plane: 68, 40, 32 and 40; wx·wy = 2·wz at 8.
    sizes = [WorkGroup(8, 4, 1), WorkGroup(8, 2, 2), WorkGroup(4, 2, 4), WorkGroup(2, 2, 8)]
    groups, steps = GRID.items // 32, TAPS * IN_SLICES

    loads = [shared_conv_loads(tmp_path, CONV, size) for size in sizes]

    assert [count // (groups * steps) for count in loads] == [68, 40, 32, 40]


def test_a_depthwise_group_loads_least_with_all_its_items_in_the_plane(tmp_path: Path) -> None:
    sizes = [WorkGroup(8, 4, 1), WorkGroup(4, 4, 2), WorkGroup(2, 2, 8)]
    numbers = (GRID.x + 2, GRID.y + 2, GRID.x, GRID.y)
    source = (HERE / "dwconv_shared.cl").read_text()
    loads = [
        counted_loads(
            tmp_path, source, "dwconv_shared", GRID, size, {"KERNEL_W": 3, "KERNEL_H": 3},
            [
                ones(GRID.z * (GRID.x + 2) * (GRID.y + 2)), ones(GRID.z * TAPS), written(GRID.items), local(size.z),
                *(f"<size=4 int> {number}" for number in numbers),
            ],
            TAPS,
        )
        for size in sizes
    ]  # fmt: skip

    # A pixel for each item and tap, a vector of the filter for each of the group's slices and taps.
    per_group = [count // (GRID.items // 32 * TAPS) for count in loads]
    assert per_group == [33, 34, 40]
    assert per_group == group_accesses(sizes_array(sizes), DEPTHWISE_CONV).tolist()


def test_without_sharing_every_item_of_our_kernel_loads_its_whole_block_at_every_step(tmp_path: Path) -> None:
    workload = convolution(8, 16, 8, 32)  # an 8 x 8 x 8 grid of blocks of two pixels, two input slices
    in_w, in_h, in_slices, out_w, out_h, out_slices = size_arguments(workload)
    arguments = [
        ones(in_slices * in_w * in_h), ones(out_slices * TAPS * in_slices * 4), ones(out_slices),
        ones(out_slices * out_w * out_h), *(f"<size=4 int> {number}" for number in size_arguments(workload)),
    ]  # fmt: skip
    loads = [
        counted_loads(tmp_path, kernel_source("conv"), "conv", workload.grid, size, build_options(workload), arguments)
        for size in (WorkGroup(8, 4, 1), WorkGroup(4, 2, 4), WorkGroup(3, 5, 1))
    ]

    # Two pixels and four vectors of the filter at each of 18 steps, and the bias; items of the padding load nothing.
    assert (in_slices, workload.grid) == (IN_SLICES, GRID)
    assert loads[0] == loads[1] == loads[2]
    assert loads[0] == GRID.items * (6 * TAPS * IN_SLICES + 1)
