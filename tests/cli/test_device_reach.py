"""``latcast device prepare`` and ``--device``: a device behind a real sshd, prepared, measured on and asked."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from latcast.errors import RuntimeFailure
from latcast.measure.messages import code_id
from latcast.measure.prepare import prepare
from tests.cli.conftest import Latcast
from tests.measure.sshing import board as started_board

LIBRARIES = sysconfig.get_paths()["purelib"]
"""What the account sees of this machine's packages: what latcast needs, so that nothing is fetched, and not latcast itself."""

QUICK = ("--rounds", "1", "--runs-per-round", "1", "--warmup-runs", "0")


@pytest.mark.slow
def test_a_device_is_prepared_then_measured_on(latcast: Latcast, home: Path) -> None:
    with started_board([LIBRARIES]) as board:
        before = latcast("measure", "squeezenet1_1", "--device", board.address)
        assert before.reason.endswith(f"has no latcast; put it there with: latcast device prepare {board.address}")

        made = latcast("device", "prepare", board.address, "--json")

        assert made.code == 0, made.err
        found = made.json
        assert found["latcast"] == code_id()
        assert set(found["runtimes"]) == {"onnxruntime"}
        assert found["carried_bytes"] < 10_000_000
        assert list(board.home.glob(".local/share/latcast/device/lib/python3*/site-packages/latcast/__init__.py"))
        measured = latcast("measure", "squeezenet1_1", "--device", f"board-a={board.address}", *QUICK, "--json")
        assert measured.code == 0, measured.err
        [record] = measured.json["measurements"]
        assert record["platform"].startswith("board-a/onnxruntime-")
        assert record["latency_ms"] > 0

        (home / "pool").mkdir()
        adapted = latcast(
            "device", "adapt", "--device", f"board-a={board.address}", "--pool", home / "pool", "--budget", "0.3",
            "-o", home / "adapted.zip", "--json",
        )  # fmt: skip
        assert adapted.code == 0, adapted.err
        assert adapted.json["platform"].startswith("board-a/onnxruntime-")
        assert adapted.json["learn_from"] == "operators"

        with pytest.raises(RuntimeFailure, match=r"has no Python at /nowhere/python"):
            prepare(board.address, python="/nowhere/python")


@pytest.mark.parametrize(
    ("command", "device", "reason"),
    [
        (("measure", "resnet18"), "http://board", "nothing reaches 'http://board'"),
        (("profile",), "My Board", "'My Board' is neither a device's name"),
        (("demo",), "ssh://pi:secret@board", "an address holds no password"),
        (("device", "adapt"), "ssh://nowhere.invalid", "no host is called 'nowhere.invalid'"),
        (("device", "fusion", "detect"), "My Board", "'My Board' is neither a device's name"),
    ],
)
def test_a_device_that_cannot_be_reached_is_one_line(
    latcast: Latcast, home: Path, command: tuple[str, ...], device: str, reason: str
) -> None:
    found = latcast(*command, "--device", device)
    assert (found.code, found.out) == (1, "")
    assert reason in found.err.splitlines()[-1]
