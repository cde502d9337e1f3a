"""Findings from the published measurements: cores, int8, GPU kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers.harness import PaperTable
from papers.peva import evaluation
from papers.peva.analysis import FIGURES, by_family, by_scenario, equal_cores, figure_9, figure_10, figure_14, mixed_cores
from papers.peva.evaluation import draw
from papers.peva.published import core_set_order, cores_of
from papers.plots import _cut
from tests.papers.peva.made_up import OVERHEAD_MS, made_up_published


@pytest.fixture(scope="module")
def published():  # type: ignore[no-untyped-def]
    return made_up_published(20)


def cell(found: PaperTable, column: str, **wanted: str) -> object:
    [row] = [row for row in found.records() if all(row[name.replace("_", " ")] == value for name, value in wanted.items())]
    return row[column]


def test_core_sets_are_read_and_ordered() -> None:
    assert cores_of("1large2med") == {"large": 1, "med": 2}
    units = ["gpu", "4small", "1large1med", "2large", "1small", "1large"]
    assert sorted(units, key=core_set_order) == ["1large", "2large", "1small", "4small", "1large1med", "gpu"]


def test_two_cores_are_1_6_times_as_fast_which_is_80_percent_of_ideal(published) -> None:  # type: ignore[no-untyped-def]
    found = equal_cores(published)
    assert cell(found, "speedup", cores="2large") == pytest.approx(1.6)
    assert cell(found, "of ideal %", cores="2large") == pytest.approx(80)
    assert "sublinear on 1 of 1 core sets" in found.notes[0]


def test_unequal_cores_are_slower_than_the_large_one_alone(published) -> None:  # type: ignore[no-untyped-def]
    found = mixed_cores(published)
    assert cell(found, "speedup", against="1large", precision="fp32") == pytest.approx(0.8)
    assert cell(found, "networks slower %", against="1large", precision="fp32") == 100
    assert cell(found, "speedup", against="1med", precision="fp32") == pytest.approx(1.6)


def test_int8_slows_one_large_core_down_and_the_note_says_so(published) -> None:  # type: ignore[no-untyped-def]
    found = by_scenario(published)
    assert cell(found, "speedup", cores="1large") == pytest.approx(0.5)
    assert cell(found, "speedup", cores="2large") == pytest.approx(2)
    assert found.notes == ("slower in int8 on average: pixel4 1large (TFLite)",)
    families = by_family(published)
    # Geometric mean over four core sets: (0.5 · 2 · 2 · 2) ** (1 / 4).
    assert families.column("TFLite speedup") == pytest.approx([2**0.5] * 5)
    assert families.column("PyTorch Mobile speedup") == [None] * 5


def test_what_operations_leave_of_a_network_is_overhead(published) -> None:  # type: ignore[no-untyped-def]
    assert figure_9(published).column("mean ms") == pytest.approx([OVERHEAD_MS] * 2)
    shares = figure_10(published)
    assert sum(float(str(value)) for value in shares.column("mean %")) == pytest.approx(200)
    assert cell(shares, "kernels", kernel="vulkan.conv2d") == 60


def test_noise_is_the_published_deviation(published) -> None:  # type: ignore[no-untyped-def]
    noise = figure_14(published, "real").column("mean %")
    assert noise == pytest.approx([2.0] * 8)


def test_figures_are_drawn(published, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    chosen = [name for name in FIGURES if name != "figure 5"]
    found = [FIGURES[name](published) for name in chosen]
    assert [comparison.name for comparison in found] == chosen
    files = draw(found, tmp_path / "plots")
    assert [file.name for file in files] == [f"{name.replace(' ', '-')}.png" for name in chosen if name in evaluation.FIGURES]
    assert all(file.stat().st_size > 5000 for file in files)


def test_a_bar_that_would_hide_the_others_is_cut_and_its_value_written() -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    axes.bar(range(20), [10.0] * 19 + [2236.0])
    _cut(axes)
    assert axes.get_ylim()[1] == pytest.approx(4 * 10)
    assert [text.get_text() for text in axes.texts] == ["2236"]

    level = Figure().add_subplot()
    level.bar(range(20), [10.0] * 19 + [39.0])
    _cut(level)
    assert level.get_ylim()[1] > 39
    assert not level.texts
