"""What regressors see of a kernel: its fields (Li et al. Table 2, nn-Meter Table 6) and analytical quantities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.kernels.types import KernelType

_QUANTITIES = ("flops", "input_elements", "output_elements", "weight_elements", "intensity")


def feature_names(kind: KernelType) -> tuple[str, ...]:
    """Names of the columns of :func:`feature_matrix`."""
    one = np.ones((1, len(kind.fields)), dtype=np.int64)
    return (*kind.fields, *_QUANTITIES, *kind.features(kind.columns(one)))


def feature_matrix(kind: KernelType, configurations: np.ndarray, names: Sequence[str] | None = None) -> np.ndarray:
    """Features of kernels, (kernels, features), float64, finite.

    FLOPs, elements read, written and of weights; FLOPs per element moved; and what the type adds (blocked MACs,
    remainders against the vector length, tiles).

    Args:
        kind: The type.
        configurations: (kernels, fields).
        names: Which features, in which order; all of them where None. A predictor keeps the names it was trained on, so
            that a feature added later changes nothing for it.
    """
    columns = kind.columns(configurations)
    q = kind.quantities(columns)
    moved = q.input_elements + q.output_elements + q.weight_elements
    parts = [
        *columns.values(), q.flops, q.input_elements, q.output_elements, q.weight_elements, q.flops / np.maximum(moved, 1),
        *kind.features(columns).values(),
    ]  # fmt: skip
    known = feature_names(kind)
    if names is not None and tuple(names) != known:
        by_name = dict(zip(known, parts, strict=True))
        parts = [by_name[name] for name in names]
    return np.stack([np.broadcast_to(part, len(configurations)) for part in parts], axis=1).astype(np.float64)


def in_present_fields(kind: KernelType, fields: Sequence[str], configurations: np.ndarray) -> np.ndarray:
    """Configurations written with the fields that a type once had, (..., fields then), as it has them now, (..., fields).

    Fields are only ever added, and one that came later is 0 for what was written before it.
    """
    if tuple(fields) == kind.fields:
        return configurations
    present = np.zeros((*configurations.shape[:-1], len(kind.fields)), dtype=np.int64)
    present[..., [kind.fields.index(name) for name in fields]] = configurations
    return present
