"""Detection on a runtime of this machine, with a store and a score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from latcast.errors import MeasurementError
from latcast.fusion.decision import ALPHA
from latcast.fusion.detection import Detection, Detector, Step
from latcast.fusion.operators_under_test import OPERATORS
from latcast.fusion.score import Score, score
from latcast.fusion.stopwatch import TIMING_PLAN, WorkerStopwatch
from latcast.measure.client import MeasuringClient
from latcast.measure.settings import WorkerSettings

ISA_VARIABLES = {"openvino": "ONEDNN_MAX_CPU_ISA"}
"""Runtime to the variable of its process that caps the instruction sets it uses; the others have none."""


def with_isa(settings: WorkerSettings, isa: str) -> WorkerSettings:
    """Settings with a cap on the instruction sets, which qualifies the platform's unit (``cpu1+avx2``).

    Raises:
        MeasurementError: The runtime has no such switch.
    """
    if not isa:
        return settings
    variable = ISA_VARIABLES.get(settings.runtime)
    if variable is None:
        raise MeasurementError(
            f"{settings.runtime} has no switch that caps its instruction sets; only {', '.join(ISA_VARIABLES)} has: "
            "leave --isa out"
        )
    return replace(
        settings,
        qualifiers=(*settings.qualifiers, isa.lower()),
        variables={**settings.variables, variable: isa.upper()},
    )


def detect_rules(
    settings: WorkerSettings,
    location: Path | str,
    *,
    isa: str = "",
    budget_s: float = 240.0,
    alpha: float = ALPHA,
    check: bool = True,
    watch: Callable[[Step], None] = lambda step: None,
) -> tuple[Detection, Score | None]:
    """Detects the rules of a runtime on this machine; run again, it goes on with what is undecided.

    No probe runs between the networks: what the host does to one it does to all of a batch, and that is divided out.

    Args:
        settings: Runtime, threads, precision, CPUs.
        location: The store of timings, which is made where there is none.
        isa: Highest instruction set to use; empty sets none.
        budget_s: Seconds of timing.
        alpha: Part of the shorter operator's time that a fusion must save.
        check: Score the answers by the kernels that the runtime says it executed.
        watch: Told at every step.

    Raises:
        MeasurementError: The runtime has no switch for instruction sets, or nothing can be told apart in the noise.
        RuntimeFailure: The runtime cannot be started.
    """
    from latcast.datasets.store import Store

    unprobed = replace(with_isa(settings, isa), probe=False)
    with Store(location) as store, MeasuringClient(unprobed, store) as client:
        stored = store.measurements(platform=client.platform.id)
        stopwatch = WorkerStopwatch(client, store, stored, TIMING_PLAN)
        found = Detector(stopwatch, budget_s=budget_s, operators=OPERATORS, alpha=alpha, watch=watch).run()
        judged = None
        if check:
            judged = score(found, stopwatch, lambda share: watch(Step("asking what was executed", share)))
        return found, judged
