"""TFLite's ``benchmark_model``, with and without ``--enable_op_profiling=true``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from latcast.runtimes.benchmark_tools.output import Line, ProfiledOperator, Section, Timing, positive

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
        return text.strip() == "STARTING!"

    def read(self, section: Section) -> list[Timing]:
        """Read the timings; see :class:`~latcast.runtimes.benchmark_tools.output.ToolReader`."""
        graph, threads, gpu, float16 = None, None, None, True
        counts: list[tuple[Line, re.Match[str]]] = []
        summary: Line | None = None
        for line in section.lines:
            text = line.text.strip()
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
        if not counts or (len(counts) == 1 and not _is_timed(counts[0][1], summary)):
            raise section.refused("expected two lines 'count=', of the runs to warm up and of the timed ones", summary)
        line, timed = counts[-1]
        warm_up = counts[-2][1] if len(counts) > 1 else None
        figures: dict[str, str] = dict(_FIGURE.findall(line.text))
        average = figures.get("avg", figures.get("curr", ""))
        latency_ms = positive(section, line, "the average", average, scale=US)
        median = figures.get("median")
        return [
            Timing(
                network=graph,
                line=line,
                latency_ms=latency_ms if median is None else positive(section, line, "the median", median, scale=US),
                statistic="mean of the timed runs" if median is None else "median of the timed runs",
                runs=int(timed[1] or timed[3]),
                warmup_runs=0 if warm_up is None else int(warm_up[1] or warm_up[3]),
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


def _is_timed(count: re.Match[str], summary: Line) -> bool:
    """Return whether the only line of runs is of the timed ones, whose average the summary repeats; no run warmed up then."""
    told = _SUMMARY.match(summary.text.strip())
    return told is not None and (count[2] or count[4]) == told[1].rstrip(",")


_TITLE = "Operator-wise Profiling Info for Regular Benchmark Runs:"
_ORDER = "Run Order"
_ENABLED = "Enable op profiling: [1]"
_ELSEWHERE = "CSV File to export profiling data to: ["
_COLUMNS = re.compile(r"\[([^\[\]]+)\]")
INSIDE = "Delegate/"
"""Beginning of the names of a delegate's kernels."""

_INSIDE_KIND = "DelegateOpInvoke"
"""Kind of every such line in older versions."""

_NEEDED = ("node type", "avg ms", "times called", "Name")


def read_profile(section: Section) -> tuple[ProfiledOperator, ...]:
    """Return the kernels in the order in which they ran; none where the tool did not profile.

    The table's columns differ between versions. ``[avg ms]`` is of one call, ``[times called]`` the calls in one inference;
    consecutive XNNPACK convolutions of one kind share a line.

    Raises:
        DatasetError: The table is cut off, or its columns are other ones.
    """
    lines = iter(section.lines)
    if not any(_TITLE in line.text for line in lines):
        if any(_ENABLED in line.text for line in section.lines) and not any(_ELSEWHERE in line.text for line in section.lines):
            raise section.refused(f"the output of benchmark_model ends before '{_TITLE}'; run it again")
        return ()
    if not any(_ORDER in line.text for line in lines):
        raise section.refused("the profile ends before its table 'Run Order'; run the tool again")
    header = next(lines, None)
    if header is None:
        raise section.refused("the profile ends before its table's columns; run the tool again")
    columns = _COLUMNS.findall(header.text)
    if any(name not in columns for name in _NEEDED) or columns[0] != "node type" or columns[-1] != "Name":
        raise section.refused(
            f"the profile has the columns {', '.join(columns) or 'none'}; expected {', '.join(_NEEDED)}", header
        )
    numbers = columns[1:-1]
    # Words one by one: no run of blanks is looked at again from each of its places.
    row = re.compile(r"\s*(\S+(?:\s+\S+)*?)" + r"\s+(-?[\d.]+)%?" * len(numbers) + r"\s+(\S.*)")
    kernels: list[ProfiledOperator] = []
    for line in lines:
        # Only an empty line ends the table; blanks are a row that was cut off.
        if not line.text:
            return tuple(kernels)
        kernels.append(_kernel(section, line, row, numbers))
    raise section.refused("the profile ends inside its table 'Run Order'; run the tool again")


def _kernel(section: Section, line: Line, row: re.Pattern[str], numbers: list[str]) -> ProfiledOperator:
    found = row.fullmatch(line.text)
    if found is None:
        raise section.refused(f"'{line.text.strip()}' is not a profile's row; expected {len(numbers)} numbers and a name", line)
    values = dict(zip(numbers, found.groups()[1:-1], strict=True))
    plain, _, index = found.groups()[-1].rpartition(":")
    name = plain.strip("[]") or found.groups()[-1]
    try:
        # Old versions say 0 times where an operator runs once.
        calls = max(1, int(values["times called"]))
        latency_ms = float(values["avg ms"]) * calls
        number = int(index) if index.isdecimal() else -1
        if not 0 <= latency_ms < float("inf"):
            raise ValueError
    except (ValueError, OverflowError):
        raise section.refused(f"'{line.text.strip()}' holds a value that is not a number", line) from None
    kind = name.removeprefix(INSIDE) if found[1] == _INSIDE_KIND else found[1]
    return ProfiledOperator(kind, name, number, latency_ms, calls)
