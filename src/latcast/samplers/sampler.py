"""The protocol of samplers, and the two that learn nothing from measurements: random and prior."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Protocol

from latcast.kernels.kernel import Configuration
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts


class Sampler(Protocol):
    """A chooser of configurations of one kernel type.

    Its state is its seed and its observations: a new one with the same observations suggests nothing that was measured, so that
    a campaign needs no other memory than its store.
    """

    def suggest(self, count: int) -> list[Configuration]:
        """Return ``count`` valid configurations, none suggested or observed before; fewer only where hardly any are left."""

    def observe(
        self,
        configurations: Sequence[Configuration],
        *,
        latency_ms: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
    ) -> None:
        """Note configurations that are known from now on.

        Args:
            configurations: Of the sampler's kernel type.
            latency_ms: Of each; NaN where it could not be measured.
            errors: Relative error of the present predictor on each (0.1 is 10 %); later errors replace earlier ones.
        """


class SamplerMaker(Protocol):
    """A maker of samplers: the classes of samplers are."""

    def __call__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> Sampler:
        """Return a sampler.

        Args:
            space: Valid configurations of the kernel type.
            listed: Configurations of networks, with their numbers, for a prior.
            seed: Of every random choice; same seed and same observations, same suggestions.
        """


class RandomSampler:
    """A sampler that draws evenly: choices on the grid, channels over their range (nn-Meter §7.3 compares with it)."""

    kind = "random"

    def __init__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> None:
        self._space = space
        self._rng = Random(f"{self.kind}/{space.name}/{seed}")
        self.seen: set[Configuration] = set()

    def suggest(self, count: int) -> list[Configuration]:
        return draw_distinct(self._draw, count, self.seen)

    def observe(
        self,
        configurations: Sequence[Configuration],
        *,
        latency_ms: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
    ) -> None:
        self.seen.update(configurations)

    def _draw(self) -> Configuration | None:
        return self._space.draw(self._rng)


BEYOND_SHARE = 0.5
"""Part of the draws that lie between listed configurations."""

LONE_FACTORS = (0.8, 1.25)
"""Range of the scale of the channels of a configuration that has no neighbour."""

GRAIN = 8
"""Widths of networks are multiples of this, of 4 or of 2, or odd."""


class PriorSampler(RandomSampler):
    """A sampler that draws configurations as networks have them; evenly where no network has a kernel of the type.

    nn-Meter §5.2, with whole configurations in place of one distribution a dimension. Half of the draws are configurations that
    networks have, each as often as they have it. The others lie between those: of two configurations that agree in everything
    but channels, all channels move by the same part of the way from one to the other, in logarithms, and stay multiples of 8,
    4 or 2 where both are. So wide layers stay wide at both ends, and alignment is as frequent as in networks. A configuration
    without such a neighbour has all its channels scaled by one factor.
    """

    kind = "prior"

    def __init__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> None:
        super().__init__(space, listed, seed)
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

    def _draw(self) -> Configuration | None:
        rng = self._rng
        if not self._rows:
            return super()._draw()
        [index] = rng.choices(range(len(self._rows)), cum_weights=self._weights)
        if rng.random() >= BEYOND_SHARE:
            return self._space.canonical(self._rows[index])
        a, b = self._spans[index], self._spans[rng.choice(self._group[index])]
        part = rng.random()
        if a == b:
            low, high = LONE_FACTORS
            factor = low * (high / low) ** part
            channels = {name: on_grain(factor * value, grain(value)) for name, value in a.items()}
        else:
            channels = {name: on_grain(a[name] ** (1 - part) * b[name] ** part, grain(a[name], b[name])) for name in a}
        return self._space.moved(self._rows[index], channels)


def grain(*values: int) -> int:
    """Return the largest of 8, 4, 2 and 1 that divides all values."""
    found = GRAIN
    while any(value % found for value in values):
        found //= 2
    return found


def on_grain(value: float, grain: int) -> int:
    """Return the nearest multiple, at least one."""
    return max(round(value / grain) * grain, grain)


FRUITLESS = 400
"""Draws in a row without a new configuration, after which a space counts as exhausted."""


def draw_distinct(draw: Callable[[], Configuration | None], count: int, seen: set[Configuration]) -> list[Configuration]:
    """Draw configurations that are not in ``seen`` and add them; fewer after :data:`FRUITLESS` failed draws."""
    found: list[Configuration] = []
    fruitless = 0
    while len(found) < count and fruitless < FRUITLESS:
        configuration = draw()
        if configuration is None or configuration in seen:
            fruitless += 1
            continue
        seen.add(configuration)
        found.append(configuration)
        fruitless = 0
    return found
