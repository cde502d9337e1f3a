"""Splits by network, by lineage and by device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.datasets.splits import (
    LINEAGES,
    by_device,
    by_group,
    by_network,
    device_of,
    family_of,
    lineage_of,
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
        assert len({by_network(NETWORKS, seed) for seed in range(20)}) == 20

    def test_a_network_named_twice_counts_once(self) -> None:
        assert by_network([*NETWORKS, *NETWORKS], 3) == by_network(NETWORKS, 3)

    def test_one_network_cannot_be_split(self) -> None:
        with pytest.raises(DatasetError, match="found 1 networks; splitting takes at least 2"):
            by_network(["resnet18"], 0)

    @pytest.mark.parametrize("share", [0.0, 1.0, -0.3, 30.0])
    def test_a_share_that_is_none_is_refused(self, share: float) -> None:
        with pytest.raises(DatasetError, match="expected a number between 0 and 1"):
            by_network(NETWORKS, 0, share)


GROUPS = {f"{group}{number}": group for group, count in (("a", 50), ("b", 20), ("c", 20), ("d", 10)) for number in range(count)}


class TestByGroup:
    @pytest.mark.parametrize("seed", range(20))
    def test_no_group_is_on_both_sides(self, seed: int) -> None:
        split = by_group(GROUPS, seed)

        assert not {GROUPS[name] for name in split.train} & {GROUPS[name] for name in split.test}
        assert sorted(split.train + split.test) == sorted(GROUPS)

    @pytest.mark.parametrize("seed", range(20))
    def test_groups_are_added_until_the_share_is_reached(self, seed: int) -> None:
        groups = {GROUPS[name] for name in by_group(GROUPS, seed).test}
        sizes = {"a": 50, "b": 20, "c": 20, "d": 10}

        assert sum(sizes[group] for group in groups) >= 30
        assert any(sum(sizes[group] for group in groups - {last}) < 30 for last in groups)

    def test_one_group_is_always_left_to_train_on(self) -> None:
        split = by_group({"a0": "a", "b0": "b", "b1": "b"}, 0, 0.9)
        assert split.train

    def test_a_single_group_cannot_be_held_out(self) -> None:
        with pytest.raises(DatasetError, match=r"found 1 groups \(a\)"):
            by_group({"a0": "a", "a1": "a"}, 0)


class TestByDevice:
    def test_two_phones_with_one_system_on_chip_go_together(self) -> None:
        assert device_of("onefusion/pytorch-2.0/gpu/fp16") == device_of("mi8se/tflite-2.10/gpu/fp16") == "mi8se"

    @pytest.mark.parametrize("seed", range(5))
    def test_random_devices(self, seed: int) -> None:
        split = by_device(PLATFORMS, seed)

        assert len(set(map(device_of, split.test))) == 1
        assert split.test == tuple(sorted(name for name in PLATFORMS if device_of(name) in set(map(device_of, split.test))))
        assert not set(map(device_of, split.train)) & set(map(device_of, split.test))

    def test_one_device_cannot_be_held_out(self) -> None:
        with pytest.raises(DatasetError, match="found 1 networks"):
            by_device(["mi8se/tflite-2.10/gpu/fp16", "onefusion/pytorch-2.0/gpu/fp16"], 0)


class TestFamilies:
    def test_of_collections_by_name_of_others_by_space(self) -> None:
        assert family_of(reference_of("mobilenetv2b_w3d4")) == "mobilenetv2"
        assert family_of(Reference("mobilenet_v2", {"width": 0.5})) == "mobilenet_v2"
        assert family_of(Reference("huggingface", {"name": "deit-base-distilled-patch16-224"})) == "deit"


class TestLineages:
    @pytest.mark.parametrize(
        ("lineage", "names"),
        [
            ("residual", ["resnet18", "resnetbc26b", "preresnet10", "seresnet18", "sepreresnet12", "resnext26_32x4d",
                          "seresnext50_32x4d", "senet28", "bagnet9", "ibn_resnet50", "airnet50_1x64d_r2"]),
            ("separable", ["mobilenet_w1", "mobilenetb_wd2", "fdmobilenet_wd4"]),
            ("fire", ["squeezenet_v1_0", "squeezeresnet_v1_1"]),
            ("inverted residual", ["mobilenetv2_w1", "mobilenetv2b_wd4", "mobilenetv3_small_wd2", "mnasnet_a1", "spnasnet",
                                   "proxylessnas_mobile14", "fbnet_cb", "efficientnet_edge_small_b"]),
            ("plain", ["diracnet18v2", "vgg16", "bn_vgg11"]),
            ("inception", ["bninception"]),
            ("dense", ["densenet169"]),
            ("regnet", ["regnetx002", "regnety016"]),
        ],
    )  # fmt: skip
    def test_networks_that_share_their_blocks_are_one(self, lineage: str, names: list[str]) -> None:
        assert {lineage_of(reference_of(name)) for name in names} == {lineage}

    @pytest.mark.parametrize(
        ("spaces", "lineage"),
        [
            (("resnet", "se_resnet", "resnext", "ofa_resnet"), "residual"),
            (("mobilenet_v2", "mobilenet_v3", "mnasnet", "efficientnet", "ofa_proxylessnas"), "inverted residual"),
            (("alexnet", "vgg"), "plain"), (("swin",), "swin"), (("ghostnet",), "ghostnet"),
        ],
    )  # fmt: skip
    def test_spaces_belong_to_the_same_table(self, spaces: tuple[str, ...], lineage: str) -> None:
        assert {lineage_of(Reference(space)) for space in spaces} == {lineage}

    @pytest.mark.parametrize(
        ("lineage", "names"),
        [
            ("encoder", ["vit-base-patch32-384", "vit-hybrid-base-bit-384", "beit-base-patch16-224",
                         "dinov2-base-imagenet1k-1-layer"]),
            ("swin", ["swin-small-patch4-window7-224", "swinv2-tiny-patch4-window8-256"]),
            ("reduced attention", ["mit-b0", "pvt-tiny-224"]), ("metaformer", ["poolformer_s12", "efficientformer-l3-300"]),
            ("inverted residual", ["mobilevit-x-small", "mobilevitv2-1.0-imagenet1k-256"]),
            ("cvt", ["cvt-13-384"]), ("levit", ["levit-128S"]), ("van", ["van-tiny"]),
        ],
    )  # fmt: skip
    def test_transformers_that_share_their_blocks_are_one(self, lineage: str, names: list[str]) -> None:
        assert {lineage_of(Reference("huggingface", {"name": name})) for name in names} == {lineage}

    def test_names_of_other_collections_are_of_the_same_families(self) -> None:
        names = {"mobilenet": "separable", "mobilenet_v2": "inverted residual", "mobilenet_v3": "inverted residual"}
        for name, lineage in names.items():
            assert lineage_of(Reference("ncnn_benchmark", {"name": name})) == lineage

    def test_a_family_is_of_one_lineage(self) -> None:
        families = [family for members in LINEAGES.values() for family in members]
        assert len(families) == len(set(families))


def test_a_segment_is_of_the_family_and_lineage_of_its_network() -> None:
    segment = Reference("published_segments", {"network": "timm/seresnet50", "first": "a", "last": "b"})

    assert (family_of(segment), lineage_of(segment)) == ("seresnet", "residual")
