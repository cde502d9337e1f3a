from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from latcast.errors import ModelError
from latcast.llm.decoder import AttentionLayers
from latcast.llm.reading import is_language_model, read_language_model
from latcast.llm.workload import decode_quantities


def write_folder(folder: Path, heads: int = 4) -> None:
    """A decoder of two layers as onnxruntime-genai's builder writes it, with weights in a file that is not there."""
    nodes, weights = [], []
    for layer in range(2):
        for part, rows, columns in (
            ("attn/qkv_proj", 128, 64),
            ("attn/o_proj", 64, 64),
            ("mlp/up_proj", 96, 64),
            ("mlp/down_proj", 64, 96),
        ):
            name = f"/model/layers.{layer}/{part}/MatMul_Q4"
            nodes.append(
                helper.make_node(
                    "MatMulNBits",
                    ["x", f"{name}.w"],
                    ["y"],
                    name,
                    domain="com.microsoft",
                    K=columns,
                    N=rows,
                    bits=4,
                    block_size=32,
                )
            )
        nodes.append(
            helper.make_node("GroupQueryAttention", ["x"], ["y"], "a", domain="com.microsoft", num_heads=heads, kv_num_heads=2)
        )
    nodes.append(helper.make_node("MatMul", ["x", "lm_head.weight"], ["y"], "/lm_head/MatMul"))
    for name, dims in (("lm_head.weight", (64, 100)), ("model.embed_tokens.weight", (100, 64))):
        weights.append(TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT16, data_location=TensorProto.EXTERNAL))
    graph = helper.make_graph(nodes, "g", [], [], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), folder / "model.onnx")
    decoder = {"filename": "model.onnx", "head_size": 16, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    model = {"type": "qwen2", "context_length": 512, "vocab_size": 100, "decoder": decoder}
    (folder / "genai_config.json").write_text(json.dumps({"model": model}))


def test_a_folder_is_read_without_its_weights(tmp_path: Path) -> None:
    write_folder(tmp_path)
    assert is_language_model(str(tmp_path))
    model = read_language_model(str(tmp_path))
    assert model.attention == (AttentionLayers(2, 4, 2, 16, 16),)
    assert (model.layers, model.vocabulary, model.context_limit, model.quantisation) == (2, 100, 512, "onnx-int4")
    found = decode_quantities(model, 8)
    assert found["weights", "int4_g32"] == pytest.approx(2 * (128 * 64 + 64 * 64 + 2 * 64 * 96) * 4.5 / 8 / 1e9)
    assert found["weights", "f16", "head"] == pytest.approx(6400 * 2 / 1e9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("model.onnx", "../model.onnx"), "expected the name of a file in the folder"),
        (("model.onnx", "other.onnx"), "cannot read"),
        (('"vocab_size": 100', '"vocab": 100'), "found no 'vocab_size'"),
        (('"decoder"', '"encoder"'), "found no model with a decoder"),
        (('"num_hidden_layers": 2', '"num_hidden_layers": 3'), "attention in 2 layers of the graph, expected 3"),
        (('"hidden_size": 64', '"hidden_size": 128'), "queries of 64 numbers in the graph, expected 128"),
    ],
)
def test_a_bad_folder_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    write_folder(tmp_path)
    file = tmp_path / "genai_config.json"
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(ModelError, match=message):
        read_language_model(str(tmp_path))


@pytest.mark.parametrize("heads", [0, 3])
def test_a_graph_without_heads_or_with_odd_ones_is_refused(tmp_path: Path, heads: int) -> None:
    write_folder(tmp_path, heads)
    with pytest.raises(ModelError, match="found no attention with its numbers of heads"):
        read_language_model(str(tmp_path))
