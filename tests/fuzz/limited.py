"""A process that reads model files under limits that are real: so much memory, so many seconds of the processor for each.

Run as a script it is the process: paths come in, one a line, and a verdict goes out for each.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TextIO

MEMORY_BYTES = 2 << 30
"""Of the address space, Python, numpy and the predictor included."""
CPU_S = 10.0
WAIT_S = 120.0
"""A file for which this passes without an answer is waited for no longer: it does not even keep the processor busy."""
PLATFORM = "pixel4/tflite-2.10/gpu/fp16"


class Verdict(NamedTuple):
    """``kind`` is "read", "refused" (by a LatcastError), "escaped" (by another exception) or "killed" (by a limit)."""

    kind: str
    text: str


class LimitedReader:
    """The process, started again after a file that ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> LimitedReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def read(self, path: Path) -> Verdict:
        """Reads a model file and predicts its latency."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], WAIT_S)
        line = process.stdout.readline() if ready else ""
        if not line:
            code = process.poll() if ready else None
            self._stop()
            return Verdict("killed", f"no answer (exit code {code}) to {path}")
        return Verdict(*json.loads(line))

    def _start(self) -> subprocess.Popen[str]:
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
            text=True,
        )
        return self._process

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None


def _judge(path: Path) -> Verdict:
    from latcast.errors import LatcastError
    from latcast.forecast import predict
    from latcast.graph.importers import load_graph

    try:
        latency_ms = predict(load_graph(path), PLATFORM).latency_ms
    except LatcastError as error:
        return Verdict("refused", str(error))
    except BaseException:
        return Verdict("escaped", traceback.format_exc())
    return Verdict("read", f"{latency_ms} ms")


def _serve(paths: TextIO, verdicts: TextIO) -> None:
    from latcast.platforms import load

    load(PLATFORM)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for line in paths:
        signal.setitimer(signal.ITIMER_PROF, CPU_S)  # its signal ends the process
        verdict = _judge(Path(line.rstrip("\n")))
        signal.setitimer(signal.ITIMER_PROF, 0)
        verdicts.write(json.dumps(verdict) + "\n")
        verdicts.flush()


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout, sys.stderr
    _serve(sys.stdin, answers)
