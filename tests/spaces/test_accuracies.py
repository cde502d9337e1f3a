"""Published accuracies: whole, each with a source, of the network and the image that its name stands for."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from latcast.graph.operators import graph_macs
from latcast.spaces.accuracies import FILE, TRAINED_ON, best_accuracy, published_accuracies
from latcast.spaces.catalogue import build, model, models
from latcast.spaces.named_kernels import rated_networks

DATA = json.loads(FILE.read_text(encoding="utf-8"))


def test_every_fact_has_a_source_and_stands_once() -> None:
    facts = [fact for group in DATA["published"] for fact in group["facts"]]

    assert all(group["source"] for group in DATA["published"])
    assert Counter((network, side, weights) for network, side, weights, _, _ in facts).most_common(1)[0][1] == 1
    assert {trained_on for *_, trained_on, _ in facts} == set(TRAINED_ON)
    assert all(30 < top1_percent < 91 for *_, top1_percent in facts)


def test_every_fact_is_of_a_network_that_has_a_name() -> None:
    names = {each.name for each in models()}

    assert {network for network, _ in published_accuracies()} <= names
    assert set(DATA["same"]) <= names


def test_names_that_are_rated_stand_for_different_networks() -> None:
    names = [each.name for each in rated_networks()]

    assert len({model(name).key for name in names}) == len(names)


def test_1500_names_are_rated() -> None:
    rated = rated_networks()
    families = Counter(each.name.partition("/")[0] if "/" in each.name else "" for each in rated)

    assert len(rated) >= 1_500
    assert families["timm"] > 880
    assert families["pytorchcv"] > 300
    assert families["torchvision"] > 70
    assert families["huggingface"] == 50
    assert all(each.accuracy_source and each.trained_on in TRAINED_ON for each in rated)


@pytest.mark.parametrize(
    ("network", "side", "trained_on", "top1_percent"),
    # timm's results-imagenet.csv, torchvision's table of weights, and the projects' own tables, read by hand.
    [
        ("timm/convnext_tiny", 224, "more", 84.192), ("timm/convnext_tiny", 224, "imagenet-1k", 82.066),
        ("timm/resnet50", 224, "more", 81.146), ("timm/resnet50", 224, "imagenet-21k", 80.846),
        ("timm/levit_128s", 224, "imagenet-1k", 76.52), ("torchvision/resnet50", 224, "imagenet-1k", 80.858),
        ("vgg16", 224, "imagenet-1k", 71.592), ("pytorchcv/alexnet", 224, "imagenet-1k", 61.5),
        ("pytorchcv/resnet18_wd4", 224, "imagenet-1k", 60.38), ("mobilenet_v1_0_25", 224, "imagenet-1k", 49.8),
        ("efficientnet_lite4", 300, "imagenet-1k", 81.5), ("huggingface/mit-b0", 224, "imagenet-1k", 70.5),
        ("huggingface/cvt-21-384", 384, "more", 84.9), ("huggingface/cvt-21-384", 384, "imagenet-1k", 83.3),
        ("torchvision/vit_b_32", 224, "imagenet-1k", 75.912), ("torchvision/vit_l_16", 224, "more", 85.146),
        ("mobilenet_v1_0_25_128", 128, "imagenet-1k", 41.5), ("mobilenet_v2_96", 96, "imagenet-1k", 60.3),
        ("mnasnet_a1_1_4_160", 160, "imagenet-1k", 74.8), ("timm/semnasnet_140", 224, "imagenet-1k", 77.2),
        # 100 less 22.91 and 20.21 % of errors.
        ("pytorchcv/sharesnet101b", 224, "imagenet-1k", 77.09), ("pytorchcv/airnext101_32x4d_r16", 224, "imagenet-1k", 79.79),
        ("timm/gmlp_ti16_224", 224, "imagenet-1k", 72.05), ("huggingface/dinov2-base-imagenet1k-1-layer", 224, "more", 84.5),
    ],
)  # fmt: skip
def test_accuracies_are_those_of_the_tables(network: str, side: int, trained_on: str, top1_percent: float) -> None:
    found = best_accuracy(network, side, trained_on)

    assert found is not None
    assert found.top1_percent == top1_percent


def test_another_image_has_no_accuracy() -> None:
    assert best_accuracy("huggingface/cvt-21-384", 224) is None
    assert best_accuracy("efficientnet_lite4", 224) is None
    # Weights for images of 240 pixels do not rate a graph for 224.
    assert not [each for each in models("pytorchcv/efficientnet_b1b") if each.top1_percent]


def test_weights_that_saw_more_are_left_out_where_asked() -> None:
    all_weights, one_set = (
        next(each for each in models("timm/resnet50", trained_on=images) if each.name == "timm/resnet50")
        for images in ("more", "imagenet-1k")
    )

    assert (all_weights.top1_percent, all_weights.trained_on) == (81.146, "more")
    assert (one_set.top1_percent, one_set.trained_on) == (80.846, "imagenet-1k")


def test_same_networks_have_the_same_image_and_arithmetic() -> None:
    for network, other in DATA["same"].items():
        graphs = [build(model(name)) for name in (network, other)]
        shapes = {graph.shape(graph.inputs[0]) for graph in graphs}
        counted = [graph_macs(graph) for graph in graphs]
        # Hailo's RepVGG has each block folded into one convolution.
        assert len(shapes) == 1, network
        assert counted[0] == counted[1] or network.startswith("hailo/"), network


def test_rated_networks_take_the_image_that_was_rated() -> None:
    unsaid = [each.name for each in rated_networks() if not each.name.startswith(("timm/", "torchvision/"))]
    for name in unsaid:
        graph = build(model(name))
        side = graph.shape(graph.inputs[0])[-1]
        assert graph.shape(graph.inputs[0]) == (1, 3, side, side), name
        assert best_accuracy(name, side), name
