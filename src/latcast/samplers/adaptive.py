"""Adaptive sampling (nn-Meter §5.2, Algorithm 2): more where the predictor is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isnan
from random import Random

from latcast.kernels.kernel import Configuration
from latcast.samplers.sampler import PriorSampler, draw_distinct
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts

CHANNEL_RANGE = (0.4, 1.2)
"""Range of channels of fine-grained samples, relative to the inaccurate point (Algorithm 2, line 3)."""

SAMPLES_PER_POINT = 3
"""``M`` of Algorithm 2; the paper has 10, for rounds of thousands instead of tens."""

LARGE_ERROR = 0.1
"""Relative error from which on a point is inaccurate: a miss of the paper's accuracy within ±10 %."""


class AdaptiveSampler(PriorSampler):
    """A sampler that draws from the prior until errors are known, then around the points with the largest ones.

    The errors are those of a fixed test set, observed once a round. Around each point the grid's dimensions (HW, K, S) stay and
    channels are drawn evenly. Where no error is large, the prior goes on.

    Args:
        space, listed, seed: See :class:`latcast.samplers.SamplerMaker`.
        samples_per_point: Samples around one inaccurate point in one suggestion.
    """

    def __init__(
        self, space: KernelSpace, listed: ConfigurationCounts, seed: int, *, samples_per_point: int = SAMPLES_PER_POINT
    ) -> None:
        super().__init__(space, listed, seed)
        self._seed = seed
        self._samples_per_point = samples_per_point
        self._errors: dict[Configuration, float] = {}

    def observe(
        self,
        configurations: Sequence[Configuration],
        *,
        latency_ms: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
    ) -> None:
        super().observe(configurations)
        if errors is not None:
            known = zip(configurations, errors, strict=True)
            self._errors.update((configuration, error) for configuration, error in known if not isnan(error))

    def suggest(self, count: int) -> list[Configuration]:
        large = [(error, point) for point, error in self._errors.items() if error > LARGE_ERROR]
        points = [point for _, point in sorted(large, reverse=True)[: ceil(count / self._samples_per_point)]]
        # From the known points alone, so that a new sampler with the same observations goes on as this one would.
        rng = Random(f"adaptive/{self._space.name}/{self._seed}/{len(self.seen)}")
        low, high = CHANNEL_RANGE
        found: list[Configuration] = []
        for point in points:
            spans = self._space.spans(point)

            def draw(point: Configuration = point, spans: Mapping[str, int] = spans) -> Configuration | None:
                channels = {n: rng.randint(max(int(low * value), 1), max(int(high * value), 1)) for n, value in spans.items()}
                return self._space.moved(point, channels)

            found += draw_distinct(draw, min(self._samples_per_point, count - len(found)), self.seen)
        return found + super().suggest(count - len(found))
