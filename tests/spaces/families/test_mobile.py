"""MobileNet, ShuffleNet, MnasNet, ProxylessNAS: true to their papers, and their variants build."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.errors import ModelError
from latcast.graph.operators import graph_macs
from latcast.spaces.catalogue import family
from latcast.spaces.families.variants import RESOLUTIONS, check_lengths, draw_blocks
from tests.spaces.families.counting import published_count
from tests.spaces.families.running import image, run

MOBILE = ("mobilenet_v1", "mobilenet_v2", "mobilenet_v3", "shufflenet_v2", "mnasnet", "proxylessnas")
SEEDS = st.integers(0, 2**16)


@pytest.mark.parametrize(
    ("name", "member", "parameters", "macs"),
    [
        # Counted by PyTorch on torchvision's and timm's models of the same name.
        ("mobilenet_v1", "mobilenet_v1", 4_231_976, 568_740_352),
        ("mobilenet_v2", "mobilenet_v2_1_4", 6_108_776, 582_195_824),
        ("mobilenet_v3", "mobilenet_v3_large", 5_483_032, 216_589_760),
        ("mobilenet_v3", "mobilenet_v3_small", 2_542_856, 56_510_400),
        ("shufflenet_v2", "shufflenet_v2_x2_0", 7_393_996, 583_253_464),
        ("mnasnet", "mnasnet1_3", 6_282_256, 526_362_432),
        ("mnasnet", "mnasnet_a1", 3_887_038, 311_579_072),
    ],
)
def test_counts_equal_those_of_the_reference_implementation(name: str, member: str, parameters: int, macs: int) -> None:
    graph = family(name).build(**family(name).published[member].parameters)
    assert (published_count(graph), graph_macs(graph)) == (parameters, macs)


@pytest.mark.parametrize("name", ["mobilenet_v1", "mobilenet_v2", "mnasnet"])
@settings(max_examples=12)
@given(seed=SEEDS)
def test_widths_of_variants_are_multiples_of_8_between_a_fifth_and_nine_fifths(name: str, seed: int) -> None:
    (reference,) = family(name).sample(1, seed)
    # MnasNet's A1 has one other width.
    space = family(name)
    other = space.published["mnasnet_a1"].parameters["widths"] if name == "mnasnet" else space.defaults["widths"]
    for index, width in enumerate(reference.parameters["widths"]):
        bases = space.defaults["widths"][index], other[index]
        assert width % 8 == 0
        assert 0.2 * min(bases) - 8 <= width <= 1.8 * max(bases) + 8


@pytest.mark.parametrize("name", MOBILE)
def test_variants_move_width_and_resolution(name: str) -> None:
    references = family(name).sample(30, 1)
    assert len({str(one.parameters["widths"]) for one in references}) > 20
    assert {one.parameters["resolution"] for one in references} == set(RESOLUTIONS)


@pytest.mark.parametrize("name", MOBILE)
def test_images_need_not_be_square(name: str) -> None:
    graph = family(name).build(resolution=[96, 160], classes=7, batch=2)
    assert graph.shape(graph.inputs[0]) == (2, 3, 96, 160)
    assert graph.shape(graph.outputs[0]) == (2, 7)
    # Every spatial operator works on whole multiples of 1/32 of both sides, so MACs of convolutions follow the area.
    square = family(name).build(resolution=32, classes=7)
    convolutions = [node for node in graph.nodes if node.op_type == "Conv"]
    for node, small in zip(convolutions, (one for one in square.nodes if one.op_type == "Conv"), strict=True):
        height, width = graph.shape(node.outputs[0])[2:]
        expected = square.shape(small.outputs[0])[2]
        assert (height, width) in ((3 * expected, 5 * expected), (1, 1))


@pytest.mark.parametrize("name", MOBILE)
def test_lists_of_different_lengths_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="differ in length"):
        family(name).build(widths=[16, 24])


def test_the_message_about_lists_gives_every_length() -> None:
    with pytest.raises(ModelError, match="widths 3, depths 2"):
        check_lengths("a family", widths=[1, 2, 3], depths=(1, 2))


def test_a_deeper_stage_repeats_its_last_block_and_a_shallower_one_lacks_it() -> None:
    drawn = {tuple(draw_blocks(Random(seed), 4)) for seed in range(200)}
    assert drawn == {(0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 3), (0, 1, 2, 3, 3, 3)}


def test_mobilenet_v3_large_has_eight_gates_and_twenty_one_hard_swishes() -> None:
    kinds = Counter(node.op_type for node in family("mobilenet_v3").build().nodes)
    # Howard et al., Table 1: SE in eight blocks; HS twice in each of nine blocks, in the stem, before the pooling and
    # after the hidden layer.
    assert kinds["HardSigmoid"] == 8
    assert kinds["HardSwish"] == 21


def test_a_stage_of_shufflenet_that_does_not_split_in_halves_is_refused() -> None:
    with pytest.raises(ModelError, match="117"):
        family("shufflenet_v2").build(widths=[117, 232, 464])


def test_proxylessnas_refuses_a_stage_with_more_kernels_than_expansions() -> None:
    kernels = [[3], [5, 3], [7], [7], [5], [7], [7]]
    expansions = [[1], [3], [3], [6], [6], [6], [6]]
    with pytest.raises(ModelError, match="kernels 2, expansions 1"):
        family("proxylessnas").build(kernels=kernels, expansions=expansions)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("mobilenet_v3", "mobilenet_v3_small"),
        ("shufflenet_v2", "shufflenet_v2_x0_5"),
        ("mnasnet", "mnasnet_a1"),
    ],
)
def test_a_batch_computes_in_onnx_runtime_what_its_images_compute_alone(name: str, member: str) -> None:
    parameters = {**family(name).published[member].parameters, "resolution": 64, "classes": 10}
    batched = family(name).build(**parameters, batch=2)
    alone = family(name).build(**parameters)
    pair = image(batched)
    together = run(batched, pair)
    separate = np.concatenate([run(alone, pair[:1]), run(alone, pair[1:])])
    assert np.isfinite(together).all()
    assert np.abs(separate[0] - separate[1]).max() > 1e-6
    np.testing.assert_allclose(together, separate, rtol=1e-3, atol=1e-5)
