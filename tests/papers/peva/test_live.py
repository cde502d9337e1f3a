"""The live protocol, on made-up measurements."""

from __future__ import annotations

import pytest

from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.spaces.catalogue import model
from papers.peva import live
from papers.peva.live import evaluate_live, real_networks, synthetic_networks
from tests.papers.nn_meter.made_up_benchmark import PLATFORM, measurement


def test_networks_are_the_same_every_time_and_the_first_are_part_of_more() -> None:
    assert [each.key for each in synthetic_networks(30)] == [each.key for each in synthetic_networks()[:30]]
    assert len(synthetic_networks()) == 300
    assert len({each.key for each in real_networks()}) == 30


def test_networks_of_a_made_up_machine_are_predicted_from_synthetic_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LEARNERS", (("latcast", "operators", "analytical"), ("whole", "networks", "analytical_gp")))
    with Store(":memory:") as store:
        tested = [model(name) for name in ("squeezenet1_1", "mobilenet_v1_0_5")]
        store.add_all(measurement(reference, PLATFORM, place) for place, reference in enumerate(tested))
        with pytest.raises(MeasurementError, match="2 real and 0 synthetic networks"):
            evaluate_live(store, PLATFORM)
        store.add_all(measurement(reference, PLATFORM, 10 + place) for place, reference in enumerate(synthetic_networks(30)))
        [found] = evaluate_live(store, PLATFORM)
    assert found.column("approach") == ["latcast", "whole"]
    assert found.column("synthetic networks") == [30, 30]
    assert found.column("tested") == [2, 2]
    assert float(str(found.column("MAPE %")[0])) < 10
    assert found.column("label error %") == pytest.approx([1.0, 1.0])
    assert "30 of 300 synthetic networks are measured" in found.notes[0]
