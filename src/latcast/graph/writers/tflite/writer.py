"""Writes a graph step by step into a TFLite model in memory, keeping track of how every tensor lies there."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.graph.ir import Graph, Shape
from latcast.graph.operators import OperatorView, view_of
from latcast.graph.writers.folding import check_shapes, fold_constants
from latcast.graph.writers.tflite.flatbuffer import TfliteModel, TfliteOperator, TfliteTensor
from latcast.graph.writers.tflite.layout import (
    CHANNELS_LAST,
    Order,
    logical,
    physical_shape,
    same_bytes,
    steps_between,
    wished_orders,
)
from latcast.graph.writers.tflite.schema import TensorType
from latcast.graph.writers.tflite.steps import Step, plan_steps, unsupported

Emit = Callable[["GraphWriter", Step], None]

EMITTERS: dict[str, Emit] = {}
"""Operator type to the function that writes it; filled by the modules of ``operators/``."""

_TYPES: Mapping[str, TensorType] = {
    "float32": TensorType.FLOAT32, "float16": TensorType.FLOAT32, "bfloat16": TensorType.FLOAT32,
    "float64": TensorType.FLOAT32, "int64": TensorType.INT64, "int32": TensorType.INT32, "bool": TensorType.BOOL,
    "uint8": TensorType.UINT8,
}  # fmt: skip

_NUMPY: Mapping[TensorType, type[np.generic]] = {
    TensorType.FLOAT32: np.float32, TensorType.INT32: np.int32, TensorType.INT64: np.int64, TensorType.BOOL: np.bool_,
    TensorType.INT8: np.int8, TensorType.UINT8: np.uint8,
}  # fmt: skip


def emits(*op_types: str) -> Callable[[Emit], Emit]:
    """Register a function as the one that writes these operators."""

    def register(function: Emit) -> Emit:
        for op_type in op_types:
            EMITTERS[op_type] = function
        return function

    return register


class GraphWriter:
    """State of one graph being written. Emitters see this and nothing else.

    Attributes:
        graph: What is written, without what depends on constants alone.
        values: All constants: weights, small constants, and what is computed from them alone.
        model: What has been written so far.
        orders: How each written tensor lies.
        feature_order: For a flattened image that only matrix products read: which logical feature stands where.
    """

    def __init__(self, graph: Graph, weights: Mapping[str, np.ndarray]) -> None:
        for module in ("elementwise", "linear", "movement"):
            importlib.import_module(f"latcast.graph.writers.tflite.operators.{module}")
        check_shapes(graph)
        self.graph, self.values = fold_constants(graph, weights)
        for node in self.graph.nodes:
            if any(node.inputs) and not self.graph.activation_inputs(node):
                raise unsupported(node, "it reads constants only, and this operator is not folded")
        self.steps = plan_steps(self.graph, self.values)
        for step in self.steps:
            if step.op_type not in EMITTERS:
                raise unsupported(step.node, f"TFLite has no '{step.op_type}', nor has the writer a way to compose it")
        self.wishes = wished_orders(self.graph)
        self.model = TfliteModel(graph.name)
        self.orders: dict[str, Order] = {}
        self.feature_order: dict[str, np.ndarray] = {}
        self._held: dict[tuple[str, Order], int] = {}
        self._step: Step | None = None

    def write(self) -> TfliteModel:
        """Write the whole graph.

        Raises:
            UnsupportedOperatorError: An operator, or one of its attributes, that TFLite cannot express.
        """
        for name in self.graph.inputs:
            rank = len(self.graph.shape(name))
            order = logical(rank)
            # An image unless its readers want another order.
            if rank == 4 and self.wishes.get(name) != order:
                order = CHANNELS_LAST
            self.add_activation(name, physical_shape(self.graph.shape(name), order), self.type_of(name))
            self.hold(name, order, len(self.model.tensors) - 1)
        self.model.inputs = tuple(range(len(self.graph.inputs)))
        for step in self.steps:
            self._step = step
            EMITTERS[step.op_type](self, step)
        self._step = None
        self.model.outputs = tuple(self._output(name) for name in self.graph.outputs)
        return self.model

    def _output(self, name: str) -> int:
        if name in self.values:
            raise UnsupportedOperatorError(
                f"output '{name}' of '{self.graph.name}' does not depend on any input; TFLite has nothing to run for it"
            )
        index = self._held[name, self.orders[name]]
        if index in self.model.inputs:
            shape = self.model.tensors[index].shape
            index = self.reshaped(index, shape, f"{name}/copy")
        return index

    # Reading

    def shape(self, name: str) -> Shape:
        return self.graph.shape(name)

    def view(self, step: Step) -> OperatorView:
        """Return the first node's view, with constants that were folded among its values."""
        view = view_of(self.graph, step.node)
        return OperatorView(view.node, view.inputs, tuple(self.values.get(name) for name in view.node.inputs), view.outputs)

    def type_of(self, name: str) -> TensorType:
        dtype = self.graph.tensors[name].dtype
        if dtype not in _TYPES:
            raise UnsupportedOperatorError(f"tensor '{name}' is {dtype}, which TFLite's kernels do not compute with")
        return _TYPES[dtype]

    def weight(self, step: Step, name: str) -> np.ndarray:
        """Return a constant input as float32.

        Raises:
            UnsupportedOperatorError: It is computed at run time.
        """
        if name not in self.values:
            raise unsupported(step.node, f"its input '{name}' is computed at run time, where TFLite wants a constant")
        return np.asarray(self.values[name], dtype=np.float32)

    def wish(self, name: str, default: Order) -> Order:
        return self.wishes.get(name, default)

    def source(self, step: Step) -> tuple[int, Order]:
        """Return the index of the step's first input, and the order in which it lies."""
        order = self.orders[step.inputs[0]]
        return self.operand(step.inputs[0], order), order

    def operand(self, name: str, order: Order) -> int:
        """Return the index of a tensor brought into an order; one of lower rank gets leading axes of size 1, as in broadcasting.

        Constants are laid out here; activations cost a TRANSPOSE where their elements really move, else a RESHAPE.
        """
        shape = self.shape(name)
        if name in self.values:
            array = self.values[name].reshape((1,) * (len(order) - len(shape)) + shape).transpose(order)
            while array.ndim and array.shape[0] == 1:
                array = array[0]
            return self.constant(array, name)
        if (name, order) in self._held:
            return self._held[name, order]
        index, held = self._held[name, self.orders[name]], self.orders[name]
        missing = len(order) - len(shape)
        if missing:
            held = (*range(missing), *(axis + missing for axis in held))
            shape = (1,) * missing + shape
        wanted = physical_shape(shape, order)
        if same_bytes(shape, held, order):
            if self.model.tensors[index].shape != wanted:
                index = self.reshaped(index, wanted, f"{name}/view{len(self.model.tensors)}", nodes=())
        else:
            if missing:
                index = self.reshaped(index, physical_shape(shape, held), f"{name}/expanded", nodes=())
            index = self.transposed(index, steps_between(held, order), f"{name}/transposed{len(self.model.tensors)}")
        self._held[name, order] = index
        return index

    # Writing

    def constant(self, array: np.ndarray, name: str) -> int:
        """Add a constant tensor; float64 becomes float32."""
        kind = _TYPES.get(str(array.dtype))
        if kind is None:
            raise UnsupportedOperatorError(f"constant '{name}' is {array.dtype}, which TFLite's kernels do not compute with")
        data = np.ascontiguousarray(array, dtype=_NUMPY[kind]).reshape(array.shape)
        return self.model.add_tensor(TfliteTensor(name, data.shape, kind, data))

    def indices(self, numbers: Sequence[int], name: str) -> int:
        """Add a constant int32 vector: axes, sizes, permutations."""
        return self.constant(np.asarray(numbers, dtype=np.int32), name)

    def add_activation(self, name: str, shape: Shape, kind: TensorType = TensorType.FLOAT32) -> int:
        return self.model.add_tensor(TfliteTensor(name, shape, kind))

    def add(
        self,
        builtin: str,
        inputs: Sequence[int],
        shape: Shape,
        name: str,
        options: Mapping[str, float] | None = None,
        *,
        nodes: tuple[str, ...] | None = None,
        kind: TensorType = TensorType.FLOAT32,
    ) -> int:
        """Add an operator with one output and return its index; ``nodes``: the step's first unless said."""
        options = options or {}
        output = self.add_activation(name, shape, kind)
        if nodes is None:
            nodes = self._step.names[:1] if self._step is not None else ()
        activation = ""
        if self._step is not None and self._step.activation and nodes == self._step.names:
            activation = nodes[-1] if options.get("fused_activation_function") else ""
        self.model.operators.append(TfliteOperator(builtin, tuple(inputs), (output,), options, nodes, activation))
        return output

    def finish(self, builtin: str, inputs: Sequence[int], step: Step, order: Order, **options: float) -> None:
        """Add the operator that makes the step's output, which lies in ``order``."""
        name = step.output
        shape = physical_shape(self.shape(name), order)
        index = self.add(builtin, inputs, shape, name, options, nodes=step.names, kind=self.type_of(name))
        self.hold(name, order, index)

    def finish_several(self, builtin: str, inputs: Sequence[int], step: Step, order: Order, **options: float) -> None:
        """Add the operator with several outputs that makes the step's, which lie in ``order``."""
        outputs = []
        for name in step.outputs:
            outputs.append(self.add_activation(name, physical_shape(self.shape(name), order), self.type_of(name)))
            self.hold(name, order, outputs[-1])
        self.model.operators.append(TfliteOperator(builtin, tuple(inputs), tuple(outputs), options, step.names))

    def split_evenly(self, index: int, count: int, name: str) -> list[int]:
        """Split an image, channels last, into parts of as many channels."""
        tensor = self.model.tensors[index]
        shape = (*tensor.shape[:3], tensor.shape[3] // count)
        position = self.constant(np.int32(3), f"{name}/axis")
        outputs = [self.add_activation(f"{name}{part}", shape, tensor.type) for part in range(count)]
        nodes = self._step.names[:1] if self._step is not None else ()
        self.model.operators.append(TfliteOperator("SPLIT", (position, index), tuple(outputs), {"num_splits": count}, nodes))
        return outputs

    def alias(self, step: Step, order: Order) -> None:
        """Say that the step's output is its first input, byte for byte, seen in another order."""
        source = step.inputs[0]
        self.hold(step.output, order, self._held[source, self.orders[source]])

    def hold(self, name: str, order: Order, index: int) -> None:
        self.orders[name] = order
        self._held[name, order] = index

    def reshaped(self, index: int, shape: Shape, name: str, *, nodes: tuple[str, ...] | None = None) -> int:
        kind = self.model.tensors[index].type
        return self.add("RESHAPE", (index, self.indices(shape, f"{name}/shape")), shape, name, nodes=nodes, kind=kind)

    def transposed(self, index: int, perm: Order, name: str) -> int:
        """Add a transpose that is no node's: two neighbours need different layouts."""
        tensor = self.model.tensors[index]
        shape = physical_shape(tensor.shape, perm)
        return self.add("TRANSPOSE", (index, self.indices(perm, f"{name}/perm")), shape, name, nodes=(), kind=tensor.type)
