"""How predictions of phones and networks are judged, and how the figures of many splits become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from latcast.datasets.splits import by_device, by_group
from latcast.predictors.metrics import judge
from papers.comparison import Cell
from papers.iiswc20.pieces import Row
from papers.iiswc20.published import Published

METRICS = ("r2", "mape", "within_5", "within_10", "rmse_ms", "rmspe", "spearman")

HEADINGS = ("R²", "MAPE %", "±5 %", "±10 %", "RMSE ms", "RMSPE %", "Spearman")
"""Of :data:`METRICS`, in order."""


def r_squared(predicted_ms: np.ndarray, actual_ms: np.ndarray) -> float:
    """Coefficient of determination over all cells, as the paper uses it."""
    residual = float(((predicted_ms - actual_ms) ** 2).sum())
    return 1 - residual / float(((actual_ms - actual_ms.mean()) ** 2).sum())


def figures(
    predicted_ms: np.ndarray, actual_ms: np.ndarray, low_ms: np.ndarray | None = None, high_ms: np.ndarray | None = None
) -> Row:
    """All figures of predicted cells, of any shape."""
    flat = [None if part is None else part.ravel() for part in (low_ms, high_ms)]
    found = judge(predicted_ms.ravel(), actual_ms.ravel(), flat[0], flat[1]).to_json()
    return {"r2": r_squared(predicted_ms, actual_ms), **found}


def split_phones(published: Published, seed: int, *, by_model: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the phones to learn from, and of those to test on: 30 %.

    Args:
        published: The measurements.
        seed: Of the split.
        by_model: Whether phones of one model stay on one side.
    """
    place = {name: index for index, name in enumerate(published.phones)}
    if by_model:
        split = by_group(dict(zip(published.phones, published.models, strict=True)), seed)
    else:
        split = by_device(published.phones, seed)
    train, test = (np.sort([place[name] for name in names]) for names in (split.train, split.test))
    return train, test


def split_networks(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of the networks that are known, and of those that are not: 30 %."""
    order = np.random.default_rng([seed, count]).permutation(count)
    held_out = round(0.3 * count)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def values(rows: Iterable[Row], name: str) -> list[float]:
    """A figure of all rows that have it."""
    return [float(row[name]) for row in rows if row.get(name) is not None]


def averaged(rows: Sequence[Row], names: Sequence[str] = METRICS) -> list[Cell]:
    """The mean of each figure; None where no row has it."""
    return [float(np.mean(found)) if (found := values(rows, name)) else None for name in names]


def span(rows: Sequence[Row], name: str = "r2", digits: int = 2) -> str:
    """Smallest to largest of a figure."""
    found = values(rows, name)
    return f"{min(found):.{digits}f} to {max(found):.{digits}f}" if found else "-"
