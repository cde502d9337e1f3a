"""Random sampling: every choice on the grid alike, channels evenly over their range (nn-Meter §7.3 compares with it)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from latcast.kernels.kernel import Configuration
from latcast.samplers.distinct import distinct
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts


class RandomSampler:
    """Draws evenly over the valid space; learns nothing."""

    def __init__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> None:
        self._space = space
        self._rng = Random(f"random/{space.name}/{seed}")
        self._seen: set[Configuration] = set()

    def suggest(self, count: int) -> list[Configuration]:
        return distinct(lambda: self._space.draw(self._rng), count, self._seen)

    def observe(
        self,
        configurations: Sequence[Configuration],
        *,
        latency_ms: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
    ) -> None:
        self._seen.update(configurations)
