"""Threads and fusion measured on the machine at hand with ONNX Runtime: Figs. 3, 6 and 7, on another kind of processor."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from latcast.environment import affinity
from latcast.graph.writers.onnx import to_onnx
from latcast.records import Reference
from latcast.spaces.catalogue import build, model
from latcast.training.profiling import Stage
from papers.harness import Cell, PaperTable, Watch, unwatched
from papers.peva.analysis import geometric_mean

NETWORKS = ("squeezenet1_1", "mobilenet_v2", "mnasnet1_0", "ghostnet_x1_0", "regnet_x_400mf", "resnet18")

RUNS, WARMUPS = 30, 3

FUSED, NOT_FUSED = "ORT_ENABLE_EXTENDED", "ORT_DISABLE_ALL"
"""The level that fuses but leaves the layout of channels alone, and the one that does neither."""

ELEMENTWISE = "element-wise"

OPERATION_OF_TYPE: Mapping[str, str] = {
    "Gemm": "fully connected", "FusedGemm": "fully connected", "MatMul": "fully connected", "FusedMatMul": "fully connected",
    "MaxPool": "pooling", "AveragePool": "pooling", "GlobalAveragePool": "mean", "ReduceMean": "mean", "Concat": "concat",
    "Split": "data movement", "Slice": "data movement", "Reshape": "data movement", "Transpose": "data movement",
    "Flatten": "data movement", "Shape": "data movement", "Gather": "data movement", "Unsqueeze": "data movement",
    "Squeeze": "data movement", "Constant": "data movement",
}  # fmt: skip
"""Operator of ONNX Runtime, but for convolutions, to the operation of the paper; all else is element-wise."""


def operation_of(event: Mapping[str, Any]) -> str:
    """Return the operation of a profiler's event; convolutions differ by the shape of their weights."""
    name = str(event["args"]["op_name"])
    if not name.endswith("Conv"):
        return OPERATION_OF_TYPE.get(name, ELEMENTWISE)
    shapes = [next(iter(each.values())) for each in event["args"]["input_type_shape"]]
    channels, per_group = int(shapes[0][1]), int(shapes[1][1])
    if per_group == channels:
        return "convolution"
    return "depthwise convolution" if per_group == 1 else "grouped convolution"


def latency_ms_by_operation(events: Iterable[Mapping[str, Any]], runs: int) -> dict[str, float]:
    """Milliseconds of one run by operation, from a profile of several runs."""
    found: dict[str, float] = {}
    for event in events:
        if event.get("cat") == "Node" and str(event["name"]).endswith("_kernel_time"):
            operation = operation_of(event)
            found[operation] = found.get(operation, 0.0) + float(event["dur"]) / 1e3 / runs
    return found


def analyse_live(
    networks: Sequence[Reference] | None = None,
    *,
    runs: int = RUNS,
    threads: int | None = None,
    watch: Watch = unwatched,
) -> list[PaperTable]:
    """Return latency and number of kernels with and without fusion, and on several threads; whole networks and by operation.

    Each pair is timed run by run in turns, so that both see the same state of the machine.

    Args:
        networks: Those of :data:`NETWORKS` where None.
        threads: The several threads; as many as this process may use CPUs, at most 4, where None.
    """
    references = [model(name) for name in NETWORKS] if networks is None else list(networks)
    threads = threads or min(len(affinity()) or 1, 4)
    fusion: list[tuple[Cell, ...]] = []
    several: list[tuple[Cell, ...]] = []
    plain_ms: dict[str, float] = {}
    fused_ms: dict[str, float] = {}
    many_ms: dict[str, float] = {}
    for place, reference in enumerate(references):
        watch(Stage(f"timing {reference.name}", place / len(references)))
        contents = to_onnx(build(reference))
        plain, fused = (_Timed(contents, 1, level) for level in (NOT_FUSED, FUSED))
        without, with_it = _in_turns((plain, fused), runs)
        nodes, kernels = plain.kernels(), fused.kernels()
        fusion.append((reference.name, nodes, kernels, 100 * (1 - kernels / nodes), without, with_it, without / with_it))
        _add(plain_ms, plain.by_operation_ms(runs))
        _add(fused_ms, fused.by_operation_ms(runs))
        if threads > 1:
            parallel = _Timed(contents, threads, FUSED)
            one, many = _in_turns((fused, parallel), runs)
            several.append((reference.name, threads, one, many, one / many, 100 * one / many / threads))
            _add(many_ms, parallel.by_operation_ms(runs))
    mean = geometric_mean(np.array([row[-1] for row in fusion], dtype=float))
    one_core = "not run: this process may use one core only"
    return [
        PaperTable(
            "figure 6 live", "Fusion in ONNX Runtime on this machine, one thread",
            ("network", "kernels not fused", "kernels fused", "fewer %", "not fused ms", "fused ms", "speedup"), tuple(fusion),
            (f"speedup {mean:.2f} on average; fused is the extended level of optimisation, which does not change the layout of "
             "channels, and not fused none at all",),
        ),
        PaperTable(
            "figure 7 live", "Fusion in ONNX Runtime on this machine by operation",
            ("operation", "not fused ms", "fused ms", "difference ms", "speedup"), _by_operation(plain_ms, fused_ms),
            ("all networks together, as the runtime's profiler reads them; what is fused into an operation counts to it",),
        ),
        PaperTable(
            "figure 3 live", "Several threads of ONNX Runtime on this machine",
            ("network", "threads", "one ms", "several ms", "speedup", "of ideal %"), tuple(several),
            ("on a machine that does other work too, several threads lose most",) if several else (one_core,),
        ),
        PaperTable(
            "figure 3 live operations", f"{threads} threads of ONNX Runtime on this machine by operation",
            ("operation", "one ms", "several ms", "difference ms", "speedup"),
            _by_operation(fused_ms, many_ms) if several else (), () if several else (one_core,),
        ),
    ]  # fmt: skip


def _add(sums: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0.0) + value


def _by_operation(before_ms: Mapping[str, float], after_ms: Mapping[str, float]) -> tuple[tuple[Cell, ...], ...]:
    """Return rows, the longest first; operators that are gone afterwards have no speedup."""
    rows = []
    for name in sorted(before_ms.keys() | after_ms.keys(), key=lambda name: -before_ms.get(name, 0.0)):
        before, after = before_ms.get(name, 0.0), after_ms.get(name, 0.0)
        rows.append((name, before, after, after - before, before / after if before and after else None))
    return tuple(rows)


class _Timed:
    """A network at an optimisation level, with random inputs."""

    def __init__(self, contents: bytes, threads: int, level: str) -> None:
        self._contents = contents
        self._threads = threads
        self._level = level
        self._session = self._new_session({})
        rng = np.random.default_rng(0)
        self._inputs = {value.name: rng.standard_normal(value.shape, dtype=np.float32) for value in self._session.get_inputs()}

    def _new_session(self, entries: Mapping[str, Any]) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, self._level)
        for name, value in entries.items():
            setattr(options, name, value)
        return onnxruntime.InferenceSession(self._contents, options, providers=["CPUExecutionProvider"])

    def run_ms(self) -> float:
        start = time.perf_counter()
        self._session.run(None, self._inputs)
        return 1e3 * (time.perf_counter() - start)

    def kernels(self) -> int:
        """Nodes of the model as the runtime runs it."""
        import onnx

        with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
            path = str(Path(folder, "optimised.onnx"))
            self._new_session({"optimized_model_filepath": path})
            return len(onnx.load(path, load_external_data=False).graph.node)

    def by_operation_ms(self, runs: int) -> dict[str, float]:
        """Milliseconds of one run by operation, in a session of its own."""
        with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
            session = self._new_session({"enable_profiling": True, "profile_file_prefix": str(Path(folder, "profile"))})
            for _ in range(runs):
                session.run(None, self._inputs)
            events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        return latency_ms_by_operation(events, runs)


def _in_turns(pair: tuple[_Timed, _Timed], runs: int) -> tuple[float, float]:
    """Return median latencies in milliseconds."""
    for _ in range(WARMUPS):
        for each in pair:
            each.run_ms()
    times = np.array([[each.run_ms() for each in pair] for _ in range(runs)])
    first, second = np.median(times, axis=0)
    return float(first), float(second)
