"""TFLite's GPU delegate: OpenCL on Android, Metal on Apple's GPUs (Li et al., Algorithm B.3).

Three things are not in the printed algorithm. A 1x1 convolution on a 1x1 map runs as fully connected, an average over the
whole map as a mean, and the group size that line 6 of the algorithm compares is that of one group's input channels.
"""

from __future__ import annotations

import numpy as np

from latcast.kernels.selection.protocol import Thresholds
from latcast.kernels.selection.sizes import covers_map, is_pointwise
from latcast.kernels.types.kernel_type import Columns

SLICE = 4
"""Channels that the delegate keeps together in one texel."""


def select(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Kernels of the delegate; see :class:`latcast.kernels.selection.protocol.KernelSelection`."""
    c = columns
    if kernel_type == "conv":
        on_vector = is_pointwise(c) & (c["in_h"] == 1) & (c["in_w"] == 1)
        names = np.where(runs_winograd(c, thresholds["winograd"]), "conv.winograd", "conv")
        return np.where(on_vector, "linear", names).astype(object)
    if kernel_type == "grouped_conv":
        return np.where(runs_grouped(c), "grouped_conv", "grouped_conv.split").astype(object)
    if kernel_type == "average_pool":
        return np.where(covers_map(c), "reduce", "average_pool").astype(object)
    return np.full(len(next(iter(c.values()))), kernel_type, dtype=object)


def runs_winograd(c: Columns, thresholds: Thresholds) -> np.ndarray:
    """CheckWinograd: a 3x3 convolution at stride 1 with channels and tiles enough; lines 12 to 30 of the algorithm.

    A dilated filter is not one that F(4x4, 3x3) computes.
    """
    suits = (c["kernel_h"] == 3) & (c["kernel_w"] == 3) & (c["groups"] == 1)
    for name in ("stride_h", "stride_w", "dilation_h", "dilation_w"):
        suits &= c[name] == 1
    source_depth = np.ceil(c["in_channels"] / SLICE)
    destination_depth = np.ceil(c["out_channels"] / SLICE)
    tiles = np.ceil(c["out_h"] / 4) * np.ceil(c["out_w"] / 4)
    deep = (source_depth >= thresholds["source_depth"]) & (destination_depth >= thresholds["destination_depth"])
    return suits & deep & (tiles >= thresholds["tiles"])


def runs_grouped(c: Columns) -> np.ndarray:
    """CheckGroupedConv2D: whole slices in each group; otherwise one convolution a group (lines 6 to 11)."""
    source_size = c["in_channels"] / c["groups"]
    destination_size = c["out_channels"] / c["groups"]
    return (source_size % SLICE == 0) & (destination_size % SLICE == 0)
