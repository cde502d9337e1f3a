"""The commands: tokens, sharing, the quarantine, refitting, and a server that listens."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from latcast.cli.main import run
from latcast.datasets import jsonlines
from latcast.hub.database import HubDatabase
from tests.hub.made_up import contributor, device, record, upload
from tests.hub.serving import fetched, listening, wait_for

Latcast = Callable[..., tuple[int, str, str]]


@pytest.fixture
def latcast(sqlite: HubDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Latcast:
    """Runs a command on the hub ``sqlite``; returns its exit code and both outputs."""
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LATCAST_DATABASE", sqlite.location)
    for name in ("LATCAST_TOKEN", "LATCAST_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_token_is_issued_listed_and_revoked(latcast: Latcast, sqlite: HubDatabase) -> None:
    code, out, err = latcast("hub", "token", "issue", "Ann", "--days", "30")
    token = out.strip()

    assert code == 0
    assert "cannot be shown again" in err
    assert sqlite.check_token(token)[1].contributor == "Ann"
    listed = latcast("hub", "token", "list")[1]
    assert "valid" in listed
    assert token not in listed
    revoke = ("hub", "token", "revoke", token.split("_")[1])
    assert "no terminal to ask on" in latcast(*revoke)[2]
    assert latcast(*revoke, "--yes")[0] == 0
    [found] = json.loads(latcast("hub", "token", "list", "--json")[1])["tokens"]
    assert found["state"] == "revoked"


def test_a_hub_in_the_user_s_folder_needs_no_option(latcast: Latcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LATCAST_DATABASE")

    assert latcast("hub", "token", "issue", "Ann")[0] == 0
    assert (tmp_path / "home" / "repository.sqlite").is_file()


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    jsonlines.write(path, device("local", 2.0))
    return path


def test_the_last_measurements_are_shared_without_naming_a_file(latcast: Latcast, sqlite: HubDatabase, tmp_path: Path) -> None:
    token, _ = sqlite.issue_token("Ann")
    with listening(sqlite) as url:
        to = ("--to", url, "--token", token, "--yes")
        code, _, err = latcast("share", *to, "--device", "ThinkPad T14")
        assert (code, "nothing was measured here yet" in err) == (1, True)
        quick = ("--rounds", "1", "--runs-per-round", "2", "--warmup-runs", "1")
        printed = latcast("measure", "mobilenet_v1_0_25", *quick, "--json")[1]
        code, out, err = latcast("share", *to, "--device", "ThinkPad T14")
        assert code == 0, err
        assert out.startswith("1 accepted, 0 known")
        (tmp_path / "run.json").write_text(printed)
        again = latcast("share", tmp_path / "run.json", *to, "--device", "thinkpad-t14")
        assert again[1].startswith("0 accepted, 1 known")

    [found] = sqlite.measurements()
    assert (found.platform.partition("/")[0], found.reference.name) == ("thinkpad-t14", "mobilenet_v1_0_25")


def test_a_shared_model_is_forgotten_by_its_link(latcast: Latcast, sqlite: HubDatabase) -> None:
    sqlite.share_model("eeebe2175ed51b33", b"x")
    command = ("hub", "unlink", "https://latcast.example/model/eeebe2175ed51b33")

    assert latcast(*command)[:2] == (0, "forgot eeebe2175ed51b33\n")
    assert sqlite.shared_model("eeebe2175ed51b33") is None
    code, _, err = latcast(*command)
    assert (code, "no shared model has the key 'eeebe2175ed51b33'" in err) == (1, True)


@pytest.mark.parametrize("content", ["{\n}", '{\n"measurements": [1]}', '{\n"measurements": [{}]}', "{\n"])
def test_a_document_that_is_no_measurement_is_refused_in_one_line(latcast: Latcast, tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)

    code, _, err = latcast("share", tmp_path / "run.json", "--to", "http://127.0.0.1:1", "--dry-run")

    assert (code, len(err.splitlines())) == (1, 1)


def test_shared_records_arrive_exactly_as_a_dry_run_shows_them(latcast: Latcast, run_file: Path, sqlite: HubDatabase) -> None:
    token, _ = sqlite.issue_token("Ann")
    with listening(sqlite) as url:
        share = ("share", run_file, "--to", url, "--device", "thinkpad")
        _, shown, said = latcast(*share, "--dry-run")
        assert len(sqlite) == 0
        code, out, _ = latcast(*share, "--token", token, "--yes")
        again = json.loads(latcast(*share, "--token", token, "--yes", "--json")[1])

    assert "20 measurements" in said
    assert (code, out) == (0, "20 accepted, 0 known there already, 0 held back\n")
    assert (again["accepted"], again["known"]) == (0, 20)
    stored = sorted(json.dumps(item.to_json(), sort_keys=True) for item in sqlite.measurements(as_taken=True))
    assert stored == sorted(json.dumps(json.loads(line), sort_keys=True) for line in shown.splitlines())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--device", "thinkpad"), "needs a token"),
        (("--device", "thinkpad", "--token", "t"), "no terminal to ask on"),
        (("--token", "t", "--yes"), "name it with --device"),
    ],
)
def test_sharing_needs_a_token_a_name_and_a_yes(latcast: Latcast, run_file: Path, options: tuple[str, ...], reason: str) -> None:
    code, out, err = latcast("share", run_file, "--to", "http://127.0.0.1:1", *options)

    assert (code, out) == (1, "")
    assert reason in err


def test_quarantined_records_are_listed_released_and_discarded(latcast: Latcast, sqlite: HubDatabase) -> None:
    upload(sqlite, [record(1, latency_ms=0.0001), record(2, latency_ms=0.0002)])
    [first, second] = json.loads(latcast("hub", "quarantine", "list", "--json")[1])["quarantine"]

    assert first["reason"][:20] in latcast("hub", "quarantine", "list")[1]
    assert latcast("hub", "quarantine", "release", first["id"])[0] == 0
    assert [latcast("hub", "quarantine", "discard", second["id"])[0] for _ in range(2)] == [0, 1]
    assert len(sqlite) == 1


def test_quarantined_records_are_chosen_by_what_they_have_in_common(latcast: Latcast, sqlite: HubDatabase) -> None:
    upload(sqlite, [record(number, latency_ms=0.0001) for number in range(1, 4)])
    found = json.loads(latcast("hub", "quarantine", "list", "--json")[1])["quarantine"]
    platform, reason = found[0]["platform"], found[0]["reason"]

    assert latcast("hub", "quarantine", "list", "--platform", platform)[1].replace("\n", " ").count(reason[:20]) == 1
    assert latcast("hub", "quarantine", "release", "--platform", "nothing/*", "--yes")[0] == 1
    assert "no terminal" in latcast("hub", "quarantine", "release", "--platform", platform)[2]
    assert latcast("hub", "quarantine", "discard", "--network", found[0]["network"], "--yes")[1] == "discarded 1 records\n"
    assert latcast("hub", "quarantine", "release", "--reason", "outside", "--yes")[1] == "released 2 records\n"
    assert len(sqlite) == 2
    assert "name records by their ids" in latcast("hub", "quarantine", "release")[2]


def test_the_model_can_be_fitted_by_hand(latcast: Latcast, sqlite: HubDatabase) -> None:
    assert "nothing to fit to" in latcast("hub", "refit")[2]
    upload(sqlite, [*device("a", 1.0), *device("b", 2.0), *device("c", 3.0)], contributor(sqlite, trusted=True))

    out = latcast("hub", "refit")[1]
    again = json.loads(latcast("hub", "refit", "--json")[1])

    assert out.startswith("version 1 (devices): 3 platforms, 20 networks; MAPE 0.0 % on held-out devices")
    assert (again["number"], "content" in again) == (2, False)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--certificate", "x.pem"), "both --certificate and --key"),
        (("--database", "/nowhere/r.sqlite"), "there is no folder /nowhere"),
        (("--database", "nonsense://x"), "cannot open the store"),
        (("--workers", "2"), "2 workers need PostgreSQL"),
    ],
)
def test_a_server_that_cannot_start_says_why(latcast: Latcast, options: tuple[str, ...], reason: str) -> None:
    code, _, err = latcast("hub", "serve", *options)

    assert code == 1
    assert reason in err


def test_an_address_that_is_taken_is_refused_before_anything_is_done(latcast: Latcast) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = latcast("hub", "serve", "--invite", "--port", str(port))

    assert (code, out) == (1, "")
    assert f"cannot listen at 127.0.0.1:{port} (" in err
    assert "serving" not in err


def test_a_server_starts_invites_and_stops(tmp_path: Path) -> None:
    """Without npm, so that what browsers measure with cannot be fetched."""
    environment = {**os.environ, "LATCAST_HOME": str(tmp_path), "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "latcast", "hub", "serve", "--port", "18765", "--invite", "--url", "https://latcast.example"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            health = wait_for(lambda: fetched("http://127.0.0.1:18765/api/health"), 60)
        finally:
            server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=60)

    assert health == {"database": True, "model": 0}
    assert out.startswith("https://latcast.example/add#token=latcast_")
    assert "Traceback" not in err
    assert "invited browsers cannot measure yet: npm is not installed" in err.partition("serving")[0]
    with HubDatabase(tmp_path / "repository.sqlite") as database:
        token = database.check_token(out.strip().partition("#token=")[2])[1]
    assert (token.contributor, token.expires_at is None) == ("guests", False)


def test_an_upload_is_taken_back_and_brought_back(latcast: Latcast, sqlite: HubDatabase) -> None:
    upload(sqlite, device("a", 1.0))
    [listed] = json.loads(latcast("hub", "uploads", "--json")[1])["uploads"]
    undo = ("hub", "undo", "--upload", listed["id"][:8])

    assert "would take back 20 measurements on 1 platforms" in latcast(*undo, "--dry-run")[1]
    assert (latcast(*undo)[0], len(sqlite)) == (1, 20)
    found = json.loads(latcast(*undo, "--yes", "--reason", "wrong clock", "--json")[1])
    assert (found["measurements"], len(sqlite)) == (20, 0)
    assert "wrong clock" in latcast("hub", "audit")[1]
    assert latcast("hub", "redo", found["entry"], "--yes")[1] == "20 records are measurements again\n"
    assert len(sqlite) == 20
    assert latcast("hub", "trust", "Ann")[1] == "Ann is trusted\n"
    assert latcast("hub", "trust", "nobody")[0] == 1


def test_a_hub_is_backed_up_and_restored_by_one_command_each(latcast: Latcast, sqlite: HubDatabase, tmp_path: Path) -> None:
    upload(sqlite, device("a", 1.0))
    file, again = tmp_path / "hub.gz", tmp_path / "again.sqlite"

    code, out, _ = latcast("hub", "backup", file)
    restored = json.loads(latcast("hub", "restore", file, "--database", again, "--json")[1])

    assert (code, restored["rows"]["measurements"]) == (0, 20)
    assert ": 20 measurements, " in out
    assert "is not empty" in latcast("hub", "restore", file, "--database", again)[2]
