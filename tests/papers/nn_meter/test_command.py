"""``python -m papers nn-meter``."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.store import Store
from tests.cli.conftest import Latcast
from tests.papers.nn_meter.made_up_benchmark import OTHER, PLATFORM, made_up_store


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "variants.sqlite"
    with made_up_store(count=3) as made, Store(path) as store:
        store.add_all(made.measurements(platform=PLATFORM.id))
    return path


def test_tables_stand_beside_the_papers(papers: Latcast, measured: Path) -> None:
    found = papers("nn-meter", "--store", measured, "--only", "table 4,Table 8", "--model", "analytical")
    assert found.code == 0, found
    assert "Table 4: Kernels found for ResNet18 under the rules of onnxruntime" in found.out
    assert "MobileNetv1s" in found.out
    assert "(goal: 95 %)" in found.out


def test_json_gives_every_table_by_column(papers: Latcast, measured: Path, tmp_path: Path) -> None:
    found = papers(
        "nn-meter", "--store", measured, "--only", "figure 6,figure 10", "--model", "analytical", "--json",
        "--plot", tmp_path / "plots",
    )  # fmt: skip
    document = found.json
    assert document["platform"] == PLATFORM.id
    assert [comparison["name"] for comparison in document["comparisons"]] == ["figure 6", "figure 10"]
    assert sum(row["networks"] for row in document["comparisons"][1]["rows"]) == 12
    assert document["label_error"] == pytest.approx(1.0)
    assert sorted(Path(file).name for file in document["plots"]) == ["figure-10.png", "figure-6.png"]


def test_a_store_of_another_platform_gives_table_11(papers: Latcast, measured: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with made_up_store(OTHER, count=3) as made, Store(path) as store:
        store.add_all(made.measurements(platform=OTHER.id))
    found = papers("nn-meter", "--store", measured, "--other", path, "--only", "table 11", "--model", "analytical", "--json")
    assert [comparison["name"] for comparison in found.json["comparisons"]] == ["table 11"]


def test_without_measurements_it_says_how_to_take_some(papers: Latcast, tmp_path: Path) -> None:
    assert "cannot read measurements" in papers("nn-meter").reason
    Store(tmp_path / "empty.sqlite").close()
    assert "0 platforms" in papers("nn-meter", "--store", tmp_path / "empty.sqlite").reason
