"""Operators of optimisers are taken apart into standard ones that compute the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from latcast.errors import ModelError
from latcast.graph import Graph
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_macs, unknown_operators
from latcast.graph.writers.onnx import to_onnx
from latcast.runtimes.contract_networks import CONTRACT_NETWORKS
from tests.graph.importers.onnx_models import model, node
from tests.graph.running import run

MICROSOFT = "com.microsoft"


def session(content: bytes, level: Any, path: Path | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    if path is not None:
        options.optimized_model_filepath = str(path)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def call(op_type: str, shapes: Sequence[Sequence[int]], *, domain: str = MICROSOFT, **attributes: Any) -> onnx.ModelProto:
    """A model of one operator, all of whose inputs are inputs of the model; an empty shape list leaves one out."""
    names = [f"x{index}" if shape else "" for index, shape in enumerate(shapes)]
    inputs = {name: shape for name, shape in zip(names, shapes, strict=True) if name}
    return model([node(op_type, names, ["y"], name="op", domain=domain, **attributes)], inputs, ["y"], domains=[MICROSOFT])


def operators(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


CALLS: Mapping[str, tuple[onnx.ModelProto, Sequence[str]]] = {
    "fused convolution": (
        call("FusedConv", [(1, 3, 8, 8), (4, 3, 3, 3), (4,)], activation="Relu", pads=[1, 1, 1, 1]),
        ["Conv", "Relu"],
    ),
    "fused convolution with a sum": (
        call("FusedConv", [(1, 3, 8, 8), (4, 3, 1, 1), (4,), (1, 4, 8, 8)], activation="Relu"),
        ["Conv", "Add", "Relu"],
    ),
    "fused convolution with bounds": (
        call("FusedConv", [(1, 3, 8, 8), (4, 3, 1, 1)], activation="Clip", activation_params=[0.0, 6.0]),
        ["Conv", "Clip"],
    ),
    "fused convolution with a slope": (
        call("FusedConv", [(1, 3, 8, 8), (4, 3, 1, 1)], activation="LeakyRelu", activation_params=[0.2]),
        ["Conv", "LeakyRelu"],
    ),
    "fused gemm": (
        call("FusedGemm", [(2, 6), (5, 6), (5,)], activation="LeakyRelu", activation_alpha=0.3, transB=1),
        ["Gemm", "LeakyRelu"],
    ),
    "fused matmul": (
        call("FusedMatMul", [(2, 3, 4), (2, 5, 4)], transB=1, alpha=0.5),
        ["Transpose", "MatMul", "Mul"],
    ),
    "fused matmul of a transposed left side": (call("FusedMatMul", [(4, 3), (4, 5)], transA=1), ["Transpose", "MatMul"]),
    "gelu": (call("Gelu", [(2, 6)]), ["Gelu"]),
    "gelu with a bias": (call("BiasGelu", [(2, 6), (6,)]), ["Add", "Gelu"]),
    "gelu by tanh": (call("FastGelu", [(2, 6)]), ["Gelu"]),
    "gelu by sigmoid": (call("QuickGelu", [(2, 6)]), ["Mul", "Sigmoid", "Mul"]),
    "swish": (call("QuickGelu", [(2, 6)], alpha=1.0), ["Sigmoid", "Mul"]),
    "skip normalisation": (
        call("SkipLayerNormalization", [(1, 4, 8), (1, 4, 8), (8,), (8,)], epsilon=1e-5),
        ["Add", "LayerNormalization"],
    ),
    "skip normalisation with a bias": (
        call("SkipLayerNormalization", [(1, 4, 8), (1, 4, 8), (8,), (8,), (8,)], epsilon=1e-5),
        ["Add", "Add", "LayerNormalization"],
    ),
    "skip normalisation by the root mean square": (
        call("SkipSimplifiedLayerNormalization", [(1, 4, 8), (1, 4, 8), (8,)], epsilon=1e-5),
        ["Add", "RMSNormalization"],
    ),
    "normalisation by the root mean square": (
        call("SimplifiedLayerNormalization", [(1, 4, 8), (8,)], domain="", axis=-1, epsilon=1e-5),
        ["RMSNormalization"],
    ),
    "attention": (
        call("Attention", [(1, 5, 12), (12, 24), (24,)], num_heads=2),
        # The two transposes of the keys are one.
        ["MatMul", "Add", "Split", *["Reshape"] * 4, *["Transpose"] * 4, "MatMul", "Mul", "Softmax", "MatMul"],
    ),
    "attention of several heads": (
        call("MultiHeadAttention", [(1, 5, 12), (1, 7, 12), (1, 7, 12)], num_heads=3),
        [*["Reshape"] * 4, *["Transpose"] * 4, "MatMul", "Mul", "Softmax", "MatMul"],
    ),
}


@pytest.mark.parametrize("case", sorted(CALLS))
def test_a_fused_operator_is_taken_apart_into_operators_that_compute_the_same(case: str) -> None:
    proto, expected = CALLS[case]
    graph = load_graph(proto)
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    runtime = session(proto.SerializeToString(), onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)

    assert Counter(operators(graph)) == Counter(expected)
    np.testing.assert_allclose(run(graph)[0], runtime.run(None, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "proto",
    [
        call("Attention", [(1, 5, 12), (12, 24), (24,), (1, 5)], num_heads=2),
        call("BiasSplitGelu", [(1, 5, 12), (12,)]),
    ],
)
def test_a_form_that_has_no_rule_is_an_unknown_operator(proto: onnx.ModelProto) -> None:
    with pytest.raises(ModelError, match=r"node 'op' is a 'com\.microsoft::"):
        load_graph(proto)


@pytest.mark.parametrize("name", sorted(CONTRACT_NETWORKS))
def test_a_model_that_onnxruntime_optimised_counts_the_same_work(name: str, tmp_path: Path) -> None:
    graph = CONTRACT_NETWORKS[name]()
    path = tmp_path / "optimised.onnx"
    session(to_onnx(graph), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, path)

    optimised = load_graph(path)

    assert not unknown_operators(optimised)
    assert graph_macs(optimised) == graph_macs(graph)
    convolutions = [Counter(operators(g))["Conv"] for g in (graph, optimised)]
    assert convolutions[0] == convolutions[1]


def test_a_model_in_a_layout_for_one_machine_is_refused_with_the_way_out() -> None:
    proto = call("Conv", [(1, 16, 8, 8), (16, 16, 1, 1)], domain="com.microsoft.nchwc")

    with pytest.raises(ModelError, match="give the model that this one was optimised from"):
        load_graph(proto)


def test_the_sum_of_a_skip_normalisation_can_be_read_too() -> None:
    shapes = {"x": (1, 4, 8), "skip": (1, 4, 8), "scale": (8,)}
    nodes = [
        node("SkipLayerNormalization", list(shapes), ["n", "", "", "sum"], domain=MICROSOFT),
        node("Add", ["n", "sum"], ["y"]),
    ]

    graph = load_graph(model(nodes, shapes, ["y"], domains=[MICROSOFT]))

    assert operators(graph) == ["Add", "LayerNormalization", "Add"]
