"""``--library-path``: another version of a runtime's library."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Latcast

QUICK = ("--rounds", "1", "--runs-per-round", "2", "--warmup-runs", "1", "--no-realtime")


def test_the_version_that_the_worker_finds_names_the_platform(latcast: Latcast, model_file: Path, tmp_path: Path) -> None:
    about = tmp_path / "old" / "onnxruntime-0.9.3.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: onnxruntime\nVersion: 0.9.3\n")

    [measured] = latcast("measure", model_file, *QUICK, "--library-path", tmp_path / "old", "--json").json["measurements"]

    assert measured["platform"] == "local/onnxruntime-0.9/cpu1/fp32"


def test_a_folder_that_is_not_there_is_one_line(latcast: Latcast, model_file: Path, tmp_path: Path) -> None:
    reason = latcast("measure", model_file, *QUICK, "--library-path", tmp_path / "nowhere").reason
    assert reason.startswith(f"found no folder '{tmp_path / 'nowhere'}' to import the runtime's library from")
    adapted = latcast("device", "adapt", "--library-path", tmp_path / "nowhere")
    assert adapted.reason == reason
    profiled = latcast("profile", "--library-path", tmp_path / "nowhere")
    assert profiled.reason == reason
