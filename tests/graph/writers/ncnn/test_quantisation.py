"""Int8 layers as ncnn2int8 writes them."""

from __future__ import annotations

import numpy as np

from latcast.graph import Graph, GraphBuilder
from latcast.graph.weights import synthetic_weights
from latcast.graph.writers.ncnn import to_ncnn


def int8_terms(graph: Graph) -> list[tuple[str, str | None]]:
    """Kind and parameter 8 (18 for Gemm) of every layer that has weights."""
    found = []
    for text in to_ncnn(graph, precision="int8")[0].splitlines()[2:]:
        kind = text.split()[0]
        params = dict(item.split("=") for item in text.split() if "=" in item)
        if kind in ("Convolution", "ConvolutionDepthWise", "InnerProduct", "Gemm", "Deconvolution"):
            found.append((kind, params.get("18" if kind == "Gemm" else "8")))
    return found


def test_a_convolution_read_only_by_int8_convolutions_hands_int8_on() -> None:
    b = GraphBuilder("chain")
    x = b.conv_bn(b.input((1, 3, 16, 16)), 16, 3)
    x = b.relu(b.batch_norm(b.depthwise_conv(x, 3)))
    x = b.conv_bn(x, 8, 1)
    graph = b.finish(b.max_pool(x, 2))
    assert int8_terms(graph) == [("Convolution", "102"), ("ConvolutionDepthWise", "101"), ("Convolution", "2")]


def test_a_split_hands_int8_on_only_where_all_its_readers_take_it() -> None:
    b = GraphBuilder("branches")
    x = b.conv(b.input((1, 3, 16, 16)), 16, 3)
    both = b.finish(b.concat([b.conv(x, 8, 1), b.conv(x, 8, 3)]))
    assert int8_terms(both)[0] == ("Convolution", "102")
    b = GraphBuilder("residual")
    x = b.conv(b.input((1, 3, 16, 16)), 16, 3)
    assert int8_terms(b.finish(b.add(x, b.conv(x, 16, 3))))[0] == ("Convolution", "2")


def test_a_convolution_whose_result_leaves_the_network_makes_floats() -> None:
    b = GraphBuilder("outputs")
    x = b.conv(b.input((1, 3, 16, 16)), 16, 3)
    assert int8_terms(b.finish(x, b.conv(x, 8, 1))) == [("Convolution", "2"), ("Convolution", "2")]


def test_matrix_products_compute_in_int8_and_grouped_and_transposed_convolutions_do_not() -> None:
    b = GraphBuilder("others")
    x = b.conv_transpose(b.conv(b.input((1, 8, 8, 8)), 16, 3, groups=2), 8)
    assert int8_terms(b.finish(b.linear(b.flatten(b.global_average_pool(x)), 4))) == [
        ("ConvolutionDepthWise", None),
        ("Deconvolution", None),
        ("InnerProduct", "2"),
    ]
    b = GraphBuilder("tokens")
    assert int8_terms(b.finish(b.linear(b.input((1, 5, 12)), 7))) == [("Gemm", "2")]


def test_the_bin_holds_weights_bias_weight_scales_and_the_input_scale() -> None:
    b = GraphBuilder("one")
    graph = b.finish(b.conv(b.input((1, 2, 8, 8)), 3, 1, bias=True))
    data = to_ncnn(graph, precision="int8")[1]
    # Tag, six weights padded to eight bytes, three biases, three weight scales, one input scale.
    assert len(data) == 4 + 8 + 3 * 4 + 3 * 4 + 4
    weight = synthetic_weights(graph)["conv_weight_0"].reshape(3, 2)
    scales = np.frombuffer(data, "<f4", count=3, offset=24)
    assert np.allclose(scales, 127.0 / np.abs(weight).max(axis=1), rtol=1e-5)
    (input_scale,) = np.frombuffer(data, "<f4", offset=36)
    assert 127 / 8 < input_scale < 127 / 2.5
    stored = np.frombuffer(data, np.int8, count=6, offset=4).reshape(3, 2)
    assert np.array_equal(stored, np.rint(weight * scales[:, None]))


def test_the_value_of_padding_is_quantised_with_the_input() -> None:
    b = GraphBuilder("padded")
    pads, value = b.constant([0, 0, 1, 1, 0, 0, 1, 1], dtype="int64"), b.constant(1.5, dtype="float32")
    x = b.op("Pad", [b.input((1, 4, 8, 8)), pads, value])[0]
    graph = b.finish(b.conv(x, 4, 3, padding=0))
    text, data = to_ncnn(graph, precision="int8")
    (input_scale,) = np.frombuffer(data[-4:], "<f4")
    assert f"18={float(np.rint(1.5 * input_scale)):.8e}" in text
    assert "18=1.50000000e+00" in to_ncnn(graph)[0]
