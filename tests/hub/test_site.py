"""Asking the model that serves: once for each question, until another one serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from latcast.hub.database import HubDatabase
from latcast.hub.model import HubModel
from latcast.hub.refitting import ServedModel, refit
from latcast.hub.scales import Forecast
from latcast.hub.site import Forecaster
from latcast.records import Reference
from tests.hub.made_up import NETWORKS, device, upload


def test_a_question_is_asked_once_until_another_model_serves(sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = HubModel.predict

    def counted(
        self: HubModel, networks: Sequence[Reference], measured: Mapping[str, float], platform: str
    ) -> dict[str, Forecast]:
        asked.append(len(networks))
        return real(self, networks, measured, platform)

    monkeypatch.setattr(HubModel, "predict", counted)
    served = ServedModel()
    forecaster = Forecaster(served)
    assert forecaster.predict(NETWORKS, {NETWORKS[0].key: 1.0}) == {}
    upload(sqlite, device("a", 1.0))
    refit(sqlite, served)
    first = forecaster.predict(NETWORKS[:2], {NETWORKS[2].key: 6.0})

    assert forecaster.predict(NETWORKS[:2], {NETWORKS[2].key: 6.0}) == first
    assert asked == [2]
    forecaster.predict(NETWORKS[:3], {NETWORKS[2].key: 6.0})
    forecaster.predict(NETWORKS[:2], {NETWORKS[2].key: 6.5})
    assert asked == [2, 3, 2]

    refit(sqlite, served)
    forecaster.predict(NETWORKS[:2], {NETWORKS[2].key: 6.0})
    assert asked == [2, 3, 2, 2]
