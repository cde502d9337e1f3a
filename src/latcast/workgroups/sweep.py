"""The latencies of one kernel with many work-group sizes, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from latcast.errors import MeasurementError
from latcast.predictors.metrics import spearman
from latcast.tables import decimal
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.rules import Situation
from latcast.workgroups.sizes import Grid, WorkGroup, sizes_array
from latcast.workgroups.workloads import KernelDescriptor

LEAST_REPEATABILITY = 0.5
"""Split-half rank correlation below which sizes are not ranked: their order is noise."""

COMPETITIVE = 1.15
"""A size at most so many times as slow as the best is a competitive candidate (Jiang et al. §4.1)."""


@dataclass(frozen=True, eq=False)
class SizeSweep:
    """One kernel of one operator on one device, timed with many work-group sizes.

    Attributes:
        device: The GPU.
        operator: Text of the operator ("conv:56x56x256,k3,s1,c256").
        descriptor: The kernel.
        grid: Its work items.
        sizes: Those that ran.
        times_ms: (sizes, rounds); every run, in the order taken.
        variant: Settings of the kernel besides the size, by name.
        interleaved: Whether a round went over all sizes before the next began; otherwise a size's runs followed each other.
        tuning_ms: (sizes,) time that trying each size took, compilation included; None where it is not known.
        failed: Sizes that did not run, and why.

    Raises:
        MeasurementError: Shapes do not fit, or a time is not a positive number.
    """

    device: DeviceProfile
    operator: str
    descriptor: KernelDescriptor
    grid: Grid
    sizes: tuple[WorkGroup, ...]
    times_ms: np.ndarray
    variant: Mapping[str, Any] = field(default_factory=dict)
    interleaved: bool = False
    tuning_ms: np.ndarray | None = None
    failed: Mapping[WorkGroup, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        times = self.times_ms
        if times.ndim != 2 or len(times) != len(self.sizes) or not times.size:
            raise MeasurementError(
                f"{self.operator} on {self.device.title}: times of shape {times.shape} for {len(self.sizes)} sizes; "
                "expected one row a size, with at least one run"
            )
        if not (np.isfinite(times) & (times > 0)).all():
            raise MeasurementError(f"{self.operator} on {self.device.title}: a time is not a positive number")

    @property
    def rounds(self) -> int:
        """Runs of each size."""
        return self.times_ms.shape[1]

    @cached_property
    def shapes(self) -> np.ndarray:
        """(sizes, 3), int64."""
        return sizes_array(self.sizes)

    @property
    def situation(self) -> Situation:
        """Grid, kernel and device, for the rules."""
        return Situation(self.grid, self.descriptor, self.device)

    @cached_property
    def latency_ms(self) -> np.ndarray:
        """(sizes,) the least of each size's runs: disturbances only ever make a run longer."""
        return self.times_ms.min(axis=1)

    @cached_property
    def relative(self) -> np.ndarray:
        """(sizes,) latency over that of the best size."""
        return self.latency_ms / self.latency_ms.min()

    @property
    def best(self) -> WorkGroup:
        """The fastest size."""
        return self.sizes[int(self.latency_ms.argmin())]

    @property
    def competitive_share(self) -> float:
        """Share of the sizes that are within 15 % of the best (§4.1)."""
        return float((self.relative <= COMPETITIVE).mean())

    @cached_property
    def repeatability(self) -> float:
        """Rank correlation (Spearman) of the sizes' latencies between two halves of the runs; NaN with fewer than 2 runs.

        Halves are every other round where rounds are interleaved. Where a size's runs followed each other they are the
        first and the last runs, which were still taken within one short time: then this is an upper bound.
        """
        if self.rounds < 2:
            return float("nan")
        middle = self.rounds // 2
        halves = (slice(None, None, 2), slice(1, None, 2)) if self.interleaved else (slice(middle), slice(middle, None))
        first, second = (self.times_ms[:, half].min(axis=1) for half in halves)
        return spearman(first, second)

    @property
    def rankable(self) -> bool:
        """True if the sizes' order is more than noise."""
        return bool(self.repeatability >= LEAST_REPEATABILITY)

    def why_not_rankable(self) -> str:
        """Return why the sizes' order is noise and what to do; empty where sizes can be ranked."""
        if self.rankable:
            return ""
        found = "each size ran once" if self.rounds < 2 else f"split-half rank correlation {decimal(self.repeatability, 2)}"
        return (
            f"{self.operator} on {self.device.title}: {found}, expected at least {LEAST_REPEATABILITY}: the order of the "
            "sizes is noise and is not given; measure more interleaved rounds, on an idle machine, or a larger operator"
        )

    def index_of(self, size: WorkGroup) -> int | None:
        """Return the row of a size; None where it did not run."""
        return self.sizes.index(size) if size in self.sizes else None
