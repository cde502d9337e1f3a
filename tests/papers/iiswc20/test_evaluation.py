from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import LatcastError
from papers.comparison import Comparison
from papers.iiswc20 import evaluation
from papers.iiswc20.evaluation import ITEMS, reproduce, wanted_pieces
from papers.iiswc20.pieces import Kept, Piece
from papers.iiswc20.plots import draw
from papers.iiswc20.targets import targets
from tests.papers.iiswc20.made_up_phones import made_up


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("pieces"), "made up")


def one(kept: Kept, name: str) -> Comparison:
    return reproduce(made_up(), kept, (name,), splits=1)[0]


@pytest.mark.slow
def test_the_papers_figures_stand_beside_ours(kept: Kept) -> None:
    found = one(kept, "figure 8")

    assert found.column("features") == ["as published", "models apart", "CPUs apart", "rows exchanged"]
    assert found.column("R² in the paper") == [0.13, None, None, None]
    assert all(isinstance(cell, float) for cell in found.column("MAPE %"))


@pytest.mark.slow
def test_hundred_random_signatures_are_judged_on_one_split(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "RANDOM_SIGNATURES", 3)

    found = one(kept, "figure 10")

    line = [found.column(name)[0] for name in ("worst", "R², mean", "best")]
    assert all(isinstance(cell, float) for cell in line)
    assert float(str(line[0])) <= float(str(line[1])) <= float(str(line[2]))
    assert found.column("signatures") == ["3 random signatures"]


def test_a_phone_that_is_not_in_the_data_is_said_not_to_be(kept: Kept) -> None:
    assert one(kept, "figure 13").notes == ("No Redmi_Note5_Pro is among the phones.",)


def test_an_unknown_figure_is_refused_with_those_there_are(kept: Kept) -> None:
    with pytest.raises(LatcastError, match=r"'figure 99'.*figure 8"):
        one(kept, "figure 99")


def test_cells_of_nas_bench_201_are_an_item_where_they_were_read(kept: Kept) -> None:
    with pytest.raises(LatcastError, match="nas-bench-201"):
        one(kept, "nas-bench-201")


def test_every_item_has_pieces_and_medians_need_raw_runs() -> None:
    assert all(wanted_pieces(made_up(), ITEMS, 1).values())
    without = replace(made_up(), median_ms=None, halves_ms=None)
    assert not any("median" in piece.variant for piece in wanted_pieces(without, ("beyond the paper",), 1)["beyond the paper"])


def test_a_target_is_reached_by_the_mean_of_the_splits() -> None:
    rows = {
        Piece("process", seed, "mean, random", 10): [
            {"models_apart": False, "mape": mape, "within_10": 80.0, "interval_coverage": 90.0},
            {"models_apart": True, "mape": 50.0, "within_10": 0.0, "interval_coverage": 0.0},
        ]
        for seed, mape in enumerate((4.0, 6.0))
    }

    found = targets(rows, made_up())

    lines = {str(row[0]): row[1:] for row in found.rows}
    assert lines["known networks, 10 measured: MAPE %"] == ("at most 5.2", 5.0, "4.0 to 6.0", 2, "yes")
    assert lines["known networks, 10 measured: ±10 %"] == ("at least 87", 80.0, "80.0 to 80.0", 2, "no")
    assert lines["known networks, 10 measured: in 90 % interval %"][-1] == "yes"
    assert lines["known networks, 5 measured: MAPE %"] == ("at most 6.2", None, "-", 0, "-")


def test_figures_by_size_and_by_number_of_phones_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = Comparison(
        "figure 11",
        "sizes",
        ("networks", *(f"{name} {figure}" for name in ("RS", "MIS", "SCCS", "ours") for figure in ("R²", "MAPE %"))),
        ((1, *[0.5, 20.0] * 4), (5, *[0.9, 10.0] * 3, None, None)),
    )
    together = Comparison(
        "figure 12",
        "phones",
        ("devices", "% of networks", "model", "R², mean", "unmeasured MAPE %"),
        ((2, 10, "paper", 0.5, 40.0), (10, 10, "ours", 0.95, 8.0)),
    )

    files = draw([sizes, together], tmp_path)

    assert [file.name for file in files] == ["figure-11.png", "figure-12.png"]
    assert all(file.stat().st_size > 5000 for file in files)


def test_the_label_error_is_half_the_difference_of_the_two_halves() -> None:
    halves = np.stack([np.full((30, 24), 99.0), np.full((30, 24), 101.0)])

    found = replace(made_up(), halves_ms=halves).label_error()
    assert found is not None
    assert (found.percent, found.networks) == (pytest.approx(1.0), 24)
    assert replace(made_up(), halves_ms=None).label_error() is None
