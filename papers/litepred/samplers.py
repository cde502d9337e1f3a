"""Table 6: samplers at equal numbers of measurements, from what ``python -m benchmarks samplers`` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latcast.errors import DatasetError
from papers.comparison import Cell, Comparison, mean
from papers.litepred import paper

TYPES = ("conv", "depthwise_conv")

JUDGED_ON = {
    "grid": "a fixed test set over the whole grid that no sampler saw",
    "networks": "kernels of networks of families that no sampler learned from",
}


def table_6(document: Mapping[str, Any], device: str) -> Comparison:
    """The share of kernels within ±10 % after as many measurements with each sampler, the paper's beside.

    Args:
        document: Arms of samplers with their curves.
        device: What was measured, for the rows' names.

    Raises:
        DatasetError: The document is not one of that benchmark.
    """
    try:
        last = _last_points(document)
    except (KeyError, TypeError, IndexError) as problem:
        raise DatasetError(f"found no curves of samplers ({problem!r}), expected what 'benchmarks samplers' wrote") from problem
    samplers = sorted({sampler for _, sampler in last})
    rows: list[tuple[Cell, ...]] = [
        (name, sampler, 10_000, convolutions, None, depthwise, None)
        for (name, sampler), (convolutions, depthwise) in paper.TABLE_6.items()
    ]
    for sampler in samplers:
        cells: list[Cell] = [device, sampler, int(document["count"])]
        for kernel_type in TYPES:
            points = last.get((kernel_type, sampler), [])
            cells += [mean([point["within_10"] for point in points]), mean([point["mape"] for point in points])]
        rows.append(tuple(cells))
    judged = JUDGED_ON[str(document.get("judged_on", "grid"))]
    return Comparison(
        "table 6", "kernels within ±10 %, by what chose the samples",
        ("platform", "sampler", "samples", "Conv within ±10 %", "Conv MAPE %", "DWConv within ±10 %", "DWConv MAPE %"),
        tuple(rows),
        (
            f"The paper judges on kernels of its search spaces, from which its sampler learns; here on {judged}, "
            "with the kernels of other networks to learn from.",
            f"Mean of {len({arm['seed'] for arm in document['arms']})} seeds.",
        ),
    )  # fmt: skip


def read_benchmark(path: Path) -> Mapping[str, Any]:
    """A benchmark's document.

    Raises:
        DatasetError: The file cannot be read, or is no JSON object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise DatasetError(f"cannot read {path}: {problem}") from problem
    if not isinstance(document, dict):
        raise DatasetError(f"{path} holds a {type(document).__name__}; expected an object of the benchmark of samplers")
    return document


def _last_points(document: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """The last point of every curve, by kernel type and sampler."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for arm in document["arms"]:
        points = [point for point in arm["curve"] if point["trained_on"] == "everything"]
        found.setdefault((arm["kernel_type"], arm["sampler"]), []).append(points[-1])
    return found
