"""The commands: tokens, sharing, the quarantine, refitting, and a server that listens."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from latcast.cli.main import run
from latcast.datasets import jsonlines
from latcast.hub.database import HubDatabase
from tests.hub.made_up import contributor, device, record, upload
from tests.hub.serving import QUICK, listening, wait_for


@pytest.fixture
def latcast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    for name in ("LATCAST_TOKEN", "LATCAST_DATABASE", "LATCAST_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_token_is_issued_listed_and_revoked(latcast: Any, location: str) -> None:
    code, out, err = latcast("hub", "token", "issue", "Ann", "--days", "30", "--database", location)
    token = out.strip()

    assert code == 0
    assert "cannot be shown again" in err
    with HubDatabase(location) as database:
        assert database.check_token(token)[1].contributor == "Ann"
    listed = latcast("hub", "token", "list", "--database", location)[1]
    assert "valid" in listed
    assert token not in listed
    revoke = ("hub", "token", "revoke", token.split("_")[1], "--database", location)
    assert "no terminal to ask on" in latcast(*revoke)[2]
    assert latcast(*revoke, "--yes")[0] == 0
    [found] = json.loads(latcast("hub", "token", "list", "--json", "--database", location)[1])["tokens"]
    assert found["state"] == "revoked"


def test_a_hub_in_the_user_s_folder_needs_no_option(latcast: Any, tmp_path: Path) -> None:
    assert latcast("hub", "token", "issue", "Ann")[0] == 0
    assert (tmp_path / "home" / "repository.sqlite").is_file()


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    jsonlines.write(path, device("local", 2.0))
    return path


def test_a_dry_run_prints_what_would_be_sent_and_sends_nothing(latcast: Any, run_file: Path) -> None:
    code, out, err = latcast("share", run_file, "--to", "http://127.0.0.1:1", "--device", "thinkpad", "--dry-run")

    assert code == 0
    assert [json.loads(line)["platform"] for line in out.splitlines()] == ["thinkpad/onnxruntime-1.31/cpu1/fp32"] * 20
    assert "20 measurements" in err


def test_the_last_measurements_are_shared_without_naming_a_file(latcast: Any, sqlite: HubDatabase, tmp_path: Path) -> None:
    token, _ = sqlite.issue_token("Ann")
    with listening(sqlite, QUICK) as url:
        code, _, err = latcast("share", "--to", url, "--device", "ThinkPad T14", "--token", token, "--yes")
        assert (code, "nothing was measured here yet" in err) == (1, True)
        quick = ("--rounds", "1", "--runs-per-round", "2", "--warmup-runs", "1")
        printed = latcast("measure", "mobilenet_v1_0_25", *quick, "--json")[1]
        code, out, err = latcast("share", "--to", url, "--device", "ThinkPad T14", "--token", token, "--yes")
        assert code == 0, err
        assert out.startswith("1 accepted, 0 known")
        (tmp_path / "run.json").write_text(printed)
        again = latcast("share", tmp_path / "run.json", "--to", url, "--device", "thinkpad-t14", "--token", token, "--yes")
        assert again[1].startswith("0 accepted, 1 known")

    [found] = sqlite.measurements()
    assert (found.platform.partition("/")[0], found.reference.name) == ("thinkpad-t14", "mobilenet_v1_0_25")


def test_a_shared_model_is_forgotten_by_its_link(latcast: Any, sqlite: HubDatabase) -> None:
    sqlite.share_model("eeebe2175ed51b33", b"x")
    command = ("hub", "unlink", "https://latcast.example/model/eeebe2175ed51b33", "--database", sqlite.location)

    assert latcast(*command)[:2] == (0, "forgot eeebe2175ed51b33\n")
    assert sqlite.shared_model("eeebe2175ed51b33") is None
    code, _, err = latcast(*command)
    assert (code, "no shared model has the key 'eeebe2175ed51b33'" in err) == (1, True)


def test_a_document_that_is_no_measurement_is_refused_in_one_line(latcast: Any, tmp_path: Path) -> None:
    for content in ("{\n}", '{\n"measurements": [1]}', '{\n"measurements": [{}]}', "{\n"):
        (tmp_path / "run.json").write_text(content)
        code, _, err = latcast("share", tmp_path / "run.json", "--to", "http://127.0.0.1:1", "--dry-run")
        assert code == 1
        assert len(err.splitlines()) == 1


def test_shared_records_arrive_exactly_as_shown(latcast: Any, run_file: Path, sqlite: HubDatabase) -> None:
    token, _ = sqlite.issue_token("Ann")
    with listening(sqlite, QUICK) as url:
        shown = latcast("share", run_file, "--to", url, "--device", "thinkpad", "--dry-run")[1]
        code, out, _ = latcast("share", run_file, "--to", url, "--device", "thinkpad", "--token", token, "--yes")
        again = latcast("share", run_file, "--to", url, "--device", "thinkpad", "--token", token, "--yes", "--json")[1]

    assert (code, out) == (0, "20 accepted, 0 known there already, 0 held back\n")
    assert (json.loads(again)["accepted"], json.loads(again)["known"]) == (0, 20)
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
def test_sharing_needs_a_token_a_name_and_a_yes(latcast: Any, run_file: Path, options: tuple[str, ...], reason: str) -> None:
    code, out, err = latcast("share", run_file, "--to", "http://127.0.0.1:1", *options)

    assert (code, out) == (1, "")
    assert reason in err


def test_quarantined_records_are_listed_released_and_discarded(latcast: Any, sqlite: HubDatabase) -> None:
    where = ("--database", sqlite.location)
    upload(sqlite, [record(1, latency_ms=0.0001), record(2, latency_ms=0.0002)])
    [first, second] = json.loads(latcast("hub", "quarantine", "list", "--json", *where)[1])["quarantine"]

    assert "outside 0.001" in latcast("hub", "quarantine", "list", *where)[1]
    assert latcast("hub", "quarantine", "release", first["id"], *where)[0] == 0
    assert latcast("hub", "quarantine", "discard", second["id"], *where)[0] == 0
    assert latcast("hub", "quarantine", "discard", second["id"], *where)[0] == 1
    assert len(sqlite) == 1


def test_the_model_can_be_fitted_by_hand(latcast: Any, sqlite: HubDatabase) -> None:
    where = ("--database", sqlite.location)
    assert "nothing to fit to" in latcast("hub", "refit", *where)[2]
    upload(sqlite, [*device("a", 1.0), *device("b", 2.0), *device("c", 3.0)], contributor(sqlite, trusted=True))

    out = latcast("hub", "refit", *where)[1]

    assert out.startswith("version 1 (devices): 3 platforms, 20 networks; MAPE 0.0 % on held-out devices")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--certificate", "x.pem"), "both --certificate and --key"),
        (("--database", "/nowhere/r.sqlite"), "there is no folder /nowhere"),
        (("--database", "nonsense://x"), "cannot open the store"),
    ],
)
def test_a_server_that_cannot_start_says_why(latcast: Any, options: tuple[str, ...], reason: str) -> None:
    code, _, err = latcast("hub", "serve", *options)

    assert code == 1
    assert reason in err


def test_an_address_that_is_taken_is_refused_before_anything_is_done(latcast: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = latcast("hub", "serve", "--invite", "--port", str(port))

    assert (code, out) == (1, "")
    assert f"cannot listen at 127.0.0.1:{port} (" in err
    assert "serving" not in err


def test_a_server_starts_invites_and_stops(tmp_path: Path) -> None:
    environment = {**os.environ, "LATCAST_HOME": str(tmp_path)}
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
    with HubDatabase(tmp_path / "repository.sqlite") as database:
        assert database.check_token(out.strip().partition("#token=")[2])[1].contributor == "guests"
        [token] = database.tokens()
        assert token.expires_at is not None


def fetched(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)
    except OSError:
        return None


def test_an_upload_is_taken_back_and_brought_back(latcast: Any, sqlite: HubDatabase) -> None:
    where = ("--database", sqlite.location)
    upload(sqlite, device("a", 1.0))
    [listed] = json.loads(latcast("hub", "uploads", "--json", *where)[1])["uploads"]
    undo = ("hub", "undo", "--upload", listed["id"][:8], *where)

    assert "would take back 20 measurements on 1 platforms" in latcast(*undo, "--dry-run")[1]
    assert latcast(*undo)[0] == 1
    assert len(sqlite) == 20
    found = json.loads(latcast(*undo, "--yes", "--reason", "wrong clock", "--json")[1])
    assert (found["measurements"], len(sqlite)) == (20, 0)
    assert "wrong clock" in latcast("hub", "audit", *where)[1]
    assert latcast("hub", "redo", found["entry"], "--yes", *where)[1] == "20 records are measurements again\n"
    assert len(sqlite) == 20
    assert latcast("hub", "trust", "Ann", *where)[1] == "Ann is trusted\n"
    assert latcast("hub", "trust", "nobody", *where)[0] == 1


def test_a_hub_is_backed_up_and_restored_by_one_command_each(latcast: Any, sqlite: HubDatabase, tmp_path: Path) -> None:
    upload(sqlite, device("a", 1.0))
    file, again = tmp_path / "hub.gz", tmp_path / "again.sqlite"

    code, out, _ = latcast("hub", "backup", file, "--database", sqlite.location)
    restored = json.loads(latcast("hub", "restore", file, "--database", again, "--json")[1])

    assert (code, restored["rows"]["measurements"]) == (0, 20)
    assert ": 20 measurements, " in out
    assert "is not empty" in latcast("hub", "restore", file, "--database", again)[2]
