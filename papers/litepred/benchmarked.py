"""Tables 4 and 6 from documents of the project's own benchmarks: transfer beside its rivals, and samplers.

Their measuring takes long: ``python -m benchmarks platforms`` does the first, and benchmarks/results/samplers holds the second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latcast.errors import DatasetError
from papers.harness import Cell, PaperTable, mean
from papers.litepred import paper

RIVALS: tuple[tuple[str, str, str], ...] = (
    ("whole pool", "transferred, whole pool", "LitePred"),
    ("other runtimes", "transferred, other runtimes alone", ""),
    ("from scratch", "from scratch, the same kernels", "nn-Meter"),
    ("most similar as it is", "the most similar predictor as it is", ""),
    ("10 networks, regression", "10 whole networks, Gaussian regression over platforms", "HELP"),
    ("10 networks, one factor", "10 whole networks, one factor on the best platform", ""),
)
"""Name in the document, in the table, and the paper's method of its kind."""


def read_document(path: Path, benchmark: str) -> Mapping[str, Any]:
    """Read the data of a file of benchmarks/results.

    Raises:
        DatasetError: The file cannot be read, or is no file of results.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise DatasetError(f"cannot read {path}: {problem}; expected results of the benchmark {benchmark}") from problem
    if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
        raise DatasetError(f'{path} holds no "data"; expected results of the benchmark {benchmark}')
    data: dict[str, Any] = document["data"]
    return data


def table_4(document: Mapping[str, Any]) -> PaperTable:
    """Transfer beside rivals, means over targets.

    Raises:
        DatasetError: The document is not one of the benchmark of platforms, or judges none yet.
    """
    if not document.get("targets") or not document.get("mean"):
        raise DatasetError("the document judges no platform; make it with: python -m benchmarks platforms measure, then judge")
    rows: list[tuple[Cell, ...]] = []
    for key, title, theirs in RIVALS:
        means = document["mean"][key]
        printed: tuple[Cell, Cell] = paper.TABLE_4.get(theirs, (None, None))
        rows.append((title, means["mape"], means["within_5"], means["within_10"], means["rmse_ms"], theirs or None, *printed))
    measured = document["mean"]["measured"]
    return PaperTable(
        "table 4", f"transfer and rivals, mean over {len(document['targets'])} platforms of one machine",
        ("method", "MAPE %", "±5 %", "±10 %", "RMSE ms", "in the paper", "paper ±5 %", "paper ±10 %"), tuple(rows),
        (
            f"Label error {measured['label_error']:.1f} %; {measured['kernels']:.0f} different kernels and "
            f"{measured['seconds']:.0f} seconds of measuring a platform.",
            "The paper's nn-Meter has 100,000 to 400,000 kernels, its HELP* as much measuring time as LitePred (1,000 to 3,000 "
            "networks); ours from scratch has what transfer has.",
            "The paper judges on variants of MobileNetV3 alone, here on real networks of unseen families and four search spaces.",
        ),
    )  # fmt: skip


TYPES = ("conv", "depthwise_conv")

JUDGED_ON = {
    "grid": "a fixed test set over the whole grid that no sampler saw",
    "networks": "kernels of networks of families that no sampler learned from",
}


def table_6(document: Mapping[str, Any], device: str) -> PaperTable:
    """Return the share of kernels within ±10 % after as many measurements with each sampler, the paper's beside.

    Raises:
        DatasetError: The document is not one of that benchmark.
    """
    try:
        last = _last_points(document)
    except (KeyError, TypeError, IndexError) as problem:
        raise DatasetError(f"found no curves of samplers ({problem!r}), expected results of the benchmark samplers") from problem
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
    return PaperTable(
        "table 6", "kernels within ±10 %, by what chose the samples",
        ("platform", "sampler", "samples", "Conv within ±10 %", "Conv MAPE %", "DWConv within ±10 %", "DWConv MAPE %"),
        tuple(rows),
        (
            f"The paper judges on kernels of its search spaces, from which its sampler learns; here on {judged}, "
            "with the kernels of other networks to learn from.",
            f"Mean of {len({arm['seed'] for arm in document['arms']})} seeds.",
        ),
    )  # fmt: skip


def _last_points(document: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return the last point of every curve, by kernel type and sampler."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for arm in document["arms"]:
        points = [point for point in arm["curve"] if point["trained_on"] == "everything"]
        found.setdefault((arm["kernel_type"], arm["sampler"]), []).append(points[-1])
    return found
