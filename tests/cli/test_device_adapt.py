"""``latcast device adapt``: what it refuses at once, the whole way for real, and killed in the middle."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from latcast.datasets.opening import only_platform, open_measurements
from latcast.datasets.store import Store
from latcast.predictors.bundle import load_bundle
from latcast.training.adaptation import ADAPTED, TRAINED
from tests.cli.conftest import Latcast
from tests.cli.dataset import DATASET


def test_a_stored_campaign_is_adapted_to_without_measuring(latcast: Latcast, tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()

    found = latcast("device", "adapt", DATASET, "--pool", tmp_path / "pool", "-o", tmp_path / "b.zip", "--json")

    document = found.json
    with open_measurements(DATASET) as store:
        assert document["platform"] == only_platform(store).id
    assert document["store"] == str(DATASET)
    # Its networks are all profiled ones: some are set aside to be judged on.
    assert re.search(r"timed inside \d+ networks, [1-9]\d whole networks", document["trained_on"])
    assert document["mape"] > 0
    errors = document["held_out_errors"]
    [best] = [way for way in errors if f"; {way}, of " in document["trained_on"]]
    assert f"; {best}, of {ADAPTED} {errors[ADAPTED]:.1f} %, {TRAINED} {errors[TRAINED]:.1f} %" in document["trained_on"]
    assert document["mape"] < max(errors.values()) + 1
    assert ("conv" in document["transfer"]) == (best == ADAPTED)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((DATASET, "--target", "±10=95"), "--target and --store are for measuring"),
        ((DATASET, "--store", "other.sqlite"), "--target and --store are for measuring"),
        (("--on", "rpi5/tflite"), "--on names a platform of a STORE"),
    ],
)
def test_options_of_measuring_and_of_stored_campaigns_do_not_go_together(
    latcast: Latcast, arguments: tuple[str, ...], said: str
) -> None:
    found = latcast("device", "adapt", *arguments)

    assert found.code == 2
    assert said in " ".join(found.err.replace("│", " ").split())


@pytest.mark.slow
def test_with_an_empty_pool_it_says_so_and_profiles_from_scratch(latcast: Latcast, tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()

    found = latcast("device", "adapt", "--pool", tmp_path / "pool", "--budget", "0.5", "-o", tmp_path / "b.zip", "--json")

    assert found.json["unlike"] is True
    assert "profiled from scratch instead" in found.err
    assert {each["way"] for each in found.json["transfer"].values()} <= {"from scratch"}


@pytest.mark.slow
def test_a_known_runtime_is_transferred_to_another_number_of_threads(latcast: Latcast, bundle: Path, tmp_path: Path) -> None:
    found = latcast(
        "device", "adapt", "--threads", "2", "--pool", bundle.parent, "--budget", "0.5", "-o", tmp_path / "b.zip", "--json"
    )

    document = found.json
    assert document["platform"].endswith("/cpu2/fp32")
    assert document["pool"] == ["local/onnxruntime-1.31/cpu1/fp32"]
    # Nothing is transferred where a predictor trained on the measurements alone, or the nearest one, is better.
    similar = [each["similar"] for each in document["transfer"].values() if each["similar"]]
    assert similar or document["held_out_errors"]
    assert {each[0]["platform"] for each in similar} <= {"local/onnxruntime-1.31/cpu1/fp32"}
    # As in the table of docs/adapt.md: most kernels are timed inside networks.
    assert document["learn_from"] == "operators"
    alone, inside = (int(found) for found in re.findall(r"(\d+) (?:kernels timed alone|timed inside)", document["trained_on"]))
    assert inside > alone > 0
    assert document["kernel_errors"]["conv"]["mape"] > 0


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
    # By their runs: latencies may have been normalised again since, by quieter readings.
    runs_kept, runs = ({(each.reference.key, each.runs_ms) for each in listed} for listed in (kept, everything))
    assert runs_kept <= runs
    later = {key for key, _ in runs - runs_kept}
    assert later
    # What the killed one had measured is not measured again.
    assert not later & {measurement.reference.key for measurement in kept if measurement.ok}
    document = json.loads(again.stdout)
    assert document["platform"] == kept[0].platform
    assert {each["way"] for each in document["transfer"].values()} <= {"from scratch"}
    assert document["kernel_errors"]["conv"]["mape"] > 0
    predictor = load_bundle(bundle)
    assert predictor.platform.id == kept[0].platform
    assert predictor.card["transfer"].keys() == document["transfer"].keys()
