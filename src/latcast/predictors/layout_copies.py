"""What rearranging a convolution's maps costs where a runtime keeps channels first and its library wants them last.

PyTorch Mobile hands fp32 convolutions to XNNPACK. The input of each is copied so that the channels of a pixel lie together, and
its output is copied back. The loop of either copy writes in order and reads with a stride: a map's size on the way in (one pixel
of every channel), the channels' size on the way out. A line of a cache serves sixteen reads if it is still there when the next
ones come, and a stride that is a multiple of a power of two brings all lines into a few sets of the cache. So maps of 56x56 and
up, and channels that are powers of two, take several times as long to copy as their size says: on an in-order core MobileNet with
512 channels takes 2.2 times as long as with 384 of them, for 1.8 times the FLOPs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.kernels.types.kernel_type import missed

LAYOUT_TERMS = ("laid_in_near", "laid_in_far", "laid_out_far")
"""Elements of an input whose copy misses the first cache, and the second; of an output whose copy misses the second. Strides on
the way out are short, and what the first cache misses there was fetched ahead."""

NEAR, FAR = (128, 4), (512, 16)
"""Sets and ways: 32 KiB and 512 KiB, those of a Cortex-A53 and A55 and about those of larger cores; twice or half of it fits the
published phones about as well."""


def layout_terms(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """:data:`LAYOUT_TERMS` of convolutions, each (kernels,).

    Args:
        columns: ``in_h``, ``in_w``, ``in_channels`` and the same of the output, each (kernels,).
    """
    read, written = (columns[f"{side}_h"] * columns[f"{side}_w"] for side in ("in", "out"))
    channels_in, channels_out = columns["in_channels"], columns["out_channels"]
    # A single pixel, or a single channel, lies alike in both layouts.
    laid_in = np.where((read > 1) & (channels_in > 1), read * channels_in, 0)
    laid_out = np.where((written > 1) & (channels_out > 1), written * channels_out, 0)
    near, far, back = missed(channels_in, read, NEAR), missed(channels_in, read, FAR), missed(written, channels_out, FAR)
    return dict(zip(LAYOUT_TERMS, (laid_in * near, laid_in * far, laid_out * back), strict=True))
