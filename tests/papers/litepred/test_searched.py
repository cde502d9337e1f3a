"""Tables 7 and 8, and the share of picks that meet their limit."""

from __future__ import annotations

import pytest

from latcast.graph.operators import graph_macs
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Reference
from latcast.spaces import build
from papers.litepred import paper, searched
from papers.litepred.searched import (
    Pick,
    baselines,
    members,
    mobilenet_v3_narrow,
    picks_at_baselines,
    picks_at_quantiles,
    picks_comparison,
    table_7,
    table_8,
)
from tests.papers.litepred.conftest import measured
from tests.spaces.nas.published_members import PUBLISHED

SPACE = "ofa_mobilenet_v3"


def pick(number: int, limit_ms: float, latency_ms: float, *, confident: bool = False) -> Pick:
    return Pick(SPACE, "half", limit_ms, confident, Reference("imagined", {"number": number}, f"n{number}"), 100.0, latency_ms)


def test_the_narrow_mobilenet_has_the_published_size() -> None:
    graph = build(mobilenet_v3_narrow())

    assert graph_macs(graph) / 1e6 == pytest.approx(155, rel=0.01)
    assert graph.parameter_count / 1e6 == pytest.approx(4.0, rel=0.01)


def test_the_share_within_the_limit_is_of_what_was_measured(predictor: PlatformPredictor) -> None:
    picks = [pick(number, 10.0, 10.0) for number in range(4)] + [pick(4, 10.0, 8.0, confident=True)]
    platform = measured(
        predictor,
        [(picks[0].reference, 9.0), (picks[1].reference, 12.5), (picks[2].reference, 10.0), (picks[4].reference, 8.0)],
    )

    found = picks_comparison([(platform, picks)])

    first, *_, total = found.rows
    assert first[:5] == (platform.name, SPACE, "prediction", 4, 3)
    assert first[5:] == pytest.approx((200 / 3, 125.0, 100 * (1 / 9 + 0.2) / 3))
    assert total == ("all", "all", "upper bound", 1, 1, 100.0, 80.0, 0.0)


def test_nothing_measured_is_no_share(predictor: PlatformPredictor) -> None:
    found = picks_comparison([(measured(predictor, []), [pick(0, 10.0, 10.0)])])

    assert found.rows[0][3:] == (1, 0, None, None, None)


def test_searches_hold_their_limits_to_the_prediction_or_its_upper_bound(
    predictor: PlatformPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searched, "SPACES", ("autoformer",))
    monkeypatch.setattr(searched, "TABLE_SPACE", "autoformer")
    monkeypatch.setattr(searched, "QUANTILES", (0.05, 0.9))
    monkeypatch.setattr(searched, "baselines", lambda: {"DeiT": baselines_of_transformers()})

    quantiles = picks_at_quantiles(predictor, evaluations=400)
    by_name = picks_at_baselines(predictor, evaluations=400)

    assert [each.confident for each in quantiles if each.limit == "5 % of the space"] == [False] * 4  # no upper bound is so low
    for found in (quantiles, by_name):
        assert {each.confident for each in found} == {False, True}
        for each in found:
            (forecast,) = predictor.predict_many([build(each.reference)])
            assert each.latency_ms == pytest.approx(forecast.latency_ms)
            assert (forecast.high_ms if each.confident else forecast.latency_ms) <= each.limit_ms * (1 + 1e-9)
            assert each.objective == pytest.approx(graph_macs(build(each.reference)) / 1e6)
    assert [each.confident for each in by_name] == [False, True]
    (forecast,) = predictor.predict_many([build(baselines_of_transformers())])
    assert [each.limit_ms for each in by_name] == pytest.approx([forecast.latency_ms] * 2)


def baselines_of_transformers() -> Reference:
    parameters = PUBLISHED["autoformer", "deit_tiny_16"]
    return Reference("autoformer", {**parameters, "width": 240, "heads": [4] * 14}, "deit")


def test_table_7_has_the_papers_figures_and_ours_without_an_accuracy(predictor: PlatformPredictor) -> None:
    known = baselines()
    mine = Pick(SPACE, "MobileNetV2", 3.0, True, known["MobileNetV3"], 217.0, 2.5)

    found = table_7([(measured(predictor, [(known["MobileNetV2"], 4.0), (known["MobileNetV3"], 3.5)]), [mine])])

    assert found.rows[0] == ("paper: Pixel6 CPU, TFLite 2.1", "MobileNetV2", "MobileNetV2", None, None, None, 45.9, 72.0)
    ours = [row for row in found.rows if not str(row[0]).startswith("paper")]
    assert [row[2] for row in ours] == ["MobileNetV2", "OFA + latcast, upper bound", "MobileNetV3×0.75", "MobileNetV3"]
    assert [row[6] for row in ours] == [4.0, 3.5, None, 3.5]
    assert {row[7] for row in ours} == {None}
    assert ours[0][3] == pytest.approx(300.8, abs=0.1)
    assert len(found.rows) == 2 * sum(len(rows) for rows in paper.TABLE_7.values()) + 4


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
