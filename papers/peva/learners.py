"""What learns and predicts in a trial: the paper's regressors, and latcast from whole networks or the operations inside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from random import Random

import numpy as np

from latcast.errors import TrainingError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, platform_rules
from latcast.kernels.search import find_kernels
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import ExecutedKernel, Measurement, Platform, Reference
from latcast.spaces import build
from latcast.spaces.lineages import lineage_of
from latcast.training.fitting import Trainer
from latcast.training.samples import NetworkSample, TrainingData, collect
from papers.peva.operations import fit_operations, grouped
from papers.peva.paper import MODEL_TITLES, MODELS
from papers.peva.published import PublishedNetworks, flops_and_size
from papers.peva.trials import NetworkTrial, TrialResult
from papers.splits import Split, by_group, by_network
from papers.tuning import fit_regressor


def without_fusion(rules: FusionRules) -> FusionRules:
    """Return the same runtime with every operator in a kernel of its own, but for operators that are spelt in several."""
    return replace(rules, pairs={})


@cache
def graph_of(reference: Reference) -> Graph:
    """Build a network, once in each process."""
    return build(reference)


_KERNELS: dict[tuple[str, str], tuple[Kernel, ...]] = {}


def kernels_of(reference: Reference, rules: FusionRules) -> tuple[Kernel, ...]:
    """Return a network's kernels, found once for all platforms of the same rules."""
    key = (reference.key, json.dumps(rules.to_json(), sort_keys=True))
    if key not in _KERNELS:
        _KERNELS[key] = find_kernels(graph_of(reference), rules)
    return _KERNELS[key]


def train_on_networks(
    published: PublishedNetworks, platform: Platform, names: Sequence[str], *, fused: bool = True, seed: int = 0
) -> PlatformPredictor:
    """Return a predictor that saw latencies of whole networks only; where nothing is ``fused``, each operator is a kernel."""
    rules = platform_rules(platform) if fused else without_fusion(platform_rules(platform))
    measured = [published.of_platform(platform)[name] for name in names]
    samples = [
        NetworkSample(each.reference, kernels_of(each.reference, rules), float(each.latency_ms or 0.0)) for each in measured
    ]
    return Trainer(platform, rules, "networks", seed=seed).fit(TrainingData(networks=tuple(samples)))


def train_on_operations(
    published: PublishedNetworks, platform: Platform, names: Sequence[str], *, seed: int = 0
) -> PlatformPredictor:
    """Return a predictor that saw the operations inside the networks too."""
    rules = platform_rules(platform)
    of = published.of_platform(platform)
    data = collect([of[name] for name in names], rules, graph_of)
    return Trainer(platform, rules, seed=seed).fit(data)


def latency_ms_by_type(published: PublishedNetworks, platform: Platform, names: Sequence[str]) -> dict[str, float]:
    """Return what each type of kernel takes in all networks together, by a predictor fitted to all of them."""
    predictor = train_on_networks(published, platform, names)
    of = published.of_platform(platform)
    estimates = predictor.estimate([kernels_of(of[name].reference, predictor.rules) for name in names])
    times = np.bincount(estimates.table.kernel, minlength=len(estimates.kernel_ms)) * estimates.kernel_ms
    found: dict[str, float] = {}
    for name, latency_ms in zip(estimates.table.kernel_types, times.tolist(), strict=True):
        found[name] = found.get(name, 0.0) + latency_ms
    return {**found, "overhead": predictor.network.constant_ms * len(names)}


def lineages(published: PublishedNetworks, platform: Platform) -> dict[str, str]:
    """Lineage of each real network of a platform."""
    return {name: lineage_of(each.reference) for name, each in published.of_platform(platform).items()}


SYNTHETIC_TEST = 100
"""Synthetic networks to test on, of 1000 (Li et al. §5.1)."""

Compute = Callable[[NetworkTrial, PublishedNetworks, Sequence[str], Sequence[str]], TrialResult]
"""(trial, measurements, names to learn from, names to test on) -> what came out."""


@dataclass(frozen=True)
class Learner:
    """Attributes:
    compute: Learns and predicts.
    title: For people.
    """

    compute: Compute
    title: str


def split_of(trial: NetworkTrial, published: PublishedNetworks) -> Split:
    """Return the networks of a trial: those to learn from cut to its size, at random.

    Raises:
        TrainingError: The platform has fewer than the trial asks for.
    """
    names = list(published.of_platform(trial.platform, trial.kind))
    if trial.kind == "synthetic":
        split = by_network(names, trial.seed, SYNTHETIC_TEST / len(names) if len(names) > 2 * SYNTHETIC_TEST else 0.3)
    elif trial.held_out == "lineage":
        split = by_group(lineages(published, Platform.parse(trial.platform)), trial.seed)
    else:
        split = by_network(names, trial.seed)
    if not trial.size:
        return split
    if trial.size > len(split.train):
        raise TrainingError(f"{trial.platform} leaves {len(split.train)} networks to learn from; {trial.size} were asked for")
    chosen = Random(f"{trial.size}/{trial.seed}").sample(split.train, trial.size)
    return Split(tuple(sorted(chosen)), split.test)


def compute(trial: NetworkTrial, published: PublishedNetworks) -> TrialResult:
    """Compute a trial.

    Raises:
        TrainingError: Too few measurements for it.
    """
    split = split_of(trial, published)
    return LEARNERS[trial.learner].compute(trial, published, split.train, split.test)


def _result(
    predicted: Mapping[str, float], of: Mapping[str, Measurement], trained_on: int, overhead_ms: float = 0.0
) -> TrialResult:
    actual = {name: float(of[name].latency_ms or 0.0) for name in predicted}
    return TrialResult(predicted, actual, {}, trained_on, overhead_ms)


ACTIVATIONS = frozenset({"Relu", "Clip"})
"""Operators that PyTorch Mobile runs as a clamp where it does not fuse them."""


def fused_activations(graph: Graph, executed: Sequence[ExecutedKernel]) -> list[ExecutedKernel]:
    """Return the activations of which no kernel was recorded, each as a kernel of its own of unknown latency."""
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
    trial: NetworkTrial,
    published: PublishedNetworks,
    train: Sequence[str],
    test: Sequence[str],
    *,
    model: str,
    grouping: str = "kernels",
) -> TrialResult:
    of = published.of_platform(trial.platform)
    models = fit_operations(
        [of[name].executed for name in train], [float(of[name].latency_ms or 0.0) for name in train], model=model,
        grouping=grouping, with_overhead=grouping != "nn-meter", seed=trial.seed, tune=trial.tuned or model in ALWAYS_TUNED,
    )  # fmt: skip
    fuses = grouping == "kernels" and Platform.parse(trial.platform).runtime == "pytorch"
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
            extra = fused_activations(graph_of(of[name].reference), kernels)
            unfused[name] = predicted[name] + float(models.kernel_latency_ms(extra).sum())
    whole = _result(predicted, of, len(train), models.overhead_ms)
    return replace(whole, operations=operations, unfused_ms=unfused)


def _by_latcast(
    trial: NetworkTrial, published: PublishedNetworks, train: Sequence[str], test: Sequence[str], *,
    learn: Callable[..., PlatformPredictor],
) -> TrialResult:  # fmt: skip
    of = published.of_platform(trial.platform)
    predictor = learn(published, Platform.parse(trial.platform), train, seed=trial.seed)
    estimates = predictor.estimate([kernels_of(of[name].reference, predictor.rules) for name in test])
    predicted = dict(zip(test, estimates.latency_ms.tolist(), strict=True))
    return _result(predicted, of, len(train), predictor.network.constant_ms)


def _by_flops_and_size(
    trial: NetworkTrial, published: PublishedNetworks, train: Sequence[str], test: Sequence[str], *, model: str
) -> TrialResult:
    of = published.of_platform(trial.platform, trial.kind)

    def features(names: Sequence[str]) -> np.ndarray:
        return np.array([flops_and_size(of[name]) for name in names])

    latency_ms = np.array([float(of[name].latency_ms or 0.0) for name in train])
    regressor = fit_regressor(model, features(train), latency_ms, seed=trial.seed, tune=False)
    predicted = dict(zip(test, regressor.predict(features(test)).tolist(), strict=True))
    return _result(predicted, of, len(train))


ALWAYS_TUNED = frozenset({"lasso"})

LEARNERS: Mapping[str, Learner] = {
    **{model: Learner(partial(_by_operations, model=model), MODEL_TITLES[model]) for model in MODELS},
    **{
        f"{model}, no selection": Learner(
            partial(_by_operations, model=model, grouping="operations"), f"{MODEL_TITLES[model]} without kernel selection"
        )
        for model in MODELS
    },
    "nn-meter": Learner(partial(_by_operations, model="random_forest", grouping="nn-meter"), "as nn-Meter does"),
    "networks": Learner(partial(_by_latcast, learn=train_on_networks), "latcast, whole networks"),
    "networks, no fusion": Learner(
        partial(_by_latcast, learn=partial(train_on_networks, fused=False)), "latcast, whole networks without fusion"
    ),
    "operations": Learner(partial(_by_latcast, learn=train_on_operations), "latcast, operations"),
    **{
        f"{model} of FLOPs and size": Learner(
            partial(_by_flops_and_size, model=model), f"{MODEL_TITLES[model]} of FLOPs and size"
        )
        for model in ("lasso", "gbdt")
    },
}
"""Everything that learns."""
