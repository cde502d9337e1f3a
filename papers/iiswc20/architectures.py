"""The cells of NAS-Bench-201 on new devices, judged as HELP is (Lee et al., NeurIPS 2021, §4.1).

HELP learns from 900 cells on 13 devices, measures 20 cells of a new one, and is judged by Spearman's ρ over the middle 800 of the
next 1,000 cells. Here 10 or 20 are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from latcast.datasets.importers import IMPORTERS
from latcast.datasets.importers.nas_tables import device_platform
from latcast.devices.cross_device_fit import fit_cross_device, typical_pattern
from latcast.devices.latency_table import table_of
from latcast.devices.network_covariance import FeatureFit
from latcast.errors import DatasetError
from latcast.spaces.nas.nas_bench_201 import EDGES, OPERATIONS, cell_operations, live_edges
from papers.harness import Cell, Comparison, mean
from papers.iiswc20.protocol import Row, Trial, metrics, select, values
from papers.iiswc20.published import Published

KNOWN_DEVICES = (
    "1080ti_1", "1080ti_32", "1080ti_256", "silver_4114", "silver_4210r", "samsung_a50", "pixel3", "essential_ph_1", "samsung_s7",
    "titanx_1", "titanx_32", "titanx_256", "gold_6240",
)  # fmt: skip
"""HELP's devices to learn from and to choose settings by."""

NEW_DEVICES = ("titan_rtx_256", "gold_6226", "fpga", "pixel2", "raspi4", "eyeriss")
"""HELP's devices to test on."""

HELP_SPEARMAN = 0.932
"""HELP's own, with 20 cells measured, mean of the new devices."""

CELLS, JUDGED_FROM = 1900, 900
"""The first so many cells are used; those from the second number on are the ones to judge by."""

LEARNED = 900
"""Cells that are learned from: all of HELP's."""

FIT = FeatureFit(linear=5.0, reach=1.0)
"""Chosen by leaving out known devices, all of one kind at a time."""

SMALLEST_SHARE = 0.25
"""Of the first percentile: some latencies were recorded as next to nothing."""

OWN_VARIANCE = 0.1
"""Of a cell, beside what it has in common with others, when cells to measure are chosen."""

SIZES = (10, 20)
"""Cells that are measured on a new device."""


@dataclass(frozen=True)
class Architectures:
    """Attributes:
    cells: The texts of the cells.
    known_ms: (known devices, cells).
    new_ms: (new devices, cells).
    """

    cells: tuple[str, ...]
    known_ms: np.ndarray
    new_ms: np.ndarray

    @cached_property
    def features(self) -> np.ndarray:
        """(cells, features)."""
        return np.array([cell_features(cell) for cell in self.cells])


def read_nas_bench_201(folder: Path) -> Architectures:
    """Reads HELP's table.

    Raises:
        DatasetError: It cannot be read, or a device or one of the first cells is not in it.
    """
    table = table_of(IMPORTERS.get("nb201").read(folder).measurements)
    rows = {platform: row for row, platform in enumerate(table.platforms)}
    wanted = [device_platform(name).id for name in (*KNOWN_DEVICES, *NEW_DEVICES)]
    missing = [name for name in wanted if name not in rows]
    latency_ms = table.latency_ms[[rows[name] for name in wanted if name in rows], :CELLS]
    if missing or latency_ms.shape[1] < CELLS or np.isnan(latency_ms).any():
        lacking = f"no {missing[0]}" if missing else f"not all of the first {CELLS} cells on all devices"
        raise DatasetError(f"{folder} has {lacking}; expected the whole table of HELP's NAS-Bench-201")
    cells = tuple(str(reference.parameters["cell"]) for reference in table.networks[:CELLS])
    return Architectures(cells, steadied(latency_ms[: len(KNOWN_DEVICES)]), latency_ms[len(KNOWN_DEVICES) :])


def steadied(latency_ms: np.ndarray) -> np.ndarray:
    """(devices, cells) with values far below all others brought up."""
    found: np.ndarray = np.maximum(latency_ms, SMALLEST_SHARE * np.percentile(latency_ms, 1, axis=1, keepdims=True))
    return found


def cell_features(cell: str) -> list[float]:
    """A cell as numbers: the operation of each edge, of all and of those that lead from input to output; how often each
    operation occurs; the longest paths; and what convolutions compute and weigh."""
    operations = cell_operations(cell)
    live = {(start, end): name for name, start, end in live_edges(operations)}
    values = [float(found == name) for found in operations for name in OPERATIONS]
    values += [float(live.get(edge) == name) for edge in EDGES for name in OPERATIONS[1:]]
    values += [float(operations.count(name)) for name in OPERATIONS]
    running = list(live.values())
    values += [float(running.count(name)) for name in OPERATIONS[1:]]
    values += [_longest(live, convolutions=True), _longest(live, convolutions=False), float(len(live))]
    wide, narrow, pools = (running.count(name) for name in ("nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3"))
    all_wide, all_narrow = operations.count("nor_conv_3x3"), operations.count("nor_conv_1x1")
    values += [_mega_macs(wide, narrow), np.log(3 + 9 * wide + narrow), _mega_macs(all_wide, all_narrow)]
    values += [float(value) for value in np.log1p([wide, narrow, wide + narrow + pools])]
    return values


def _mega_macs(wide: int, narrow: int) -> float:
    """Logarithm of millions of multiply-accumulates of a network: stem and reductions, 3x3 and 1x1 convolutions of a cell."""
    return float(np.log(7.8 + 35.4 * wide + 3.9 * narrow))


def _longest(live: dict[tuple[int, int], str], *, convolutions: bool) -> float:
    """Edges on the longest path from input to output, or the convolutions on it; -1 where there is none."""
    longest = {0: 0}
    for end in (1, 2, 3):
        found = [
            longest[start] + (not convolutions or "conv" in name)
            for (start, stop), name in live.items()
            if stop == end and start in longest
        ]
        if found:
            longest[end] = max(found)
    return float(longest.get(3, -1))


def most_telling(covariance: np.ndarray, size: int, own: float = OWN_VARIANCE) -> tuple[int, ...]:
    """Networks whose measurements leave the least variance of all, one after the other; a device's level is free.

    Args:
        covariance: (networks, networks).
        size: How many.
        own: Variance of a network's measurement on its own.
    """
    left = covariance - covariance.mean(axis=0)
    left = left - left.mean(axis=1, keepdims=True)
    chosen: list[int] = []
    for _ in range(size):
        explained = (left**2).sum(axis=0) / (np.diag(left) + own)
        explained[chosen] = -np.inf
        place = int(explained.argmax())
        chosen.append(place)
        left = left - np.outer(left[:, place], left[:, place]) / (left[place, place] + own)
    return tuple(chosen)


def signature_cells(architectures: Architectures, size: int) -> tuple[int, ...]:
    """Cells to measure on a new device, from what is known of the known ones: half by structure, half by their deviations."""
    features, log_ms = architectures.features[:LEARNED], np.log(architectures.known_ms[:, :LEARNED])
    model = FeatureFit(linear=1.0)(_rows(features), np.zeros(len(features)))
    described = model.describe(_rows(features))
    by_structure = model.covariance(described, described)
    typical, level = typical_pattern(log_ms)
    deviations = log_ms - typical - level[:, None]
    by_devices = deviations.T @ deviations
    return most_telling(sum(0.5 * part / np.trace(part) * len(part) for part in (by_structure, by_devices)), size)


def middle(latency_ms: np.ndarray) -> np.ndarray:
    """Indices of all but the fastest and slowest tenth."""
    tenth = len(latency_ms) // 10
    return np.argsort(latency_ms)[tenth : len(latency_ms) - tenth]


def new_architectures(trial: Trial, published: Published) -> list[Row]:
    """Cells that no device ran, on HELP's new devices; one row a device.

    Raises:
        DatasetError: HELP's table was not read.
    """
    found = published.architectures
    if found is None:
        raise DatasetError("the cells of NAS-Bench-201 were not read; give the folder of HELP's table")
    features = _rows(found.features)
    signature = list(signature_cells(found, trial.size))
    model = fit_cross_device(
        found.known_ms[:, :LEARNED], features[:LEARNED], fit_networks=FIT, signature=signature, seed=trial.seed
    )  # fmt: skip
    described = model.networks.describe(features[JUDGED_FROM:])
    predicted, _ = model.new_devices(signature, steadied(found.new_ms)[:, signature], described)
    rows: list[Row] = []
    for device, expected, actual in zip(
        NEW_DEVICES, predicted.latency_ms[:, LEARNED:], found.new_ms[:, JUDGED_FROM:], strict=True
    ):
        judged = middle(actual)
        every = np.flatnonzero(actual > SMALLEST_SHARE * np.percentile(actual, 1))
        spearman = metrics(expected[every], actual[every])["spearman"]
        rows.append({"device": device, "spearman_all": spearman, **metrics(expected[judged], actual[judged])})
    return rows


METRICS = ("spearman", "spearman_all", "mape", "within_5", "within_10", "rmse_ms", "rmspe")


def architectures_table(rows: Sequence[Row], published: Published) -> Comparison:
    """NAS-Bench-201 beside HELP."""
    lines: list[tuple[Cell, ...]] = []
    for size in sorted({row["size"] for row in rows}):
        of_size = select(rows, size=size)
        for row in of_size:
            lines.append((size, row["device"], None, *(row[name] for name in METRICS)))
        means = [mean(values(of_size, name)) for name in METRICS]
        lines.append((size, "mean", HELP_SPEARMAN if size == 20 else None, *means))
    return Comparison(
        "nas-bench-201",
        "cells that no device ran, on new devices, after HELP's protocol",
        ("measured", "device", "Spearman of HELP", "Spearman", "of all cells", "MAPE %", "±5 %", "±10 %", "RMSE ms", "RMSPE %"),
        tuple(lines),
        (
            "Spearman over the middle 80 % of 1,000 cells, as HELP has it. fpga and eyeriss are estimates of a cost model; "
            "pixel2 was recorded in whole milliseconds, which bounds what can be ranked.",
        ),
    )


def _rows(features: np.ndarray) -> Sequence[Sequence[float]]:
    rows: list[list[float]] = features.tolist()
    return rows
