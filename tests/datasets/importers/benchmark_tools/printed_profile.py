"""The output of ``benchmark_model --enable_op_profiling=true``, made from what LiteRT's own profiler records here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from latcast.graph.ir import Graph
from latcast.graph.writers.tflite import TfliteModel, write_tflite
from latcast.runtimes.litert_native import NativeModel, ProfiledEvent

COLUMNS = ("first", "avg ms", "%", "cdf%", "mem KB", "times called")

WARM_UPS, RUNS = 2, 5


@dataclass
class Row:
    """A line of the table: all calls of what has one name."""

    kind: str
    name: str
    elapsed_us: list[float] = field(default_factory=list)


def profiled(graph: Graph, precision: str = "fp32") -> str:
    """The tool's output for a network that runs here."""
    network = write_tflite(graph, precision=precision)
    native = NativeModel(network.data, threads=1)
    try:
        for _ in range(WARM_UPS):
            native.run()
        recorded = [native.profiled_run() for _ in range(RUNS)]
    finally:
        native.close()
    return printed(network.model, recorded)


def printed(model: TfliteModel, recorded: Sequence[Sequence[ProfiledEvent]], network: str = "network") -> str:
    """The tool's output for some runs."""
    rows: dict[str, Row] = {}
    for events in recorded:
        for event in events:
            name = f"Delegate/{event.tag}:{event.index}"
            if not event.delegated:
                outputs = ", ".join(model.tensors[index].name for index in model.operators[event.index].outputs)
                name = f"[{outputs}]:{event.index}"
            # XNNPACK truncates to whole microseconds.
            rows.setdefault(name, Row(event.tag, name)).elapsed_us.append(event.elapsed_us + 0.5)
    total_us = sum(sum(row.elapsed_us) for row in rows.values()) / len(recorded)
    return document([table_row(row, len(recorded)) for row in rows.values()], total_us, network)


def table_row(row: Row, runs: int) -> str:
    mean_ms = sum(row.elapsed_us) / len(row.elapsed_us) / 1e3
    numbers = (
        f"{row.elapsed_us[0] / 1e3:17.3f}{mean_ms:16.3f}{1.0:14.3f}%{1.0:14.3f}%{0.0:18.3f}{len(row.elapsed_us) // runs:17d}"
    )
    return f"{row.kind:>48}{numbers}\t{row.name}"


def document(rows: Sequence[str], total_us: float, network: str = "network") -> str:
    header = f"{'[node type]':>48}" + "".join(f"{f'[{name}]':>17}" for name in COLUMNS) + "\t[Name]"
    figures = f"first={total_us:.0f} curr={total_us:.0f} min={total_us:.0f} max={total_us:.0f} avg={total_us:.1f} std=3"
    summary = f"Init: 21714, First inference: 27131, Warmup (avg): 24108, Inference (avg): {total_us:.1f}"
    return "\n".join(
        [
            "INFO: STARTING!",
            "INFO: Num threads: [1]",
            f"INFO: Graph: [/data/local/tmp/{network}.tflite]",
            "INFO: Enable op profiling: [1]",
            f"INFO: count=5 {figures}",
            "",
            f"INFO: count=50 {figures}",
            "",
            f"INFO: Inference timings in us: {summary}",
            "INFO: Operator-wise Profiling Info for Regular Benchmark Runs:",
            "============================== Run Order ==============================",
            header,
            *rows,
            "",
            "============================== Top by Computation Time ==============================",
            "",
        ]
    )
