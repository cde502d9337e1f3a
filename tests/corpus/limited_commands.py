"""Commands run with real limits of processor time and memory, one process each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS, MEMORY_BYTES = 10, 2 << 30

_RUNNER = f"""
import json, os, resource, sys, tempfile
import latcast.cli.main as main
outcomes = []
for command in json.load(sys.stdin):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS + 1}))
            resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code = 99
            try:
                code = main.run(command)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
        outcomes.append([os.waitstatus_to_exitcode(status), *texts])
json.dump(outcomes, sys.__stdout__)
"""


@dataclass(frozen=True)
class Outcome:
    """What a command did; the code is negative where a signal ended it (-24: out of processor time)."""

    code: int
    out: str
    err: str

    def is_read_or_refused(self) -> bool:
        """Whether the command did its work, or said in one printable line of at most 500 characters why not."""
        lines = self.err.splitlines()
        said = all(line.startswith("latcast: ") and len(line) <= 500 and line.isprintable() for line in lines)
        known = "unexpected" not in self.err and all(line.isprintable() for line in self.out.split("\n"))
        return said and known and (self.code == 0 or (self.code == 1 and len(lines) >= 1))


def run_limited(commands: Sequence[Sequence[str]], home: Path) -> list[Outcome]:
    """Runs latcast's commands, each in a process that may take 10 s of processor time and 2 GiB of address space."""
    environment = {**os.environ, "LATCAST_HOME": str(home), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("LATCAST_DEBUG", None)
    found = subprocess.run(
        [sys.executable, "-c", _RUNNER], input=json.dumps(commands), env=environment, capture_output=True, text=True, check=True
    )
    return [Outcome(*each) for each in json.loads(found.stdout)]
