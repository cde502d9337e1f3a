"""Readers of the output of ``benchncnn``, ``onnxruntime_perf_test`` and ``benchmark_app``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from latcast.runtimes.benchmark_tools.output import Line, Section, Timing, positive

CORES = {"0": "", "1": "+little", "2": "+big"}
"""ncnn's setting of ``powersave`` to the cores that run: all, the little ones, the big ones."""

_SETTING = re.compile(r"(loop_count|num_threads|powersave|gpu_device|cooling_down) = (-?\d+)")
_NETWORK = re.compile(r"\s*(\S+)\s+min = +(\d+\.\d\d)  max = +(\d+\.\d\d)  avg = +(\d+\.\d\d)")
_CUT = re.compile(r"\s*\S+\s+min = .*")

WARM_UPS, GPU_WARM_UPS = 8, 10
"""Untimed runs of benchncnn."""


class NcnnReader:
    """Reads one run of ncnn's benchmark: its settings, then one line a network."""

    name = "benchncnn"
    runtimes: Sequence[str] = ("ncnn",)
    endings: Sequence[str] = ()

    def begins(self, text: str) -> bool:
        return re.fullmatch(r"loop_count = \d+", text.strip()) is not None

    def read(self, section: Section) -> list[Timing]:
        """Read the timings; see :class:`~latcast.runtimes.benchmark_tools.output.ToolReader`."""
        settings: dict[str, int] = {}
        found: list[Timing] = []
        for line in section.lines:
            if setting := _SETTING.fullmatch(line.text.strip()):
                settings[setting[1]] = int(setting[2])
            elif network := _NETWORK.fullmatch(line.text.rstrip()):
                found.append(_timing(section, line, network, settings))
            elif _CUT.match(line.text):
                raise section.refused(f"'{line.text.strip()}' is cut off; expected min, max and avg; run benchncnn again", line)
        if not found:
            raise section.refused("the output of benchncnn ends before its first network; run it again")
        return found


def _timing(section: Section, line: Line, found: re.Match[str], settings: Mapping[str, int]) -> Timing:
    missing = [name for name in ("loop_count", "num_threads", "gpu_device") if name not in settings]
    if missing:
        raise section.refused(f"{missing[0]} is not said before the first network; expected benchncnn's settings", line)
    least, most, mean = (
        positive(section, line, name, text) for name, text in zip(("min", "max", "avg"), found.groups()[1:], strict=True)
    )
    # Two decimals are printed of each.
    if not least - 0.01 <= mean <= most + 0.01:
        raise section.refused(f"the mean {mean} does not lie between the smallest {least} and the largest {most}", line)
    gpu = settings["gpu_device"] >= 0
    return Timing(
        network=found[1],
        line=line,
        latency_ms=mean,
        statistic="mean of the timed runs",
        runs=settings["loop_count"],
        warmup_runs=GPU_WARM_UPS if gpu else WARM_UPS,
        figures_ms={"min": least, "max": most, "mean": mean},
        threads=settings["num_threads"],
        cores=CORES.get(str(settings.get("powersave", 0)), ""),
        gpu=gpu,
    )


_ORT_THREADS = re.compile(r"Setting intra_op_num_threads to (\d+)")
_ORT_RUNS = re.compile(r"Total inference requests: *(\d+)")
_ORT_MEAN = re.compile(r"Average inference time cost(?: total)?: *(\S+) ms")
_ORT_QUANTILE = re.compile(r"(Min|Max|P50) Latency(?::| is) *(\S+) s(?:ec)?(?: .*)?")
_ORT_BEGINS = "Session creation time cost:"


class OnnxruntimeReader:
    """Reads one run. The tool names neither the network nor its version."""

    name = "onnxruntime_perf_test"
    runtimes: Sequence[str] = ("onnxruntime",)
    endings: Sequence[str] = (".onnx",)

    def begins(self, text: str) -> bool:
        return text.startswith(_ORT_BEGINS)

    def read(self, section: Section) -> list[Timing]:
        """Read the timings; see :class:`~latcast.runtimes.benchmark_tools.output.ToolReader`."""
        threads, runs, mean = None, None, None
        quantiles: dict[str, tuple[Line, str]] = {}  # in seconds
        begun = False
        for line in section.lines:
            text = line.text.strip()
            begun = begun or self.begins(text)
            # Settings after the beginning belong to the next run.
            if not begun and (found := _ORT_THREADS.fullmatch(text)):
                threads = int(found[1]) or None
            elif found := _ORT_RUNS.fullmatch(text):
                runs = int(found[1])
            elif found := _ORT_MEAN.fullmatch(text):
                mean = (line, found[1])
            elif found := _ORT_QUANTILE.fullmatch(text):
                quantiles[found[1]] = (line, found[2])
        if runs is None or mean is None or "P50" not in quantiles:
            raise section.refused(
                "the output of onnxruntime_perf_test ends before its median 'P50 Latency'; run it again with -s"
            )
        line = quantiles["P50"][0]
        figures = {"mean": positive(section, mean[0], "the average", mean[1])}
        for printed, name in (("Min", "min"), ("Max", "max")):
            if printed in quantiles:
                figures[name] = positive(section, quantiles[printed][0], name, quantiles[printed][1], scale=1e3)
        return [
            Timing(
                network=None,
                line=line,
                latency_ms=positive(section, line, "the median", quantiles["P50"][1], scale=1e3),
                statistic="median of the timed runs",
                runs=runs,
                warmup_runs=1,
                figures_ms=figures,
                threads=threads,
            )
        ]


_OPENVINO_SETTINGS = {
    "version": re.compile(r"Build \.+ (\d+\.\d+)\.\d+-\S+"),
    "threads": re.compile(r"INFERENCE_NUM_THREADS: (\d+)"),
    "precision": re.compile(r"INFERENCE_PRECISION_HINT: (?:<Type: ')?(\w+)(?:'>)?"),
    "devices": re.compile(r"Execution Devices: ?\[? ?(.*?) ?\]?"),
    "runs": re.compile(r"Count: +(\d+) iterations"),
    "batch": re.compile(r"Model batch size: (\d+)"),
}
_OPENVINO_LATENCY = re.compile(r"(Median|Average|Min|Max): +(\S+) (ms|us)")

PRECISIONS = {"f32": "fp32", "float32": "fp32", "f16": "fp16", "float16": "fp16", "bf16": "bf16", "bfloat16": "bf16"}


class OpenvinoReader:
    """Reads one run of the C++ or the Python tool."""

    name = "OpenVINO's benchmark_app"
    runtimes: Sequence[str] = ("openvino",)
    endings: Sequence[str] = (".onnx",)

    def begins(self, text: str) -> bool:
        return text.startswith("[Step 1/11]")

    def read(self, section: Section) -> list[Timing]:
        """Read the timings; see :class:`~latcast.runtimes.benchmark_tools.output.ToolReader`."""
        said: dict[str, str] = {}
        figures: dict[str, tuple[Line, str, float]] = {}
        complete = False
        for line in section.lines:
            text = re.sub(r"^\[ INFO \] *", "", line.text.strip())
            for name, pattern in _OPENVINO_SETTINGS.items():
                if found := pattern.fullmatch(text):
                    said.setdefault(name, found[1])
            if found := _OPENVINO_LATENCY.fullmatch(text):
                figures[found[1]] = (line, found[2], 1e-3 if found[3] == "us" else 1.0)
            complete = complete or text.startswith("Throughput:")
        if not complete or "Median" not in figures or "runs" not in said:
            raise section.refused("the output of benchmark_app ends before its latencies and throughput; run it again")
        if said.get("batch", "1") != "1":
            raise section.refused(f"a batch of {said['batch']}; expected 1: run benchmark_app with -b 1", figures["Median"][0])
        values = {name: positive(section, line, name.lower(), text, scale=scale) for name, (line, text, scale) in figures.items()}
        devices = said.get("devices", "").replace("'", "").replace("(", "").replace(")", "")
        return [
            Timing(
                network=None,
                line=figures["Median"][0],
                latency_ms=values["Median"],
                statistic="median of the timed runs",
                runs=int(said["runs"]),
                warmup_runs=1,
                figures_ms={
                    plain: values[name] for name, plain in (("Min", "min"), ("Max", "max"), ("Average", "mean")) if name in values
                },
                threads=int(said["threads"]) if "threads" in said else None,
                gpu="GPU" in devices if devices else None,
                precision=PRECISIONS.get(said.get("precision", "")),
                version=said.get("version"),
            )
        ]
