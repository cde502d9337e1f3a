"""Table 8: how well transformers are predicted."""

from __future__ import annotations

import pytest

from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.spaces import build
from papers.litepred import paper
from papers.litepred.transformers import members, table_8
from tests.papers.litepred.conftest import measured


def test_members_are_the_same_each_time_and_fewer_are_the_first() -> None:
    assert [each.key for each in members(3)] == [each.key for each in members(5)][:3]
    assert {each.space for each in members(3)} == {"autoformer"}


def test_figures_are_of_the_members_that_were_measured(predictor: PlatformPredictor) -> None:
    some = members(4)
    predicted = [predictor.predict_many([build(each)])[0].latency_ms for each in some[:3]]
    platform = measured(predictor, list(zip(some, [predicted[0], predicted[1] / 1.07, predicted[2] / 1.2], strict=False)))

    found = table_8([platform], some)

    row = dict(zip(found.columns, found.rows[-1], strict=True))
    assert row["networks"] == 3
    assert row["MAPE %"] == pytest.approx(9.0)
    assert row["±5 %"] == pytest.approx(100 / 3)
    assert row["±10 %"] == pytest.approx(200 / 3)
    assert row["label error %"] == pytest.approx(1.0)
    assert row["minutes measured"] == pytest.approx(60.5 / 60)


def test_the_papers_platforms_come_first_and_unmeasured_ones_have_no_figures(predictor: PlatformPredictor) -> None:
    found = table_8([measured(predictor, [])], members(2))

    assert [row[0] for row in found.rows[:3]] == [each[0] for each in paper.TABLE_8]
    assert found.rows[2][5:7] == (41.4, 99.9)
    assert found.rows[-1][2:5] == (0, pytest.approx(60.5 / 60), None)
