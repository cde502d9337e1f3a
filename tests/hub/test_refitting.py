"""Fitting again as measurements arrive: the old model serves meanwhile, each version is kept with its error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latcast.errors import TrainingError
from latcast.hub import refitting
from latcast.hub.database import HubDatabase
from latcast.hub.model import HubModel
from latcast.hub.queries import HubReader
from latcast.hub.refitting import Refitter, ServedModel, held_out_error, refit
from latcast.hub.scales import Observation
from latcast.hub.schema import ModelVersionRow
from latcast.spaces.catalogue import model
from tests.hub.made_up import contributor, device, observed, upload
from tests.hub.serving import wait_for


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
    assert (first.number, second.number, served.number) == (1, 2, 2)
    listed = HubReader(database).models()
    assert [(item["number"], item["platforms"], item["measurements"]) for item in listed] == [(2, 3, 60), (1, 1, 20)]
    assert listed[0]["held_out"]["mape"] == pytest.approx(0.0, abs=1e-6)
    assert database.newest_model_number() == second.number


def test_a_fit_in_a_process_of_its_own_gives_the_same(sqlite: HubDatabase) -> None:
    upload(sqlite, [*device("a", 1.0), *device("b", 2.0)])
    here, there = ServedModel(), ServedModel()

    refit(sqlite, here)
    refit(sqlite, there, own_process=True)

    assert here.model is not None
    assert there.model is not None
    assert here.model.to_json() == there.model.to_json()


@contextmanager
def refitter(database: HubDatabase, served: ServedModel, **options: Any) -> Iterator[Refitter]:
    found = Refitter(database, served, **{"quiet_s": 0.01, "own_process": False, **options})
    found.start()
    try:
        yield found
    finally:
        found.stop()


def test_the_refitter_fits_when_told_and_serves_what_was_kept(sqlite: HubDatabase) -> None:
    served, again = ServedModel(), ServedModel()
    with refitter(sqlite, served) as fitting:
        assert served.model is None
        upload(sqlite, device("a", 1.0))
        fitting.notify()
        wait_for(lambda: served.model)

    with refitter(sqlite, again):
        assert again.number == served.number == 1
    assert len(HubReader(sqlite).models()) == 1


def test_a_version_of_a_model_that_is_gone_is_fitted_again(sqlite: HubDatabase, caplog: pytest.LogCaptureFixture) -> None:
    upload(sqlite, device("a", 1.0))
    refit(sqlite, ServedModel())
    figures = {name: value for name, value in HubReader(sqlite).models()[0].items() if name != "number"}
    sqlite.keep_model(ModelVersionRow(**{**figures, "model": "gaussian-process"}, content={}))
    served = ServedModel()

    with refitter(sqlite, served):
        wait_for(lambda: served.model)

    assert served.number == 3
    assert "version 2 of the model cannot be served" in caplog.text


def test_a_failed_fit_is_reported_and_repeated_while_the_old_model_serves(
    sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, tried = ServedModel(), []
    upload(sqlite, device("a", 1.0))
    refit(sqlite, served)
    real = HubModel.fit

    def fails_once(observations: Sequence[Observation], before: HubModel | None = None) -> HubModel:
        tried.append((len(observations), served.number))
        if len(tried) == 1:
            raise MemoryError
        return real(observations, before)

    monkeypatch.setattr(HubModel, "fit", fails_once)
    upload(sqlite, device("b", 2.0))
    with refitter(sqlite, served, first_retry_s=0.05) as fitting:
        failed = wait_for(lambda: fitting.state if fitting.state.problem else None)
        wait_for(lambda: served.number == 2)
        wait_for(lambda: not fitting.state.running)

    assert (failed.problem, failed.retry_in_s) == ("MemoryError", 0.05)
    assert tried == [(40, 1), (40, 1)]
    assert fitting.state == refitting.RefitState()


def killed(url: str) -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return True


def out_of_memory(url: str) -> bool:
    raise MemoryError


@pytest.mark.parametrize(("fit", "reason"), [(killed, "was ended"), (out_of_memory, "GB of memory")])
def test_a_process_that_cannot_fit_says_why(
    sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch, fit: Callable[[str], bool], reason: str
) -> None:
    monkeypatch.setattr(refitting, "_fit_within_memory", fit)

    with pytest.raises(TrainingError, match=reason):
        refit(sqlite, ServedModel(), own_process=True)


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
    with refitter(sqlite, served, seed=True) as fitting:
        mobile, squeeze = model("mobilenet_v2_0_75"), model("squeezenet1_1")
        assert served.model is not None
        assert served.number == 0
        found = served.model.predict([mobile], {squeeze.key: 20.0})[mobile.key]
        assert found.low_ms < found.latency_ms < found.high_ms
        upload(sqlite, device("a", 1.0))
        fitting.notify()
        wait_for(lambda: served.number == 1)
