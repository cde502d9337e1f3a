"""``latcast demo``, the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

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
