"""Speeds of language models in the formats of the tools that measure them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latcast.datasets.importers.measured_speeds import holds_speeds, read_measured_speeds
from latcast.errors import DatasetError

PLATFORM = "phone/llama.cpp-b1/cpu4/unstated"

BENCH = [
    {"model_filename": "/sd/Qwen2.5-1.5B-Instruct-Q4_0.gguf", "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 100.5},
    {"model_filename": "/sd/Qwen2.5-1.5B-Instruct-Q4_0.gguf", "n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ts": 12.5},
]

MARKDOWN = """| model | size | params | backend | threads | test | t/s |
| --- | ---: | ---: | --- | ---: | ---: | ---: |
| qwen2 1.5B Q4_K - Medium | 1.04 GiB | 1.54 B | CPU | 4 | pp512 | 66.20 ± 0.31 |
| qwen2 1.5B Q4_K - Medium | 1.04 GiB | 1.54 B | CPU | 4 | tg128 @ d1024 | 12.20 ± 0.02 |
"""

POCKETPAL = [
    {
        "config": {"pp": 512, "tg": 128, "pl": 1, "nr": 3},
        "filename": "qwen2.5-1.5b-instruct-q8_0.gguf",
        "ppAvg": 55.1,
        "tgAvg": 8.2,
    }
]

EDGE = {"model": "Llama-3.2-3B-Instruct", "variant": "Q4_K_M", "context_length": 512, "prefill_tps": 6.4, "decode_tps": 5.0}


@pytest.mark.parametrize(
    ("name", "text", "model", "quantisation", "prefill", "decode"),
    [
        ("bench.json", json.dumps(BENCH), "qwen2.5-1.5b", "q4_0", 100.5, 12.5),
        ("bench.jsonl", "\n".join(map(json.dumps, BENCH)), "qwen2.5-1.5b", "q4_0", 100.5, 12.5),
        ("bench.md", MARKDOWN, "qwen2-1.5b", "q4_k_m", 66.2, 12.2),
        ("pocketpal.json", json.dumps(POCKETPAL), "qwen2.5-1.5b", "q8_0", 55.1, 8.2),
        ("edge.jsonl", json.dumps(EDGE), "llama-3.2-3b", "q4_k_m", 6.4, 5.0),
    ],
)
def test_each_format_gives_both_speeds(
    tmp_path: Path, name: str, text: str, model: str, quantisation: str, prefill: float, decode: float
):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    assert holds_speeds(file)
    found, unknown = read_measured_speeds(file, PLATFORM)
    assert unknown == []
    assert {(each.model, each.quantisation) for each in found} == {(model, quantisation)}
    assert [each.prefill_tokens_per_s for each in found if each.prefill_tokens_per_s] == [prefill]
    assert [each.decode_tokens_per_s for each in found if each.decode_tokens_per_s] == [decode]


def test_of_several_numbers_of_threads_those_of_the_platform_count(tmp_path: Path) -> None:
    rows = [{**row, "n_threads": threads, "avg_ts": row["avg_ts"] * threads} for threads in (1, 4) for row in BENCH]
    bench, table = tmp_path / "bench.json", tmp_path / "bench.md"
    bench.write_text(json.dumps(rows), encoding="utf-8")
    found, _ = read_measured_speeds(bench, PLATFORM)
    assert [each.decode_tokens_per_s for each in found if each.decode_tokens_per_s] == [50]
    table.write_text(MARKDOWN, encoding="utf-8")
    for file in (bench, table):
        with pytest.raises(DatasetError, match="expected 8 of cpu8"):
            read_measured_speeds(file, PLATFORM.replace("cpu4", "cpu8"))
    # On a GPU the threads of the CPU beside it do not count.
    assert read_measured_speeds(table, PLATFORM.replace("cpu4", "gpu"))[0]


def test_unknown_models_are_named_and_latencies_of_networks_are_refused(tmp_path: Path):
    speeds = tmp_path / "speeds.csv"
    speeds.write_text("model,quantisation,decode_tokens_per_s\nqwen3-1.7b,q4_0,10\nmy-model,q4_0,9\n", encoding="utf-8")
    found, unknown = read_measured_speeds(speeds, PLATFORM)
    assert (len(found), unknown) == (1, ["my-model"])
    latencies = tmp_path / "latencies.csv"
    latencies.write_text("model,latency_ms\nreal_esrgan_general_x4v3,3\n", encoding="utf-8")
    assert not holds_speeds(latencies)
    with pytest.raises(DatasetError, match="no speed of a language model"):
        read_measured_speeds(latencies, PLATFORM)
