"""Proxies made of the gradient of a loss at random weights.

``grad_norm``: sum over filters and matrices of the Euclidean norm of their gradient (Abdelfattah et al., "Zero-cost proxies for
lightweight NAS", ICLR 2021, §3.2). ``snip``: sum of the magnitudes of weight times gradient (Lee et al., "SNIP: single-shot
network pruning based on connection sensitivity", ICLR 2019, summed over a network by Abdelfattah et al.). Both as logarithms.
Images and labels are random here, where the authors take a batch of training data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import Graph
from latcast.search.proxies.proxy import BATCH, log_score
from latcast.search.proxies.torch_network import TorchNetwork

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class GradientProxy:
    """Attributes:
    name: As the command line knows it.
    of_weight: From a weight and its gradient to what is summed.
    """

    name: str
    of_weight: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

    def score(self, graph: Graph, seed: int) -> float:
        """See :class:`latcast.search.proxies.proxy.Proxy`; batch normalisation uses the batch's statistics."""
        network = TorchNetwork(graph, seed=seed, batch_statistics=True)
        import torch

        output = network(network.images(BATCH, seed))
        labels = torch.tensor(np.random.default_rng([seed, 1]).integers(0, output.shape[1], BATCH))
        loss = torch.nn.functional.cross_entropy(output, labels)
        gradients = torch.autograd.grad(loss, network.matrices, allow_unused=True)
        parts = [
            float(self.of_weight(weight.detach(), gradient))
            for weight, gradient in zip(network.matrices, gradients, strict=True)
            if gradient is not None
        ]
        return log_score(sum(parts))


GRADIENT_NORM = GradientProxy("grad_norm", lambda weight, gradient: gradient.norm())
SNIP = GradientProxy("snip", lambda weight, gradient: (weight * gradient).abs().sum())
