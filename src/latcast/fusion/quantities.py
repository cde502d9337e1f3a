"""What is measured of a test network: how long it takes from end to end, or how many of its kernels take time.

Whatever it is, it is called the network's cost, and one equation decides: what a pair saves of the sum of the two, Inequation 1.
A runtime with a profiler says how long each kernel took. An operator that runs in another's kernel takes no time of its own, so
that the pair costs one timed kernel less than its parts, even where one kernel takes as long as two: of such pairs the sums of
times, from end to end or of the profile, tell nothing.
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
"""Many short rounds over all networks of a batch. A network's time varies by a few per cent from round to round, however many
runs a round has, so rounds are what counts."""

PROFILE_PLAN = MeasurePlan(rounds=1, runs_per_round=1, warmup_runs=0, batch_size=50, profile=True, profiled_runs=10)


@dataclass(frozen=True)
class Quantity:
    """A network's cost.

    Attributes:
        name: As evidence and scripts know it.
        unit: Of the figures in evidence.
        scale: From a cost to that unit.
        costs: Of a network's record, one a round.
        plan: How a network is measured.
        sizes: Heights of maps and numbers of blocks, tried until networks cost enough and a short operator can be seen. The more
            blocks, the less the call, and what the ends of a chain need, weigh.
        least: A network of a few walls must cost so much.
        kernel: What one kernel costs, where that is the same for all; otherwise 0.
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
        """Costs as evidence shows them, each in a unit that its name says: ``saved_us``."""
        return {f"{name}_{self.unit}": round(self.scale * cost, 4) + 0.0 for name, cost in costs.items()}


def round_latencies(measurement: Measurement) -> np.ndarray:
    """A network's latency in each round: the median of the round's normalised runs, in milliseconds."""
    return round_medians(normalised_runs(measurement), measurement.rounds)


def timed_kernels(measurement: Measurement) -> np.ndarray:
    """How many of the executed kernels took time, by the runtime's profiler, whatever they are called."""
    return np.array([float(sum(kernel.latency_ms > 0 for kernel in measurement.executed))])


LATENCY = Quantity(
    "latency", "us", 1e3, round_latencies, TIMING_PLAN, sizes=((4, 4), (4, 8), (4, 16), (8, 8)),
    # Or the clock and the call weigh too much.
    least=0.002,
)  # fmt: skip
"""Milliseconds from end to end, of any runtime. The smaller the tensors, the larger a part of an operator's time is the start of
its kernel, which is what fusing saves for sure; and the shorter the networks, the more of them fit into the budget."""

TIMED_KERNELS = Quantity("profile", "kernels", 1.0, timed_kernels, PROFILE_PLAN, sizes=((64, 8),), least=1.0, kernel=1.0)
"""Kernels that take time, of a runtime with a profiler. Their clocks count whole microseconds: tensors of 256 KB take some."""
