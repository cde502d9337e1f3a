"""``latcast demo``, the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.predictors.bundle import save_bundle
from latcast.predictors.bundle_index import bundle_path
from latcast.predictors.card import TRAINING_KEYS
from latcast.predictors.platform_predictor import PlatformPredictor
from tests.cli.conftest import Latcast


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_minute_is_enough_to_predict_a_dozen_networks_of_six_families(latcast: Latcast, home: Path) -> None:
    found = latcast("demo", "--budget", "1", "--json")

    document = found.json
    networks, summary = document["networks"], document["summary"]
    assert Path(document["bundle"]).parent == home / "bundles"
    assert len(networks) >= 12
    assert len({network["family"] for network in networks}) >= 6
    errors = [abs(network["latency_ms"] / network["measured_ms"] - 1) for network in networks]
    inside = [network["low_ms"] <= network["measured_ms"] <= network["high_ms"] for network in networks]
    assert summary["mape"] == pytest.approx(100 * sum(errors) / len(errors))
    assert summary["interval_coverage"] == pytest.approx(100 * sum(inside) / len(inside))
    assert set(summary) == {"mape", "within_5", "within_10", "interval_coverage", "noise_floor", "seconds"}

    [again] = latcast("predict", networks[0]["model"], "--on", "local/onnxruntime", "--json").json["predictions"]
    assert again["latency_ms"] == pytest.approx(networks[0]["latency_ms"])

    checks = home / "measurements" / "demo-onnxruntime-checks.sqlite"
    judged = latcast("evaluate", "local/onnxruntime", checks, "--json").json
    assert judged["mape"] == pytest.approx(summary["mape"])
    assert judged["label_error"] == pytest.approx(summary["noise_floor"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_bundle_that_the_user_profiled_for_longer_stays(latcast: Latcast, trained: PlatformPredictor) -> None:
    card = {**trained.card, TRAINING_KEYS: [str(number) for number in range(1000)], "mape": 5.0, "networks": 40}
    path = save_bundle(trained.with_card(card), bundle_path(trained.platform))
    before = path.read_bytes()

    found = latcast("demo", "--budget", "0.5")

    assert path.read_bytes() == before
    assert "kept the bundle that was there (1000 networks, MAPE 5.0 % on 40 held out)" in " ".join(found.err.split())
    assert f"The predictor is kept in {path.parent / 'aside' / path.name}" in found.out
    assert f"latcast predict mobilenet_v2 --on {path.parent / 'aside' / path.name}" in found.out
