"""What a kernel type is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from latcast.errors import UnknownNameError
from latcast.graph.ir import Graph, Node
from latcast.graph.operators.elementwise import BINARY_FLOPS, UNARY_FLOPS
from latcast.kernels.kernel import Configuration
from latcast.registry import nearest_names

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder

FUSED_FIELDS = ("fused_flops", "fused_inputs")
"""Fields that every type has: FLOPs per output element of the operators fused behind the first, and how many further
activations they read (a residual)."""

Columns = Mapping[str, np.ndarray]
"""One array a field, each (kernels,)."""


@dataclass(frozen=True, slots=True)
class Quantities:
    """What a kernel computes and moves; arrays of shape (kernels,)."""

    flops: np.ndarray
    input_elements: np.ndarray
    output_elements: np.ndarray
    weight_elements: np.ndarray


@dataclass(frozen=True)
class KernelType:
    """A kind of kernel.

    Attributes:
        name: As in configurations and bundles.
        own_fields: Fields beside :data:`FUSED_FIELDS`.
        classes: Operator classes (or patterns) whose kernels are of this type.
        extract: (graph, nodes of the kernel) -> values of ``own_fields``.
        quantities: Columns -> FLOPs and elements moved.
        physical_class: Columns -> for each kernel the class whose throughput it shares ("conv 1x1", "conv 3x3"...).
        features: Columns -> further columns for regressors, beside the fields and the quantities.
        build: Adds the kernel's own operator to a graph: (builder, configuration) -> output tensor.
    """

    name: str
    own_fields: tuple[str, ...]
    classes: tuple[str, ...]
    extract: Callable[[Graph, Sequence[Node]], Sequence[int]]
    quantities: Callable[[Columns], Quantities]
    physical_class: Callable[[Columns], np.ndarray]
    features: Callable[[Columns], Mapping[str, np.ndarray]]
    build: Callable[[GraphBuilder, Mapping[str, int]], str]

    @property
    def fields(self) -> tuple[str, ...]:
        return (*self.own_fields, *FUSED_FIELDS)

    def columns(self, configurations: np.ndarray) -> dict[str, np.ndarray]:
        """Configurations (kernels, fields) as one float array a field."""
        table = np.asarray(configurations, dtype=np.float64).reshape(-1, len(self.fields))
        return {name: table[:, index] for index, name in enumerate(self.fields)}

    def configuration(self, values: Mapping[str, int]) -> Configuration:
        """A configuration from named values; fields of fusion default to 0.

        Raises:
            UnknownNameError: A field is missing or unknown.
        """
        unknown = set(values) - set(self.fields)
        missing = set(self.own_fields) - set(values)
        if unknown or missing:
            raise UnknownNameError(
                f"kernel type '{self.name}' has the fields {', '.join(self.fields)}; "
                f"missing: {', '.join(sorted(missing)) or 'none'}; unknown: {', '.join(sorted(unknown)) or 'none'}"
            )
        return tuple(int(values.get(name, 0)) for name in self.fields)


KERNEL_TYPES: dict[str, KernelType] = {}
"""Kernel types by name."""

_TYPE_OF_CLASS: dict[str, KernelType] = {}


def add_kernel_type(kernel: KernelType) -> KernelType:
    """Adds a type to the table; a class belongs to one type only."""
    KERNEL_TYPES[kernel.name] = kernel
    for name in kernel.classes:
        _TYPE_OF_CLASS[name] = kernel
    return kernel


def kernel_type(name: str) -> KernelType:
    """The type of this name.

    Raises:
        UnknownNameError: No such type.
    """
    if name not in KERNEL_TYPES:
        near = nearest_names(name, list(KERNEL_TYPES)) or sorted(KERNEL_TYPES)
        raise UnknownNameError(f"no kernel type is called '{name}'; known: {', '.join(near)}")
    return KERNEL_TYPES[name]


def one_class(name: str) -> Callable[[Columns], np.ndarray]:
    """For types whose kernels all share one throughput."""

    def classes(columns: Columns) -> np.ndarray:
        return np.full(len(next(iter(columns.values()))), name, dtype=object)

    return classes


def no_features(columns: Columns) -> Mapping[str, np.ndarray]:
    return {}


class NotThisType(Exception):
    """Raised by an extractor for a rank or form that its type does not describe; the kernel becomes ``other``."""


_FOLDED = frozenset({"BatchNormalization"})
"""Operators that disappear into the weights of the convolution before them."""


def _fused_cost(graph: Graph, nodes: Sequence[Node], own_count: int) -> tuple[int, int]:
    """FLOPs per element, and further activations read, of what is fused behind a kernel's own operators."""
    made = {output for node in nodes for output in node.outputs}
    behind = [node for node in nodes[own_count:] if node.op_type not in _FOLDED]
    cost = sum(UNARY_FLOPS.get(node.op_type, BINARY_FLOPS.get(node.op_type, 2)) for node in behind)
    read = {name for node in behind for name in node.inputs if graph.is_activation(name) and name not in made}
    return cost, len(read)


def describe(graph: Graph, first_class: str, nodes: Sequence[Node], own_count: int = 1) -> tuple[str, Configuration]:
    """Type and configuration of a kernel.

    Args:
        graph: The network.
        first_class: Class of its first operator, or the name of the pattern it starts with.
        nodes: All its operators.
        own_count: How many of them are that operator or pattern; the rest is fused behind.
    """
    found = _TYPE_OF_CLASS.get(first_class, KERNEL_TYPES["other"])
    own = nodes[:own_count]
    try:
        values = found.extract(graph, own)
    except NotThisType:
        found = KERNEL_TYPES["other"]
        values = found.extract(graph, own)
    fused = _fused_cost(graph, nodes, own_count) if len(nodes) > own_count else (0, 0)
    return found.name, (*(int(value) for value in values), *fused)
