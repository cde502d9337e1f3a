"""ncnn's param files: what layers become, what latcast writes itself, networks that others wrote, and what is refused."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from latcast.errors import DynamicShapeError, ModelError, UnknownOperatorError
from latcast.graph import Graph
from latcast.graph.importers import ModelOptions, load_graph
from latcast.graph.importers.ncnn import NcnnReading
from latcast.graph.importers.ncnn_file import read_layers
from latcast.graph.limits import Budget
from latcast.graph.operators import graph_macs
from latcast.graph.writers.ncnn import to_ncnn
from latcast.networks import read_model
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.op_types import op_types
from tests.random_networks import random_network

PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "data" / "ncnn_boards" / "param"


def parameters(graph: Graph) -> int:
    return sum(graph.tensors[name].elements for name in graph.weights)


def folded_parameters(graph: Graph) -> int:
    """Of a network where the batch normalisation after a convolution has become the convolution's bias."""
    total = parameters(graph)
    for node in graph.nodes:
        before = graph.producers.get(node.inputs[0]) if node.op_type == "BatchNormalization" else None
        if before is not None and before.op_type == "Conv" and graph.sole_reader(before.outputs[0]) is not None:
            total -= (4 if len(before.inputs) > 2 else 3) * graph.shape(node.inputs[1])[0]
    return total


def load(folder: Path, *lines: str, **arguments: object) -> Graph:
    path = folder / "network.param"
    path.write_text("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines]) + "\n")
    return load_graph(path, **arguments)  # type: ignore[arg-type]


# What latcast writes


@pytest.mark.parametrize("name", sorted(CONTRACT_NETWORKS))
def test_a_contract_network_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    check_written(CONTRACT_NETWORKS[name](), tmp_path)


@pytest.mark.parametrize("seed", range(25))
def test_a_random_network_is_read_as_it_was_written(seed: int, tmp_path: Path) -> None:
    check_written(random_network(seed), tmp_path)


@pytest.mark.parametrize("name", ["mobilenet_v3_large", "shufflenet_v2_x1_0", "efficientnet_b0", "googlenet"])
def test_a_family_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    check_written(read_model(name), tmp_path)


def check_written(graph: Graph, folder: Path) -> None:
    path = folder / "network.param"
    path.write_text(to_ncnn(graph)[0])

    read = load_graph(path, strict=True)

    assert graph_macs(read) == graph_macs(graph)
    assert parameters(read) == folded_parameters(graph)
    assert [prod(read.shape(name)) for name in read.outputs] == [prod(graph.shape(name)) for name in graph.outputs]
    assert [read.shape(name) for name in read.inputs] == [(1, *graph.shape(name)[1:]) for name in graph.inputs]


def test_the_precision_is_read(tmp_path: Path) -> None:
    path = tmp_path / "network.param"
    graph = CONTRACT_NETWORKS["conv_stack"]()

    found = []
    for precision in ("fp32", "int8"):
        path.write_text(to_ncnn(graph, precision=precision)[0])
        found.append(load_graph(path).precision)

    assert found == ["fp32", "int8"]


# Layers


def test_a_convolution_with_its_activation_is_two_operators(tmp_path: Path) -> None:
    graph = load(tmp_path, "Input x 0 1 x 0=8 1=8 2=3", "Convolution c 1 1 x y 0=4 1=3 3=2 4=1 5=1 6=108 9=3 -23310=2,0.0,6.0")

    assert op_types(graph) == ["Conv", "Clip"]
    assert graph.shape("y") == (1, 4, 4, 4)
    assert parameters(graph) == 112


def test_a_convolution_of_a_pooled_map_keeps_its_four_axes(tmp_path: Path) -> None:
    graph = load(
        tmp_path,
        "Input x 0 1 x 0=8 1=8 2=4",
        "Split s 1 2 x a b",
        "Pooling p 1 1 a q 0=1 4=1",
        "Convolution c 1 1 q r 0=4 1=1 5=1 6=16 9=4",
        "BinaryOp m 2 1 b r y 0=2",
    )

    assert op_types(graph) == ["GlobalAveragePool", "Conv", "Sigmoid", "Mul"]
    assert graph.shape("y") == (1, 4, 8, 8)


@pytest.mark.parametrize(
    ("numbers", "size"),
    [("1=3 2=2", 4), ("1=3 2=2 5=1", 3), ("1=3 2=2 3=1", 5), ("1=2 2=2 5=2", 4), ("1=1 2=3", 4), ("4=0 7=1 8=2 18=2", 2)],
)
def test_windows_of_pooling(numbers: str, size: int, tmp_path: Path) -> None:
    graph = load(tmp_path, "Input x 0 1 x 0=8 1=8 2=2", f"Pooling p 1 1 x y 0=0 {numbers}")

    assert graph.shape("y") == (1, 2, size, size)


def test_attention_has_the_products_of_its_parts(tmp_path: Path) -> None:
    graph = load(tmp_path, "Input x 0 1 x 0=64 1=10", "MultiHeadAttention m 1 1 x y 0=64 1=4 2=4096")

    assert graph.shape("y") == (1, 10, 64)
    assert graph_macs(graph) == 4 * 10 * 64 * 64 + 2 * 10 * 10 * 64
    assert parameters(graph) == 4 * (64 * 64 + 64)


def test_sizes_that_the_file_leaves_open_are_asked_for(tmp_path: Path) -> None:
    lines = ("Input x 0 1 x", "ReLU r 1 1 x y")

    with pytest.raises(DynamicShapeError, match=r"input 'x' has no shape; give it: --shape x=1,3,224,224"):
        load(tmp_path, *lines)
    assert load(tmp_path, *lines, shapes={"x": (1, 3, 9, 7)}).shape("y") == (1, 3, 9, 7)


def test_an_unknown_layer_is_kept_where_its_shape_is_known(tmp_path: Path) -> None:
    lines = ("Input x 0 1 x 0=8 1=8 2=4", "Convolution c 1 1 x z 0=4 1=1 6=16", "MyLayer m 1 1 z y -23330=4,3,4,4,2")

    assert [(node.op_type, node.domain) for node in load(tmp_path, *lines).nodes] == [("Conv", ""), ("MyLayer", "ncnn")]
    with pytest.raises(UnknownOperatorError, match="line 5: MyLayer 'm'"):
        load(tmp_path, *lines, strict=True)
    with pytest.raises(ModelError, match="does not say what shape"):
        load(tmp_path, *lines[:2], "MyLayer m 1 1 z y")


# Networks that others wrote

GIVEN = {"vision_transformer": {"input": (1, 3, 384, 384)}, "FastestDet": {"in0": (1, 3, 352, 352)}}
"""The input's shape, where the file has none."""

SAME = {
    "efficientnet_b0": "efficientnet_b0", "mnasnet": "mnasnet1_0", "mobilenet": "mobilenet_v1",
    "regnety_400m": "regnet_y_400mf", "resnet18": "resnet18", "shufflenet_v2": "shufflenet_v2_x1_0", "vgg16": "vgg16",
}  # fmt: skip
"""Network to the family's member that is the same."""

SAME_WEIGHTS = {
    "alexnet": "alexnet", "mobilenet_v2": "mobilenet_v2", "proxylessnasnet": "proxylessnas_mobile", "resnet50": "resnet50",
    "squeezenet": "squeezenet1_1",
}  # fmt: skip
"""Network to the family's member with the same weights, and strides or an input size of its own."""


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"ncnn's benchmark networks are not at {PUBLISHED}")
class TestPublished:
    @pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.param")), ids=lambda path: path.stem)
    def test_every_network_is_read(self, path: Path) -> None:
        graph = load_graph(path, shapes=GIVEN.get(path.stem))

        assert (graph_macs(graph) or 0) > 1e7
        assert graph.precision == ("int8" if path.stem.endswith("_int8") else "fp32")

    @pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.param")), ids=lambda path: path.stem)
    def test_shapes_are_those_that_the_file_states(self, path: Path) -> None:
        reading = NcnnReading(path.stem, list(read_layers(path, Budget())), ModelOptions(GIVEN.get(path.stem)))
        reading.graph()

        for layer in reading.layers:
            for name, shape in zip(layer.tops, layer.stated_shapes() or (), strict=False):
                assert reading.blobs[name].shape == shape, name

    @pytest.mark.parametrize("name", sorted(SAME))
    def test_networks_of_families_do_the_same_work(self, name: str) -> None:
        assert graph_macs(load_graph(PUBLISHED / f"{name}.param")) == pytest.approx(graph_macs(read_model(SAME[name])), rel=0.01)

    @pytest.mark.parametrize(("name", "family"), sorted({**SAME, **SAME_WEIGHTS}.items()))
    def test_networks_of_families_have_the_same_weights(self, name: str, family: str) -> None:
        found = parameters(load_graph(PUBLISHED / f"{name}.param"))

        assert found == pytest.approx(folded_parameters(read_model(family)), rel=0.01)


# What is refused


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected 7767517"),
        ("7767517\n", "line 2: expected the number of layers"),
        ("7767517\n2 2\nInput x 0 1 x 0=8 1=8 2=3\n", "found 1 layers, expected 2"),
        ("7767517\n1 1\nInput x 0 1\n", "line 3: found 0 fields after the counts"),
        ("7767517\n1 1\nInput x 0 1 x 0=8 1=eight\n", "line 3: found 'eight', expected a number"),
        ("7767517\n1 1\nInput x 0 1 x 0=8 1=99999999999\n", "line 3: found the number"),
        ("7767517\n1 1\nInput x 0 1 x 0=2000000000 1=2000000000 2=2000000000\n", "line 3: Input 'x'"),
        ("7767517\n2 2\nInput x 0 1 x 0=8\nReLU r 1 1 z y\n", "line 4: ReLU 'r': it reads 'z', which no layer before it writes"),
        ("7767517\n2 2\nInput x 0 1 x 0=8 1=8 2=3\nConvolution c 1 1 x y 0=4 1=3 6=100\n", "line 4: Convolution 'c': its 100"),
        ("7767517\n2 2\nInput x 0 1 x 0=8 1=8 2=3\nConvolution c 1 1 x y 0=0 1=3 6=108\n", "expected positive numbers"),
        ("7767517\n2 2\nInput x 0 1 x 0=8 1=8 2=3\nPooling c 1 1 x y 0=0 1=99\n", "line 4: Pooling 'c'"),
        ("7767517\n1 1\nInput x 0 1 x 0=8 -23309=3,1\n", "expected a list that begins with its length"),
        (f"7767517\n1 1\nInput {'x' * 400} 0 1 x 0=8\n", "found a name of 400 characters"),
        ("7767517\n1 1\nInput x 0 1 x 0=8 1=8 2=3\n", "no layer that computes anything"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "network.param"
    path.write_text(text)

    with pytest.raises(ModelError) as caught:
        load_graph(path)

    assert words in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).isprintable()
