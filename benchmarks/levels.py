"""How far processes that measured the same networks lie apart: what is left of the host's state in latencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from benchmarks.campaigns import Bench
from benchmarks.result_files import kept_parts
from benchmarks.tables import markdown_table
from latcast.errors import MeasurementError
from latcast.measure.environment import MOMENT
from latcast.records import Measurement


def deviation_between_processes(latency_ms: np.ndarray) -> tuple[float, float]:
    """Standard deviations of latencies, (processes, networks), between processes, in percent.

    Returns:
        That of a network (root of the mean variance over networks), and that of a process's level, its mean over networks.
    """
    logs = np.log(latency_ms)
    centred = logs - logs.mean(axis=0)
    of_network = np.sqrt(centred.var(axis=0, ddof=1).mean())
    return float(100 * of_network), float(100 * centred.mean(axis=1).std(ddof=1))


def judge_levels(bench: Bench) -> dict[str, Any]:
    """What the processes that took a bench's labels differ by, as they ran and as the probe corrects them.

    Raises:
        MeasurementError: Fewer than two processes measured the same networks.
    """
    with bench.store("labels") as store:
        rows = _by_process([each for each in store.measurements() if each.ok and each.role == "network"])
    names = sorted(set.intersection(*(set(found) for found in rows.values()))) if rows else []
    if len(rows) < 2 or not names:
        raise MeasurementError(f"found {len(rows)} processes in {bench.folder}; expected two that measured the same networks")
    taken = [datetime.fromisoformat(each.taken_at) for found in rows.values() for each in found.values()]
    figures = {}
    for what, latency_of in (("raw", _raw_ms), ("corrected", lambda each: each.latency_ms)):
        latency_ms = np.array([[latency_of(found[name]) for name in names] for found in rows.values()])
        figures[what] = dict(zip(("network", "level"), deviation_between_processes(latency_ms), strict=True))
    return {
        "platform": bench.platform().id, "processes": len(rows), "networks": len(names),
        "hours": (max(taken) - min(taken)).total_seconds() / 3600, **figures,
    }  # fmt: skip


def _raw_ms(measurement: Measurement) -> float:
    return float(np.median(measurement.runs_ms))


def _by_process(measurements: Sequence[Measurement]) -> Mapping[str, Mapping[str, Measurement]]:
    """Measurements of each process that measured as many networks as any, by network."""
    found: dict[str, dict[str, Measurement]] = defaultdict(dict)
    for each in measurements:
        found[str(each.environment.get(MOMENT, {}).get("worker"))][each.reference.name or each.reference.key] = each
    most = max(map(len, found.values()), default=0)
    return {worker: networks for worker, networks in found.items() if len(networks) > most / 2}


def levels_table() -> str:
    """A line for each platform."""
    head = ["platform", "networks", "processes", "hours from the first to the last", "sd of a network, as it ran %",
            "corrected %", "sd of a process's level, as it ran %", "corrected %"]  # fmt: skip
    rows = [
        [each["platform"], str(each["networks"]), str(each["processes"]), f"{each['hours']:.1f}",
         *(f"{each[what][which]:.1f}" for which in ("network", "level") for what in ("raw", "corrected"))]
        for each in kept_parts("levels").values()
    ]  # fmt: skip
    return markdown_table(head, rows)
