"""Threads and fusion measured on the machine at hand with ONNX Runtime: Figs. 3, 6 and 7, on another kind of processor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import numpy as np

from latcast.graph.writers.onnx import to_onnx
from latcast.predictors.profiling import Stage
from latcast.records import Reference
from latcast.reproduce.comparison import Cell, Comparison
from latcast.reproduce.peva.cores import geometric_mean
from latcast.spaces.catalogue import build, model

NETWORKS = ("squeezenet1_1", "mobilenet_v2", "mnasnet1_0", "ghostnet_x1_0", "regnet_x_400mf", "resnet18")

RUNS, WARMUPS = 30, 3

LEVELS = {"fused": "ORT_ENABLE_ALL", "not fused": "ORT_DISABLE_ALL"}


def analyse_live(
    networks: Sequence[Reference] | None = None, *, runs: int = RUNS, watch: Callable[[Stage], None] = lambda stage: None
) -> list[Comparison]:
    """Latency and number of kernels with and without fusion, and on several threads.

    Each pair is timed run by run in turns, so that both see the same state of the machine.

    Args:
        networks: Those of :data:`NETWORKS` where None.
        runs: Timed runs of each.
        watch: Called as work goes on.
    """
    references = [model(name) for name in NETWORKS] if networks is None else list(networks)
    threads = min(os.cpu_count() or 1, 4)
    fusion: list[tuple[Cell, ...]] = []
    several: list[tuple[Cell, ...]] = []
    for place, reference in enumerate(references):
        watch(Stage(f"timing {reference.name}", place / len(references)))
        contents = to_onnx(build(reference))
        fused, plain = (_Timed(contents, 1, level) for level in LEVELS.values())
        with_ms, without_ms = _in_turns((fused, plain), runs)
        kernels, nodes = fused.kernels(), plain.kernels()
        fusion.append((reference.name, nodes, kernels, 100 * (1 - kernels / nodes), without_ms, with_ms, without_ms / with_ms))
        if threads > 1:
            one_ms, many_ms = _in_turns((fused, _Timed(contents, threads, LEVELS["fused"])), runs)
            several.append((reference.name, threads, one_ms, many_ms, one_ms / many_ms, 100 * one_ms / many_ms / threads))
    mean = geometric_mean(np.array([row[-1] for row in fusion], dtype=float))
    return [
        Comparison(
            "figure 6 live", "Fusion in ONNX Runtime on this machine, one thread",
            ("network", "kernels not fused", "kernels fused", "fewer %", "not fused ms", "fused ms", "speedup"), tuple(fusion),
            (f"speedup {mean:.2f} on average; fusion is switched off together with all else that the runtime does to the graph, "
             "such as changing the layout of channels",),
        ),
        Comparison(
            "figure 3 live", "Several threads of ONNX Runtime on this machine",
            ("network", "threads", "one ms", "several ms", "speedup", "of ideal %"), tuple(several),
            ("whole networks; on a machine that does other work too, several threads lose most",) if several else
            ("not run: this machine has one core",),
        ),
    ]  # fmt: skip


class _Timed:
    """A network at an optimisation level, with random inputs."""

    def __init__(self, contents: bytes, threads: int, level: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        self._level = level
        self._contents = contents
        self._session = onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(0)
        self._inputs = {value.name: rng.standard_normal(value.shape, dtype=np.float32) for value in self._session.get_inputs()}

    def run_ms(self) -> float:
        start = time.perf_counter()
        self._session.run(None, self._inputs)
        return 1e3 * (time.perf_counter() - start)

    def kernels(self) -> int:
        """Nodes of the model as the runtime runs it."""
        import tempfile
        from pathlib import Path

        import onnx
        import onnxruntime

        with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, self._level)
            options.optimized_model_filepath = str(Path(folder, "optimised.onnx"))
            onnxruntime.InferenceSession(self._contents, options, providers=["CPUExecutionProvider"])
            return len(onnx.load(options.optimized_model_filepath, load_external_data=False).graph.node)


def _in_turns(pair: tuple[_Timed, _Timed], runs: int) -> tuple[float, float]:
    """Median latencies in milliseconds."""
    for _ in range(WARMUPS):
        for each in pair:
            each.run_ms()
    times = np.array([[each.run_ms() for each in pair] for _ in range(runs)])
    first, second = np.median(times, axis=0)
    return float(first), float(second)
