"""What regressors see of a kernel: its fields (Li et al. Table 2, nn-Meter Table 6) and physical quantities."""

from __future__ import annotations

import numpy as np

from latcast.kernels.types import KernelType

_QUANTITIES = ("flops", "input_elements", "output_elements", "weight_elements", "intensity")


def feature_names(kind: KernelType) -> tuple[str, ...]:
    """Names of the columns of :func:`feature_matrix`."""
    one = np.ones((1, len(kind.fields)), dtype=np.int64)
    return (*kind.fields, *_QUANTITIES, *kind.features(kind.columns(one)))


def feature_matrix(kind: KernelType, configurations: np.ndarray) -> np.ndarray:
    """Features of kernels, (kernels, features), float64, finite.

    FLOPs, elements read, written and of weights; FLOPs per element moved; and what the type adds (blocked MACs,
    remainders against the vector length, tiles).
    """
    columns = kind.columns(configurations)
    q = kind.quantities(columns)
    moved = q.input_elements + q.output_elements + q.weight_elements
    parts = [
        *columns.values(), q.flops, q.input_elements, q.output_elements, q.weight_elements, q.flops / np.maximum(moved, 1),
        *kind.features(columns).values(),
    ]  # fmt: skip
    return np.stack([np.broadcast_to(part, len(configurations)) for part in parts], axis=1).astype(np.float64)
