"""Fitting again as measurements arrive: the old model serves meanwhile, each version is kept with its error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from latcast.hub import refitting
from latcast.hub.database import HubDatabase
from latcast.hub.model import HubModel
from latcast.hub.queries import HubReader
from latcast.hub.refitting import Refitter, ServedModel, held_out_error, refit
from latcast.hub.scales import Observation
from latcast.hub.schema import ModelVersionRow
from latcast.spaces.catalogue import model
from tests.hub.made_up import NETWORKS, device, observed
from tests.hub.serving import wait_for
from tests.hub.test_database import contributor, upload


def devices(**factors: float) -> list[Observation]:
    return [item for name, factor in factors.items() for item in observed(device(name, factor))]


def test_devices_that_differ_by_a_factor_are_predicted_without_error() -> None:
    records = devices(a=1.0, b=2.0, c=5.0, d=0.3)
    error, note = held_out_error(records, HubModel.fit(records))

    assert note == ""
    assert error is not None
    assert error["mape"] == pytest.approx(0.0, abs=1e-6)
    assert (error["networks"], error["devices"], error["not_predicted"]) == (40, 4, 0)
    assert error["interval_coverage"] == 100.0


def test_a_device_is_held_out_with_all_devices_of_its_silicon(monkeypatch: pytest.MonkeyPatch) -> None:
    """a and b are of one chip; what the model knew of a device before is left out with it."""
    monkeypatch.setattr(refitting, "silicon", lambda device: {"a": "one", "b": "one"}.get(device, device))
    records = devices(a=1.0, b=2.0, c=5.0, d=7.0)
    model = HubModel.fit(records)
    fitted: list[set[str]] = []
    left_out: list[set[str]] = []

    def fit(observations: Sequence[Observation], before: HubModel | None = None) -> HubModel:
        fitted.append({item.platform.split("/")[0] for item in observations})
        return model

    def without(self: HubModel, devices: Collection[str]) -> HubModel:
        left_out.append(set(devices))
        return self

    monkeypatch.setattr(HubModel, "fit", fit)
    monkeypatch.setattr(HubModel, "without", without)
    held_out_error(records, model)

    assert sorted(map(sorted, left_out)) == [["a", "b"], ["c"], ["d"]]
    assert [names | out for names, out in zip(fitted, left_out, strict=True)] == [set("abcd")] * 3
    assert not any(names & out for names, out in zip(fitted, left_out, strict=True))


def test_with_few_devices_there_is_a_note_instead_of_an_error() -> None:
    records = devices(a=1.0, b=2.0)

    error, note = held_out_error(records, HubModel.fit(records))

    assert error is None
    assert "2 of trusted contributors, expected at least 3" in note


def test_versions_are_kept_and_the_newest_serves(database: HubDatabase) -> None:
    served = ServedModel()
    who = contributor(database, trusted=True)
    upload(database, device("a", 1.0), who)
    first = refit(database, served)
    upload(database, [*device("b", 2.0), *device("c", 3.0)], who)
    second = refit(database, served)

    assert first is not None
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert served.version == second
    listed = HubReader(database).models()
    assert [(item["number"], item["platforms"], item["measurements"]) for item in listed] == [(2, 3, 60), (1, 1, 20)]
    assert listed[0]["held_out"]["mape"] == pytest.approx(0.0, abs=1e-6)
    assert database.newest_model() == second


def test_without_measurements_no_model_is_fitted(sqlite: HubDatabase) -> None:
    assert refit(sqlite, ServedModel()) is None
    assert sqlite.newest_model() is None


def test_a_fit_in_a_process_of_its_own_gives_the_same(sqlite: HubDatabase) -> None:
    upload(sqlite, [*device("a", 1.0), *device("b", 2.0)])
    here, there = ServedModel(), ServedModel()

    refit(sqlite, here)
    refit(sqlite, there, own_process=True)

    assert here.model is not None
    assert there.model is not None
    assert here.model.to_json() == there.model.to_json()


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

    def fails(observations: Sequence[Observation], before: HubModel | None = None) -> None:
        tried.append(len(observations))
        raise RuntimeError("out of memory")

    monkeypatch.setattr(HubModel, "fit", fails)
    upload(sqlite, device("b", 2.0))
    refitter = Refitter(sqlite, served, quiet_s=0.01, own_process=False)
    refitter.start()
    wait_for(lambda: tried)
    refitter.stop()

    assert tried == [40]
    assert served.version == old
    assert served.model is not None
    assert served.model.predict(NETWORKS[:1], {NETWORKS[1].key: 4.0})[NETWORKS[0].key].latency_ms == pytest.approx(2.0)


def test_a_failed_fit_is_reported_and_repeated(sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    served, tried = ServedModel(), []
    real = HubModel.fit

    def fails_once(observations: Sequence[Observation], before: HubModel | None = None) -> HubModel:
        tried.append(refitter.state)
        if len(tried) == 1:
            raise MemoryError
        return real(observations, before)

    monkeypatch.setattr(HubModel, "fit", fails_once)
    upload(sqlite, device("a", 1.0))
    refitter = Refitter(sqlite, served, quiet_s=0.01, own_process=False, first_retry_s=0.05)
    refitter.start()
    failed = wait_for(lambda: refitter.state if refitter.state.problem else None)
    wait_for(lambda: served.model)
    wait_for(lambda: not refitter.state.running)
    refitter.stop()

    assert (failed.problem, failed.retry_in_s) == ("MemoryError", 0.05)
    assert len(tried) == 2
    assert refitter.state == refitting.RefitState()


def test_the_fit_of_a_killed_server_ends(tmp_path: Path, sqlite: HubDatabase) -> None:
    program = (
        "import multiprocessing, os, time\n"
        "from latcast.hub import refitting\n"
        "def fit(path):\n    refitting.end_with_parent()\n    open(path, 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.get_context('spawn').Process(target=fit, args=({str(tmp_path / 'child')!r},)).start()\n"
        "    time.sleep(60)\n"
    )
    file = tmp_path / "server.py"
    file.write_text(program)
    server = subprocess.Popen([sys.executable, str(file)])
    child = int(wait_for(lambda: (tmp_path / "child").is_file() and (tmp_path / "child").read_text()))

    server.kill()
    server.wait()

    assert wait_for(lambda: not _alive(child))


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_errors_are_judged_on_devices_of_trusted_contributors_alone() -> None:
    honest = devices(a=1.0, b=2.0, c=5.0, d=0.3)
    fakes = [replace(item, trusted=False) for item in devices(e=1.0, f=1.0, g=1.0)]

    found, _ = held_out_error([*honest, *fakes], HubModel.fit([*honest, *fakes]))

    assert found is not None
    assert (found["devices"], found["networks"]) == (4, 40)
    strangers = [replace(item, trusted=False) for item in honest]
    assert held_out_error(strangers, HubModel.fit(strangers))[0] is None


def test_the_content_of_old_versions_goes_and_their_figures_stay(sqlite: HubDatabase) -> None:
    upload(sqlite, device("a", 1.0))
    for _ in range(5):
        refitting.fit_and_keep(sqlite)

    assert len(HubReader(sqlite).models()) == 5
    with sqlite._reading() as session:
        kept = [bool(row.content) for row in session.query(ModelVersionRow).order_by(ModelVersionRow.number)]
    assert kept == [False, False, True, True, True]


def test_the_shipped_model_serves_until_the_first_fit(sqlite: HubDatabase) -> None:
    served = ServedModel()
    refitter = Refitter(sqlite, served, quiet_s=0.01, own_process=False, seed=True)
    refitter.start()

    assert served.version is not None
    assert served.version.number == 0
    mobile, squeeze = model("mobilenet_v2_0_75"), model("squeezenet1_1")
    found = served.model.predict([mobile], {squeeze.key: 20.0}) if served.model else {}
    assert found[mobile.key].low_ms < found[mobile.key].latency_ms < found[mobile.key].high_ms
    upload(sqlite, device("a", 1.0))
    refitter.notify()
    wait_for(lambda: served.version and served.version.number == 1)
    refitter.stop()
