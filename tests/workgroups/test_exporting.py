"""Sizes chosen for the kernels of a program cache, by rules, by formula and by timing on a GPU that is made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latcast.workgroups.exporting import chosen_sizes, tune_sizes, tuned_workload
from latcast.workgroups.measuring import SweepPlan
from latcast.workgroups.program_cache import parse_program_cache
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.workloads import Convolution
from tests.workgroups.made_up_gpu import PROFILE, MadeUpSession
from tests.workgroups.program_caches import CONV, CONV_SHADER, Made, program_cache

SMALL = Made("convolution1x1(conv_generic)", CONV_SHADER, (8, 8, 2), (2, 1, 1), (8, 8, 16), (8, 8, 16))
"""An item makes a pixel of two slices."""

BLOCK = replace(parse_program_cache(program_cache([SMALL])).kernels[0].descriptor)


def session(workload: Convolution, **options: object) -> MadeUpSession:
    """Launches what the made-up cache says that LiteRT launches."""
    limits = replace(PROFILE.limits, most_z=1)
    return MadeUpSession(replace(workload, descriptor=BLOCK), limits=limits, **options)  # type: ignore[arg-type]


def test_the_formula_takes_as_much_of_a_row_as_fits_and_leaves_a_bound_axis_alone() -> None:
    cache = parse_program_cache(program_cache())

    found = chosen_sizes(cache, replace(PROFILE, max_work_group_size=256, max_x=256, max_y=256), "kfast")

    # The conv: z is bound to 1, so 56 columns and 256 // 56 = 4 rows. The depthwise one: 8 of 16 slices, half of 28 columns,
    # 256 // 8 // 14 = 2 rows. The size of the fully connected one is bound.
    assert found == {0: WorkGroup(56, 4, 1), 1: WorkGroup(14, 2, 8)}


def test_the_rules_size_can_be_launched_and_divides_the_grid() -> None:
    cache = parse_program_cache(program_cache())

    found = chosen_sizes(cache, PROFILE, "rules")

    assert set(found) == {0, 1}
    for number, size in found.items():
        kernel = cache.kernels[number]
        assert kernel.limits(PROFILE.limits).allow(size)
        assert all(whole % part == 0 for whole, part in zip(kernel.grid.shape, size.shape, strict=True))


def test_one_size_for_all_is_left_out_where_the_device_does_not_allow_it() -> None:
    cache = parse_program_cache(program_cache([CONV]))

    assert chosen_sizes(cache, PROFILE, "8x4x1") == {0: WorkGroup(8, 4, 1)}
    assert chosen_sizes(cache, replace(PROFILE, max_x=4), "8x4x1") == {0: WorkGroup(8, 4, 1)}


def test_a_kernel_is_timed_with_fewer_input_channels_where_it_is_large() -> None:
    small, large = parse_program_cache(program_cache([SMALL, replace(CONV, input=(112, 112, 256), output=(56, 56, 64))])).kernels

    assert str(tuned_workload(small)) == "conv:8x8x16,k1,s1,c16"
    # 56 · 56 · 64 · 9 are 1.8 million multiply-accumulates an input channel: 20 million allow 11 channels,
    # of which 8 are whole slices.
    assert str(tuned_workload(large)) == "conv:112x112x8,k3,s2,c64"


def test_tuning_takes_the_fastest_size_for_every_kernel_of_the_grid(tmp_path: Path) -> None:
    cache = parse_program_cache(program_cache([SMALL, SMALL]))

    found = tune_sizes(cache, PROFILE, session, tmp_path, sizes=40, plan=SweepPlan(rounds=3))

    # The made-up GPU is fastest with 16 items and takes 1 ms more for every halving or doubling.
    assert {number: size.items for number, size in found.sizes.items()} == {0: 16, 1: 16}
    assert found.sizes[0].z == 1
    (sweep,) = found.sweeps
    assert sweep.sizes[0] == WorkGroup(2, 1, 1)
    assert sweep.relative[0] == pytest.approx(4.0)
    assert [path.name for path in tmp_path.iterdir()] == ["conv-8x8x16-k1-s1-c16.json"]


def test_the_engine_s_own_size_stays_unless_another_is_faster(tmp_path: Path) -> None:
    cache = parse_program_cache(program_cache([replace(SMALL, size=(4, 4, 1))]))

    assert tune_sizes(cache, PROFILE, session, tmp_path, sizes=40, plan=SweepPlan(rounds=3)).sizes == {}


def test_the_engine_s_own_size_stays_where_the_order_is_noise(tmp_path: Path) -> None:
    cache = parse_program_cache(program_cache([SMALL]))

    found = tune_sizes(
        cache, PROFILE, lambda workload: session(workload, noise=0.5, order_matters=False), tmp_path, sizes=40,
        plan=SweepPlan(rounds=4),
    )  # fmt: skip

    assert not found.sweeps[0].rankable
    assert found.sizes == {}


def test_finished_sweeps_are_not_measured_again(tmp_path: Path) -> None:
    cache = parse_program_cache(program_cache([SMALL]))
    first = tune_sizes(cache, PROFILE, session, tmp_path, sizes=40, plan=SweepPlan(rounds=3))

    def unwanted(workload: Convolution) -> MadeUpSession:
        raise AssertionError(f"{workload} was measured before")

    assert tune_sizes(cache, PROFILE, unwanted, tmp_path, sizes=40, plan=SweepPlan(rounds=3)).sizes == first.sizes


def test_kernels_that_cannot_be_launched_alone_keep_their_size(tmp_path: Path) -> None:
    other = replace(SMALL, grid=(8, 8, 4))
    products = replace(CONV, name="convolution_winograd_3x3(conv_generic)")

    found = tune_sizes(parse_program_cache(program_cache([other, products])), PROFILE, session, tmp_path)

    assert found.sizes == {}
    assert found.left == {
        "conv:8x8x16,k1,s1,c16": "alone its grid is 8x8x2, in the network 8x8x4",
        "convolution_winograd_3x3(conv_generic)": "the products of Winograd's algorithm are not launched alone",
    }
