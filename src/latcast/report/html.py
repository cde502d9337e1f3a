"""A report on one network as one HTML file, which fetches nothing and needs no scripts to be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latcast.drawing import LogAxis
from latcast.errors import LatcastError
from latcast.extras import require
from latcast.networks import Model, ModelKeywords
from latcast.platforms import On, Platforms
from latcast.predictors.analytical import LIMITS
from latcast.predictors.conditions import STEADY, Conditions, bounded_text
from latcast.predictors.prediction import Prediction
from latcast.report.explain import Explanation, explain
from latcast.tables import decimal, milliseconds
from latcast.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Template
    from typing_extensions import Unpack

    from latcast.llm.explanation import LanguageExplanation

TEMPLATES = Path(__file__).with_name("templates")

SMALLEST_SHARE = 0.004
"""Part of the latency below which neighbours in the icicle are one cell."""

ROW_HEIGHT, LANE_WIDTH, MOST_LANES = 26, 9, 8
"""Sizes of the graph's drawing, in CSS pixels; connections beyond so many lanes share the last."""


def report(
    model: Model,
    on: On | Platforms,
    path: str | os.PathLike[str],
    *,
    conditions: Conditions = STEADY,
    **options: Unpack[ModelKeywords],
) -> Path:
    """Write a report on a network: where its time goes on platforms, how sure that is, and what would make it faster.

    Args:
        model, shapes, strict, trust, example_inputs, values: As for :func:`latcast.predict`.
        on: A platform, or a list of them.
        path: The HTML file.
        conditions: Further latencies that are asked for.

    Returns:
        The file.

    Raises:
        MissingExtraError: Jinja is not installed.
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        LatcastError: The file cannot be written.

    Example:
        >>> import latcast
        >>> latcast.report("resnet18", "pixel4/tflite-2.10/gpu/fp16", "report.html").name
        'report.html'
    """
    check_reportable()
    found = explain(model, on, conditions=conditions, **options)
    return write_report([found] if isinstance(found, Explanation) else found, path)


def check_reportable() -> None:
    """Raise if a report cannot be written there; for commands that work long before they write it.

    Raises:
        MissingExtraError: Jinja is not installed.
    """
    require("a report", "jinja2")


def write_report(explanations: Sequence[Explanation], path: str | os.PathLike[str]) -> Path:
    """Write a report on one network that is explained already; see :func:`report`."""
    return _written(rendered(explanations), path)


def write_language_report(explanations: Sequence[LanguageExplanation], path: str | os.PathLike[str]) -> Path:
    """Write a report on one language model, the platform with the fastest answer first.

    Raises:
        MissingExtraError: Jinja is not installed.
        LatcastError: The file cannot be written.
    """
    fastest_first = sorted(explanations, key=lambda each: each.prediction.answer_ms)
    template = _template("language.html")
    return _written(template.render(model=fastest_first[0].prediction.model, version=VERSION, explanations=fastest_first), path)


def _written(html: str, path: str | os.PathLike[str]) -> Path:
    file = Path(path)
    try:
        file.write_text(html, encoding="utf-8")
    except OSError as problem:
        raise LatcastError(f"cannot write {file}: {problem.strerror}") from problem
    return file


def _template(name: str) -> Template:
    check_reportable()
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["ms"] = milliseconds
    environment.filters["arrows"] = lambda text: text.replace("->", "→")
    environment.filters["percent"] = decimal
    return environment.get_template(name)


def rendered(explanations: Sequence[Explanation]) -> str:
    """Return the report's HTML, the fastest platform first: which one it is, and how far the others are behind, is asked most.

    Raises:
        LatcastError: There is nothing to report on.
        MissingExtraError: Jinja is not installed.
    """
    if not explanations:
        raise LatcastError("nothing to report on: expected the explanation of a network on at least one platform")
    fastest_first = sorted(explanations, key=lambda each: each.prediction.latency_ms)
    axis = LogAxis.over(value for each in explanations for value in (each.prediction.low_ms, each.prediction.high_ms))
    return _template("report.html").render(
        model=explanations[0].prediction.model,
        version=VERSION,
        axis=axis,
        platforms=[_platform(each, axis) for each in fastest_first],
        limits=LIMITS,
        row_height=ROW_HEIGHT,
    )


@dataclass
class Cell:
    """A module or a kernel in the icicle.

    Attributes:
        name: Its part of the path.
        latency_ms: What it takes.
        percent: The same of the whole latency.
        limit: Of a kernel; of a module that of most of its time.
        cells: What is in it, in execution order.
    """

    name: str
    latency_ms: float = 0.0
    percent: float = 0.0
    limit: str = ""
    cells: list[Cell] = field(default_factory=list)


def icicle(found: Prediction) -> Cell:
    """Return the kernels of a prediction as a tree by module path, small neighbours as one cell, and the overhead as another."""
    root = Cell(found.model, found.latency_ms)
    for kernel in found.kernels:
        if kernel.latency_ms <= 0:
            continue
        place = root
        for part in kernel.module.split(".") if kernel.module else ():
            if not (place.cells and place.cells[-1].name == part and place.cells[-1].cells):
                place.cells.append(Cell(part))
            place = place.cells[-1]
        place.cells.append(Cell(kernel.kernel_type if kernel.module else kernel.name, kernel.latency_ms, limit=kernel.limit))
    if found.overhead_ms > 0:
        root.cells.append(Cell(found.overhead_name, found.overhead_ms, limit="overhead"))
    _sum_up(root)
    whole_ms = root.latency_ms or 1.0
    _trim(root, SMALLEST_SHARE * whole_ms)
    _shares(root, whole_ms)
    return root


def _sum_up(cell: Cell) -> None:
    for each in cell.cells:
        _sum_up(each)
    if len(cell.cells) == 1:
        [only] = cell.cells
        cell.name = f"{cell.name}.{only.name}" if only.cells else cell.name
        cell.latency_ms, cell.limit, cell.cells = only.latency_ms, only.limit, only.cells
    elif cell.cells:
        cell.latency_ms = sum(each.latency_ms for each in cell.cells)
        sums = {limit: sum(each.latency_ms for each in cell.cells if each.limit == limit) for limit in LIMITS}
        cell.limit = max(LIMITS, key=lambda limit: sums[limit])


def _trim(cell: Cell, least_ms: float) -> None:
    kept: list[Cell] = []
    rest: list[Cell] = []

    def close() -> None:
        if len(rest) == 1:
            kept.append(rest[0])
        elif rest:
            kept.append(Cell(f"{len(rest)} small", sum(each.latency_ms for each in rest), limit=rest[0].limit))
        rest.clear()

    for each in cell.cells:
        if each.latency_ms < least_ms:
            rest.append(each)
            continue
        close()
        _trim(each, least_ms)
        kept.append(each)
    close()
    cell.cells = kept


def _depth(cell: Cell) -> int:
    return 1 + max(map(_depth, cell.cells), default=0)


def _shares(cell: Cell, whole_ms: float) -> None:
    cell.percent = 100 * cell.latency_ms / whole_ms
    for each in cell.cells:
        _shares(each, whole_ms)


def connections(explanation: Explanation) -> list[tuple[int, int]]:
    """Return which kernels read the results of which, by their places in the prediction, each pair once, in order."""
    kernels = explanation.prediction.kernels
    kernel_of = {name: place for place, kernel in enumerate(kernels) for name in kernel.nodes}
    graph = explanation.graph
    found: dict[tuple[int, int], None] = {}
    for node in graph.nodes:
        for name in node.inputs:
            maker = graph.producers.get(name)
            if maker is not None and node.name in kernel_of and maker.name in kernel_of:
                pair = (kernel_of[maker.name], kernel_of[node.name])
                if pair[0] != pair[1]:
                    found[pair] = None
    return sorted(found)


def _lanes(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return connections that skip kernels, each with the lane in which it is drawn: those in one lane do not overlap."""
    ends: list[int] = []
    found = []
    for first, last in sorted(pairs, key=lambda pair: (pair[0], pair[1] - pair[0])):
        lane = next((place for place, end in enumerate(ends) if end <= first), len(ends))
        if lane == len(ends) and lane < MOST_LANES:
            ends.append(last)
        elif lane < len(ends):
            ends[lane] = last
        found.append((first, last, min(lane, MOST_LANES - 1)))
    return found


def _platform(explanation: Explanation, axis: LogAxis) -> dict[str, Any]:
    """Return what the template shows of one platform."""
    found = explanation.prediction
    whole_ms = found.latency_ms or 1.0
    slowest_ms = max((kernel.latency_ms for kernel in found.kernels), default=0.0) or 1.0
    largest_ms = max((-hint.difference_ms for hint in explanation.hints), default=0.0) or 1.0
    modules = any(kernel.module for kernel in found.kernels)
    counts: dict[str, int] = {}
    for kernel in found.kernels:
        counts[kernel.kernel_type] = counts.get(kernel.kernel_type, 0) + 1
    by_limit, cells = found.by_limit(), icicle(found)
    pairs = connections(explanation)
    skips = _lanes([(first, last) for first, last in pairs if abs(last - first) > 1])
    width = LANE_WIDTH * (2 + max((lane for _, _, lane in skips), default=0) + 1)
    right = width - LANE_WIDTH / 2

    def middle(place: int) -> float:
        return ROW_HEIGHT * (place + 0.5)

    straight = [f"M{right:g} {middle(first):g}V{middle(last):g}" for first, last in pairs if abs(last - first) == 1]
    curved = []
    for first, last, lane in skips:
        left = right - LANE_WIDTH * (lane + 1.5)
        curved.append(f"M{right:g} {middle(first):g}C{left:g} {middle(first):g} {left:g} {middle(first):g} {left:g} "
                      f"{middle(first) + ROW_HEIGHT / 2:g}V{middle(last) - ROW_HEIGHT / 2:g}C{left:g} {middle(last):g} {left:g} "
                      f"{middle(last):g} {right:g} {middle(last):g}")  # fmt: skip
    return {
        "id": found.platform,
        "found": found,
        "memory": explanation.memory_line(),
        "conditions": [f"{name}: {bounded_text(bounded)}" for name, bounded in found.under_conditions().items()],
        "kind": "uncalibrated" if found.level is None else f"{found.level:g} %",
        "bar": [axis.x(value) for value in (found.low_ms, found.latency_ms, found.high_ms)],
        "limits": [(name, by_limit[name], 100 * by_limit[name] / whole_ms) for name in LIMITS if name in by_limit],
        "types": [(name, counts[name], spent_ms, 100 * spent_ms / whole_ms) for name, spent_ms in found.by_type().items()],
        "overhead": 100 * found.overhead_ms / whole_ms,
        "modules": modules,
        "icicle": cells,
        "depth": _depth(cells),
        "covers_all": all(kernel.covered for kernel in found.kernels),
        "hints": [(hint, 100 * -hint.difference_ms / largest_ms) for hint in explanation.hints],
        "tried": explanation.tried,
        "rough": explanation.rough,
        "kernels": [
            {
                "place": place,
                "of": kernel,
                "operators": " + ".join(kernel.operators),
                "percent": 100 * kernel.latency_ms / whole_ms,
                "heat": 100 * kernel.latency_ms / slowest_ms,
                "how": "" if kernel.covered else "estimated",
            }
            for place, kernel in enumerate(found.kernels)
        ],
        "drawing": {
            "width": width,
            "height": ROW_HEIGHT * len(explanation.prediction.kernels),
            "right": right,
            "straight": "".join(straight),
            "curved": curved,
        },
    }
