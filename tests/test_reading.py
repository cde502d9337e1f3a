"""Limits of reading what strangers wrote: of size, of depth, and of numbers."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from latcast import reading
from latcast.datasets.importers.benchmark_tools import read_outputs
from latcast.datasets.opening import open_measurements
from latcast.devices.device_model_file import load_device_model
from latcast.errors import BundleError, DatasetError, LatcastError
from latcast.graph.importers import load_graph
from latcast.kernels.rules import load_rules
from latcast.predictors.bundle import load_bundle
from latcast.reading import MOST_TENSORS, parse_json, parse_tensors, read_bytes, read_csv, read_json, read_lines, read_toml
from latcast.report.check import read_budget
from latcast.spaces.accuracies import read_accuracies
from latcast.workgroups.devices import load_profile
from latcast.workgroups.kernel_tuner_cache import read_cache
from latcast.workgroups.program_cache import read_program_cache


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[NaN]", "found NaN, expected a finite number"),
        ("[-Infinity]", "found -Infinity, expected a finite number"),
        ("[1e400]", "found 1e400, expected a finite number"),
        ("9223372036854775808", "an integer of 19 digits, expected one of 64 bits"),
        ("9" * 5000, "an integer of 5000 digits, expected one of 64 bits"),
        ("[" * 41 + "]" * 41, "nested deeper than 40"),
        ("[" * 100_000, "x: "),
        ('"\\ud800"', "half a character"),
    ],
)
def test_json_that_no_reader_expects_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DatasetError, match=reason):
        parse_json(text, "x", error=DatasetError)


@pytest.mark.parametrize("portion", ["[],", "{},", "1,"])
def test_json_of_too_many_values_is_not_parsed(portion: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_VALUES", 1000)

    with pytest.raises(DatasetError, match="found more than 1,000 values"):
        parse_json(f"[{portion * 1000}1]", "x", error=DatasetError)
    assert len(parse_json(f"[{portion * 400}1]", "x", error=DatasetError)) == 401


def test_json_at_the_limits_is_read() -> None:
    value = [9223372036854775807, -1.5e308, "\U0001f600", None]

    assert parse_json(json.dumps(value).encode(), "x", error=DatasetError) == value
    assert parse_json("[" * 40 + "]" * 40, "x", error=DatasetError) is not None


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(DatasetError, match=r"x: not UTF-8 text \(byte 1\)"):
        parse_json(b"[\xff]", "x", error=DatasetError)


@pytest.mark.parametrize("name", ["x.json.gz", "x.json"])
def test_gzip_is_known_by_its_name_or_first_bytes(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"[1]"))

    assert read_json(tmp_path / name, error=DatasetError) == [1]


def test_a_file_beyond_its_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(1001)))

    assert len(read_bytes(tmp_path / "x.gz", error=DatasetError, most_bytes=1001)) == 1001
    with pytest.raises(DatasetError, match="found more than"):
        read_bytes(tmp_path / "x.gz", error=DatasetError, most_bytes=1000)


def test_a_file_packed_more_than_a_hundredfold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"x\n" * 9_000_000))

    with pytest.raises(DatasetError, match="expected at most 100 times as much"):
        list(read_lines(path, error=DatasetError))


def test_lines_are_numbered_and_blank_ones_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a\r\n\n  \nb\n\nc")

    assert list(read_lines(path, error=DatasetError)) == [(1, b"a\r"), (4, b"b"), (6, b"c")]


@pytest.mark.parametrize(
    ("content", "reason"), [(b"x" * 16_000_001, "a line of more than 16 MB"), (b"\n" * 100_001, "blank lines")]
)
def test_a_line_that_never_ends_and_lines_without_content_are_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)

    with pytest.raises(DatasetError, match=reason):
        list(read_lines(tmp_path / "x", error=DatasetError))


def test_a_pipe_and_a_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(DatasetError, match="it is a pipe or a device, expected a file"):
        read_bytes(tmp_path / "pipe", error=DatasetError)
    with pytest.raises(DatasetError, match="it is a folder, expected a file"):
        read_bytes(tmp_path, error=DatasetError)


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (load_graph, "x.onnx"), (load_graph, "x.tflite"), (load_graph, "x.pt2"), (load_graph, "x.param"), (load_bundle, "x.zip"),
        (open_measurements, "x.jsonl"), (lambda path: read_outputs([path]), "x.txt"), (load_rules, "x.json"),
        (load_device_model, "x.safetensors"), (read_budget, "x.toml"), (load_profile, "x.toml"), (read_accuracies, "x.csv"),
        (read_cache, "x.json"), (read_program_cache, "x.bin"),
    ],
)  # fmt: skip
def test_no_reader_waits_for_a_pipe(read: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)

    with pytest.raises(LatcastError):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x = ", "x.toml: not TOML"),
        (b"x = \xff", "x.toml: not TOML"),
        (b"x = " + b"[" * 1000 + b"]" * 1000, "nested deeper than 40"),
        (b".".join([b"a"] * 50) + b" = 1", "nested deeper than 40"),
        (b"x = " + b"9" * 5000, "x.toml: not TOML"),
        (b"[a]\nx = [1, 9223372036854775808]", "more than 64 bits"),
        (b"x = inf", "not TOML"),
        (b"#" * 200_001, "found more than 0.2 MB"),
        (b"a." * 99_000 + b"a = 1", "more than 1000 dots"),
    ],
)
def test_toml_that_no_reader_expects_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(content)

    with pytest.raises(DatasetError, match=reason):
        read_toml(tmp_path / "x.toml", error=DatasetError)


def test_rows_come_with_their_lines_and_not_more_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_bytes(b'\xef\xbb\xbfa,b\r\n\r\n"c\nd",e\r\n')
    assert read_csv(tmp_path / "x.csv", error=DatasetError) == [(1, ["a", "b"]), (4, ["c\nd", "e"])]

    monkeypatch.setattr(reading, "MOST_ROWS", 1)
    with pytest.raises(DatasetError, match="found more than 1 rows"):
        read_csv(tmp_path / "x.csv", error=DatasetError)


def test_tensors_are_those_of_the_library_that_writes_them() -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2], dtype=np.int64), "none": np.zeros((0, 4)),
        "half": np.array(2.5, dtype=np.float16),
    }  # fmt: skip

    found, texts = parse_tensors(save(arrays, {"latcast": "{}"}), error=BundleError)

    assert texts == {"latcast": "{}"}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)


def tensors(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "a header of 0 bytes in a file of 0"),
        (b"\xff" * 16, "a header of 18446744073709551615 bytes in a file of 16"),
        (tensors([]), "a header that is a list"),
        (tensors({"__metadata__": {"a": 1}}), "object of texts"),
        (tensors({"a": {**F32, "dtype": "F8"}}, bytes(4)), "'a': 'F8'"),
        (tensors({"a": {**F32, "shape": [2]}}, bytes(4)), r"float32 of shape \[2\] in 4 bytes"),
        (tensors({"a": {**F32, "shape": [-1]}}, bytes(4)), "'a'"),
        (tensors({"a": F32}), "bytes 0 to 4 of 0"),
        (tensors({"a": F32, "b": F32}, bytes(4)), "overlap or leave gaps"),
        (tensors({"a": {**F32, "data_offsets": [4, 8]}}, bytes(8)), "overlap or leave gaps"),
        (tensors({str(n): {**F32, "shape": [0], "data_offsets": [0, 0]} for n in range(MOST_TENSORS + 1)}), "10001 tensors"),
    ],
)  # fmt: skip
def test_tensors_that_contradict_their_header_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        parse_tensors(data, error=BundleError)
