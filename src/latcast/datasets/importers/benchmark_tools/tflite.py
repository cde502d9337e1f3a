"""TFLite's ``benchmark_model``, with and without ``--enable_op_profiling=true``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from latcast.datasets.importers.benchmark_tools.output import Line, Section, Timing, positive
from latcast.datasets.importers.benchmark_tools.tflite_profile import read_profile

_GRAPH = re.compile(r"Graph: \[(.*)\]")
_THREADS = re.compile(r"(?:Num threads|#threads used for CPU inference): \[(-?\d+)\]")
_GPU = re.compile(r"Use gpu: \[(\d)\]")
_GPU_FLOAT16 = re.compile(r"Allow lower precision in gpu: \[(\d)\]")
_RUNS = re.compile(r"count=(\d+)\b.*\bavg=(\S+)|count=(\d+) curr=(\S+)$")
_FIGURE = re.compile(r"(first|curr|min|max|avg|std|p5|median|p95)=(\S+)")
_SUMMARY = re.compile(r"(?:Inference|Average inference) timings in us: .*(?:Inference \(avg\)|no stats): (\S+)")

US = 1e-3


class TfliteReader:
    """Reads one run. The tool prints microseconds: runs to warm up first, then the timed ones, then a summary."""

    name = "TFLite's benchmark_model"
    runtimes: Sequence[str] = ("tflite", "litert")
    endings: Sequence[str] = (".tflite",)

    def begins(self, text: str) -> bool:
        return _bare(text) == "STARTING!"

    def read(self, section: Section) -> list[Timing]:
        """See :class:`~latcast.datasets.importers.benchmark_tools.output.ToolReader`."""
        graph, threads, gpu, float16 = None, None, None, True
        counts: list[tuple[Line, re.Match[str]]] = []
        summary: Line | None = None
        for line in section.lines:
            text = _bare(line.text)
            if summary is None:
                if found := _GRAPH.fullmatch(text):
                    graph = found[1]
                elif found := _THREADS.fullmatch(text):
                    threads = int(found[1]) if int(found[1]) > 0 else threads
                elif found := _GPU.fullmatch(text):
                    gpu = found[1] == "1"
                elif found := _GPU_FLOAT16.fullmatch(text):
                    float16 = found[1] == "1"
                elif found := _RUNS.match(text):
                    counts.append((line, found))
                elif found := _SUMMARY.match(text):
                    summary = line
                    positive(section, line, "the average inference", found[1].rstrip(","))
        if summary is None:
            raise section.refused("the output of benchmark_model ends before its summary 'Inference timings in us'; run it again")
        if len(counts) < 2:
            raise section.refused("expected two lines 'count=', of the runs to warm up and of the timed ones", summary)
        (_, warm_up), (line, timed) = counts[-2:]
        figures: dict[str, str] = dict(_FIGURE.findall(_bare(line.text)))
        average = figures.get("avg", figures.get("curr", ""))
        latency_ms = positive(section, line, "the average", average, scale=US)
        median = figures.get("median")
        return [
            Timing(
                network=graph,
                line=line,
                latency_ms=latency_ms if median is None else positive(section, line, "the median", median, scale=US),
                statistic="mean of the timed runs" if median is None else "median of the timed runs",
                runs=_count(timed),
                warmup_runs=_count(warm_up),
                figures_ms={
                    name: positive(section, line, name, figures[printed], scale=US)
                    for printed, name in (("min", "min"), ("max", "max"), ("avg", "mean"))
                    if printed in figures
                },
                threads=threads,
                gpu=gpu,
                precision="fp16" if gpu and float16 else None,
                profile=read_profile(section),
            )
        ]


def _bare(text: str) -> str:
    """Without what newer builds put before each line, and the codes of a terminal."""
    return re.sub(r"^(?:\x1b\[\w|\^\[\[\w)*(?:INFO: )?", "", text.strip()).strip()


def _count(found: re.Match[str]) -> int:
    return int(found[1] or found[3])
