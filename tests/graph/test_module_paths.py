"""The module that an operator came from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.module_paths import module_paths
from latcast.spaces.catalogue import build, model


def renamed(graph: Graph, nodes: dict[str, str], weights: dict[str, str]) -> Graph:
    """With other names of nodes and of weights."""
    listed = [
        replace(node, name=nodes.get(node.name, node.name), inputs=tuple(weights.get(name, name) for name in node.inputs))
        for node in graph.nodes
    ]
    tensors = {weights.get(name, name): tensor for name, tensor in graph.tensors.items()}
    return replace(
        graph, nodes=tuple(listed), tensors=tensors, weights=frozenset(weights.get(name, name) for name in graph.weights)
    )


def block() -> Graph:
    b = GraphBuilder("block")
    x = b.conv(b.input((1, 3, 8, 8)), 4, 3)
    y = b.relu(b.conv(x, 4, 3))
    y = b.conv(y, 4, 3)
    return b.finish(b.linear(b.flatten(b.global_average_pool(b.add(x, y))), 2))


def test_scopes_in_names_of_operators_are_paths() -> None:
    graph = renamed(
        block(),
        {
            "conv_0": "/stem/Conv", "conv_1": "/layer1/layer1.0/conv1/Conv", "relu_0": "/layer1/layer1.0/act/Relu",
            "conv_2": "/layer1/layer1.0/conv2/Conv", "add_0": "/layer1/layer1.0/Add", "globalaveragepool_0": "/GlobalAveragePool",
            "flatten_0": "/Flatten", "gemm_0": "/head/fc/Gemm",
        },
        {},
    )  # fmt: skip

    assert list(module_paths(graph).values()) == [
        "stem", "layer1.0.conv1", "layer1.0.act", "layer1.0.conv2", "layer1.0", "", "", "head.fc",
    ]  # fmt: skip


def test_paths_come_from_names_of_weights_or_from_the_module_around_the_node() -> None:
    graph = renamed(
        block(),
        {},
        {
            "conv_weight_0": "stem.weight", "conv_weight_1": "layer1.0.conv1.weight", "conv_weight_2": "layer1.0.conv2.weight",
            "linear_weight_0": "head.fc.weight", "linear_bias_0": "head.fc.bias",
        },
    )  # fmt: skip

    found = module_paths(graph)

    assert found["conv_1"] == "layer1.0.conv1"
    assert found["relu_0"] == "layer1.0"  # between two convolutions of it
    assert (found["add_0"], found["flatten_0"]) == ("", "")  # between layer1 and head
    assert found["gemm_0"] == "head.fc"


def test_operators_of_a_tflite_file_lie_in_the_scopes_of_their_tensors() -> None:
    graph = renamed(
        block(), {"conv_0": "conv_2d:model/stem/Conv2D;model/stem/bias", "conv_1": "conv_2d:model/block/a/Conv2D"}, {}
    )

    found = module_paths(graph)

    assert (found["conv_2d:model/stem/Conv2D;model/stem/bias"], found["conv_2d:model/block/a/Conv2D"]) == (
        "model.stem", "model.block.a",
    )  # fmt: skip


def test_weights_that_an_exporter_named_say_nothing() -> None:
    graph = renamed(block(), {}, {"conv_weight_0": "onnx::Conv_193.x"})

    assert set(module_paths(graph).values()) == {""}


@pytest.mark.parametrize(("name", "expected"), [("resnet18", {""}), ("timm/resnet18", {"conv1", "layer4.1.conv2", "fc"})])
def test_named_networks_have_the_modules_of_their_collections(name: str, expected: set[str]) -> None:
    assert expected <= set(module_paths(build(model(name))).values())
