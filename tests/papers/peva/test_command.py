"""``python -m papers peva``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Latcast
from tests.datasets.importers.usc.small_dataset import write_dataset


def test_either_published_or_live(papers: Latcast, tmp_path: Path) -> None:
    assert "--data DIR, the dataset's folder, or --live" in papers("peva").reason
    assert "expected --data DIR" in papers("peva", "--analyse", "--live").reason
    assert "either --data DIR" in papers("peva", "--data", tmp_path, "--live").reason


def test_what_is_held_out_is_a_network_or_a_family(papers: Latcast, tmp_path: Path) -> None:
    assert papers("peva", "--data", tmp_path, "--held-out", "device").code == 2


def test_what_is_not_published_is_listed_with_its_file(papers: Latcast, tmp_path: Path) -> None:
    found = papers("peva", "--analyse", "--data", write_dataset(tmp_path / "usc"), "--only", "not published")
    assert "tflite_cnn_ops_cpu.csv" in found.out


def test_figures_as_json(papers: Latcast, tmp_path: Path) -> None:
    found = papers("peva", "--analyse", "--data", write_dataset(tmp_path / "usc"), "--only", "figure 9", "--json").json
    [figure] = found["comparisons"]
    # The network takes 2 ms, its one operation 1.5 ms.
    assert [row["mean ms"] for row in figure["rows"] if row["runtime"] == "TFLite"] == pytest.approx([0.5])
