"""What a backend's kernel selection is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from latcast.kernels.types.kernel_type import Columns

Thresholds = Mapping[str, Any]
"""Numbers of one GPU family for one backend, as its JSON file has them; empty where the backend asks for none."""


class KernelSelection(Protocol):
    """Names the kernel that a backend runs for kernels of one type, from their sizes alone."""

    def __call__(self, kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
        """The kernels' types after selection.

        Args:
            kernel_type: What fusion found ("conv").
            columns: Its fields, one array each, (kernels,).
            thresholds: Of the GPU family.

        Returns:
            (kernels,) names: the type itself, a variant of it ("conv.winograd"), or another type that the backend runs
            instead ("linear" for a convolution on a 1x1 map).
        """
