"""Models that onnxruntime's quantiser made: the operators of the float network remain, on tensors of 8 bits."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from latcast.graph import Graph, GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_macs
from latcast.graph.writers.onnx import to_onnx
from tests.graph.op_types import op_types


class RandomInputs(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, graph: Graph) -> None:
        rng = np.random.default_rng(0)
        self.batches = iter([{name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}])

    def get_next(self) -> Any:
        return next(self.batches, None)


def vision_network() -> Graph:
    b = GraphBuilder("vision")
    x = b.conv_bn(b.input((1, 3, 16, 16)), 8, 3, stride=2)
    y = b.relu(b.conv(x, 8, 3, groups=8, bias=True))
    x = b.add(b.conv(y, 8, 1, bias=True), x)
    x = b.max_pool(b.concat([x, b.sigmoid(x)]), 2)
    x = b.flatten(b.global_average_pool(x))
    return b.finish(b.linear(x, 10))


def text_network() -> Graph:
    b = GraphBuilder("text")
    return b.finish(b.linear(b.gelu(b.linear(b.layer_norm(b.input((1, 8, 32))), 64)), 32))


@pytest.fixture
def float_file(tmp_path: Path) -> Path:
    """The vision network as quantisers want it: batch normalisation folded."""
    written, prepared = tmp_path / "written.onnx", tmp_path / "float.onnx"
    written.write_bytes(to_onnx(vision_network()))
    quant_pre_process(written, prepared)
    return prepared


@pytest.fixture(params=[QuantFormat.QDQ, QuantFormat.QOperator])
def quantized_file(request: pytest.FixtureRequest, float_file: Path, tmp_path: Path) -> Path:
    file = tmp_path / "int8.onnx"
    logging.disable(logging.WARNING)
    try:
        quantize_static(float_file, file, RandomInputs(vision_network()), quant_format=request.param, per_channel=True)
    finally:
        logging.disable(logging.NOTSET)
    return file


def test_a_statically_quantized_network_computes_the_same_in_8_bits(float_file: Path, quantized_file: Path) -> None:
    plain, quantized = load_graph(float_file), load_graph(quantized_file)

    assert quantized.precision == "int8"
    assert graph_macs(quantized) == graph_macs(plain) == graph_macs(vision_network())
    assert quantized.parameter_count == plain.parameter_count
    # Activations that quantisation makes superfluous may go; nothing may be added but the change at both ends.
    added = Counter(op_types(quantized)) - Counter(op_types(plain))
    assert added == {"QuantizeLinear": 1, "DequantizeLinear": 1}
    assert [quantized.shape(name) for name in quantized.outputs] == [(1, 10)]


def test_only_the_ends_of_a_statically_quantized_network_are_real(quantized_file: Path) -> None:
    graph = load_graph(quantized_file)

    first, *inner, last = graph.nodes
    assert (first.op_type, last.op_type) == ("QuantizeLinear", "DequantizeLinear")
    for node in inner:
        assert {graph.tensors[name].dtype for name in node.outputs} <= {"int8", "uint8"}, node
        for name in [each for each in node.inputs if each in graph.weights][:1]:
            assert graph.tensors[name].dtype in ("int8", "uint8")


def test_a_dynamically_quantized_product_is_one_operator_with_a_weight_of_8_bits(tmp_path: Path) -> None:
    plain_file, file = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    plain_file.write_bytes(to_onnx(text_network()))
    quantize_dynamic(plain_file, file)

    plain, quantized = load_graph(plain_file), load_graph(file)

    assert quantized.precision == "int8"
    assert Counter(op_types(quantized)) == Counter(op_types(plain))
    assert graph_macs(quantized) == graph_macs(text_network())
    products = [node for node in quantized.nodes if node.op_type == "MatMul"]
    assert [quantized.tensors[node.inputs[1]].dtype for node in products] == ["int8", "int8"]
    assert [quantized.tensors[node.inputs[0]].dtype for node in products] == ["float32", "float32"]
