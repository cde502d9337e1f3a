"""A graph builder with the conventions of one random network: how it activates, normalises and rounds its widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.spaces.families.variants import round_channels

WIDTH_LIMITS = (8, 2048)
ACTIVATIONS: Mapping[str, float] = {
    "relu": 50, "silu": 14, "hard_swish": 12, "relu6": 10, "leaky_relu": 8, "gelu": 3, "sigmoid": 3,
}  # fmt: skip
"""Activations and how often they occur, in percent."""

Item = TypeVar("Item")


def weighted(rng: Random, weights: Mapping[Item, float]) -> Item:
    """One of the keys, as often as its weight says."""
    return rng.choices(list(weights), weights=list(weights.values()))[0]


def log_uniform(rng: Random, low: float, high: float) -> float:
    return float(low * (high / low) ** rng.random())


class MixedBuilder(GraphBuilder):
    """Adds the layers that random blocks are made of.

    Every number that is drawn is independent of ``multiplier``, so that networks of one seed differ in width alone.

    Attributes:
        kinds: Kinds of the stem, blocks and head added so far, in order.
    """

    def __init__(self, name: str, rng: Random, multiplier: float) -> None:
        super().__init__(name)
        self.kinds: list[str] = []
        self._multiplier = multiplier
        self._default_activation = weighted(rng, ACTIVATIONS)
        self._normalised = rng.random() < 0.8
        self._multiple = weighted(rng, {8: 80.0, 4: 8.0, 2: 4.0, 1: 8.0})

    def size(self, x: str) -> tuple[int, int]:
        """Height and width of a map."""
        return self.shape(x)[2], self.shape(x)[3]

    def rounded(self, channels: float, multiple: int = 1) -> int:
        """A width within the limits, in the network's granularity and a multiple of ``multiple``."""
        low, high = WIDTH_LIMITS
        inside = min(max(channels, low), high)
        step = multiple if self._multiple % multiple else self._multiple
        return round_channels(inside, step)

    def scaled(self, channels: float, multiple: int = 1) -> int:
        """A drawn width times the network's multiplier, rounded."""
        return self.rounded(channels * self._multiplier, multiple)

    def block_activation(self, rng: Random) -> str:
        """The network's own activation, or now and then another one."""
        other = weighted(rng, ACTIVATIONS)
        return other if rng.random() < 0.15 else self._default_activation

    def layer(
        self,
        x: str,
        width: int,
        kernel: Size = 1,
        *,
        stride: int = 1,
        groups: int = 1,
        activation: str | None,
    ) -> str:
        """Convolution, normalisation (or a bias instead), activation."""
        x = self.conv(x, width, kernel, stride=stride, groups=groups, bias=not self._normalised)
        return self.activation(self.batch_norm(x) if self._normalised else x, activation)

    def depthwise(self, x: str, kernel: int, *, stride: int = 1, activation: str | None) -> str:
        return self.layer(x, self.channels(x), kernel, stride=stride, groups=self.channels(x), activation=activation)

    def shortcut(self, x: str, width: int, stride: int) -> str:
        """The input of a residual block as its output is shaped: itself, or projected."""
        if stride == 1 and self.channels(x) == width:
            return x
        return self.layer(x, width, stride=stride, activation=None)

    def gate_channels(self, x: str, rng: Random, *, reduction: int = 4) -> str:
        """Squeeze-and-excitation of one of the published flavours."""
        inner, gate = rng.choice((("relu", "sigmoid"), ("relu", "hard_sigmoid"), ("silu", "sigmoid")))
        return self.squeeze_excite(x, max(self.channels(x) // reduction, 4), activation=inner, gate=gate)

    def halve(self, x: str, rng: Random) -> str:
        """Halves a map with one of the usual poolings."""
        kind = rng.choice(("max3", "max2", "average2", "average3"))
        kernel = int(kind[-1])
        pool = self.max_pool if kind.startswith("max") else self.average_pool
        # Maps of odd size keep their border in the 3x3 poolings and lose it in the 2x2 ones, as in real networks.
        return pool(x, kernel, 2, 1 if kernel == 3 else 0)


def kernel_fits(size: Sequence[int], kernel: Size) -> bool:
    """Whether a kernel is no larger than the map it slides over."""
    return all(k <= s for k, s in zip(pair(kernel), size, strict=True))
