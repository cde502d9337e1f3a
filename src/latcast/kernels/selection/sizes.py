"""Conditions on sizes that several backends ask for."""

from __future__ import annotations

import numpy as np

from latcast.kernels.types.kernel_type import Columns


def is_pointwise(c: Columns) -> np.ndarray:
    """1x1 at stride 1, unpadded, of all channels: the same as a matrix product with the filter."""
    found = (c["groups"] == 1) & (c["padded"] == 0)
    for name in ("kernel_h", "kernel_w", "stride_h", "stride_w"):
        found &= c[name] == 1
    return found


def covers_map(c: Columns) -> np.ndarray:
    """A pooling window that is the whole map."""
    whole = (c["kernel_h"] == c["in_h"]) & (c["kernel_w"] == c["in_w"])
    return whole & (c["out_h"] == 1) & (c["out_w"] == 1)
