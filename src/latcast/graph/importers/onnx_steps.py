"""Steps: the plain operators that stand for one fused operator of an ONNX file, added one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from latcast.errors import ModelError
from latcast.graph.importers.assembly import Assembly
from latcast.graph.importers.onnx_opset import without_trailing_gaps
from latcast.graph.ir import AttributeValue, Node, Shape, Tensor

MICROSOFT = "com.microsoft"
"""Domain of the operators that ONNX Runtime adds."""

Attributes = dict[str, AttributeValue]

FLOATS = ("float16", "float32", "float64")
"""Element types in which numpy can write a constant down."""


class NoRuleError(Exception):
    """Raised by a rule, before its first step, for a form of the operator that it does not describe."""


class Steps:
    """Adds the operators that stand for one node.

    Args:
        node: The node; its inputs exist.
        assembly: Where the shapes of tensors are.
        add: Adds an operator to the graph, or those that stand for it in turn.
    """

    def __init__(self, node: Node, assembly: Assembly, add: Callable[[Node], None]) -> None:
        self.node = node
        self.assembly = assembly
        self.add = add

    # What the node says

    def input(self, index: int) -> str:
        """Return the name of an input; empty where it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else ""

    def output(self, index: int) -> str:
        """Return the name of an output; empty where nothing reads it."""
        return self.node.outputs[index] if index < len(self.node.outputs) else ""

    def attributes(self, *names: str) -> Attributes:
        """Return those of the attributes that the node has."""
        return {name: self.node.attributes[name] for name in names if name in self.node.attributes}

    def numbers(self, index: int) -> tuple[int, ...]:
        """Return the integers of a constant input.

        Raises:
            NoRuleError: They are not known.
        """
        value = self.assembly.value(self.input(index)) if self.input(index) else None
        if value is None:
            raise NoRuleError
        return tuple(int(number) for number in value.reshape(-1))

    def shape(self, name: str) -> Shape:
        return self.assembly.tensor(name).shape

    def dtype(self, name: str) -> str:
        return self.assembly.tensor(name).dtype

    # What stands for it

    def many(self, op_type: str, count: int, *inputs: str, **attributes: AttributeValue) -> list[str]:
        """Add an operator of several outputs and return their names."""
        stem = f"{self.node.name or self.node.op_type}_{op_type.lower()}"
        outputs = tuple(self.assembly.fresh(stem) for _ in range(count))
        self.add(Node(op_type, stem, without_trailing_gaps(inputs), outputs, attributes))
        return list(outputs)

    def __call__(self, op_type: str, *inputs: str, **attributes: AttributeValue) -> str:
        """Add an operator of one output and return its name."""
        return self.many(op_type, 1, *inputs, **attributes)[0]

    def end(self, op_type: str, *inputs: str, **attributes: AttributeValue) -> None:
        """Add the operator that makes the node's first output."""
        self.add(Node(op_type, self.node.name, without_trailing_gaps(inputs), self.node.outputs[:1], attributes))

    def give(self, index: int, name: str) -> None:
        """Make an output of the node, where it is read, stand for a tensor."""
        if self.output(index):
            self.assembly.alias(self.output(index), name)

    def weight(self, stem: str, shape: Sequence[int], dtype: str) -> str:
        """Add a weight that the file stores in another form."""
        name = self.assembly.fresh(stem)
        self.assembly.add_static(name, Tensor(tuple(shape), dtype))
        return name

    def integers(self, *numbers: int) -> str:
        return self.assembly.constant(numbers, "int64")

    def number(self, value: float, dtype: str) -> str:
        """Add a constant; without its value if numpy lacks its element type (bfloat16)."""
        return self.assembly.constant(value, dtype) if dtype in FLOATS else self.weight("constant", (), dtype)

    # Forms that several rules have

    def reshape(self, name: str, *shape: int) -> str:
        return self("Reshape", name, self.integers(*shape))

    def split(self, name: str, axis: int, *sizes: int) -> list[str]:
        return self.many("Split", len(sizes), name, self.integers(*sizes), axis=axis)

    def channels_first(self, name: str) -> str:
        rank = len(self.shape(name))
        return self("Transpose", name, perm=(0, rank - 1, *range(1, rank - 1)))

    def channels_last(self, name: str) -> str:
        return self("Transpose", name, perm=(0, *range(2, len(self.shape(name))), 1))

    def plus(self, name: str, bias: str) -> str:
        """Add a bias where there is one."""
        return self("Add", name, bias) if bias else name

    def activation(self, kind: str, x: str, *bounds: str, **parameters: AttributeValue) -> str:
        """Add an activation by the name that fused operators give it."""
        plain = {"": "identity", "none": "identity", "swish": "silu"}.get(kind.lower(), kind.lower())
        if plain == "identity":
            return x
        if plain == "silu":
            return self("Mul", x, self("Sigmoid", x))
        return self({"relu": "Relu", "gelu": "Gelu"}.get(plain, kind), x, *bounds, **parameters)


Rule = Callable[[Steps], None]
"""Adds the operators that stand for one node."""


def rename(op_type: str, inputs: int | None = None) -> Rule:
    """Return a rule to an operator that has the same attributes, and the first of the inputs."""

    def rule(build: Steps) -> None:
        node = build.node
        build.add(Node(op_type, node.name, node.inputs[:inputs], node.outputs, node.attributes))

    return rule


def refuse(reason: str) -> Rule:
    """Return a rule that raises a ModelError with this reason."""

    def rule(build: Steps) -> None:
        raise ModelError(f"node '{build.node.name}' ({build.node.op_type}) {reason}")

    return rule
