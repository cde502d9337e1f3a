"""Adaptive sampling (nn-Meter §5.2, Algorithm 2): more where the predictor is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isnan
from random import Random

from latcast.kernels.kernel import Configuration
from latcast.samplers.sampler import PriorSampler, draw_distinct
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts

CHANNEL_RANGE = (0.4, 1.2)
"""Fine-grained samples have each number of channels between these parts of what it is at the inaccurate point (Algorithm 2,
line 3)."""

SAMPLES_PER_POINT = 3
"""``M`` of Algorithm 2. The paper has 10 in rounds of thousands; in rounds of some tens, fewer samples around more points did
better on a made-up device."""

LARGE_ERROR = 0.1
"""Relative error from which on a point is inaccurate: what the paper's accuracy within ±10 % counts as a miss."""


class AdaptiveSampler:
    """Draws from the prior until errors are known, then around the points with the largest ones.

    The errors are those of a fixed test set, which whoever fits the predictor observes once a round. Around each point the
    grid's dimensions (HW, K, S) stay and channels are drawn evenly. Where no error is large, the prior goes on.

    Args:
        space: Valid configurations.
        listed: Configurations of networks, with their numbers.
        seed: Of every random choice.
        samples_per_point: Samples around one inaccurate point in one suggestion.
        large_error: Relative error from which on a point is inaccurate.
    """

    def __init__(
        self,
        space: KernelSpace,
        listed: ConfigurationCounts,
        seed: int,
        *,
        samples_per_point: int = SAMPLES_PER_POINT,
        large_error: float = LARGE_ERROR,
    ) -> None:
        self._space = space
        self._seed = seed
        self._samples_per_point = samples_per_point
        self._large_error = large_error
        self._prior = PriorSampler(space, listed, seed)
        self._seen: set[Configuration] = set()
        self._errors: dict[Configuration, float] = {}

    def suggest(self, count: int) -> list[Configuration]:
        found = self._fine_grained(count)
        found += self._prior.suggest(count - len(found))
        self._note(found)
        return found

    def observe(
        self,
        configurations: Sequence[Configuration],
        *,
        latency_ms: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
    ) -> None:
        self._note(configurations)
        if errors is not None:
            known = zip(configurations, errors, strict=True)
            self._errors.update((configuration, error) for configuration, error in known if not isnan(error))

    def _note(self, configurations: Sequence[Configuration]) -> None:
        self._seen.update(configurations)
        self._prior.observe(configurations)

    def _fine_grained(self, count: int) -> list[Configuration]:
        large = [(error, point) for point, error in self._errors.items() if error > self._large_error]
        points = [point for _, point in sorted(large, reverse=True)[: ceil(count / self._samples_per_point)]]
        # From what is known alone, so that a sampler made anew goes on as this one would.
        rng = Random(f"adaptive/{self._space.name}/{self._seed}/{len(self._seen)}")
        found: list[Configuration] = []
        for point in points:
            wanted = min(self._samples_per_point, count - len(found))
            found += draw_distinct(lambda point=point: self._near(point, rng), wanted, self._seen)  # type: ignore[misc]
        return found

    def _near(self, point: Configuration, rng: Random) -> Configuration | None:
        low, high = CHANNEL_RANGE
        channels = {
            name: rng.randint(max(int(low * value), 1), max(int(high * value), 1))
            for name, value in self._space.spans(point).items()
        }
        return self._space.moved(point, channels)
