"""The comparison of repeating weights with random ones."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import repeating_weights


def test_every_file_is_compared_with_that_of_the_first_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {}
    monkeypatch.setattr(repeating_weights, "NETWORKS", ("mobilenet_v1_0_25",))
    monkeypatch.setattr(repeating_weights, "keep", kept.__setitem__)

    found = repeating_weights.measure(3)

    rows = kept["repeating_weights"]["rows"]
    assert [(row["precision"], row["runtime"]) for row in rows] == [
        (precision, runtime) for precision in ("fp32", "int8") for runtime in ("onnxruntime", "litert", "ncnn")
    ]
    assert all(row["ms"] > 0 for row in rows)
    assert found.splitlines()[1].startswith("repeating weights: mean ")


def test_the_summary_is_of_what_was_found() -> None:
    rows = [{"other_seed_percent": 1.0, "repeating_percent": value} for value in (-3.0, 1.0, 2.0)]

    assert repeating_weights.summary(rows) == (
        "another seed: mean +1.0 %, median distance 1.0 %, largest 1.0 %, over 3 files\n"
        "repeating weights: mean +0.0 %, median distance 2.0 %, largest 3.0 %, over 3 files"
    )
