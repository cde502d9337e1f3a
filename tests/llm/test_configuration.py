from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from latcast.errors import ModelError
from latcast.llm.configuration import read_configuration
from latcast.llm.decoder import AttentionLayers
from latcast.llm.reading import is_language_model, read_language_model

LLAMA: Mapping[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 100, "tie_word_embeddings": False, "max_position_embeddings": 1024,
}  # fmt: skip


def test_grouped_heads_and_an_own_head_are_counted() -> None:
    model = read_configuration(LLAMA, "x")
    assert model.attention == (AttentionLayers(4, 8, 2, 8, 8),)
    assert sum(matrix.parameters for matrix in model.matrices) == 4 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 96) + 2 * 6400
    assert model.notes == ()


def test_a_tied_head_is_used_and_not_stored() -> None:
    model = read_configuration({**LLAMA, "tie_word_embeddings": True}, "x")
    assert [(each.stored, each.used) for each in model.matrices if each.role == "output"] == [(0, 1)]


@pytest.mark.parametrize(
    "stated",
    [
        {"layer_types": ["sliding_attention", "full_attention"] * 2},
        {"sliding_window_pattern": 2},
        {"sliding_window_pattern": "LG"},
    ],
)
def test_sliding_layers_see_their_window(stated: Mapping[str, Any]) -> None:
    model = read_configuration({**LLAMA, **stated, "sliding_window": 16}, "x")
    assert sorted((each.layers, each.window or 0) for each in model.attention) == [(2, 0), (2, 16)]


def test_experts_are_counted_apart_from_dense_first_layers() -> None:
    experts = {
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
    }
    model = read_configuration({**LLAMA, **experts, "model_type": "deepseek_v3"}, "x")
    found = {(each.role, each.rows): (each.stored, each.used) for each in model.matrices}
    assert model.expert_layers == 3
    assert found["expert_up", 32] == (24, 6)
    assert found["up", 32] == (3, 3)
    assert found["up", 96] == (1, 1)


def test_latent_attention_caches_one_compressed_row() -> None:
    latent = {"kv_lora_rank": 32, "q_lora_rank": None, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
    assert read_configuration({**LLAMA, **latent}, "x").attention == (AttentionLayers(4, 8, 1, 36, 0),)


@pytest.mark.parametrize("part", ["text_config", "language_config", "llm_config"])
def test_of_a_multimodal_model_the_text_part_is_read(part: str) -> None:
    whole = {"model_type": "some_vl", "vision_config": {"hidden_size": 9}, part: LLAMA}
    assert read_configuration(whole, "x").matrices == read_configuration(LLAMA, "x").matrices


def test_an_unknown_model_type_is_noted() -> None:
    model = read_configuration({**LLAMA, "model_type": "novel"}, "x")
    assert model.notes == ("the model type 'novel' is not known: its layers are counted as a usual decoder's",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": None}, "found no 'num_attention_heads'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000, expected a whole number from 0 to 2000"),
        ({"hidden_size": "64"}, "hidden_size = '64', expected a whole number"),
        ({"vocab_size": 0}, "vocab_size = 0, expected a decoder's config.json with a positive one"),
        ({"model_type": None}, "found no model_type"),
        ({"is_encoder_decoder": True}, "found an encoder"),
        (
            {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
            "found BertForMaskedLM, expected the config.json of a decoder",
        ),
        ({"layer_types": ["mystery"] * 4}, "found a layer of type 'mystery'"),
        ({"layer_types": ["full_attention"] * 2}, "found the types of 2 layers, expected those of 4"),
        ({"intermediate_size": [96, "x"]}, "found 2 values of intermediate_size, expected 4 sizes"),
        ({"num_kv_shared_layers": 5}, "num_kv_shared_layers = 5, expected a whole number from 0 to 4"),
        ({"num_experts": 4, "num_experts_per_tok": 8}, "found 8 experts for each token of 4"),
        ({"num_key_value_heads": 3}, "found 3 key and value heads of 8, expected a divisor"),
        ({"hidden_size": 66}, "found 66 numbers for 8 heads, expected a multiple"),
    ],
)
def test_what_a_configuration_leaves_out_or_gets_wrong_is_refused(change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_configuration({**LLAMA, **change}, "x")


def test_a_file_and_its_folder_are_read_with_a_quantisation(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    for text in (str(file), str(tmp_path)):
        assert is_language_model(text)
        assert read_language_model(text, "q8_0").matrices == read_language_model(f"{text}:Q8_0").matrices
    with pytest.raises(ModelError, match="has the quantisation 'q8_0', and 'q4_0' was given"):
        read_language_model(f"{file}:q8_0", "q4_0")


def test_a_folder_of_other_things_is_no_language_model(tmp_path: Path) -> None:
    assert not is_language_model(str(tmp_path))
    (tmp_path / "model.onnx").touch()
    assert not is_language_model(str(tmp_path / "model.onnx"))
    with pytest.raises(ModelError, match="found no language model"):
        read_language_model(str(tmp_path / "model.onnx"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 2}))
    assert not is_language_model(str(tmp_path))
    assert not is_language_model("x" * 5000)
    assert not is_language_model("\x00")


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"quantization": {"bits": 4, "group_size": 64}}, "mlx-4bit"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}, "linear-int4_g32"),
        ({"quantization_config": {"quant_method": "awq", "w_bit": 4, "q_group_size": 128}}, "linear-int4_g128"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "linear-int4_g64"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "linear-int8"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, "linear-int8"),
        ({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
            "group_0": {"weights": {"num_bits": 4, "group_size": 128, "type": "int"}}}}}, "linear-int4_g128"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4"),
    ],
)  # fmt: skip
def test_a_configuration_may_state_its_quantisation(tmp_path: Path, stated: Mapping[str, Any], expected: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, **stated}))
    assert read_language_model(str(file)).quantisation == expected
    assert read_language_model(str(file), "q4_0").quantisation == "q4_0"


@pytest.mark.parametrize("stated", [{"quant_method": "novel"}, {"quant_method": "mxfp4"}, {"bits": "four"}, [1]])
def test_a_stated_quantisation_of_unknown_bits_is_refused(tmp_path: Path, stated: Any) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "quantization_config": stated}))
    with pytest.raises(ModelError, match=r"found the quantisation .*; name one with --quant"):
        read_language_model(str(file))
    assert read_language_model(str(file), "q4_0").quantisation == "q4_0"
