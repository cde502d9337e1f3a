"""Starts of networks; unknown where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import latcast
from latcast.graph.builder import GraphBuilder
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.predictors.prediction import Coverage, Grade, Prediction
from latcast.predictors.starts import StartLaw, StartModel, features_of, start_model_of
from latcast.records import Platform

FEATURES = {
    "constant": 1.0, "kernels": 3.0, "distinct": 2.0, "nodes": 5.0, "weights_mb": 10.0, "activations_mb": 1.0, "mmacs": 100.0
}  # fmt: skip
STEADY = Prediction("m", "local/a-1/cpu1/fp32", 20.0, 18.0, 24.0, Coverage(1.0, ()), Grade.of(5.0, ""))
MODEL = StartModel(
    StartLaw({"constant": 5.0, "weights_mb": 2.0}, 0.8, 1.25),
    StartLaw({"latency": 1.1, "kernels": 1.0}, 0.9, 1.2),
    "three networks",
)


def test_a_start_is_a_sum_of_terms_with_the_bounds_of_the_law() -> None:
    found = MODEL.start(FEATURES, STEADY)

    assert found.load_ms == pytest.approx(25)
    assert (found.load_low_ms, found.load_high_ms) == (pytest.approx(20), pytest.approx(31.25))
    assert found.first_ms == pytest.approx(25)


def test_the_bounds_of_the_first_inference_hold_what_the_steady_latency_may_be_off_by() -> None:
    found, exact = MODEL.start(FEATURES, STEADY), MODEL.start(FEATURES, _exact())

    assert exact.first_low_ms == pytest.approx(0.9 * 25)
    assert exact.first_high_ms == pytest.approx(1.2 * 25)
    assert found.first_low_ms is not None
    assert found.first_high_ms is not None
    assert found.first_low_ms < 0.9 * 25
    assert found.first_high_ms > 1.2 * 25


def _exact() -> Prediction:
    return Prediction("m", STEADY.platform, 20.0, 20.0, 20.0, Coverage(1.0, ()), Grade.of(5.0, ""))


def test_the_time_until_the_first_answer_is_loading_and_the_first_inference() -> None:
    answer = MODEL.start(FEATURES, _exact()).until_answer_ms()

    assert answer is not None
    total_ms, low_ms, high_ms = answer
    assert total_ms == pytest.approx(50)
    assert (total_ms - low_ms) == pytest.approx((5**2 + 2.5**2) ** 0.5)
    assert (high_ms - total_ms) == pytest.approx((6.25**2 + 5**2) ** 0.5)


def test_a_latency_that_may_be_nothing_has_a_lower_bound_next_to_nothing() -> None:
    found = MODEL.start({**FEATURES, "kernels": 0.0}, replace(_exact(), low_ms=0.0))

    assert found.first_low_ms is not None
    assert 0 < found.first_low_ms < 0.1


def test_a_network_without_arithmetic_is_not_taken_for_a_long_start() -> None:
    model = StartModel(None, StartLaw({"latency": 1.0, "latency_per_mmac": 6.0}, 0.9, 1.2), "phones")

    assert model.start({**FEATURES, "mmacs": 0.0}, _exact()).first_ms == pytest.approx(20 * (1 + 6 / 37))


def test_where_loading_was_not_timed_the_basis_says_so() -> None:
    assert replace(MODEL, load=None).start(FEATURES, STEADY).basis == "three networks; loading was not timed"
    assert MODEL.start(FEATURES, STEADY).basis == "three networks"


def test_a_model_comes_back_from_json() -> None:
    assert StartModel.from_json(MODEL.to_json()) == MODEL


@pytest.mark.parametrize(
    "first", [
        {"terms_ms": {"moon": 1.0}, "low": 0.9, "high": 1.1},
        {"terms_ms": {"latency": -1.0}, "low": 0.9, "high": 1.1},
        {"terms_ms": {"latency": 1.0}, "low": 1.1, "high": 1.2},
        {"terms_ms": {"latency": 1.0}, "low": 0.9, "high": 1.1, "middle": 1.0},
    ],
)  # fmt: skip
def test_a_damaged_model_is_refused(first: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        StartModel.from_json({"load": None, "first": first, "basis": ""})


def test_features_count_kernels_and_megabytes() -> None:
    b = GraphBuilder("two")
    x = b.input((1, 8, 16, 16))
    graph = b.finish(b.relu(b.conv(b.relu(b.conv(x, 8, 3)), 8, 3)))
    rules = load_rules("onnxruntime")

    found = features_of(graph, find_kernels(graph, rules), rules, "fp32")

    assert (found["kernels"], found["distinct"], found["nodes"]) == (2, 1, 4)
    assert found["weights_mb"] == pytest.approx(2 * 8 * 8 * 9 * 4 / 1e6)
    assert found["mmacs"] == pytest.approx(2 * 8 * 8 * 9 * 16 * 16 / 1e6)


def test_only_platforms_of_the_kind_that_was_measured_have_a_shipped_model() -> None:
    known = [start_model_of(Platform.parse(f"pixel4/{kind}")) for kind in ("tflite-2.10/1large/int8", "tflite-2.10/1small/int8")]
    unknown = [
        start_model_of(Platform.parse(f"pixel4/{kind}"))
        for kind in ("tflite-2.10/1large/fp32", "tflite-2.10/2large/int8", "tflite-2.10/gpu/fp16", "ncnn-1/cpu1/int8")
    ]

    assert all(known)
    assert unknown == [None] * 4


def test_predictions_carry_the_start_that_was_asked_for() -> None:
    known, unknown = latcast.predict(
        "squeezenet1_1",
        on=["pixel4/tflite-2.10/1large/int8", "pixel4/tflite-2.10/gpu/fp16"],
        conditions=latcast.Conditions(start=True),
    )

    assert known.start is not None
    assert known.start.load_ms is None
    assert known.start.first_ms is not None
    assert known.start.first_ms > known.latency_ms
    assert unknown.start is not None
    assert unknown.start.first_ms is None
    assert unknown.start.basis == "no starts were measured on pixel4/tflite-2.10/gpu/fp16 or its kind"
    assert latcast.predict("squeezenet1_1", on="pixel4/tflite-2.10/gpu/fp16").start is None
