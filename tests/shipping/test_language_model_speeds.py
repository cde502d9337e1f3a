"""Published speeds of language models: what is read, and what is left out."""

from __future__ import annotations

import csv
from pathlib import Path

from shipping.language_model_speeds import read_speeds

ROW = {
    "source": "bench", "device": "Mac Studio (M4 Max)", "chip": "Apple M4 Max", "unit": "gpu", "runtime": "mlx-swift",
    "model": "mlx-community/Qwen3-4B-4bit", "parameters": "4B", "quantisation": "Q4", "prompt_tokens": "135",
    "generated_tokens": "128", "prefill_tokens_per_s": "1183", "decode_tokens_per_s": "150", "ttft_ms": "113",
    "memory_mb": "", "url_or_path": "run1", "licence": "MIT", "note": "",
}  # fmt: skip


def test_a_prompt_read_hardly_faster_than_an_answer_is_written_measured_the_start(tmp_path: Path) -> None:
    with (tmp_path / "apple_silicon_bench.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ROW)
        writer.writeheader()
        writer.writerows([ROW, {**ROW, "model": "mlx-community/Qwen3-8B-4bit", "prefill_tokens_per_s": "158"}])

    found, _ = read_speeds(tmp_path)

    assert {each.model: (each.prefill_tokens_per_s, each.decode_tokens_per_s) for each in found} == {
        "qwen3-4b": (1183, 150), "qwen3-8b": (None, 150),
    }  # fmt: skip
