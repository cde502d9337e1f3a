"""Kernel types, and the table of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from latcast.errors import ModelError, UnknownNameError
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import Kind, lookup, node_flops
from latcast.kernels.kernel import Configuration, operator_class
from latcast.registry import Registry, nearest_names

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder

FUSED_FIELDS = ("fused_flops", "fused_inputs", "fused_transcendentals")
"""Fields that every type has: FLOPs per output element of the operators fused behind the first, how many further activations
they read (a residual), and how many of them are transcendental functions, which cost far more than their FLOPs say."""

Columns = Mapping[str, np.ndarray]
"""One array a field, each (kernels,)."""


@dataclass(frozen=True, slots=True)
class Quantities:
    """The FLOPs of kernels and the elements they move; arrays of shape (kernels,)."""

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
        throughput_class: Columns -> for each kernel the class whose throughput it shares ("conv 1x1", "conv 3x3"...).
        features: Columns -> further columns for regressors, beside the fields and the quantities.
        build: Adds the kernel's own operator to a graph: (builder, configuration) -> output tensor.
        added: Own fields that came later than the type, 0 for kernels written down before them.
        kinds: Fields that name a kind by its code, with the kinds' names: codes near to each other have nothing in common.
    """

    name: str
    own_fields: tuple[str, ...]
    classes: tuple[str, ...]
    extract: Callable[[Graph, Sequence[Node]], Sequence[int]]
    quantities: Callable[[Columns], Quantities]
    throughput_class: Callable[[Columns], np.ndarray]
    features: Callable[[Columns], Mapping[str, np.ndarray]]
    build: Callable[[GraphBuilder, Mapping[str, int]], str]
    added: tuple[str, ...] = ()
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that ``features`` adds."""
        return tuple(self.features(self.columns(np.ones((1, len(self.fields)), dtype=np.int64))))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return (*self.own_fields, *FUSED_FIELDS)

    def columns(self, configurations: np.ndarray) -> dict[str, np.ndarray]:
        """Return configurations (kernels, fields) as one float array a field."""
        table = np.asarray(configurations, dtype=np.float64).reshape(-1, len(self.fields))
        return {name: table[:, index] for index, name in enumerate(self.fields)}

    def configuration(self, values: Mapping[str, int]) -> Configuration:
        """Return a configuration from named values; fields of fusion and added ones default to 0.

        Raises:
            UnknownNameError: A field is missing or unknown.
        """
        unknown = set(values) - set(self.fields)
        missing = set(self.own_fields) - set(self.added) - set(values)
        if unknown or missing:
            raise UnknownNameError(
                f"kernel type '{self.name}' has the fields {', '.join(self.fields)}; "
                f"missing: {', '.join(sorted(missing)) or 'none'}; unknown: {', '.join(sorted(unknown)) or 'none'}"
            )
        return tuple(int(values.get(name, 0)) for name in self.fields)


KERNEL_TYPES: Registry[KernelType] = Registry("kernel type", {}, group="latcast.kernel_types")
"""Kernel types by name; the modules beside this one fill it."""

_TYPE_OF_CLASS: dict[str, KernelType] = {}


def add_kernel_type(kernel: KernelType) -> KernelType:
    """Add a type to the table; a class belongs to one type only."""
    KERNEL_TYPES.register(kernel.name, kernel)
    for name in kernel.classes:
        _TYPE_OF_CLASS[name] = kernel
    return kernel


def kernel_type(name: str) -> KernelType:
    """Return the type of this name, or the variant of a type ("conv.winograd").

    Raises:
        UnknownNameError: No such type.
    """
    found = KERNEL_VARIANTS.get(name) or KERNEL_TYPES.find(name)
    if found is not None:
        return found
    base, dot, variant = name.partition(VARIANT_SEPARATOR)
    if dot and base in KERNEL_TYPES and _VARIANT.fullmatch(variant):
        return add_kernel_variant(KERNEL_TYPES.get(base), variant)
    known = [*KERNEL_TYPES, *KERNEL_VARIANTS]
    near = nearest_names(name, known) or sorted(KERNEL_TYPES)
    raise UnknownNameError(f"no kernel type is called '{name}'; known: {', '.join(near)}")


VARIANT_SEPARATOR = "."
"""Between a type and its variant: safe in the file names of all systems."""

_VARIANT = re.compile(r"[a-z0-9_]+")

KERNEL_VARIANTS: dict[str, KernelType] = {}
"""Variants by their full name: kernels of a type that a backend runs by another algorithm, with a separate predictor."""


def add_kernel_variant(
    base: KernelType,
    variant: str,
    *,
    quantities: Callable[[Columns], Quantities] | None = None,
    throughput_class: Callable[[Columns], np.ndarray] | None = None,
    features: Callable[[Columns], Mapping[str, np.ndarray]] | None = None,
    classes: tuple[str, ...] = (),
) -> KernelType:
    """Add a variant to the table: fields and form of its type, under the name ``type.variant``.

    Args:
        base: The type.
        variant: Its name: lower-case letters, digits and underscores.
        quantities: What the variant computes and moves, where its algorithm changes that.
        throughput_class: Class of throughput; by default that of the type with the variant behind it, so that two algorithms
            share none.
        features: Further columns for regressors, where they are not those of the type.
        classes: Of operators that are this variant wherever rules name them.
    """

    def own_class(columns: Columns) -> np.ndarray:
        return np.array([f"{name} {variant}" for name in base.throughput_class(columns)], dtype=object)

    name = f"{base.name}{VARIANT_SEPARATOR}{variant}"
    KERNEL_VARIANTS[name] = replace(
        base,
        name=name,
        classes=classes,
        quantities=quantities or base.quantities,
        throughput_class=throughput_class or own_class,
        features=features or base.features,
    )
    _TYPE_OF_CLASS.update(dict.fromkeys(classes, KERNEL_VARIANTS[name]))
    return KERNEL_VARIANTS[name]


def type_of_class(name: str) -> KernelType:
    """Return the type of kernels whose first operator is of this class (or that are this idiom), else ``other``.

    Kernel types of other distributions are imported when a class is met that latcast has no type for.
    """
    return _TYPE_OF_CLASS.get(name) or _plugged_types().get(name) or KERNEL_TYPES.get("other")


@cache
def _plugged_types() -> Mapping[str, KernelType]:
    """Return the kernel types of other distributions by class."""
    types = [KERNEL_TYPES.get(name) for name in KERNEL_TYPES.plugged()]
    return {name: kernel for kernel in types for name in kernel.classes}


def one_class(name: str) -> Callable[[Columns], np.ndarray]:
    """Return a function that gives all kernels one class of throughput."""

    def classes(columns: Columns) -> np.ndarray:
        return np.full(len(next(iter(columns.values()))), name, dtype=object)

    return classes


def no_features(columns: Columns) -> Mapping[str, np.ndarray]:
    return {}


def filled_lanes(channels: np.ndarray) -> Mapping[str, np.ndarray]:
    """Return which share of whole blocks of 16, 32 and 64 the outputs fill: products are computed in blocks of vectors."""
    return {f"filled_{block}": channels / (np.ceil(channels / block) * block) for block in (16, 32, 64)}


def channel_remainders(columns: Columns) -> Mapping[str, np.ndarray]:
    """Return the channels beyond whole blocks of 4, 8 or 16, with which kernels fall back to slower plain layouts."""
    return {f"channels_mod_{block}": columns["channels"] % block for block in (4, 8, 16)}


LINE_BYTES, ELEMENT_BYTES = 64, 4
LINE_ELEMENTS = LINE_BYTES // ELEMENT_BYTES

SHARPNESS = 4.0
"""Exponent: at the capacity of a cache half of its lines are gone, at twice the capacity all but a seventeenth."""


def missed(reads: np.ndarray, stride: np.ndarray, cache: tuple[int, int]) -> np.ndarray:
    """Return the share of reads whose line is gone when the next pass comes, (kernels,).

    A line serves sixteen reads if it is still there when the next ones come; a stride that is a multiple of a power of two
    brings all lines into a few sets of the cache.

    Args:
        reads: In a pass, each of another place.
        stride: Elements between them.
        cache: Sets and ways.
    """
    sets, ways = cache
    lines, rest = np.divmod(np.asarray(stride, dtype=np.int64) * ELEMENT_BYTES, LINE_BYTES)
    # Strides that are no whole number of lines come to all sets in turn.
    reached = np.where((rest == 0) & (lines > 0), sets // np.gcd(np.maximum(lines, 1), sets), sets)
    return np.asarray(1 / (1 + (reached * ways / np.maximum(reads, 1)) ** SHARPNESS))


class NotThisType(Exception):
    """Raised by an extractor for a rank or form that its type does not describe; the kernel is of the type named instead."""

    def __init__(self, type_name: str = "other") -> None:
        super().__init__(type_name)
        self.type_name = type_name


_FOLDED = frozenset({"BatchNormalization"})
"""Operators that disappear into the weights of the convolution before them."""

_LIGHT = frozenset({"activation", "arithmetic", "batch_norm", "copy", "transpose"})
"""Types whose operators some runtimes run inside the kernel of a heavier one behind them (a scale before a product)."""


def _fused_cost(graph: Graph, nodes: Sequence[Node], own: Sequence[Node]) -> tuple[int, int, int]:
    """Return FLOPs per element of the own operators' result, further activations read, and transcendental functions fused."""
    behind = nodes[0] is own[0]
    others = nodes[len(own) :] if behind else [node for node in nodes if node is not own[0]]
    cost = costly = 0
    read: set[str] = set()
    for node in others:
        if node.op_type in _FOLDED:
            continue
        row = lookup(node.op_type)
        if row is not None and row.kind in (Kind.UNARY, Kind.BINARY):
            cost += row.each
        else:
            cost += -(-(node_flops(graph, node) or 0) // graph.tensors[own[-1].outputs[0]].elements)
        costly += row is not None and row.transcendental
        read.update(node.inputs)
    activations = {name for name in read if graph.is_activation(name)}
    if len(activations) < 2 and behind:
        return cost, 0, costly  # one operator behind, which reads the kernel's own result
    made = {output for node in nodes for output in node.outputs}
    made_in_front = made.difference(output for node in own for output in node.outputs)
    replaced = {name for node in own for name in node.inputs if name in made_in_front}
    # What an operator in front reads stands in for what the own operator would have read.
    return cost, max(len(activations - made) - len(replaced), 0), costly


def _main_operator(graph: Graph, first_class: str, nodes: Sequence[Node], own_count: int) -> tuple[str, Sequence[Node]]:
    """Return the class and nodes that a kernel is described by: the first ones, or a heavier operator that took them in."""
    if len(nodes) > own_count and type_of_class(first_class).name in _LIGHT:
        for node in nodes[own_count:]:
            name = operator_class(graph, node)
            if type_of_class(name).name not in (*_LIGHT, "other"):
                return name, (node,)
    return first_class, nodes[:own_count]


def describe(graph: Graph, first_class: str, nodes: Sequence[Node], own_count: int = 1) -> tuple[str, Configuration]:
    """Return the type and configuration of a kernel.

    Args:
        graph: The network.
        first_class: Class of its first operator, or the name of the pattern it starts with.
        nodes: All its operators.
        own_count: How many of them are that operator or pattern; the rest is fused behind.

    Raises:
        ModelError: An operator has inputs or attributes that it cannot have.
    """
    main_class, own = _main_operator(graph, first_class, nodes, own_count)
    found = type_of_class(main_class)
    try:
        values = found.extract(graph, own)
    except NotThisType as instead:
        found = KERNEL_TYPES.get(instead.type_name)
        values = found.extract(graph, own)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
        node = own[0]
        raise ModelError(
            f"node '{node.name}' ({node.op_type}) has inputs or attributes that it cannot have ({type(error).__name__}: {error})"
        ) from error
    fused = _fused_cost(graph, nodes, own) if len(nodes) > own_count else (0, 0, 0)
    return found.name, (*map(int, values), *fused)
