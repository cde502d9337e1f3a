"""latcast's own predictors on the published networks: from whole networks alone, and from the operations inside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from latcast.datasets.splits import lineage_of
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, platform_rules
from latcast.kernels.search import find_kernels
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.samples import NetworkSample, TrainingData, collect
from latcast.predictors.training import fit_predictor
from latcast.records import Platform, Reference
from latcast.spaces import build
from papers.peva.published import Published


def without_fusion(rules: FusionRules) -> FusionRules:
    """The same runtime with every operator in a kernel of its own, but for operators that are spelt in several."""
    return replace(rules, pairs={})


class KernelsOfNetworks:
    """Builds each network once, and finds its kernels once for all platforms of the same rules."""

    def __init__(self) -> None:
        self._graphs: dict[str, Graph] = {}
        self._kernels: dict[tuple[str, str], tuple[Kernel, ...]] = {}

    def graph(self, reference: Reference) -> Graph:
        """The network of a reference."""
        if reference.key not in self._graphs:
            self._graphs[reference.key] = build(reference)
        return self._graphs[reference.key]

    def kernels(self, reference: Reference, rules: FusionRules) -> tuple[Kernel, ...]:
        """Its kernels under rules."""
        key = (reference.key, json.dumps(rules.to_json(), sort_keys=True))
        if key not in self._kernels:
            self._kernels[key] = find_kernels(self.graph(reference), rules)
        return self._kernels[key]


@cache
def networks() -> KernelsOfNetworks:
    """Those that this process has built."""
    return KernelsOfNetworks()


def samples(published: Published, platform: Platform, names: Sequence[str], rules: FusionRules) -> list[NetworkSample]:
    """Measured real networks with their kernels, in the order of the names."""
    of = published.of_platform(platform)
    return [
        NetworkSample(of[name].reference, networks().kernels(of[name].reference, rules), float(of[name].latency_ms or 0.0))
        for name in names
    ]


def train_on_networks(
    published: Published,
    platform: Platform,
    names: Sequence[str],
    *,
    fused: bool = True,
    seed: int = 0,
) -> PlatformPredictor:
    """A predictor that saw latencies of whole networks only.

    Args:
        published: The measurements.
        platform: What to predict for.
        names: Networks to learn from.
        fused: Whether kernels are found by the runtime's fusion rules, or each operator is one.
        seed: For every random choice.
    """
    rules = platform_rules(platform)
    rules = rules if fused else without_fusion(rules)
    data = TrainingData(networks=tuple(samples(published, platform, names, rules)))
    return fit_predictor(data, platform, rules, learn_from="networks", seed=seed)


def train_on_operations(published: Published, platform: Platform, names: Sequence[str], *, seed: int = 0) -> PlatformPredictor:
    """A predictor that saw the operations inside the networks too."""
    rules = platform_rules(platform)
    of = published.of_platform(platform)
    data = collect([of[name] for name in names], rules, networks().graph)
    return fit_predictor(data, platform, rules, learn_from="operators", seed=seed)


def predicted_ms(predictor: PlatformPredictor, references: Sequence[Reference]) -> dict[str, float]:
    """Latencies by network name."""
    estimates = predictor.estimate([networks().kernels(reference, predictor.rules) for reference in references])
    return {reference.name: float(value) for reference, value in zip(references, estimates.latency_ms, strict=True)}


def latency_ms_by_type(published: Published, platform: Platform, names: Sequence[str]) -> dict[str, float]:
    """What each type of kernel takes in all networks together, by a predictor fitted to all of them."""
    predictor = train_on_networks(published, platform, names)
    of = published.of_platform(platform)
    estimates = predictor.estimate([networks().kernels(of[name].reference, predictor.rules) for name in names])
    times = np.bincount(estimates.table.kernel, minlength=len(estimates.kernel_ms)) * estimates.kernel_ms
    found: dict[str, float] = {}
    for name, latency_ms in zip(estimates.table.kernel_types, times.tolist(), strict=True):
        found[name] = found.get(name, 0.0) + latency_ms
    return {**found, "overhead": predictor.network.constant_ms * len(names)}


def lineages(published: Published, platform: Platform) -> dict[str, str]:
    """Lineage of each real network of a platform."""
    return {name: lineage_of(each.reference) for name, each in published.of_platform(platform).items()}
