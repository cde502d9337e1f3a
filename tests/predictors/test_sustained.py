"""Latencies after minutes of running; unknown where nothing was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.errors import LatcastError
from latcast.predictors.prediction import Coverage, Grade, Prediction
from latcast.predictors.sustained import Curve, curve_of, fit_curve, keep_curve
from latcast.records import Platform

PHONE = Prediction("m", "pixel4/tflite-2.10/gpu/fp16", 20.0, 18.0, 24.0, Coverage(1.0, ()), Grade.of(3.0, ""))
CURVE = Curve(0.5, 0.1, 1.0, 100.0, 10.0, "one curve")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))


def test_a_latency_rises_with_the_time_constant_and_stays_after_the_last_minute() -> None:
    assert CURVE.factors(0.0) == (1, 1, 1)
    assert CURVE.factors(100 / 60) == pytest.approx([1 + 0.632 * rise for rise in (0.5, 0.1, 1.0)], abs=1e-3)
    assert CURVE.factors(60.0) == CURVE.factors(10.0)


def test_rise_and_time_constant_are_found_in_a_noisy_curve() -> None:
    times_s = np.linspace(0, 600, 120)
    noise = np.exp(0.01 * np.random.default_rng(0).standard_normal(120))

    rise, unsure, constant_s = fit_curve(30 * (1 + 0.8 * (1 - np.exp(-times_s / 90))) * noise, 10.0)

    assert rise == pytest.approx(0.8, abs=0.05)
    assert constant_s == pytest.approx(90, rel=0.25)
    assert unsure < 0.3


def test_a_flat_curve_has_no_rise() -> None:
    noise = np.exp(0.01 * np.random.default_rng(0).standard_normal(120))

    rise, unsure, _ = fit_curve(30 * noise, 10.0)

    assert abs(rise) < 0.02
    assert unsure < 0.02


def test_a_phones_gpu_has_the_curve_of_its_class_and_says_on_how_few_phones_it_rests() -> None:
    found = PHONE.after(30).sustained

    assert found is not None
    assert found.latency_ms is not None
    assert found.low_ms is not None
    assert found.high_ms is not None
    assert 18 < found.low_ms < found.latency_ms < found.high_ms
    assert "on 1 phone (iPhone 17 Pro)" in found.basis


def test_what_is_later_than_the_curves_is_taken_as_at_their_end_and_said_so() -> None:
    at_the_end, later = PHONE.after(10).sustained, PHONE.after(30).sustained

    assert at_the_end is not None
    assert later is not None
    assert later.latency_ms == at_the_end.latency_ms
    assert ("later than 10 min" in at_the_end.basis, "later than 10 min" in later.basis) == (False, True)


def test_a_paced_network_gets_an_interval_from_cool_to_hot_without_a_point() -> None:
    paced, busy = PHONE.after(30, fps=10).sustained, PHONE.after(30, fps=100).sustained

    assert paced is not None
    assert busy is not None
    assert paced.latency_ms is None
    assert paced.low_ms is not None
    assert paced.low_ms <= 20
    assert "by how much was not measured" in paced.basis
    # A hundred inferences of 20 ms leave no pause.
    assert busy.latency_ms is not None


@pytest.mark.parametrize("platform", [
    "pixel4/tflite-2.10/1large/fp32", "rtx3090/pytorch-2.0/gpu/fp32", "snapdragon-8cx/tflite-2.10/gpu/fp16",
    "apple-a12x/tflite-2.10/gpu/fp16", "local/ncnn-1/cpu1/fp32",
])  # fmt: skip
def test_nothing_is_said_of_a_class_without_a_curve(platform: str) -> None:
    found = Prediction("m", platform, 20.0, 18.0, 24.0, Coverage(1.0, ()), Grade.of(3.0, "")).after(30).sustained

    assert found is not None
    assert (found.latency_ms, found.low_ms, found.high_ms) == (None, None, None)
    assert "was measured under lasting load" in found.basis
    assert ("latcast measure MODEL --sustain 10m" in found.basis) == platform.startswith("local")


def test_a_curve_that_was_recorded_here_is_taken_for_this_device_whatever_runs_on_it() -> None:
    keep_curve(Platform.parse("local/onnxruntime-1.31/cpu1/fp32"), CURVE)

    assert curve_of(Platform.parse("local/litert-2.3/cpu1/int8")) == CURVE
    assert curve_of(Platform.parse("local/litert-2.3/cpu2/int8")) is None


@pytest.mark.parametrize("change", [{"rise": "much"}, {"rise": 2.0}, {"constant_s": 0.0}])
def test_a_damaged_curve_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LatcastError, match="measure it again"):
        Curve.from_json({**vars(CURVE), **change})
