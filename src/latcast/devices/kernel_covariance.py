"""How alike the efficiencies of two kernels are: a covariance over kernels of all types, from their configurations.

A kernel takes what its analytical terms say times an efficiency, and what makes one kernel faster than its terms makes kernels
like it faster too: of the same class, with the same window and stride, of similar channels and maps, with channels that are
or are not multiples of the vector length. The constants are standard deviations of the logarithmic efficiency that each
kind of similarity carries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latcast.kernels.kernel import KernelTable
from latcast.kernels.types import kernel_type
from latcast.kernels.types.kernel_type import VARIANT_SEPARATOR, Columns

CONVOLUTIONS = frozenset({"conv", "depthwise_conv", "grouped_conv", "conv_transpose"})

LANES = (4, 8)
"""Vector lengths whose multiples channels may miss."""


@dataclass(frozen=True)
class CovarianceScales:
    """Standard deviations of logarithmic efficiency, and the distance over which it changes.

    Attributes:
        everything: Common to all kernels.
        same_class: Common to kernels of one analytical class.
        same_window: Common to kernels of one class, window and stride.
        near: Common to kernels of one class that lie near each other in channels and map size.
        near_window: The same for those of one window and stride as well.
        misaligned: By vector length: common to kernels whose channels are no multiple of it.
        octaves: Distance (doublings of a size) over which nearness falls off.
    """

    everything: float = 0.1
    same_class: float = 0.2
    same_window: float = 0.2
    near: float = 0.35
    near_window: float = 0.1
    misaligned: tuple[float, ...] = (0.2, 0.12)
    octaves: float = 0.8


@dataclass(frozen=True)
class KernelTraits:
    """What the covariance sees of distinct kernels; arrays over kernels.

    Attributes:
        families: Name of the kernel type, or "convolution" for all convolutions.
        classes: Analytical class, whether its channels are aligned left out.
        windows: Class with window and stride.
        sizes: (kernels, 3) logarithms to base 2: input channels of a group, output channels, output pixels; for other types
            elements of the output three times.
        misaligned: (kernels, lanes x 2) whether output, then input channels are no multiple of 4, 8.
    """

    families: np.ndarray
    classes: np.ndarray
    windows: np.ndarray
    sizes: np.ndarray
    misaligned: np.ndarray

    @classmethod
    def of(cls, table: KernelTable) -> KernelTraits:
        """Traits of a table's distinct kernels, in its order."""
        parts = [_traits(name, rows) for name, rows in table.configurations.items()]
        if not parts:
            none = np.zeros(0, dtype=object)
            return cls(none, none, none, np.zeros((0, 3)), np.zeros((0, 2 * len(LANES)), dtype=bool))
        return cls(*(np.concatenate([part[index] for part in parts]) for index in range(5)))

    def __len__(self) -> int:
        return len(self.classes)


def _traits(name: str, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    kind = kernel_type(name)
    columns = kind.columns(rows)
    count = len(rows)
    classes = np.array([str(found).removesuffix(" unaligned") for found in kind.throughput_class(columns)], dtype=object)
    if name.partition(VARIANT_SEPARATOR)[0] not in CONVOLUTIONS:
        elements = np.log2(np.maximum(kind.quantities(columns).output_elements, 1))
        sizes = np.repeat(elements[:, None], 3, axis=1)
        return np.full(count, name, dtype=object), classes, classes, sizes, np.zeros((count, 2 * len(LANES)), dtype=bool)
    inputs, outputs = columns["in_channels"] / columns["groups"], columns["out_channels"]
    pixels = columns["batch"] * columns["out_h"] * columns["out_w"]
    sizes = np.log2(np.maximum(np.stack([inputs, outputs, pixels], axis=1), 1))
    windows = np.array([f"{found} {shape}" for found, shape in zip(classes, _windows(columns), strict=True)], dtype=object)
    dense = (inputs > 4) & (columns["kernel_h"] * columns["kernel_w"] * inputs > 16)
    misaligned = np.stack(
        [test for lanes in LANES for test in (outputs % lanes != 0, dense & (inputs % lanes != 0))],
        axis=1,
    )
    return np.full(count, "convolution", dtype=object), classes, windows, sizes, misaligned


def _windows(columns: Columns) -> list[str]:
    names = ("kernel_h", "kernel_w", "stride_h", "stride_w")
    return ["x".join(str(int(value)) for value in row) for row in zip(*(columns[name] for name in names), strict=True)]


def kernel_covariance(first: KernelTraits, second: KernelTraits, scales: CovarianceScales | None = None) -> np.ndarray:
    """Prior covariance of logarithmic efficiencies, (kernels of the first, kernels of the second)."""
    s = scales or CovarianceScales()
    same_class = _equal(first.classes, second.classes)
    same_window = _equal(first.windows, second.windows)
    a, b = first.sizes / s.octaves, second.sizes / s.octaves
    distance = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    near = np.exp(-0.5 * np.maximum(distance, 0))
    near *= _equal(first.families, second.families)
    covariance = s.everything**2 + same_class * (s.same_class**2 + s.near**2 * near)
    covariance += same_window * (s.same_window**2 + s.near_window**2 * near)
    for index in range(first.misaligned.shape[1]):
        strength = s.misaligned[index // 2] ** 2
        covariance += strength * np.outer(first.misaligned[:, index], second.misaligned[:, index]) * (0.3 + 0.7 * same_class)
    return covariance


def _equal(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Which names are equal, (first, second)."""
    codes = {name: code for code, name in enumerate(dict.fromkeys([*first, *second]))}
    return np.array([codes[name] for name in first])[:, None] == np.array([codes[name] for name in second])[None]
