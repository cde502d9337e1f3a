"""Fusion before writing, as converters do it: batch normalisation, biases, activations and idioms.

A *step* is what one emitter writes: a node with those that disappear into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose
from typing import cast

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.graph.idioms import Idiom, choose_idioms
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import Kind, names_of, operators
from latcast.graph.operators.elementwise import clip_bounds
from latcast.graph.writers.tflite.schema import Activation

CARRIES_ACTIVATION = {"BatchNormalization"} | names_of(row for row in operators() if row.kind is Kind.PRODUCT or row.arithmetic)
"""Operators whose TFLite form has a fused activation that converters fill."""


_CLIPS: Mapping[tuple[float | None, float | None], Activation] = {
    (0.0, 6.0): Activation.RELU6, (-1.0, 1.0): Activation.RELU_N1_TO_1, (0.0, None): Activation.RELU,
}  # fmt: skip


_IDIOMS: Mapping[str, str] = {"gelu": "Gelu", "hard_swish": "HardSwish"}
"""Idiom to the emitter that writes it."""


def _has_operator(idiom: Idiom) -> bool:
    """Return whether a stock converter writes an idiom as one TFLite operator: the exact GELU, and x times its HardSigmoid."""
    attributes = idiom.attributes or {}
    if idiom.name == "gelu":
        return attributes.get("approximate") == "none"
    near = [
        isclose(cast(float, attributes.get(key, 0.0)), value, rel_tol=1e-4) for key, value in (("alpha", 1 / 6), ("beta", 0.5))
    ]
    return len(idiom.nodes) == 2 and all(near)


@dataclass(frozen=True)
class Step:
    """A group of nodes that are written together.

    Attributes:
        op_type: Which emitter writes it: the node's own type, or "Gelu" or "HardSwish" for a found idiom.
        node: The first node; its attributes and inputs describe the step.
        names: The nodes that it computes, in the graph's order.
        inputs: The tensors that it reads.
        outputs: The tensors that it makes.
        batch_norm: A batch normalisation folded into the weights.
        bias: The weight that a following Add brings to a matrix product.
        activation: What follows, fused.
    """

    op_type: str
    node: Node
    names: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch_norm: Node | None = None
    bias: str | None = None
    activation: Activation = Activation.NONE

    @property
    def output(self) -> str:
        return self.outputs[0]


def unsupported(node: Node, reason: str) -> UnsupportedOperatorError:
    """Return the error for a node that TFLite cannot express."""
    return UnsupportedOperatorError(
        f"node '{node.name}' ({node.op_type}) cannot be written to TFLite: {reason}; "
        "leave it out, replace it, or choose a runtime that reads ONNX"
    )


def plan_steps(graph: Graph, values: Mapping[str, np.ndarray]) -> list[Step]:
    """Group the nodes into steps, in the graph's order."""
    return _Planner(graph, values).plan()


class _Planner:
    def __init__(self, graph: Graph, values: Mapping[str, np.ndarray]) -> None:
        self.graph = graph
        self.values = values
        self.taken: set[str] = set()

    def plan(self) -> list[Step]:
        idioms: dict[str, Step] = {}
        for idiom in choose_idioms(self.graph, _IDIOMS, _has_operator):
            names = tuple(node.name for node in idiom.nodes)
            first = idiom.nodes[0]
            self.taken.update(names)
            idioms[names[0]] = Step(_IDIOMS[idiom.name], first, names, idiom.inputs, (idiom.output,))
        steps = []
        for node in self.graph.nodes:
            if node.name in idioms:
                steps.append(idioms[node.name])
            elif node.name not in self.taken:
                steps.append(self._step(node))
        return steps

    def sole_reader(self, tensor: str) -> Node | None:
        """Return the node that a tensor is made for, where no other step has it."""
        reader = self.graph.sole_reader(tensor)
        return None if reader is None or reader.name in self.taken else reader

    def _step(self, node: Node) -> Step:
        nodes = [node]
        batch_norm, bias, activation = None, None, Activation.NONE
        following = self.sole_reader(node.outputs[0])
        if following is not None and self._normalises(node, following):
            batch_norm = following
        elif following is not None and node.op_type == "MatMul":
            bias = self._bias(node, following)
        if batch_norm is not None or bias is not None:
            assert following is not None
            nodes.append(following)
            following = self.sole_reader(following.outputs[0])
        # BATCH_MATMUL, a product of two activations, carries no activation.
        carries = node.op_type in CARRIES_ACTIVATION and (node.op_type not in ("MatMul", "Gemm") or self._has_matrix(node))
        if following is not None and carries:
            activation = self._activation(following)
            if activation is not Activation.NONE:
                nodes.append(following)
        names = tuple(each.name for each in nodes)
        self.taken.update(names)
        return Step(node.op_type, node, names, node.inputs, (*nodes[-1].outputs,), batch_norm, bias, activation)

    def _has_matrix(self, node: Node) -> bool:
        return node.inputs[1] in self.values and self.values[node.inputs[1]].ndim == 2

    def _normalises(self, node: Node, following: Node) -> bool:
        return (
            node.op_type in ("Conv", "ConvTranspose")
            and following.op_type == "BatchNormalization"
            and following.inputs[0] == node.outputs[0]
            and all(name in self.values for name in (*node.inputs[1:], *following.inputs[1:]) if name)
        )

    def _bias(self, node: Node, following: Node) -> str | None:
        if following.op_type != "Add" or not self._has_matrix(node):
            return None
        other = next((name for name in following.inputs if name != node.outputs[0]), "")
        value = self.values.get(other)
        features = self.graph.shape(node.outputs[0])[-1]
        fits = value is not None and value.size == features and value.shape[-1:] == (features,)
        return other if fits and self.graph.shape(following.outputs[0]) == self.graph.shape(node.outputs[0]) else None

    def _activation(self, node: Node) -> Activation:
        if node.op_type == "Relu":
            return Activation.RELU
        if node.op_type == "Clip":
            bounds = clip_bounds(node, self.values)
            return _CLIPS.get(bounds, Activation.NONE)
        return Activation.NONE
