"""What a stranger sends: measurements come out, or a refusal that says where and why; never anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        (b"{", "line 1: not JSON"),
        (b"[]", "a list where a JSON object"),
        (b"\xff", "not UTF-8"),
        (b'{"a": NaN}', "found NaN, expected a finite number"),
        (b'{"a": 1e999}', "found 1e999, expected a finite number"),
        (b'{"a": 9007199254740993}', "an integer beyond"),
        (b'{"a": ' + b"[" * 20 + b"]" * 20 + b"}", "nested deeper"),
        (b'{"a": "\\u0000"}', "control characters"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b'{"a": "' + b"x" * 5000 + b'"}', "a text of 5000 characters"),
        (b'{"a": "' + b"x" * 1_000_001 + b'"}', "expected at most 1000000"),
        (with_(platform="phone"), "is not a platform id"),
        (with_(platform="local/onnxruntime-1.31/cpu1/fp32"), "name the device"),
        (with_(platform="p" * 120 + "/onnxruntime-1.31/cpu1/fp32"), "120 characters of the device"),
        (with_(runs_ms=[1.0, True]), "runs_ms must be numbers above 0"),
        (with_(runs_ms=[1.0] * 10_001, rounds=[], probe_ms=[], probe_parts_ms={}), "10001 runs"),
        (b'{"a": 123456789012345678901234567890}', "an integer of 30 digits"),
        (with_(latency_ms=True), "latency_ms is a bool"),
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


def test_a_refusal_names_the_line() -> None:
    with pytest.raises(HubError, match="line 3: not JSON"):
        parse_upload(lines(device("phone", 1.0, [1, 2])) + b"{\n")


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


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(sorted(GOOD)), JSON_VALUES)
def test_any_value_in_any_field_is_read_or_refused(field: str, value: Any) -> None:
    try:
        found = parse_upload(json.dumps({**GOOD, field: value}).encode())
    except HubError:
        return
    assert len(found) == 1
    json.dumps(found[0].to_json(), allow_nan=False).encode()


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(HubError):
        parse_upload(content)
