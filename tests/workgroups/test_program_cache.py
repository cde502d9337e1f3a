"""The program cache of LiteRT's GPU delegate: what is read from it, and sizes written into it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latcast.errors import DatasetError, MeasurementError
from latcast.workgroups.program_cache import free_axes, parse_program_cache, read_program_cache
from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup
from tests.workgroups.program_caches import CONV, CONV_SHADER, DEPTHWISE_SHADER, HEADER, SHARING_SHADER, program_cache


def test_kernels_are_read_with_their_grids_and_the_sizes_they_are_launched_with(tmp_path: Path) -> None:
    path = tmp_path / "net_mldrift_program_cache.bin"
    path.write_bytes(program_cache())

    found = read_program_cache(path)

    assert found.device == "a gpu"
    assert [kernel.name.split()[0] for kernel in found.kernels] == [
        "convolution3x3(conv_generic)", "depthwise_conv3x3", "fully_connected",
    ]  # fmt: skip
    assert [kernel.kind for kernel in found.kernels] == ["conv", "depthwise_conv", None]
    conv = found.kernels[0]
    assert (conv.grid, conv.size) == (Grid(56, 28, 8), WorkGroup(8, 4, 1))
    assert (conv.input, conv.output) == ((56, 56, 64), (56, 56, 64))


def test_the_block_of_an_item_follows_from_output_and_grid() -> None:
    conv, depthwise, _ = parse_program_cache(program_cache()).kernels

    # 56 columns by 56 items, 56 rows by 28, 16 slices of 4 channels by 8.
    assert (conv.descriptor.block_x, conv.descriptor.block_y, conv.descriptor.block_z) == (1, 2, 2)
    assert (depthwise.descriptor.block_x, depthwise.descriptor.block_y, depthwise.descriptor.block_z) == (1, 2, 1)
    assert conv.descriptor.accesses_counted


def test_products_of_winograd_have_accesses_that_are_not_counted() -> None:
    made = replace(CONV, name="convolution_winograd_3x3(conv_generic)")

    (kernel,) = parse_program_cache(program_cache([made])).kernels

    assert kernel.is_winograd
    assert not kernel.descriptor.accesses_counted


def test_a_size_is_free_where_the_shader_asks_for_it_and_shares_no_memory() -> None:
    assert free_axes(CONV_SHADER) == (True, True, False)
    assert free_axes(DEPTHWISE_SHADER) == (True, True, True)
    assert free_axes(SHARING_SHADER) == (False, False, False)


def test_limits_are_the_device_s_with_one_item_along_a_bound_axis() -> None:
    conv, depthwise, _ = parse_program_cache(program_cache()).kernels
    device = SizeLimits(256, 256, 256, 64)

    assert conv.limits(device) == SizeLimits(256, 256, 256, 1)
    assert depthwise.limits(device) == device


def test_another_size_is_read_back_and_no_other_byte_changes() -> None:
    data = program_cache()
    cache = parse_program_cache(data)

    changed = cache.resized({0: WorkGroup(14, 7, 1), 1: WorkGroup(7, 7, 2)})

    assert [kernel.size for kernel in parse_program_cache(changed).kernels] == [
        WorkGroup(14, 7, 1), WorkGroup(7, 7, 2), WorkGroup(4, 8, 1),
    ]  # fmt: skip
    # x and y of the conv's size, x, y and z of the other: each stands twice, in the operation and among the sizes launched.
    assert sum(now != then for now, then in zip(changed, data, strict=True)) == 2 * (2 + 3)
    assert cache.resized({}) == data


def test_a_size_along_a_bound_axis_is_refused() -> None:
    cache = parse_program_cache(program_cache())

    with pytest.raises(MeasurementError, match=r"'convolution3x3.*' is written for 8x4x1 and can be another along x, y only"):
        cache.resized({0: WorkGroup(8, 4, 2)})
    with pytest.raises(MeasurementError, match="can be another along no axis only; found 8x8x1"):
        cache.resized({2: WorkGroup(8, 8, 1)})


@pytest.mark.parametrize("length", [0, 3, 40, HEADER, HEADER + 30, HEADER + 400, HEADER + 1200])
def test_a_file_cut_off_is_refused(length: int, tmp_path: Path) -> None:
    path = tmp_path / "cut_mldrift_program_cache.bin"
    path.write_bytes(program_cache()[:length])

    with pytest.raises(DatasetError, match=r"cut_mldrift_program_cache.bin is not a program cache of LiteRT's GPU delegate"):
        read_program_cache(path)


def test_bytes_that_are_broken_anywhere_are_read_or_refused_and_never_crash() -> None:
    data, places = program_cache(), [*range(64), *range(HEADER, len(program_cache()), 7)]
    refused = 0
    for at in places:
        broken = bytearray(data)
        broken[at] ^= 0xFF
        try:
            parse_program_cache(bytes(broken))
        except DatasetError:
            refused += 1

    assert 0 < refused < len(places)


def test_a_cache_without_kernels_is_refused() -> None:
    with pytest.raises(DatasetError, match="holds no kernel; expected the program cache of a network"):
        parse_program_cache(program_cache([]))
