"""Language models' files with bytes or meaning changed: each is read and counted, or refused in one printable line."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from latcast.llm.reading import named_models, read_language_model
from latcast.llm.tensor_types import quantisations
from latcast.llm.workload import decode_quantities, memory, prefill_quantities
from tests.fuzz.mutations import INTERESTING_NUMBERS, case_count, chance_of, mutated, mutated_value, try_cases
from tests.llm.gguf_files import llama
from tests.llm.test_onnx_folder import write_folder

pytestmark = pytest.mark.slow

KEYS = (
    "general.architecture", "general.file_type", "split.count", "llama.block_count", "llama.nextn_predict_layers",
    "llama.embedding_length", "llama.context_length", "llama.attention.head_count", "llama.attention.head_count_kv",
    "llama.attention.key_length", "llama.attention.sliding_window", "llama.attention.sliding_window_pattern",
    "llama.attention.kv_lora_rank", "llama.attention.shared_kv_layers", "llama.rope.dimension_count",
)  # fmt: skip


def counted(text: str, quantisation: str = "") -> None:
    model = read_language_model(text, quantisation)
    decode_quantities(model, 10)
    prefill_quantities(model, 20, cached_tokens=3)
    memory(model, 30)


def test_gguf_headers(tmp_path: Path) -> None:
    chance = chance_of("gguf")
    seeds = [
        llama(),
        llama(layers=1, kind=139, tied=False, **{"llama.attention.head_count_kv": [2], "llama.expert_used_count": 1}),
    ]

    def cases() -> Iterator[bytes]:
        while True:
            data = chance.choice(seeds)
            if chance.random() < 0.4:
                yield mutated(data, chance)
                continue
            if chance.random() < 0.4:  # a value of another kind
                odd = chance.choice(
                    [0, 1, 2**32 - 1, True, -0.5, float("nan"), "x", "\x1b[2J", [0], [2, 2], [1.5], ["x"], [True, False]]
                )
                yield llama(layers=1, **{chance.choice(KEYS): odd})
                continue
            changed = bytearray(data)  # a number where a number may be
            place = chance.randrange(len(data) - 8)
            form, most = chance.choice((("<I", 2**32), ("<Q", 2**64)))
            struct.pack_into(form, changed, place, chance.choice(INTERESTING_NUMBERS) % most)
            yield bytes(changed)

    read = lambda path: counted(str(path))  # noqa: E731
    found = try_cases(cases(), read, [tmp_path / "x.gguf"], sound=seeds[0], count=case_count(0.2))

    assert found["refused"] > 0


def test_configurations(tmp_path: Path) -> None:
    chance = chance_of("configurations")
    seeds = [
        {key: value for key, value in entry.items() if key not in ("published", "source", "also")}
        for entry in named_models().values()
    ]

    def cases() -> Iterator[bytes]:
        while True:
            value = mutated_value(chance.choice(seeds), chance)
            yield json.dumps(value).encode() if chance.random() < 0.8 else mutated(json.dumps(value).encode(), chance)

    found = try_cases(
        cases(),
        lambda path: counted(str(path), chance.choice(quantisations())),
        [tmp_path / "config.json"],
        sound=json.dumps(seeds[0]).encode(),
        count=case_count(0.2),
    )

    assert found["refused"] > 0


def test_onnx_folders(tmp_path: Path) -> None:
    chance = chance_of("onnx folders")
    write_folder(tmp_path)
    for name in ("genai_config.json", "model.onnx"):
        sound = (tmp_path / name).read_bytes()
        cases = (mutated(sound, chance) for _ in iter(int, 1))
        found = try_cases(cases, lambda path: counted(str(path.parent)), [tmp_path / name], sound=sound, count=case_count(0.05))
        (tmp_path / name).write_bytes(sound)

        assert found["refused"] > 0
