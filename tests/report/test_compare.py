"""Which of two networks is faster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import ModelError, UnknownPlatformError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.predictors.forecast import load, predict
from latcast.predictors.intervals import Interval
from latcast.predictors.prediction import Coverage, Prediction
from latcast.report.compare import compare, difference_of
from latcast.spaces.catalogue import build, model

PHONE = "pixel4/tflite-2.10/gpu/fp16"


def prediction(latency_ms: float, low: float, high: float) -> Prediction:
    return Prediction("m", PHONE, latency_ms, low * latency_ms, high * latency_ms, Coverage(1.0, ()), level=90.0)


def test_narrow_independent_errors_add_up_by_their_squares() -> None:
    low_ms, high_ms, probability = difference_of(prediction(100.0, 0.99, 1 / 0.99), prediction(100.0, 0.99, 1 / 0.99))

    assert (low_ms, high_ms) == pytest.approx((-(2**0.5), 2**0.5), rel=0.02)
    assert probability == pytest.approx(0.5, abs=1e-6)


def test_the_side_of_an_interval_that_is_wide_is_wide_in_the_difference() -> None:
    low_ms, high_ms, _ = difference_of(prediction(1.0, 0.999, 1.001), prediction(10.0, 0.9, 1.5))

    assert low_ms == pytest.approx(8.0, abs=0.05)
    assert high_ms == pytest.approx(14.0, abs=0.05)


def test_a_difference_agrees_with_a_draw_of_both_latencies() -> None:
    a, b = prediction(10.0, 0.8, 1.3), prediction(11.0, 0.7, 1.2)
    random = np.random.default_rng(0)
    score = random.standard_normal((2, 400_000)) / 1.6448536
    drawn = [
        found.latency_ms * np.where(row < 0, (found.low_ms / found.latency_ms) ** -row, (found.high_ms / found.latency_ms) ** row)
        for found, row in zip((a, b), score, strict=True)
    ]
    difference = drawn[1] - drawn[0]

    low_ms, high_ms, probability = difference_of(a, b)

    assert (low_ms, high_ms) == pytest.approx(tuple(np.quantile(difference, [0.05, 0.95])), abs=0.03)
    assert probability == pytest.approx(float((difference < 0).mean()), abs=0.003)
    assert difference_of(b, a)[2] == pytest.approx(1 - probability, abs=1e-9)


def test_latencies_are_the_predictions_and_kernel_types_add_up_to_the_difference() -> None:
    found = compare("resnet50", "mobilenet_v2", on=PHONE)

    slow, fast = predict("resnet50", PHONE), predict("mobilenet_v2", PHONE)
    assert (found.a, found.b, found.platform) == ("resnet50", "mobilenet_v2", PHONE)
    assert (found.a_ms, found.b_ms) == (slow.latency_ms, fast.latency_ms)
    assert found.difference_ms == found.b_ms - found.a_ms < 0
    assert found.low_ms is not None
    assert found.high_ms is not None
    assert found.low_ms < found.difference_ms < found.high_ms
    assert (found.level, found.faster_probability) == (90.0, 1.0)
    assert sum(each.difference_ms for each in found.kernels) + fast.overhead_ms - slow.overhead_ms == pytest.approx(
        found.difference_ms
    )
    sizes = [abs(each.difference_ms) for each in found.kernels]
    assert sizes == sorted(sizes, reverse=True)
    [convolutions] = [each for each in found.kernels if each.kernel_type == "depthwise_conv"]
    assert (convolutions.a_count, convolutions.b_count) == (0, 17)


def test_identical_networks_differ_by_nothing() -> None:
    def network(name: str) -> Graph:
        b = GraphBuilder(name)
        return b.finish(b.relu(b.conv(b.input((1, 3, 32, 32)), 16, 3)))

    found = compare(network("one"), network("other"), on=PHONE)

    assert (found.a, found.b, found.difference_ms) == ("one", "other", 0.0)
    assert (found.low_ms, found.high_ms, found.level, found.faster_probability) == (None, None, None, 0.5)
    assert {each.difference_ms for each in found.kernels} == {0.0}
    assert repr(found) == f"<Comparison other - one on {PHONE}: 0.000 ms, faster with probability 0.50>"


def test_an_uncalibrated_interval_gives_no_probability() -> None:
    uncalibrated = replace(load(PHONE), interval=Interval())

    found = compare("resnet50", "mobilenet_v2", on=uncalibrated)

    assert (found.level, found.faster_probability) == (None, None)
    assert found.low_ms is not None
    assert "uncalibrated interval" in repr(found)


def test_a_network_of_views_takes_no_time() -> None:
    b = GraphBuilder("view")
    view = b.finish(b.reshape(b.input((1, 3, 8, 8)), (1, 192)))
    bare = load(PHONE)
    free = replace(bare, network=replace(bare.network, constant_ms=0.0))

    found = compare(view, build(model("resnet18")), on=free)

    assert (found.a_ms, found.faster_probability) == (0.0, 0.0)


def test_several_platforms_are_compared_on_one_after_the_other() -> None:
    other = "s10/tflite-2.10/gpu/fp16"

    found = compare("resnet18", "resnet34", on=[PHONE, other])

    assert [each.platform for each in found] == [PHONE, other]
    assert found[1] == compare("resnet18", "resnet34", on=other)
    assert len({*found, compare("resnet18", "resnet34", on=other)}) == 2


def test_the_json_form_is_what_scripts_rely_on() -> None:
    document = json.loads(json.dumps(compare("resnet18", "resnet34", on=PHONE).to_json()))

    assert list(document) == [
        "a", "b", "platform", "a_ms", "b_ms", "difference_ms", "low_ms", "high_ms", "faster_probability", "level", "kernels",
    ]  # fmt: skip
    assert set(document["kernels"][0]) == {"kernel_type", "a_count", "b_count", "a_ms", "b_ms", "difference_ms"}


def test_what_cannot_be_read_or_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.onnx"):
        compare("resnet18", tmp_path / "nowhere.onnx", on=PHONE)
    with pytest.raises(UnknownPlatformError, match="no-such-device"):
        compare("resnet18", "resnet34", on="no-such-device")
