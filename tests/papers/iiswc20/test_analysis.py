from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import DatasetError, LatcastError
from papers.harness import Cell
from papers.iiswc20.analysis import FIGURES, cpu_names, frequency_network
from papers.iiswc20.published import network_clusters, speed_clusters
from tests.papers.iiswc20.made_up_phones import NETWORKS, PHONES, made_up


def table(name: str) -> list[dict[str, Cell]]:
    return FIGURES[name](made_up()).records()


def test_clusters_of_phones_are_named_from_fast_to_slow() -> None:
    clusters = speed_clusters(made_up().mean_ms)

    means = [made_up().mean_ms[clusters == name].mean() for name in ("fast", "medium", "slow")]
    assert means == sorted(means)
    assert [row["cluster"] for row in table("figure 4")] == ["fast", "medium", "slow"]
    assert sum(int(str(row["phones"])) for row in table("figure 4")) == PHONES


def test_clusters_of_networks_are_named_from_small_to_giant() -> None:
    latency_ms = np.outer([1.0, 2.0], [1, 1, 1, 10, 10, 100])

    assert network_clusters(latency_ms).tolist() == ["small"] * 3 + ["large"] * 2 + ["giant"]


def test_a_cpu_is_counted_in_each_cluster_that_has_it() -> None:
    rows = table("figure 3")

    assert sum(int(str(row["phones"])) for row in rows) == PHONES
    assert all(row["phones"] == sum(int(str(row[name])) for name in ("fast", "medium", "slow")) for row in rows)


def test_a_cpu_that_has_but_a_number_is_unnamed() -> None:
    hardware = ({"model": "x", "cpu_code": 10, "ghz": 1.0, "ram_gb": 1}, *made_up().hardware[1:])

    assert cpu_names(replace(made_up(), hardware=hardware))[:2] == ["unnamed", "cpu0"]


def test_mobilenet_v2_is_found_by_its_convolutions() -> None:
    assert frequency_network(made_up()) == NETWORKS - 1
    with pytest.raises(DatasetError, match="MobileNetV2"):
        frequency_network(replace(made_up(), layers=made_up().layers[:-1]))


def test_faster_clocks_go_with_shorter_latencies() -> None:
    first = table("figure 5")[0]

    assert first["memory GB"] == "any"
    assert float(str(first["Spearman of GHz and latency"])) < -0.8


@pytest.mark.slow
def test_every_figure_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from papers.iiswc20.plots import draw_measurements

    files = draw_measurements(made_up(), FIGURES, tmp_path / "plots")

    assert [file.stem for file in files] == [name.replace(" ", "-") for name in FIGURES]
    assert all(file.stat().st_size > 5000 for file in files)


def test_one_figure_is_drawn_and_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from papers.iiswc20.plots import draw_measurements

    assert [file.name for file in draw_measurements(made_up(), ("figure 5",), tmp_path)] == ["figure-5.png"]
    (tmp_path / "file").write_text("")
    with pytest.raises(LatcastError, match="cannot write"):
        draw_measurements(made_up(), ("figure 5",), tmp_path / "file")
