"""PyTorch Mobile's Metal backend on Apple's GPUs: Apple's own kernels, one for all convolutions."""

from __future__ import annotations

import numpy as np

from latcast.kernels.selection.protocol import Thresholds
from latcast.kernels.selection.sizes import covers_map
from latcast.kernels.types.kernel_type import Columns


def select(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Kernels of the backend; see :class:`latcast.kernels.selection.protocol.KernelSelection`.

    An average over the whole map runs as an adaptive one, whatever spells it.
    """
    if kernel_type == "average_pool":
        return np.where(covers_map(columns), "reduce", "average_pool").astype(object)
    return np.full(len(next(iter(columns.values()))), kernel_type, dtype=object)
