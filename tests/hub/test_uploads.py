"""Uploads of strangers: measurements, or a refusal that says where and why; never anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latcast.errors import HubError
from latcast.hub.uploads import MAX_RECORDS, parse_upload
from latcast.records import Reference
from tests.hub.made_up import device, lines, record

GOOD = record(1).to_json()


def with_(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def test_blank_lines_are_skipped() -> None:
    assert len(parse_upload(b"\n\n" + lines([record(1)]) + b"\n  \n")) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no measurement in the upload"),
        (lines(device("phone", 1.0, [1, 2])) + b"{\n", "line 3: not JSON"),
        (b"[]", "a list where a JSON object"),
        (b'{"a": 9007199254740993}', "an integer beyond"),
        (b'{"a": ' + b"[" * 20 + b"]" * 20 + b"}", "nested deeper"),
        (b'{"a": "\\u0000"}', "control characters"),
        (b'{"a": "' + b"x" * 5000 + b'"}', "a text of 5000 characters"),
        (b'{"a": "' + b"x" * 1_000_001 + b'"}', "expected at most 1000000"),
        (with_(platform="local/onnxruntime-1.31/cpu1/fp32"), "name the device"),
        (with_(platform="p" * 120 + "/onnxruntime-1.31/cpu1/fp32"), "120 characters of the device"),
        (with_(runs_ms=[1.0] * 10_001, rounds=[], probe_ms=[], probe_parts_ms={}), "10001 runs"),
        (with_(taken_at="yesterday"), "taken_at 'yesterday'"),
        (with_(taken_at="2026-01-01T00:00:00+05:00"), "a time in UTC"),
        (with_(executed=[{"name": "a"}]), "no 'kind'"),
        (with_(environment={str(index): "x" * 3000 for index in range(25)}), "bytes of the environment"),
        (with_(reference={"space": "../etc", "parameters": {}}), "not the name of a space"),
        (with_(reference={"space": "file", "parameters": {"path": "/etc/passwd"}}), "a file without the sha256"),
        (with_(reference={"space": "x", "parameters": {"a": ["y" * 3000] * 8}}), "parameters of more than"),
    ],
)  # fmt: skip
def test_a_malformed_upload_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(HubError) as problem:
        parse_upload(line)

    assert reason in str(problem.value)


def test_too_many_records_are_refused() -> None:
    with pytest.raises(HubError, match=f"more than {MAX_RECORDS} records"):
        parse_upload(lines([record(1)] * (MAX_RECORDS + 1)))


@pytest.mark.parametrize("line", [b"\n", b"{}\n"])
def test_a_document_of_too_many_lines_is_refused(line: bytes) -> None:
    with pytest.raises(HubError, match="2000000 lines, expected at most 1000 records"):
        parse_upload(line * 2_000_000)


def test_a_file_is_known_by_its_hash_and_name_alone() -> None:
    reference = Reference("file", {"path": "/home/ann/model.onnx", "sha256": "ab" * 32, "secret": 1}, "/home/ann/model")
    sent = record(1, reference=reference)

    [found] = parse_upload(lines([sent]))

    assert found.reference.parameters == {"sha256": "ab" * 32}
    assert found.reference.name == "model"
    assert Reference("file", {"path": "/elsewhere", "sha256": "ab" * 32}).key == found.reference.key
