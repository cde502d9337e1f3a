"""PyTorch Mobile's Vulkan backend on Android GPUs (Li et al., Algorithm B.1): the same on all GPU families."""

from __future__ import annotations

import numpy as np

from latcast.kernels.selection.protocol import Thresholds
from latcast.kernels.types.kernel_type import Columns


def select(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Kernels of the backend; see :class:`latcast.kernels.selection.protocol.KernelSelection`.

    Depthwise is what has as many groups as input channels, so a convolution of a single channel too.
    """
    c = columns
    if kernel_type not in ("conv", "depthwise_conv", "grouped_conv"):
        return np.full(len(next(iter(c.values()))), kernel_type, dtype=object)
    depthwise = (c["groups"] == c["in_channels"]) & (c["out_channels"] != 1)
    side = np.where(c["kernel_h"] == c["kernel_w"], c["kernel_h"], 0)
    return np.select(
        [depthwise & (side == 3), depthwise & (side == 5), depthwise, side == 1],
        ["depthwise_conv.3x3", "depthwise_conv.5x5", "depthwise_conv", "conv.pointwise"],
        default=kernel_type,
    ).astype(object)
