"""How many architectures of a search space are estimated a second, from their encodings.

Rates by CPU time are those of a quiet core; by the clock, of this machine as it is.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Mapping

import numpy as np

from benchmarks.result_files import keep, kept_parts
from latcast.kernels.rules import load_rules, shipped_rules
from latcast.kernels.selection import NEED_A_FAMILY
from latcast.predictors.bundle_index import SHIPPED_FOLDER
from latcast.predictors.forecast import load
from latcast.search.encodings import EncodingPredictor
from latcast.spaces.kernel_table_files import is_current
from latcast.spaces.nas.member_kernels import SHIPPED_TABLES, SMALL_SPACE, make_table, shipped_name, table_bytes
from latcast.spaces.nas.segment_kernels import SegmentKernels
from latcast.spaces.nas.supernet import SUPERNETS

NETWORKS = 100_000
FIRST = 5_000
"""Networks of the first batch, as many as LitePred searches (§6.4)."""

SINGLY = 20
MILLION = 1_000_000

TARGETS = {"cached": 100_000.0, "uncached": 3_000.0}


def measure_space(platform: str, space: str) -> dict[str, float]:
    """Rates of one space, by name; both kinds of time."""
    encoded = EncodingPredictor(load(platform), space)
    encodings = encoded.supernet.sample_encodings(NETWORKS, 1)
    found: dict[str, float] = {}

    def rate(name: str, rows: np.ndarray) -> np.ndarray:
        cpu, clock = time.process_time(), time.perf_counter()
        latency_ms = encoded.latencies_ms(rows)
        found[f"{name}, by CPU time"] = len(rows) / (time.process_time() - cpu)
        found[f"{name}, by the clock"] = len(rows) / (time.perf_counter() - clock)
        return latency_ms

    rate(f"first {FIRST}", encodings[:FIRST])
    encoded = EncodingPredictor(encoded.predictor, space)
    rate("uncached", encodings)
    latency_ms = rate("cached", encodings)
    graphs = [encoded.supernet.build(**encoded.supernet.decode(row)) for row in encodings[:SINGLY]]
    singly = np.array([encoded.predictor.predict(graph, breakdown=False).latency_ms for graph in graphs])
    found["largest relative difference from one at a time"] = float(np.abs(latency_ms[:SINGLY] / singly - 1).max())
    found["distinct segments"] = encoded.kernels.segments
    return found


def million_memory_mib(platform: str, space: str) -> float:
    """Peak memory of a process of its own that estimates a million encodings, in MiB."""
    command = [sys.executable, "-m", "benchmarks.encodings", platform, space]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_encodings(platform: str, spaces: tuple[str, ...] = ()) -> dict[str, dict[str, float]]:
    """Measure and keep the given spaces, or every one; return all that are kept."""
    for space in spaces or tuple(SUPERNETS.names()):
        keep(f"encodings/{space}", {**measure_space(platform, space), "MiB for a million": million_memory_mib(platform, space)})
    return kept_parts("encodings")


def ship_tables() -> list[str]:
    """Writes the tables of small spaces for all shipped rules and the rules of all shipped platforms.

    Those there are kept, unless kernel types have other fields by now.
    """
    rules = {name: each for name in sorted(shipped_rules()) if (each := load_rules(name)).selection not in NEED_A_FAMILY}
    for path in sorted(SHIPPED_FOLDER.glob("*.zip")):
        rules[path.name] = load(path).rules
    written = []
    for space in SUPERNETS.names():
        supernet = SUPERNETS.get(space)
        if supernet.size > SMALL_SPACE:
            continue
        needed = {shipped_name(supernet, each): each for each in rules.values()}
        for path in SHIPPED_TABLES.glob(f"{space}-*.npz"):
            if path.name not in needed:
                path.unlink()
        for name, each in needed.items():
            path = SHIPPED_TABLES / name
            if not is_current(path):
                SHIPPED_TABLES.mkdir(exist_ok=True)
                path.write_bytes(table_bytes(make_table(SegmentKernels(supernet, each))))
                written.append(name)
    return written


def encodings_table(found: Mapping[str, Mapping[str, float]]) -> str:
    """Markdown: a line a space."""
    columns = list(dict.fromkeys(name for each in found.values() for name in each))
    lines = ["| space | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for space, each in found.items():
        cells = []
        for name in columns:
            kind, _, time_kind = name.partition(", ")
            missed = time_kind == "by CPU time" and each[name] < TARGETS.get(kind, 0.0)
            cells.append(f"{each[name]:.3g}{' (missed)' if missed else ''}")
        lines.append(f"| {space} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    predictor = EncodingPredictor(load(sys.argv[1]), sys.argv[2])
    predictor.predict_many(predictor.supernet.sample_encodings(MILLION, 2))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
