"""Splits by network, by lineage and by device."""

from __future__ import annotations

import json
from itertools import chain
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lineages import blocks_by_operators
from latcast.errors import DatasetError
from latcast.graph.blocks import main_block
from latcast.graph.operators import graph_macs
from latcast.records import Reference
from latcast.spaces.catalogue import build, model
from latcast.spaces.iiswc20 import buildable
from latcast.spaces.lineages import TABLE, family_of, lineage_of
from latcast.spaces.named_graphs import all_networks
from latcast.spaces.pytorchcv import reference_of
from papers.splits import by_device, by_group, by_network, device_of

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
    def test_every_network_is_on_one_side_whatever_the_order_and_number_of_names(
        self, names: list[str], seed: int, share: float
    ) -> None:
        split = by_network(names, seed, share)

        assert sorted(split.train + split.test) == sorted(names)
        assert split.train
        assert split.test
        assert by_network([*reversed(names), *names], seed, share) == split

    def test_other_seeds_hold_out_others(self) -> None:
        assert len({by_network(NETWORKS, seed) for seed in range(20)}) == 20

    @pytest.mark.parametrize(
        ("names", "share", "reason"), [(["resnet18"], 0.3, "at least 2"), (NETWORKS, 0.0, "0 and 1"), (NETWORKS, 30.0, "0 and 1")]
    )
    def test_one_network_and_a_share_outside_0_to_1_are_refused(self, names: list[str], share: float, reason: str) -> None:
        with pytest.raises(DatasetError, match=reason):
            by_network(names, 0, share)


GROUPS = {f"{group}{number}": group for group, count in (("a", 50), ("b", 20), ("c", 20), ("d", 10)) for number in range(count)}


class TestByGroup:
    @pytest.mark.parametrize("seed", range(4))
    def test_whole_groups_are_held_out_until_the_share_is_reached(self, seed: int) -> None:
        split = by_group(GROUPS, seed)
        groups = {GROUPS[name] for name in split.test}
        sizes = {"a": 50, "b": 20, "c": 20, "d": 10}

        assert not {GROUPS[name] for name in split.train} & groups
        assert sorted(split.train + split.test) == sorted(GROUPS)
        assert sum(sizes[group] for group in groups) >= 30
        assert any(sum(sizes[group] for group in groups - {last}) < 30 for last in groups)

    def test_one_group_is_always_left_to_train_on(self) -> None:
        assert by_group({"a0": "a", "b0": "b", "b1": "b"}, 0, 0.9).train
        with pytest.raises(DatasetError, match=r"found 1 groups \(a\)"):
            by_group({"a0": "a", "a1": "a"}, 0)


class TestByDevice:
    def test_two_phones_with_one_system_on_chip_go_together(self) -> None:
        assert device_of("onefusion/pytorch-2.0/gpu/fp16") == device_of("mi8se/tflite-2.10/gpu/fp16") == "mi8se"

    @pytest.mark.parametrize("seed", range(2))
    def test_random_devices(self, seed: int) -> None:
        split = by_device(PLATFORMS, seed)

        assert len(set(map(device_of, split.test))) == 1
        assert split.test == tuple(sorted(name for name in PLATFORMS if device_of(name) in set(map(device_of, split.test))))
        assert not set(map(device_of, split.train)) & set(map(device_of, split.test))

    def test_one_device_cannot_be_held_out(self) -> None:
        with pytest.raises(DatasetError, match="found 1 networks"):
            by_device(["mi8se/tflite-2.10/gpu/fp16", "onefusion/pytorch-2.0/gpu/fp16"], 0)


@pytest.mark.parametrize(
    ("space", "name", "family"),
    [
        ("mobilenet_v2", "mobilenet_v2_0_5", "mobilenet_v2"), ("huggingface", "deit-base-distilled-patch16-224", "deit"),
        ("pytorchcv", "resnet18_wd4", "resnet"), ("pytorchcv", "resnext26_32x4d", "resnext"),
        ("pytorchcv", "sepreresnet10", "sepreresnet"), ("pytorchcv", "mobilenetv3_small_w7d20", "mobilenetv3"),
        ("pytorchcv", "fdmobilenet_w1", "fdmobilenet"), ("pytorchcv", "regnety016", "regnet"),
        ("pytorchcv", "squeezeresnet_v1_1", "squeezeresnet"), ("pytorchcv", "bagnet9", "bagnet"),
    ],
)  # fmt: skip
def test_families_of_collections_are_known_by_name_and_others_by_space(space: str, name: str, family: str) -> None:
    assert family_of(Reference(space, {"name": name})) == family


def shared(one: Reference, other: Reference) -> float:
    """The part of their multiply-accumulates that two networks have in blocks of the same operators."""
    graphs = (build(one), build(other))
    shares = [{block: macs / graph_macs(each) for block, macs in blocks_by_operators(each).items()} for each in graphs]
    return sum(min(share, shares[1].get(block, 0.0)) for block, share in shares[0].items())


def lineages(space: str, *names: str) -> set[str]:
    return {lineage_of(Reference(space, {"name": name})) for name in names}


class TestLineages:
    @pytest.mark.parametrize(
        ("block", "names"),
        [
            ("1x1 + 1x1 + wide", ["resnetbc26b", "preresnetbc26b"]),
            ("wide + wide", ["preresnet10", "preresnet18_wd4", "seresnet10", "sepreresnet12"]),
            ("1x1 + 1x1 + grouped", ["resnext26_32x4d", "regnetx002", "regnety016"]),
            ("1x1 + 1x1 + depthwise", ["mobilenetv2_w1", "mobilenetv3_small_wd2", "mnasnet_a1"]),
            ("1x1 + depthwise", ["mobilenet_w1", "mobilenetb_wd2", "fdmobilenet_wd4"]),
        ],
    )  # fmt: skip
    def test_networks_of_one_block_are_one_whatever_they_are_called(self, block: str, names: list[str]) -> None:
        assert lineages("pytorchcv", *names) == {block}

    def test_resnets_with_gates_or_normalisation_first_are_resnets(self) -> None:
        networks = [*map(model, ("resnet50", "se_resnet50")), *map(reference_of, ("resnetbc14b", "preresnetbc14b"))]
        assert {lineage_of(each) for each in networks} | lineages("timm", "legacy_seresnet50") == {"1x1 + 1x1 + wide"}

    def test_a_publishers_prefix_or_another_collection_makes_no_other(self) -> None:
        prefixed = lineages("timm", "tf_efficientnet_b3", "efficientnet_b3", "tf_mobilenetv3_large_100", "mobilenetv3_large_100")
        assert prefixed | lineages("ncnn_benchmark", "mobilenet_v2") == {"1x1 + 1x1 + depthwise"}
        assert len(lineages("timm", "dm_nfnet_f0", "nfnet_f0")) == 1

    def test_equal_graphs_are_of_one_lineage(self) -> None:
        found: dict[str, set[str]] = {}
        for name in sorted(all_networks())[::60]:
            reference = model(name)
            found.setdefault(build(reference).structure_key, set()).add(lineage_of(reference))
        assert all(len(each) == 1 for each in found.values())

    def test_networks_drawn_from_one_block_are_one(self) -> None:
        # The last of the 118 are published networks, MobileNetV1 and SqueezeNet among them.
        drawn = [each for name, each in buildable().items() if int(name.rpartition("-")[2]) < 100]
        assert len(drawn) > 90
        assert {lineage_of(each) for each in drawn} == {"1x1 + 1x1 + depthwise"}

    def test_networks_that_share_only_their_first_and_last_layers_are_several(self) -> None:
        names = ("resnet18", "resnet50", "mobilenet_v2", "densenet121", "vgg16", "vit_base_16")
        assert len({lineage_of(model(name)) for name in names}) == len(names)

    def test_the_table_agrees_with_the_graphs(self) -> None:
        names = Random(0).sample(sorted(all_networks()), 8)
        for name in names:
            assert lineage_of(model(name)) == main_block(build(model(name))), name
        assert set(all_networks()) <= {
            f"{space}/{name}" for space, by_block in stored().items() for name in chain(*by_block.values())
        }

    def test_networks_held_out_have_less_than_half_their_blocks_in_common_with_others(self) -> None:
        names = Random(0).sample(sorted(all_networks()), 16)
        split = by_group({name: lineage_of(model(name)) for name in names}, 0)
        for held_out in split.test:
            for known in split.train:
                assert shared(model(held_out), model(known)) < 0.5, (held_out, known)

    def test_a_network_without_a_graph_is_held_out_with_its_family(self) -> None:
        assert lineage_of(Reference("usc_nas", {"name": "nas17"})) == "usc_nas"


def stored() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = json.loads(TABLE.read_text())
    return found


def test_a_segment_is_of_the_family_and_lineage_of_its_network() -> None:
    segment = Reference("published_segments", {"network": "timm/seresnet50", "first": "a", "last": "b"})

    assert (family_of(segment), lineage_of(segment)) == ("seresnet", "1x1 + 1x1 + wide")
