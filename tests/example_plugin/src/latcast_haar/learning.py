"""A sampler that begins with small kernels, and a regressor that looks at the nearest ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

import numpy as np

from latcast.kernels.kernel import Configuration
from latcast.samplers.sampler import draw_distinct
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts

NEIGHBOURS = 3


class SmallFirst:
    """Draws twice as many configurations as are asked for and suggests those of the fewest FLOPs."""

    def __init__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> None:
        self._space = space
        self._rng = Random(f"small_first/{space.name}/{seed}")
        self._seen: set[Configuration] = set()

    def suggest(self, count: int) -> list[Configuration]:
        drawn = draw_distinct(lambda: self._space.draw(self._rng), 2 * count, set(self._seen))
        if not drawn:
            return []
        kind = self._space.kernel_type
        flops = kind.quantities(kind.columns(np.array(drawn))).flops
        chosen = [drawn[index] for index in np.argsort(flops, kind="stable")[:count]]
        self._seen.update(chosen)
        return chosen

    def observe(
        self,
        configurations: Sequence[Configuration],
        *,
        latency_ms: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
    ) -> None:
        self._seen.update(configurations)


@dataclass(frozen=True)
class NearestKernels:
    """The geometric mean of the nearest kernels' latencies, in logarithmic features."""

    features: np.ndarray
    log_ms: np.ndarray
    kind: ClassVar[str] = "nearest"

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> NearestKernels:
        return cls(np.log1p(np.abs(features)), np.log(latency_ms))

    def predict(self, features: np.ndarray) -> np.ndarray:
        apart = np.abs(np.log1p(np.abs(features))[:, None, :] - self.features[None]).sum(axis=2)
        nearest = np.argsort(apart, axis=1, kind="stable")[:, :NEIGHBOURS]
        return np.exp(self.log_ms[nearest].mean(axis=1))

    def arrays(self) -> Mapping[str, np.ndarray]:
        return {"features": self.features, "log_ms": self.log_ms}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> NearestKernels:
        return cls(arrays["features"], arrays["log_ms"])
