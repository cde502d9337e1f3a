"""The conversion of one TFLite operator: its inputs and options, and the nodes it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from latcast.errors import ModelError
from latcast.graph.importers.assembly import Array, Assembly
from latcast.graph.importers.tflite_file import StoredOperator
from latcast.graph.ir import AttributeValue, Node, Shape, Tensor

if TYPE_CHECKING:
    from latcast.graph.importers.tflite import TfliteReading

Attributes = dict[str, AttributeValue]

DOMAIN = "tflite"
"""The domain of operators that ONNX has no words for."""

_ACTIVATIONS: Mapping[int, str] = {1: "Relu", 2: "Clip", 3: "Clip", 4: "Tanh"}
_BOUNDS: Mapping[int, tuple[float, float]] = {2: (-1.0, 1.0), 3: (0.0, 6.0)}


def node_stem(kind: str, outputs: Sequence[str]) -> str:
    """Return the name of the operator's next node: the first has the operator's name, others a number after it."""
    return f"{kind.lower()}:{outputs[0]}" if outputs else kind.lower()


class ComputedInputError(ModelError):
    """An input that decides a size is computed at run time."""


class Conversion:
    """The conversion of one operator."""

    def __init__(self, reading: TfliteReading, operator: StoredOperator) -> None:
        self.reading = reading
        self.operator = operator
        self.assembly: Assembly = reading.assembly
        self.outputs: list[str] = [reading.name_of(index) for index in operator.outputs]
        self.name = node_stem(operator.kind, self.outputs)

    # Inputs

    def __len__(self) -> int:
        return len(self.operator.inputs)

    def has(self, position: int) -> bool:
        return position < len(self) and self.operator.inputs[position] >= 0

    def input(self, position: int) -> str:
        return self.reading.use(self.operator.inputs[position]) if self.has(position) else ""

    def shape(self, position: int = 0) -> Shape:
        return self.assembly.tensor(self.input(position)).shape

    def value(self, position: int) -> Array:
        """Return the values of an input that must be constant.

        Raises:
            ComputedInputError: It is computed at run time.
        """
        found = self.reading.value(self.operator.inputs[position])
        if found is None:
            raise ComputedInputError(f"operator {self.name} computes its input {position} at run time")
        return found

    def ints(self, position: int) -> tuple[int, ...]:
        return tuple(int(number) for number in self.value(position).reshape(-1))

    def options(self, table: str) -> Any:
        return self.operator.options(table)

    def stated(self, output: int = 0) -> Tensor:
        """Return the shape and type that the file states of an output."""
        return self.reading.file.tensors[self.operator.outputs[output]].tensor

    def weight(self, position: int, order: tuple[int, ...]) -> str:
        """Return a filter with its axes in ONNX's order; the values of a stored one do not matter."""
        name = self.input(position)
        tensor = self.assembly.tensor(name)
        if not self.assembly.is_static(name):
            return self.op("Transpose", [name], {"perm": order})
        shape = tuple(tensor.shape[axis] for axis in order)
        if shape == tensor.shape:
            return name
        reordered = self.assembly.fresh(f"{name}_reordered")
        self.assembly.add_static(reordered, Tensor(shape, tensor.dtype))
        return reordered

    # Operators

    def constant(self, value: object, dtype: str = "int64") -> str:
        return self.assembly.constant(value, dtype)

    def op(self, op_type: str, inputs: Sequence[str], attributes: Attributes | None = None, *, output: str | None = None) -> str:
        return self.assembly.op(op_type, inputs, attributes, name=self.name, output=output)

    def many(self, op_type: str, inputs: Sequence[str], attributes: Attributes, outputs: Sequence[str]) -> None:
        self.assembly.add(Node(op_type, self.name, tuple(inputs), tuple(outputs), attributes))

    def result(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: Attributes | None = None,
        *,
        activation: int = 0,
        from_channels_first: bool = False,
    ) -> None:
        """Add the operator that makes the output, then its fused activation and its view."""
        last = activation not in _ACTIVATIONS and not from_channels_first
        x = self.op(op_type, inputs, attributes, output=self.outputs[0] if last else None)
        if activation in _ACTIVATIONS:
            x = self.activation(x, activation, output=None if from_channels_first else self.outputs[0])
        if from_channels_first:
            self.to_channels_last(x)

    def activation(self, x: str, code: int, *, output: str | None = None) -> str:
        """Add a fused activation as a separate operator."""
        bounds = [self.constant(bound, "float32") for bound in _BOUNDS.get(code, ())]
        return self.op(_ACTIVATIONS[code], [x, *bounds], output=output)

    def channels_first(self, position: int = 0) -> str:
        """Return a view of an input with its channels first."""
        rank = len(self.shape(position))
        return self.view(self.input(position), (0, rank - 1, *range(1, rank - 1)))

    def to_channels_last(self, x: str) -> None:
        """Make the output a view of a channels-first tensor."""
        rank = len(self.assembly.tensor(x).shape)
        self.view(x, (0, *range(2, rank), 1), self.outputs[0])

    def view(self, x: str, order: tuple[int, ...], output: str | None = None) -> str:
        """Add a transpose that only stands for another order of axes, and that nothing runs for."""
        name = self.assembly.fresh("view")
        output = output or f"{name}_out"
        self.reading.views.add(name)
        self.assembly.add(Node("Transpose", name, (x,), (output,), {"perm": order}))
        return output

    def reshape(self, x: str, shape: Sequence[int], *, output: str | None = None) -> str:
        return self.op("Reshape", [x, self.constant(shape)], output=output)

    def keep_unknown(self, tensors: Sequence[Tensor] | None = None) -> None:
        """Keep an operator without a counterpart.

        Args:
            tensors: Its outputs; by default as the file states them, with the sizes that differ in its inputs where others are
                given.
        """
        tensors = [self._followed(index) for index in range(len(self.outputs))] if tensors is None else tensors
        self.reading.stated.update(zip(self.outputs, tensors, strict=True))
        inputs = [self.reading.use(index) for index in self.operator.inputs]
        inputs = [name for name in inputs if not name or self.assembly.tensor(name).dtype != "resource"]
        self.assembly.add(Node(self.operator.kind, self.name, tuple(inputs), tuple(self.outputs), {}, DOMAIN))

    def _followed(self, output: int) -> Tensor:
        """Return an output as the file states it, but for the sizes that its first resized input has there too.

        Raises:
            ModelError: A size that differs is not one of the output's.
        """
        tensor = self.stated(output)
        if not self.reading.shapes:
            return tensor
        for index in self.operator.inputs:
            name = self.reading.use(index)
            before, now = (self.reading.file.tensors[index].shape, self.assembly.tensor(name).shape) if name else ((), ())
            if before == now:
                continue
            changed = [axis for axis in range(len(now)) if axis >= len(before) or before[axis] != now[axis]]
            if len(before) != len(now) or any(tensor.shape[axis : axis + 1] != before[axis : axis + 1] for axis in changed):
                raise ModelError(
                    f"operator {self.name} is not known well enough to say what shape it gives for an input of {list(now)}; "
                    "convert the model with inputs of that size"
                )
            sizes = [now[axis] if axis in changed else size for axis, size in enumerate(tensor.shape)]
            self.assembly.notes.append(f"{self.name} is assumed to keep the sizes that were given, and to give {sizes}")
            return Tensor(tuple(sizes), tensor.dtype)
        return tensor
