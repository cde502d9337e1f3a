"""The fixed test set: all combinations on the grid, the same in every round."""

from __future__ import annotations

from latcast.kernels.rules import load_rules
from latcast.samplers.sampler import fixed_test_set
from latcast.spaces.kernel_space import KernelSpace
from tests.samplers.convolutions import SPACE, conv, widths

LISTED = {
    **{conv(8, 8 + width, size=56): 1 for width in range(30)},
    **{conv(256, 256 + width, size=7): 1 for width in range(30)},
}
CELL = ("in_h", "kernel_h", "stride_h")


def cells(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(SPACE.dimensions(row)[name] for name in CELL) for row in rows]


def test_as_many_as_there_are_combinations_hold_each_once() -> None:
    found = fixed_test_set(SPACE, LISTED, len(SPACE.cells), 0)

    expected = {(cell["in_h"], cell["kernel_h"], cell["stride_h"]) for cell in SPACE.cells}
    assert len(found) == len(set(cells(found))) == len(expected)
    assert set(cells(found)) == expected


def test_a_smaller_set_is_the_beginning_of_a_larger_one_and_another_seed_gives_another() -> None:
    assert fixed_test_set(SPACE, LISTED, 40, 0) == fixed_test_set(SPACE, LISTED, 90, 0)[:40]
    assert fixed_test_set(SPACE, LISTED, 40, 0) != fixed_test_set(SPACE, LISTED, 40, 1)


def test_a_second_pass_gives_the_combinations_other_channels() -> None:
    many = fixed_test_set(SPACE, LISTED, 2 * len(SPACE.cells), 0)

    assert len(set(many)) == len(many) == 2 * len(SPACE.cells)
    assert sorted(cells(many[: len(SPACE.cells)])) == sorted(cells(many[len(SPACE.cells) :]))


def test_channels_come_from_networks_near_that_size() -> None:
    for row in fixed_test_set(SPACE, LISTED, 80, 0):
        size = SPACE.dimensions(row)["in_h"]
        if size >= 56:
            assert widths(row)[0] == 8
        if size <= 8:
            assert widths(row)[0] == 256


def test_a_type_that_no_network_has_gets_channels_drawn_evenly() -> None:
    space = KernelSpace("resize", load_rules("onnxruntime"))

    found = fixed_test_set(space, {}, len(space.cells), 0)

    assert len(found) == len(space.cells)
    assert all(space.contains(row) for row in found)


def test_kernels_of_networks_need_not_be_described_as_the_grid_is() -> None:
    # Padded by 2 on each axis, where the grid has one choice of padding for all.
    listed = {(1, 16, 4, 28, 28, 16, 4, 28, 28, 3, 3, 3, 1, 1, 1, 1, 0, 0, 0): 1}
    space = KernelSpace("conv_3d", load_rules("onnxruntime"))

    assert all(space.contains(row) for row in fixed_test_set(space, listed, 10, 0))
