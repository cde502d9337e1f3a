"""A graph as a differentiable function of images, its weights drawn at random (torch)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.extras import require
from latcast.graph.ir import Graph
from latcast.graph.weights import synthetic_weights
from latcast.search.proxies.torch_operators import Call, Operator, operators

if TYPE_CHECKING:
    import torch

MIXES_SAMPLES = "BatchNormalization"


class TorchNetwork:
    """Runs a graph, whose batch axis has size 1, on a batch of any size.

    Networks with batch normalisation are run on the batch at once; in others no sample sees another one, and they are run sample
    by sample (``torch.vmap``), since reshapes of transformers hold the batch size as a number.

    Attributes:
        graph: What is run.
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
        self,
        graph: Graph,
        *,
        seed: int = 0,
        batch_statistics: bool = False,
        double: bool = False,
        replaced: Mapping[str, Operator] | None = None,
    ) -> None:
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
        """Standard normal images, (count, channels, height, width)."""
        shape = self.graph.shape(self.graph.inputs[0])[1:]
        drawn = np.random.default_rng(seed).standard_normal((count, *shape))
        return self.tensor(drawn)

    def tensor(self, values: np.ndarray) -> torch.Tensor:
        """An array in the precision of the network."""
        import torch

        return torch.tensor(values, dtype=self._dtype)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """The output, (images, classes)."""
        return self.observed(images, ())[0]

    def observed(self, images: torch.Tensor, op_types: Collection[str]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The output, and what enters every operator of some types, in the order of the graph; each (images, ...)."""
        import torch

        if any(node.op_type == MIXES_SAMPLES for node in self.graph.nodes):
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
            found = self._operators[node.op_type](Call(node, inputs, constants, self._batch_statistics))
            values.update(zip(node.outputs, found if isinstance(found, tuple | list) else (found,), strict=False))
        return values[graph.outputs[0]], entering
