"""The prior: configurations as networks have them, and between those."""

from __future__ import annotations

from collections import Counter

import pytest

from latcast.samplers.sampler import PriorSampler
from tests.samplers.convolutions import SPACE, conv, widths


def test_half_of_the_draws_are_listed_configurations() -> None:
    listed = {conv(64 * ins, 64 * outs): 1 for ins in range(1, 15) for outs in range(1, 15)}

    found = PriorSampler(SPACE, listed, 0).suggest(80)

    assert 28 <= sum(row in listed for row in found) <= 52


def test_a_configuration_is_drawn_as_often_as_networks_have_it() -> None:
    often, seldom = conv(16, 32), conv(24, 32, size=28)
    firsts = Counter()
    for seed in range(60):
        [first] = PriorSampler(SPACE, {often: 19, seldom: 1}, seed).suggest(1)
        firsts[SPACE.dimensions(first)["in_h"]] += 1

    assert firsts[14] >= 50


def test_beyond_them_all_channels_move_by_the_same_part_of_the_way() -> None:
    # From (16, 256) to (64, 1024) the ratio of 16 is kept: channels drawn one by one would not.
    listed = {conv(16, 256): 1, conv(64, 1024): 1}

    found = [row for row in PriorSampler(SPACE, listed, 0).suggest(6) if row not in listed]

    between = [widths(row) for row in found if 16 < widths(row)[0] < 64]
    assert len(between) >= 3
    for ins, outs in between:
        # Rounded to a multiple of 8 each.
        assert 16 * (ins - 4) <= outs + 4
        assert outs - 4 <= 16 * (ins + 4)


def test_everything_but_channels_stays_as_some_network_has_it() -> None:
    listed = {conv(16, 32, size=14, kernel=3): 1, conv(64, 24, size=28, kernel=1): 1, conv(96, 48, size=28, kernel=1): 1}

    found = PriorSampler(SPACE, listed, 3).suggest(12)

    combinations = {(SPACE.dimensions(row)["in_h"], SPACE.dimensions(row)["kernel_h"]) for row in found}
    assert combinations <= {(14, 3), (28, 1)}
    assert len(set(found) - set(listed)) >= 4


@pytest.mark.parametrize(("ends", "aligned"), [([(64, 64), (256, 512)], True), ([(63, 65), (255, 511)], False)])
def test_channels_between_multiples_of_8_and_only_these_are_multiples_of_8(ends: list[tuple[int, int]], aligned: bool) -> None:
    found = PriorSampler(SPACE, {conv(*each): 1 for each in ends}, 0).suggest(20)

    assert all(ins % 8 == outs % 8 == 0 for ins, outs in map(widths, found)) == aligned


def test_a_configuration_without_neighbours_has_its_channels_scaled_together() -> None:
    found = PriorSampler(SPACE, {conv(160, 320): 1}, 0).suggest(5)

    assert len(found) == 5
    for ins, outs in map(widths, found):
        assert 0.8 * 160 - 4 <= ins <= 1.25 * 160 + 4
        assert abs(outs - 2 * ins) <= 12  # one factor for both, each rounded to a multiple of 8


def test_invalid_listed_configurations_are_never_drawn() -> None:
    too_large = conv(4096, 4096, size=224)

    assert too_large not in PriorSampler(SPACE, {too_large: 1000, conv(16, 32): 1}, 0).suggest(5)
