"""A kernel in the words of another type, where a backend runs it as one of those."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from latcast.errors import LatcastError
from latcast.kernels.types.kernel_type import FUSED_FIELDS, Columns, kernel_type


def conv_as_linear(c: Columns) -> list[np.ndarray]:
    """A 1x1 convolution on a 1x1 map: a row an image."""
    return [c["batch"], c["in_channels"], c["out_channels"]]


def pool_as_reduce(c: Columns) -> list[np.ndarray]:
    """A window as large as the map: every channel of every image becomes one number."""
    return [c["batch"] * c["channels"], c["in_h"] * c["in_w"], np.ones_like(c["batch"])]


RETYPINGS: Mapping[tuple[str, str], Callable[[Columns], list[np.ndarray]]] = {
    ("conv", "linear"): conv_as_linear,
    ("average_pool", "reduce"): pool_as_reduce,
}
"""(type, other type) to the other's own fields, for types whose fields differ."""


def retype(name: str, other: str, configurations: np.ndarray) -> np.ndarray:
    """Configurations of one type as those of another; what is fused behind stays.

    Args:
        name: The kernels' type.
        other: The type to describe them by.
        configurations: (kernels, fields of ``name``).

    Returns:
        (kernels, fields of ``other``), int64.

    Raises:
        LatcastError: The types differ in their fields and nothing says how.
        UnknownNameError: No such type.
    """
    before, after = kernel_type(name), kernel_type(other)
    if before.fields == after.fields:
        return np.asarray(configurations, dtype=np.int64)
    found = RETYPINGS.get((name, other))
    if found is None:
        raise LatcastError(f"a kernel of type '{name}' cannot be described as '{other}'; add it to RETYPINGS")
    columns = before.columns(configurations)
    parts = [*found(columns), *(columns[field] for field in FUSED_FIELDS)]
    return np.stack(parts, axis=1).astype(np.int64)
