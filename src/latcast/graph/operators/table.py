"""The operator table: one row an operator, with its output shapes and FLOPs as pure functions of shapes, and other facts.

FLOPs count a multiply-accumulate as two. Operators that only move data count zero FLOPs and cost bytes. For an operator without
a row :func:`lookup` returns None, and the caller must state what it does instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

from latcast.errors import ModelError
from latcast.graph.ir import Graph, Node, Shape, Tensor
from latcast.registry import Registry

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class OperatorView:
    """The node, the tensors around it and the constants it knows: the argument of an operator's functions."""

    node: Node
    inputs: tuple[Tensor | None, ...]
    values: Sequence[np.ndarray | None] = ()
    outputs: tuple[Tensor, ...] = ()

    def shape(self, index: int = 0) -> Shape:
        """Return the shape of an input that must be there.

        Raises:
            ModelError: The input is left out.
        """
        tensor = self.inputs[index] if index < len(self.inputs) else None
        if tensor is None:
            raise ModelError(f"node '{self.node.name}' ({self.node.op_type}) lacks its input {index}")
        return tensor.shape

    def dtype(self, index: int = 0) -> str:
        tensor = self.inputs[index] if index < len(self.inputs) else None
        return tensor.dtype if tensor is not None else "float32"

    def has_input(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> np.ndarray | None:
        return self.values[index] if index < len(self.values) else None

    def ints_from(self, attribute: str, index: int) -> tuple[int, ...] | None:
        """Return integers that older opsets give as an attribute and newer ones as a constant input."""
        if attribute in self.node.attributes:
            return self.node.integers(attribute)
        value = self.value(index)
        if value is not None:
            return tuple(map(int, value.reshape(-1).tolist()))
        if self.has_input(index):
            raise ModelError(
                f"node '{self.node.name}' ({self.node.op_type}) computes its '{attribute}' at run time; "
                "static shapes need it constant"
            )
        return None

    def needed_ints(self, attribute: str, index: int) -> tuple[int, ...]:
        """Return :meth:`ints_from` where they must be there.

        Raises:
            ModelError: They are left out.
        """
        found = self.ints_from(attribute, index)
        if found is None:
            raise self.fail(f"its '{attribute}' is missing")
        return found

    def fail(self, problem: str) -> ModelError:
        shapes = ", ".join("-" if tensor is None else str(list(tensor.shape)) for tensor in self.inputs)
        return ModelError(f"node '{self.node.name}' ({self.node.op_type}) with inputs {shapes}: {problem}")


InferShapes = Callable[[OperatorView], "list[Tensor]"]
CountFlops = Callable[[OperatorView], int]


class Kind(Enum):
    """Sorts of operators that passes, writers and kernel types treat alike."""

    UNARY = "each value of one input on its own"
    BINARY = "each value of two or more inputs on its own"
    PRODUCT = "convolution or matrix product of real numbers"
    QUANTISED = "from real numbers to integers or back, or a product of integers"
    NORMALISATION = "to mean 0 and deviation 1, or to length 1"
    POOL = "over windows"
    GLOBAL_POOL = "over whole maps"
    REDUCTION = "over named axes"
    VIEW = "the same elements in another shape"
    MOVEMENT = "copies elements"
    OTHER = "none of these"


def never(view: OperatorView) -> bool:
    """Return False: the sizes of the results follow from those of the inputs."""
    return False


def always(view: OperatorView) -> bool:
    """Return True: the sizes of the results depend on values."""
    return True


def no_flops(view: OperatorView) -> int:
    """Return 0: an operator without multiply-accumulates."""
    return 0


def flops_per_element(view: OperatorView) -> int:
    """Return ``each`` for every output element; of a BINARY operator, for every further operand too."""
    row = OPERATORS.get(view.node.op_type)
    operands = max(1, len(view.inputs) - 1) if row.kind is Kind.BINARY else 1
    return view.outputs[0].elements * row.each * operands


@dataclass(frozen=True, slots=True)
class Operator:
    """A row of the table: all that latcast knows of one operator, apart from code for its unusual forms.

    Attributes:
        op_type: Its name in ONNX files.
        infer: Returns its outputs.
        flops: Counts the FLOPs of one node; a multiply-accumulate is two. By default ``each`` for every output element.
        macs: Counts multiply-accumulates, where its work is matrix products.
        domain: ONNX domain; empty for ONNX's own operators.
        kind: Sort of work.
        each: FLOPs per output element; a transcendental function counts four, by convention. 0 where it only moves data.
        attributes: Numbers in its definition, with ONNX's defaults, in ONNX's order.
        constants: Inputs whose values decide shapes or meaning; a graph keeps these as constants.
        learned: Inputs that are weights even where they are small or made of integers.
        bounds: Interval that its results cannot leave.
        combines: What a pool or reduction takes of the elements: their "mean" or "max", or a sum of "magnitudes" or "squares".
        word: Its word in fusion rules and reports, where that is not its name in snake case.
        idioms: Names in ``idioms.json`` of the groups of operators that spell it.
        copies: Form of its copy kernel (``COPY_FORMS`` in :mod:`latcast.kernels.types.movement`), where that is not a plain one.
        tflite: TFLite's builtin operator of the same meaning that needs no options.
        ncnn: ncnn's layer with ``attributes`` as its parameters; or the operation of its UnaryOp or Reduction; or of its
            BinaryOp, and that with the operands exchanged.
        transcendental: Evaluates an exponential, a logarithm, an error function or a trigonometric function per element.
        boolean: Gives truth values.
        variadic: Takes any number of operands.
        arithmetic: One of the four basic operations, which TFLite ends with an activation.
        split_by_constant: Has separate kernel classes for a constant operand (``add_scalar``, ``bias_add``).
        activation: Quantisers leave it real behind a convolution, whose kernel ends with it.
        softens_relu: A soft or leaky form of ReLU, in whose place a ReLU can stand.
        passes: Gives its first input through in inference.
        picks: Reads of its first input only what it writes: a row of an embedding, not the table.
        sized: Has constants that may have been worked out from an input's size: "everywhere", or on the "axes" that it cuts.
        dequantises_late: May stand between an integer operator and the quantisation of its result.
        keeps_channels: Gives as many channels as its first input has, whatever their number.
        channels: Works on images whose second axis is channels.
        last_axes: Works along the last axes.
        along_axis: Works along its attribute ``axis``, by default the last axis, and is indifferent to the others.
        at_most: Says whether the sizes of a node's results depend on values, so that those inferred are the largest.
    """

    op_type: str
    infer: InferShapes
    flops: CountFlops = flops_per_element
    macs: CountFlops = no_flops
    domain: str = ""
    kind: Kind = Kind.OTHER
    each: int = 0
    attributes: Mapping[str, float] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()
    learned: frozenset[int] = frozenset()
    bounds: tuple[float, float] | None = None
    combines: str = ""
    word: str = ""
    idioms: tuple[str, ...] = ()
    copies: str = ""
    tflite: str = ""
    ncnn: str | int | tuple[int, int] | None = None
    transcendental: bool = False
    boolean: bool = False
    variadic: bool = False
    arithmetic: bool = False
    split_by_constant: bool = False
    activation: bool = False
    softens_relu: bool = False
    passes: bool = False
    picks: bool = False
    sized: str = ""
    dequantises_late: bool = False
    keeps_channels: bool = False
    channels: bool = False
    last_axes: bool = False
    along_axis: bool = False
    at_most: Callable[[OperatorView], bool] = never

    @property
    def kernel_class(self) -> str:
        """Return its word in fusion rules and reports."""
        return self.word or snake_case(self.op_type)


OPERATORS: Registry[Operator] = Registry("operator", {}, group="latcast.operators")
"""The table, by ``op_type``; the modules beside this one fill it."""

_ROWS: list[Operator] = []


def define(*rows: Operator) -> None:
    """Add operators to the table."""
    for row in rows:
        OPERATORS.register(row.op_type, row)
        _ROWS.append(row)


def operators(*kinds: Kind) -> tuple[Operator, ...]:
    """Return latcast's own operators of these kinds, in the order of the table; without a kind, all."""
    return tuple(row for row in _ROWS if not kinds or row.kind in kinds)


def names_of(rows: Iterable[Operator]) -> frozenset[str]:
    """Return the names of these operators."""
    return frozenset(row.op_type for row in rows)


def lookup(op_type: str) -> Operator | None:
    """Return the row of an operator, or None where the table has none."""
    return OPERATORS.find(op_type)


_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def snake_case(op_type: str) -> str:
    """Return ``"global_average_pool"`` for ``"GlobalAveragePool"``, ``"p_relu"`` for ``"PRelu"``, ``"lstm"`` for ``"LSTM"``."""
    return _WORD_START.sub("_", op_type).lower()


def view_of(graph: Graph, node: Node) -> OperatorView:
    """Return an operator's view inside a finished graph."""
    return view_among(node, graph.tensors, graph.constants, tuple(graph.tensors[name] for name in node.outputs if name))


def view_among(
    node: Node, tensors: Mapping[str, Tensor], constants: Mapping[str, np.ndarray], outputs: tuple[Tensor, ...] = ()
) -> OperatorView:
    """Return an operator's view among these tensors, without ``outputs`` where these are not known yet."""
    return OperatorView(
        node,
        tuple([tensors[name] if name else None for name in node.inputs]),
        tuple(map(constants.get, node.inputs)),
        outputs,
    )


def node_flops(graph: Graph, node: Node) -> int | None:
    """Return the FLOPs of one node (a multiply-accumulate is two), or None for an operator outside the table."""
    entry = lookup(node.op_type)
    return None if entry is None else entry.flops(view_of(graph, node))


def node_macs(graph: Graph, node: Node) -> int:
    """Return the multiply-accumulates of one node; 0 for an operator outside the table."""
    entry = lookup(node.op_type)
    return 0 if entry is None or entry.macs is no_flops else entry.macs(view_of(graph, node))


def node_parameters(graph: Graph, node: Node) -> int:
    """Return the number of learned values that a node reads."""
    return sum(graph.tensors[name].elements for name in node.inputs if name in graph.weights)


def graph_flops(graph: Graph) -> int:
    """Return the FLOPs of a network; operators outside the table count 0 (``unknown_operators`` lists them)."""
    return sum(node_flops(graph, node) or 0 for node in graph.nodes)


def filter_parameters(graph: Graph) -> int:
    """Count the learned values of convolutions and matrix products; tables, such as position embeddings, are left out."""
    return sum(node_parameters(graph, node) for node in graph.nodes if node_macs(graph, node))


def graph_macs(graph: Graph) -> int:
    """Return the multiply-accumulates of a network, which papers print as "FLOPs" or "Mult-Adds"."""
    return sum(node_macs(graph, node) for node in graph.nodes)


def unknown_operators(graph: Graph) -> list[str]:
    """Return the operators of the graph that the table lacks, sorted."""
    return sorted({node.op_type for node in graph.nodes if node.op_type not in OPERATORS})


def sized_by_values(graph: Graph) -> list[str]:
    """Return the operators of the graph whose results have sizes that depend on values, sorted; the largest are assumed."""
    rows = ((node, lookup(node.op_type)) for node in graph.nodes)
    return sorted({node.op_type for node, row in rows if row and row.at_most is not never and row.at_most(view_of(graph, node))})
