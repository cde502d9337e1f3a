"""Sweeps whose latencies follow a formula, so that what is found in them is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.sizes import Grid, WorkGroup, candidate_sizes
from latcast.workgroups.sweep import SizeSweep
from latcast.workgroups.workloads import CONV, KernelDescriptor, convolution

DEVICE = DeviceProfile("made_up", "Made-up GPU", 256, 256, 256, 64, 4, 16, 64, source="made up")


def sweep_of(
    latency: Callable[[WorkGroup], float], sizes: Sequence[WorkGroup], *, grid: Grid | None = None, rounds: int = 4,
    noise: float = 0.0, seed: int = 0, variant: dict[str, int] | None = None, device: DeviceProfile = DEVICE,
    kernel: KernelDescriptor = CONV, operator: str = "conv:16x16x32,k3,s1,c32", interleaved: bool = True,
) -> SizeSweep:  # fmt: skip
    """A sweep whose sizes take what a function says, times a noise of at least 1."""
    exact = np.array([latency(size) for size in sizes])[:, None]
    excess = np.abs(np.random.default_rng(seed).normal(0.0, noise, (len(sizes), rounds))) if noise else 0.0
    return SizeSweep(
        device, operator, kernel, grid or convolution(16, 16, 32, 32).grid, tuple(sizes), exact * (1 + excess) * np.ones(rounds),
        variant=variant or {}, interleaved=interleaved, tuning_ms=np.full(len(sizes), 100.0),
    )  # fmt: skip


def many_sizes(grid: Grid, count: int, seed: int = 0) -> list[WorkGroup]:
    """Some of all sizes that the made-up device allows."""
    every = candidate_sizes(grid, DEVICE.limits)
    rows = np.random.default_rng(seed).choice(len(every), min(count, len(every)), replace=False)
    return [every[row] for row in sorted(rows)]


THREE_SIZES = (WorkGroup(32, 1), WorkGroup(16, 2), WorkGroup(8, 1))


def sweep_of_times(times: list[list[float]], *, interleaved: bool = True) -> SizeSweep:
    """Three sizes on a grid of 32x2: runs of each, of which the first two sizes divide the grid."""
    return SizeSweep(
        DEVICE, "conv", CONV, Grid(32, 2, 1), THREE_SIZES, np.array(times), interleaved=interleaved,
        tuning_ms=np.array([10.0, 20.0, 40.0]),
    )  # fmt: skip
