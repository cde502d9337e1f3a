from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from papers.harness import PaperTable, ResultFolder
from papers.iiswc20 import tables
from papers.iiswc20.plots import draw
from papers.iiswc20.protocol import PhoneTrial, Row, result_folder, rows_of
from papers.iiswc20.tables import ITEMS, reproduce, targets, wanted_trials
from tests.papers.iiswc20.made_up_phones import made_up


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> ResultFolder[list[Row]]:
    return result_folder(tmp_path_factory.mktemp("trials"), "made up")


def one(kept: ResultFolder[list[Row]], name: str) -> PaperTable:
    return reproduce(made_up(), kept, (name,), splits=1)[0]


@pytest.mark.slow
def test_the_papers_figures_stand_beside_ours(kept: ResultFolder[list[Row]]) -> None:
    found = one(kept, "figure 8")

    assert found.column("features") == ["as published", "models apart", "CPUs apart", "rows exchanged"]
    assert found.column("R² in the paper") == [0.13, None, None, None]
    assert all(isinstance(cell, float) for cell in found.column("MAPE %"))


@pytest.mark.slow
def test_hundred_random_signatures_are_judged_on_one_split(
    kept: ResultFolder[list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "RANDOM_SIGNATURES", 3)

    found = one(kept, "figure 10")

    line = [found.column(name)[0] for name in ("worst", "R², mean", "best")]
    assert all(isinstance(cell, float) for cell in line)
    assert float(str(line[0])) <= float(str(line[1])) <= float(str(line[2]))
    assert found.column("signatures") == ["3 random signatures"]


def test_a_phone_that_is_not_in_the_data_is_said_not_to_be(kept: ResultFolder[list[Row]]) -> None:
    assert one(kept, "figure 13").notes == ("No Redmi_Note5_Pro is among the phones.",)


def test_each_phone_of_figure_13s_model_has_a_line_with_the_networks_that_it_slowed_down_on() -> None:
    published = made_up()
    assert published.halves_ms is not None
    halves_ms = np.ones_like(published.halves_ms)
    halves_ms[1, 0, :2] = 1.2, 1.05
    published = replace(published, halves_ms=halves_ms)
    given = (("collaborative", 0, 0.7), ("collaborative", 1, 0.9), ("on its own", 0, 0.5), ("on its own", 1, 0.7))
    rows = [
        {"model": model, "measurements": 20, "phone": published.phones[phone], "r2": r2}
        | {"slowed_networks": published.slowed_networks(phone)}
        for model, phone, r2 in given
    ]

    found = tables.figure_13(rows, published)

    assert found.column("phone") == [*published.phones[:2], None]
    assert found.column("slowed") == [1, 0, None]
    assert found.column("R², mean") == pytest.approx([0.7, 0.9, 0.6])
    assert replace(published, halves_ms=None).slowed_networks(0) is None


def test_every_item_has_trials_and_medians_need_raw_runs() -> None:
    assert all(wanted_trials(made_up(), ITEMS, 1).values())
    without = replace(made_up(), median_ms=None, halves_ms=None)
    assert not any("median" in trial.variant for trial in wanted_trials(without, ("beyond the paper",), 1)["beyond the paper"])


def test_a_target_is_reached_by_the_mean_of_the_splits() -> None:
    rows = {
        PhoneTrial("new phones", seed, "mean, random", 10): [
            {"models_apart": False, "model": "ours", "mape": mape, "within_10": 80.0, "interval_coverage": 90.0},
            {"models_apart": True, "model": "ours", "mape": 50.0, "within_10": 0.0, "interval_coverage": 0.0},
        ]
        for seed, mape in enumerate((4.0, 6.0))
    }

    found = targets(rows_of(rows), made_up())

    lines = {str(row[0]): row[1:] for row in found.rows}
    assert lines["known networks, 10 measured: MAPE %"] == ("at most 5.2", 5.0, "4.0 to 6.0", 2, "yes")
    assert lines["known networks, 10 measured: ±10 %"] == ("at least 87", 80.0, "80.0 to 80.0", 2, "no")
    assert lines["known networks, 10 measured: in 90 % interval %"][-1] == "yes"
    assert lines["known networks, 5 measured: MAPE %"] == ("at most 6.2", None, "-", 0, "-")


def test_figures_by_size_and_by_number_of_phones_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = PaperTable(
        "figure 11",
        "sizes",
        ("networks", *(f"{name} {figure}" for name in ("RS", "MIS", "SCCS", "ours") for figure in ("R²", "MAPE %"))),
        ((1, *[0.5, 20.0] * 4), (5, *[0.9, 10.0] * 3, None, None)),
    )
    together = PaperTable(
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
