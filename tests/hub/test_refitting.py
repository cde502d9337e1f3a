"""Fitting again as measurements arrive: the old model serves meanwhile, each version is kept with its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from latcast.errors import TrainingError
from latcast.hub import refitting
from latcast.hub.database import HubDatabase
from latcast.hub.model import LOG_SCALE, LogScaleModel, Observation
from latcast.hub.queries import HubReader
from latcast.hub.refitting import Refitter, ServedModel, fit, held_out_error, refit
from tests.hub.made_up import NETWORKS, device
from tests.hub.serving import wait_for
from tests.hub.test_database import upload


def observed(**factors: float) -> list[Observation]:
    return [
        Observation(item.platform, item.reference, item.latency_ms or 0.0)
        for name, factor in factors.items()
        for item in device(name, factor)
    ]


def test_devices_that_differ_by_a_factor_are_predicted_without_error() -> None:
    error, note = held_out_error(LOG_SCALE, observed(a=1.0, b=2.0, c=5.0, d=0.3))

    assert note == ""
    assert error is not None
    assert error["mape"] == pytest.approx(0.0, abs=1e-6)
    assert (error["networks"], error["devices"], error["not_predicted"]) == (40, 4, 0)
    assert error["interval_coverage"] == 100.0


def test_a_device_is_held_out_with_all_its_platforms() -> None:
    seen: list[set[str]] = []

    class Spy:
        name, min_platforms = "spy", 1

        def fit(self, observations: Sequence[Observation]) -> LogScaleModel:
            seen.append({item.platform.split("/")[0] for item in observations})
            return LOG_SCALE.fit(observations)

        def load(self, content: Mapping[str, Any]) -> LogScaleModel:
            return LOG_SCALE.load(content)

    held_out_error(Spy(), observed(a=1.0, b=2.0, c=5.0))

    assert sorted(sorted({"a", "b", "c"} - names) for names in seen) == [["a"], ["b"], ["c"]]


def test_with_few_devices_there_is_a_note_instead_of_an_error() -> None:
    found = fit(observed(a=1.0, b=2.0))

    assert found.held_out is None
    assert found.note.endswith("no error on held-out devices: 2 known, expected at least 3")


def test_a_way_that_fails_makes_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        name, min_platforms = "failing", 1

        def fit(self, observations: Sequence[Observation]) -> LogScaleModel:
            raise TrainingError("not today")

        def load(self, content: Mapping[str, Any]) -> LogScaleModel:
            raise NotImplementedError

    refitting.FITTERS.register("failing", Failing())
    monkeypatch.setattr(refitting, "PREFERRED", ("failing", "log-scale"))

    found = fit(observed(a=1.0, b=2.0, c=3.0))

    assert found.model == "log-scale"
    assert found.note == "failing: not today"


def test_versions_are_kept_and_the_newest_serves(database: HubDatabase) -> None:
    served = ServedModel()
    upload(database, device("a", 1.0))
    first = refit(database, served)
    upload(database, [*device("b", 2.0), *device("c", 3.0)])
    second = refit(database, served)

    assert first is not None
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert served.version == second
    listed = HubReader(database).models()
    assert [(item["number"], item["platforms"], item["measurements"]) for item in listed] == [(2, 3, 60), (1, 1, 20)]
    assert listed[0]["held_out"]["mape"] == pytest.approx(0.0, abs=1e-6)
    assert database.newest_model() == second


def test_nothing_is_fitted_to_nothing(sqlite: HubDatabase) -> None:
    assert refit(sqlite, ServedModel()) is None
    assert sqlite.newest_model() is None


def test_a_fit_in_a_process_of_its_own_gives_the_same(sqlite: HubDatabase) -> None:
    upload(sqlite, [*device("a", 1.0), *device("b", 2.0)])
    here, there = ServedModel(), ServedModel()

    refit(sqlite, here)
    refit(sqlite, there, own_process=True)

    assert here.model == there.model


def test_the_refitter_fits_when_told_and_serves_what_was_kept(sqlite: HubDatabase) -> None:
    served = ServedModel()
    refitter = Refitter(sqlite, served, quiet_s=0.01, own_process=False)
    refitter.start()
    assert served.model is None
    upload(sqlite, device("a", 1.0))
    refitter.notify()
    wait_for(lambda: served.model)
    refitter.stop()

    again = ServedModel()
    restarted = Refitter(sqlite, again, own_process=False)
    restarted.start()

    assert again.version == served.version
    restarted.stop()
    assert len(HubReader(sqlite).models()) == 1


def test_a_version_of_a_model_that_is_gone_is_fitted_again(sqlite: HubDatabase, caplog: pytest.LogCaptureFixture) -> None:
    upload(sqlite, device("a", 1.0))
    old = refit(sqlite, ServedModel())
    assert old is not None
    sqlite.keep_model(replace(old, model="gaussian-process"))
    served = ServedModel()

    refitter = Refitter(sqlite, served, quiet_s=0.01, own_process=False)
    refitter.start()
    wait_for(lambda: served.model)
    refitter.stop()

    assert served.version is not None
    assert served.version.number == 3
    assert "version 2 of the model cannot be served and is fitted again" in caplog.text


def test_a_fit_that_fails_leaves_the_old_model_serving(sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    served = ServedModel()
    upload(sqlite, device("a", 1.0))
    old = refit(sqlite, served)
    tried = []

    def fails(observations: Sequence[Observation]) -> None:
        tried.append(len(observations))
        raise RuntimeError("out of memory")

    monkeypatch.setattr(refitting, "fit", fails)
    upload(sqlite, device("b", 2.0))
    refitter = Refitter(sqlite, served, quiet_s=0.01, own_process=False)
    refitter.start()
    wait_for(lambda: tried)
    refitter.stop()

    assert tried == [40]
    assert served.version == old
    assert served.model is not None
    assert served.model.predict(NETWORKS[:1], {NETWORKS[1].key: 4.0})[NETWORKS[0].key].latency_ms == pytest.approx(2.0)
