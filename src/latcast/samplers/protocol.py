"""What chooses the kernels to measure next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from latcast.kernels.kernel import Configuration
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts


class Sampler(Protocol):
    """Chooses configurations of one kernel type.

    A sampler's state is its seed and what it was told by :meth:`observe`: one that is made anew and told the same measurements
    suggests nothing that was measured, so that a campaign needs no other memory than its store.
    """

    def suggest(self, count: int) -> list[Configuration]:
        """Up to ``count`` valid configurations, none of them suggested or observed before; fewer only where hardly any are
        left."""

    def observe(
        self,
        configurations: Sequence[Configuration],
        *,
        latency_ms: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
    ) -> None:
        """Takes note of configurations that are known from now on.

        Args:
            configurations: Of the sampler's kernel type.
            latency_ms: What each took; NaN where it could not be measured.
            errors: How far the present predictor is off on each, as a part of what was measured (0.1 is 10 %). Later errors
                of a configuration replace earlier ones.
        """


class SamplerMaker(Protocol):
    """How samplers are made, whatever they learn from: the classes of samplers fulfil it."""

    def __call__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> Sampler:
        """A sampler.

        Args:
            space: Valid configurations of the kernel type.
            listed: Configurations as networks have them, with their numbers; what a prior is learned from.
            seed: Of every random choice; same seed and same observations, same suggestions.
        """
