"""The copied tables of the paper against its text."""

from __future__ import annotations

import pytest

from papers.peva.paper import (
    MODELS,
    SIZES,
    SOCS,
    TABLE_C4,
    TABLE_C5,
    TABLE_C6,
    TABLE_C7,
    Printed,
    printed_mape,
)


def mean(table: Printed, model: str, size: int, unit: str) -> float:
    found = [value for soc in SOCS if (value := printed_mape(table, model, size, soc, unit)) is not None]
    return sum(found) / len(found)


@pytest.mark.parametrize("table", [TABLE_C4, TABLE_C5, TABLE_C6, TABLE_C7])
def test_every_regressor_has_every_size_on_every_device(table: Printed) -> None:
    assert set(table) == {(model, size) for model in MODELS for size in SIZES}
    assert {len(row) for row in table.values()} == {12}


@pytest.mark.parametrize(
    ("table", "size", "unit", "printed"),
    [
        (TABLE_C4, 900, "CPU", 11.2), (TABLE_C4, 900, "GPU", 9.4), (TABLE_C6, 900, "CPU", 27.5), (TABLE_C6, 900, "GPU", 21.5),
        (TABLE_C5, 900, "CPU", 5.4), (TABLE_C7, 900, "CPU", 10.4), (TABLE_C5, 30, "CPU", 6.5), (TABLE_C7, 30, "CPU", 11.5),
    ],
)  # fmt: skip
def test_lasso_has_the_means_of_the_text(table: Printed, size: int, unit: str, printed: float) -> None:
    assert mean(table, "lasso", size, unit) == pytest.approx(printed, abs=0.15)


@pytest.mark.parametrize(
    ("table", "unit", "below"), [(TABLE_C4, "CPU", 2.9), (TABLE_C4, "GPU", 5.5), (TABLE_C6, "CPU", 4.3), (TABLE_C6, "GPU", 5.95)]
)
def test_the_other_regressors_stay_below_what_the_text_says(table: Printed, unit: str, below: float) -> None:
    assert max(mean(table, model, 900, unit) for model in MODELS[1:]) < below
