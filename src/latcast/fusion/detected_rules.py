"""Detected fusion rules of this machine's runtimes: detecting, keeping and finding them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from latcast.environment import cpu_description
from latcast.errors import LatcastError, MeasurementError, UnknownNameError
from latcast.extras import require
from latcast.folders import made, replacing, rules_folder
from latcast.fusion.decision import ALPHA
from latcast.fusion.detection import Detection, DetectionProgress, Detector
from latcast.fusion.quantities import LATENCY, TIMED_KERNELS
from latcast.fusion.score import Score, score
from latcast.fusion.stopwatch import WorkerStopwatch
from latcast.fusion.test_cases import ChainSetting, tested_operators
from latcast.kernels.rules import FusionRules, load_rules, platform_rules, rules_for
from latcast.measure.remote import open_measurer
from latcast.measure.settings import WorkerSettings
from latcast.measure.single import opened_platform
from latcast.measure.wires import runs_here
from latcast.records import Platform
from latcast.spaces.operator_pairs import WALL

DETECTED = "detected"
"""Name in commands of the rules that ``latcast device fusion detect`` left for a platform."""

SHIPPED = "shipped"


def rules_path(platform: Platform | str) -> Path:
    """Return the JSON file of the rules detected on a platform, named by the id with ``__`` for each slash."""
    return rules_folder() / f"{str(platform).replace('/', '__')}.json"


def save_detected_rules(rules: FusionRules, path: Path) -> Path:
    """Write rules as JSON, in one step, so that a reader never sees half a file."""
    made(path.parent)
    with replacing(path) as draft:
        draft.write_text(json.dumps(rules.to_json(), indent=1) + "\n", encoding="utf-8")
    return path


def detected_rules(platform: Platform | str) -> FusionRules:
    """Return the rules that were detected on a platform.

    Args:
        platform: A platform, its id, or the name of a runtime. Of a runtime, and where a platform has none of its own (another
            number of threads, another device name), the newest file of the same runtime, version, precision and instruction set
            counts.

    Raises:
        UnknownNameError: There are none; the message says how to detect them.
        BundleError: The file is not a rules file.
    """
    exact = rules_path(platform)
    if exact.is_file():
        return load_rules(exact)
    text = str(platform)
    wanted = Platform.parse(text) if "/" in text else None
    found = [path for path in rules_folder().glob("*.json") if _fits(path, text, wanted)]
    if not found:
        raise UnknownNameError(
            f"no fusion rules were detected for '{text}': found none in {rules_folder()}; "
            f"detect them with: latcast device fusion detect --runtime {wanted.runtime if wanted else text}"
        )
    return load_rules(max(found, key=lambda path: path.stat().st_mtime))


def _fits(path: Path, runtime: str, wanted: Platform | None) -> bool:
    """Return whether rules were detected on such a platform, or, where none is wanted, on this runtime without a cap."""
    try:
        found = Platform.parse(path.stem.replace("__", "/"))
    except LatcastError:
        return False
    # The qualifier of a unit is the highest instruction set that was used; empty where none was set.
    cap = found.unit.partition("+")[2]
    if wanted is None:
        return found.runtime == runtime and not cap
    same = (wanted.runtime, wanted.runtime_version, wanted.precision, wanted.unit.partition("+")[2])
    return (found.runtime, found.runtime_version, found.precision, cap) == same


def chosen_rules(source: FusionRules | str | None, of: Platform | WorkerSettings) -> FusionRules:
    """Return the rules that an option ``--rules`` names.

    Args:
        source: ``detected``, ``shipped``, the path of a rules file, or the name of shipped rules; None means ``shipped``. Rules
            stay as they are.
        of: The platform, or settings that lead to one.

    Raises:
        UnknownNameError: There are no such rules.
        BundleError: The file is not a rules file.
        RuntimeFailure: The runtime of the settings cannot be started.
    """
    if isinstance(source, FusionRules):
        return source
    if source is None or source == SHIPPED:
        if isinstance(of, Platform):
            return platform_rules(of)
        if of.unit_kind == "gpu":
            # Which kernels a GPU selects depends on the device, which may name itself.
            return platform_rules(opened_platform(of))
        flags = cpu_description()["flags"] if runs_here(of.address) else ""
        return rules_for(of.runtime, of.precision, of.unit_name, cpu_flags=flags)
    if source == DETECTED:
        return detected_rules(of if isinstance(of, Platform) else opened_platform(of))
    return load_rules(source)


ISA_VARIABLES = {"openvino": "ONEDNN_MAX_CPU_ISA"}
"""Runtime to the variable of its process that caps the instruction sets it uses; the others have none."""


def with_isa(settings: WorkerSettings, isa: str) -> WorkerSettings:
    """Return settings with a cap on the instruction sets, which qualifies the platform's unit (``cpu1+avx2``).

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
    qualifiers, variables = (*settings.qualifiers, isa.lower()), {**settings.variables, variable: isa.upper()}
    return replace(settings, qualifiers=qualifiers, variables=variables)


def detect_rules(
    settings: WorkerSettings,
    location: Path | str,
    *,
    isa: str = "",
    budget_s: float = 240.0,
    alpha: float = ALPHA,
    profiler: bool = True,
    check: bool = True,
    watch: Callable[[DetectionProgress], None] = lambda step: None,
) -> tuple[Detection, Score | None]:
    """Detect the rules of a runtime on this machine; run again, it goes on with undecided pairs.

    No probe runs between the networks: the state of the host is common to a batch and divided out.

    Args:
        settings: Runtime, threads, precision, CPUs.
        location: The store of timings, which is made where there is none.
        isa: Highest instruction set to use; empty sets none.
        budget_s: Seconds of timing.
        alpha: Part of the shorter operator's time that a fusion must save.
        profiler: Decide by the kernels that take time in the runtime's profiler, where it has one; else by latencies.
        check: Score the answers by the kernels that the runtime says it executed.
        watch: Told at every step.

    Raises:
        MeasurementError: The runtime has no switch for instruction sets, or operators cannot be distinguished in the noise.
        MissingExtraError: A package of the extra ``local`` is not installed.
        RuntimeFailure: The runtime cannot be started.
    """
    require("detecting fusion rules", "scipy", "sqlalchemy")
    from latcast.datasets.store import Store

    unprobed = replace(with_isa(settings, isa), probe=False)
    with Store(location) as store, open_measurer(unprobed, store) as client:
        stored = list(store.measurements(platform=client.platform.id))
        stopwatch = WorkerStopwatch(client, store, stored, TIMED_KERNELS)
        if not profiler or stopwatch.executed([ChainSetting().network(WALL)]).failures:
            stopwatch = WorkerStopwatch(client, store, stored, LATENCY)
        found = Detector(stopwatch, budget_s=budget_s, operators=tested_operators(), alpha=alpha, watch=watch).run()
        judged = None
        if check:
            judged = score(found, stopwatch, lambda share: watch(DetectionProgress("asking what was executed", share)))
        return found, judged
