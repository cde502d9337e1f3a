"""A graph convolutional network over kernels: latency learned from whole networks (BRP-NAS, Dudziak et al. 2020).

As nn-Meter adapts it (§7.1) to networks that have no cell: the nodes are a network's kernels, each with its type and
configuration, the edges their data flow, and a global node that every kernel feeds gives the latency. Unlike there, the
global node starts with the network's totals, because a mean over neighbours alone cannot count kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.errors import MissingExtraError, TrainingError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.types import KERNEL_TYPES, kernel_type
from latcast.predictors.analytical import TERMS, term_values

if TYPE_CHECKING:
    import torch

FIELDS = ("in_h", "kernel_h", "stride_h", "in_channels", "out_channels")
"""nn-Meter's five numbers of a configuration; a kernel type that lacks one has 0."""

LAYERS, WIDTH = 4, 64

LEARNING_RATE, WEIGHT_DECAY = 2e-3, 5e-4

BATCH = 32
"""Networks in one step."""

EPOCHS, PATIENCE = 200, 30
"""Training ends after so many epochs, or so many without progress on the validation part."""

VALIDATION_SHARE = 0.15
"""Part of the training networks by which the best epoch is chosen."""

LEAST_NETWORKS = 10

LEAST_SCALE, FURTHEST = 0.1, 6.0
"""A feature varies by at least so much (it is a logarithm), and lies at most so many scales from the mean."""


@dataclass(frozen=True)
class KernelGraph:
    """The kernels of a network and how data flows between them.

    Attributes:
        features: (kernels + 1, features): one-hot type, logarithms of the analytical terms and of :data:`FIELDS`; the last row
            is the global node's.
        edges: (2, edges): from, to; self-loops, and an edge from every kernel to the global node, included.
    """

    features: np.ndarray
    edges: np.ndarray


def kernel_graph(graph: Graph, kernels: Sequence[Kernel]) -> KernelGraph:
    """Encode a network for the graph network; ``kernels`` are those of :func:`latcast.kernels.search.find_kernels`."""
    owner = {name: index for index, kernel in enumerate(kernels) for name in kernel.nodes}
    flows: set[tuple[int, int]] = set()
    for node in graph.nodes:
        for tensor in node.inputs:
            producer = graph.producers.get(tensor)
            if producer is not None:
                flows.add((owner[producer.name], owner[node.name]))
    whole = len(kernels)
    flows |= {(index, index) for index in range(whole + 1)} | {(index, whole) for index in range(whole)}
    place = {name: index for index, name in enumerate(KERNEL_TYPES)}
    numbers = len(place) + 1
    features = np.zeros((len(kernels) + 1, numbers + len(TERMS) + len(FIELDS)), dtype=np.float64)
    by_type: dict[str, list[int]] = {}
    for row, kernel in enumerate(kernels):
        by_type.setdefault(kernel.kernel_type, []).append(row)
    terms = np.zeros((len(kernels), len(TERMS)))
    for name, rows in by_type.items():
        kind = kernel_type(name)
        configurations = np.array([kernels[row].configuration for row in rows], dtype=np.int64)
        columns = kind.columns(configurations)
        features[rows, place[name]] = 1.0
        terms[rows] = term_values(kind, configurations)
        for offset, field in enumerate(FIELDS):
            if field in columns:
                features[rows, numbers + len(TERMS) + offset] = np.log1p(columns[field])
    terms[[row for row, kernel in enumerate(kernels) if kernel.free]] = 0.0
    features[:-1, numbers : numbers + len(TERMS)] = np.log1p(terms)
    features[-1, numbers - 1] = 1.0
    features[-1, numbers : numbers + len(TERMS)] = np.log1p(terms.sum(axis=0))
    return KernelGraph(features, np.array(sorted(flows), dtype=np.int64).T)


@dataclass(frozen=True)
class GraphNetwork:
    """A trained graph network.

    Attributes:
        module: The PyTorch module.
        mean, scale: (features,) standardisation of the features.
        target: Mean and standard deviation of the training networks' logarithmic latencies.
    """

    module: torch.nn.Module
    mean: np.ndarray
    scale: np.ndarray
    target: tuple[float, float]

    def latency_ms(self, networks: Sequence[KernelGraph]) -> np.ndarray:
        """Predicted latencies, (networks,)."""
        import torch

        found = []
        self.module.eval()
        with torch.no_grad():
            for start in range(0, len(networks), BATCH):
                batch = _collated(networks[start : start + BATCH], self.mean, self.scale)
                found.append(self.module(*batch).numpy())
        return np.exp(np.concatenate(found) * self.target[1] + self.target[0]) if found else np.zeros(0)


def _collated(networks: Sequence[KernelGraph], mean: np.ndarray, scale: np.ndarray) -> tuple[torch.Tensor, ...]:
    """Return networks as one graph: features, edges, their weights (one over the receiver's degree), global nodes."""
    import torch

    sizes = np.array([len(network.features) for network in networks])
    starts = np.cumsum(sizes) - sizes
    features = np.clip((np.concatenate([network.features for network in networks]) - mean) / scale, -FURTHEST, FURTHEST)
    edges = np.concatenate([network.edges + start for network, start in zip(networks, starts, strict=True)], axis=1)
    weights = 1.0 / np.bincount(edges[1], minlength=int(sizes.sum()))[edges[1]]
    return (
        torch.from_numpy(features.astype(np.float32)),
        torch.from_numpy(edges),
        torch.from_numpy(weights.astype(np.float32)),
        torch.from_numpy(starts + sizes - 1),
    )


def _module(features: int) -> Any:
    """Layers that mix each node with the mean of those that feed it; one number comes from the global node."""
    import torch
    from torch import nn

    class Module(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            widths = [features, *[WIDTH] * LAYERS]
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
            self.head = nn.Linear(WIDTH, 1)

        def forward(self, x: torch.Tensor, edges: torch.Tensor, weights: torch.Tensor, globals_: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                sent = layer(x)
                x = torch.relu(torch.zeros_like(sent).index_add_(0, edges[1], sent[edges[0]] * weights[:, None]))
            return self.head(x[globals_]).squeeze(1)

    return Module()


def fit_graph_network(
    networks: Sequence[KernelGraph], latency_ms: np.ndarray, *, seed: int = 0, epochs: int = EPOCHS
) -> GraphNetwork:
    """Trains on measured networks, on the absolute error of the logarithm.

    Args:
        networks: Encoded by :func:`kernel_graph`.
        latency_ms: (networks,).

    Raises:
        MissingExtraError: PyTorch is not installed.
        TrainingError: Fewer than ten networks.
    """
    try:
        import torch
    except ImportError as problem:
        raise MissingExtraError("torch", "torch", "the graph network") from problem
    if len(networks) < LEAST_NETWORKS:
        raise TrainingError(f"a graph network needs at least {LEAST_NETWORKS} measured networks, found {len(networks)}")
    stacked = np.concatenate([network.features for network in networks])
    logs = np.log(latency_ms)
    target = (float(logs.mean()), float(logs.std()) or 1.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        mean, scale = stacked.mean(axis=0), np.maximum(stacked.std(axis=0), LEAST_SCALE)
        # Types stay 0 or 1, lest one that is rare in training becomes enormous.
        kinds = len(list(KERNEL_TYPES)) + 1
        mean[:kinds], scale[:kinds] = 0.0, 1.0
        found = GraphNetwork(_module(stacked.shape[1]), mean, scale, target)
        _train(found, networks, ((logs - target[0]) / target[1]).astype(np.float32), np.random.default_rng(seed), epochs)
    return found


def _train(
    found: GraphNetwork, networks: Sequence[KernelGraph], wanted: np.ndarray, rng: np.random.Generator, epochs: int
) -> None:
    """Trains in place and leaves the weights of the best epoch."""
    import torch

    order = rng.permutation(len(networks))
    held = max(1, round(VALIDATION_SHARE * len(networks)))
    validation, rest = order[:held], order[held:]

    def batch(rows: np.ndarray) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        return _collated([networks[row] for row in rows], found.mean, found.scale), torch.from_numpy(wanted[rows])

    judged = batch(validation)
    optimiser = torch.optim.AdamW(found.module.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    best, best_state, since = np.inf, None, 0
    for _ in range(epochs):
        found.module.train()
        shuffled = rng.permutation(rest)
        for start in range(0, len(shuffled), BATCH):
            inputs, targets = batch(shuffled[start : start + BATCH])
            optimiser.zero_grad()
            torch.nn.functional.l1_loss(found.module(*inputs), targets).backward()
            optimiser.step()
        found.module.eval()
        with torch.no_grad():
            error = float(torch.nn.functional.l1_loss(found.module(*judged[0]), judged[1]))
        since += 1
        if error < best:
            best, since = error, 0
            best_state = {name: value.clone() for name, value in found.module.state_dict().items()}
        if since >= PATIENCE:
            break
    if best_state is not None:
        found.module.load_state_dict(best_state)
