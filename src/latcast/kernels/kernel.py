"""A kernel, and the kernels of many networks as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Configuration = tuple[int, ...]
"""Values of a kernel type's fields, in their order."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a runtime executes in one go: one operator or several fused.

    Attributes:
        kernel_type: Name in :data:`latcast.kernels.types.KERNEL_TYPES`, or of a variant ("conv.winograd").
        configuration: The numbers that decide its latency, in the order of the type's fields.
        name: Name of its first operator in the graph.
        nodes: Names of the fused operators, in execution order.
        operators: Their ONNX types.
        free: Whether the runtime does it without work (a view), so that it costs nothing by rule.
    """

    kernel_type: str
    configuration: Configuration
    name: str
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    free: bool = False

    @property
    def key(self) -> tuple[str, Configuration]:
        """Equal for kernels that take equally long."""
        return (self.kernel_type, self.configuration)


@dataclass(frozen=True)
class KernelTable:
    """Kernels of many networks: distinct configurations by type, and how often each occurs in each network.

    A million networks of a search space share a few thousand kernels; each is estimated once.

    Attributes:
        configurations: Kernel type to an integer array (distinct kernels, fields).
        network: For each occurrence, the index of its network.
        kernel: For each occurrence, the index of its distinct kernel; types are numbered one after another in the order of
            ``configurations``.
        networks: Number of networks.
    """

    configurations: Mapping[str, np.ndarray]
    network: np.ndarray
    kernel: np.ndarray
    networks: int

    @classmethod
    def of(cls, kernels: Sequence[Sequence[Kernel]]) -> KernelTable:
        """Collects the kernels of each network; free kernels are left out."""
        by_type: dict[str, dict[Configuration, int]] = {}
        places: list[tuple[int, str, int]] = []
        for network, found in enumerate(kernels):
            for kernel in found:
                if kernel.free:
                    continue
                known = by_type.setdefault(kernel.kernel_type, {})
                place = known.setdefault(kernel.configuration, len(known))
                places.append((network, kernel.kernel_type, place))
        offsets: dict[str, int] = {}
        total = 0
        for kernel_type, known in by_type.items():
            offsets[kernel_type] = total
            total += len(known)
        return cls(
            {kernel_type: np.array(list(known), dtype=np.int64) for kernel_type, known in by_type.items()},
            np.array([network for network, _, _ in places], dtype=np.int64),
            np.array([offsets[kernel_type] + place for _, kernel_type, place in places], dtype=np.int64),
            len(kernels),
        )

    @property
    def kernel_types(self) -> list[str]:
        """Type of each distinct kernel."""
        return [name for name, rows in self.configurations.items() for _ in range(len(rows))]

    def sum_by_network(self, values: np.ndarray) -> np.ndarray:
        """Adds up a value of each distinct kernel over the occurrences in each network.

        Args:
            values: (distinct kernels,) or (distinct kernels, columns).

        Returns:
            (networks,) or (networks, columns).
        """
        if values.ndim == 1:
            return np.bincount(self.network, weights=values[self.kernel], minlength=self.networks)
        columns = [self.sum_by_network(values[:, column]) for column in range(values.shape[1])]
        return np.stack(columns, axis=1)
