"""What families that are written stage by stage share: lists that belong together, and redrawn numbers of blocks."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from random import Random

from latcast.errors import ModelError
from latcast.spaces.families.variants import draw_depths


def check_lengths(space: str, **columns: Sized) -> None:
    """Checks that lists with one entry for each stage (or block) are of one length.

    Raises:
        ModelError: They are not; the message gives every length.
    """
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise ModelError(f"the lists of {space} differ in length ({lengths}); give one entry for each stage")


def draw_blocks(rng: Random, count: int) -> list[int]:
    """Which published blocks a stage of ``count`` blocks consists of at a depth of its own.

    A shallower stage lacks the last ones, a deeper one repeats the last.
    """
    (depth,) = draw_depths(rng, [count])
    return [min(index, count - 1) for index in range(depth)]


def draw_nested(rng: Random, stages: Sequence[Sequence[int]], choices: Sequence[int], keep: float) -> list[list[int]]:
    """Every number of every stage stays with probability ``keep`` and is any of ``choices`` otherwise."""
    return [[value if rng.random() < keep else rng.choice(choices) for value in stage] for stage in stages]
