"""Whether `latcast check` finds what makes a network slower: edits of real networks, timed here beside their base.

Base and edited network run in turn in one process, so that the host's state cancels; growth is the median of the rounds' ratios.
What was timed is kept in a file of lines and not timed again.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import markdown_table
from latcast.graph.ir import Graph
from latcast.records import Reference
from latcast.report.check import LIKELY_GROWN, MOST_LIKELY, check
from latcast.spaces.catalogue import build, model

BASES = ("squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x1_0", "mobilenet_v2", "resnet18")

SIDES = tuple(range(128, 289, 16))

FIELDS = {"kernel": "kernels", "activation": "activations", "block": "depths"}
"""Kind of edit to the parameter of a family that it changes."""

ROUNDS, WARM_UPS = 15, 2

TRUE_GROWTH, ALLOWED_GROWTH = 10.0, 5.0
"""Percent: what is to be found, and the limit that is checked against; below it an alarm is false."""


@dataclass(frozen=True)
class Edit:
    """One edit.

    Attributes:
        base: Published network.
        kind: What is edited.
        parameters: Of the edited network.
        side: Of its image.
    """

    base: str
    kind: str
    parameters: Mapping[str, Any]
    side: int = 224

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def graph(self) -> Graph:
        from latcast.networks import ModelOptions, read_model

        reference = model(self.base)
        edited = Reference(reference.space, dict(self.parameters))
        if self.side == 224:
            return build(edited)
        return read_model(edited, ModelOptions({build(edited).inputs[0]: (1, 3, self.side, self.side)}))


def edits(count: int, seed: int = 0) -> Iterator[Edit]:
    """So many different edits of channels, kernel sizes, blocks, resolution and activations; what changes nothing is left out."""
    random = np.random.default_rng(seed)
    found: set[str] = set()
    for base in cycle(BASES):
        if len(found) == count:
            return
        parameters = json.loads(json.dumps(dict(model(base).parameters)))
        kinds = ["channels", "resolution"]
        kinds += [kind for kind, field in FIELDS.items() if field in parameters]
        kind, side = str(random.choice(kinds)), 224
        if kind == "resolution":
            side = int(random.choice(SIDES))
        elif kind == "channels":
            field = "widths" if "widths" in parameters else "stem"
            place = int(random.integers(len(parameters[field]))) if field == "widths" else 0
            widened = parameters[field][place] * random.uniform(0.6, 2.0)
            parameters[field][place] = 8 * max(1, round(widened / 8))
        elif kind == "kernel":
            for place in random.integers(len(parameters["kernels"]), size=random.integers(1, 4)):
                parameters["kernels"][place] = int(random.choice([3, 5, 7]))
        elif kind == "activation":
            for place in random.integers(len(parameters["activations"]), size=random.integers(1, 4)):
                was = parameters["activations"][place]
                parameters["activations"][place] = "relu" if was == "hard_swish" else "hard_swish"
        else:
            place = int(random.integers(len(parameters["depths"])))
            parameters["depths"][place] += int(random.choice([-1, 1, 2]))
        edit = Edit(base, kind, parameters, side)
        unchanged = Edit(base, kind, json.loads(json.dumps(dict(model(base).parameters))))
        if edit != unchanged and edit.key not in found:
            found.add(edit.key)
            yield edit


def measured_growth(base: Graph, edited: Graph) -> tuple[float, float]:
    """Growth in percent, and half the difference of what the two halves of the rounds say."""
    import onnxruntime

    from latcast.graph.writers.onnx import to_onnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    sessions = []
    for graph in (base, edited):
        session = onnxruntime.InferenceSession(to_onnx(graph), options, providers=["CPUExecutionProvider"])
        name = graph.inputs[0]
        sessions.append((session, {name: np.random.default_rng(0).standard_normal(graph.shape(name)).astype(np.float32)}))
    seconds = np.zeros((ROUNDS, 2))
    for row in range(-WARM_UPS, ROUNDS):
        for place, (session, inputs) in enumerate(sessions):
            start = time.perf_counter()
            session.run(None, inputs)
            seconds[max(row, 0), place] = time.perf_counter() - start
    ratio = seconds[:, 1] / seconds[:, 0]
    halves = [100 * (float(np.median(part)) - 1) for part in (ratio[::2], ratio[1::2])]
    return 100 * (float(np.median(ratio)) - 1), abs(halves[0] - halves[1]) / 2


def measure(path: Path, count: int, platform: str, seconds: float) -> list[dict[str, Any]]:
    """Times edits until the time is up; returns all that the file holds."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {row["key"] for row in rows}
    stop = time.monotonic() + seconds
    for edit in edits(count):
        if edit.key in done or time.monotonic() > stop:
            continue
        done.add(edit.key)
        base, edited = build(model(edit.base)), edit.graph()
        growth, error = measured_growth(base, edited)
        [found] = check(edited, against=base, on=platform, max_growth=ALLOWED_GROWTH).checks
        row = {
            "key": edit.key, "base": edit.base, "kind": edit.kind, "growth": growth, "error": error, "predicted": found.value,
            "low": found.growth_low_percent, "high": found.growth_high_percent, "probability": found.probability,
        }  # fmt: skip
        rows.append(row)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return rows


def judge(rows: Sequence[Mapping[str, Any]], fail_above: float = 50.0) -> dict[str, Any]:
    """Shares in percent: growths of 10 % that were found, and alarms where it grew by less than the limit."""
    alarm = np.array([100 * row["probability"] > fail_above for row in rows])
    growth = np.array([row["growth"] for row in rows])
    grown, allowed = growth >= TRUE_GROWTH, growth < ALLOWED_GROWTH
    inside = [row["low"] <= row["growth"] <= row["high"] for row in rows]
    return {
        "edits": len(rows),
        "fail_above": fail_above,
        "grown": int(grown.sum()),
        "found": round(100 * float(alarm[grown].mean()), 1) if grown.any() else None,
        "allowed": int(allowed.sum()),
        "false_alarms": round(100 * float(alarm[allowed].mean()), 1) if allowed.any() else None,
        "interval_coverage": round(100 * float(np.mean(inside)), 1) if len(rows) else None,
        "label_error": round(float(np.mean([row["error"] for row in rows])), 2) if len(rows) else None,
    }


THRESHOLDS = tuple(range(50, 100, 5))


def judged(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All edits at the default of a budget, at that of growth and at the extremes; and at what one half of them would choose.

    The last row is of the other half: the threshold is that with the fewest alarms and growths not found, both in percent.
    """
    half = [zlib.crc32(row["key"].encode()) % 2 == 0 for row in rows]
    chosen_by = [row for row, first in zip(rows, half, strict=True) if first]
    others = [row for row, first in zip(rows, half, strict=True) if not first]

    def cost(threshold: float) -> float:
        found = judge(chosen_by, threshold)
        return (100 - (found["found"] or 0)) + (found["false_alarms"] or 0)

    each = [{**judge(rows, threshold), "of": "all"} for threshold in (5.0, MOST_LIKELY, LIKELY_GROWN, 95.0)]
    return [*each, {**judge(others, min(THRESHOLDS, key=cost)), "of": "half, at what the other half chooses"}]


SHOWN = (50.0, 65.0, 95.0)
"""Values of `--fail-above` in the table."""


def edits_table(found: Mapping[str, Any]) -> str:
    """Return the growths found and false alarms by `--fail-above`, and how they are at what one half of the edits chooses."""
    of_all = [row for row in found["judged"] if row["of"] == "all"]
    first, half = of_all[0], next(row for row in found["judged"] if row["of"] != "all")
    rows = [
        [f"{row['fail_above']:.0f}", f"{row['found']:.1f} %", f"{row['false_alarms']:.1f} %"]
        for row in of_all
        if row["fail_above"] in SHOWN
    ]
    head = [
        "`--fail-above`",
        f"growths of 10 % and more found at a limit of 5 % ({first['grown']})",
        f"false alarms among growths below 5 % ({first['allowed']})",
    ]
    said = (
        f"{half['fail_above']} is the default, and what one half of the edits chooses; on the other half it finds "
        f"{half['found']:.0f} % at {half['false_alarms']:.1f} % false alarms. "
        f"{first['interval_coverage']:.0f} % of all growths lie in their 90 % interval; "
        f"the label error is {first['label_error']:.1f} %."
    )
    return f"{markdown_table(head, rows)}\n\n{said}"
