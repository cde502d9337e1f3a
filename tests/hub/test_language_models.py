"""Language models on a hub: speeds that are shared, and pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from latcast.errors import HubError
from latcast.hub.database import HubDatabase
from latcast.hub.language_models import implausible_speed, speeds_as_measurements
from latcast.records import Measurement, Reference
from tests.hub.made_up import upload
from tests.hub.serving import client


@pytest.fixture
def http(sqlite: HubDatabase) -> Iterator[TestClient]:
    with client(sqlite) as found:
        yield found


def bench(folder: Path, decode: float = 19.0, **changes: object) -> Path:
    row = {"build_number": 4404, "backends": "CPU", "n_threads": 6, "model_filename": "qwen2.5-1.5b-q4_0.gguf", "n_depth": 0}
    rows = [
        {**row, "n_prompt": 512, "n_gen": 0, "avg_ts": 110.0, **changes},
        {**row, "n_prompt": 0, "n_gen": 128, "avg_ts": decode, **changes},
    ]
    file = folder / "llama-bench.json"
    file.write_text(json.dumps(rows))
    return file


def test_a_benchmark_becomes_a_record_of_a_prompt_and_one_of_a_token(tmp_path: Path) -> None:
    found = {item.reference.parameters["phase"]: item for item in speeds_as_measurements(bench(tmp_path), "Galaxy S23")}

    assert {item.platform for item in found.values()} == {"galaxy-s23/llama.cpp-b4404/cpu6/unstated"}
    assert found["prefill"].latency_ms == pytest.approx(1000 * 512 / 110)
    assert found["decode"].latency_ms == pytest.approx(1000 / 19)
    assert [implausible_speed(item) for item in found.values()] == [None, None]
    assert Measurement.from_json(found["decode"].to_json()) == found["decode"]


def test_a_benchmark_without_its_backend_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="without backend and release"):
        speeds_as_measurements(bench(tmp_path, backends=None, build_number="unknown"), "Galaxy S23")


def test_a_speed_beyond_what_the_chip_can_read_is_held_back(tmp_path: Path, sqlite: HubDatabase) -> None:
    records = speeds_as_measurements(bench(tmp_path, decode=900.0), "Galaxy S23")
    answer = upload(sqlite, records)

    assert answer["accepted"] == 1
    assert "was expected" in answer["quarantined"][0]["reason"]
    strange = replace(records[0], reference=Reference("language_model", {"model": "/etc/passwd", "phase": "decode"}, "x"))
    assert "no phase of a language model" in str(implausible_speed(strange))


def test_a_page_predicts_a_language_model_by_its_name(http: TestClient) -> None:
    asked = {"model": "qwen2.5-1.5b:q4_0", "on": "galaxy s23 cpu", "prompt": 256}
    text = http.get("/language", params=asked).text

    assert "galaxy-s23/llama.cpp-0.12/cpu6/unstated" in text
    assert 'value="256"' in text
    assert 'action="/language"' in http.get("/").text
    assert "kind of platform" in http.get("/models").text


@pytest.mark.parametrize(
    ("model", "on"),
    [
        *((model, "galaxy s23 cpu") for model in ("/etc/passwd", "nothing-7b", "<b>x</b>")),
        ("qwen2.5-1.5b:q4_0", "/etc/own.json,galaxy s23 cpu"),
    ],
)
def test_a_page_reads_no_file_of_the_server(http: TestClient, model: str, on: str) -> None:
    answer = http.get("/language", params={"model": model, "on": on})

    assert "expected a language model" in answer.text
    assert "<b>x" not in answer.text
