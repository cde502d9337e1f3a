"""What README.md and docs/ show, made from what was measured: tables, the picture, and what commands print.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``. A fenced block of the kind ``console`` holds commands after
``$ `` and what they print; the commands of one document run in order in a folder of their own, with nothing of the user's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import (
    budgets,
    choose,
    decisions,
    levels,
    memory,
    mix_coverage,
    outsiders,
    phones,
    pool,
    rule_agreement,
    workgroups,
)
from benchmarks import devices as unknown_devices
from benchmarks.accuracy import RESULTS, results
from benchmarks.tables import blocks_table, learn_from_table, markdown_table, summary_table
from latcast.devices.arbitration import NEW_LINEAGES, NEW_NETWORKS, NOTHING
from latcast.devices.members import FLOPS_AND_MEMORY
from latcast.errors import LatcastError
from latcast.predictors.bundle_index import SHIPPED_FOLDER, scan_bundles

ROOT = Path(__file__).resolve().parents[1]

PICTURE = ROOT / "docs" / "images" / "measured.png"

PROFILED = ("openvino-fp32", "onnxruntime-fp32", "litert-fp32")
"""Results of what `latcast profile` makes, judged by `python -m benchmarks outsiders` and by `accuracy`."""

MEASURED = 10
"""Networks of a new device, in the overview."""

PRINTS_WITHIN_S = 300


def documents() -> list[Path]:
    """Those that hold something made here."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


# Tables


def _cells(figures: Mapping[str, Any], prefix: str = "") -> list[str]:
    """MAPE, within ±5 and ±10 %, coverage, rounded."""
    coverage = figures.get(f"{prefix}interval_coverage", figures.get("coverage"))
    shares = (figures[f"{prefix}within_5"], figures[f"{prefix}within_10"], coverage)
    return [f"{figures[f'{prefix}mape']:.1f}", *(f"{each:.0f}" for each in shares)]


def overview_table() -> str:
    """This machine, the shipped phones and new devices: figures of lineages that nothing was learned from, and of the others."""
    head = ["what is predicted", "label error %", "unseen lineages: MAPE %", "±5 %", "±10 %", "in the 90 % interval %",
            "easier test: MAPE %"]  # fmt: skip
    found, strange = results(), outsiders.results()
    rows = []
    for name in PROFILED:
        judged, easier = strange[name]["reported"], found[name]["mape"]
        what = f"this machine, {strange[name]['platform'].split('/', 1)[1]}"
        rows.append([what, f"{judged['label_error']:.1f}", *_cells(judged), f"{easier:.1f}"])
    for row in phones.summary():
        what = f"phones, {row['group']} ({row['platforms']} platforms)"
        rows.append([what, "not known", *_cells(row, "lineage_"), f"{row['random_mape']:.1f}"])
    known = {
        (row["kind"], row["held_out"]): row for row in json.loads(pool.RESULTS.read_text())["rows"] if row["networks"] == "all"
    }
    for kind in ("cpu", "gpu", "npu"):
        row, easier = known[kind, NEW_LINEAGES], known[kind, NOTHING]
        what = f"{kind.upper()}s that others measured ({row['platforms']} platforms)"
        rows.append([what, "not known", *_cells(row), f"{easier['mape']:.1f}"])
    judged = json.loads(unknown_devices.RESULTS.read_text())["rows"]
    forecasts = {
        (row["kind"], row["held_out"]): row
        for row in judged
        if row["method"] == unknown_devices.FORECAST and row["measured"] == MEASURED
    }
    for kind in ("cpu", "gpu", "npu"):
        row = forecasts[kind, NEW_LINEAGES]
        what = f"a new {kind.upper()}, {MEASURED} networks timed ({row['platforms']} platforms)"
        other = forecasts[kind, NOTHING]
        rows.append([what, "not known", *_cells(row), f"{other['mape']:.1f}"])
    return markdown_table(head, rows)


HELD_OUT = {
    NOTHING: "that other devices ran",
    unknown_devices.DRAWN_NETWORKS: "that none ran, drawn at random",
    NEW_NETWORKS: "that none ran, of lineages that none ran",
    NEW_LINEAGES: "of lineages not measured",
}


def devices_table() -> str:
    """A device that nobody measured, by the number of networks timed on it: mean MAPE, median in brackets, coverage."""
    document = json.loads(unknown_devices.RESULTS.read_text())
    found = {(row["kind"], row["held_out"], row["measured"], row["method"]): row for row in document["rows"]}
    rows = []
    for kind in ("cpu", "gpu", "npu"):
        for held_out, what in HELD_OUT.items():
            cells = []
            for measured in document["measured"]:
                row = found[kind, held_out, measured, unknown_devices.FORECAST]
                digits = 1 if row["mape"] < 100 and measured > 1 else 0
                cells.append(f"{row['mape']:.{digits}f} ({row['median_mape']:.{digits}f}), {row['coverage']:.0f}")
            simple = found[kind, held_out, MEASURED, FLOPS_AND_MEMORY]
            rows.append([kind.upper(), what, *cells, f"{simple['mape']:.0f}"])
    head = ["unit", "tested networks", *map(str, document["measured"]), f"FLOPs+MAC at {MEASURED}"]
    return markdown_table(head, rows)


def phones_table() -> str:
    """The shipped phones by runtime, kind of unit and precision: means over platforms, from the cards."""
    head = ["platforms", "CNNs, lineages held out: MAPE %", "±10 %", "interval coverage %",
            "transformers, lineages held out: MAPE %", "±10 %", "interval coverage %",
            "random networks held out: MAPE %", "±10 %"]  # fmt: skip
    rows = []
    for row in phones.summary():
        cells = [
            "" if (value := row[f"{kind}_{key}"]) is None else f"{value:.1f}" if key == "mape" else f"{value:.0f}"
            for kind in ("cnn", "transformer")
            for key in phones.KINDS_FIGURES
        ]
        rows.append(
            [f"{row['group']} ({row['platforms']})", *cells, f"{row['random_mape']:.1f}", f"{row['random_within_10']:.0f}"]
        )
    return markdown_table(head, rows)


def platforms_table() -> str:
    """Devices with bundles of their own, with their runtimes, units and precisions."""
    import latcast

    bundles = {entry.platform for entry in scan_bundles([SHIPPED_FOLDER]).entries}
    groups: dict[tuple[str, str], list[str]] = {}
    for each in latcast.platforms():
        if each.id in bundles:
            groups.setdefault((each.device, each.chip or ""), []).append(each.id)
    rows = []
    for (device, chip), ids in sorted(groups.items()):
        _, runtimes, units, precisions = (sorted(set(part)) for part in zip(*(name.split("/") for name in ids), strict=True))
        rows.append([device, chip, ", ".join(runtimes), ", ".join(units), ", ".join(precisions), str(len(ids))])
    return markdown_table(["device", "chip", "runtimes", "units", "precisions", "platforms"], rows)


def runtimes_table() -> str:
    """All platforms that can be predicted for without measuring: by runtime, how many of each kind of unit."""
    import latcast
    from latcast.kernels.rules import unit_kind

    shipped = [each for each in latcast.platforms() if each.source == "shipped"]
    runtimes = [re.sub(r"-(unstated|master|[a-z]*[0-9.]+)$", "", each.id.split("/")[1]) for each in shipped]
    rows = []
    for runtime, _ in Counter(runtimes).most_common():
        known = [each for each, name in zip(shipped, runtimes, strict=True) if name == runtime]
        kinds = Counter(unit_kind(each.unit) for each in known)
        counts = [str(kinds[kind] or "-") for kind in ("cpu", "gpu", "npu")]
        rows.append([runtime, str(len({each.device for each in known})), *counts])
    total = Counter(unit_kind(each.unit) for each in shipped)
    counts = [str(total[kind]) for kind in ("cpu", "gpu", "npu")]
    rows.append(["all", str(len({each.device for each in shipped})), *counts])
    return markdown_table(["runtime", "devices", "on CPUs", "on GPUs", "on NPUs"], rows)


def speed_table() -> str:
    """As it was measured last."""
    from benchmarks import speed

    return speed.speed_table(json.loads((RESULTS / "speed.json").read_text()))


TABLES: Mapping[str, Callable[[], str]] = {
    "overview": overview_table,
    "platforms": platforms_table,
    "runtimes": runtimes_table,
    "devices": devices_table,
    "facts": lambda: unknown_devices.facts_markdown(json.loads(unknown_devices.FACTS_RESULTS.read_text())),
    "phones": phones_table,
    "choose": choose.choose_table,
    "memory": memory.memory_table,
    "decisions": decisions.decisions_table,
    "pool": lambda: pool.markdown(json.loads(pool.RESULTS.read_text())["rows"]),
    "pool-sources": pool.sources_table,
    "ratios": decisions.ratios_table,
    "reliability": decisions.reliability_table,
    "mix-coverage": mix_coverage.coverage_table,
    "budgets": budgets.budgets_table,
    "levels": levels.levels_table,
    "agreement": rule_agreement.agreement_table,
    "outsiders": lambda: outsiders.outsiders_table(outsiders.results()),
    "instruction-sets": outsiders.instruction_sets_table,
    "accuracy": lambda: summary_table(results()),
    "blocks": lambda: blocks_table(results()),
    "learn-from": lambda: learn_from_table(results()),
    "speed": speed_table,
    "workgroups": workgroups.workgroups_table,
}

_TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """A document with its tables made anew."""
    return _TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", text)


# What commands print

_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _commands(block: str) -> Iterator[str]:
    """The commands of a block; a line that ends with a backslash goes on."""
    lines = iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            while line.endswith("\\"):
                line += "\n" + next(lines)
            yield line


def with_output(text: str, folder: Path) -> str:
    """A document with what its commands print now, run in ``folder``.

    Raises:
        LatcastError: A command failed.
    """
    paths = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "LATCAST_HOME": str(folder / "home"), "PATH": paths, "COLUMNS": "120"}

    def printed(found: re.Match[str]) -> str:
        lines = []
        for command in _commands(found[1]):
            done = subprocess.run(
                ["bash", "-c", command[2:]], cwd=folder, env=environment, timeout=PRINTS_WITHIN_S, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            if done.returncode:
                raise LatcastError(f"exit code {done.returncode} of a command that a document shows: {command}\n{done.stdout}")
            lines += [command, *(line.rstrip() for line in done.stdout.splitlines())]
        return "```console\n" + "\n".join(lines) + "\n```"

    return _CONSOLE.sub(printed, text)


def made_anew(path: Path) -> str:
    """A document as it would be written now."""
    with tempfile.TemporaryDirectory() as folder:
        return with_output(with_tables(path.read_text(encoding="utf-8")), Path(folder))


# The picture


def draw(path: Path = PICTURE) -> Path:
    """Predicted against measured latencies of the networks that `python -m benchmarks outsiders` judged, with 90 % intervals."""
    from matplotlib.ticker import FormatStrFormatter

    from latcast import drawing

    found = outsiders.results()
    figure = drawing.new_figure(9.0, 3.5)
    panels = figure.subplots(1, len(PROFILED), sharex=True, sharey=True)
    shown = [each for name in PROFILED for each in found[name]["per_network"]]
    ends = np.array([min(each["low_ms"] for each in shown) / 1.3, max(each["high_ms"] for each in shown) * 1.3])
    for place, (axes, name) in enumerate(zip(panels, PROFILED, strict=True)):
        document = found[name]
        measured, predicted, low, high = (
            np.array([each[key] for each in document["per_network"]])
            for key in ("measured_ms", "latency_ms", "low_ms", "high_ms")
        )
        axes.fill_between(ends, ends * 0.9, ends * 1.1, color="grey", alpha=drawing.PALE, linewidth=0, label="±10 %")
        axes.plot(ends, ends, color="grey", linewidth=0.8)
        axes.errorbar(
            measured, predicted, yerr=(predicted - low, high - predicted), fmt="o", markersize=3, elinewidth=0.8,
            color=drawing.COLOURS[place], label="network, 90 % interval",
        )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
        axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        drawing.plain(axes, "measured, ms", "predicted, ms" if place == 0 else "")
        axes.set_title(
            f"{document['platform'].split('/')[1]}: MAPE {document['all']['mape']:.1f} %,\n"
            f"label error {document['all']['label_error']:.1f} %",
            fontsize="small",
        )
        axes.legend(fontsize="x-small", frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    return drawing.write(figure, path, dots_per_inch=130)
