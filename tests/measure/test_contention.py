"""Programs that a network is timed beside."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from latcast.measure.scheduling import default_cpus
from latcast.measure.settings import WorkerSettings
from latcast.measure.single import measure_beside
from latcast.runtimes import get_runtime

HELD = """
import time
from latcast.measure.conditions import _stopped
with _stopped("compute") as number:
    print(number, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_program_ends_with_a_measurement_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HELD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        program = Path("/proc", process.stdout.readline().strip())
        assert program.exists()
        process.kill()

    deadline = time.monotonic() + 10
    while program.exists() and "Z" not in (program / "stat").read_text().split(")")[1][:3] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not program.exists() or "Z" in (program / "stat").read_text().split(")")[1][:3]


@pytest.mark.skipif(sys.platform != "linux", reason="programs are pinned by Linux alone")
def test_other_work_on_the_core_does_not_enter_a_factor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    if (reason := get_runtime("onnxruntime").available()) is not None:
        pytest.skip(reason)
    pinned = f"import os\nos.sched_setaffinity(0, ({default_cpus(1)[0]},))\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", pinned]) as other:
        try:
            _, factors = measure_beside("squeezenet1_1", WorkerSettings(), "compute:same")
        finally:
            other.kill()

    # By the clock on the wall it takes 3 times as long, as three share the core.
    assert 1.8 < factors["compute:same"] < 2.5
