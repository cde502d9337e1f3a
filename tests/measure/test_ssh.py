"""Measuring through a real sshd: the same records as here, whatever happens to the link and to either end."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from latcast.datasets.store import Store
from latcast.errors import LatcastError, MeasurementError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.measure import client as client_module
from latcast.measure import messages
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.client import Item, MeasuringClient
from latcast.measure.probe import QuietTimesFile
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.measure.single import measure
from latcast.measure.ssh import SshHost
from latcast.measure.wires import device_and_address
from latcast.networks import resolve_model
from tests.measure.behaving import REPOSITORY_ROOT, reference, settings
from tests.measure.sshing import PYTHON_PATH, Board
from tests.measure.sshing import board as started_board

PLAN = MeasurePlan(rounds=1, runs_per_round=2, warmup_runs=0, batch_size=2)


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with started_board() as found:
        yield found


@pytest.fixture
def quiet_times(tmp_path: Path) -> QuietTimesFile:
    return QuietTimesFile(tmp_path / "quiet.json")


def there(board: Board, **changes: Any) -> WorkerSettings:
    return settings(**{"address": board.address, "variables": {}, **changes})


def test_a_record_from_elsewhere_is_as_one_from_here(board: Board, quiet_times: QuietTimesFile) -> None:
    with (
        MeasuringClient(there(board, probe=True, variables={"OMP_DYNAMIC": "it's"}), quiet_times) as client,
        MeasuringClient(settings(probe=True), quiet_times) as here,
    ):
        ((_, far),) = client.measure([Item(reference())], PLAN)
        ((_, near),) = here.measure([Item(reference())], PLAN)
    host = platform.node().lower().partition(".")[0]
    assert far.platform == near.platform.replace("local/", f"{host}/")
    for part in ("cpu", "cpus", "memory_bytes", "kernel"):
        assert far.environment["host"][part] == near.environment["host"][part]
    assert far.environment["settings"]["variables"]["OMP_DYNAMIC"] == "it's"
    assert far.environment["settings"]["variables"]["OMP_NUM_THREADS"] == "1"
    assert far.environment["settings"]["probe"]["quiet_ms"]
    offset_ms = far.environment["moment"]["clock_offset_ms"]
    assert abs(offset_ms) <= far.environment["moment"]["clock_round_trip_ms"] / 2 + 1, "the same clock"
    board.wait_for_no_worker()


def test_a_device_is_called_as_the_user_says(board: Board, quiet_times: QuietTimesFile) -> None:
    name, address = device_and_address(f"pi5={board.address}")
    with MeasuringClient(there(board, device=name, address=address), quiet_times) as client:
        assert client.platform.id == "pi5/behaving-1.2/cpu1/fp32"


def items(count: int) -> list[CampaignItem]:
    return [CampaignItem(reference("slow", number), plan=PLAN) for number in range(count)]


def assert_all_measured_once(store: Store, platform_id: str, measured: list[CampaignItem]) -> None:
    records = list(store.measurements(platform=platform_id))
    assert all(record.ok for record in records)
    assert Counter(record.reference.key for record in records) == {item.reference.key: 1 for item in measured}


def test_a_campaign_goes_on_over_a_link_that_is_cut(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RECONNECT_WAITS_S", (0.05, 0.1))
    first_workers: list[int] = []

    def watch(progress: Progress) -> None:
        if progress.stage == "running" and progress.done == 2 and not first_workers:
            first_workers.extend(board.workers())
            board.link.cut()

    with Store(tmp_path / "records.sqlite") as store:
        report = Campaign(store, there(board), items(6), progress=watch).run()
        assert report.complete
        assert report.failures == {}
        assert_all_measured_once(store, report.platform.id, items(6))
    board.wait_for_no_worker()
    assert len(first_workers) == 1


def test_a_worker_that_is_killed_there_is_replaced(board: Board, tmp_path: Path) -> None:
    killed: list[int] = []

    def watch(progress: Progress) -> None:
        if progress.stage == "running" and progress.done == 2 and not killed:
            killed.extend(board.workers())
            os.kill(killed[0], signal.SIGKILL)

    with Store(tmp_path / "records.sqlite") as store:
        report = Campaign(store, there(board), items(6), progress=watch).run()
        assert_all_measured_once(store, report.platform.id, items(6))
    assert len(killed) == 1


def test_a_subject_that_crashes_the_worker_there_is_blamed(board: Board, quiet_times: QuietTimesFile) -> None:
    with MeasuringClient(there(board), quiet_times) as client:
        found = dict(client.measure([Item(reference("dies_running")), Item(reference())], PLAN))
    assert found[1].ok
    assert "was killed by SIGABRT while running" in str(found[0].error)


@pytest.mark.slow
def test_a_subject_that_loses_the_link_repeatedly_is_blamed(
    board: Board, quiet_times: QuietTimesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "RECONNECT_WAITS_S", (0.05, 0.1))

    def cut(item: Item, stage: str) -> None:
        if item.reference == reference("slow") and stage == "running":
            board.link.cut()

    with MeasuringClient(there(board), quiet_times) as client:
        found = dict(client.measure([Item(reference()), Item(reference("slow"))], PLAN, cut))
    assert found[0].ok
    assert str(found[1].error).startswith(f"lost {board.user}@127.0.0.1")


CAMPAIGN = """
import json, sys
from pathlib import Path
from latcast.datasets.store import Store
from latcast.measure.campaign import Campaign
from tests.measure.behaving import settings
from tests.measure.test_ssh import items
with Store(Path(sys.argv[2])) as store:
    report = Campaign(
        store, settings(address=sys.argv[1], variables={}), items(6), progress=lambda step: print(step.stage, flush=True)
    ).run()
    print(json.dumps([report.added, report.missing]))
"""


def test_a_client_that_is_killed_goes_on_when_started_again_and_leaves_no_worker(board: Board, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CAMPAIGN, board.address, str(tmp_path / "records.sqlite")]
    variables = {**os.environ, "PYTHONPATH": f"{REPOSITORY_ROOT / 'src'}:{REPOSITORY_ROOT}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, text=True) as first:
        assert first.stdout is not None
        for line in first.stdout:
            if line == "measured\n":
                break
        first.send_signal(signal.SIGKILL)
    board.wait_for_no_worker()
    with Store(tmp_path / "records.sqlite") as store:
        before = sum(1 for _ in store.measurements())
    assert 1 <= before < 6

    second = subprocess.run(command, stdout=subprocess.PIPE, env=variables, text=True, check=True)

    assert json.loads(second.stdout.splitlines()[-1]) == [6 - before, 0]


def test_a_worker_whose_client_has_fallen_silent_ends(
    board: Board, quiet_times: QuietTimesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SILENCE_S", 0.9)
    with MeasuringClient(there(board), quiet_times):
        assert len(board.workers()) == 1, "it lives while its client does"
        board.link.silent = True
        try:
            board.wait_for_no_worker()
        finally:
            board.link.silent = False
            board.link.cut()


@pytest.mark.slow
def test_a_client_that_was_stopped_for_long_goes_on(
    board: Board, quiet_times: QuietTimesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SILENCE_S", 1.2)
    with MeasuringClient(there(board), quiet_times) as client:
        monkeypatch.setattr(messages, "SILENCE_S", 3600.0)  # what it said to the worker holds, and it says no more
        board.wait_for_no_worker()
        ((_, found),) = client.measure([Item(reference())], PLAN)
    assert found.ok, found.error


def test_a_file_travels_as_it_is_unless_made_up_weights_are_asked_for(board: Board, tmp_path: Path) -> None:
    b = GraphBuilder("wide")
    x = b.input((1, 256, 4, 4))
    for _ in range(4):
        x = b.relu(b.conv(x, 256, 3))
    file = tmp_path / "only-here.onnx"
    file.write_bytes(to_onnx(b.finish(x)))
    assert file.stat().st_size > 9_000_000
    settings = WorkerSettings(address=board.address, probe=False)

    for made_up in (True, False):
        before = board.link.sent_bytes
        found = measure(file, replace(settings, made_up_weights=made_up), PLAN)
        assert found.ok, found.error
        assert found.reference == resolve_model(file)
        assert found.environment["moment"]["weights"] == ("made up" if made_up else "of the file")
        assert (board.link.sent_bytes - before < 20_000) == made_up


def test_the_data_beside_a_file_travels_with_it(board: Board, tmp_path: Path) -> None:
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, (1, 64))],
            [helper.make_tensor_value_info("y", 1, (1, 64))], [numpy_helper.from_array(np.ones((64, 64), np.float32), "w")],
        ),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    onnx.save(proto, tmp_path / "a model.onnx", save_as_external_data=True, location="data of it.bin", size_threshold=0)

    found = measure(tmp_path / "a model.onnx", WorkerSettings(address=board.address, probe=False), PLAN, values={"x": 2})

    assert found.ok, found.error
    assert found.environment["moment"]["weights"] == "of the file"


def test_the_time_of_a_record_is_this_machines(board: Board, quiet_times: QuietTimesFile) -> None:
    ahead = board.folder / "ahead"
    ahead.mkdir()
    (ahead / "sitecustomize.py").write_text(
        "import datetime, time\n"
        "real, clock = datetime.datetime, time.time\n"
        "time.time = lambda: clock() + 7200\n"
        "class Ahead(real):\n"
        "    @classmethod\n"
        "    def now(cls, zone=None):\n"
        "        return real.now(zone) + datetime.timedelta(hours=2)\n"
        "datetime.datetime = Ahead\n"
    )
    seen = os.pathsep.join([str(ahead), *PYTHON_PATH])
    with MeasuringClient(there(board, variables={"PYTHONPATH": seen}), quiet_times) as client:
        ((_, found),) = client.measure([Item(reference())], PLAN)
    assert found.environment["moment"]["clock_offset_ms"] == pytest.approx(7.2e6, abs=2e3)
    taken_at = datetime.fromisoformat(found.taken_at.replace("Z", "+00:00"))
    assert abs((datetime.now(timezone.utc) - taken_at).total_seconds()) < 60


def test_obstacles_are_explained_in_one_line(board: Board, quiet_times: QuietTimesFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(changed: WorkerSettings) -> str:
        with pytest.raises(LatcastError) as caught:
            MeasuringClient(changed, quiet_times)
        return str(caught.value)

    usual = f"ssh -F {board.folder}/ssh_config"
    assert "has no Python at /nowhere/python" in refused(there(board, address=f"{board.address}?python=/nowhere/python"))
    assert f"has no latcast; put it there with: latcast device prepare {board.address}" in refused(
        there(board, variables={"PYTHONPATH": "/nowhere"})
    )
    mend = f"latcast device prepare {board.address} --runtime absent"
    assert f"absent is not installed; add it with: {mend}" in refused(there(board, runtime="absent"))
    unused = f"ssh://{board.user}@127.0.0.1:9"
    assert "lost" in refused(there(board, address=unused))
    assert "Connection refused" in refused(there(board, address=unused))
    assert "no host is called 'nowhere.invalid'" in refused(there(board, address="ssh://nowhere.invalid"))
    monkeypatch.setenv("LATCAST_SSH", f"{usual} -o UserKnownHostsFile=/dev/null")
    port = board.link.port
    assert f"is not known yet; look at it and accept it with: ssh -p {port} {board.user}@127.0.0.1" in refused(there(board))
    other = board.folder / "other_known_hosts"
    other.write_text("board " + (board.folder / "stranger.pub").read_text())
    monkeypatch.setenv("LATCAST_SSH", f"{usual} -o UserKnownHostsFile={other}")
    assert "is not the known one" in refused(there(board))
    keyless = board.folder / "ssh_config_of_a_stranger"
    keyless.write_text((board.folder / "ssh_config").read_text().replace("/mine", "/stranger"))
    monkeypatch.setenv("LATCAST_SSH", f"ssh -F {keyless}")
    assert f"permission denied; give it a key of yours: ssh-copy-id -p {port} {board.user}@" in refused(there(board))
    monkeypatch.setenv("LATCAST_SSH", "no-such-ssh -v")
    assert "found no command 'no-such-ssh'" in refused(there(board))
    monkeypatch.setenv("LATCAST_SSH", usual)
    monkeypatch.setattr(messages, "code_id", lambda: "9.9-0123abcd")
    assert (
        f"this machine 9.9-0123abcd; records of different ones do not compare: latcast device prepare {board.address}"
        in refused(there(board))
    )


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ssh://", "not an address"),
        ("ssh://-oProxyCommand=date", "not an address"),
        ("ssh://pi@board?pyton=x", "not an address"),
        ("ssh://pi:secret@board", "holds no password"),
        ("ssh://pi$(date)@board", "not an address"),
    ],
)
def test_a_malformed_address_is_refused(address: str, reason: str) -> None:
    with pytest.raises(MeasurementError, match=reason):
        SshHost.parse(address)


def test_an_address_is_read_as_ssh_takes_it() -> None:
    assert SshHost.parse("ssh://board") == SshHost("ssh://board", "board")
    full = SshHost.parse("ssh://pi@board.local:2222?python=/opt/my%20env/bin/python")
    assert (full.target, full.port, full.python) == ("pi@board.local", "2222", "/opt/my env/bin/python")
    assert SshHost.parse("ssh://[::1]:2222").target == "::1"


def test_a_device_is_a_name_or_an_address_or_both() -> None:
    assert device_and_address("local") == ("local", "")
    assert device_and_address("thinkpad") == ("thinkpad", "")
    assert device_and_address("ssh://pi@board") == ("local", "ssh://pi@board")
    assert device_and_address("pi5=ssh://pi@board") == ("pi5", "ssh://pi@board")
    assert device_and_address("adb:0A1B") == ("local", "adb:0A1B")
    assert device_and_address("dask:tcp://10.0.0.2:8786/board-a") == ("board-a", "dask:tcp://10.0.0.2:8786")
    for text, reason in (
        ("http://board", "an address begins with one of adb:, dask:, ssh:"),
        ("My Board", "is neither a device's name"),
        ("pi5=board", "is neither a device's name"),
        ("dask:board-a", "does not name a worker"),
        ("adb:", "names no phone"),
        ("adb", "does not say which device; expected .*adb:SERIAL"),
        ("pi5=ssh", "does not say which device"),
    ):
        with pytest.raises(MeasurementError, match=reason):
            device_and_address(text)


def test_a_login_message_is_not_taken_for_an_answer(board: Board, quiet_times: QuietTimesFile) -> None:
    talking = board.folder / "talking"
    talking.write_text("#!/bin/sh\necho 'Welcome to the board!'\nexec python3 \"$@\"\n")
    talking.chmod(0o755)
    with MeasuringClient(there(board, address=f"{board.address}?python={talking}"), quiet_times) as client:
        assert client.platform.runtime == "behaving"
