"""Drawing until there are enough different configurations."""

from __future__ import annotations

from collections.abc import Callable

from latcast.kernels.kernel import Configuration

FRUITLESS = 400
"""Draws in a row that bring nothing new, after which a space counts as exhausted."""


def distinct(draw: Callable[[], Configuration | None], count: int, seen: set[Configuration]) -> list[Configuration]:
    """Draws configurations that are not in ``seen`` and adds them to it.

    Args:
        draw: One draw; None where it failed.
        count: How many are wanted; fewer come back where :data:`FRUITLESS` draws in a row bring none.
        seen: Configurations not to be drawn.
    """
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
