"""Imported by a worker under test behind :mod:`tests.fusion.made_up_worker`: its runtime has no profiler."""

from __future__ import annotations

import sys

from latcast.errors import RuntimeFailure
from latcast.records import ExecutedKernel
from tests.fusion.made_up_worker import CountedSession


def refuse(session: CountedSession, runs: int = 10) -> tuple[ExecutedKernel, ...]:
    raise RuntimeFailure("madeup does not tell which kernels it executed")


if "pytest" not in sys.modules:
    CountedSession.executed_kernels = refuse  # type: ignore[method-assign]
