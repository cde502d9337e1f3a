"""OpenVINO's ``benchmark_app``, the C++ and the Python one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from latcast.datasets.importers.benchmark_tools.output import Line, Section, Timing, positive

_BUILD = re.compile(r"Build \.+ (\d+\.\d+)\.\d+-\S+")
_THREADS = re.compile(r"INFERENCE_NUM_THREADS: (\d+)")
_PRECISION = re.compile(r"INFERENCE_PRECISION_HINT: (?:<Type: ')?(\w+)(?:'>)?")
_DEVICES = re.compile(r"Execution Devices: ?\[? ?(.*?) ?\]?")
_COUNT = re.compile(r"Count: +(\d+) iterations")
_LATENCY = re.compile(r"(Median|Average|Min|Max): +(\S+) ms")
_BATCH = re.compile(r"Model batch size: (\d+)")

PRECISIONS = {"f32": "fp32", "float32": "fp32", "f16": "fp16", "float16": "fp16", "bf16": "bf16", "bfloat16": "bf16"}


class OpenvinoReader:
    """Reads one run."""

    name = "OpenVINO's benchmark_app"
    runtimes: Sequence[str] = ("openvino",)
    endings: Sequence[str] = (".onnx",)

    def begins(self, text: str) -> bool:
        return text.startswith("[Step 1/11]")

    def read(self, section: Section) -> list[Timing]:
        """See :class:`~latcast.datasets.importers.benchmark_tools.output.ToolReader`."""
        said: dict[str, str] = {}
        figures: dict[str, tuple[Line, str]] = {}
        complete = False
        for line in section.lines:
            text = re.sub(r"^\[ INFO \] *", "", line.text.strip())
            for name, pattern in (
                ("version", _BUILD), ("threads", _THREADS), ("precision", _PRECISION), ("devices", _DEVICES), ("runs", _COUNT),
                ("batch", _BATCH),
            ):  # fmt: skip
                if found := pattern.fullmatch(text):
                    said.setdefault(name, found[1])
            if found := _LATENCY.fullmatch(text):
                figures[found[1]] = (line, found[2])
            complete = complete or text.startswith("Throughput:")
        if not complete or "Median" not in figures or "runs" not in said:
            raise section.refused("the output of benchmark_app ends before its latencies and throughput; run it again")
        if said.get("batch", "1") != "1":
            raise section.refused(f"a batch of {said['batch']}; expected 1: run benchmark_app with -b 1", figures["Median"][0])
        values = {name: positive(section, line, name.lower(), text) for name, (line, text) in figures.items()}
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
