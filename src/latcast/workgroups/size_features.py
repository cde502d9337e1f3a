"""Numbers that decide how fast a work-group size is: what the rules ask yes or no about, in degrees."""

from __future__ import annotations

import numpy as np

from latcast.workgroups.data_access import accesses_per_item
from latcast.workgroups.ranking import padding_share
from latcast.workgroups.rules import Situation, group_counts
from latcast.workgroups.sweep import Sweep

SIZE_FEATURES = (
    "log2_x", "log2_y", "log2_z", "log2_items", "padding", "idle_lanes", "idle_cores", "unused_line", "loads_per_output",
    "log2_input_patch", "accesses_per_item", "padded_x", "padded_y", "padded_z",
)  # fmt: skip
"""What is not known of a device is 0; ratios are logarithms to base 2. ``padded_x``... are 1 where the size does not divide the
grid: kernels often check bounds then, whatever the share of padding."""


def size_features(sweep: Sweep) -> np.ndarray:
    """Features of each size of a sweep.

    Args:
        sweep: Its sizes, kernel, grid and device; no latency is looked at.

    Returns:
        (sizes, features) as :data:`SIZE_FEATURES`.
    """
    sizes, kernel, device = sweep.shapes, sweep.descriptor, sweep.device
    situation = Situation(sweep.grid, kernel, device)
    items = sizes.prod(axis=1)
    groups = group_counts(sizes, sweep.grid).prod(axis=1)
    columns = sizes[:, 0] * kernel.block_x + sweep.filter_size[1] - 1
    rows = sizes[:, 1] * kernel.block_y + sweep.filter_size[0] - 1
    outputs = sizes[:, 0] * kernel.block_x * sizes[:, 1] * kernel.block_y
    none = np.zeros(len(sizes))
    line = sizes[:, 0] * kernel.numbers_read_along_x * kernel.element_bytes
    return np.column_stack(
        [
            np.log2(sizes),
            np.log2(items),
            -np.log2(1 - padding_share(sizes, situation)),
            none if device.simultaneous_items is None else _rounding(items, device.simultaneous_items),
            none if device.compute_units is None else _rounding(groups, device.compute_units),
            none if device.cache_line_bytes is None else _rounding(line, device.cache_line_bytes),
            np.log2(columns * rows / outputs),
            np.log2(columns * rows),
            np.log2(accesses_per_item(sizes, kernel)) if kernel.accesses_counted else none,
            (np.array(sweep.grid.shape) % sizes != 0).astype(np.float64),
        ]
    )


def variant_features(sweep: Sweep) -> np.ndarray:
    """(features,) of a kernel variant: its settings in the order of their names, logarithms to base 2 of those above 1."""
    values = [float(value) for _, value in sorted(sweep.variant.items()) if isinstance(value, (int, float))]
    return np.array([np.log2(value) if value > 1 else value for value in values], dtype=np.float64)


def _rounding(numbers: np.ndarray, unit: int) -> np.ndarray:
    """log2 of how much larger the next multiple of a unit is: 0 for multiples."""
    return np.log2(np.ceil(numbers / unit) * unit / numbers)
