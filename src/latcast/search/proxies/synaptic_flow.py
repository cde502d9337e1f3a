"""``synflow``: how much flows through all paths of a network, without data.

Tanaka et al., "Pruning neural networks without any data by iteratively conserving synaptic flow", NeurIPS 2020, §5, summed over
a network by Abdelfattah et al. (ICLR 2021): with all weights replaced by their magnitudes and an image of ones, the sum of weight
times gradient of the summed output. As a logarithm, in float64, since it grows with every layer.

Three things are made linear, through which no flow would come back or all of it would explode, and of which the authors, who
look at convolutions with ReLU, say nothing: normalisations are passed over (as batch normalisation is at its initial statistics),
clipped rectifiers have no upper end, and attention weighs all tokens equally.
"""

from __future__ import annotations

import numpy as np

from latcast.graph.ir import Graph
from latcast.search.proxies.proxy import log_score
from latcast.search.proxies.torch_network import TorchNetwork


class SynapticFlow:
    """See :class:`latcast.search.proxies.proxy.Proxy`."""

    name = "synflow"

    def score(self, graph: Graph, seed: int) -> float:
        """Decimal logarithm of the flow; no overflow below some hundred layers."""
        network = TorchNetwork(
            graph,
            seed=seed,
            double=True,
            replaced={
                "BatchNormalization": lambda call: call.inputs[0],
                "LayerNormalization": lambda call: call.inputs[0],
                "Clip": lambda call: call.inputs[0].clamp(min=0),
                "Softmax": lambda call: 0 * call.inputs[0].detach() + 1 / call.inputs[0].shape[-1],
            },
        )
        import torch

        with torch.no_grad():
            for values in network.weights.values():
                values.abs_() if values.ndim >= 2 else values.zero_()
        flow = network(network.tensor(np.ones((1, *graph.shape(graph.inputs[0])[1:])))).sum()
        if not flow.requires_grad:
            return log_score(0.0)
        gradients = torch.autograd.grad(flow, network.matrices, allow_unused=True)
        parts = [
            float((weight.detach() * gradient).sum())
            for weight, gradient in zip(network.matrices, gradients, strict=True)
            if gradient is not None
        ]
        return log_score(sum(parts))


SYNAPTIC_FLOW = SynapticFlow()
