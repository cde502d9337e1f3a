"""Networks rebuilt from published layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.datasets.importers.iiswc20 import read_layers
from latcast.errors import ModelError, UnknownNameError
from latcast.graph.operators import graph_macs
from latcast.records import Reference
from latcast.spaces import SPACES, build
from latcast.spaces.catalogue import model
from latcast.spaces.iiswc20 import MOST_OFF, full_layers, layers_of, published, reference, short_layers
from latcast.spaces.measured_only import can_build

CONV, DEPTHWISE, ADD, ACTIVATION, POOL = range(5)

INVERTED_RESIDUAL = [
    [CONV, 16, 8, 3, 4, 3, 2, 1],
    [CONV, 8, 8, 4, 8, 1, 1, 0],
    [ACTIVATION, 8, 8, 8, 8, 0, 0, 0],
    [DEPTHWISE, 8, 8, 8, 8, 3, 1, 1],
    [ACTIVATION, 8, 8, 8, 8, 0, 0, 0],
    [CONV, 8, 8, 8, 4, 1, 1, 0],
    [ADD, 8, 8, 4, 4, 0, 0, 0],
    [POOL, 8, 1, 4, 4, 8, 8, 0],
    [CONV, 1, 1, 4, 10, 1, 1, 0],
]

FIRE = [
    [CONV, 9, 9, 3, 2, 1, 1, 0],
    [ACTIVATION, 9, 9, 2, 2, 0, 0, 0],
    [CONV, 9, 9, 2, 5, 1, 1, 0],
    [ACTIVATION, 9, 9, 5, 5, 0, 0, 0],
    [CONV, 9, 9, 2, 5, 3, 1, 1],
    [ACTIVATION, 9, 9, 5, 5, 0, 0, 0],
]
"""Branches of 5 channels each behind a squeeze to 2."""


def of(layers: list[list[int]]) -> Reference:
    return Reference("iiswc20", {"layers": layers}, "made up")


def test_an_inverted_residual_adds_what_it_read() -> None:
    """8x8 maps: 27*4 + 4*8 + 9*8 + 8*4 products a pixel, and 40 of the classifier."""
    graph = build(of(INVERTED_RESIDUAL))

    [added] = [node for node in graph.nodes if node.op_type == "Add"]
    stem = graph.nodes[0].outputs[0]
    assert stem in added.inputs
    assert graph_macs(graph) == 64 * (108 + 32 + 72 + 32) + 40
    assert [graph.shape(name) for name in graph.outputs] == [(1, 10)]


def test_a_block_that_keeps_its_channels_is_skipped_whole() -> None:
    """Expansion by 1: results inside of the block have the size of what it read."""
    inside = [[*row[:3], 4, 4, *row[5:]] for row in INVERTED_RESIDUAL[2:6]]

    graph = build(of([[CONV, 8, 8, 3, 4, 1, 1, 0], [CONV, 8, 8, 4, 4, 1, 1, 0], *inside, [ADD, 8, 8, 4, 4, 0, 0, 0]]))

    assert graph.nodes[0].outputs[0] in graph.nodes[-1].inputs


def test_branches_are_concatenated_where_the_next_layer_reads_both() -> None:
    graph = build(of([*FIRE, [CONV, 9, 9, 10, 3, 1, 1, 0]]))

    [concat] = [node for node in graph.nodes if node.op_type == "Concat"]
    squeezed = graph.nodes[1].outputs[0]
    assert [node.op_type for node in graph.nodes if squeezed in node.inputs] == ["Conv", "Conv"]
    assert graph.shape(concat.outputs[0]) == (1, 10, 9, 9)
    assert graph_macs(graph) == 81 * (3 * 2 + 2 * 5 + 9 * 2 * 5 + 10 * 3)


def test_a_pooling_whose_last_window_reaches_beyond_the_map_rounds_up() -> None:
    """54 pixels: 26 windows of 3 at stride 2 lie inside, a 27th begins at pixel 52."""
    graph = build(of([[POOL, 54, 27, 8, 8, 3, 2, 0]]))

    assert graph.shape(graph.outputs[0]) == (1, 8, 27, 27)


def test_112_of_118_networks_compute_what_was_published_of_them() -> None:
    built = {index for index in range(len(published())) if can_build(Reference("iiswc20", {"network": index}))}

    assert len(published()) == 118
    assert set(range(118)) - built == {100, 101, 102, 104, 106, 107}
    for index in (0, 58, 103, 113, 117):
        found = graph_macs(build(Reference("iiswc20", {"network": index})))
        assert found == pytest.approx(1e6 * published()[index][1], rel=MOST_OFF)


@pytest.mark.slow
def test_every_other_network_builds() -> None:
    for each in SPACES.get("iiswc20").sample(112, 0):
        found = graph_macs(build(each))
        assert found == pytest.approx(1e6 * published()[each.parameters["network"]][1], rel=MOST_OFF)


def test_a_network_that_does_not_fit_what_was_published_is_not_built() -> None:
    """Number 104 has the layers of MobileNetV2."""
    layers = published()[104][0].tolist()

    for parameters in ({"network": 104}, {"network": 104, "layers": layers}):
        with pytest.raises(ModelError, match=r"'iiswc20-104' cannot be built, .* compute 300\.8 million .* 320\.2 million"):
            build(Reference("iiswc20", parameters, "iiswc20-104"))


def test_a_published_network_is_referred_to_by_its_number() -> None:
    short, mega_macs = published()[3]

    assert reference(3, full_layers(short), mega_macs).parameters == {"network": 3}
    assert reference(3, None, mega_macs).parameters == {"network": 3}


def test_other_layers_are_part_of_the_reference_and_a_number_alone_is_a_name() -> None:
    short, mega_macs = published()[3]

    assert reference(3, full_layers(short[:-1]), mega_macs).parameters == {"network": 3, "layers": short[:-1].tolist()}
    assert reference(3, None, 2 * mega_macs).parameters == {"name": "iiswc20-3"}
    assert not can_build(reference(3, None, 2 * mega_macs))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "found nothing, expected the number of a published network, 0 to 117"),
        ({"network": 118}, "found 118, expected the number"), ({"layers": [[0, 1], [0]]}, "not rows of the same length"),
        ({"layers": [[0, 1]]}, "expected rows of 8 whole numbers"), ({"layers": [[0.5] * 8]}, "expected rows of 8 whole numbers"),
        ({"layers": [[7, 8, 8, 3, 3, 1, 1, 0]]}, "an operator above 4"),
        ({"layers": [[0, 8, 8, 3, 3, 1, 0, 0]]}, "window or stride of 0"),
    ],
)  # fmt: skip
def test_parameters_of_no_network_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build(Reference("iiswc20", parameters))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([[CONV, 8, 8, 3, 4, 1, 1, 0], [CONV, 8, 8, 5, 4, 1, 1, 0]], "no layer returns 5 channels of 8 by 8 pixels"),
        ([[CONV, 8, 8, 3, 4, 3, 2, 1]], "layer 0 returns"),
        ([[ADD, 8, 8, 3, 3, 0, 0, 0], [CONV, 8, 8, 3, 4, 1, 1, 0], [ADD, 8, 8, 4, 4, 0, 0, 0]], "layer 2 adds what no earlier"),
    ],
)
def test_layers_that_do_not_fit_each_other_are_refused(layers: list[list[int]], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build(of(layers))


def test_published_networks_have_names() -> None:
    assert model("iiswc20-113") == model("iiswc20-113", as_measured=True) == Reference("iiswc20", {"network": 113}, "iiswc20-113")
    for name in ("iiswc20-104", "iiswc20-118", "iiswc20-x"):
        with pytest.raises(UnknownNameError, match=f"no published model is called '{name}'"):
            model(name, as_measured=True)


def test_the_shipped_layers_are_the_published_ones(published_data: Path) -> None:
    networks = read_layers(published_data / "iiswc20" / "layer_embeddings.csv")

    assert all(np.array_equal(short_layers(each), short) for each, (short, _) in zip(networks, published(), strict=True))
    for index, each in enumerate(networks):
        assert np.array_equal(layers_of({"network": index})[:, :12], each[:, :12])
