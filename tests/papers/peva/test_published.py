"""Statements of §3, found again in the published measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers.harness import PaperTable
from papers.peva.analysis import by_scenario, equal_cores, figure_9, figure_10, mixed_cores
from papers.peva.published import PublishedNetworks, read_published

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def published(published_data: Path) -> PublishedNetworks:
    folder = published_data / "usc"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return read_published(folder, networks=False)


def records(found: PaperTable) -> list[dict[str, object]]:
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_several_equal_cores_are_sublinear_but_for_small_ones_of_pytorch(published: PublishedNetworks) -> None:
    several = [row for row in records(equal_cores(published)) if not str(row["cores"]).startswith("1")]
    beyond = {(row["runtime"], row["phone"], row["cores"]) for row in several if float(str(row["of ideal %"])) > 100}
    assert len(several) == 52
    assert beyond <= {("PyTorch Mobile", phone, cores) for phone in ("s10", "onefusion") for cores in ("2small", "3small")}


def test_some_networks_are_slower_on_unequal_cores_than_on_the_large_one_alone(published: PublishedNetworks) -> None:
    slower = {
        (row["system on chip"], row["runtime"]): float(str(row["networks slower %"]))
        for row in records(mixed_cores(published))
        if row["against"] == "1large" and row["precision"] == "fp32"
    }
    assert slower["Exynos 9820", "TFLite"] > 20
    assert slower["Exynos 9820", "PyTorch Mobile"] > 20
    assert slower["Snapdragon 855", "PyTorch Mobile"] == 0


def test_int8_slows_pytorch_down_on_large_and_medium_cores_of_snapdragon_855(published: PublishedNetworks) -> None:
    speedup = {
        (row["phone"], row["runtime"], row["cores"]): float(str(row["speedup"])) for row in records(by_scenario(published))
    }
    for cores in ("1large", "1med", "2med"):
        assert speedup["pixel4", "PyTorch Mobile", cores] < 1
        assert speedup["pixel4", "TFLite", cores] > 1.5
    assert speedup["pixel4", "PyTorch Mobile", "1small"] > 1.5


def test_operations_never_take_longer_than_their_network_and_convolutions_take_most(published: PublishedNetworks) -> None:
    assert set(figure_9(published).column("networks below 0 %")) == {0.0}
    largest = {
        row["system on chip"]: row["kernel"] for row in reversed(records(figure_10(published))) if row["runtime"] == "TFLite"
    }
    assert largest == {
        soc: "overhead" if soc == "Exynos 9820" else "convolution_2d"
        for soc in ("Snapdragon 855", "Exynos 9820", "Snapdragon 710", "Helio P35", "A12 Bionic", "A10 Fusion")
    }
