"""Model files of a folder: read or refused, held against what their runtime gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from benchmarks import files
from benchmarks.files import (
    RunningFiles,
    differences,
    files_table,
    judge_files,
    model_files,
    refusals,
    suggested_options,
    summary,
    timed_table,
)
from benchmarks.running_files import Asked
from latcast.platforms import load
from tests.graph.importers.onnx_models import integers, model, node, save, value, zeros

GOOD_MACS = 2 * 6 * 6 * 3 * 3 * 3 + 2 * 36 * 5
"""A convolution of 3x3 over 3 channels with 2 filters from 8x8, then a product of 2x36 by 36x5."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A network that is read, one that is refused, one whose shape a value decides, and one of which latcast is shown another."""
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Reshape", ["c", "s"], ["r"]), node("MatMul", ["r", "m"], ["y"])]
    stored = {"w": zeros(2, 3, 3, 3), "s": integers(2, 36), "m": zeros(36, 5)}
    save(model(nodes, {"x": ("batch", 3, 8, 8)}, ["y"], stored), tmp_path, "good.onnx")
    sizes = value("s", (2,), TensorProto.INT64)
    save(model([node("Reshape", ["x", "s"], ["y"])], [value("x", (1, 6)), sizes], ["y"]), tmp_path, "valued.onnx")
    np.savez(tmp_path / "valued.npz", x=zeros(1, 6), s=integers(2, 3))
    texts = value("x", (2,), TensorProto.STRING)
    save(model([node("StringSplit", ["x"], ["p", "n"])], [texts], ["n"], opset=20), tmp_path, "refused.onnx")
    save(product(3), tmp_path, "wrong.onnx")
    (tmp_path / "notes.txt").write_text("no model")
    return tmp_path


def product(columns: int) -> ModelProto:
    return model([node("MatMul", ["x", "m"], ["y"])], {"x": (1, 4)}, ["y"], {"m": zeros(4, columns)})


def test_a_folder_is_judged_by_what_the_runtime_gives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    other = save(product(2), folder.parent, "other.onnx")
    read = files.read_model
    monkeypatch.setattr(files, "read_model", lambda path, *options: read(other if path.name == "wrong.onnx" else path, *options))

    rows = judge_files(model_files(folder), load("s10/tflite-2.10/2large/fp32"))
    good, refused, valued, wrong = rows

    assert (good["file"], good["refusal"], good["runs"], good["wrong"]) == ("good.onnx", None, True, [])
    assert (good["sizes"], good["macs"], good["outputs"]) == ("--shape x=1,3,8,8", GOOD_MACS, {"y": [2, 5]})
    assert (refused["file"], refused["runs"], refused["wrong"]) == ("refused.onnx", True, [])
    assert (valued["sizes"], valued["runs"], valued["outputs"]) == ("--value s=-1,1", True, {"y": [2, 3]})
    assert wrong["wrong"] == [
        "output 'y' has the shape [1, 2] in the graph, [1, 3] in the runtime",
        "8 multiply-accumulates in the graph, 12 by the shapes of the runtime",
    ]
    [reason] = refusals(rows)
    assert (reason["files"], reason["run"], reason["example"]) == (1, 1, "refused.onnx")
    found = summary(rows)
    assert [found[name] for name in ("files", "read", "run", "refused_run", "compared", "wrong", "sizes_suggested")] == [
        4, 3, 4, 1, 3, 1, 2,
    ]  # fmt: skip
    assert files_table({"mine": found}).splitlines()[-1].startswith("| mine | 4 | 4 | 3 | 1 | 3 | 1 |")


def test_files_that_were_timed_are_compared_with_their_intervals() -> None:
    # 20 % too long and inside; half as long and outside; one that could not be timed.
    rows = [
        {"file": "a.onnx", "sizes": None, "latency_ms": 1.2, "low_ms": 0.9, "high_ms": 1.5, "measured_ms": 1.0},
        {"file": "b.onnx", "sizes": "--shape x=1,3", "latency_ms": 1.0, "low_ms": 0.8, "high_ms": 1.5, "measured_ms": 2.0},
        {"file": "c.onnx", "sizes": None, "latency_ms": 1.0, "low_ms": 0.8, "high_ms": 1.5, "measured_ms": None},
    ]

    assert timed_table(rows).splitlines()[2:] == [
        "| a.onnx |  | 1.2 | 0.9 | 1.5 | 1 | +20 | yes |",
        "| b.onnx | --shape x=1,3 | 1 | 0.8 | 1.5 | 2 | -50 | no |",
        "",
        "Median error 35.0 %; 1 of 2 in the 90 % interval.",
    ]


def test_a_size_that_is_assumed_may_be_larger_than_the_runtimes() -> None:
    row = {"format": "onnx", "outputs": {"y": [2, 100]}, "macs": 0}
    ran = {"outputs": {"y": [2, 7]}, "macs": 0}

    assert list(differences(row, ran, assumed=True)) == []
    assert len(list(differences(row, ran, assumed=False))) == 1
    assert len(list(differences({**row, "outputs": {"y": [1, 100]}}, ran, assumed=True))) == 1


def test_a_runtime_that_takes_too_long_is_ended_and_another_started(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    with RunningFiles(within_s=0.0) as running:
        assert running.run(Asked(str(folder / "good.onnx"), {"x": [1, 3, 8, 8]})) == {"error": "it takes more than 0 s"}
        assert running.run(Asked(str(folder / "good.onnx"), {"x": [1, 3, 8, 8]})) == {"error": "it takes more than 0 s"}


def test_options_are_read_from_a_message_as_a_shell_reads_them() -> None:
    asked = "give them: --shape 'my input=1,8' --shape y=2,3; or leave them"

    assert suggested_options(asked) == ["--shape", "my input=1,8", "--shape", "y=2,3"]
    assert suggested_options("give a value: --value n=1") == ["--value", "n=1"]
    assert suggested_options("the file is damaged") == []
