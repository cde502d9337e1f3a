"""ONNX Runtime's ``onnxruntime_perf_test``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from latcast.datasets.importers.benchmark_tools.output import Line, Section, Timing, positive

_THREADS = re.compile(r"Setting intra_op_num_threads to (\d+)")
_RUNS = re.compile(r"Total inference requests: *(\d+)")
_MEAN = re.compile(r"Average inference time cost(?: total)?: *(\S+) ms")
_QUANTILE = re.compile(r"(Min|Max|P50) Latency(?::| is) *(\S+) s(?:ec)?(?: .*)?")
_BEGINS = "Session creation time cost:"

MS = 1e3


class OnnxruntimeReader:
    """Reads one run. The tool names neither the network nor its version."""

    name = "onnxruntime_perf_test"
    runtimes: Sequence[str] = ("onnxruntime",)
    endings: Sequence[str] = (".onnx",)

    def begins(self, text: str) -> bool:
        return text.startswith(_BEGINS)

    def read(self, section: Section) -> list[Timing]:
        """See :class:`~latcast.datasets.importers.benchmark_tools.output.ToolReader`."""
        threads, runs, mean = None, None, None
        quantiles: dict[str, tuple[Line, str]] = {}
        begun = False
        for line in section.lines:
            text = line.text.strip()
            begun = begun or self.begins(text)
            # What is set after that is of the next run.
            if not begun and (found := _THREADS.fullmatch(text)):
                threads = int(found[1]) or None
            elif found := _RUNS.fullmatch(text):
                runs = int(found[1])
            elif found := _MEAN.fullmatch(text):
                mean = (line, found[1])
            elif found := _QUANTILE.fullmatch(text):
                quantiles[found[1]] = (line, found[2])
        if runs is None or mean is None or "P50" not in quantiles:
            raise section.refused(
                "the output of onnxruntime_perf_test ends before its median 'P50 Latency'; run it again with -s"
            )
        line = quantiles["P50"][0]
        figures = {"mean": positive(section, mean[0], "the average", mean[1])}
        for printed, name in (("Min", "min"), ("Max", "max")):
            if printed in quantiles:
                figures[name] = positive(section, quantiles[printed][0], name, quantiles[printed][1], scale=MS)
        return [
            Timing(
                network=None,
                line=line,
                latency_ms=positive(section, line, "the median", quantiles["P50"][1], scale=MS),
                statistic="median of the timed runs",
                runs=runs,
                warmup_runs=1,
                figures_ms=figures,
                threads=threads,
            )
        ]
