"""The mixed random networks on small images (CIFAR's 32x32 and the like), whose kernels the larger ones hardly ever have.

Search spaces such as NAS-Bench-201 work at this size: tiny maps with few channels, where overheads outweigh arithmetic.
"""

from __future__ import annotations

from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.records import Reference
from latcast.spaces.families.variants import checked_call, distinct_references
from latcast.spaces.synthetic import random_mixed
from latcast.spaces.synthetic.mixed_builder import log_uniform

NAME = "random_small"
SIZES = (32, 32, 32, 48, 64)
MAC_RANGE = (4e6, 500e6)


def build(seed: int, width: float = 1.0, size: int = SIZES[0]) -> Graph:
    """The network that :func:`random_mixed.build` makes of a seed, for a square input of ``size`` pixels a side."""
    return random_mixed.build(seed, width, input_size=(size, size))


def draw(rng: Random) -> dict[str, Any]:
    """A target, then structures until one reaches it."""
    size = rng.choice(SIZES)
    target = log_uniform(rng, *MAC_RANGE)
    while True:
        seed = rng.getrandbits(32)
        try:
            multiplier = random_mixed.fitted_multiplier(seed, target, input_size=(size, size))
        except ModelError:  # a window larger than what strides leave of a small image
            continue
        if multiplier is not None:
            return {"seed": seed, "width": multiplier, "size": size}


def within_limits(graph: Graph) -> bool:
    """Whether a network has as many multiply-accumulates and no more weights than the space allows."""
    return MAC_RANGE[0] <= graph_macs(graph) <= MAC_RANGE[1] and graph.parameter_count <= random_mixed.MAX_PARAMETERS


class RandomSmallSpace:
    """The space as the catalogue sees it."""

    name = NAME

    def build(self, **parameters: Any) -> Graph:
        return checked_call(NAME, build, parameters)

    def sample(self, count: int, seed: int) -> list[Reference]:
        """``count`` different members, their multiply-accumulates about log-uniform from 4 to 500 million."""
        return distinct_references(NAME, draw, count, seed, accept=lambda parameters: within_limits(build(**parameters)))


SPACE = RandomSmallSpace()
