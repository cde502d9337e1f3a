"""Names of kernels as backends print them."""

from __future__ import annotations

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels import find_kernels, load_rules
from latcast.kernels.executed_names import executed_names
from latcast.kernels.rules import rules_for


def names(graph: Graph, runtime: str, device: str) -> list[str]:
    """Names of the kernels, without a normalisation's or an activation's own numbers."""
    rules = rules_for(runtime, "fp16", "gpu", device)
    return executed_names(graph, find_kernels(graph, rules), rules)


def test_the_delegate_names_what_it_linked() -> None:
    b = GraphBuilder("pre-activation")
    x = b.max_pool(b.input((1, 8, 6, 6)), 3, 1, 1)
    y = b.batch_norm(b.conv(x, 8, 3))
    graph = b.finish(b.relu6(b.batch_norm(b.add(y, x))))

    # The first normalisation is folded into the weights; behind the sum it is a product and a sum.
    assert names(graph, "tflite", "pixel4") == [
        "pooling_2d",
        "convolution_2d_linked_:_add_linked_:_mul_linked_:_add_linked_:_relu",
    ]


def test_a_gate_written_out_is_a_relu_and_a_product_behind_a_fully_connected_kernel() -> None:
    b = GraphBuilder("gate")
    x = b.global_average_pool(b.input((1, 8, 6, 6)))
    three, six = b.constant(3.0, dtype="float32"), b.constant(6.0, dtype="float32")
    y = b.op("Div", [b.relu6(b.add(b.conv(x, 8, bias=True), three)), six])[0]

    assert names(b.finish(y), "tflite", "pixel4") == ["mean", "fully_connected_linked_:_relu_linked_:_mul"]


def test_hard_swish_is_one_word_however_it_is_spelled() -> None:
    b = GraphBuilder("hard swish")
    x = b.batch_norm(b.depthwise_conv(b.input((1, 8, 6, 6))))
    three, six = b.constant(3.0, dtype="float32"), b.constant(6.0, dtype="float32")
    spelled = b.op("Div", [b.mul(x, b.relu6(b.add(x, three))), six])[0]

    assert names(b.finish(b.hard_swish(spelled)), "tflite", "s10") == [
        "depthwise_convolution_linked_:_hard_swish_linked_:_hard_swish"
    ]


def test_winograd_kernels_do_not_say_what_is_linked_to_them() -> None:
    b = GraphBuilder("winograd")
    graph = b.finish(b.relu(b.conv(b.input((1, 64, 56, 56)), 64, 3)))

    assert names(graph, "tflite", "s10") == ["convolution_winograd_4x4_6x6"]
    assert names(graph, "tflite", "pixel4") == ["convolution_2d_linked_:_relu"]


def test_kernels_that_begin_with_an_element_wise_operator_are_all_links() -> None:
    b = GraphBuilder("element-wise")
    x, y = b.input((1, 8, 6, 6)), b.input((1, 8, 6, 6))
    graph = b.finish(b.sigmoid(b.batch_norm(b.mul(x, y))))

    assert names(graph, "tflite", "pixel4") == ["mul_linked_:_mul_linked_:_add_linked_:_sigmoid"]


def test_pytorch_names_its_kernels_by_what_it_chose() -> None:
    b = GraphBuilder("block")
    x = b.input((1, 8, 9, 9))
    y = b.relu(b.batch_norm(b.depthwise_conv(b.hard_swish(b.conv(x, 8)), 5)))
    graph = b.finish(b.linear(b.flatten(b.global_average_pool(b.relu(b.add(b.conv(y, 8, 3), x)))), 10))

    vulkan = ["conv2d_pw_2x2", "hardswish", "conv2d_dw_5x5", "conv2d", "add", "clamp", "mean", "flatten", "addmm"]
    metal = [
        "prepack_conv2d", "hard_swish", "prepack_conv2d", "prepack_conv2d", "elementwise_mpscnn", "relu", "adaptive_avg_pool2d",
        "flatten", "linear",
    ]  # fmt: skip
    assert names(graph, "pytorch", "s10") == [f"vulkan.{name}" for name in vulkan]
    assert names(graph, "pytorch", "iphonexs") == [f"metal.{name}" for name in metal]


def test_without_a_selection_a_kernel_is_called_by_its_type() -> None:
    b = GraphBuilder("plain")
    graph = b.finish(b.relu(b.conv(b.input((1, 8, 9, 9)), 8)))

    assert executed_names(graph, find_kernels(graph, load_rules("litert")), load_rules("litert")) == ["conv"]
