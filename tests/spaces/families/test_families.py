"""Duties of every family: its published figures, and variants that are drawn by a seed and build."""

from __future__ import annotations

from functools import cache

import pytest

from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.spaces.catalogue import FAMILY_NAMES, family
from latcast.spaces.families.variants import RESOLUTIONS, VariantFamily
from tests.spaces.families.counting import published_count

MEMBERS = [(name, member) for name in FAMILY_NAMES for member in family(name).published]

DRAWN = [name for name in FAMILY_NAMES if isinstance(family(name), VariantFamily)]

every_drawn_family = pytest.mark.parametrize("name", DRAWN)


@cache
def published(name: str, member: str) -> Graph:
    return family(name).build(**family(name).published[member].parameters)


@pytest.mark.parametrize(("name", "member"), MEMBERS)
def test_a_published_network_has_its_published_parameters_and_macs(name: str, member: str) -> None:
    printed, graph = family(name).published[member], published(name, member)
    assert published_count(graph) / 1e6 == pytest.approx(printed.million_parameters, rel=0.01)
    if printed.million_macs is not None:
        assert graph_macs(graph) / 1e6 == pytest.approx(printed.million_macs, rel=0.01)


@pytest.mark.parametrize(
    ("name", "member", "million_macs"),
    # Of the model tables of TensorFlow-Slim, cut to whole millions, and of MnasNet-A1, which are up to 3 % higher.
    [
        ("mobilenet_v1", "mobilenet_v1_160", 291), ("mobilenet_v1", "mobilenet_v1_0_5_128", 49),
        ("mobilenet_v2", "mobilenet_v2_192", 221), ("mobilenet_v2", "mobilenet_v2_0_35_96", 11),
        ("mnasnet", "mnasnet_a1_1_4_128", 194.5), ("mnasnet", "mnasnet_a1_0_35_96", 12.7),
    ],
)  # fmt: skip
def test_networks_for_other_images_have_the_macs_of_their_tables(name: str, member: str, million_macs: float) -> None:
    assert graph_macs(published(name, member)) / 1e6 == pytest.approx(million_macs, rel=0.03, abs=1)


def test_published_networks_all_differ() -> None:
    assert len({published(*member).structure_key for member in MEMBERS}) == len(MEMBERS)


@every_drawn_family
def test_the_default_is_a_published_network(name: str) -> None:
    keys = {published(name, member).structure_key for member in family(name).published}
    assert family(name).build().structure_key in keys


@every_drawn_family
def test_variants_are_different_networks_within_the_limits(name: str) -> None:
    space = family(name)
    references = space.sample(25, 0)
    assert len({reference.key for reference in references}) == 25
    graphs = [space.build(**reference.parameters) for reference in references]
    # Two lists of parameters may stand for one network; not many do.
    assert len({graph.structure_key for graph in graphs}) >= 24
    assert max(graph_macs(graph) for graph in graphs) <= 16e9
    assert max(graph.parameter_count for graph in graphs) <= 160e6
    assert {reference.parameters["resolution"] for reference in references} == set(RESOLUTIONS)


@every_drawn_family
def test_images_need_not_be_square(name: str) -> None:
    resolution = {"vit": [224, 192], "swin": [224, 448], "mobilevit": [192, 256]}.get(name, [96, 160])
    graph = family(name).build(resolution=resolution, classes=7, batch=2)
    assert graph.shape(graph.inputs[0]) == (2, 3, *resolution)
    assert graph.shape(graph.outputs[0]) == (2, 7)
