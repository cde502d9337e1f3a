"""Graphs run by torch compute what runtimes compute."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.writers.onnx import to_onnx
from latcast.search.proxies import small_graph
from latcast.search.torch_network import TorchNetwork
from latcast.spaces.nas.supernet import SUPERNETS

torch = pytest.importorskip("torch")

SPACES = ("ofa_mobilenet_v3", "ofa_proxylessnas", "ofa_resnet", "bignas", "fbnet_v3", "nas_bench_201", "autoformer")


def member(space: str, seed: int = 0) -> Graph:
    supernet = SUPERNETS.get(space)
    return small_graph(supernet, supernet.decode(supernet.sample_encodings(1, seed)[0]))


def by_onnxruntime(graph: Graph, images: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(to_onnx(graph), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {graph.inputs[0]: image[None]})[0] for image in images])


@pytest.mark.parametrize("space", SPACES)
def test_a_batch_gives_what_onnxruntime_gives_for_each_image(space: str) -> None:
    graph = member(space)
    network = TorchNetwork(graph)
    images = network.images(5, seed=1)

    expected = by_onnxruntime(graph, images.numpy())

    found = network(images).detach().numpy()
    # With random weights activations grow until gates are steps, and now and then an image lies on the edge of one, where
    # rounding decides (float32 and float64 then differ by 40 %).
    agree = np.abs(found - expected).max(axis=1) < 5e-4 * np.abs(expected).max()
    assert agree.sum() >= 3  # those of a wrong network all differ
    assert np.abs(expected[0] - expected[1]).max() > 4e-3 * np.abs(expected).max()  # the images are told apart


@pytest.mark.parametrize("space", SPACES)
def test_gradients_reach_every_filter_and_matrix(space: str) -> None:
    network = TorchNetwork(member(space, seed=2), batch_statistics=True)

    gradients = torch.autograd.grad(network(network.images(3, 0)).square().sum(), network.matrices, allow_unused=True)

    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)


def test_statistics_of_the_batch_make_the_channels_of_a_batch_standard() -> None:
    b = GraphBuilder("normalised")
    graph = b.finish(b.batch_norm(b.input((1, 3, 4, 4))))
    network = TorchNetwork(graph, batch_statistics=True)
    scale, shift = (network.weights[name] for name in graph.nodes[0].inputs[1:3])

    found = network(7 + 5 * network.images(8, 0))

    assert torch.allclose(found.mean(dim=(0, 2, 3)), shift, atol=1e-4)
    assert torch.allclose(found.std(dim=(0, 2, 3), correction=0), scale, atol=1e-3)


def test_inputs_of_rectifiers_are_observed_in_order() -> None:
    b = GraphBuilder("two rectifiers")
    graph = b.finish(b.relu(b.mul(b.relu(b.input((1, 2))), b.constant(-1.0, dtype="float32"))))
    network = TorchNetwork(graph)

    output, entering = network.observed(torch.tensor([[1.0, -2.0]]), {"Relu"})

    assert [values.flatten().tolist() for values in entering] == [[1.0, -2.0], [-1.0, 0.0]]
    assert output.tolist() == [[0.0, 0.0]]


def test_an_unsupported_operator_is_refused() -> None:
    b = GraphBuilder("resized")
    graph = b.finish(b.resize(b.input((1, 3, 4, 4)), 8))

    with pytest.raises(UnsupportedOperatorError, match="has the operator Resize, with which no zero-cost proxy"):
        TorchNetwork(graph)


def test_different_padding_at_the_ends_is_refused() -> None:
    b = GraphBuilder("lopsided")
    x = b.input((1, 3, 4, 4))
    graph = b.finish(b.op("MaxPool", [x], {"kernel_shape": (2, 2), "strides": (1, 1), "pads": (0, 0, 1, 1)})[0])

    with pytest.raises(UnsupportedOperatorError, match="pads its ends differently"):
        TorchNetwork(graph)(torch.ones(1, 3, 4, 4))
