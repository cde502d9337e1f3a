"""``naswot``: how differently a network's rectifiers see different images (Mellor et al., "Neural architecture search without
training", ICML 2021, §3.2).

Each image has a binary code: which rectifiers are on. The kernel of two images counts the rectifiers on which their codes agree;
the score is the logarithm of its determinant. For activations without a sharp corner (hard swish, SiLU, GELU, gates) "on" means
a positive input, which the authors, who look at ReLU networks, leave open.
"""

from __future__ import annotations

import numpy as np

from latcast.graph.ir import Graph
from latcast.search.proxies.proxy import BATCH, WORST
from latcast.search.proxies.torch_network import TorchNetwork

ACTIVATIONS = frozenset({"Relu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "Erf"})
"""SiLU is written with a sigmoid, GELU with an error function."""


class ActivationCodes:
    """See :class:`latcast.search.proxies.proxy.Proxy`."""

    name = "naswot"

    def score(self, graph: Graph, seed: int) -> float:
        """Natural logarithm of the determinant; batch normalisation uses the batch's statistics."""
        network = TorchNetwork(graph, seed=seed, batch_statistics=True)
        import torch

        with torch.no_grad():
            _, entering = network.observed(network.images(BATCH, seed), ACTIVATIONS)
            kernel = np.zeros((BATCH, BATCH))
            for values in entering:
                on = (values.reshape(BATCH, -1) > 0).to(torch.float32)
                kernel += (on @ on.T + (1 - on) @ (1 - on).T).numpy()
        return log_determinant(kernel)


def log_determinant(kernel: np.ndarray) -> float:
    """Of a matrix that is positive definite, or :data:`WORST`: images that no rectifier tells apart."""
    sign, logarithm = np.linalg.slogdet(kernel)
    return float(logarithm) if sign > 0 and np.isfinite(logarithm) else WORST


ACTIVATION_CODES = ActivationCodes()
