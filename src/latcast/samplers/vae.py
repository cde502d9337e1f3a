"""LitePred's sampler (§4.2): a variational autoencoder learns how the dimensions of kernels in networks go together, and
draws new ones from that distribution.

What it learns from are the kernels of networks in logarithms of their dimensions, each between 0 and 1. What its decoder gives
is rounded to the nearest valid kernel: dimensions on the grid (HW, K, S) to values that networks have, channels to multiples
of 8, 4 or 2 as the nearest kernel of networks has them, since an odd width costs more than its neighbours. Where a draw is no
kernel, or one that is known, another is drawn; a space that is exhausted in this way is gone on with by the prior sampler, and
so is a type of which networks have too few kernels to learn from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from latcast.kernels.kernel import Configuration
from latcast.samplers.distinct import distinct
from latcast.samplers.prior import PriorSampler, grain, on_grain
from latcast.samplers.vae_training import Decoder, trained_decoder
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts

FEWEST_ROWS = 10
"""Kernels in networks below which nothing is learned."""

DRAWN_AT_ONCE = 256


class VaeSampler:
    """Draws kernels as a variational autoencoder decodes them.

    Args:
        space: Valid configurations.
        listed: Configurations of networks, with their numbers.
        seed: Of every random choice.

    Raises:
        MissingExtraError: torch is not installed, and no trained decoder is in the cache.
    """

    def __init__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._prior = PriorSampler(space, listed, seed)
        self._seen: set[Configuration] = set()
        self._rng = np.random.default_rng([seed, *space.name.encode()])
        self._drawn: list[np.ndarray] = []
        self._tried: set[tuple[int, ...]] = set()
        self._rows = [row for row in listed if space.within_limits(row)]
        self._counts = np.array([listed[row] for row in self._rows], dtype=np.float64)
        self._decoder: Decoder | None = None
        if len(self._rows) >= FEWEST_ROWS and self._names:
            self._decoder = trained_decoder(space.name, self._normalised, self._importance, seed)

    def suggest(self, count: int) -> list[Configuration]:
        found = distinct(self._draw, count, self._seen) if self._decoder is not None else []
        if len(found) < count:
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

    def _note(self, configurations: Sequence[Configuration]) -> None:
        self._seen.update(configurations)
        self._prior.observe(configurations)

    # What it learns from

    @cached_property
    def _dimensions(self) -> list[dict[str, int]]:
        return [self._space.dimensions(row) for row in self._rows]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The dimensions in which kernels of networks differ."""
        first = self._dimensions[0] if self._dimensions else {}
        return tuple(name for name in first if any(found[name] != first[name] for found in self._dimensions))

    @cached_property
    def _logs(self) -> np.ndarray:
        """(kernels, dimensions)."""
        return np.log2(1.0 + np.array([[found[name] for name in self._names] for found in self._dimensions]))

    @cached_property
    def _normalised(self) -> np.ndarray:
        """(kernels, dimensions), each from 0 to 1."""
        low = self._logs.min(axis=0)
        return np.asarray((self._logs - low) / (self._logs.max(axis=0) - low))

    @cached_property
    def _importance(self) -> np.ndarray:
        """How often training sees each kernel, (kernels,), summing to 1: half by how often networks have it, half by what it
        computes and moves, because the few large kernels make up much of a network's latency (§4.2)."""
        kind = self._space.kernel_type
        q = kind.quantities(kind.columns(np.array(self._rows)))
        flops, moved = q.flops, q.input_elements + q.output_elements + q.weight_elements
        cost = self._counts * (flops / max(flops.sum(), 1.0) + moved / max(moved.sum(), 1.0))
        frequency = self._counts / self._counts.sum()
        return np.asarray(0.5 * frequency + 0.5 * cost / cost.sum())

    # What it gives

    def _draw(self) -> Configuration | None:
        if not self._drawn:
            assert self._decoder is not None
            self._drawn = list(self._decoder.draw(DRAWN_AT_ONCE, self._importance, self._rng))
        return self._nearest_valid(self._drawn.pop())

    def _nearest_valid(self, decoded: np.ndarray) -> Configuration | None:
        """The kernel nearest to what was decoded, (dimensions,) from 0 to 1; None where there is none near."""
        low = self._logs.min(axis=0)
        values = 2.0 ** (low + decoded * (self._logs.max(axis=0) - low)) - 1.0
        wanted = dict(zip(self._names, values.tolist(), strict=True))
        free = set(self._spans)
        place = [index for index, name in enumerate(self._names) if name not in free]
        # The nearest kernel of networks gives whatever is no channel, all of it at once: windows and their padding go together.
        distance = ((self._normalised[:, place] - decoded[place]) ** 2).sum(axis=1)
        own = ((self._normalised - decoded) ** 2).sum(axis=1)
        nearest = int(np.lexsort((own, distance))[0])
        channels = {name: on_grain(wanted[name], grain(self._dimensions[nearest][name])) for name in self._spans}
        tried = (int(np.flatnonzero(distance == distance[nearest])[0]), *channels.values())
        if tried in self._tried:
            return None  # building it once more, to learn that it is known, takes a hundred times as long as drawing
        self._tried.add(tried)
        return self._space.moved(self._rows[nearest], channels)

    @cached_property
    def _spans(self) -> Mapping[str, int]:
        """Channels in which kernels of networks differ, and their places."""
        spans = self._space.spans(self._rows[0])
        return {name: self._names.index(name) for name in spans if name in self._names}
