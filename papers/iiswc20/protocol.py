"""Trials, splits of phones and networks, and metrics of what was predicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latcast.predictors.metrics import judge
from papers.harness import Cell, ResultFolder, source_digest
from papers.iiswc20.published import PublishedPhones
from papers.iiswc20.signatures import SELECTIONS
from papers.splits import by_device, by_group

Row = dict[str, Any]
"""Metrics by name, and what tells the rows of a trial apart."""


@dataclass(frozen=True, order=True)
class PhoneTrial:
    """One experiment on one split.

    Attributes:
        experiment: One of :data:`papers.iiswc20.experiments.EXPERIMENTS`.
        seed: Of its split, or of what else is random in it.
        variant: What it is of several things that the experiment compares.
        size: Networks in the signature, or percent of them.
    """

    experiment: str
    seed: int = 0
    variant: str = ""
    size: int = 10


SOURCES = (
    "latcast.devices", "latcast.datasets.importers.iiswc20", "latcast.predictors.network_features",
    "latcast.predictors.platform_posterior", "latcast.predictors.process_basis", "papers.iiswc20",
)  # fmt: skip
"""Packages whose source decides what a trial comes to."""


def result_folder(folder: Path, data: str, *, fresh: bool = False) -> ResultFolder[list[Row]]:
    """Results of trials; ``data`` is a digest of the measurements."""
    return ResultFolder(folder, data, source_digest(SOURCES), _rows, fresh)


def _rows(document: Any) -> list[Row]:
    if not isinstance(document, list):
        raise TypeError(f"found {type(document).__name__}, expected a list of rows")
    return document


def rows_of(results: Mapping[PhoneTrial, Sequence[Row]]) -> list[Row]:
    """Return the rows of all trials, each with the fields of its trial."""
    return [{**asdict(trial), **row} for trial, rows in results.items() for row in rows]


def select(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


METRICS = ("r2", "mape", "within_5", "within_10", "rmse_ms", "rmspe", "spearman")

HEADINGS = ("R²", "MAPE %", "±5 %", "±10 %", "RMSE ms", "RMSPE %", "Spearman")
"""Of :data:`METRICS`, in order."""


def r_squared(predicted_ms: np.ndarray, actual_ms: np.ndarray) -> float:
    """Coefficient of determination over all cells, as the paper uses it."""
    residual = float(((predicted_ms - actual_ms) ** 2).sum())
    return 1 - residual / float(((actual_ms - actual_ms.mean()) ** 2).sum())


def metrics(
    predicted_ms: np.ndarray, actual_ms: np.ndarray, low_ms: np.ndarray | None = None, high_ms: np.ndarray | None = None
) -> Row:
    """Return the errors of predicted cells, in an array of any shape."""
    flat = [None if part is None else part.ravel() for part in (low_ms, high_ms)]
    found = judge(predicted_ms.ravel(), actual_ms.ravel(), flat[0], flat[1]).to_json()
    return {"r2": r_squared(predicted_ms, actual_ms), **found}


def split_phones(published: PublishedPhones, seed: int, *, by_model: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the phones to learn from, and of those to test on: 30 %.

    Args:
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


def choose_signature(method: str, latency_ms: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Return networks that describe a phone, chosen by known phones."""
    return np.array(SELECTIONS[method](latency_ms, size, seed))


def values(rows: Iterable[Row], name: str) -> list[float]:
    """Return a figure of all rows that have it."""
    return [float(row[name]) for row in rows if row.get(name) is not None]


def averaged(rows: Sequence[Row], names: Sequence[str] = METRICS) -> list[Cell]:
    """Return the mean of each figure; None where no row has it."""
    return [float(np.mean(found)) if (found := values(rows, name)) else None for name in names]


def span(rows: Sequence[Row], name: str = "r2", digits: int = 2) -> str:
    """Smallest to largest of a figure."""
    found = values(rows, name)
    return f"{min(found):.{digits}f} to {max(found):.{digits}f}" if found else "-"
