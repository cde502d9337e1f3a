"""Each rule on numbers worked out by hand, and ranking by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.rules import RULES, Situation, group_accesses, judge_sizes, padding_share, rank
from latcast.workgroups.sizes import Grid, WorkGroup, candidate_sizes, sizes_array
from latcast.workgroups.workloads import CONV, DEPTHWISE_CONV, KernelDescriptor, convolution

DEVICE = DeviceProfile("made_up", "Made up", 384, 384, 384, 384, compute_units=12, simultaneous_items=16, cache_line_bytes=64)


def sizes(*shapes: tuple[int, int, int]) -> np.ndarray:
    return np.array(shapes, dtype=np.int64)


def passing(rule: str, grid: Grid, kernel: KernelDescriptor, *shapes: tuple[int, int, int], **device: int) -> list[bool]:
    passes, _ = RULES[rule](sizes(*shapes), Situation(grid, kernel, replace(DEVICE, **device)))
    assert passes is not None
    return [bool(each) for each in passes]


def test_rule_one_counts_groups() -> None:
    # 28x56x64 in groups of 8x4x3: 4 · 14 · 22 = 1232 groups, no multiple of 12; in 14x4x3: 2 · 14 · 22 = 616; in 7x4x2: 1792;
    # in 10x8x4: 3 · 7 · 16 = 336 = 28 · 12.
    found = passing("I", Grid(28, 56, 64), CONV, (8, 4, 3), (14, 4, 3), (7, 4, 2), (10, 8, 4))

    assert found == [False, False, False, True]


def test_rule_two_counts_items() -> None:
    assert passing("II", Grid(28, 56, 64), CONV, (8, 4, 3), (8, 3, 1), (1, 1, 16)) == [True, False, True]


def test_rule_three_fills_cache_lines_along_x() -> None:
    # 8 numbers of 4 bytes are half a line of 64: even w_x fill whole lines.
    assert passing("III", Grid(28, 56, 64), CONV, (1, 8, 8), (2, 1, 1), (3, 2, 2)) == [False, True, False]


def test_rule_four_wants_exact_division_in_every_dimension() -> None:
    found = passing("IV", Grid(28, 56, 64), CONV, (7, 8, 64), (8, 8, 64), (7, 9, 64), (7, 8, 63))

    assert found == [True, False, False, False]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_rule_five_for_the_papers_block_is_about_equation_6(x: int, y: int, z: int) -> None:
    assert passing("V", Grid(64, 64, 64), CONV, (x, y, z)) == [max(x * y, 2 * z) <= 1.25 * min(x * y, 2 * z)]


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5))
def test_rule_five_in_general_is_where_a_group_of_its_size_reads_least(
    x: int, y: int, z: int, log_plane: int, log_z: int
) -> None:
    kernel = KernelDescriptor("blocked", "conv", x, y, z)
    items = 2 ** (log_plane + log_z)
    shapes = [(items // depth, 1, depth) for depth in range(1, items + 1) if items % depth == 0]
    accesses = group_accesses(sizes(*shapes), kernel)

    # Where both parts are nearly equal the sum of accesses is nearly the least; these shapes are factors of 2 apart.
    for passes, read in zip(passing("V", Grid(64, 64, 64), kernel, *shapes), accesses, strict=True):
        assert not passes or read <= 1.1 * accesses.min()


def test_accesses_of_a_group_by_hand() -> None:
    # Two pixels an item: 2 · 4 · 2 input slices, 4 · 4 filter vectors; depthwise: 8 · 4 input slices and 4 filter vectors.
    assert group_accesses(sizes((4, 2, 4)), CONV).tolist() == [32]
    assert group_accesses(sizes((4, 2, 4)), DEPTHWISE_CONV).tolist() == [36]


def test_rule_five_for_depthwise_is_equation_7_where_the_grid_is_large() -> None:
    found = passing("V", Grid(112, 112, 8), DEPTHWISE_CONV, (16, 16, 1), (16, 13, 1), (16, 12, 1), max_x=16, max_y=16)

    assert found == [True, True, False]
    assert passing("V", Grid(7, 7, 256), DEPTHWISE_CONV, (7, 7, 1), (7, 5, 1), max_x=16, max_y=16) == [True, False]


def test_verdicts_name_the_compared_numbers() -> None:
    found = judge_sizes([WorkGroup(4, 2, 4), WorkGroup(5, 2, 4)], Situation(Grid(28, 56, 64), CONV, DEVICE))

    assert [judgement.rule for judgement in found] == ["I", "II", "III", "IV", "V"]
    # 7 · 28 · 16 = 3136 groups = 261 · 12 + 4; 32 items; 4 · 32 bytes are two lines; divides; 2 · 8 = 4 · 4.
    assert [judgement.verdict(0) for judgement in found] == ["fails", "passes", "passes", "passes", "passes"]
    # 6 · 28 · 16 = 2688 groups = 224 · 12; 40 items; 160 bytes are two lines and a half; 28 / 5 is no whole number; 20 to 16.
    assert [judgement.verdict(1) for judgement in found] == ["passes", "fails", "fails", "fails", "passes"]
    assert "12 shader cores" in found[0].why
    assert "2·wx·wy about 4·wz" in found[4].why


@pytest.mark.parametrize(
    ("field", "rule", "symbol"),
    [("compute_units", "I", "N_sc"), ("simultaneous_items", "II", "K_ac"), ("cache_line_bytes", "III", "W_cache")],
)
def test_a_rule_without_its_number_cannot_be_evaluated(field: str, rule: str, symbol: str) -> None:
    situation = Situation(Grid(28, 56, 64), CONV, replace(DEVICE, **{field: None}))

    found = {judgement.rule: judgement for judgement in judge_sizes([WorkGroup(4, 2, 4)], situation)}

    assert found[rule].verdict(0) == "cannot be evaluated"
    assert symbol in found[rule].why
    assert all(judgement.passes is not None for name, judgement in found.items() if name != rule)


def test_rule_five_is_not_applied_to_kernels_whose_accesses_were_not_counted() -> None:
    situation = Situation(Grid(28, 56, 64), replace(CONV, accesses_counted=False), DEVICE)

    assert judge_sizes([WorkGroup(4, 2, 4)], situation)[-1].verdict(0) == "cannot be evaluated"


SMALL_DEVICE = DeviceProfile("made_up", "Made up", 256, 256, 256, 64, compute_units=4, simultaneous_items=16, cache_line_bytes=64)


def test_the_first_are_those_that_pass_every_rule_that_leaves_any() -> None:
    workload = convolution(56, 56, 64, 64)
    situation = Situation(workload.grid, CONV, SMALL_DEVICE)
    found = rank(candidate_sizes(workload.grid, SMALL_DEVICE.limits), situation)

    passing = [all(j.passes[row] for j in found.judgements if j.passes is not None) for row in found.order]

    assert found.applied == ("V", "II", "III", "IV", "I")
    assert sum(passing) == found.survivors > 0
    assert all(passing[: found.survivors])


def test_a_rule_that_would_leave_no_size_is_skipped() -> None:
    # No size of a grid of 5x5x5 divides it with 16 items or more: rule IV leaves nothing after rule II.
    situation = Situation(Grid(5, 5, 5), CONV, SMALL_DEVICE)
    found = rank([WorkGroup(4, 4, 1), WorkGroup(4, 2, 4), WorkGroup(5, 1, 1), WorkGroup(3, 3, 3)], situation)

    assert "IV" not in found.applied
    assert found.shortlist(1) == [WorkGroup(4, 2, 4)]


def test_a_rule_that_cannot_be_evaluated_is_left_out_of_the_order() -> None:
    situation = Situation(Grid(28, 56, 16), CONV, replace(SMALL_DEVICE, simultaneous_items=None))
    found = rank(candidate_sizes(situation.grid, SMALL_DEVICE.limits), situation)

    assert "II" not in found.applied


def test_padding_is_the_share_of_idle_items() -> None:
    situation = Situation(Grid(5, 4, 1), CONV, SMALL_DEVICE)

    # 8 x 4 launched for 5 x 4.
    assert padding_share(sizes_array([WorkGroup(4, 4, 1), WorkGroup(5, 2, 1)]), situation).tolist() == [1 - 20 / 32, 0.0]


def test_ranking_keeps_every_size_once() -> None:
    situation = Situation(Grid(6, 5, 4), CONV, SMALL_DEVICE)
    sizes = candidate_sizes(situation.grid, SMALL_DEVICE.limits)
    found = rank(sizes, situation)

    assert sorted(found.order.tolist()) == list(range(len(sizes)))
    assert len(judge_sizes(sizes, situation)) == len(found.judgements)
