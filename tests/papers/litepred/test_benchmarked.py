"""Tables 4 and 6 from documents of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from latcast.errors import DatasetError
from papers.litepred.benchmarked import RIVALS, read_document, table_4, table_6


def document() -> dict[str, Any]:
    """Two targets; the n-th rival has a MAPE of n."""
    figures = {"within_5": 50.0, "within_10": 75.0, "rmse_ms": 1.5}
    mean: dict[str, Any] = {key: {"mape": float(place), **figures} for place, (key, _, _) in enumerate(RIVALS)}
    mean["measured"] = {"label_error": 2.5, "kernels": 1234.0, "seconds": 61.0}
    return {"targets": {"one": {}, "two": {}}, "mean": mean}


def test_each_rival_stands_beside_the_papers_method_of_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "platforms.json"
    path.write_text(json.dumps({"data": document()}))

    found = table_4(read_document(path, "platforms judge"))

    assert found.title == "transfer and rivals, mean over 2 platforms of one machine"
    assert found.column("MAPE %") == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert found.column("in the paper") == ["LitePred", None, "nn-Meter", None, "HELP", None]
    assert found.column("paper ±10 %") == [100.0, None, 97.4, None, 22.6, None]
    assert "2.5 %; 1234 different kernels and 61 seconds" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2]", "holds no .data.; expected results of the"),
        ('{"mean": {}}', "holds no .data.; expected results of the"),
        ("{", "cannot read"),
        ('{"data": {"targets": {}}}', "judges no platform"),
    ],
)
def test_what_is_no_such_document_is_refused_with_what_writes_one(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "platforms.json"
    path.write_text(text)
    with pytest.raises(DatasetError, match=f"{expected}.*benchmarks? platforms"):
        table_4(read_document(path, "platforms judge"))


def _arm(kernel_type: str, sampler: str, seed: int, within_10: float) -> dict[str, object]:
    early = {"trained_on": "everything", "within_10": 1.0, "mape": 99.0}
    late = {"trained_on": "everything", "within_10": within_10, "mape": 10.0}
    steered = {"trained_on": "without steering set", "within_10": 2.0, "mape": 99.0}
    return {"kernel_type": kernel_type, "sampler": sampler, "seed": seed, "curve": [early, late, steered]}


def test_table_6_has_the_last_point_of_every_curve_beside_the_papers() -> None:
    arms = [_arm("conv", "vae", 0, 40.0), _arm("conv", "vae", 1, 50.0), _arm("depthwise_conv", "vae", 0, 60.0)]

    found = table_6({"count": 300, "arms": arms}, "made-up")

    assert found.rows[1] == ("Xiaomi11 CPU MindSpore", "vae", 10_000, 91.4, None, 93.6, None)
    assert found.rows[-1] == ("made-up", "vae", 300, 45.0, 10.0, 60.0, 10.0)


def test_what_is_no_benchmark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"data": {"arms": [{}]}}))

    with pytest.raises(DatasetError, match="expected results of the benchmark samplers"):
        table_6(read_document(tmp_path / "other.json", "samplers"), "other")
