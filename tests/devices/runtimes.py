"""Real latencies of fifteen networks on five runtimes of one machine, and devices made up from them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from latcast.datasets import jsonlines
from latcast.devices.latency_table import LatencyTable, table_of
from latcast.records import Measurement

FILE = Path(__file__).parents[1] / "hub" / "data" / "runtimes.jsonl.gz"

HELD_OUT = "xeon/mnn-3.6/cpu1/fp32"


@cache
def measurements() -> tuple[Measurement, ...]:
    return tuple(jsonlines.read(FILE))


@cache
def runtimes() -> LatencyTable:
    return table_of(measurements())


def without(table: LatencyTable, platform: str) -> LatencyTable:
    return table.rows([index for index, name in enumerate(table.platforms) if name != platform])


@cache
def made_up_devices(count: int = 16) -> LatencyTable:
    """Devices between two of the runtimes, each faster or slower by a factor."""
    rng = np.random.default_rng(0)
    real = np.log(runtimes().latency_ms)
    rows = []
    for _ in range(count):
        first, second = rng.choice(len(real), 2, replace=False)
        share = rng.uniform()
        rows.append(share * real[first] + (1 - share) * real[second] + rng.normal(0, 0.7) + rng.normal(0, 0.02, real.shape[1]))
    names = tuple(f"made{index}/tflite-2.10/cpu1/fp32" for index in range(count))
    return LatencyTable(names, runtimes().networks, np.exp(rows))


def records(table: LatencyTable) -> list[Measurement]:
    """One published latency for each cell that has one."""
    return [
        replace(Measurement(platform, network), latency_ms=float(value), raw_latency_ms=float(value))
        for platform, row in zip(table.platforms, table.latency_ms, strict=True)
        for network, value in zip(table.networks, row, strict=True)
        if not np.isnan(value)
    ]
