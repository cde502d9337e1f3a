"""``python -m papers iiswc20``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Latcast
from tests.papers.iiswc20.made_up_phones import PHONES, made_up


@pytest.fixture
def made_up_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is read as made-up phones; results are kept beside it."""
    monkeypatch.setattr("papers.iiswc20.published.read_published", lambda folder: made_up())
    monkeypatch.setattr("latcast.folders.cache_folder", lambda: tmp_path / "cache")
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def test_a_figure_is_printed_beside_the_papers(papers: Latcast, made_up_data: Path) -> None:
    found = papers("iiswc20", "--data", made_up_data, "--only", "Figure 8", "--splits", 1, "--jobs", 1)

    assert found.code == 0
    assert "0.13" in found.out
    assert "CPUs apart" in found.out


def test_a_figure_as_json_names_splits_and_noise(papers: Latcast, made_up_data: Path) -> None:
    command = ("iiswc20", "--data", made_up_data, "--only", "figure 8", "--splits", 1, "--jobs", 1, "--json")
    found = papers(*command).json

    assert found["splits"] == 1
    assert 0 < found["label_error_interval"][0] < found["label_error"] < found["label_error_interval"][1] < 1.5
    assert [item["name"] for item in found["comparisons"]] == ["figure 8"]
    # The second time nothing is computed: what was done is kept.
    assert len(list((made_up_data.parent / "cache" / "papers-iiswc20").iterdir())) == 4
    assert papers(*command).json == found


def test_a_folder_without_the_dataset_is_refused(papers: Latcast, tmp_path: Path) -> None:
    for options in ((), ("--analyse",)):
        found = papers("iiswc20", "--data", tmp_path, *options)
        assert found.code == 1
        assert "latency_ms.csv" in found.err


def test_phones_are_analysed_and_drawn(papers: Latcast, made_up_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = papers(
        "iiswc20", "--analyse", "--data", made_up_data, "--only", "figure 5", "--plot", tmp_path / "plots", "--json"
    ).json

    assert found["comparisons"][0]["rows"][0]["phones"] == PHONES
    assert [Path(file).name for file in found["plots"]] == ["figure-5.png"]
    assert Path(found["plots"][0]).is_file()
