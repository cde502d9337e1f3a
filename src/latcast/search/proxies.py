"""Zero-cost proxies: scores of a network from a few passes through it at random weights, without training (torch).

A member of a space becomes a graph (:func:`small_graph`), the graph a differentiable function
(:mod:`latcast.search.torch_network`), and a proxy (:class:`Proxy`) a number of it. No proxy is an accuracy: they rank networks,
some spaces better than others, and none reliably better than the number of parameters (White et al., "A deeper look at zero-cost
proxies for lightweight NAS", ICLR blog track 2022). Images and labels are random here, where the authors take a batch of
training data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from latcast.graph.ir import Graph
from latcast.registry import Registry
from latcast.search.torch_network import Operator, TorchNetwork
from latcast.spaces.nas.supernet import Row, Supernet

if TYPE_CHECKING:
    import torch

BATCH = 16
"""Random images that a proxy looks at."""

WORST = -1e7
"""Score of a network that passes nothing on from its input to its output, whose logarithms would be infinite."""


class Proxy(Protocol):
    """A score of networks; ``name`` is its name on the command line."""

    name: str

    def score(self, graph: Graph, seed: int) -> float:
        """Return how promising a network is; more is better, the scale is the proxy's own.

        Args:
            graph: One input, one output; its batch axis may be run with any size.
            seed: Of weights, images and labels.

        Raises:
            MissingExtraError: torch is not installed.
            UnsupportedOperatorError: The graph has an operator that cannot be run here.
        """


PROXIES: Registry[Proxy] = Registry(
    "zero-cost proxy",
    {
        "grad_norm": "latcast.search.proxies:GRADIENT_NORM",
        "jacob_cov": "latcast.search.proxies:JACOBIAN_COVARIANCE",
        "naswot": "latcast.search.proxies:ACTIVATION_CODES",
        "snip": "latcast.search.proxies:SNIP",
        "synflow": "latcast.search.proxies:SYNAPTIC_FLOW",
    },
    group="latcast.proxies",
)
"""Proxies by name."""


def log_score(value: float) -> float:
    """Return the logarithm (base 10) of a score that spans orders of magnitude, or :data:`WORST`."""
    return math.log10(value) if value > 0 and math.isfinite(value) else WORST


DIVISOR, LEAST_SIDE = 4, 32
"""Images have a quarter of a member's resolution in height and width, but at least 32 pixels."""


def small_graph(supernet: Supernet, parameters: Mapping[str, Any]) -> Graph:
    """Return a member on images of a quarter of its side; members keep their order by size of images.

    Only the first segment decides that: convolutions take any size. Where a segment counts tokens, there are fewer of them.

    Args:
        supernet: Its space; the second number of a segment is the side of what it reads.
        parameters: JSON parameters of the member.
    """
    rows = supernet.rows(supernet.encode(parameters)[None, :])[0]
    return supernet.graph_of_rows(_shrunk(supernet, tuple(row)) if row[0] else row for row in rows.tolist())


def _shrunk(supernet: Supernet, row: Row) -> Row:
    numbers = dict(zip(supernet.fields, row, strict=True))
    side = numbers[supernet.fields[1]]
    small = min(side, max(LEAST_SIDE, round(side / DIVISOR)))
    if "tokens" in numbers:
        patch = side // isqrt(numbers["tokens"] - 1)
        numbers["tokens"] = 1 + (small // patch) ** 2
    numbers[supernet.fields[1]] = small
    return tuple(int(value) for value in np.array(list(numbers.values())))


@dataclass(frozen=True)
class GradientProxy:
    """A sum over filters and matrices, from the gradient of a loss at random weights; as a logarithm.

    Attributes:
        name: As the command line knows it.
        of_weight: From a weight and its gradient to a term of the sum.
    """

    name: str
    of_weight: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

    def score(self, graph: Graph, seed: int) -> float:
        """See :class:`Proxy`; batch normalisation uses the batch's statistics."""
        network = TorchNetwork(graph, seed=seed, batch_statistics=True)
        import torch

        output = network(network.images(BATCH, seed))
        labels = torch.tensor(np.random.default_rng([seed, 1]).integers(0, output.shape[1], BATCH))
        loss = torch.nn.functional.cross_entropy(output, labels)
        return _score_gradients(network, loss, self.of_weight)


def _score_gradients(
    network: TorchNetwork, value: torch.Tensor, of_weight: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> float:
    """Return the logarithm of a sum over filters and matrices, from the gradient of a value."""
    import torch

    gradients = torch.autograd.grad(value, network.matrices, allow_unused=True)
    pairs = zip(network.matrices, gradients, strict=True)
    return log_score(sum(float(of_weight(weight.detach(), gradient)) for weight, gradient in pairs if gradient is not None))


GRADIENT_NORM = GradientProxy("grad_norm", lambda weight, gradient: gradient.norm())
"""Euclidean norms of the gradients (Abdelfattah et al., "Zero-cost proxies for lightweight NAS", ICLR 2021, §3.2)."""

SNIP = GradientProxy("snip", lambda weight, gradient: (weight * gradient).abs().sum())
"""Magnitudes of weight times gradient (Lee et al., "SNIP: single-shot network pruning based on connection sensitivity", ICLR
2019, summed over a network by Abdelfattah et al.)."""


SMALL = 1e-5
"""Keeps the logarithm finite."""


class JacobianCovariance:
    """``jacob_cov``: how uncorrelated the gradients at different images are.

    Mellor et al., "Neural architecture search without training" (first version, arXiv 2006.04647v1, §3), as used by Abdelfattah
    et al. (ICLR 2021): the gradient of the summed output at each image, their correlations' eigenvalues v, and
    -Σ (log(v + 1e-5) + 1 / (v + 1e-5)), which is greatest where the gradients have nothing to do with each other.
    """

    name = "jacob_cov"

    def score(self, graph: Graph, seed: int) -> float:
        """Return at most minus the number of images; batch normalisation uses the batch's statistics."""
        network = TorchNetwork(graph, seed=seed, batch_statistics=True)
        import torch

        images = network.images(BATCH, seed).requires_grad_()
        (gradients,) = torch.autograd.grad(network(images).sum(), images, allow_unused=True)
        return WORST if gradients is None else independence(gradients.reshape(BATCH, -1).double().numpy())


def independence(gradients: np.ndarray) -> float:
    """Return the score of gradients, (images, values)."""
    centred = gradients - gradients.mean(axis=1, keepdims=True)
    norms = np.sqrt((centred**2).sum(axis=1))
    if not norms.min() > 0:
        return WORST
    eigenvalues = np.linalg.eigvalsh(centred @ centred.T / np.outer(norms, norms)).clip(min=0) + SMALL
    return float(-(np.log(eigenvalues) + 1 / eigenvalues).sum())


JACOBIAN_COVARIANCE = JacobianCovariance()


ACTIVATIONS = frozenset({"Relu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "Erf"})
"""SiLU is written with a sigmoid, GELU with an error function."""


class ActivationCodes:
    """``naswot``: how differently a network's rectifiers see different images.

    Mellor et al., "Neural architecture search without training", ICML 2021, §3.2: each image has a binary code, which
    rectifiers are on. The kernel of two images counts the rectifiers on which their codes agree; the score is the logarithm of
    its determinant. For activations without a sharp corner (hard swish, SiLU, GELU, gates) "on" means a positive input, which
    the authors, who look at ReLU networks, leave open.
    """

    name = "naswot"

    def score(self, graph: Graph, seed: int) -> float:
        """Return the natural logarithm of the determinant; batch normalisation uses the batch's statistics."""
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
    """Return that of a positive definite matrix, or :data:`WORST`: no rectifier separates the images."""
    sign, logarithm = np.linalg.slogdet(kernel)
    return float(logarithm) if sign > 0 and np.isfinite(logarithm) else WORST


ACTIVATION_CODES = ActivationCodes()


class SynapticFlow:
    """``synflow``: how much flows through all paths of a network, without data.

    Tanaka et al., "Pruning neural networks without any data by iteratively conserving synaptic flow", NeurIPS 2020, §5, summed
    over a network by Abdelfattah et al. (ICLR 2021): with all weights replaced by their magnitudes and an image of ones, the
    sum of weight times gradient of the summed output. As a logarithm, in float64, since it grows with every layer.

    Three things are made linear, through which no flow would come back or all of it would explode, and of which the authors,
    who look at convolutions with ReLU, say nothing: normalisations are passed over (as batch normalisation is at its initial
    statistics), clipped rectifiers have no upper end, and attention weighs all tokens equally.
    """

    name = "synflow"

    def score(self, graph: Graph, seed: int) -> float:
        """Return the decimal logarithm of the flow; no overflow below some hundred layers."""
        replaced: dict[str, Operator] = {
            "BatchNormalization": lambda call: call.inputs[0],
            "LayerNormalization": lambda call: call.inputs[0],
            "Clip": lambda call: call.inputs[0].clamp(min=0),
            "Softmax": lambda call: 0 * call.inputs[0].detach() + 1 / call.inputs[0].shape[-1],
        }
        network = TorchNetwork(graph, seed=seed, double=True, replaced=replaced)
        import torch

        with torch.no_grad():
            for values in network.weights.values():
                values.abs_() if values.ndim >= 2 else values.zero_()
        flow = network(network.tensor(np.ones((1, *graph.shape(graph.inputs[0])[1:])))).sum()
        if not flow.requires_grad:
            return log_score(0.0)
        return _score_gradients(network, flow, lambda weight, gradient: (weight * gradient).sum())


SYNAPTIC_FLOW = SynapticFlow()
