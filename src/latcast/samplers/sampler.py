"""The protocol of samplers, the three there are (random, prior, adaptive), and the fixed test set of a kernel type."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from math import ceil, isnan
from random import Random
from typing import Protocol

import numpy as np

from latcast.kernels.kernel import Configuration
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts
from latcast.spaces.parametrisations import CODES


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


CHANNEL_RANGE = (0.4, 1.2)
"""Range of channels of fine-grained samples, relative to the inaccurate point (Algorithm 2, line 3)."""

SAMPLES_PER_POINT = 3
"""``M`` of Algorithm 2; the paper has 10, for rounds of thousands instead of tens."""

LARGE_ERROR = 0.1
"""Relative error from which on a point is inaccurate: a miss of the paper's accuracy within ±10 %."""


class AdaptiveSampler(PriorSampler):
    """A sampler that draws from the prior until errors are known, then around the largest (nn-Meter §5.2, Algorithm 2).

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


NEAREST = 20
"""A combination takes its channels from one of at least this many nearest configurations on the grid."""

CELL_DRAWS = 20
"""Draws of channels for a combination that has none yet: those of a small map may be too many for a large one."""


def fixed_test_set(space: KernelSpace, listed: ConfigurationCounts, count: int, seed: int) -> list[Configuration]:
    """Return the configurations that predictors are judged on, the same in every round (nn-Meter §5.2).

    Each pass goes over all combinations (HW, K, S) in an order drawn from the seed and gives each the rest of a configuration
    of networks, channels above all, that is near to it on the grid; so any beginning is spread over the grid, and a smaller
    set is the beginning of a larger one.

    Args:
        space: Valid configurations.
        listed: Configurations of networks; channels are drawn evenly where there are none.
        count: How many; fewer where the space has hardly more.
        seed: Of order and channels.
    """
    rng = Random(f"test set/{space.name}/{seed}")
    order = list(space.cells)
    rng.shuffle(order)
    rows = [row for row in listed if space.within_limits(row)]
    dimensions = [space.dimensions(row) for row in rows]
    # A kernel of networks may be described otherwise than the grid is: by the padding of each axis instead of one for all.
    known = set(space.cells[0]).intersection(*dimensions) - CODES
    names = [name for name in space.cells[0] if name in known]
    places = np.array([[float(np.log2(found[name] + 1)) for name in names] for found in dimensions])

    def draw(cell: Mapping[str, int]) -> Configuration | None:
        """Return a configuration at a place on the grid with the channels of a listed one that is near."""
        if not rows:
            drawn = space.draw(rng)
            return None if drawn is None else space.moved(drawn, cell)
        distance = np.abs(places - np.array([float(np.log2(cell[name] + 1)) for name in names])).sum(axis=1)
        # All that are as near as the last of the nearest, so that the order of networks does not matter.
        reach = np.sort(distance)[min(NEAREST, len(distance)) - 1]
        return space.moved(rows[int(rng.choice(np.flatnonzero(distance <= reach)))], cell)

    found: dict[Configuration, None] = {}
    before = -1
    while before < len(found) < count:
        before = len(found)
        for cell in order:
            draws = (draw(cell) for _ in range(CELL_DRAWS))
            new = next((row for row in draws if row is not None and row not in found), None)
            if new is not None:
                found[new] = None
    return list(found)[:count]
