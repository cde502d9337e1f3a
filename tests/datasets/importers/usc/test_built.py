"""Recorded kernels find their nodes."""

from __future__ import annotations

from latcast.datasets.importers.usc.built import with_nodes
from latcast.datasets.importers.usc.operations import parse_kernel_name
from latcast.graph import GraphBuilder
from latcast.graph.ir import Graph
from latcast.records import ExecutedKernel


def kernel(name: str, operation: str, **configuration: int) -> ExecutedKernel:
    return ExecutedKernel(name, parse_kernel_name(name).kind, (), 1.0, {"operation": operation, **configuration})


def convolution(
    name: str, inputs: int, outputs: int, size: int, kernel_size: int = 3, stride: int = 1, groups: int = 1
) -> ExecutedKernel:
    return kernel(
        name, "CONV_2D", input_channels=inputs, output_channels=outputs, output_size=size, kernel_size=kernel_size,
        stride=stride, groups=groups,
    )  # fmt: skip


def operators(graph: Graph, found: ExecutedKernel) -> list[str]:
    types = {node.name: node.op_type for node in graph.nodes}
    return [types[name] for name in found.nodes]


def test_a_kernel_takes_the_operations_fused_into_it() -> None:
    b = GraphBuilder("block")
    x = b.relu(b.conv(b.input((1, 3, 16, 16)), 8, 3, stride=2))
    y = b.relu(b.add(b.conv(x, 8, 3), x))
    graph = b.finish(b.linear(b.flatten(b.global_average_pool(y)), 10))

    found = with_nodes(
        [
            convolution("convolution_2d_0_linked_:_relu_1", 3, 8, 8, stride=2),
            convolution("convolution_2d_2_linked_:_add_3_linked_:_relu_4", 8, 8, 8),
            kernel("mean_5", "MEAN", input_channels=8, output_channels=8, input_size=8, output_size=1),
            kernel("fully_connected_6", "FULLY_CONNECTED", input_channels=8, output_channels=10),
        ],
        graph,
    )

    assert [operators(graph, each) for each in found] == [
        ["Conv", "Relu"],
        ["Conv", "Add", "Relu"],
        ["GlobalAveragePool"],
        ["Gemm"],
    ]


def test_equal_nodes_are_taken_once_each_in_order() -> None:
    b = GraphBuilder("chain")
    x = b.conv(b.conv(b.input((1, 8, 8, 8)), 8, 3), 8, 3)
    graph = b.finish(x)
    names = [node.name for node in graph.nodes]

    found = with_nodes([convolution(f"convolution_2d_{number}", 8, 8, 8) for number in range(3)], graph)

    assert [each.nodes for each in found] == [(names[0],), (names[1],), ()]


def test_a_kernel_of_another_configuration_finds_nothing() -> None:
    b = GraphBuilder("one")
    graph = b.finish(b.conv(b.input((1, 8, 8, 8)), 8, 3))

    for other in (
        convolution("c_0", 8, 8, 8, kernel_size=1), convolution("c_0", 8, 16, 8), convolution("c_0", 8, 8, 4, stride=2),
        convolution("c_0", 8, 8, 8, groups=8),
        kernel("resize_0", "RESIZE", input_channels=8),
    ):  # fmt: skip
        assert with_nodes([other], graph)[0].nodes == ()


def test_activations_that_are_spelt_out_belong_to_their_kernel() -> None:
    b = GraphBuilder("spelt")
    x = b.conv(b.input((1, 8, 8, 8)), 8, 3)
    three, six = b.constant(3.0, dtype="float32"), b.constant(6.0, dtype="float32")
    hard_swish = b.div(b.mul(x, b.clip(b.add(x, three), 0, 6)), six)
    y = b.conv(hard_swish, 16, 1)
    graph = b.finish(b.div(b.clip(b.add(y, three), 0, 6), six))

    swish, sigmoid = with_nodes(
        [
            convolution("convolution_2d_0_linked_:_hard_swish_1", 8, 8, 8),
            convolution("convolution_2d_2_linked_:_relu_3_linked_:_mul_4", 8, 16, 8, kernel_size=1),
        ],
        graph,
    )

    assert sorted(operators(graph, swish)) == ["Add", "Clip", "Conv", "Div", "Mul"]
    assert operators(graph, sigmoid) == ["Conv", "Add", "Clip", "Div"]


def test_batch_normalisation_is_a_product_and_a_sum_on_the_phone() -> None:
    b = GraphBuilder("normalised")
    x = b.input((1, 8, 8, 8))
    graph = b.finish(b.relu(b.batch_norm(b.concat([b.conv(x, 8, 3), x]))))

    found = with_nodes(
        [
            kernel(
                "concat_1_linked_:_mul_2_linked_:_add_3_linked_:_relu_4",
                "CONCATENATION",
                inputs=2,
                output_channels=16,
                output_size=8,
            )
        ],
        graph,
    )

    assert operators(graph, found[0]) == ["Concat", "BatchNormalization", "Relu"]


def test_two_convolutions_in_one_kernel() -> None:
    b = GraphBuilder("separable")
    x = b.relu(b.depthwise_conv(b.input((1, 8, 16, 16)), 3, stride=2))
    graph = b.finish(b.relu(b.conv(x, 16, 1)), b.conv(x, 8, 5))

    shared = kernel(
        "depthwise_conv_plus_1x1_conv_0_1_2_linked_:_relu_3", "DEPTHWISE_CONV_2D+CONV_2D", input_channels=8, output_channels=16,
        output_size=8, kernel_size=3, stride=2, groups=8,
    )  # fmt: skip
    [found] = with_nodes([shared], graph)
    assert operators(graph, found) == ["Conv", "Relu"]  # the relu is read twice here, so nothing goes on

    b = GraphBuilder("separable")
    x = b.relu(b.depthwise_conv(b.input((1, 8, 16, 16)), 3, stride=2))
    graph = b.finish(b.relu(b.conv(x, 16, 1)))
    [found] = with_nodes([shared], graph)
    assert operators(graph, found) == ["Conv", "Relu", "Conv", "Relu"]


def test_fusion_stops_where_the_graph_disagrees() -> None:
    b = GraphBuilder("other")
    graph = b.finish(b.sigmoid(b.conv(b.input((1, 8, 8, 8)), 8, 3)))

    [found] = with_nodes([convolution("convolution_2d_0_linked_:_relu_1", 8, 8, 8)], graph)

    assert operators(graph, found) == ["Conv"]


def test_a_sigmoid_is_found_by_its_channels() -> None:
    b = GraphBuilder("gate")
    x = b.input((1, 8, 14, 14))
    graph = b.finish(b.mul(x, b.sigmoid(b.global_average_pool(x))))

    [found] = with_nodes(
        [kernel("vulkan.sigmoid", "aten::sigmoid", input_channels=8, output_channels=8, input_size=14, output_size=14)], graph
    )

    assert operators(graph, found) == ["Sigmoid"]
