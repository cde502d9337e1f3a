"""ncnn's ``benchncnn``: one line a network, after the settings of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from latcast.datasets.importers.benchmark_tools.output import Line, Section, Timing, positive
from latcast.datasets.importers.ncnn_boards import CORES

_SETTING = re.compile(r"(loop_count|num_threads|powersave|gpu_device|cooling_down) = (-?\d+)")
_NETWORK = re.compile(r"\s*(\S+)\s+min = +(\d+\.\d\d)  max = +(\d+\.\d\d)  avg = +(\d+\.\d\d)")
_CUT = re.compile(r"\s*\S+\s+min = .*")

WARM_UPS, GPU_WARM_UPS = 8, 10
"""What the tool does before it takes the time."""


class NcnnReader:
    """Reads one run, which may be of many networks."""

    name = "benchncnn"
    runtimes: Sequence[str] = ("ncnn",)
    endings: Sequence[str] = ()

    def begins(self, text: str) -> bool:
        return re.fullmatch(r"loop_count = \d+", text.strip()) is not None

    def read(self, section: Section) -> list[Timing]:
        """See :class:`~latcast.datasets.importers.benchmark_tools.output.ToolReader`."""
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
