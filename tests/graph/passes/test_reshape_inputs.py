"""The same network for inputs of other sizes."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import ModelError
from latcast.graph import Graph, GraphBuilder
from latcast.graph.passes.reshape_inputs import reshape_inputs
from latcast.records import Reference
from latcast.spaces.catalogue import build, model
from tests.graph.running import run

NAMES = (
    "resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "densenet121", "googlenet", "efficientnet_b0",
    "ghostnet_x1_0", "mnasnet1_0", "regnet_y_400mf", "se_resnet50", "proxylessnas_mobile", "mobilenet_v1", "shufflenet_v2_x1_0",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_resized_network_equals_the_one_built_at_that_size(name: str) -> None:
    published = model(name)
    wanted = build(Reference(published.space, {**published.parameters, "resolution": [288, 352], "batch": 2}))

    assert reshape_inputs(build(published), {"input": (2, 3, 288, 352)}).structure_key == wanted.structure_key


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("deit_tiny_16", "does not fit inputs of these shapes"),
        ("swin_tiny", r"\(Reshape\) may hold sizes"),
        ("mobilevit_xxs", r"\(Reshape\) may hold sizes"),
        ("vgg11", r"gemm_0.*\[1, 100352\]"),
    ],
)
def test_a_network_with_sizes_inside_is_refused(name: str, reason: str) -> None:
    graph = build(model(name))
    size = graph.shape("input")[2] * 2

    with pytest.raises(ModelError, match=reason):
        reshape_inputs(graph, {"input": (1, 3, size, size)})


def flattening(height: int) -> Graph:
    b = GraphBuilder("flattening")
    x = b.relu(b.input((1, 4, height, 6)))
    return b.finish(b.reshape(x, (1, 4, 6 * height)))


def test_a_reshape_that_merges_changed_axes_is_adjusted() -> None:
    found = reshape_inputs(flattening(5), {"input": (1, 4, 7, 6)})

    assert found.structure_key == flattening(7).structure_key
    np.testing.assert_array_equal(run(found)[0], run(flattening(7))[0])


def test_a_shape_without_a_name_is_of_the_only_input() -> None:
    b = GraphBuilder("sum")
    two = b.finish(b.op("Add", [b.input((1, 4)), b.input((1, 4), name="other")])[0])

    assert reshape_inputs(flattening(5), {"": (1, 4, 7, 6)}).structure_key == flattening(7).structure_key
    with pytest.raises(ModelError, match="found a shape without a name, and the inputs are: input, other"):
        reshape_inputs(two, {"": (1, 8)})


def test_unchanged_shapes_return_the_same_graph() -> None:
    graph = flattening(5)

    assert reshape_inputs(graph, {"input": (1, 4, 5, 6)}) is graph


@pytest.mark.parametrize("given", [(4, 5, 6), (1, 4, 0, 6)])
def test_a_shape_of_another_kind_is_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"input 'input' of flattening is \[1, 4, 5, 6\]; found the shape"):
        reshape_inputs(flattening(5), {"input": given})


def slicing(b: GraphBuilder, x: str) -> str:
    return b.op("Slice", [x, *(b.constant([number], dtype="int64") for number in (0, 4, 2))])[0]


def resizing(b: GraphBuilder, x: str) -> str:
    return b.op("Resize", [x, "", "", b.constant([1, 4, 16, 16], dtype="int64")])[0]


def padding(b: GraphBuilder, x: str) -> str:
    return b.op("Pad", [x, b.constant([0, 0, 1, 1, 0, 0, 1, 1], dtype="int64")])[0]


def pooling(b: GraphBuilder, x: str) -> str:
    return b.op("AveragePool", [x], {"kernel_shape": (8, 8)})[0]


@pytest.mark.parametrize("operator", [slicing, resizing, padding, pooling])
def test_an_operator_whose_numbers_may_depend_on_a_size_is_refused(operator: object) -> None:
    b = GraphBuilder("sized")
    graph = b.finish(operator(b, b.relu(b.input((1, 4, 8, 8)))))  # type: ignore[operator]

    with pytest.raises(ModelError, match="may hold sizes that were worked out from the old ones; load the file again"):
        reshape_inputs(graph, {"input": (1, 4, 12, 12)})
