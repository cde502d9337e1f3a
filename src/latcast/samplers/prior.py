"""Sampling from the joint distribution of configurations in networks (nn-Meter §5.2, with whole configurations in place of one
distribution a dimension).

Half of the draws are configurations that networks have, each as often as they have it. The others lie between those: of two
configurations that agree in everything but channels, all channels move by the same part of the way from one to the other, in
logarithms, and stay multiples of 8, 4 or 2 where both are. So wide layers stay wide at both ends, and alignment is as frequent
as in networks. A configuration without such a neighbour has all its channels scaled by one factor.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from random import Random

from latcast.kernels.kernel import Configuration
from latcast.samplers.distinct import distinct
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts

BEYOND_SHARE = 0.5
"""Part of the draws that lie between listed configurations."""

LONE_FACTORS = (0.8, 1.25)
"""Scale of the channels of a configuration that has no neighbour."""

GRAIN = 8
"""Widths of networks are multiples of this, of 4 or of 2, or of none."""


class PriorSampler:
    """Draws as networks have configurations; evenly where no network has a kernel of the type.

    Args:
        space: Valid configurations.
        listed: Configurations of networks, with their numbers.
        seed: Of every random choice.
    """

    def __init__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> None:
        self._space = space
        self._rng = Random(f"prior/{space.name}/{seed}")
        self._seen: set[Configuration] = set()
        self._rows = [row for row in listed if space.within_limits(row)]
        self._weights = list(accumulate(listed[row] for row in self._rows))
        self._spans: list[Mapping[str, int]] = []
        self._neighbours: dict[Hashable, list[int]] = {}
        self._group: list[list[int]] = []
        for index, row in enumerate(self._rows):
            spans = space.spans(row)
            rest = frozenset((name, value) for name, value in space.dimensions(row).items() if name not in spans)
            group = self._neighbours.setdefault(rest, [])
            group.append(index)
            self._spans.append(spans)
            self._group.append(group)

    def suggest(self, count: int) -> list[Configuration]:
        return distinct(self._draw, count, self._seen)

    def observe(
        self,
        configurations: Sequence[Configuration],
        *,
        latency_ms: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
    ) -> None:
        self._seen.update(configurations)

    def _draw(self) -> Configuration | None:
        rng = self._rng
        if not self._rows:
            return self._space.draw(rng)
        [index] = rng.choices(range(len(self._rows)), cum_weights=self._weights)
        if rng.random() >= BEYOND_SHARE:
            return self._space.canonical(self._rows[index])
        return self._space.moved(self._rows[index], self._between(index, rng.choice(self._group[index])))

    def _between(self, index: int, other: int) -> dict[str, int]:
        """Channels between those of two listed configurations, or about those of one."""
        a, b = self._spans[index], self._spans[other]
        if a == b:
            low, high = LONE_FACTORS
            factor = low * (high / low) ** self._rng.random()
            return {name: on_grain(factor * value, grain(value)) for name, value in a.items()}
        part = self._rng.random()
        return {name: on_grain(a[name] ** (1 - part) * b[name] ** part, grain(a[name], b[name])) for name in a}


def grain(*values: int) -> int:
    """The largest of 8, 4, 2 and 1 that divides all values."""
    found = GRAIN
    while any(value % found for value in values):
        found //= 2
    return found


def on_grain(value: float, grain: int) -> int:
    """The nearest multiple, at least one."""
    return max(round(value / grain) * grain, grain)
