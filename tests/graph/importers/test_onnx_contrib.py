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
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_macs, unknown_operators
from latcast.graph.writers.onnx import to_onnx
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.importers.onnx_models import model, node
from tests.graph.op_types import op_types
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
    "fused matmul": (call("FusedMatMul", [(2, 3, 4), (2, 5, 4)], transB=1, alpha=0.5), ["Transpose", "MatMul", "Mul"]),
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


def standard(shapes: Sequence[Sequence[int]], outputs: Sequence[str] = ("y",), **attributes: Any) -> onnx.ModelProto:
    """ONNX's own Attention."""
    names = [f"x{index}" if shape else "" for index, shape in enumerate(shapes)]
    inputs = {name: shape for name, shape in zip(names, shapes, strict=True) if name}
    return model(
        [node("Attention", names, outputs, name="op", **attributes)], inputs, [each for each in outputs if each], opset=23
    )


PRODUCTS = ["MatMul", "Mul", "MatMul", "Softmax", "Transpose"]

ATTENTIONS: Mapping[str, tuple[onnx.ModelProto, Sequence[str]]] = {
    "four axes": (standard([(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)]), PRODUCTS),
    "four axes, as torch writes them": (
        standard([(2, 3, 5, 8)] * 3, is_causal=0, softcap=0.0, qk_matmul_output_mode=0),
        PRODUCTS,
    ),
    # Two reshapes around the products: the three query heads of each head of keys are rows of one product.
    "four axes, shared heads": (standard([(2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)]), [*PRODUCTS, "Reshape", "Reshape"]),
    "four axes, shared heads and a mask": (
        standard([(2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6), (2, 1, 5, 7)], scale=0.3),
        [*PRODUCTS, *["Reshape"] * 4, "Add"],
    ),
    "three axes": (
        standard([(2, 5, 12), (2, 7, 12), (2, 7, 12)], q_num_heads=3, kv_num_heads=3),
        # Each side is parted into heads and the result merged; the two transposes of the keys are one.
        ["MatMul", "Mul", "MatMul", "Softmax", *["Transpose"] * 4, *["Reshape"] * 4],
    ),
    "three axes, shared heads": (
        standard([(2, 5, 24), (2, 7, 8), (2, 7, 8)], q_num_heads=6, kv_num_heads=2),
        ["MatMul", "Mul", "MatMul", "Softmax", *["Transpose"] * 4, *["Reshape"] * 6],
    ),
    "a past": (
        standard([(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (), (1, 2, 5, 4), (1, 2, 5, 4)], ("y", "k", "v")),
        [*PRODUCTS, "Concat", "Concat"],
    ),
    "capped scores": (standard([(2, 3, 5, 8)] * 3, softcap=2.0), [*PRODUCTS, "Div", "Tanh", "Mul"]),
}


@pytest.mark.parametrize("case", sorted(ATTENTIONS))
def test_attention_is_taken_apart_into_operators_that_compute_the_same(case: str) -> None:
    from onnx.reference import ReferenceEvaluator

    proto, expected = ATTENTIONS[case]
    graph = load_graph(proto)
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    names = [output.name for output in proto.graph.output]

    assert Counter(op_types(graph)) == Counter(expected)
    wanted = ReferenceEvaluator(proto).run(names, feeds)
    for found, value in zip(run(graph, feeds=feeds), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attributes", [{"is_causal": 1}, {"left_window_size": 2}])
def test_a_mask_that_the_operator_makes_up_is_a_stored_table(attributes: Mapping[str, int]) -> None:
    graph = load_graph(standard([(2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8)], **attributes))
    [add] = [each for each in graph.nodes if each.op_type == "Add"]

    assert [graph.shape(name) for name in add.inputs] == [(2, 6, 5, 7), (5, 7)]
    assert add.inputs[1] in graph.weights


def test_an_attention_that_has_no_rule_stays_one_operator() -> None:
    proto = standard([(1, 2, 3, 4)] * 3, ("y", "", "", "scores"))

    graph = load_graph(proto)

    assert op_types(graph) == ["Attention"]
    assert graph.shape("scores") == (1, 2, 3, 3)


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 3, 5, 8), (1, 2, 5, 8), (1, 2, 5, 8)],  # 3 query heads for 2 heads of keys
        [(1, 2, 5, 8), (1, 2, 5, 6), (1, 2, 5, 8)],
        [(1, 2, 5, 8), (1, 2, 5, 8), (1, 2, 4, 8)],
        [(1, 5, 8), (1, 5, 8), (1, 5, 8)],  # without the number of heads
        [(1, 2, 5, 8), (1, 5, 8), (1, 5, 8)],
    ],
)
def test_an_attention_whose_inputs_do_not_fit_is_refused(shapes: Sequence[Sequence[int]]) -> None:
    with pytest.raises(ModelError, match=r"node 'op' \(Attention\) with inputs"):
        load_graph(standard(shapes))


@pytest.mark.parametrize("case", sorted(CALLS))
def test_a_fused_operator_is_taken_apart_into_operators_that_compute_the_same(case: str) -> None:
    proto, expected = CALLS[case]
    graph = load_graph(proto)
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    runtime = session(proto.SerializeToString(), onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)

    assert Counter(op_types(graph)) == Counter(expected)
    np.testing.assert_allclose(run(graph)[0], runtime.run(None, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "proto", [call("Attention", [(1, 5, 12), (12, 24), (24,), (1, 5)], num_heads=2), call("BiasSplitGelu", [(1, 5, 12), (12,)])]
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
    convolutions = [Counter(op_types(g))["Conv"] for g in (graph, optimised)]
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

    assert op_types(graph) == ["Add", "LayerNormalization", "Add"]
