"""``latcast device adapt`` killed in the middle: the same command goes on and ends with a bundle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from latcast.datasets.store import Store
from latcast.predictors.bundle import load_bundle

PATIENCE_S = 300.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@pytest.mark.slow
def test_an_adaptation_that_was_killed_goes_on_with_what_it_measured(tmp_path: Path) -> None:
    path, bundle, pool = tmp_path / "store.sqlite", tmp_path / "bundle.zip", tmp_path / "pool"
    pool.mkdir()
    command = [
        sys.executable, "-m", "latcast", "device", "adapt",
        "--pool", str(pool), "--budget", "0.5", "--store", str(path), "-o", str(bundle),
        "--json",
    ]  # fmt: skip
    environment = {**os.environ, "LATCAST_HOME": str(tmp_path / "home")}
    with Store(path) as store:
        killed = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: len(store) >= 10)
        os.kill(killed.pid, signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
        kept = list(store.measurements())
    assert len(kept) >= 10
    assert not bundle.exists()

    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    with Store(path) as store:
        everything = list(store.measurements())
    assert [measurement for measurement in kept if measurement not in everything] == []
    later = {measurement.reference.key for measurement in everything if measurement not in kept}
    assert later
    # What the killed one had measured is not measured again.
    assert not later & {measurement.reference.key for measurement in kept if measurement.ok}
    document = json.loads(again.stdout)
    assert document["platform"] == kept[0].platform
    assert {each["way"] for each in document["transfer"].values()} == {"from scratch"}
    assert document["kernel_errors"]["conv"]["mape"] > 0
    predictor = load_bundle(bundle)
    assert predictor.platform.id == kept[0].platform
    assert predictor.card["transfer"].keys() == document["transfer"].keys()
