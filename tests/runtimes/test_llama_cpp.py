"""Language models with made-up weights are written as GGUF files, and llama.cpp runs them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latcast.errors import MeasurementError, ModelError
from latcast.llm.configuration import read_configuration
from latcast.llm.decoder import LanguageModel
from latcast.llm.tensor_types import quantise

pytest.importorskip("xllamacpp")

from latcast.runtimes.llama_cpp import Reference, Session, time_phases, write_made_up

SIZES = {
    "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "intermediate_size": 512, "vocab_size": 1024, "tie_word_embeddings": True,
}  # fmt: skip


def small(quantisation: str = "q4_k_m") -> LanguageModel:
    return quantise(read_configuration(SIZES, "small"), quantisation)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small.gguf"
    write_made_up(small(), path)
    return path


def test_llama_cpp_runs_a_written_model_and_a_longer_prompt_takes_longer(file: Path) -> None:
    with Session(file, 512) as session:
        times = time_phases(session, (16, 256), reference=Reference(session, rounds=2))

    assert 0 < times.prefill_s[16] < times.prefill_s[256]
    assert set(times.decode_s) == {0, 16, 256}


@pytest.mark.parametrize("quantisation", ["q4_0", "q8_0", "f16", "iq4_nl", "iq2_xs"])
def test_every_kind_of_weights_is_written(tmp_path: Path, quantisation: str) -> None:
    path = tmp_path / "model.gguf"

    write_made_up(small(quantisation), path)

    with Session(path, 64) as session:
        assert session.run(4) > 0


def test_a_head_of_its_own_is_written(tmp_path: Path) -> None:
    sizes = {**SIZES, "tie_word_embeddings": False}
    paths = [tmp_path / name for name in ("tied.gguf", "own.gguf")]

    for path, each in zip(paths, (SIZES, sizes), strict=True):
        write_made_up(quantise(read_configuration(each, "small"), "q8_0"), path)

    # 1,024 rows of 256 weights of 8.5 bits, and the header's line of the tensor.
    head = paths[1].stat().st_size - paths[0].stat().st_size
    assert 1024 * 256 * 8.5 / 8 <= head < 1024 * 256 * 8.5 / 8 + 128


def test_a_context_that_is_too_short_is_an_error(file: Path) -> None:
    with Session(file, 64) as session, pytest.raises(MeasurementError, match="longer context"):
        session.run(400)


def test_a_file_that_is_no_model_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "none.gguf"
    path.write_bytes(b"GGUF" + bytes(100))

    with pytest.raises(MeasurementError, match="does not load"):
        Session(path, 64)


def test_only_dense_models_get_made_up_weights(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a dense model"):
        write_made_up(replace(small(), expert_layers=2), tmp_path / "model.gguf")
