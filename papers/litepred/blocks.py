"""Blocks of search spaces on phones: two known phones and a few blocks of a third predict the rest of its blocks.

The published tables of nn-Meter's history name a block by its configuration and give its latency on several phones. The known
phones' latencies are the sources: their weighted geometric mean, times a level for each kind of block, is what trees correct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from latcast.datasets.importers.tflite_blocks import IMPORTER
from latcast.errors import DatasetError
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.regressors.trees import LogResidual
from papers.harness import Cell, PaperTable, mean
from papers.litepred.fine_tuning import FineTuned

TABLE = "ln_v3"
"""The table that all three phones have."""

TARGET, SOURCES = "pixel4", ("pixel1", "xiaomi11")

AMOUNTS = (50, 100, 200, 500, 1000)

SPLITS = 5

RIDGES = tuple(10.0**power for power in range(-3, 4))
"""Strengths of the ridge regression."""

FEWEST_OF_A_KIND = 3


@dataclass(frozen=True)
class Blocks:
    """Attributes:
    kinds: (blocks,) index of the kind.
    features: (blocks, features): kind and the numbers and words of the name.
    sources_ms: (blocks, phones) on the known phones.
    latency_ms: (blocks,) on the new one.
    """

    kinds: np.ndarray
    features: np.ndarray
    sources_ms: np.ndarray
    latency_ms: np.ndarray


def read_blocks(folder: Path) -> Blocks:
    """Return the blocks that all phones have, in the order of their names.

    Raises:
        DatasetError: The folder lacks a table.
    """
    tables: dict[str, dict[str, float]] = {phone: {} for phone in (TARGET, *SOURCES)}
    for each in IMPORTER.read(folder).measurements:
        phone = each.platform.partition("/")[0]
        if each.reference.parameters["table"] == TABLE and phone in tables and each.latency_ms is not None:
            tables[phone][str(each.reference.parameters["block"])] = each.latency_ms
    names = sorted(set.intersection(*(set(table) for table in tables.values())))
    if not names:
        raise DatasetError(f"{folder}: found no block that {', '.join(tables)} all have, expected their tables '{TABLE}'")
    parts = [name.split("_") for name in names]
    words = sorted({part for listed in parts for part in listed if not part.isdecimal()})
    width = max(len(listed) for listed in parts)
    code = {word: -1 - place for place, word in enumerate(words)}
    features = np.full((len(names), width), len(words) * -1.0 - 1)
    for row, listed in enumerate(parts):
        features[row, : len(listed)] = [float(part) if part.isdecimal() else code[part] for part in listed]
    kinds = np.unique([listed[0] for listed in parts], return_inverse=True)[1]
    sources_ms = np.array([[tables[phone][name] for phone in SOURCES] for name in names])
    return Blocks(kinds, features, sources_ms, np.array([tables[TARGET][name] for name in names]))


def transfer_blocks(blocks: Blocks, train: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Return latency of all blocks on the new phone, (blocks,), from some that were measured there.

    Args:
        train: Indices of those whose latency may be looked at.
    """
    middle = np.exp(np.log(blocks.sources_ms).mean(axis=1))
    ratio = np.log(blocks.latency_ms[train] / middle[train])
    level = np.full(blocks.kinds.max() + 1, np.median(ratio))
    for kind in range(len(level)):
        own = ratio[blocks.kinds[train] == kind]
        if len(own) >= FEWEST_OF_A_KIND:
            level[kind] = np.median(own)
    base = middle * np.exp(level[blocks.kinds])
    logs = np.log(blocks.sources_ms)
    features = np.column_stack([blocks.features, logs, logs - logs.mean(axis=1, keepdims=True)])
    trees = LogResidual.fit(features[train], blocks.latency_ms[train] / base[train], seed=seed)
    return np.asarray(base * trees.predict(features))


def from_scratch(blocks: Blocks, train: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Return the same without the known phones."""
    middle = float(np.median(blocks.latency_ms[train]))
    trees = LogResidual.fit(blocks.features[train], blocks.latency_ms[train] / middle, seed=seed)
    return np.asarray(middle * trees.predict(blocks.features))


def one_factor(blocks: Blocks, train: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Return the known phones' geometric mean times one factor, the median over the measured blocks: the plainest transfer."""
    middle = np.exp(np.log(blocks.sources_ms).mean(axis=1))
    return np.asarray(middle * np.median(blocks.latency_ms[train] / middle[train]))


def ridge_from_scratch(blocks: Blocks, train: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Ridge regression of the logarithm on the logarithms of a block's numbers, with a level and slopes for each kind, and on its
    words: the plainest learning without the known phones. The strength is chosen by leaving out one block at a time."""
    numbers = np.log1p(np.maximum(blocks.features, 0))
    words = np.column_stack([blocks.features == code for code in np.unique(blocks.features[blocks.features < 0])])
    of_kind = blocks.kinds[:, None] == np.arange(blocks.kinds.max() + 1)
    slopes = (of_kind[:, :, None] * numbers[:, None, :]).reshape(len(numbers), -1)
    design = np.hstack([numbers, words, of_kind, slopes])
    middle, scale = design[train].mean(axis=0), design[train].std(axis=0)
    design = np.divide(design - middle, scale, out=np.zeros_like(design), where=scale > 0)
    logs = np.log(blocks.latency_ms[train])
    weights = ridge_weights(design[train], logs - logs.mean(), RIDGES)
    return np.asarray(np.exp(np.clip(logs.mean() + design @ weights, logs.min() - 1, logs.max() + 1)))


def ridge_weights(design: np.ndarray, target: np.ndarray, strengths: Sequence[float]) -> np.ndarray:
    """(columns,) weights of ridge regression at the strength whose squared error is least when each row is left out in turn.

    Args:
        design: (rows, columns), each of mean 0.
        target: (rows,), of mean 0. The means count as fitted where a row is left out.
        strengths: Of the penalty on the squared weights.
    """
    left, singular, right = np.linalg.svd(design, full_matrices=False)
    projected = left.T @ target
    shrinkage = singular**2 / (singular**2 + np.asarray(strengths)[:, None])
    residual = target - (shrinkage * projected) @ left.T
    leverage = shrinkage @ (left**2).T + 1 / len(target)
    best = int(((residual / (1 - leverage)) ** 2).mean(axis=1).argmin())
    return np.asarray((projected * singular / (singular**2 + strengths[best])) @ right)


METHODS: Mapping[str, Callable[..., np.ndarray]] = {
    "from scratch": from_scratch, "ridge from scratch": ridge_from_scratch, "one factor": one_factor,
    "transferred": transfer_blocks,
}  # fmt: skip
"""By what a column is called: trees and a plain regression without the known phones, one number and the transfer with them."""


def blocks_comparison(folder: Path, amounts: Sequence[int] = AMOUNTS) -> PaperTable:
    """Return errors on blocks of the new phone that were not looked at, by how many were."""
    blocks = read_blocks(folder)
    methods: dict[str, Callable[..., np.ndarray]] = {**METHODS, "as published": FineTuned.of(blocks)}
    rows: list[tuple[Cell, ...]] = []
    for count in (each for each in amounts if 2 * each <= len(blocks.latency_ms)):
        figures: dict[str, list[Metrics]] = {name: [] for name in methods}
        for seed in range(SPLITS):
            order = np.random.default_rng(seed).permutation(len(blocks.latency_ms))
            train, test = order[:count], order[count:]
            for name, learn in methods.items():
                figures[name].append(judge(learn(blocks, train, seed=seed)[test], blocks.latency_ms[test]))
        cells: list[Cell] = [count]
        for found in figures.values():
            cells += [mean([each.mape for each in found]), mean([each.within_5 for each in found])]
            cells += [mean([each.within_10 for each in found])]
        rows.append(tuple(cells))
    columns = [f"{how}, {figure}" for how in methods for figure in ("MAPE %", "±5 %", "±10 %")]
    return PaperTable(
        "blocks", f"{len(blocks.latency_ms)} blocks on {TARGET} from {' and '.join(SOURCES)} (TFLite, published tables)",
        ("blocks measured", *columns), tuple(rows),
        (
            "Not in the paper. The same blocks are known on the other phones; judged on all blocks that were not measured.",
            "From scratch learn trees, or a ridge regression on logarithms; one factor is the known phones' geometric mean times "
            "the median ratio of the blocks measured; as published, a known phone's perceptron, narrower than theirs, is tuned.",
            f"Mean of {SPLITS} splits.",
        ),
    )  # fmt: skip
