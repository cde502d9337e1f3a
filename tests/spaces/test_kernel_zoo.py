"""Kernels as networks have them."""

from __future__ import annotations

from collections import Counter

from latcast.kernels import find_kernels
from latcast.kernels.rules import load_rules
from latcast.spaces.catalogue import build, model
from latcast.spaces.kernel_zoo import SYNTHETIC_SPACE, collect_zoo, zoo_networks
from latcast.spaces.training_mix import TRAINING_FAMILIES, unseen_families

RULES = load_rules("onnxruntime")


def test_each_configuration_is_counted_as_often_as_networks_have_it() -> None:
    networks = [model("resnet18"), model("mobilenet_v3_small")]
    expected = Counter(
        kernel.key for reference in networks for kernel in find_kernels(build(reference), RULES) if not kernel.free
    )

    found = collect_zoo(networks, RULES)

    assert {(name, row): number for name, rows in found.items() for row, number in rows.items()} == expected
    # The four equal convolutions of the first stage of ResNet-18: two end in a sum, two in a ReLU alone.
    assert found["conv"][1, 64, 56, 56, 64, 56, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0] == 2


def test_families_that_predictors_are_judged_on_are_left_out() -> None:
    networks = zoo_networks(36, 0)
    spaces = Counter(reference.space for reference in networks)

    assert len(networks) == len({reference.key for reference in networks}) == 36
    assert set(spaces) == {*TRAINING_FAMILIES, SYNTHETIC_SPACE}
    assert set(spaces).isdisjoint(unseen_families())


def test_published_networks_come_first_and_variants_and_synthetic_ones_follow_half_and_half() -> None:
    networks = zoo_networks(30, 0)
    published = [reference for reference in networks if not reference.name.startswith((f"{reference.space}-", SYNTHETIC_SPACE))]

    assert networks[: len(published)] == published
    assert sum(reference.space == SYNTHETIC_SPACE for reference in networks) == (30 - len(published)) // 2
