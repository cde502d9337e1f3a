"""How much of a cache is left to reads or writes with a stride."""

from __future__ import annotations

import numpy as np

LINE_BYTES, ELEMENT_BYTES = 64, 4

LINE_ELEMENTS = LINE_BYTES // ELEMENT_BYTES

SHARPNESS = 4.0
"""Replacement is not in order: at the capacity half of the lines are gone, at twice the capacity all but a seventeenth."""


def missed(reads: np.ndarray, stride: np.ndarray, cache: tuple[int, int]) -> np.ndarray:
    """Return the share of reads whose line is gone when the next pass comes, (kernels,).

    A line serves sixteen reads if it is still there when the next ones come; a stride that is a multiple of a power of two
    brings all lines into a few sets of the cache.

    Args:
        reads: In a pass, each of another place.
        stride: Elements between them.
        cache: Sets and ways.
    """
    sets, ways = cache
    lines, rest = np.divmod(np.asarray(stride, dtype=np.int64) * ELEMENT_BYTES, LINE_BYTES)
    # Strides that are no whole number of lines come to all sets in turn.
    reached = np.where((rest == 0) & (lines > 0), sets // np.gcd(np.maximum(lines, 1), sets), sets)
    return np.asarray(1 / (1 + (reached * ways / np.maximum(reads, 1)) ** SHARPNESS))
