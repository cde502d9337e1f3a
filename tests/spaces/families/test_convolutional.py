"""AlexNet, VGG, ResNet and ResNeXt, DenseNet, GoogLeNet, SqueezeNet: true to what is published of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from latcast.errors import ModelError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_flops, graph_macs
from latcast.spaces.catalogue import family, model
from latcast.spaces.families.variants import KERNEL_SIZES
from tests.spaces.families.counting import published_count
from tests.spaces.families.running import image, run

CONVOLUTIONAL = ("alexnet", "vgg", "resnet", "densenet", "googlenet", "squeezenet", "resnext")


def published(member: str) -> Graph:
    reference = model(member)
    return family(reference.space).build(**reference.parameters)


def kinds(graph: Graph) -> Counter[str]:
    return Counter(node.op_type for node in graph.nodes)


def convolutions(graph: Graph, kernel: int | None = None) -> list[Any]:
    found = [node for node in graph.nodes if node.op_type == "Conv"]
    return found if kernel is None else [node for node in found if node.attributes["kernel_shape"] == (kernel, kernel)]


@pytest.mark.parametrize(
    ("member", "parameters"),
    [
        # The "num_params" of torchvision's weights.
        ("alexnet", 61_100_840),
        ("vgg16", 138_357_544),
        ("vgg11_bn", 132_868_840),
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
        ("resnet152", 60_192_808),
        ("densenet121", 7_978_856),
        ("densenet161", 28_681_000),
        ("googlenet", 6_624_904),
        ("squeezenet1_0", 1_248_424),
        ("squeezenet1_1", 1_235_496),
        ("resnext50_32x4d", 25_028_904),
        ("resnext101_32x8d", 88_791_336),
    ],
)
def test_parameters_equal_those_of_the_reference_implementation(member: str, parameters: int) -> None:
    assert published_count(published(member)) == parameters


@pytest.mark.parametrize("member", ["alexnet", "vgg16", "resnet50", "densenet121", "googlenet", "squeezenet1_1"])
def test_nearly_all_flops_are_two_for_each_multiply_accumulate(member: str) -> None:
    graph = published(member)
    assert 2 * graph_macs(graph) < graph_flops(graph) < 2.1 * graph_macs(graph)


def test_alexnet_flattens_256_maps_of_6_by_6() -> None:
    graph = published("alexnet")
    (flattened,) = (node for node in graph.nodes if node.op_type == "Flatten")
    assert graph.shape(flattened.inputs[0]) == (1, 256, 6, 6)
    # The first convolution: 64 filters of 3x11x11 at 55x55 places.
    first = convolutions(graph)[0]
    assert graph.shape(first.outputs[0]) == (1, 64, 55, 55)


def test_vgg16_has_thirteen_convolutions_five_poolings_and_three_linear_layers() -> None:
    graph = published("vgg16")
    assert kinds(graph) == {"Conv": 13, "Relu": 15, "MaxPool": 5, "Flatten": 1, "Gemm": 3}
    assert kinds(published("vgg16_bn"))["BatchNormalization"] == 13


def test_a_bottleneck_has_its_stride_in_the_middle() -> None:
    def strides(member: str, kernel: int) -> int:
        return sum(node.attributes["strides"] == (2, 2) for node in convolutions(published(member), kernel))

    # Three stages halve the map: once in the block, once in the shortcut.
    assert (strides("resnet50", 3), strides("resnet50", 1)) == (3, 3)


@pytest.mark.parametrize(("member", "blocks"), [("resnet18", 8), ("resnet34", 16), ("resnet50", 16), ("resnet152", 50)])
def test_every_residual_block_adds_once_and_then_activates(member: str, blocks: int) -> None:
    graph = published(member)
    additions = [node for node in graph.nodes if node.op_type == "Add"]
    assert len(additions) == blocks
    for node in additions:
        assert [reader.op_type for reader in graph.consumers[node.outputs[0]]] == ["Relu"]


def test_resnext_convolves_in_32_groups_and_resnet_in_one() -> None:
    assert {node.attributes["group"] for node in convolutions(published("resnext50_32x4d"), 3)} == {32}
    assert {node.attributes["group"] for node in convolutions(published("resnet50"))} == {1}


def test_every_layer_of_densenet_gathers_all_earlier_ones() -> None:
    graph = published("densenet121")
    gathered = [node for node in graph.nodes if node.op_type == "Concat"]
    assert len(gathered) == 6 + 12 + 24 + 16
    assert [len(node.inputs) for node in gathered[:6]] == [2, 3, 4, 5, 6, 7]
    # 512 channels enter the last stage, 16 layers add 32 each.
    assert graph.shape(gathered[-1].outputs[0]) == (1, 1024, 7, 7)


def test_googlenet_pools_to_28_14_and_7_with_its_border_kept() -> None:
    graph = published("googlenet")
    gathered = [graph.shape(node.outputs[0])[1:] for node in graph.nodes if node.op_type == "Concat"]
    assert gathered[0] == (256, 28, 28)
    assert gathered[2] == (512, 14, 14)
    assert gathered[-1] == (1024, 7, 7)
    assert len(gathered) == 9


def test_squeezenet_ends_in_a_convolution_to_the_classes() -> None:
    graph = published("squeezenet1_0")
    assert kinds(graph)["Concat"] == 8
    assert kinds(graph)["Gemm"] == 0
    assert graph.shape(convolutions(graph)[-1].outputs[0]) == (1, 1000, 13, 13)


@pytest.mark.parametrize("name", ["vgg", "resnet", "densenet", "resnext"])
def test_variants_take_other_kernels(name: str) -> None:
    drawn = {kernel for reference in family(name).sample(20, 2) for kernel in reference.parameters["kernels"]}
    assert drawn == set(KERNEL_SIZES)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_images_need_not_be_square(name: str) -> None:
    graph = family(name).build(resolution=[96, 160], classes=7, batch=2)
    assert graph.shape(graph.inputs[0]) == (2, 3, 96, 160)
    assert graph.shape(graph.outputs[0]) == (2, 7)


@pytest.mark.parametrize(
    ("name", "parameters", "found"),
    [
        ("alexnet", {"widths": [64, 192]}, "widths 2, kernels 5"),
        ("vgg", {"widths": [64, 128]}, "depths 5, widths 2"),
        ("resnet", {"depths": [1, 1]}, "depths 2, widths 4"),
        ("resnet", {"block": "broad"}, "no residual block is called 'broad'"),
        ("densenet", {"growths": [32]}, "growths 1"),
        ("googlenet", {"stages": [2, 5, 3]}, "blocks 9, wanted 10"),
        ("squeezenet", {"squeezed": [16]}, "squeezed 1"),
        ("resnext", {"groups": 48}, "48 group"),
        ("vgg", {"resolution": 16}, "larger than its padded input"),
    ],
)
def test_parameters_that_make_no_network_are_refused(name: str, parameters: dict[str, Any], found: str) -> None:
    with pytest.raises(ModelError, match=found):
        family(name).build(**parameters)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("googlenet", {}),
        ("squeezenet", {}),
        ("densenet", {"depths": [2, 2, 2, 2]}),
        ("resnext", {"depths": [1, 1, 1, 1]}),
    ],
)
def test_a_network_runs_in_onnx_runtime_and_tells_images_apart(name: str, parameters: dict[str, Any]) -> None:
    graph = family(name).build(**parameters, resolution=64, classes=10, batch=2)
    answers = run(graph, image(graph))
    assert answers.shape == (2, 10)
    assert np.isfinite(answers).all()
    assert np.abs(answers[0] - answers[1]).max() > 1e-6
