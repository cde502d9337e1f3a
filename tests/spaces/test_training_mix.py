"""The networks that a predictor is profiled on, and those it never sees."""

from __future__ import annotations

from collections import Counter

import pytest

from latcast.records import Reference
from latcast.spaces.catalogue import FAMILY_NAMES, family
from latcast.spaces.published_segments import covering_segments
from latcast.spaces.training_mix import SHARES, TRAINING_FAMILIES, published_networks, training_mix, unseen_families


@pytest.fixture(scope="module")
def mix() -> list[Reference]:
    return training_mix(150, seed=0)


def test_training_and_unseen_families_are_all_families_once() -> None:
    assert set(TRAINING_FAMILIES).isdisjoint(unseen_families())
    assert sorted(TRAINING_FAMILIES + unseen_families()) == sorted(FAMILY_NAMES)


def test_a_seed_gives_the_same_mix_and_another_another() -> None:
    first, again, other = (training_mix(30, seed) for seed in (0, 0, 1))

    assert first == again
    assert len({reference.key for reference in first} & {reference.key for reference in other}) <= 3


@pytest.mark.parametrize("length", [50, 75, 120, 149])
def test_any_beginning_holds_all_parts_in_their_shares(mix: list[Reference], length: int) -> None:
    counts = Counter(reference.space for reference in mix[:length])

    for name, share in SHARES.items():
        assert counts[name] / length == pytest.approx(share, abs=0.04)
    variants = [counts[name] for name in TRAINING_FAMILIES]
    assert sum(variants) / length == pytest.approx(0.16, abs=0.04)
    assert max(variants) - min(variants) <= 2


def test_every_twelfth_network_is_the_next_covering_segment(mix: list[Reference]) -> None:
    covering = [reference.key for reference in covering_segments(12, seed=0)]
    places = [[each.key for each in mix].index(key) for key in covering]

    assert places == sorted(places)
    assert all(sum(place < length for place in places) == pytest.approx(0.08 * length, abs=1.5) for length in range(1, 151))


@pytest.fixture(scope="module")
def usual() -> Counter[str]:
    return Counter(each.space for each in training_mix(50, 0, runtime="ncnn"))


@pytest.mark.parametrize(
    ("runtime", "rare"),
    [
        ("onnxruntime", {"random_operators": 3, "random_sequences": 2}),
        ("openvino", {"random_moves": 3}),
        ("litert", {"random_moves": 3}),
    ],
)
def test_some_runtimes_also_get_operators_that_few_networks_have(usual: Counter[str], runtime: str, rare: dict[str, int]) -> None:
    counts = Counter(each.space for each in training_mix(50, 0, runtime=runtime))

    assert usual.keys().isdisjoint(rare)
    assert {name: counts[name] for name in rare} == rare
    assert counts["random_mixed"] == usual["random_mixed"] - sum(rare.values())
    assert {name: count for name, count in counts.items() if name not in ("random_mixed", *rare)} == {
        name: count for name, count in usual.items() if name != "random_mixed"
    }


def test_no_network_of_an_unseen_family_and_no_published_one_is_in_it(mix: list[Reference]) -> None:
    published = {reference.key for reference in published_networks(FAMILY_NAMES)}

    assert {reference.space for reference in mix} == {*SHARES, *TRAINING_FAMILIES}
    assert published.isdisjoint(reference.key for reference in mix)


def test_published_networks_come_smallest_first() -> None:
    [small, medium] = published_networks(("resnet",), per_family=2)

    assert (small.name, medium.name) == ("resnet18", "resnet34")
    assert dict(small.parameters) == dict(family("resnet").published["resnet18"].parameters)
    assert {reference.space for reference in published_networks(per_family=1)} == set(unseen_families())


def test_members_that_are_not_drawn_leave_sets_of_networks_as_they_are() -> None:
    assert [each.name for each in published_networks(("mobilenet_v3",))] == ["mobilenet_v3_small", "mobilenet_v3_large"]
    assert "mobilenet_v3_large_minimalistic" in family("mobilenet_v3").published
