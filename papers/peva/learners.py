"""What a piece of the evaluation does: split, learn, predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from random import Random

import numpy as np

from latcast.datasets.splits import Split, by_group, by_network
from latcast.errors import TrainingError
from latcast.graph.ir import Graph
from latcast.predictors.regressors import fit_regressor
from latcast.records import ExecutedKernel, Measurement, Platform
from papers.peva.operation_models import fit_operations, grouped
from papers.peva.paper import MODEL_TITLES, MODELS
from papers.peva.pieces import Outcome, Piece
from papers.peva.published import Published, flops_and_size
from papers.peva.whole_networks import (
    KernelsOfNetworks,
    lineages,
    predicted_ms,
    train_on_networks,
    train_on_operations,
)

SYNTHETIC_TEST = 100
"""Synthetic networks to test on, of 1000 (Li et al. §5.1)."""

Compute = Callable[[Piece, Published, Sequence[str], Sequence[str]], Outcome]
"""(piece, measurements, names to learn from, names to test on) -> outcome."""


@dataclass(frozen=True)
class Learner:
    """Attributes:
    compute: Learns and predicts.
    title: For people.
    seconds: What one piece takes on all networks, roughly.
    """

    compute: Compute
    title: str
    seconds: float


def split_of(piece: Piece, published: Published) -> Split:
    """The networks of a piece: those to learn from cut to its size, at random.

    Raises:
        TrainingError: The platform has fewer than the piece asks for.
    """
    names = list(published.of_platform(piece.platform, piece.kind))
    if piece.kind == "synthetic":
        split = by_network(names, piece.seed, SYNTHETIC_TEST / len(names) if len(names) > 2 * SYNTHETIC_TEST else 0.3)
    elif piece.held_out == "lineage":
        split = by_group(lineages(published, Platform.parse(piece.platform)), piece.seed)
    else:
        split = by_network(names, piece.seed)
    if not piece.size:
        return split
    if piece.size > len(split.train):
        raise TrainingError(f"{piece.platform} leaves {len(split.train)} networks to learn from; {piece.size} were asked for")
    chosen = Random(f"{piece.size}/{piece.seed}").sample(split.train, piece.size)
    return Split(tuple(sorted(chosen)), split.test)


def compute(piece: Piece, published: Published) -> Outcome:
    """Computes a piece.

    Raises:
        TrainingError: Too few measurements for it.
    """
    split = split_of(piece, published)
    return LEARNERS[piece.learner].compute(piece, published, split.train, split.test)


@cache
def networks_here() -> KernelsOfNetworks:
    """The networks that this process has built."""
    return KernelsOfNetworks()


def _outcome(predicted: Mapping[str, float], of: Mapping[str, Measurement], trained_on: int, overhead_ms: float = 0.0) -> Outcome:
    actual = {name: float(of[name].latency_ms or 0.0) for name in predicted}
    return Outcome(predicted, actual, {}, trained_on, overhead_ms)


ACTIVATIONS = frozenset({"Relu", "Clip"})
"""Operators that PyTorch Mobile runs as a clamp where it does not fuse them."""


def fused_activations(graph: Graph, executed: Sequence[ExecutedKernel]) -> list[ExecutedKernel]:
    """The activations of which no kernel was recorded, each as a kernel of its own of unknown latency."""
    recorded = {node for kernel in executed for node in kernel.nodes}
    found = []
    for node in graph.nodes:
        if node.op_type in ACTIVATIONS and node.name not in recorded:
            shape = graph.shape(node.outputs[0])
            size = shape[2] if len(shape) > 2 else 1
            configuration: dict[str, int | str] = {
                "operation": "aten::relu", "input_size": size, "input_channels": shape[1], "output_size": size,
                "output_channels": shape[1],
            }  # fmt: skip
            found.append(ExecutedKernel(node.name, "vulkan.clamp", (node.name,), 0.0, configuration))
    return found


def _by_operations(
    piece: Piece, published: Published, train: Sequence[str], test: Sequence[str], *, model: str, grouping: str = "kernels"
) -> Outcome:
    of = published.of_platform(piece.platform)
    models = fit_operations(
        [of[name].executed for name in train], [float(of[name].latency_ms or 0.0) for name in train], model=model,
        grouping=grouping, with_overhead=grouping != "nn-meter", seed=piece.seed, tune=piece.tuned or model in ALWAYS_TUNED,
    )  # fmt: skip
    fuses = grouping == "kernels" and Platform.parse(piece.platform).runtime == "pytorch"
    predicted: dict[str, float] = {}
    unfused: dict[str, float] = {}
    operations: dict[str, list[tuple[float, float]]] = {}
    for name in test:
        kernels = of[name].executed
        latency_ms = models.kernel_latency_ms(kernels)
        predicted[name] = models.overhead_ms + float(latency_ms.sum())
        for group, (places, _) in grouped(kernels, "kernels").items():
            operations.setdefault(group, []).extend((kernels[place].latency_ms, float(latency_ms[place])) for place in places)
        if fuses:
            extra = fused_activations(networks_here().graph(of[name].reference), kernels)
            unfused[name] = predicted[name] + float(models.kernel_latency_ms(extra).sum())
    whole = _outcome(predicted, of, len(train), models.overhead_ms)
    return replace(whole, operations=operations, unfused_ms=unfused)


def _latcast_networks(
    piece: Piece, published: Published, train: Sequence[str], test: Sequence[str], *, fused: bool = True
) -> Outcome:
    of, platform = published.of_platform(piece.platform), Platform.parse(piece.platform)
    predictor = train_on_networks(published, networks_here(), platform, train, fused=fused, seed=piece.seed)
    predicted = predicted_ms(predictor, networks_here(), [of[name].reference for name in test])
    return _outcome(predicted, of, len(train), predictor.network.constant_ms)


def _latcast_operations(piece: Piece, published: Published, train: Sequence[str], test: Sequence[str]) -> Outcome:
    of, platform = published.of_platform(piece.platform), Platform.parse(piece.platform)
    predictor = train_on_operations(published, networks_here(), platform, train, seed=piece.seed)
    predicted = predicted_ms(predictor, networks_here(), [of[name].reference for name in test])
    return _outcome(predicted, of, len(train), predictor.network.constant_ms)


def _by_flops_and_size(piece: Piece, published: Published, train: Sequence[str], test: Sequence[str], *, model: str) -> Outcome:
    of = published.of_platform(piece.platform, piece.kind)

    def features(names: Sequence[str]) -> np.ndarray:
        return np.array([flops_and_size(of[name]) for name in names])

    latency_ms = np.array([float(of[name].latency_ms or 0.0) for name in train])
    regressor = fit_regressor(model, features(train), latency_ms, seed=piece.seed, tune=False)
    predicted = dict(zip(test, regressor.predict(features(test)).tolist(), strict=True))
    return _outcome(predicted, of, len(train))


ALWAYS_TUNED = frozenset({"lasso"})

_SECONDS: Mapping[str, float] = {"lasso": 0.7, "random_forest": 4.0, "gbdt": 4.0, "mlp": 4.0}

LEARNERS: Mapping[str, Learner] = {
    **{model: Learner(partial(_by_operations, model=model), MODEL_TITLES[model], _SECONDS[model]) for model in MODELS},
    **{
        f"{model}, no selection": Learner(
            partial(_by_operations, model=model, grouping="operations"),
            f"{MODEL_TITLES[model]} without kernel selection",
            _SECONDS[model],
        )
        for model in MODELS
    },
    "nn-meter": Learner(partial(_by_operations, model="random_forest", grouping="nn-meter"), "as nn-Meter does", 6.0),
    "networks": Learner(_latcast_networks, "latcast, whole networks", 0.3),
    "networks, no fusion": Learner(partial(_latcast_networks, fused=False), "latcast, whole networks without fusion", 0.4),
    "operations": Learner(_latcast_operations, "latcast, operations", 7.0),
    **{
        f"{model} of FLOPs and size": Learner(
            partial(_by_flops_and_size, model=model), f"{MODEL_TITLES[model]} of FLOPs and size", 0.3
        )
        for model in ("lasso", "gbdt")
    },
}
"""Everything that learns."""
