"""A GPU that is made up: it computes rightly, and its times follow a formula with as much noise as asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from latcast.errors import MeasurementError
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.operands import make_operands
from latcast.workgroups.sizes import SizeLimits, WorkGroup
from latcast.workgroups.workloads import Convolution

PROFILE = DeviceProfile(
    name="made-up", title="made-up GPU", max_work_group_size=64, max_x=64, max_y=64, max_z=64, compute_units=2,
    simultaneous_items=8, cache_line_bytes=64, source="made up",
)  # fmt: skip


def quiet_ms(size: WorkGroup) -> float:
    """A launch without noise: best at 16 items."""
    return 1 + abs(float(np.log2(size.items)) - 4)


@dataclass
class MadeUpSession:
    """Attributes:
    workload: What it computes.
    noise: Largest factor by which a run is slower than quiet, less one; drawn for each run.
    order_matters: Without it every size takes 1 ms before noise.
    refused: Sizes that do not run.
    wrong: Sizes that compute a wrong result.
    launched: Every size launched, in order.
    """

    workload: Convolution
    noise: float = 0.0
    order_matters: bool = True
    refused: frozenset[WorkGroup] = frozenset()
    wrong: frozenset[WorkGroup] = frozenset()
    limits: SizeLimits = PROFILE.limits
    default: WorkGroup | None = None
    seed: int = 0
    launched: list[WorkGroup] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._expected = make_operands(self.workload).expected
        self._result = np.full_like(self._expected, np.nan)

    def prepare(self, size: WorkGroup) -> None:
        if size in self.refused:
            raise MeasurementError(f"no {size}")
        self.run(size)

    def run(self, size: WorkGroup) -> float:
        self.launched.append(size)
        self._result = self._expected + (1.0 if size in self.wrong else 0.0)
        base = quiet_ms(size) if self.order_matters else 1.0
        return base * (1 + self.noise * self._rng.random())

    def result(self) -> np.ndarray:
        return self._result

    def clear(self) -> None:
        self._result = np.full_like(self._expected, np.nan)

    def close(self) -> None:
        self.closed = True


class MadeUpInterface:
    """An interface with devices that are made up; ``sessions`` are those it opened."""

    def __init__(self, profiles: Sequence[DeviceProfile] = (PROFILE,), noise: float = 0.0, order_matters: bool = True) -> None:
        self._profiles = profiles
        self._noise = noise
        self._order_matters = order_matters
        self.sessions: list[MadeUpSession] = []

    def profiles(self) -> Sequence[DeviceProfile]:
        return self._profiles

    def session(self, device: int, workload: Convolution) -> MadeUpSession:
        self.sessions.append(MadeUpSession(workload, self._noise, self._order_matters, seed=len(self.sessions)))
        return self.sessions[-1]

    def missing_driver(self) -> str:
        return "make one up"
