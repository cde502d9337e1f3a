"""Families that are stored graphs: RegNet, SE-ResNet, EfficientNet, GhostNet."""

from __future__ import annotations

from collections import Counter

import pytest

from latcast.errors import LatcastError, ModelError
from latcast.graph.operators import graph_macs
from latcast.spaces.catalogue import build, family, model, resized
from tests.spaces.families.counting import published_count


@pytest.mark.parametrize(
    ("member", "parameters", "macs"),
    [
        # Counted by PyTorch on torchvision's, timm's and the SENet authors' models of the same name.
        ("regnet_x_400mf", 5_495_976, 413_812_608),
        ("regnet_y_1_6gf", 11_202_430, 1_612_076_160),
        ("se_resnet50", 28_088_024, 3_860_488_192),
        ("se_resnext50_32x4d", 27_559_896, 4_232_994_816),
        ("efficientnet_b4", 19_341_616, 4_393_771_024),
        ("efficientnet_lite0", 4_652_008, 385_187_552),
        ("ghostnet_x1_3", 7_358_820, 227_003_256),
    ],
)
def test_counts_equal_those_of_the_reference_implementation(member: str, parameters: int, macs: int) -> None:
    graph = build(model(member))
    assert (published_count(graph), graph_macs(graph)) == (parameters, macs)


@pytest.mark.parametrize(
    ("member", "operators"),
    [
        ("se_resnet50", {"GlobalAveragePool": 17, "Sigmoid": 16}),
        # SiLU in the stem, the head, 15 blocks twice, one block once and in 16 gates; then each gate's own sigmoid.
        ("efficientnet_b0", {"Sigmoid": 65, "Mul": 65, "GlobalAveragePool": 17}),
        ("efficientnet_lite0", {"GlobalAveragePool": 1, "Clip": 33}),
        ("ghostnet_x1_0", {"HardSigmoid": 7, "Relu": 42}),
    ],
)
def test_gates_and_activations_are_where_the_papers_have_them(member: str, operators: dict[str, int]) -> None:
    kinds = Counter(node.op_type for node in build(model(member)).nodes)
    assert {name: kinds[name] for name in operators} == operators


def test_a_member_has_the_size_of_its_paper_and_takes_others() -> None:
    assert model("efficientnet_b1").parameters == {"name": "efficientnet_b1", "resolution": 240}

    graph = build(resized(model("efficientnet_b1"), {"input": (2, 3, 96, 160)}))

    assert graph.shape("input") == (2, 3, 96, 160)
    assert graph.shape(graph.outputs[0]) == (2, 1000)


def test_four_times_the_pixels_are_four_times_the_work_of_convolutions() -> None:
    regnet = family("regnet")
    small, large = (graph_macs(regnet.build(name="regnet_x_400mf", resolution=side)) for side in (224, 448))
    classifier = 400 * 1000
    assert large - classifier == 4 * (small - classifier)


def test_an_unknown_member_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="no network 'ghostnet_x9'; it has ghostnet_x0_5"):
        family("ghostnet").build(name="ghostnet_x9")
    with pytest.raises(ModelError, match=r"the space 'ghostnet' cannot be built: .* it takes name, resolution, batch"):
        family("ghostnet").build(widths=[16])


def test_no_more_members_are_drawn_than_there_are() -> None:
    ghostnet = family("ghostnet")
    assert {reference.name for reference in ghostnet.sample(3, 0)} == set(ghostnet.published)
    assert ghostnet.sample(2, 0) == ghostnet.sample(3, 0)[:2]
    with pytest.raises(LatcastError, match="found 3 networks of ghostnet"):
        ghostnet.sample(4, 0)
