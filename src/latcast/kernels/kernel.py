"""A kernel, the kernels of many networks as one table, and the classes of operators that rules and types go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.graph.operators import lookup, snake_case
from latcast.tables import Tabular

Configuration = tuple[int, ...]
"""Values of a kernel type's fields, in their order."""


@dataclass(frozen=True, slots=True)
class Kernel(Tabular):
    """A unit that a runtime executes in one go: one operator or several fused.

    Attributes:
        kernel_type: Name in :data:`latcast.kernels.types.KERNEL_TYPES`, or of a variant ("conv.winograd").
        configuration: The numbers that decide its latency, in the order of the type's fields.
        name: Name of its first operator in the graph; of a kernel without any, of the operator for whose sake it runs.
        nodes: Names of the fused operators, in execution order; none of a reorder (:mod:`latcast.kernels.layouts`) and of one
            that standardises filters.
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
        """Collect the kernels of each network, without free kernels."""
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
        """Return the type of each distinct kernel."""
        return [name for name, rows in self.configurations.items() for _ in range(len(rows))]

    def same_networks(self) -> np.ndarray:
        """Return for each pair whether both have the same kernels, each as often: (networks, networks)."""
        kernels = [tuple(np.sort(self.kernel[self.network == index])) for index in range(self.networks)]
        first = np.array([kernels.index(each) for each in kernels], dtype=np.int64)
        return np.asarray(first[:, None] == first)

    def sum_by_network(self, values: np.ndarray) -> np.ndarray:
        """Add up a value of each distinct kernel over the occurrences in each network.

        Args:
            values: (distinct kernels,) or (distinct kernels, columns).

        Returns:
            (networks,) or (networks, columns).
        """
        if values.ndim == 1:
            return np.bincount(self.network, weights=values[self.kernel], minlength=self.networks)
        columns = [self.sum_by_network(values[:, column]) for column in range(values.shape[1])]
        return np.stack(columns, axis=1)


LINEAR_OF_IMAGES, LAYER_NORM_OF_IMAGES = "linear_of_images", "layer_normalization_of_images"

OF_IMAGES: Mapping[str, str] = {"linear": LINEAR_OF_IMAGES, "layer_normalization": LAYER_NORM_OF_IMAGES}
"""Class of operators to that of those with a result of four or more axes, for rules that treat these differently."""


def operator_class(graph: Graph, node: Node) -> str:
    """Return the word that fusion rules use for this operator.

    Convolutions split into ``conv``, ``depthwise_conv`` and ``grouped_conv``; products with a weight are ``linear``, of two
    activations ``matmul``; an addition of a weight vector is ``bias_add``, of two activations ``add``; a scalar constant
    makes ``add_scalar``; ``Clip`` is ``relu6`` where its bounds are 0 and 6; ``Swish`` is ``silu``, as its spelling in two
    operators is. Any other operator is its name in snake case.
    """
    row = lookup(node.op_type)
    name = snake_case(node.op_type) if row is None else row.kernel_class
    if name == "conv":
        groups = node.integer("group", 1)
        if groups == 1:
            return "conv"
        return "depthwise_conv" if groups == graph.tensors[node.inputs[0]].shape[1] else "grouped_conv"
    if name == "linear":
        return "linear" if node.inputs[1] in graph.weights or node.inputs[0] in graph.weights else "matmul"
    if row is not None and row.split_by_constant:
        others = [i for i in node.inputs if i in graph.weights or i in graph.constants]
        if not others:
            return name
        if graph.tensors[others[0]].elements == 1:
            return f"{name}_scalar"
        return "bias_add" if name == "add" else f"{name}_weight"
    if name == "clip":
        bounds = [graph.constants.get(i) for i in node.inputs[1:]]
        values = [None if value is None else float(value.reshape(-1)[0]) for value in bounds]
        if not values and "max" in node.attributes:
            values = [node.real("min", float("-inf")), node.real("max")]
        return "relu6" if values == [0.0, 6.0] else "clip"
    return name
