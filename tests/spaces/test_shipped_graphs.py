"""The graphs that come with latcast under names."""

from __future__ import annotations

import pytest

from latcast.graph.operators import graph_macs
from latcast.graph.operators.table import unknown_operators
from latcast.spaces.catalogue import build, model
from latcast.spaces.named_graphs import FOLDER, graph_file, spaces_with_graphs
from tests.spaces.families.counting import published_count

DIFFERING = {
    "timm": (
        # timm counts the standardisation of filters, which does not depend on the image and is done once.
        *("dm_nfnet", "eca_nfnet", "nfnet", "resnetv2_", "vit_small_r26", "vit_base_r", "vit_large_r50"),
        # It counts the network that works out position biases, which depends on no image either.
        "swinv2_",
        # It counts this one with its branches folded into one convolution each.
        "ghostnetv3_100",
    )
}
"""By space, what the names begin with of networks that are more than 1 % off what was published."""


@pytest.mark.parametrize(
    ("name", "million_parameters", "million_macs"),
    # Tables of their papers: He et al. 2016 (with the stride in the 3x3 convolution: 4.1 in place of 3.8 G), Liu et al. 2022,
    # Touvron et al. 2021, Liu et al. 2021, Tan and Le 2019.
    [
        ("timm/resnet50", 25.6, 4_100), ("timm/convnext_tiny", 28.6, 4_500), ("timm/vit_small_patch16_224", 22, 4_600),
        ("timm/swin_tiny_patch4_window7_224", 28.3, 4_500), ("timm/efficientnet_b0", 5.3, 390),
    ],
)  # fmt: skip
def test_well_known_networks_have_the_sizes_of_their_papers(name: str, million_parameters: float, million_macs: float) -> None:
    graph = build(model(name))

    assert graph_macs(graph) / 1e6 == pytest.approx(million_macs, rel=0.015)
    # Exported attention reads its relative position biases as one weight for each pair, not by pairs of offsets: 2 % of Swin's.
    assert published_count(graph) / 1e6 == pytest.approx(million_parameters, rel=0.02)
    assert graph.shape("input") == (1, 3, 224, 224)
    assert graph.shape(graph.outputs[0]) == (1, 1000)
    assert not unknown_operators(graph)


@pytest.mark.parametrize(
    ("name", "million_values"),
    # Counted over the collections' modules (timm's StdConv2d and ScaledStdConv2d), of a hybrid its convolutional stem's alone.
    [
        ("timm/resnet50", 0), ("timm/nf_resnet50", 23.455), ("timm/dm_nfnet_f0", 46.480), ("timm/resnetv2_50x1_bit", 23.455),
        ("timm/vit_small_r26_s32_224", 13.915), ("huggingface/vit-hybrid-base-bit-384", 11.855),
    ],
)  # fmt: skip
def test_networks_say_which_filters_are_standardised(name: str, million_values: float) -> None:
    graph = build(model(name))

    assert sum(graph.tensors[each].elements for each in graph.standardised) / 1e6 == pytest.approx(million_values, abs=5e-4)


@pytest.mark.parametrize("space", spaces_with_graphs())
def test_figures_are_within_a_percent_of_those_published(space: str) -> None:
    file = graph_file(space)
    assert file is not None
    off = []
    for key, network in file.networks.items():
        parameters, macs = network.published_million_parameters, network.published_million_macs
        counted = network.macs if network.counted_macs is None else network.counted_macs
        assert network.parameters > 0
        assert network.macs > 0
        # Published figures are rounded to a hundredth of a million parameters, and to ten million multiply-accumulates.
        if parameters is not None and abs(network.parameters / 1e6 - parameters) > 0.01 * parameters + 0.005:
            off.append(key[0])
        if macs is not None and abs(counted / 1e6 - macs) > 0.01 * macs + 5:
            off.append(key[0])
    assert [name for name in off if not name.startswith(DIFFERING.get(space, ()))] == []
    assert len(off) < 0.03 * len(file.networks)


@pytest.mark.parametrize("space", spaces_with_graphs())
def test_each_file_says_where_its_networks_are_from(space: str) -> None:
    file = graph_file(space)
    assert file is not None
    assert (FOLDER / f"{space}.NOTICE.txt").is_file()
    for network in file.networks.values():
        assert network.origin.address.startswith("https://")
        assert network.origin.licence
        assert network.figures or network.published_million_macs is None


def test_a_graph_is_read_without_the_others() -> None:
    file = graph_file("timm")
    assert file is not None
    network = file.find("resnet50")
    assert network is not None

    assert len(file.packed(network)) < 2_000 < file.path.stat().st_size / 20
