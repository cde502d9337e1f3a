"""Table 4: transfer to many platforms beside its rivals, from what the benchmark of platforms found.

The measuring takes most of an hour, so that it is a benchmark of its own (``python -m benchmarks platforms``), which leaves a
document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latcast.errors import DatasetError
from papers.comparison import Cell, Comparison

TABLE_4: Mapping[str, tuple[float, float]] = {
    "HELP": (12.2, 22.6),
    "HELP*": (40.4, 52.4),
    "nn-Meter": (66.1, 97.4),
    "LitePred": (96.9, 100.0),
}
"""Method to the share of networks within ±5 % and ±10 %, in percent: means over the table's four platforms."""

RIVALS: tuple[tuple[str, str, str], ...] = (
    ("whole pool", "transferred, whole pool", "LitePred"),
    ("other runtimes", "transferred, other runtimes alone", ""),
    ("from scratch", "from scratch, the same kernels", "nn-Meter"),
    ("most similar as it is", "the most similar predictor as it is", ""),
    ("10 networks, regression", "10 whole networks, Gaussian regression over platforms", "HELP"),
    ("10 networks, one factor", "10 whole networks, one factor on the best platform", ""),
)
"""Name in the document, in the table, and the paper's method of its kind."""


def read_platforms(path: Path) -> Mapping[str, Any]:
    """The document of ``python -m benchmarks platforms judge``.

    Raises:
        DatasetError: It is none.
    """
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["targets"] and document["mean"]:
            return document
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise DatasetError(
            f"{path} is no document of platforms ({problem}); expected what python -m benchmarks platforms judge writes"
        ) from problem
    raise DatasetError(f"{path} judges no platform yet; measure some: python -m benchmarks platforms measure")


def table_4(document: Mapping[str, Any]) -> Comparison:
    """Transfer beside rivals, means over targets."""
    rows: list[tuple[Cell, ...]] = []
    for key, title, theirs in RIVALS:
        mean = document["mean"][key]
        paper: tuple[Cell, Cell] = TABLE_4.get(theirs, (None, None))
        rows.append((title, mean["mape"], mean["within_5"], mean["within_10"], mean["rmse_ms"], theirs or None, *paper))
    measured = document["mean"]["measured"]
    return Comparison(
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
