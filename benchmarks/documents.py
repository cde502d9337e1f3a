"""What README.md and docs/ show, made from what was measured: tables, the picture, and what commands print.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``, a figure in a sentence between ``<!-- figure: NAME -->`` and
``<!-- end -->``. A fenced block of the kind ``console`` holds commands after
``$ `` and what they print; the commands of one document run in order in a folder of their own, with nothing of the user's.
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
from typing import Any

import numpy as np

from benchmarks import (
    budgets,
    choose,
    decisions,
    delegates,
    edits,
    levels,
    lineages,
    memory,
    mix_coverage,
    outsiders,
    peer,
    phone_splits,
    phone_transformers,
    phones,
    platforms,
    pool,
    rule_agreement,
    workgroups,
)
from benchmarks import devices as unknown_devices
from benchmarks.result_files import NOT_RECORDED, RESULTS, kept, kept_parts, read_document
from benchmarks.tables import learn_from_table, markdown_table, summary_table, target_cell
from latcast.devices.arbitration import NEW_LINEAGES, NEW_NETWORKS, NOTHING
from latcast.devices.members import FLOPS_AND_MEMORY
from latcast.errors import LatcastError
from latcast.predictors.bundle_index import SHIPPED_FOLDER, scan_bundles

ROOT = Path(__file__).resolve().parents[1]

PICTURE = ROOT / "docs" / "images" / "measured.png"

PICTURED = ("local/openvino-2026.4/cpu1/fp32", "local/onnxruntime-1.31/cpu1/fp32", "local/litert-2.3/cpu1/fp32")
"""Platforms that the picture shows."""

MEANS = ("mape", "within_5", "within_10", "interval_coverage", "label_error")

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


def _profiles() -> dict[str, list[Mapping[str, Any]]]:
    """Return what was judged on outsiders by platform, a document for each profile of it."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for document in kept_parts("outsiders").values():
        found.setdefault(document["platform"], []).append(document)
    return found


def _mean_reported(profiles: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the means over a platform's profiles of the figures of the reported half."""
    return {name: float(np.mean([each["reported"][name] for each in profiles])) for name in MEANS}


def overview_table() -> str:
    """This machine, the shipped phones and new devices: figures of lineages that nothing was learned from."""
    head = ["what is predicted", "label error %", "unseen lineages: MAPE %", "±5 %", "±10 %", "in the 90 % interval %",
            "target: MAPE %"]  # fmt: skip
    rows = []
    profiles = _profiles()
    for platform in sorted(profiles, key=lambda name: (name.rpartition("/")[2], name)):
        seeds, mean = profiles[platform], _mean_reported(profiles[platform])
        what = f"this machine, {platform.split('/', 1)[1]} ({len(seeds)} {'profile' if len(seeds) == 1 else 'profiles'})"
        target = target_cell(mean["label_error"] + outsiders.above_label_error(platform), mean["mape"])
        rows.append([what, f"{mean['label_error']:.1f}", *_cells(mean), target])
    for row in phones.summary():
        target = target_cell(phones.TARGETS[row["group"]]["cnn"], row["cnn_mape"], " for CNNs")
        rows.append([f"phones, {row['group']} ({row['platforms']} platforms)", "not known", *_cells(row, "lineage_"), target])
    for row in kept("pool")["rows"]:
        if row["networks"] == "all" and row["held_out"] == NEW_LINEAGES and row["kind"] in pool.KINDS_OF_ROWS:
            unit, comma, which = row["kind"].partition(",")
            what = f"{unit.upper()}s that others measured{comma}{which} ({row['platforms']} platforms)"
            rows.append([what, "not known", *_cells(row), "none"])
    for row in kept("devices")["rows"]:
        if (row["method"], row["measured"], row["held_out"]) == (unknown_devices.FORECAST, MEASURED, NEW_LINEAGES):
            what = f"a new {pool.unit_title(row['kind'])}, {MEASURED} networks timed ({row['platforms']} platforms)"
            target = target_cell(unknown_devices.target(row), row["mape"])
            rows += [[what, "not known", *_cells(row), target]] if row["kind"] in pool.KINDS_OF_ROWS else []
    return markdown_table(head, rows)


HELD_OUT = {
    NOTHING: "that other devices ran",
    unknown_devices.DRAWN_NETWORKS: "that none ran, drawn at random",
    NEW_NETWORKS: "that none ran, of lineages that none ran",
    NEW_LINEAGES: "of lineages not measured",
}


def devices_table() -> str:
    """A device that nobody measured, by the number of networks timed on it: mean MAPE, median in brackets, coverage."""
    document = kept("devices")
    found = {(row["kind"], row["held_out"], row["measured"], row["method"]): row for row in document["rows"]}
    rows = []
    for kind in pool.KINDS_OF_ROWS:
        for held_out, what in HELD_OUT.items():
            cells = []
            for measured in document["measured"]:
                row = found[kind, held_out, measured, unknown_devices.FORECAST]
                digits = 1 if row["mape"] < 100 and measured > 1 else 0
                cells.append(f"{row['mape']:.{digits}f} ({row['median_mape']:.{digits}f}), {row['coverage']:.0f}")
            simple = found[kind, held_out, MEASURED, FLOPS_AND_MEMORY]
            rows.append([pool.unit_title(kind), what, *cells, f"{simple['mape']:.0f}"])
    head = ["unit", "tested networks", *map(str, document["measured"]), f"FLOPs+MAC at {MEASURED}"]
    return markdown_table(head, rows)


def phones_table() -> str:
    """The shipped phones by runtime, kind of unit and precision: means over platforms, from the cards."""
    of_kind = ("MAPE %", "±10 %", "interval coverage %", "target: MAPE %")
    head = ["platforms"]
    for kind in ("CNNs", "transformers"):
        head += [f"{kind}, lineages held out: {of_kind[0]}", *of_kind[1:]]
    head += ["random networks held out: MAPE %", "±10 %"]
    rows = []
    for row in phones.summary():
        cells = []
        for kind in ("cnn", "transformer"):
            mape, within_10, coverage = (row[f"{kind}_{key}"] for key in phones.KINDS_FIGURES)
            known = mape is not None
            target = target_cell(phones.TARGETS[row["group"]].get(kind), mape) if known else ""
            cells += [f"{mape:.1f}", f"{within_10:.0f}", f"{coverage:.0f}", target] if known else [""] * len(of_kind)
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

    return speed.speed_table(kept("speed"))


def _list_by_kind(missed: Sequence[str]) -> str:
    """Return the targets that are missed as a list, a line for each kind of unit, which each sentence begins with."""
    found: dict[str, list[str]] = {}
    for text in missed:
        kind, _, rest = text.partition(", ")
        found.setdefault(kind, []).append(rest)
    return "\n".join(f"- {kind.upper()}: {'; '.join(each)}." for kind, each in found.items()) or "None."


def _part(markdown: str, *, without: Sequence[str] = (), rows: Callable[[str], bool] = lambda _: True) -> str:
    """Return a table with the rows that `rows` accepts, and without some columns; what stands below it stays."""
    head, _, *lines = markdown.splitlines()
    left = [place for place, name in enumerate(head.split(" | ")) if name.strip("| ") not in without]

    def cut(line: str) -> str:
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        return f"| {' | '.join(cells[place] for place in left)} |"

    kept_lines = [cut(line) if line.startswith("|") else line for line in lines if not line.startswith("|") or rows(line)]
    return "\n".join([cut(head), "|" + "---|" * len(left), *kept_lines])


def _reported(row: str) -> bool:
    """Return whether a row is of the networks that nobody looked at one by one."""
    return "looked at" not in row


UNTOLD_PAIRS = ("most often by the rules alone", "by the runtime alone")
"""Columns of agreement that the command prints and the document leaves out."""

TABLES: Mapping[str, Callable[[], str]] = {
    "overview": overview_table,
    "platforms": platforms_table,
    "runtimes": runtimes_table,
    "devices": devices_table,
    "devices-missed": lambda: _list_by_kind(unknown_devices.missed(kept("devices")["rows"])),
    "facts": lambda: unknown_devices.facts_markdown(kept("facts")),
    "phones": phones_table,
    "choose": choose.choose_table,
    "memory": memory.memory_table,
    "decisions": decisions.decisions_table,
    "pool": lambda: pool.markdown(kept("pool")["rows"]),
    "pool-missed": lambda: _list_by_kind(pool.missed_coverage(kept("pool")["rows"])),
    "pool-sources": pool.sources_table,
    "reliability": decisions.reliability_table,
    "mix-coverage": mix_coverage.coverage_table,
    "budgets": lambda: _part(budgets.budgets_table(), rows=_reported),
    "lineages": lambda: lineages.lineages_table(kept("lineages")),
    "levels": levels.levels_table,
    "agreement": lambda: _part(rule_agreement.agreement_table(), without=UNTOLD_PAIRS),
    "outsiders": lambda: _part(outsiders.outsiders_table(kept_parts("outsiders")), rows=_reported),
    "outsiders-third": outsiders.third_table,
    "outsiders-known-blocks": lambda: outsiders.known_blocks_table(kept_parts("outsiders")),
    "instruction-sets": outsiders.instruction_sets_table,
    "accuracy": lambda: summary_table(kept_parts("accuracy")),
    "learn-from": lambda: learn_from_table(kept_parts("accuracy"), kept_parts("learn_from")),
    "speed": speed_table,
    "workgroups": workgroups.workgroups_table,
    "edits": lambda: edits.edits_table(kept("edits")),
    "delegates": lambda: delegates.delegates_table(kept("delegates")),
    "delegates-routes": lambda: delegates.routes_table(kept("delegates")),
    "delegates-gpu": lambda: delegates.gpu_table(kept("delegates")),
    "peer": lambda: peer.table(kept("peer")),
    "phone-lineages": phones.lineages_table,
    "phone-splits": lambda: phone_splits.splits_table(kept("phone_splits")["summary"]),
    "phone-transformers": lambda: _part(
        phone_transformers.figures_table([*kept_parts("phone_transformers").values()]), rows=lambda row: "**" in row
    ),
    "transfer": lambda: _part(platforms.targets_table(kept("platforms")), without=["convolutions from"]),
    "transfer-rivals": lambda: platforms.rivals_table(kept("platforms")),
}


def table(name: str) -> str:
    """Return a table of :data:`TABLES`, or under "printed/NAME" one that was made once and is kept as it was."""
    if not name.startswith("printed/"):
        return TABLES[name]()
    document = read_document(RESULTS / f"{name}.json")
    found, by = document["data"], document["command"]
    said = "" if by == NOT_RECORDED else f", made with `{by}`"
    rows = [[cell.replace("|", "\\|") for cell in row] for row in found["rows"]]
    return f"{markdown_table(found['head'], rows)}\n\nAs of {document['date'][:10]}{said}."


_TABLE = re.compile(r"(<!-- table: ([\w/-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


FIGURES: Mapping[str, Callable[[], float]] = {
    "transfer-mape": lambda: kept("platforms")["mean"]["whole pool"]["mape"],
    "scratch-mape": lambda: kept("platforms")["mean"]["from scratch"]["mape"],
    "pytorch-int8-transformers-mape": lambda: _of_group("pytorch cpu int8")["transformer_mape"],
}
"""Figures that sentences hold, to one decimal."""

_FIGURE = re.compile(r"(<!-- figure: ([\w-]+) -->).*?(<!-- end -->)")


def _of_group(name: str) -> Mapping[str, Any]:
    """Return the row of a group of shipped phones."""
    return next(row for row in phones.summary() if row["group"] == name)


def with_tables(text: str) -> str:
    """A document with its tables, and the figures in its sentences, made anew."""
    text = _FIGURE.sub(lambda found: f"{found[1]}{FIGURES[found[2]]():.1f}{found[3]}", text)
    return _TABLE.sub(lambda found: f"{found[1]}{table(found[2])}\n{found[3]}", text)


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
    """Draw predicted against measured latencies of the reported networks by each profile, with 90 % intervals."""
    from matplotlib.ticker import FormatStrFormatter

    from latcast import drawing

    profiles = _profiles()
    shown = {
        name: [
            row for document in profiles[name] for row in document["per_network"] if outsiders.half_of(row["model"]) == "reported"
        ]
        for name in PICTURED
    }
    rows = [row for each in shown.values() for row in each]
    ends = np.array([min(row["low_ms"] for row in rows) / 1.3, max(row["high_ms"] for row in rows) * 1.3])
    figure = drawing.new_figure(9.0, 3.5)
    panels = figure.subplots(1, len(PICTURED), sharex=True, sharey=True)
    for place, (axes, name) in enumerate(zip(panels, PICTURED, strict=True)):
        measured, predicted, low, high = (
            np.array([row[key] for row in shown[name]]) for key in ("measured_ms", "latency_ms", "low_ms", "high_ms")
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
        mean = _mean_reported(profiles[name])
        title = f"{name.split('/')[1]}: MAPE {mean['mape']:.1f} %,\nlabel error {mean['label_error']:.1f} %"
        axes.set_title(title, fontsize="small")
        axes.legend(fontsize="x-small", frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    return drawing.write(figure, path, dots_per_inch=130)
