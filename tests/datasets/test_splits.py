"""Splits by network, by family and by device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.datasets.splits import (
    SEEDS,
    by_device,
    by_family,
    by_network,
    device_of,
    each_device,
    each_family,
    family_of,
)
from latcast.errors import DatasetError
from latcast.records import Reference
from latcast.spaces.pytorchcv import reference_of

NETWORKS = [f"net{number}" for number in range(100)]

NAMES = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=2, max_size=40, unique=True)

PLATFORMS = [
    f"{device}/{runtime}/{unit}/fp32"
    for device in ("pixel4", "s10", "mi8se", "a03s")
    for runtime in ("tflite-2.10", "pytorch-2.0")
    for unit in ("1large", "4small")
] + ["onefusion/pytorch-2.0/gpu/fp16"]


class TestByNetwork:
    def test_thirty_per_cent_are_held_out(self) -> None:
        split = by_network(NETWORKS, seed=0)
        assert (len(split.train), len(split.test)) == (70, 30)

    @given(NAMES, st.integers(0, 1000), st.floats(0.01, 0.99))
    def test_every_network_is_on_one_side(self, names: list[str], seed: int, share: float) -> None:
        split = by_network(names, seed, share)

        assert sorted(split.train + split.test) == sorted(names)
        assert split.train
        assert split.test

    @given(NAMES, st.integers(0, 1000))
    def test_the_order_of_the_names_does_not_matter(self, names: list[str], seed: int) -> None:
        assert by_network(reversed(names), seed) == by_network(names, seed)

    def test_other_seeds_hold_out_others(self) -> None:
        assert len({by_network(NETWORKS, seed) for seed in SEEDS}) == len(SEEDS) == 20

    def test_a_network_named_twice_counts_once(self) -> None:
        assert by_network([*NETWORKS, *NETWORKS], 3) == by_network(NETWORKS, 3)

    def test_one_network_cannot_be_split(self) -> None:
        with pytest.raises(DatasetError, match="found 1 networks; splitting takes at least 2"):
            by_network(["resnet18"], 0)

    @pytest.mark.parametrize("share", [0.0, 1.0, -0.3, 30.0])
    def test_a_share_that_is_none_is_refused(self, share: float) -> None:
        with pytest.raises(DatasetError, match="expected a number between 0 and 1"):
            by_network(NETWORKS, 0, share)


FAMILIES = {
    f"{family}{number}": family for family, count in (("a", 50), ("b", 20), ("c", 20), ("d", 10)) for number in range(count)
}


class TestByFamily:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_no_family_is_on_both_sides(self, seed: int) -> None:
        split = by_family(FAMILIES, seed)

        assert not {FAMILIES[name] for name in split.train} & {FAMILIES[name] for name in split.test}
        assert sorted(split.train + split.test) == sorted(FAMILIES)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_families_are_added_until_the_share_is_reached(self, seed: int) -> None:
        families = {FAMILIES[name] for name in by_family(FAMILIES, seed).test}
        sizes = {"a": 50, "b": 20, "c": 20, "d": 10}

        assert sum(sizes[family] for family in families) >= 30
        assert any(sum(sizes[family] for family in families - {last}) < 30 for last in families)

    def test_one_family_is_always_left_to_train_on(self) -> None:
        split = by_family({"a0": "a", "b0": "b", "b1": "b"}, 0, 0.9)
        assert split.train

    def test_a_single_family_cannot_be_held_out(self) -> None:
        with pytest.raises(DatasetError, match=r"found 1 families \(a\)"):
            by_family({"a0": "a", "a1": "a"}, 0)

    def test_each_family_once(self) -> None:
        splits = each_family(FAMILIES)
        assert {family: len(split.test) for family, split in splits.items()} == {"a": 50, "b": 20, "c": 20, "d": 10}


class TestByDevice:
    def test_a_device_takes_all_its_platforms_along(self) -> None:
        splits = each_device(PLATFORMS)

        assert list(splits) == ["a03s", "mi8se", "pixel4", "s10"]
        assert splits["s10"].test == tuple(sorted(name for name in PLATFORMS if name.startswith("s10/")))
        assert len(splits["s10"].train) == len(PLATFORMS) - 4

    def test_two_phones_with_one_system_on_chip_go_together(self) -> None:
        assert device_of("onefusion/pytorch-2.0/gpu/fp16") == device_of("mi8se/tflite-2.10/gpu/fp16") == "mi8se"
        assert "onefusion/pytorch-2.0/gpu/fp16" in each_device(PLATFORMS)["mi8se"].test

    @pytest.mark.parametrize("seed", range(5))
    def test_random_devices(self, seed: int) -> None:
        split = by_device(PLATFORMS, seed)

        assert len(set(map(device_of, split.test))) == 1
        assert not set(map(device_of, split.train)) & set(map(device_of, split.test))

    def test_one_device_cannot_be_held_out(self) -> None:
        with pytest.raises(DatasetError, match="found 1 devices"):
            each_device(["mi8se/tflite-2.10/gpu/fp16", "onefusion/pytorch-2.0/gpu/fp16"])


class TestFamilies:
    def test_of_pytorchcv_by_name_of_others_by_space(self) -> None:
        assert family_of(reference_of("mobilenetv2b_w3d4")) == "mobilenetv2"
        assert family_of(Reference("mobilenet_v2", {"width": 0.5})) == "mobilenet_v2"
