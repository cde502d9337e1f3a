"""Held-out starts, which must not enter forecasts of starts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import start
from benchmarks.campaigns import Bench
from benchmarks.start import Phones, judge_phones
from latcast.errors import MeasurementError

MODELS = [f"phone{number // 2}" for number in range(24)]
MACS = np.linspace(50, 900, 20)


def runs() -> np.ndarray:
    """Return runs of 24 phones of 12 models: a first one that takes 5 % and 10 million MACs longer, and nine others."""
    slowness = np.repeat(np.linspace(0.02, 0.2, 12), 2)[:, None]
    steady = np.broadcast_to(slowness * MACS, (24, 20))
    first = 1.05 * steady + 10 * slowness
    second = steady * np.linspace(1, 1.1, 24)[:, None]
    return np.concatenate([first[:, :, None], second[:, :, None], np.repeat(steady[:, :, None], 8, axis=2)], axis=2)


def phones(runs_ms: np.ndarray) -> Phones:
    return Phones(runs_ms, MACS, np.linspace(30, 60, 20), np.linspace(1, 20, 20), MODELS, ["A53", "A76"] * 12)


def test_a_law_that_holds_on_all_phones_is_found() -> None:
    found, model = judge_phones(phones(runs()))

    by_way = {row["way"]: row["mape"] for row in found["rows"]}
    assert model.first.terms_ms == {"latency": pytest.approx(1.05), "latency_per_mmac": pytest.approx(10)}
    assert by_way["latcast: a law of two numbers"] == pytest.approx(0, abs=0.1)
    assert by_way["the law, and terms of kernels and weights"] == pytest.approx(0, abs=0.1)
    assert by_way["the steady latency alone"] > 5


def test_first_runs_of_phones_of_the_same_model_do_not_enter() -> None:
    changed = runs()
    changed[:2, :, 0] *= 2

    before, after = (judge_phones(phones(each))[0]["rows"] for each in (runs(), changed))

    # The two phones' own errors alone change: 2 of 24, each off by half.
    (law,) = (row["mape"] for row in after if row["way"].startswith("latcast"))
    assert law == pytest.approx(100 * 2 / 24 / 2, abs=0.5)
    assert before != after


def test_a_profile_that_timed_too_few_starts_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "profile_taken", lambda bench: {"bundle": "its.zip"})
    monkeypatch.setattr(start, "load_bundle", lambda path: SimpleNamespace(start=None))

    with pytest.raises(MeasurementError, match="timed the starts of too few networks, expected 12 or more"):
        start.predictor_with_starts(Bench("onnxruntime", suffix="-start"))
