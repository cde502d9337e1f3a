"""Programs that a network is timed beside."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

HELD = """
import time
from latcast.measure.contention import _stopped
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
