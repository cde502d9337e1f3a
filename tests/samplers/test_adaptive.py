"""Adaptive sampling: where errors are large, and there in the channels."""

from __future__ import annotations

from collections import Counter

import pytest

from latcast.samplers.sampler import AdaptiveSampler, PriorSampler
from tests.samplers.convolutions import SPACE, conv, widths

LISTED = {conv(8 * width, 16 * width): 1 for width in range(1, 60)}


def test_around_an_inaccurate_point_channels_are_drawn_from_0_4_to_1_2_of_its_own() -> None:
    # The example of nn-Meter §5.2: (56, 3, 1, 24, 64) gives input channels from 9 to 28 and output channels from 25 to 76.
    point = conv(24, 64, size=56)
    sampler = AdaptiveSampler(SPACE, LISTED, 0, samples_per_point=200)

    sampler.observe([point], errors=[0.5])
    found = sampler.suggest(200)

    ins, outs = zip(*map(widths, found), strict=True)
    assert (min(ins), max(ins)) == (9, 28)
    assert (min(outs), max(outs)) == (25, 76)


def test_everything_but_the_channels_stays_as_at_the_point() -> None:
    point = conv(24, 64, size=56, kernel=7, stride=4)
    sampler = AdaptiveSampler(SPACE, LISTED, 0)

    sampler.observe([point], errors=[0.5])

    for row in sampler.suggest(3):
        assert row == conv(*widths(row), size=56, kernel=7, stride=4)


def test_the_points_with_the_largest_errors_come_first() -> None:
    points = [conv(64, 64, size=size) for size in (7, 8, 13, 14, 27, 28)]
    sampler = AdaptiveSampler(SPACE, LISTED, 0, samples_per_point=4)

    sampler.observe(points, errors=[0.3, 0.9, 0.2, 0.8, 0.7, 0.15])
    sizes = Counter(SPACE.dimensions(row)["in_h"] for row in sampler.suggest(12))

    assert sizes == {8: 4, 14: 4, 27: 4}


def test_a_later_error_replaces_an_earlier_one() -> None:
    near, far = conv(64, 64, size=7), conv(64, 64, size=28)
    sampler = AdaptiveSampler(SPACE, LISTED, 0)

    sampler.observe([near, far], errors=[0.9, 0.2])
    sampler.observe([near, far], errors=[0.01, 0.2])

    assert {SPACE.dimensions(row)["in_h"] for row in sampler.suggest(3)} == {28}


@pytest.mark.parametrize("errors", [None, [0.05]])
def test_where_no_error_is_known_or_large_the_prior_goes_on(errors: list[float] | None) -> None:
    sampler = AdaptiveSampler(SPACE, LISTED, 4)

    sampler.observe([conv(64, 64, size=28)], errors=errors)

    assert sampler.suggest(20) == PriorSampler(SPACE, LISTED, 4).suggest(20)


def test_the_rest_of_a_suggestion_is_drawn_from_the_prior() -> None:
    sampler = AdaptiveSampler(SPACE, LISTED, 4, samples_per_point=3)

    sampler.observe([conv(64, 64, size=28)], errors=[0.5])
    found = sampler.suggest(10)

    assert [SPACE.dimensions(row)["in_h"] for row in found] == [28] * 3 + [14] * 7
