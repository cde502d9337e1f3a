"""Drawing variants: widths, kernels, depths, and lists of different members that a seed decides."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import LatcastError, ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.records import Reference
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.variants import (
    KERNEL_SIZES,
    VariantFamily,
    checked_call,
    distinct_references,
    draw_depths,
    draw_kernels,
    draw_widths,
    round_channels,
)


@pytest.mark.parametrize(
    ("channels", "multiple", "expected"),
    [
        (33.2, 8, 32),
        (36.0, 8, 40),
        # The nearest multiple, 16, would take more than a tenth away.
        (19.0, 8, 24),
        (2.0, 8, 8),
        (99.0, 32, 96),
        (7.4, 1, 7),
    ],
)
def test_channels_round_to_the_nearest_multiple_that_loses_at_most_a_tenth(channels: float, multiple: int, expected: int) -> None:
    assert round_channels(channels, multiple) == expected


@given(seed=st.integers(0, 2**32))
def test_drawn_widths_lie_between_a_fifth_and_nine_fifths(seed: int) -> None:
    for width, base in zip(draw_widths(Random(seed), [64, 1000]), [64, 1000], strict=True):
        assert width % 8 == 0
        assert 0.2 * base * 0.9 <= width < 1.8 * base + 8


def test_half_of_the_kernels_stay_and_the_rest_take_any_size() -> None:
    drawn = draw_kernels(Random(0), [11] * 4000)
    assert drawn.count(11) / 4000 == pytest.approx(0.5, abs=0.03)
    for size in KERNEL_SIZES:
        assert drawn.count(size) / 4000 == pytest.approx(0.1, abs=0.02)


def test_drawn_depths_lie_between_half_and_one_and_a_half_times_the_published_ones() -> None:
    drawn = [draw_depths(Random(seed), [1, 3, 23]) for seed in range(500)]
    assert {depths[0] for depths in drawn} == {1}
    assert {depths[1] for depths in drawn} == {2, 3, 4}
    assert {depths[2] for depths in drawn} == set(range(12, 35))


def number(rng: Random) -> dict[str, Any]:
    return {"number": rng.randint(1, 10)}


def test_references_are_different_and_a_longer_list_begins_like_a_shorter_one() -> None:
    references = distinct_references("numbers", number, 10, 7)
    assert sorted(reference.parameters["number"] for reference in references) == list(range(1, 11))
    assert distinct_references("numbers", number, 4, 7) == references[:4]
    assert len({reference.name for reference in references}) == 10
    other = distinct_references("other numbers", number, 10, 7)
    assert [each.parameters for each in other] != [each.parameters for each in references]
    with pytest.raises(LatcastError, match=r"found 10 different members of the space 'numbers'.*expected 11"):
        distinct_references("numbers", number, 11, 0)


def test_members_turned_down_or_known_are_not_drawn() -> None:
    known = {Reference("numbers", {"number": 4}).key}
    references = distinct_references(
        "numbers", number, 4, 0, accept=lambda parameters: parameters["number"] % 2 == 0, known=known
    )
    assert {reference.parameters["number"] for reference in references} == {2, 6, 8, 10}


def linear_network(b: GraphBuilder, image: str, *, features: int, classes: int) -> str:
    return b.linear(b.constant([[0.0] * features], dtype="float32"), classes, bias=False)


LINEAR = VariantFamily(
    "linear",
    {"small": PublishedModel({"features": 3}, 3e-5, 3e-5, "made up for this test")},
    {"features": 1, "classes": 10},
    linear_network,
    lambda rng: {"features": rng.randint(1, 100)},
    max_macs=500,
    max_parameters=300,
)


def test_variants_keep_to_the_limits_and_leave_published_members_out() -> None:
    # 10 weights and 10 multiply-accumulates a feature: at most 30 features, without the published 3.
    drawn = {reference.parameters["features"] for reference in LINEAR.sample(29, 0)}
    assert drawn == set(range(1, 31)) - {3}
    with pytest.raises(ModelError, match="'colour'; it takes features, classes"):
        LINEAR.build(colour="red")


def test_an_unknown_or_missing_parameter_is_named_and_errors_inside_a_builder_stay() -> None:
    def builder(features: int) -> Graph:
        raise TypeError("inside")

    with pytest.raises(ModelError, match="'colour'; it takes features"):
        checked_call("linear", builder, {"features": 3, "colour": "red"})
    with pytest.raises(ModelError, match="'features'"):
        checked_call("linear", builder, {})
    with pytest.raises(TypeError, match="inside"):
        checked_call("linear", builder, {"features": 3})
