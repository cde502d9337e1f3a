"""A graph as a differentiable function of images, its weights drawn at random (torch): enough operators to pass gradients
through every member of the built-in search spaces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.extras import require
from latcast.graph.ir import Graph, Node
from latcast.graph.weights import synthetic_weights

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One operator with its operands.

    Attributes:
        node: The operator.
        inputs: Activations and weights as tensors; None for constants and for what is left out.
        constants: Values of constant inputs; None for others.
        batch_statistics: Whether batch normalisation uses the statistics of the batch.
    """

    node: Node
    inputs: Sequence[Any]
    constants: Sequence[np.ndarray | None]
    batch_statistics: bool = False

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute of the operator."""
        return self.node.attributes.get(name, default)

    def ints(self, place: int) -> list[int]:
        """Return a constant input as integers."""
        return [int(value) for value in cast(np.ndarray, self.constants[place]).reshape(-1)]

    def number(self, place: int) -> float:
        """Return a constant input as one number."""
        return float(cast(np.ndarray, self.constants[place]).reshape(-1)[0])

    def weight(self, place: int) -> Any:
        """Return an input that may be left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def padding(self) -> tuple[int, int]:
        """Return equal padding at both ends of both axes.

        Raises:
            UnsupportedOperatorError: The ends differ.
        """
        top, left, bottom, right = self.attribute("pads", (0, 0, 0, 0))
        if (top, left) != (bottom, right):
            raise UnsupportedOperatorError(
                f"'{self.node.name}' ({self.node.op_type}) pads its ends differently; expected the same"
            )
        return top, left

    def window(self) -> dict[str, Any]:
        """Return the arguments of a pooling."""
        kernel = tuple(self.attribute("kernel_shape", ()))
        stride = tuple(self.attribute("strides", (1,) * len(kernel)))
        ceil_mode = bool(self.attribute("ceil_mode", 0))
        return {"kernel_size": kernel, "stride": stride, "padding": self.padding(), "ceil_mode": ceil_mode}


Operator = Callable[[OperatorCall], Any]
"""From operands to the output, or to a tuple of outputs."""


@cache
def operators() -> Mapping[str, Operator]:
    """Return the functions that compute ONNX operators."""
    import torch
    from torch.nn import functional

    def operand(call: OperatorCall, place: int) -> Any:
        """Return an activation, a weight, or a constant number."""
        found = call.inputs[place]
        return call.number(place) if found is None else found

    def convolution(call: OperatorCall) -> Any:
        x, filters = call.inputs[:2]
        rest = {"stride": call.attribute("strides", (1, 1)), "dilation": call.attribute("dilations", (1, 1))}
        return functional.conv2d(x, filters, call.weight(2), padding=call.padding(), groups=call.attribute("group", 1), **rest)

    def batch_normalisation(call: OperatorCall) -> Any:
        x, scale, bias, mean, variance = call.inputs
        epsilon = call.attribute("epsilon", 1e-5)
        if call.batch_statistics:
            return functional.batch_norm(x, None, None, scale, bias, training=True, eps=epsilon)
        return functional.batch_norm(x, mean.detach(), variance.detach(), scale, bias, eps=epsilon)

    def layer_normalisation(call: OperatorCall) -> Any:
        scale = call.inputs[1]
        return functional.layer_norm(call.inputs[0], scale.shape, scale, call.weight(2), eps=call.attribute("epsilon", 1e-5))

    def linear(call: OperatorCall) -> Any:
        weight = call.inputs[1] if call.attribute("transB", 0) else call.inputs[1].T
        return functional.linear(call.inputs[0], weight, call.weight(2))

    def concatenation(call: OperatorCall) -> Any:
        batch = max(len(value) for value in call.inputs)
        parts = [value.expand(batch, *value.shape[1:]) for value in call.inputs]
        return torch.cat(parts, dim=call.attribute("axis", 0))

    def part(call: OperatorCall) -> Any:
        x = call.inputs[0]
        for start, end, axis in zip(call.ints(1), call.ints(2), call.ints(3), strict=True):
            start, end, _ = slice(start, end).indices(x.shape[axis])
            x = x.narrow(axis, start, end - start)
        return x

    return {
        "Add": lambda call: operand(call, 0) + operand(call, 1),
        "AveragePool": lambda call: functional.avg_pool2d(
            call.inputs[0], **call.window(), count_include_pad=bool(call.attribute("count_include_pad", 0))
        ),
        "BatchNormalization": batch_normalisation,
        "Clip": lambda call: torch.clamp(call.inputs[0], call.number(1), call.number(2)),
        "Concat": concatenation,
        "Conv": convolution,
        "Div": lambda call: operand(call, 0) / operand(call, 1),
        "Erf": lambda call: torch.erf(call.inputs[0]),
        "Flatten": lambda call: torch.flatten(call.inputs[0], call.attribute("axis", 1)),
        "Gemm": linear,
        "GlobalAveragePool": lambda call: call.inputs[0].mean(dim=(2, 3), keepdim=True),
        "HardSigmoid": lambda call: torch.clamp(
            call.attribute("alpha", 0.2) * call.inputs[0] + call.attribute("beta", 0.5), 0, 1
        ),
        "HardSwish": lambda call: functional.hardswish(call.inputs[0]),
        "LayerNormalization": layer_normalisation,
        "MatMul": lambda call: call.inputs[0] @ call.inputs[1],
        "MaxPool": lambda call: functional.max_pool2d(call.inputs[0], **call.window()),
        "Mul": lambda call: operand(call, 0) * operand(call, 1),
        "Relu": lambda call: functional.relu(call.inputs[0]),
        "Reshape": lambda call: call.inputs[0].reshape(call.ints(1)),
        "Sigmoid": lambda call: torch.sigmoid(call.inputs[0]),
        "Slice": part,
        "Softmax": lambda call: torch.softmax(call.inputs[0], dim=call.attribute("axis", -1)),
        "Split": lambda call: torch.split(call.inputs[0], call.ints(1), dim=call.attribute("axis", 0)),
        "Sub": lambda call: operand(call, 0) - operand(call, 1),
        "Transpose": lambda call: call.inputs[0].permute(call.attribute("perm", tuple(range(call.inputs[0].ndim))[::-1])),
    }


class TorchNetwork:
    """A graph, whose batch axis has size 1, as a function of a batch of any size.

    Networks with batch normalisation are run on the batch at once; in others no sample sees another one, and they are run sample
    by sample (``torch.vmap``), since reshapes of transformers hold the batch size as a number.

    Attributes:
        graph: The network.
        weights: Tensor's name to its values, differentiable: those of :func:`latcast.graph.weights.synthetic_weights`.

    Args:
        graph: One input, one output.
        seed: Of the weights.
        batch_statistics: Whether batch normalisation uses the batch's mean and variance, as in training, or its own.
        double: Whether to compute in float64.
        replaced: Operators to run in another way.

    Raises:
        MissingExtraError: torch is not installed.
        UnsupportedOperatorError: The graph has an operator that cannot be run.
    """

    def __init__(
        self, graph: Graph, *, seed: int = 0, batch_statistics: bool = False, double: bool = False,
        replaced: Mapping[str, Operator] | None = None,
    ) -> None:  # fmt: skip
        require("running a network for a zero-cost proxy", "torch")
        import torch

        self.graph = graph
        self._dtype = torch.float64 if double else torch.float32
        self._operators = {**operators(), **(replaced or {})}
        self._batch_statistics = batch_statistics
        unknown = sorted({node.op_type for node in graph.nodes} - set(self._operators))
        if unknown:
            raise UnsupportedOperatorError(
                f"the network has the operator {', '.join(unknown)}, with which no zero-cost proxy is computed; "
                f"known: {', '.join(sorted(self._operators))}"
            )
        self.weights = {
            name: torch.tensor(values, dtype=self._dtype, requires_grad=True)
            for name, values in synthetic_weights(graph, seed=seed).items()
        }

    @property
    def matrices(self) -> list[torch.Tensor]:
        """Weights of two axes or more: filters and matrices, not biases and scales."""
        return [values for values in self.weights.values() if values.ndim >= 2]

    def images(self, count: int, seed: int) -> torch.Tensor:
        """Return standard normal images, (count, channels, height, width)."""
        shape = self.graph.shape(self.graph.inputs[0])[1:]
        return self.tensor(np.random.default_rng(seed).standard_normal((count, *shape)))

    def tensor(self, values: np.ndarray) -> torch.Tensor:
        """Return an array in the precision of the network."""
        import torch

        return torch.tensor(values, dtype=self._dtype)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return the output, (images, classes)."""
        return self.observed(images, ())[0]

    def observed(self, images: torch.Tensor, op_types: Collection[str]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the output, and the input of every operator of some types in the order of the graph; each (images, ...)."""
        import torch

        if any(node.op_type == "BatchNormalization" for node in self.graph.nodes):
            return self._run(images, op_types)
        one: Callable[[torch.Tensor], Any] = lambda image: self._run(image[None], op_types)  # noqa: E731
        output, entering = torch.vmap(one)(images)
        return output[:, 0], list(entering)

    def _run(self, images: torch.Tensor, op_types: Collection[str]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        graph = self.graph
        values: dict[str, Any] = {graph.inputs[0]: images, **self.weights}
        entering = []
        for node in graph.nodes:
            inputs = [values.get(name) for name in node.inputs]
            if node.op_type in op_types:
                entering.append(inputs[0])
            constants = [graph.constants.get(name) for name in node.inputs]
            found = self._operators[node.op_type](OperatorCall(node, inputs, constants, self._batch_statistics))
            values.update(zip(node.outputs, found if isinstance(found, tuple | list) else (found,), strict=False))
        return values[graph.outputs[0]], entering
