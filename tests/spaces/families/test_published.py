"""Families are true to what is published of them: counts, structure, results, and what they refuse."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from latcast.errors import LatcastError, ModelError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.spaces.catalogue import build, family, model, resized
from latcast.spaces.families.variants import draw_blocks
from tests.graph.running import image
from tests.graph.running import run_first as run
from tests.spaces.families.counting import published_count

SMALL_SWIN = {"widths": [16, 32], "heads": [2, 4], "depths": [2, 2], "window": 4}
SMALL_MOBILEVIT = {**family("mobilevit").published["mobilevit_xxs"].parameters, "transformer_depths": [1, 1, 1]}


def kinds(graph: Graph) -> Counter[str]:
    return Counter(node.op_type for node in graph.nodes)


@pytest.mark.parametrize(
    ("member", "parameters", "macs"),
    # Counted by PyTorch on the models of the same name of torchvision, timm and the SENet authors; None: not counted.
    [
        ("alexnet", 61_100_840, None), ("vgg16", 138_357_544, None), ("vgg11_bn", 132_868_840, None),
        ("resnet18", 11_689_512, None), ("resnet50", 25_557_032, None), ("resnet152", 60_192_808, None),
        ("densenet121", 7_978_856, None), ("densenet161", 28_681_000, None), ("googlenet", 6_624_904, None),
        ("squeezenet1_0", 1_248_424, None), ("squeezenet1_1", 1_235_496, None), ("resnext50_32x4d", 25_028_904, None),
        ("resnext101_32x8d", 88_791_336, None), ("mobilenet_v1", 4_231_976, 568_740_352),
        ("mobilenet_v2_1_4", 6_108_776, 582_195_824), ("mobilenet_v3_large", 5_483_032, 216_589_760),
        ("mobilenet_v3_small", 2_542_856, 56_510_400), ("shufflenet_v2_x2_0", 7_393_996, 583_253_464),
        ("mnasnet1_3", 6_282_256, 526_362_432), ("mnasnet_a1", 3_887_038, 311_579_072),
        ("regnet_x_400mf", 5_495_976, 413_812_608), ("regnet_y_1_6gf", 11_202_430, 1_612_076_160),
        ("se_resnet50", 28_088_024, 3_860_488_192), ("se_resnext50_32x4d", 27_559_896, 4_232_994_816),
        ("efficientnet_b4", 19_341_616, 4_393_771_024), ("efficientnet_lite0", 4_652_008, 385_187_552),
        ("ghostnet_x1_3", 7_358_820, 227_003_256), ("deit_tiny_16", 5_717_416, 1_253_683_200),
        ("vit_base_32", 88_224_232, 4_409_186_304), ("swin_tiny", 28_288_354, 4_490_566_656),
        ("swin_small", 49_606_258, 8_740_875_264), ("mobilevit_xxs", 1_272_024, 407_364_096),
        ("mobilevit_s", 5_578_632, 2_000_831_488),
    ],
)  # fmt: skip
def test_counts_equal_those_of_the_reference_implementation(member: str, parameters: int, macs: int | None) -> None:
    graph = build(model(member))
    assert (published_count(graph), graph_macs(graph)) == (parameters, macs or graph_macs(graph))


@pytest.mark.parametrize(
    ("member", "operators"),
    [
        ("vgg16", {"Conv": 13, "Relu": 15, "MaxPool": 5, "Flatten": 1, "Gemm": 3}),
        ("squeezenet1_0", {"Concat": 8, "Gemm": 0}),
        ("densenet121", {"Concat": 6 + 12 + 24 + 16}),
        # Howard et al., Table 1: gates in eight blocks; hard-swish twice in nine blocks and three times outside of them.
        ("mobilenet_v3_large", {"HardSigmoid": 8, "HardSwish": 21}),
        ("se_resnet50", {"GlobalAveragePool": 17, "Sigmoid": 16}),
        # SiLU in the stem, the head, 15 blocks twice, one block once and in 16 gates; then each gate's own sigmoid.
        ("efficientnet_b0", {"Sigmoid": 65, "Mul": 65, "GlobalAveragePool": 17}),
        ("efficientnet_lite0", {"GlobalAveragePool": 1, "Clip": 33}),
        ("ghostnet_x1_0", {"HardSigmoid": 7, "Relu": 42}),
        # Stages of 2, 2, 6 and 2 blocks: 1 + 1 + 3 + 0 are shifted, with four concatenations each.
        ("swin_tiny", {"Concat": 4 * 5}),
        ("vit_base_16", {"Softmax": 12}),
    ],
)
def test_operators_are_where_the_papers_have_them(member: str, operators: dict[str, int]) -> None:
    found = kinds(build(model(member)))
    assert {name: found[name] for name in operators} == operators


def test_a_bottleneck_has_its_stride_in_the_middle() -> None:
    strided = Counter(
        node.attributes["kernel_shape"] for node in build(model("resnet50")).nodes if node.attributes.get("strides") == (2, 2)
    )
    # Three stages halve the map, once in the block and once in the shortcut; stem and pooling before them.
    assert strided == {(3, 3): 3 + 1, (1, 1): 3, (7, 7): 1}


@pytest.mark.parametrize(("member", "blocks"), [("resnet18", 8), ("resnet34", 16), ("resnet50", 16), ("resnet152", 50)])
def test_every_residual_block_adds_once_and_then_activates(member: str, blocks: int) -> None:
    graph = build(model(member))
    additions = [node for node in graph.nodes if node.op_type == "Add"]
    assert len(additions) == blocks
    for node in additions:
        assert [reader.op_type for reader in graph.consumers[node.outputs[0]]] == ["Relu"]


def test_windows_of_swin_share_masks_and_a_stage_of_one_window_has_none() -> None:
    graph = family("swin").build()
    masks = {name for name, value in graph.constants.items() if value.ndim == 4}
    assert {graph.shape(name)[0]: len(graph.consumers[name]) for name in masks} == {64: 1, 16: 1, 4: 3}


def test_the_class_token_of_vit_is_repeated_for_a_batch_only() -> None:
    one, two = (family("vit").build(width=64, heads=2, depth=2, resolution=64, batch=batch) for batch in (1, 2))
    assert "Expand" not in kinds(one)
    (expand,) = (node for node in two.nodes if node.op_type == "Expand")
    assert two.shape(expand.outputs[0]) == (2, 1, 64)


def test_a_map_that_patches_of_mobilevit_do_not_cover_is_resized_there_and_back() -> None:
    def sizes(resolution: int) -> list[tuple[int, ...]]:
        graph = family("mobilevit").build(resolution=resolution)
        return [graph.shape(node.outputs[0])[2:] for node in graph.nodes if node.op_type == "Resize"]

    assert sizes(256) == []
    assert sizes(224) == [(8, 8), (7, 7)]  # the last map is 7x7


@pytest.mark.parametrize(("name", "parameters"), [("swin", SMALL_SWIN), ("mobilevit", SMALL_MOBILEVIT)])
def test_no_tensor_of_windows_or_patches_has_more_than_four_axes(name: str, parameters: dict[str, Any]) -> None:
    graph = family(name).build(**parameters, resolution=64)
    assert max(len(tensor.shape) for tensor in graph.tensors.values()) == 4


def test_a_stored_member_has_the_size_of_its_paper_and_takes_others() -> None:
    assert model("efficientnet_b1").parameters == {"name": "efficientnet_b1", "resolution": 240}

    graph = build(resized(model("efficientnet_b1"), {"input": (2, 3, 96, 160)}))

    assert (graph.shape("input"), graph.shape(graph.outputs[0])) == ((2, 3, 96, 160), (2, 1000))


def test_a_deeper_stage_repeats_its_last_block_and_a_shallower_one_lacks_it() -> None:
    drawn = {tuple(draw_blocks(Random(seed), 4)) for seed in range(200)}
    assert drawn == {(0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 3), (0, 1, 2, 3, 3, 3)}


@pytest.mark.parametrize(
    ("name", "parameters", "found"),
    [
        ("alexnet", {"widths": [64, 192]}, "widths 2, kernels 5"),
        ("vgg", {"widths": [64, 128]}, "depths 5, widths 2"),
        ("vgg", {"resolution": 16}, "larger than its padded input"),
        ("resnet", {"depths": [1, 1]}, "depths 2, widths 4"),
        ("resnet", {"block": "broad"}, "no residual block is called 'broad'"),
        ("densenet", {"growths": [32]}, "growths 1"),
        ("googlenet", {"stages": [2, 5, 3]}, "blocks 9, wanted 10"),
        ("squeezenet", {"squeezed": [16]}, "squeezed 1"),
        ("resnext", {"groups": 48}, "48 group"),
        ("mobilenet_v2", {"widths": [16, 24]}, "differ in length"),
        ("shufflenet_v2", {"widths": [117, 232, 464]}, "117"),
        (
            "proxylessnas",
            {"kernels": [[3], [5, 3], [7], [7], [5], [7], [7]], "expansions": [[1], [3], [3], [6], [6], [6], [6]]},
            "kernels 2, expansions 1",
        ),
        ("vit", {"resolution": 220}, "220x220 does not divide into patches of 16"),
        ("vit", {"width": 200, "heads": 3}, "200 channels do not divide into 3 heads"),
        ("swin", {"resolution": 256}, "64x64 does not divide into windows of 7"),
        ("swin", {"resolution": 84, "window": 7}, "21x21 has no 2x2 neighbours"),
        ("swin", {"depths": [2, 2]}, "depths 2, widths 4, heads 4"),
        ("mobilevit", {"dims": [144, 190, 240]}, "190 channels do not divide into 4 heads"),
        ("mobilevit", {"dims": [144, 192]}, "dims 2"),
        ("ghostnet", {"name": "ghostnet_x9"}, "no network 'ghostnet_x9'; it has ghostnet_x0_5"),
        ("ghostnet", {"widths": [16]}, "the space 'ghostnet' cannot be built: .* it takes name, resolution, batch"),
    ],
)
def test_parameters_of_no_network_are_refused(name: str, parameters: dict[str, Any], found: str) -> None:
    with pytest.raises(ModelError, match=found):
        family(name).build(**parameters)


def test_no_more_stored_members_are_drawn_than_there_are() -> None:
    ghostnet = family("ghostnet")
    assert {reference.name for reference in ghostnet.sample(3, 0)} == set(ghostnet.published)
    with pytest.raises(LatcastError, match="found 3 networks of ghostnet"):
        ghostnet.sample(4, 0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("googlenet", {}), ("squeezenet", {}), ("densenet", {"depths": [2, 2, 2, 2]}), ("resnext", {"depths": [1, 1, 1, 1]}),
        ("mobilenet_v3", dict(family("mobilenet_v3").published["mobilenet_v3_small"].parameters)),
        ("shufflenet_v2", dict(family("shufflenet_v2").published["shufflenet_v2_x0_5"].parameters)),
        ("mnasnet", dict(family("mnasnet").published["mnasnet_a1"].parameters)),
        ("vit", {"width": 64, "heads": 2, "depth": 2}), ("swin", SMALL_SWIN), ("mobilevit", SMALL_MOBILEVIT),
    ],
)  # fmt: skip
def test_a_batch_computes_in_onnx_runtime_what_its_images_compute_alone(name: str, parameters: dict[str, Any]) -> None:
    given = {**parameters, "resolution": 64, "classes": 10}
    batched, alone = family(name).build(**given, batch=2), family(name).build(**given)
    pair = image(batched)
    together = run(batched, pair)
    separate = np.concatenate([run(alone, pair[:1]), run(alone, pair[1:])])
    assert np.isfinite(together).all()
    assert np.abs(separate[0] - separate[1]).max() > 1e-6
    np.testing.assert_allclose(together, separate, rtol=1e-3, atol=1e-4)
