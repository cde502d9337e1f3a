"""Variants of published networks: other widths, kernel sizes, depths and resolutions, drawn from a seed.

The scheme is nn-Meter's (Zhang et al., §3 and Table 2): channel counts between 0.2 and 1.8 times the published
ones, and kernel sizes of 1, 3, 5, 7 or 9. Here a width belongs to a stage and is a multiple of 8, and depth and
resolution vary too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from latcast.errors import LatcastError, ModelError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.records import Reference
from latcast.spaces.catalogue import PublishedModel

WIDTH_RANGE = (0.2, 1.8)
KERNEL_SIZES = (1, 3, 5, 7, 9)
RESOLUTIONS = (128, 160, 192, 224, 256)

Draw = Callable[[Random], dict[str, Any]]
"""Parameters of one member of a space, drawn from a random stream; JSON values only."""


def round_channels(channels: float, multiple: int = 8) -> int:
    """The nearest multiple, at least one, and never more than 10 % below ``channels`` (MobileNet's rule)."""
    rounded = max(multiple, int(channels + multiple / 2) // multiple * multiple)
    return rounded + multiple if rounded < 0.9 * channels else rounded


def scaled_widths(widths: Sequence[int], multiplier: float, multiple: int = 8) -> list[int]:
    """Every width times one multiplier, rounded."""
    return [round_channels(width * multiplier, multiple) for width in widths]


def draw_widths(rng: Random, widths: Sequence[int], multiple: int = 8, limits: tuple[float, float] = WIDTH_RANGE) -> list[int]:
    """Every width times a multiplier of its own, rounded."""
    return [round_channels(width * rng.uniform(*limits), multiple) for width in widths]


def draw_kernels(rng: Random, kernels: Sequence[int], choices: Sequence[int] = KERNEL_SIZES, keep: float = 0.5) -> list[int]:
    """Each kernel size stays as published with probability ``keep`` and is any of ``choices`` otherwise."""
    return [kernel if rng.random() < keep else rng.choice(choices) for kernel in kernels]


def draw_depths(rng: Random, depths: Sequence[int], minimum: int = 1) -> list[int]:
    """Every depth between half and one and a half times the published one."""
    return [rng.randint(max(minimum, (depth + 1) // 2), max(minimum, depth * 3 // 2)) for depth in depths]


def draw_resolution(rng: Random) -> int:
    return rng.choice(RESOLUTIONS)


def distinct_references(
    space: str,
    draw: Draw,
    count: int,
    seed: int,
    *,
    accept: Callable[[Mapping[str, Any]], bool] | None = None,
    known: Collection[str] = (),
) -> list[Reference]:
    """``count`` different members of a space; a smaller count gives the head of a larger one's list.

    Args:
        space: The space's name; it enters the stream, so that two spaces do not draw alike from one seed.
        draw: Parameters of one member.
        count: How many.
        seed: Same seed, same members.
        accept: Members that it turns down are drawn again.
        known: Keys of references that must not be drawn.

    Raises:
        LatcastError: 1000 draws in a row gave nothing new; the space is smaller than ``count``.
    """
    rng = Random(f"{space}/{seed}")
    seen = set(known)
    found: list[Reference] = []
    fruitless = 0
    while len(found) < count:
        parameters = draw(rng)
        key = Reference(space, parameters).key
        if key not in seen:
            seen.add(key)
            if accept is None or accept(parameters):
                found.append(Reference(space, parameters, f"{space}-{key[:8]}"))
                fruitless = 0
                continue
        fruitless += 1
        if fruitless == 1000:
            raise LatcastError(
                f"found {len(found)} different members of the space '{space}' and then none in 1000 draws, "
                f"expected {count}; ask for fewer"
            )
    return found


def checked_call(name: str, builder: Callable[..., Graph], parameters: Mapping[str, Any]) -> Graph:
    """Calls a builder, with an error that lists its parameters where an argument is none of them.

    Raises:
        ModelError: A parameter that the builder does not take, or one that it lacks.
    """
    signature = inspect.signature(builder)
    try:
        signature.bind(**parameters)
    except TypeError as problem:
        raise ModelError(
            f"the space '{name}' cannot be built: {problem}; it takes {', '.join(signature.parameters)}"
        ) from problem
    return builder(**parameters)


@dataclass(frozen=True)
class VariantFamily:
    """A family of real networks: a builder, its published members, and a way to draw variants.

    Variants beyond the limits are drawn again: nobody runs them on an edge device, and weights beyond 160
    million (VGG16 has 138) do not fit in a phone's memory.

    Attributes:
        name: The space's name.
        published: Model name to what its paper says of it.
        builder: From JSON parameters to a graph.
        draw: Parameters of a variant.
        max_macs: Largest number of multiply-accumulates of a variant.
        max_parameters: Largest number of learned values of a variant.
    """

    name: str
    published: Mapping[str, PublishedModel]
    builder: Callable[..., Graph]
    draw: Draw
    max_macs: float = 16e9
    max_parameters: float = 160e6

    def build(self, **parameters: Any) -> Graph:
        """The member with these parameters.

        Raises:
            ModelError: Unknown parameters, or parameters that make no valid network.
        """
        return checked_call(self.name, self.builder, parameters)

    def sample(self, count: int, seed: int) -> list[Reference]:
        """``count`` different variants within the limits, none of them a published member."""
        published = {Reference(self.name, model.parameters).key for model in self.published.values()}
        return distinct_references(self.name, self.draw, count, seed, accept=self._fits, known=published)

    def _fits(self, parameters: Mapping[str, Any]) -> bool:
        graph = self.build(**parameters)
        return graph.parameter_count <= self.max_parameters and graph_macs(graph) <= self.max_macs
