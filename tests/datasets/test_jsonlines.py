"""JSON Lines: exact round trips, and errors that name the line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.cli.measure import _json
from latcast.datasets import jsonlines
from latcast.errors import DatasetError
from latcast.records import ExecutedKernel, Measurement, Reference

PLATFORM = "local/onnxruntime-1.31/cpu1/fp32"


def record(**changes: Any) -> dict[str, Any]:
    """A good line's object, with changes."""
    good = Measurement(PLATFORM, Reference("resnet", {"depth": 18}), runs_ms=(1.0, 2.0), rounds=(0, 0), latency_ms=1.5)
    return {**good.to_json(), **changes}


def write_lines(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@settings(max_examples=25)
@given(st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=20), st.text(max_size=10))
def test_measurements_survive_exactly(tmp_path_factory: pytest.TempPathFactory, runs: list[float], name: str) -> None:
    path = tmp_path_factory.mktemp("lines") / "data.jsonl"
    written = Measurement(
        PLATFORM,
        Reference("resnet", {"depth": 18}, name),
        runs_ms=tuple(runs),
        rounds=tuple(range(len(runs))),
        latency_ms=runs[0],
        environment={"moment": {"worker": name}},
    )
    assert jsonlines.write(path, [written, written]) == 2
    assert list(jsonlines.read(path)) == [written, written]


def test_empty_lines_are_skipped(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "data.jsonl", "", json.dumps(record()), "  ")
    assert len(list(jsonlines.read(path))) == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{not json", "not JSON"),
        ("[1, 2]", "a list where a measurement, a JSON object, was expected"),
        ("{}", "not a measurement of schema 1"),
        (json.dumps(record(schema=9)), "a measurement: found schema 9, expected 1 or older; update latcast"),
        (json.dumps(record(colour="red")), "colour"),
        (json.dumps(record(platform="my phone")), "'my phone' is not a platform id"),
        (json.dumps(record(rounds=[0])), "2 runs_ms but 1 rounds"),
        (json.dumps(record(runs_ms=[1.0, "fast"])), "must be numbers"),
        (json.dumps(record(runs_ms=[1.0, -1.0])), "above 0"),
        (json.dumps(record(latency_ms=None)), "latency_ms is None and error is null"),
        (json.dumps(record(latency_ms=float("inf"))), "found Infinity, expected a finite number"),
        (json.dumps(record(latency_ms=-1.5)), "latency_ms is -1.5 and error is null"),
        (json.dumps(record(latency_ms=2e12)), "latency_ms is 2000000000000.0 and error is null"),
        (json.dumps(record(raw_latency_ms=-1.0)), "raw_latency_ms must be numbers that are not negative"),
        (json.dumps(record(variation=-0.1)), "variation is -0.1"),
        (json.dumps(record(runs_ms=[1.0, 10**400])), "an integer of 401 digits"),
        (json.dumps(record(runs_ms="12")), "runs_ms is a str"),
        (json.dumps(record(rounds=[0, 0.5])), "rounds and warmup_runs must be whole numbers"),
        (json.dumps(record(warmup_runs=2**31)), "rounds and warmup_runs must be whole numbers"),
        (json.dumps(record(role="whole")), "role 'whole', expected one of network, kernel"),
        (json.dumps(record(environment=[1])), "environment is a list"),
        (json.dumps(record(environment={"moment": []})), "environment whose moment is not"),
        (json.dumps(record(environment={"moment": {"worker": [1]}})), "moment.worker is not"),
        (
            json.dumps(record(environment={"settings": {"probe": {"key": "a", "quiet_ms": [0]}}})),
            "quiet_ms must be numbers above 0",
        ),
        (json.dumps(record(probe_parts_ms={"memory": [1.0]})), "2 runs_ms but 1 probe_parts_ms 'memory'"),
        (json.dumps(record(reference={"space": "resnet", "parameters": []})), "parameters is a list"),
        (json.dumps(record(executed=[{"name": "a", "kind": "b", "nodes": [], "latency_ms": -1}])), "latency_ms of an executed"),
        (json.dumps(record(executed=[{"name": "a", "kind": "b", "nodes": [1], "latency_ms": 1}])), "whose name is not"),
        (json.dumps(record(taken_at="\ud800")), "half a character"),
        (json.dumps(record(latency_ms=0.0)), "latency_ms is 0.0 and error is null"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(tmp_path: Path, line: str, expected: str) -> None:
    path = write_lines(tmp_path / "data.jsonl", json.dumps(record()), line)
    with pytest.raises(DatasetError, match=rf"data\.jsonl:2: .*{expected}"):
        list(jsonlines.read(path))


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    truncated = tmp_path / "data.jsonl.gz"
    truncated.write_bytes(gzip.compress(json.dumps(record()).encode())[:60])
    for path in (tmp_path / "nothing.jsonl", truncated):
        with pytest.raises(DatasetError, match=f"cannot read .*{path.name}"):
            list(jsonlines.read(path))
    with pytest.raises(DatasetError, match="cannot write"):
        jsonlines.write(tmp_path / "missing" / "data.jsonl", [])


def test_an_interrupted_export_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "data.jsonl", "old")

    def interrupted() -> Any:
        yield Measurement.from_json(record())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jsonlines.write(path, interrupted())
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_bounded_file_keeps_the_newest_records(tmp_path: Path) -> None:
    file = tmp_path / "last.jsonl"
    records = [Measurement("a/b-1/cpu1/fp32", Reference("a", {"b": index}), latency_ms=1.0 + index) for index in range(7)]

    for start in (0, 2, 4):
        jsonlines.append(file, records[start : start + 2], most=5)
    assert list(jsonlines.read(file)) == records[1:6]
    jsonlines.append(file, records, most=5)
    assert list(jsonlines.read(file)) == records[2:]


@pytest.mark.parametrize(("breakdown", "indent"), [(False, None), (True, 1)])
def test_the_json_of_measure_is_read_as_the_measurement(tmp_path: Path, breakdown: bool, indent: int | None) -> None:
    """With the probe's times, without which the latency is not the median of the runs; indented or on one line."""
    kernels = (ExecutedKernel("a", "Conv", ("n",), 3.5),) if breakdown else ()
    probe = {"key": "abc", "parts": ["compute"], "quiet_ms": [1.0]}
    found = Measurement(
        "a/b-1/cpu1/fp32",
        Reference("a", {"b": 1}, "net"),
        runs_ms=(4.0, 5.0),
        probe_ms=(1.2, 1.5),
        rounds=(0, 1),
        latency_ms=3.5,
        raw_latency_ms=4.5,
        executed=kernels,
        environment={"moment": {}, "settings": {"probe": probe}},
    )
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"schema": 1, "measurements": [_json("net.onnx", found, breakdown=breakdown)]}, indent=indent))

    assert jsonlines.read_document(file) == [found]
