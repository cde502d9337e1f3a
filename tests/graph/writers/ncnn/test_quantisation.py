"""Int8 layers as ncnn2int8 writes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

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


def chain(b: GraphBuilder) -> str:
    x = b.conv_bn(b.input((1, 3, 16, 16)), 16, 3)
    return b.max_pool(b.conv_bn(b.relu(b.batch_norm(b.depthwise_conv(x, 3))), 8, 1), 2)


def head(b: GraphBuilder) -> str:
    x = b.conv_transpose(b.conv(b.input((1, 8, 8, 8)), 16, 3, groups=2), 8)
    return b.linear(b.flatten(b.global_average_pool(x)), 4)


def first(b: GraphBuilder) -> str:
    return b.conv(b.input((1, 3, 16, 16)), 16, 3)


CONV = "Convolution"


@pytest.mark.parametrize(
    ("build", "terms"),
    [
        # A result goes on in int8 (101, 102) where all its readers are int8 convolutions.
        (lambda b: (chain(b),), [(CONV, "102"), ("ConvolutionDepthWise", "101"), (CONV, "2")]),
        (lambda b: (b.concat([b.conv(x := first(b), 8, 1), b.conv(x, 8, 3)]),), [(CONV, "102"), (CONV, "2"), (CONV, "2")]),
        (lambda b: (b.add(x := first(b), b.conv(x, 16, 3)),), [(CONV, "2"), (CONV, "2")]),
        (lambda b: (x := first(b), b.conv(x, 8, 1)), [(CONV, "2"), (CONV, "2")]),
        # Products compute in int8, grouped and transposed convolutions do not.
        (lambda b: (head(b),), [("ConvolutionDepthWise", None), ("Deconvolution", None), ("InnerProduct", "2")]),
        (lambda b: (b.linear(b.input((1, 5, 12)), 7),), [("Gemm", "2")]),
    ],
)
def test_layers_compute_and_hand_on_int8_where_ncnn_does(
    build: Callable[[GraphBuilder], tuple[str, ...]], terms: list[tuple[str, str | None]]
) -> None:
    b = GraphBuilder("int8")
    assert int8_terms(b.finish(*build(b))) == terms


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
