"""Contents of README.md and docs/ made from results: tables, figures in sentences, the picture, and what commands print.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``, a figure in a sentence between ``<!-- figure: NAME -->`` and
``<!-- end -->``. A fenced block of the kind ``console`` holds commands after ``$ `` and what they print; the commands of one
document run in order in a folder of their own, with nothing of the user's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import latcast
from benchmarks import (
    app,
    beside,
    choose,
    decisions,
    delegates,
    devices,
    files,
    grades,
    hints,
    language_models_here,
    lineages,
    llm,
    memory,
    outsiders,
    peer,
    phones,
    platforms,
    pool,
    rule_agreement,
    speed,
    start,
    sustained,
)
from benchmarks.hub import attack
from benchmarks.judge import Row, markdown_table, table, target_cell
from benchmarks.result_files import NOT_RECORDED, RESULTS, kept, kept_parts, read_document
from latcast.errors import LatcastError
from latcast.kernels.rules import unit_kind
from latcast.predictors.bundle_index import SHIPPED_FOLDER, scan_bundles
from latcast.records import UNIT_KINDS
from shipping.arbitration import NEW_LINEAGES

ROOT = Path(__file__).resolve().parents[1]

PICTURE = ROOT / "docs" / "images" / "measured.png"

PICTURED = "local/onnxruntime-1.31/cpu1/fp32"
"""The platform whose first profile the picture shows."""

PICTURED_GROUPS = (
    "profiled CPU, one thread, fp32", "shipped phones, GPU, fp16", "shipped phones, CPU, fp32", "shipped phones, CPU, int8",
    "CPUs that others measured", "GPUs that others measured", "NPUs that others measured",
)  # fmt: skip
"""Kinds of devices whose mean errors the picture shows."""

TWO_THREADS, OPENVINO_INT8 = "local/onnxruntime-1.31/cpu2/fp32", "local/openvino-2026.4/cpu1/int8"
"""Platforms of this machine whose figures stand among the limits."""

MEANS = ("mape", "within_5", "within_10", "interval_coverage", "label_error")

PRINTS_WITHIN_S = 300


# Command


def documents(
    names: Annotated[list[str] | None, typer.Argument(help="Parts of the documents' paths; all by default.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 3 where one would change.")] = False,
) -> None:
    """Write what README.md and docs/ show: tables, what their commands print, and the picture."""
    changed = []
    for path in all_documents():
        shown = str(path.relative_to(ROOT))
        if names and not any(name in shown for name in names):
            continue
        before = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            after = with_output(with_tables(before), Path(folder))
        if before != after:
            changed.append(shown)
            if not check:
                path.write_text(after, encoding="utf-8")
    if not check:
        draw()
    print("\n".join(f"changed: {name}" for name in changed) or "all are as they would be written")
    if check and changed:
        raise typer.Exit(3)


def all_documents() -> list[Path]:
    """Return the documents that may hold something made here."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


# Tables of several benchmarks


def _profiles() -> dict[str, list[Row]]:
    """Return what was judged on outsiders by platform, a document for each profile of it."""
    found: dict[str, list[Row]] = {}
    for document in kept_parts("outsiders").values():
        found.setdefault(document["platform"], []).append(document)
    return found


def _mean_reported(profiles: Sequence[Row]) -> dict[str, float]:
    """Return the means over a platform's profiles of the figures of the reported half."""
    return {name: float(np.mean([each["reported"][name] for each in profiles])) for name in MEANS}


def _figures_by_group() -> list[dict[str, Any]]:
    """Return the figures of lineages that nothing was learned from: on a profiled CPU, shipped phones, and new devices.

    ``group`` says what a row is of, ``platforms`` how many platforms it holds.
    """
    rows: list[dict[str, Any]] = []
    for platform, seeds in _profiles().items():
        mean = _mean_reported(seeds)
        target = target_cell(mean["label_error"] + outsiders.above_label_error(platform), mean["mape"])
        _, _, unit, precision = platform.split("/")
        group = f"profiled CPU, {'one thread' if unit == 'cpu1' else 'two threads'}, {precision}"
        rows.append({**mean, "group": group, "coverage": mean["interval_coverage"], "target": target})
    for found in kept_parts("outsiders_third").values():
        part, platform = found["all"], found["platform"]
        target = target_cell(part["label_error"] + outsiders.above_label_error(platform), part["mape"])
        group = f"profiled CPU, one thread, fp32, {len(outsiders.THIRD_NAMES)} other designs"
        rows.append({**part, "group": group, "coverage": part["interval_coverage"], "target": target})
    for row in phones.summary():
        of_lineage = {name: row[f"lineage_{name}"] for name in MEANS if f"lineage_{name}" in row}
        target = target_cell(phones.TARGETS[row["group"]]["cnn"], row["cnn_mape"])
        _, unit, precision = row["group"].split()
        rows.append({
            **of_lineage, "group": f"shipped phones, {unit.upper()}, {precision}", "platforms": row["platforms"],
            "coverage": of_lineage["interval_coverage"], "target": target,
        })  # fmt: skip
    for row in kept("pool")["rows"]:
        if row["networks"] == "all" and row["held_out"] == NEW_LINEAGES and row["kind"] in UNIT_KINDS:
            rows.append({**row, "group": f"{row['kind'].upper()}s that others measured"})
    for row in kept("devices")["rows"]:
        is_shown = (row["method"], row["measured"], row["held_out"]) == (devices.FORECAST, devices.SHOWN, NEW_LINEAGES)
        if is_shown and row["kind"] in UNIT_KINDS:
            group = f"a new {row['kind'].upper()}, {devices.SHOWN} networks timed"
            rows.append({**row, "group": group, "target": target_cell(devices.target(row), row["mape"])})
    return [{"platforms": 1, "target": "none", **row} for row in rows]


def _means() -> dict[str, Row]:
    """Return the means over platforms of the figures of lineages that nothing was learned from, by group."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in _figures_by_group():
        groups.setdefault(row["group"], []).append(row)
    found: dict[str, Row] = {}
    for group, parts in groups.items():
        counts = [part["platforms"] for part in parts]
        names = [name for name in ("label_error", "mape", "within_10", "coverage") if all(name in part for part in parts)]
        means = {name: float(np.average([part[name] for part in parts], weights=counts)) for name in names}
        targets = [part["target"] for part in parts if part["target"] != "none"]
        missed = f"{sum('missed' in each for each in targets)} of {len(targets)}" if targets else "none set"
        label_error = f"{means['label_error']:.1f}" if "label_error" in means else "not known"
        found[group] = {**means, "what": group, "platforms": sum(counts), "label": label_error, "missed": missed}
    return found


def means_table() -> str:
    """Return :func:`_means`, a line for each group."""
    return table(
        list(_means().values()),
        {
            "what is predicted": "{what}", "platforms": "{platforms}", "label error %": "{label}", "MAPE %": "{mape:.1f}",
            "±10 %": "{within_10:.0f}", "in the 90 % interval %": "{coverage:.0f}", "targets missed": "{missed}",
        },
    )  # fmt: skip


def short_means_table() -> str:
    """Return the figures of :func:`means_table` that a newcomer decides by."""
    return table(
        list(_means().values()),
        {
            "what is predicted": "{what}", "mean error %": "{mape:.1f}", "networks within ±10 %, in %": "{within_10:.0f}",
            "inside the 90 % interval, in %": "{coverage:.0f}",
        },
    )  # fmt: skip


def platforms_table() -> str:
    """Return the devices with bundles of their own, with their runtimes."""
    bundles = {entry.platform for entry in scan_bundles([SHIPPED_FOLDER]).entries}
    groups: dict[tuple[str, str], list[str]] = {}
    for each in latcast.platforms():
        if each.id in bundles:
            groups.setdefault((each.device, each.chip or ""), []).append(each.id)
    rows = []
    for (device, chip), ids in sorted(groups.items()):
        parts = (", ".join(sorted(set(part))) for part in zip(*(name.split("/") for name in ids), strict=True))
        rows.append([*parts, device, chip, len(ids)])
    columns = {"device": 4, "chip": 5, "runtimes": 1, "platforms": 6}
    return table([{"row": row} for row in rows], {name: f"{{row[{place}]}}" for name, place in columns.items()})


def runtimes_table() -> str:
    """Return how many platforms of each kind of unit can be predicted for without measuring, by runtime."""
    found: dict[str, list[Any]] = {}
    for each in latcast.platforms():
        if each.source == "shipped":
            name = re.sub(r"-(unstated|master|[a-z]*[0-9.]+)$", "", each.id.split("/")[1])
            found.setdefault(name, []).append(each)
    listed = [*sorted(found.items(), key=lambda item: -len(item[1])), ("all", [each for some in found.values() for each in some])]
    rows = [
        {"runtime": name, "devices": len({each.device for each in some}), **Counter(unit_kind(each.unit) for each in some)}
        for name, some in listed
    ]
    kinds = {f"on {kind.upper()}s": f"{{{kind}}}" for kind in ("cpu", "gpu", "npu")}
    return table(rows, {"runtime": "{runtime}", "devices": "{devices}", **kinds})


def _reported(platform: str, figure: str) -> str:
    """Return a mean over the profiles of a platform, with one decimal."""
    return f"{_mean_reported(_profiles()[platform])[figure]:.1f}"


def _list_by_kind(missed: Sequence[str]) -> str:
    """Return the targets that are missed as a list, a line for each kind of unit, which each sentence begins with."""
    found: dict[str, list[str]] = {}
    for text in missed:
        kind, _, rest = text.partition(", ")
        found.setdefault(kind, []).append(rest)
    return "\n".join(f"- {kind.upper()}: {'; '.join(each)}." for kind, each in found.items()) or "None."


MADE: Mapping[str, Callable[[], str]] = {
    "means": means_table,
    "short-means": short_means_table,
    "platforms": platforms_table,
    "runtimes": runtimes_table,
    "devices": devices.devices_table,
    "devices-missed": lambda: _list_by_kind(devices.missed_besides_mape(kept("devices")["rows"])),
    "devices-pool": lambda: "{chips:,} chips, {platforms:,} platforms and {networks:,} networks".format_map(kept("devices")),
    "facts": devices.facts_table,
    "suggested": devices.suggested_table,
    "hub-poison": attack.poison_table,
    "hub-doubt": attack.doubts_table,
    "language-speeds": llm.speeds_table,
    "phones": phones.phones_table,
    "known-devices": lambda: str(len({each.device for each in latcast.platforms() if each.source == "shipped"})),
    "two-threads-mape": lambda: _reported(TWO_THREADS, "mape"),
    "openvino-int8-mape": lambda: _reported(OPENVINO_INT8, "mape"),
    "openvino-int8-within-5": lambda: _reported(OPENVINO_INT8, "within_5"),
    "pytorch-int8-transformers-mape": lambda: next(
        f"{row['transformer_mape']:.1f}" for row in phones.summary() if row["group"] == "pytorch cpu int8"
    ),
    "choose": choose.choose_table,
    "memory": memory.memory_table,
    "decisions": decisions.decisions_table,
    "reliability": decisions.reliability_table,
    "pool": pool.pool_table,
    "pool-missed": lambda: _list_by_kind(pool.missed_coverage(kept("pool")["rows"])),
    "pool-sources": pool.sources_table,
    "grades": grades.grades_table,
    "hints": hints.hints_table,
    "language-models-here": language_models_here.here_table,
    "lineages": lineages.lineages_table,
    "agreement": lambda: rule_agreement.agreement_table(pairs=False),
    "outsiders": outsiders.mean_table,
    "outsiders-third": outsiders.third_table,
    "instruction-sets": outsiders.instruction_sets_table,
    "speed": speed.speed_table,
    "files": files.files_table,
    "delegates": delegates.delegates_table,
    "delegates-routes": delegates.routes_table,
    "delegates-crossings": delegates.crossings_table,
    "peer": peer.peer_table,
    "app": app.app_table,
    "start-machine": start.machine_table,
    "start-phones": start.phones_table,
    "start-same-model": start.same_model_figures,
    "start-same-model-phones": lambda: str(kept("start/phones")["same_model"]["phones"]),
    "sustained": sustained.sustained_table,
    "beside": beside.beside_table,
    "transfer-rivals": platforms.rivals_table,
    "transfer-label-error": lambda: f"{kept('platforms')['mean']['measured']['label_error']:.1f}",
    "transfer-mape": lambda: f"{kept('platforms')['mean']['whole pool']['mape']:.1f}",
    "scratch-mape": lambda: f"{kept('platforms')['mean']['from scratch']['mape']:.1f}",
}
"""Tables, and figures that sentences hold, by name."""


def printed_table(name: str) -> str:
    """Return a table of results/printed, which was made once and is kept as it was.

    ``shown`` lists its columns of interest, ``shown_rows`` the rows; all are shown without them.
    """
    document = read_document(RESULTS / f"{name}.json")
    found, by = document["data"], document["command"]
    said = "" if by == NOT_RECORDED else f", made with `{by}`"
    listed = [found["rows"][place] for place in found.get("shown_rows", range(len(found["rows"])))]
    rows = [[cell.replace("|", "\\|") for cell in row] for row in listed]
    note = [found["note"]] if "note" in found else []
    when = f"As of {document['date'][:10]}{said} (commit {document['commit'][:7]})."
    shown = found.get("shown", range(len(found["head"])))
    head, *cells = ([each[place] for place in shown] for each in (found["head"], *rows))
    return "\n\n".join([markdown_table(head, cells), *note, when])


_MARKED = re.compile(r"(<!-- (?:table|figure): ([\w/-]+) -->)(\n?).*?(<!-- end -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """Return a document with its tables, and the figures in its sentences, made from the results."""

    def made(found: re.Match[str]) -> str:
        begin, name, line_end, end = found.groups()
        content = printed_table(name) if name.startswith("printed/") else MADE[name]()
        return f"{begin}{line_end}{content}{line_end}{end}"

    return _MARKED.sub(made, text)


# Output of commands

_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _commands(block: str) -> Iterator[str]:
    """Yield the commands of a block; a line that ends with a backslash goes on."""
    lines = iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            while line.endswith("\\"):
                line += "\n" + next(lines)
            yield line


def with_output(text: str, folder: Path) -> str:
    """Return a document with what its commands print now, run in ``folder``.

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


# The picture


def draw(path: Path = PICTURE) -> Path:
    """Draw predictions of networks of one profile with the latencies measured later, beside mean errors by kind of device."""
    from latcast import drawing

    profile = _profiles()[PICTURED][0]
    reported = sorted(
        (row for row in profile["per_network"] if outsiders.half_of(row["model"]) == "reported"),
        key=lambda row: row["measured_ms"],
    )
    rows = reported[1::3]
    places = np.arange(len(rows))
    predicted, low, high, measured = (
        np.array([row[key] for row in rows]) for key in ("latency_ms", "low_ms", "high_ms", "measured_ms")
    )
    figure = drawing.new_figure(10.0, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    left.barh(places, predicted, height=0.6, color=drawing.COLOURS[0], alpha=0.55, label="predicted")
    left.errorbar(
        predicted, places, xerr=(predicted - low, high - predicted), fmt="none", elinewidth=1.5, capsize=3,
        ecolor=drawing.COLOURS[0], label="90 % interval",
    )  # fmt: skip
    left.plot(measured, places, "D", color=drawing.COLOURS[1], markersize=5, label="measured")
    left.set_yticks(places, [row["model"].removeprefix("timm/") for row in rows])
    drawing.plain(left, "milliseconds, on one CPU core under ONNX Runtime", "")
    left.set_title("Networks of unknown designs, on a profiled CPU", fontsize="medium", loc="left")
    left.legend(fontsize="small", frameon=False, loc="lower right")

    groups = _means()
    errors = [groups[group]["mape"] for group in PICTURED_GROUPS]
    places = np.arange(len(errors))[::-1]
    bars = right.barh(places, errors, height=0.6, color=drawing.COLOURS[5], alpha=0.7)
    right.bar_label(bars, [f"{error:.0f} %" for error in errors], fontsize="small", padding=3)
    right.set_yticks(places, PICTURED_GROUPS)
    right.margins(x=0.12)
    drawing.plain(right, "mean error, %", "")
    right.set_title("Error on unseen kinds of networks", fontsize="medium", loc="left")
    for axes in (left, right):
        axes.grid(visible=False, axis="y")
        axes.grid(axis="x", linewidth=0.4, alpha=0.6)
    path.parent.mkdir(parents=True, exist_ok=True)
    return drawing.write(figure, path, dots_per_inch=130)
