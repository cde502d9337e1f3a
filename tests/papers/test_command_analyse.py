"""``python -m papers``."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers.commands.analyse_usc import chosen_items
from tests.cli.conftest import Latcast
from tests.datasets.importers.usc.small_dataset import write_dataset


def test_datasets_are_listed_without_being_imported(papers: Latcast) -> None:
    assert "usc" in papers("--help").out
    assert papers("another-analysis").code == 2


def test_names_of_figures_are_found_whatever_their_case() -> None:
    assert chosen_items("Figure 2, table c.4", ("figure 2", "table C.4")) == ("figure 2", "table C.4")
    assert chosen_items("", ("figure 2",)) == ("figure 2",)


def test_what_is_not_published_is_listed_with_its_file(papers: Latcast, tmp_path: Path) -> None:
    found = papers("usc-analysis", "--data", write_dataset(tmp_path / "usc"), "--only", "not published")
    assert "tflite_cnn_ops_cpu.csv" in found.out


def test_figures_as_json(papers: Latcast, tmp_path: Path) -> None:
    found = papers("usc-analysis", "--data", write_dataset(tmp_path / "usc"), "--only", "figure 9", "--json").json
    [figure] = found["comparisons"]
    # The network takes 2 ms, its one operation 1.5 ms.
    assert [row["mean ms"] for row in figure["rows"] if row["runtime"] == "TFLite"] == pytest.approx([0.5])


def test_a_folder_without_the_dataset_and_an_unknown_figure_are_refused(papers: Latcast, tmp_path: Path) -> None:
    empty = papers("usc-analysis", "--data", tmp_path)
    assert (empty.code, empty.out) == (1, "")
    assert "none of the files" in empty.err
    unknown = papers("usc-analysis", "--data", write_dataset(tmp_path / "usc"), "--only", "figure 99")
    assert (unknown.code, unknown.out) == (1, "")
    assert "'figure 99' is not analysed" in unknown.err
