"""``jacob_cov``: how uncorrelated the gradients at different images are.

Mellor et al., "Neural architecture search without training" (first version, arXiv 2006.04647v1, §3), as used by Abdelfattah et
al. (ICLR 2021): the gradient of the summed output at each image, their correlations' eigenvalues v, and
-Σ (log(v + 1e-5) + 1 / (v + 1e-5)), which is greatest where the gradients have nothing to do with each other.
"""

from __future__ import annotations

import numpy as np

from latcast.graph.ir import Graph
from latcast.search.proxies.proxy import BATCH, WORST
from latcast.search.proxies.torch_network import TorchNetwork

SMALL = 1e-5
"""Keeps the logarithm finite."""


class JacobianCovariance:
    """See :class:`latcast.search.proxies.proxy.Proxy`."""

    name = "jacob_cov"

    def score(self, graph: Graph, seed: int) -> float:
        """In units of its own, at most minus the number of images; batch normalisation uses the batch's statistics."""
        network = TorchNetwork(graph, seed=seed, batch_statistics=True)
        import torch

        images = network.images(BATCH, seed).requires_grad_()
        (gradients,) = torch.autograd.grad(network(images).sum(), images, allow_unused=True)
        return WORST if gradients is None else independence(gradients.reshape(BATCH, -1).double().numpy())


def independence(gradients: np.ndarray) -> float:
    """The score of gradients, (images, values)."""
    centred = gradients - gradients.mean(axis=1, keepdims=True)
    norms = np.sqrt((centred**2).sum(axis=1))
    if not norms.min() > 0:
        return WORST
    eigenvalues = np.linalg.eigvalsh(centred @ centred.T / np.outer(norms, norms)).clip(min=0) + SMALL
    return float(-(np.log(eigenvalues) + 1 / eigenvalues).sum())


JACOBIAN_COVARIANCE = JacobianCovariance()
