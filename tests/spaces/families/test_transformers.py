"""ViT, Swin, MobileViT: true to their papers, windows and patches where they belong, and their variants build."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from latcast.errors import ModelError
from latcast.graph.operators import graph_macs
from latcast.spaces.catalogue import family
from latcast.spaces.families import transformers
from tests.spaces.families.counting import published_count
from tests.spaces.families.running import image, run

TRANSFORMERS = ("vit", "swin", "mobilevit")
SMALL = {
    "vit": {"width": 64, "heads": 2, "depth": 2, "resolution": 64},
    "swin": {"widths": [16, 32], "heads": [2, 4], "depths": [2, 2], "window": 4, "resolution": 64},
    "mobilevit": {**transformers.MOBILEVIT_SIZES["xxs"], "transformer_depths": [1, 1, 1], "resolution": 64},
}
"""Members that run in a moment."""


@pytest.mark.parametrize(
    ("name", "member", "parameters", "macs"),
    [
        # Counted by PyTorch on torchvision's and timm's models of the same name.
        ("vit", "deit_tiny_16", 5_717_416, 1_253_683_200),
        ("vit", "vit_base_32", 88_224_232, 4_409_186_304),
        ("swin", "swin_tiny", 28_288_354, 4_490_566_656),
        ("swin", "swin_small", 49_606_258, 8_740_875_264),
        ("mobilevit", "mobilevit_xxs", 1_272_024, 407_364_096),
        ("mobilevit", "mobilevit_s", 5_578_632, 2_000_831_488),
    ],
)
def test_counts_equal_those_of_the_reference_implementation(name: str, member: str, parameters: int, macs: int) -> None:
    graph = family(name).build(**family(name).published[member].parameters)
    assert (published_count(graph), graph_macs(graph)) == (parameters, macs)


@pytest.mark.parametrize(("name", "resolution"), [("vit", [224, 192]), ("swin", [224, 448]), ("mobilevit", [192, 256])])
def test_images_need_not_be_square(name: str, resolution: list[int]) -> None:
    graph = family(name).build(resolution=resolution, classes=7, batch=2)
    assert graph.shape(graph.inputs[0]) == (2, 3, *resolution)
    assert graph.shape(graph.outputs[0]) == (2, 7)


@pytest.mark.parametrize(
    ("name", "parameters", "found"),
    [
        ("vit", {"resolution": 220}, "220x220 does not divide into patches of 16"),
        ("vit", {"width": 200, "heads": 3}, "200 channels do not divide into 3 heads"),
        ("swin", {"resolution": 256}, "64x64 does not divide into windows of 7"),
        ("swin", {"resolution": 226}, "226x226 does not divide into patches of 4"),
        ("swin", {"resolution": 84, "window": 7}, "21x21 has no 2x2 neighbours"),
        ("swin", {"heads": [5, 6, 12, 24]}, "96 channels do not divide into 5 heads"),
        ("swin", {"depths": [2, 2]}, "depths 2, widths 4, heads 4"),
        ("mobilevit", {"dims": [144, 190, 240]}, "190 channels do not divide into 4 heads"),
        ("mobilevit", {"dims": [144, 192]}, "dims 2"),
    ],
)
def test_parameters_that_make_no_network_are_refused(name: str, parameters: dict[str, object], found: str) -> None:
    with pytest.raises(ModelError, match=found):
        family(name).build(**parameters)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_batch_computes_in_onnx_runtime_what_its_images_compute_alone(name: str) -> None:
    batched = family(name).build(**SMALL[name], classes=10, batch=2)
    alone = family(name).build(**SMALL[name], classes=10)
    pair = image(batched)
    together = run(batched, pair)
    separate = np.concatenate([run(alone, pair[:1]), run(alone, pair[1:])])
    assert np.isfinite(together).all()
    assert np.abs(separate[0] - separate[1]).max() > 1e-3
    np.testing.assert_allclose(together, separate, rtol=1e-3, atol=1e-4)


# ViT


def test_the_class_token_is_repeated_for_a_batch_only() -> None:
    one, two = (family("vit").build(**SMALL["vit"], batch=batch) for batch in (1, 2))
    assert "Expand" not in {node.op_type for node in one.nodes}
    (expand,) = (node for node in two.nodes if node.op_type == "Expand")
    assert two.shape(expand.outputs[0]) == (2, 1, 64)


def test_vit_base_sees_196_patches_and_a_class_token() -> None:
    graph = family("vit").build()
    (scores, *others) = (node for node in graph.nodes if node.op_type == "Softmax")
    assert graph.shape(scores.outputs[0]) == (1, 12, 197, 197)
    assert len(others) == 11


def test_the_products_inside_attention_take_twice_the_squared_tokens_times_the_width() -> None:
    graph = family("vit").build(width=64, heads=2, depth=1, hidden=128, resolution=64, classes=10)
    tokens, width = 17, 64
    patches = 16 * 3 * 16 * 16 * width
    linear = tokens * (width * 3 * width + width * width + 2 * width * 128)
    assert graph_macs(graph) == patches + linear + 2 * tokens**2 * width + width * 10


# Swin


def test_every_second_block_shifts_but_in_the_stage_of_one_window() -> None:
    graph = family("swin").build()
    # Stages of 2, 2, 6 and 2 blocks: 1 + 1 + 3 + 0 are shifted, with four concatenations (there and back, two axes).
    assert Counter(node.op_type for node in graph.nodes)["Concat"] == 4 * 5
    masks = {name for name, value in graph.constants.items() if value.ndim == 4}
    windows = {graph.shape(name)[0]: len(graph.consumers[name]) for name in masks}
    assert windows == {64: 1, 16: 1, 4: 3}


def test_a_parameter_count_exceeds_the_published_one_by_the_gathered_biases() -> None:
    graph = family("swin").build()
    heads = 2 * 3 + 2 * 6 + 6 * 12 + 2 * 24
    assert graph.parameter_count - 28_288_354 == heads * (49**2 - 13**2)


def test_a_variant_of_swin_has_windows_that_its_maps_divide_into() -> None:
    for reference in family("swin").sample(10, 5):
        assert reference.parameters["resolution"] == 32 * reference.parameters["window"]


# MobileViT


def test_a_map_that_patches_do_not_cover_is_resized_there_and_back() -> None:
    def sizes(resolution: int) -> list[tuple[int, ...]]:
        graph = family("mobilevit").build(resolution=resolution)
        return [graph.shape(node.outputs[0])[2:] for node in graph.nodes if node.op_type == "Resize"]

    assert sizes(256) == []
    # At 224 the last map is 7x7.
    assert sizes(224) == [(8, 8), (7, 7)]


@pytest.mark.parametrize("name", ["swin", "mobilevit"])
def test_no_tensor_of_windows_or_patches_has_more_than_four_axes(name: str) -> None:
    graph = family(name).build(**SMALL[name])
    assert max(len(tensor.shape) for tensor in graph.tensors.values()) == 4
