from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from latcast.errors import ModelError
from latcast.llm.decoder import AttentionLayers, LanguageModel
from latcast.llm.reading import read_language_model
from latcast.llm.workload import decode_quantities, kernels, memory, prefill_quantities
from tests.llm.gguf_files import gguf, llama, real_header

WEIGHTS = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96)


def read(data: bytes, folder: Path) -> LanguageModel:
    file = folder / "model.gguf"
    file.write_bytes(data)
    return read_language_model(str(file))


@pytest.mark.parametrize("version", [2, 3])
def test_a_header_gives_matrices_and_attention(tmp_path: Path, version: int) -> None:
    data = bytearray(llama())
    data[4:8] = struct.pack("<I", version)
    model = read(bytes(data), tmp_path)
    assert (model.architecture, model.layers, model.hidden_size, model.vocabulary, model.context_limit) == (
        "llama",
        2,
        64,
        100,
        128,
    )
    assert model.quantisation == "q4_0"
    assert model.notes == ()
    assert model.attention == (AttentionLayers(2, 4, 2, 16, 16),)
    assert model.parameters == WEIGHTS + 6400 + 5 * 64
    assert model.file_bytes == WEIGHTS * 18 / 32 + 6400 * 34 / 32 + 5 * 64 * 4
    quantities = decode_quantities(model, 10)
    assert quantities["weights", "q4_0"] == pytest.approx(WEIGHTS * 18 / 32 / 1e9)
    assert quantities["weights", "q8_0", "head"] == pytest.approx(6400 * 34 / 32 / 1e9)  # the head, tied


def test_the_header_alone_is_read(tmp_path: Path) -> None:
    file = tmp_path / "large.gguf"
    file.write_bytes(llama(tokens=100_000))
    os.truncate(file, 50 << 30)  # sparse
    started = time.process_time()
    assert read_language_model(str(file)).layers == 2
    assert time.process_time() - started < 1


def test_a_cut_anywhere_in_a_header_is_refused_in_one_line(tmp_path: Path) -> None:
    data = llama(layers=1)
    for length in range(4, len(data), 11):
        with pytest.raises(ModelError, match="the file ends within its header"):
            read(data[:length], tmp_path)


def test_parts_of_a_split_file_are_added_up(tmp_path: Path) -> None:
    first = llama(layers=1, **{"llama.block_count": 2, "split.count": 2, "split.no": 0})
    names = {"attn_q": (64, 64), "attn_output": (64, 64), "ffn_up": (64, 96), "ffn_down": (96, 64)}
    rest = gguf({"split.no": 1, "split.count": 2}, [(f"blk.1.{name}.weight", size, "q4_0") for name, size in names.items()])
    for number, data in enumerate((first, rest), 1):
        (tmp_path / f"m-{number:05}-of-00002.gguf").write_bytes(data)
    model = read_language_model(str(tmp_path / "m-00002-of-00002.gguf"))
    assert model.layers == 2
    assert sum(matrix.stored for matrix in model.matrices if matrix.role == "query") == 2
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(ModelError, match="00002-of-00002"):
        read_language_model(str(tmp_path / "m-00001-of-00002.gguf"))


def test_an_unknown_architecture_is_counted_and_said(tmp_path: Path) -> None:
    data = llama().replace(b"llama.", b"novel.").replace(b"llama", b"novel")
    model = read(data, tmp_path)
    assert model.notes == ("the architecture 'novel' is not known: what a token reads is counted from the tensors",)
    assert decode_quantities(model, 10)["weights", "q4_0"] == pytest.approx(WEIGHTS * 18 / 32 / 1e9)


def test_an_unknown_type_has_the_bits_between_two_tensors(tmp_path: Path) -> None:
    model = read(llama(kind=139), tmp_path)
    assert "type 139" in model.notes[0]
    assert decode_quantities(model, 10)["weights", "bits5"] == pytest.approx(WEIGHTS * 5 / 8 / 1e9)


def test_experts_windows_and_recurrent_layers_are_found(tmp_path: Path) -> None:
    values = {
        "general.architecture": "qwen35moe", "qwen35moe.block_count": 2, "qwen35moe.embedding_length": 64,
        "qwen35moe.attention.head_count": 4, "qwen35moe.attention.head_count_kv": [0, 2], "qwen35moe.expert_used_count": 2,
        "qwen35moe.ssm.inner_size": 128, "qwen35moe.ssm.state_size": 16,
    }  # fmt: skip
    tensors = [
        ("token_embd.weight", (64, 10), "f16"), ("blk.0.attn_qkv.weight", (64, 192), "f16"),
        ("blk.0.ssm_out.weight", (128, 64), "f16"), ("blk.0.ssm_beta.weight", (64, 4), "f32"),
        ("blk.1.attn_q.weight", (64, 64), "f16"),
        ("blk.1.attn_output.weight", (64, 64), "f16"), ("blk.1.ffn_up_exps.weight", (64, 32, 8), "q8_0"),
        ("blk.1.ffn_gate_inp.weight", (64, 8), "f32"),
    ]  # fmt: skip
    model = read(gguf(values, tensors), tmp_path)
    assert [(each.kind, each.layers, each.state_elements) for each in model.recurrent] == [("gated_delta", 1, 2048)]
    assert model.attention == (AttentionLayers(1, 4, 2, 16, 16),)
    assert model.expert_layers == 1
    assert [(each.stored, each.used) for each in model.matrices if each.role == "expert_up"] == [(8, 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((b"GGUF", b"GGML"), "begins with b'GGML', expected GGUF"),
        ((struct.pack("<I", 3), struct.pack(">I", 3)), "version 50331648, expected 2 or 3"),
        ((b"llama.block_count", b"llama.block_cnuot"), "found no 'llama.block_count'"),
        ((b"llama.attention.head_count\x04", b"llama.attention.head_cuont\x04"), "found no 'llama.attention.head_count'"),
        ((b"token_embd", b"token_emdb"), "no tensor 'token_embd.weight'"),
        ((b"general.architecture", b"general.architecutre"), "no 'general.architecture'"),
        ((b"\x05\x00\x00\x00\x00\x00\x00\x00llama", b"\xff" * 8 + b"llama"), "expected at most 65536"),
    ],
)
def test_a_bad_header_is_refused(tmp_path: Path, change: tuple[bytes, bytes], message: str) -> None:
    data = llama()
    assert change[0] in data
    with pytest.raises(ModelError, match=message):
        read(data.replace(*change, 1), tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"llama.block_count": 3}, "tensors of 2 layers, expected 3 by its header"),
        ({"llama.block_count": 1}, "tensors of 2 layers, expected 1 by its header"),
        ({"llama.embedding_length": 128}, "an embedding of 64 numbers, expected 128 by its header"),
        ({"llama.attention.head_count_kv": 3}, "3 key and value heads of 4, expected a divisor"),
        ({"llama.attention.head_count_kv": 8}, "8 key and value heads of 4, expected a divisor"),
    ],
)
def test_a_header_that_contradicts_its_tensors_is_refused(tmp_path: Path, values: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(llama(layers=2, **values), tmp_path)


def test_a_decoder_without_attention_and_without_a_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="without attention and without a state"):
        read(llama().replace(b"attn_output", b"attn_outptu"), tmp_path)


def test_a_tensor_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="twice"):
        read(llama().replace(b"blk.1.ffn_up", b"blk.0.ffn_up"), tmp_path)


def test_heads_that_disagree_with_the_keys_are_said(tmp_path: Path) -> None:
    # Keys of 32 rows are two heads of 16.
    assert read(llama(), tmp_path).notes == ()
    assert "heads disagree with the keys" in read(llama(**{"llama.attention.head_count_kv": 1}), tmp_path).notes[0]


def test_layers_may_have_different_numbers_of_heads(tmp_path: Path) -> None:
    model = read(llama(**{"llama.attention.head_count": [3, 4], "llama.attention.head_count_kv": [1, 2]}), tmp_path)
    assert [(each.heads, each.key_value_heads) for each in model.attention] == [(3, 1), (4, 2)]


def test_a_file_with_types_takes_no_quantisation(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(llama())
    with pytest.raises(ModelError, match="its file fixes the types of its weights"):
        read_language_model(str(tmp_path / "model.gguf"), "q8_0")


@pytest.mark.parametrize("name", ["gemma-3-1b", "deepseek-v2-lite", "qwen3.5-0.8b"])
def test_a_header_and_a_name_give_the_same_quantities(tmp_path: Path, name: str) -> None:
    named, found = read_language_model(f"{name}:q8_0"), read(real_header(name), tmp_path)
    for expected, given in (
        (decode_quantities(named, 1000), decode_quantities(found, 1000)),
        (prefill_quantities(named, 1000), prefill_quantities(found, 1000)),
    ):
        near = ("kernel", "elements")  # which follow the numbers of norms
        assert given.keys() == expected.keys()
        assert {term: given[term] for term in given if term[0] not in near} == {
            term: pytest.approx(expected[term], rel=0.001) for term in expected if term[0] not in near
        }
    assert kernels(found) == pytest.approx(kernels(named), rel=0.05)
    assert memory(found, 1000).total == pytest.approx(memory(named, 1000).total, rel=0.001)


def test_an_encoder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(llama(**{"general.architecture": "nomic-bert"}))
    with pytest.raises(ModelError, match="found the architecture 'nomic-bert', expected a decoder"):
        read_language_model(str(file))
