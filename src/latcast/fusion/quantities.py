"""The cost of a test network: its latency from end to end, or the number of its kernels that take time.

One equation decides on either: the saving of a pair from the sum of the two, Inequation 1. An operator that runs in another's
kernel takes no time in a profile, so that the pair costs one timed kernel less than its parts, even where one kernel takes as
long as two and sums of times tell nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latcast.measure.settings import MeasurePlan
from latcast.measure.statistics import normalised_runs, round_medians
from latcast.records import Measurement

TIMING_PLAN = MeasurePlan(
    rounds=100, runs_per_round=4, warmup_runs=3, max_ms_per_round=3.0, burst_runs=4, burst_ms=3.0, batch_size=200
)
"""Many short rounds over all networks of a batch: a network's time varies from round to round, however many runs a round has."""

PROFILE_PLAN = MeasurePlan(rounds=1, runs_per_round=1, warmup_runs=0, batch_size=50, profile=True, profiled_runs=10)


@dataclass(frozen=True)
class Quantity:
    """A network's cost.

    Attributes:
        name: In evidence and for scripts.
        unit, scale: Unit of the figures in evidence, and the factor from a cost to it.
        costs: Returns the costs of a network's record, one a round.
        plan: How a network is measured.
        sizes: Heights of maps and numbers of blocks, tried until networks cost enough and a short operator can be seen.
        least: Least cost of a network of a few walls.
        kernel: Cost of one kernel, where that is the same for all; otherwise 0.
    """

    name: str
    unit: str
    scale: float
    costs: Callable[[Measurement], np.ndarray]
    plan: MeasurePlan
    sizes: tuple[tuple[int, int], ...]
    least: float
    kernel: float = 0.0

    def figures(self, **costs: float) -> dict[str, float]:
        """Return costs for evidence, each with its unit in its name: ``saved_us``."""
        return {f"{name}_{self.unit}": round(self.scale * cost, 4) + 0.0 for name, cost in costs.items()}


def round_latencies(measurement: Measurement) -> np.ndarray:
    """Return a network's latency in each round: the median of the round's normalised runs, in milliseconds."""
    return round_medians(normalised_runs(measurement), measurement.rounds)


def timed_kernels(measurement: Measurement) -> np.ndarray:
    """Return how many of the executed kernels took time, by the runtime's profiler, whatever their names."""
    return np.array([float(sum(kernel.latency_ms > 0 for kernel in measurement.executed))])


LATENCY = Quantity("latency", "us", 1e3, round_latencies, TIMING_PLAN, sizes=((4, 4), (4, 8), (4, 16), (8, 8)), least=0.002)
"""Milliseconds from end to end, of any runtime. In small tensors most of a kernel's time is its start, which fusing saves."""

TIMED_KERNELS = Quantity("profile", "kernels", 1.0, timed_kernels, PROFILE_PLAN, sizes=((64, 4),), least=1.0, kernel=1.0)
"""Kernels that take time, of a runtime with a profiler. Their clocks count whole microseconds: tensors of 256 KB take some.

Compiling takes most of the time, and longer the more blocks there are. With two, a change of layout at the ends of a chain would
be half a kernel a block, which is the threshold.
"""
