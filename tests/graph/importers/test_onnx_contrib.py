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
from latcast.graph import GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph, Node, Tensor
from latcast.graph.operators import graph_macs, lookup, unknown_operators
from latcast.graph.passes.folding import precision_remark, with_precision
from latcast.graph.writers.onnx import to_onnx
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.importers.onnx_models import model, node, value
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
    for found, expected_value in zip(run(graph, feeds=feeds), wanted, strict=True):
        np.testing.assert_allclose(found, expected_value, rtol=1e-4, atol=1e-5)


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


def test_a_form_that_has_no_rule_is_an_unknown_operator() -> None:
    proto = call("Attention", [(1, 5, 12), (12, 24), (24,)])  # without its number of heads

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


def test_the_sum_of_a_skip_normalisation_can_be_read_too() -> None:
    shapes = {"x": (1, 4, 8), "skip": (1, 4, 8), "scale": (8,)}
    nodes = [
        node("SkipLayerNormalization", list(shapes), ["n", "", "", "sum"], domain=MICROSOFT),
        node("Add", ["n", "sum"], ["y"]),
    ]

    graph = load_graph(model(nodes, shapes, ["y"], domains=[MICROSOFT]))

    assert op_types(graph) == ["Add", "LayerNormalization", "Add"]


@pytest.mark.parametrize("name", sorted(CONTRACT_NETWORKS))
def test_a_model_in_blocks_of_channels_has_the_same_shapes_and_counts_whole_blocks(name: str, tmp_path: Path) -> None:
    graph = CONTRACT_NETWORKS[name]()
    path = tmp_path / "optimised.onnx"
    session(to_onnx(graph), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, path)

    optimised = load_graph(path)

    assert not unknown_operators(optimised)
    assert [optimised.shape(each) for each in optimised.outputs] == [graph.shape(each) for each in graph.outputs]
    assert graph_macs(optimised) >= graph_macs(graph)


def test_whole_blocks_of_channels_count_as_they_are(tmp_path: Path) -> None:
    b = GraphBuilder("blocks")
    x = b.conv_bn(b.input((1, 3, 32, 32)), 32, 3, stride=2)
    y = b.add(b.conv_bn(b.max_pool(x, 3, 1, 1), 32, 3, groups=32), x)
    graph = b.finish(b.linear(b.flatten(b.global_average_pool(b.conv(b.resize(y, 32), 64, 1))), 10))
    path = tmp_path / "optimised.onnx"
    session(to_onnx(graph), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, path)

    optimised = load_graph(path)

    assert "com.microsoft.nchwc" in {each.domain for each in onnx.load(path).opset_import}
    assert graph_macs(optimised) == graph_macs(graph)


# Forms whose scales and masks are left out: the work and the shapes are those of what they stand for

F32, U8, I8, I32, I64 = (getattr(onnx.TensorProto, name) for name in ("FLOAT", "UINT8", "INT8", "INT32", "INT64"))
Inputs = Sequence["tuple[Sequence[int], int] | np.ndarray[Any, Any] | None"]


def fused(op_type: str, inputs: Inputs, outputs: int = 1, domain: str = MICROSOFT, **attributes: Any) -> onnx.ModelProto:
    """A model of one operator: pairs of shape and type are its inputs, arrays are stored, None is left out."""
    names = ["" if each is None else f"x{index}" for index, each in enumerate(inputs)]
    stored = {name: each for name, each in zip(names, inputs, strict=True) if isinstance(each, np.ndarray)}
    given = [value(name, *each) for name, each in zip(names, inputs, strict=True) if isinstance(each, tuple)]
    results = [f"y{index}" for index in range(outputs)]
    return model([node(op_type, names, results, domain=domain, **attributes)], given, results, stored, domains=[MICROSOFT])


def bits(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.uint8)


def table(*shape: int) -> np.ndarray[Any, Any]:
    return np.full(shape, 0.1, np.float32)


SCALE, ZERO = np.asarray(0.1, np.float32), np.asarray(0, np.uint8)
TOTAL = np.asarray([7], np.int32), np.asarray(8, np.int32)
"""Of GroupQueryAttention: 8 tokens so far, the place of the last one."""

FORMS: Mapping[str, tuple[onnx.ModelProto, int, Sequence[Sequence[int]]]] = {
    "4 bits": (fused("MatMulNBits", [((1, 5, 64), F32), bits(32, 2, 16), table(64)], K=64, N=32, bits=4, block_size=32),
               5 * 64 * 32, [(1, 5, 32)]),
    "4 bits with a bias": (fused("MatMulNBits", [((1, 5, 64), F32), bits(32, 2, 16), table(64), None, None, table(32)],
                                 K=64, N=32, bits=4, block_size=32), 5 * 64 * 32, [(1, 5, 32)]),
    "normal floats": (fused("MatMulBnb4", [((5, 64), F32), bits(1024), table(32)], K=64, N=32, quant_type=1, block_size=64),
                      5 * 64 * 32, [(5, 32)]),
    "quantised on the way": (fused("DynamicQuantizeMatMul", [((1, 5, 8), F32), np.zeros((8, 6), np.int8), SCALE]),
                             5 * 8 * 6, [(1, 5, 6)]),
    "quantised on the way with a bias": (
        fused("DynamicQuantizeMatMul", [((1, 5, 8), F32), np.zeros((8, 6), np.int8), SCALE, None, table(6)]),
        5 * 8 * 6, [(1, 5, 6)]),
    "integers to reals": (fused("MatMulIntegerToFloat", [((5, 8), U8), bits(8, 6), SCALE, SCALE, ZERO, ZERO, table(6)]),
                          5 * 8 * 6, [(5, 6)]),
    "a recurrent layer": (
        fused("DynamicQuantizeLSTM", [((3, 2, 4), F32), np.zeros((1, 4, 32), np.int8), np.zeros((1, 8, 32), np.int8), None, None,
              None, None, None, table(1), np.zeros(1, np.int8), table(1), np.zeros(1, np.int8)], 3, hidden_size=8),
        3 * 2 * 32 * (4 + 8), [(3, 1, 2, 8), (1, 2, 8), (1, 2, 8)]),
    "rows of 4 bits": (fused("GatherBlockQuantized", [bits(10, 16), ((2, 3), I64), table(10, 2)], bits=4, block_size=16,
                             gather_axis=0, quantize_axis=1), 0, [(2, 3, 32)]),
    "attention with lengths": (fused("Attention", [((2, 5, 8), F32), table(8, 24), table(24), ((2, 5), I32)], num_heads=2),
                               2 * 5 * 8 * 24 + 2 * 2 * 5 * 5 * 8, [(2, 5, 8)]),
    "attention with a past": (
        fused("Attention", [((2, 3, 8), F32), table(8, 24), table(24), None, ((2, 2, 2, 4, 4), F32)], 2, num_heads=2,
              unidirectional=1), 2 * 3 * 8 * 24 + 2 * 2 * 3 * 7 * 8, [(2, 3, 8), (2, 2, 2, 7, 4)]),
    "attention on integers": (
        fused("QAttention", [((2, 5, 8), U8), bits(8, 24), table(24), SCALE, SCALE, None, ZERO, ZERO], num_heads=2),
        2 * 5 * 8 * 24 + 2 * 2 * 5 * 5 * 8, [(2, 5, 8)]),
    "several heads with a past": (
        fused("MultiHeadAttention", [*[((2, 3, 8), F32)] * 3, table(24), None, None, *[((2, 2, 4, 4), F32)] * 2], 3, num_heads=2),
        2 * 2 * 3 * 7 * 8, [(2, 3, 8), (2, 2, 7, 4), (2, 2, 7, 4)]),
    "several heads, packed": (fused("MultiHeadAttention", [((2, 3, 2, 3, 4), F32)], num_heads=2), 2 * 2 * 3 * 3 * 8, [(2, 3, 8)]),
    "several heads, keys of an encoder": (
        fused("MultiHeadAttention", [((2, 3, 8), F32), *[((2, 2, 6, 4), F32)] * 2], num_heads=2), 2 * 2 * 3 * 6 * 8, [(2, 3, 8)]),
    "shared keys": (
        fused("GroupQueryAttention", [((1, 1, 32), F32), *[((1, 1, 16), F32)] * 2, *[((1, 2, 7, 8), F32)] * 2, *TOTAL], 3,
              num_heads=4, kv_num_heads=2), 2 * 4 * 8 * 8, [(1, 1, 32), (1, 2, 8, 8), (1, 2, 8, 8)]),
    "shared keys, packed and turned": (
        fused("GroupQueryAttention", [((1, 8, 128), F32), None, None, None, None, *TOTAL, table(16, 8), table(16, 8)], 3,
              num_heads=4, kv_num_heads=2, do_rotary=1), 2 * 4 * 8 * 8 * 16, [(1, 8, 64), (1, 2, 8, 16), (1, 2, 8, 16)]),
    "shared keys in a buffer": (
        fused("GroupQueryAttention", [((1, 1, 32), F32), *[((1, 1, 16), F32)] * 2, *[((1, 2, 20, 8), F32)] * 2, *TOTAL], 3,
              num_heads=4, kv_num_heads=2), 2 * 4 * 8 * 8, [(1, 1, 32), (1, 2, 20, 8), (1, 2, 20, 8)]),
    "angles": (fused("RotaryEmbedding", [((1, 4, 6, 8), F32), np.arange(6)[None], table(16, 4), table(16, 4)]),
               0, [(1, 4, 6, 8)]),
    "embeddings": (
        fused("EmbedLayerNormalization", [((2, 6), I32), ((2, 6), I32), table(20, 8), table(10, 8), table(2, 8), table(8),
              table(8), ((2, 6), I32)], 2), 0, [(2, 6, 8), (2,)]),
    "experts": (  # 6 tokens, each by 2 of 4 experts, of 8 -> 16 -> 8
        fused("MoE", [((6, 8), F32), ((6, 4), F32), table(4, 16, 8), None, table(4, 8, 16)], k=2), 6 * 2 * 2 * 8 * 16, [(6, 8)]),
    "transposed batches": (fused("FusedMatMul", [((5, 2, 4), F32), ((2, 4, 3), F32)], transBatchA=1), 2 * 5 * 4 * 3, [(2, 5, 3)]),
    "causal convolution": (
        fused("CausalConvWithState", [((2, 6, 5), F32), table(6, 1, 4), None, ((2, 6, 3), F32)], 2, activation="silu"),
        2 * 6 * 5 * 4, [(2, 6, 5), (2, 6, 3)]),
    "deformed convolution": (
        fused("DeformConv", [((1, 4, 8, 8), F32), table(6, 4, 3, 3), ((1, 18, 6, 6), F32), table(6), ((1, 9, 6, 6), F32)],
              domain=""), 6 * 36 * 4 * 9, [(1, 6, 6, 6)]),
    "deformed convolution in two groups": (
        fused("DeformConv", [((1, 4, 8, 8), F32), table(6, 2, 3, 3), ((1, 36, 6, 6), F32)], domain="", group=2, offset_group=2),
        6 * 36 * 2 * 9, [(1, 6, 6, 6)]),
    "image of channels last": (fused("NhwcMaxPool", [((1, 8, 8, 3), U8)], kernel_shape=[2, 2], strides=[2, 2]),
                               0, [(1, 4, 4, 3)]),
    "distances": (fused("CDist", [((3, 4), F32), ((5, 4), F32)], metric="euclidean"), 3 * 5 * 4, [(3, 5)]),
    # Of 2 heads of 4; MACs: 2 products for each head, (tokens x keys x 4), and the projections
    "sparse blocks": (
        fused("SparseAttention", [((1, 1, 32), F32), *[((1, 1, 16), F32)] * 2, *[((1, 2, 8, 8), F32)] * 2,
              np.ones((1, 3), np.int32), np.ones((1, 2), np.int32), *TOTAL[::-1]], 3, num_heads=4, kv_num_heads=2,
              sparse_block_size=16), 2 * 4 * 8 * 8, [(1, 1, 32), (1, 2, 8, 8), (1, 2, 8, 8)]),
    "one token more in a buffer": (
        fused("DecoderMaskedMultiHeadAttention", [*[((2, 1, 8), F32)] * 3, None, None, *[((2, 2, 6, 4), F32)] * 2,
              np.asarray([3], np.int32)], 3, num_heads=2, past_present_share_buffer=1),
        2 * 2 * 6 * 8, [(2, 1, 8), (2, 2, 6, 4), (2, 2, 6, 4)]),
    "one token more, projected": (
        fused("DecoderMaskedSelfAttention", [((2, 1, 8), F32), table(8, 24), table(24), None, ((2, 2, 2, 6, 4), F32)], 2,
              num_heads=2), 2 * 8 * 24 + 2 * 2 * 6 * 8, [(2, 1, 8), (2, 2, 2, 6, 4)]),
    "sequences without padding": (  # 7 tokens, of at most 4 in a sequence
        fused("PackedAttention", [((7, 8), F32), table(8, 24), table(24), ((2, 4), I32), ((3,), I32)], num_heads=2),
        7 * 8 * 24 + 2 * 7 * 4 * 8, [(7, 8)]),
    "projected sequences without padding": (
        fused("PackedMultiHeadAttention", [((7, 2, 3, 4), F32), None, None, None, ((2, 4), I32), ((3,), I32)], num_heads=2),
        2 * 7 * 4 * 8, [(7, 8)]),
    "pages": (  # of 16 tokens, at most 3 of 10 for a sequence
        fused("PagedAttention", [((5, 8), F32), *[((5, 8), F32)] * 2, *[((10, 16, 2, 4), F32)] * 2, ((3,), I32), ((2,), I32),
              ((2, 3), I32)], num_heads=2, kv_num_heads=2), 2 * 5 * 48 * 8, [(5, 8)]),
    "windows of 4": (
        fused("LongformerAttention", [((1, 16, 8), F32), table(8, 24), table(24), ((1, 16), F32), table(8, 24), table(24),
              ((1, 16), I32)], num_heads=2, window=4), 16 * 8 * 48 + 2 * 16 * 12 * 8, [(1, 16, 8)]),
    "a decoder's own tokens": (
        fused("DecoderAttention", [((3, 2, 8), F32), ((3, 2, 8), F32), table(8, 8), table(8, 16), table(24), None,
              *[((2, 2, 4, 4), F32)] * 2, *(np.asarray(flag) for flag in (False, True, True, False))], 3, num_heads=2),
        2 * 3 * 8 * 24 + 2 * 2 * 3 * 7 * 8, [(3, 2, 8), (2, 2, 7, 4), (2, 2, 7, 4)]),
    "gate and value of 4 bits": (
        fused("MatMulNBitsMlp", [((1, 5, 64), F32), ((1, 5, 64), F32), table(64), bits(32, 2, 16), table(64), None,
              bits(32, 2, 16), table(64)], 2, K=64, N=32, bits=4, block_size=32, activation="silu"),
        2 * 5 * 64 * 32, [(1, 5, 32), (1, 5, 64)]),
    "projections of 4 bits": (
        fused("MatMulNBitsQkv", [((1, 5, 64), F32), None, table(64), bits(32, 2, 16), table(64), None, bits(16, 2, 16),
              table(32), None, bits(16, 2, 16), table(32)], 3, K=64, Nq=32, Nkv=16, bits=4, block_size=32),
        5 * 64 * 64, [(1, 5, 32), (1, 5, 16), (1, 5, 16)]),
    "a normalisation of groups": (
        fused("SkipGroupNorm", [((1, 4, 4, 8), F32), table(8), table(8), ((1, 4, 4, 8), F32)], 2, groups=2, activation=1),
        0, [(1, 4, 4, 8), (1, 4, 4, 8)]),
    "gated distances": (
        fused("GatedRelativePositionBias", [((2, 3, 8), F32), table(8), ((1, 2, 3, 3), F32), table(4, 8), table(8),
              table(1, 2, 1, 1)], num_heads=2), 2 * 3 * 8 * 8, [(2, 2, 3, 3)]),
    "distances in a table": (
        fused("RelativePositionBias", [((32, 2), F32), np.asarray([3]), np.asarray([4])], max_distance=8), 0, [(1, 2, 3, 4)]),
    "a spectrum": (fused("Rfft", [((2, 8), F32)], normalized=0, onesided=1, signal_ndim=1), 0, [(2, 5, 2)]),
    "a signal": (fused("Irfft", [((2, 5, 2), F32)], normalized=0, onesided=1, signal_ndim=1), 0, [(2, 8)]),
    "experts of 4 bits": (
        fused("QMoE", [((6, 32), F32), ((6, 4), F32), bits(4, 64, 16), table(4, 64), None, bits(4, 32, 32), table(4, 32)], k=1,
              expert_weight_bits=4, activation_type="silu"), 6 * 2 * 32 * 64, [(6, 32)]),
}  # fmt: skip


@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_work_and_the_shapes_of_a_fused_operator_are_those_of_its_parts(form: str) -> None:
    proto, macs, shapes = FORMS[form]

    graph = load_graph(proto)

    assert unknown_operators(graph) == []
    assert graph_macs(graph) == macs
    assert [graph.shape(output) for output in graph.outputs] == shapes


NOT_ON_A_CPU = {
    "several heads, packed", "sequences without padding", "projected sequences without padding", "pages", "windows of 4",
    "a decoder's own tokens", "gate and value of 4 bits", "projections of 4 bits", "a normalisation of groups",
    "distances in a table", "a spectrum", "a signal", "one token more, projected",
    "sparse blocks", "gated distances",
}  # fmt: skip


@pytest.mark.parametrize("form", sorted(FORMS.keys() - NOT_ON_A_CPU))
def test_onnxruntime_gives_the_same_shapes(form: str) -> None:
    proto, _, shapes = FORMS[form]
    types = {F32: np.float32, U8: np.uint8, I32: np.int32, I64: np.int64}
    feeds = {
        each.name: np.ones([size.dim_value for size in each.type.tensor_type.shape.dim], types[each.type.tensor_type.elem_type])
        for each in proto.graph.input
    }

    runtime = session(proto.SerializeToString(), onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)

    assert [found.shape for found in runtime.run(None, feeds)] == shapes


def test_a_weight_of_4_bits_takes_half_a_byte() -> None:
    graph = load_graph(FORMS["4 bits"][0])
    [product] = graph.nodes

    assert product.op_type == "MatMul"
    assert graph.tensors[product.inputs[1]].size_bytes == 64 * 32 / 2


@pytest.mark.parametrize(
    ("form", "precision", "remark"),
    [
        ("4 bits", "fp32", "the weights of the file are stored in 4 bits, the platform runs int8"),
        ("normal floats", "fp32", "the weights of the file are stored in 4 bits, the platform runs int8"),
        ("quantised on the way", "int8", ""),
        ("experts", "fp32", ""),
    ],
)
def test_weights_of_few_bits_are_not_called_int8(form: str, precision: str, remark: str) -> None:
    graph = load_graph(FORMS[form][0])

    assert graph.precision == precision
    assert precision_remark(graph, "int8") == remark


@pytest.mark.parametrize(
    ("data", "weight", "remark"),
    [
        ("float32", "int8", "the weights of the file are stored in 8 bits"),
        ("uint8", "int8", "the file is quantised to int8"),
        ("int8", "int4", "the file is quantised to 4-bit weights and 8-bit activations"),
        ("float16", "float16", "the file computes in fp16"),
        ("float64", "float64", "the file computes in fp64"),
        ("float32", "uint2", "the weights of the file are stored in 2 bits"),
        ("float32", "float32", ""),
    ],
)
def test_a_remark_says_what_the_products_of_a_file_are_made_of(data: str, weight: str, remark: str) -> None:
    tensors = {"x": Tensor((1, 8), data), "w": Tensor((8, 4), weight), "y": Tensor((1, 4), "float32")}
    product = Node("MatMul", "product", ("x", "w"), ("y",))
    graph = with_precision(Graph("one", (product,), ("x",), ("y",), tensors, frozenset({"w"})))

    said, _, instead = precision_remark(graph, "fp32").partition("; ")

    assert said == (f"{remark}, the platform runs fp32" if remark else "")
    assert ("name 'DEVICE" in instead) == remark.endswith(("int8", "fp16"))  # which platforms are of


def test_experts_that_are_used_are_read_once() -> None:
    proto, _, _ = FORMS["experts"]
    graph = load_graph(proto)

    assert sum(graph.tensors[name].elements for name in graph.weights if graph.tensors[name].dtype == "float32") == 2 * 4 * 8 * 16


@pytest.mark.parametrize(("op_type", "words"), [("BeamSearch", "the model of one step"), ("EPContext", "compiled for")])
def test_what_has_no_single_latency_says_what_to_give_instead(op_type: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        load_graph(fused(op_type, [((1, 4), I32)]))


@pytest.mark.parametrize("domain", ["qonnx.custom_op.general", "onnx.brevitas"])
def test_a_quantiser_of_qonnx_keeps_the_shape_and_stores_its_bits(domain: str) -> None:
    numbers = {"s": SCALE, "z": np.asarray(0, np.float32), "b": np.asarray(4, np.float32), "w": table(16, 8)}
    nodes = [
        node("Quant", ["x", "s", "z", "b"], ["q"], domain=domain, signed=1),
        node("Quant", ["w", "s", "z", "b"], ["v"], domain=domain, signed=1),
        node("MatMul", ["q", "v"], ["y"]),
    ]

    graph = load_graph(model(nodes, {"x": (1, 16)}, ["y"], numbers, domains=[domain]))

    assert graph_macs(graph) == 128
    assert graph.shape("y") == (1, 8)
    [product] = [each for each in graph.nodes if each.op_type == "MatMul"]
    assert [graph.tensors[name].dtype for name in product.inputs] == ["int4", "int4"]


def test_a_step_of_a_language_model_of_4_bits_counts_its_products_and_its_cache() -> None:
    """As ONNX Runtime's model builder writes it: 2 heads of 16 for queries, 1 for keys; 7 tokens before this one."""
    width, inner, words, past = 32, 64, 50, 7
    stored = {
        "table": table(words, width), "scale": table(width), "cos": table(64, 8), "sin": table(64, 8),
        "one": np.asarray([1], np.int64), "axis": np.asarray([1], np.int64), "place": np.asarray(1, np.int64),
    }  # fmt: skip
    products = {"qkv": (width, 64), "out": (width, width), "gate": (width, inner), "up": (width, inner), "down": (inner, width),
                "head": (width, words)}  # fmt: skip
    for name, (rows, columns) in products.items():
        stored |= {f"{name}_b": bits(columns, rows // 32, 16), f"{name}_s": table(columns * rows // 32)}

    def product(name: str, x: str) -> onnx.NodeProto:
        rows, columns = products[name]
        inputs = [x, f"{name}_b", f"{name}_s"]
        return node("MatMulNBits", inputs, [name], domain=MICROSOFT, K=rows, N=columns, bits=4, block_size=32)

    def skip(inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
        return node("SkipSimplifiedLayerNormalization", [*inputs, "scale"], outputs, domain=MICROSOFT, epsilon=1e-5)

    nodes = [
        node("ReduceSum", ["attention_mask", "axis"], ["seen"], keepdims=0), node("Sub", ["seen", "one"], ["last"]),
        node("Cast", ["last"], ["seqlens_k"], to=6), node("Shape", ["attention_mask"], ["sizes"]),
        node("Gather", ["sizes", "place"], ["length"], axis=0), node("Cast", ["length"], ["total"], to=6),
        node("Gather", ["table", "input_ids"], ["x"]),
        node("SimplifiedLayerNormalization", ["x", "scale"], ["n"], axis=-1, epsilon=1e-5, stash_type=1), product("qkv", "n"),
        node("GroupQueryAttention", ["qkv", "", "", "past_k", "past_v", "seqlens_k", "total", "cos", "sin"], ["a", "k", "v"],
             domain=MICROSOFT, num_heads=2, kv_num_heads=1, do_rotary=1, rotary_interleaved=0),
        product("out", "a"), skip(["x", "out"], ["m", "", "", "r"]), product("gate", "m"), product("up", "m"),
        node("Sigmoid", ["gate"], ["g"]), node("Mul", ["gate", "g"], ["silu"]), node("Mul", ["silu", "up"], ["gated"]),
        product("down", "gated"), skip(["r", "down"], ["f"]), product("head", "f"),
    ]  # fmt: skip
    inputs = [value("input_ids", (1, 1), I64), value("attention_mask", (1, past + 1), I64),
              *(value(f"past_{name}", (1, 1, past, 16), F32) for name in "kv")]  # fmt: skip
    proto = model(nodes, inputs, ["head", "k", "v"], stored, domains=[MICROSOFT])
    feeds = {"input_ids": np.ones((1, 1), np.int64), "attention_mask": np.ones((1, past + 1), np.int64)}
    feeds |= {f"past_{name}": np.ones((1, 1, past, 16), np.float32) for name in "kv"}

    graph = load_graph(proto)

    assert graph_macs(graph) == sum(rows * columns for rows, columns in products.values()) + 2 * 2 * (past + 1) * 16
    runtime = session(proto.SerializeToString(), onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    assert [graph.shape(name) for name in graph.outputs] == [each.shape for each in runtime.run(None, feeds)]
    weights = sum(graph.tensors[name].size_bytes for name in graph.weights if graph.tensors[name].dtype == "uint4")
    assert weights == sum(rows * columns for rows, columns in products.values()) / 2


# What is left out, and why

_TRAINING = "for training"
_ODD = "of one model or a test of ONNX Runtime's own; read where the file records shapes"
LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(("Adagrad", "Adam", "Gradient", "Momentum"), _TRAINING),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _TRAINING),
    **dict.fromkeys(("AttnLSTM", "BifurcationDetector", "BranchwiseRMSNorm", "DynamicTimeWarping", "EngramGate", "GatedDeltaNet",
                     "HyperConnectionPostMix", "HyperConnectionPreMix", "Inverse", "LinearAttentionGate", "MurmurHash3",
                     "NGramHashMapping", "NGramRepeatBlock", "SampleOp", "ScaledSiLU", "Tokenizer", "UnfoldTensor",
                     "VarlenCausalConvWithState", "VarlenNGramHashMapping", "WordConvEmbedding"), _ODD),
    **dict.fromkeys(("CastMap", "DictVectorizer"), "reads maps, which are no tensors"),
    **dict.fromkeys(("DynamicSlice", "GRUUnit", "GivenTensorFill", "Scale"), "an experiment that no exporter writes any more"),
    **dict.fromkeys(("MemcpyFromHost", "MemcpyToHost"), "ONNX Runtime adds it when it runs"),
    "FlexAttention": "a preview; read by ONNX's own inference",
    "ImageDecoder": "the size of the image is in the file that it decodes",
}  # fmt: skip
"""Operators that files hold and the reader does not know, with the reason."""


def test_every_operator_that_onnx_and_onnxruntime_run_is_known_or_left_out_for_a_reason() -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    from latcast.graph.importers.onnx_contrib import CHANNELS_LAST, RULES
    from latcast.graph.importers.onnx_control_flow import CONTROL_FLOW

    runs = {(each.domain, each.op_name) for each in state.get_all_opkernel_def() if each.provider == "CPUExecutionProvider"}
    runs |= {(each.domain, each.name) for each in onnx.defs.get_all_schemas()}

    def known(domain: str, name: str) -> bool:
        row = lookup(name)
        of_table = row is not None and row.domain == domain
        return of_table or (domain, name) in RULES or domain == CHANNELS_LAST or (not domain and name in CONTROL_FLOW)

    unknown = {name for domain, name in runs if not known(domain, name)}

    assert sorted(unknown - LEFT_OUT.keys()) == []
