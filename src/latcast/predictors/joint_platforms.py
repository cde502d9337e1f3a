"""Latencies of one network on several platforms together: which is fastest, and how sure that is.

A network slower than its FLOPs and bytes suggest on one platform is so on others, the more the platforms share. The error of a
forecast's logarithm is taken for a sum of parts; a part is the same on all platforms that agree in some of their traits
(:data:`PARTS`), so that errors on two platforms are correlated by the parts which both share. How much each part counts is
learned from networks held out (:data:`SHARED`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from latcast.graph.ir import Graph
from latcast.kernels.rules import unit_kind
from latcast.predictors.conditions import STEADY, Conditions
from latcast.predictors.joint import JointLatency, error_correlation, joint_of, latencies_ms
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Prediction
from latcast.records import Platform

DEGREES = 4
"""Degrees of freedom of Student's distribution, which the errors are taken to have."""

LEVEL_QUANTILE = 2.1318
"""Units of Student's distribution with :data:`DEGREES` that hold 90 % to either side."""

DRAWS = 20_000
"""Draws of the latencies on all platforms together."""


class Traits(NamedTuple):
    """Traits in which platforms agree or differ.

    Attributes:
        device: What the platform id calls it.
        kind: Of the unit: "cpu", "gpu", "npu"...
        unit: The unit without qualifiers: "cpu4", "2large".
        runtime: Its name, with the unit's qualifiers, which name backends.
        version: Of the runtime.
        precision: As in the platform id.
    """

    device: str
    kind: str
    unit: str
    runtime: str
    version: str
    precision: str

    @classmethod
    def of(cls, platform: Platform) -> Traits:
        """Return the traits of a platform.

        >>> Traits.of(Platform.parse("odroid/armnn-22.05/cpu+neon/int8"))
        Traits(device='odroid', kind='cpu', unit='cpu', runtime='armnn+neon', version='22.05', precision='int8')
        """
        unit, plus, qualifiers = platform.unit.partition("+")
        return cls(
            platform.device, unit_kind(platform.unit), unit, platform.runtime + plus + qualifiers, platform.runtime_version,
            platform.precision,
        )  # fmt: skip


_EXECUTION: Mapping[str, tuple[str, ...]] = {
    "precision": ("kind", "precision"),
    "runtime and precision": ("kind", "runtime", "precision"),
}
"""Part of an error to the traits that platforms with the same of it agree in."""

PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "network": (),
        **_EXECUTION,
        "device": ("device",),
        **{f"device, {name}": ("device", *traits) for name, traits in _EXECUTION.items()},
    }
)
"""The same with the device; what is left is a platform's own."""

OWN = "own"


def shared_parts(first: Sequence[Traits], second: Sequence[Traits]) -> np.ndarray:
    """Return whether two platforms share each part of an error, (parts, platforms), 0 or 1, for platforms side by side."""
    same = {
        name: np.array([getattr(a, name) == getattr(b, name) for a, b in zip(first, second, strict=True)], dtype=bool)
        for name in Traits._fields
    }
    everywhere = np.ones(len(first), dtype=bool)
    return np.array([np.all([everywhere, *(same[name] for name in traits)], axis=0) for traits in PARTS.values()], dtype=float)


@dataclass(frozen=True)
class SharedByPlatforms:
    """Correlations of the errors of one network's forecasts on several platforms.

    Attributes:
        share: Part of the variance by name of :data:`PARTS`; those of all parts and of :data:`OWN` add up to 1.
        widening: Factor on the deviations that the forecasts' intervals say.
    """

    share: Mapping[str, float]
    widening: float

    def correlation(self, first: Sequence[Traits], second: Sequence[Traits]) -> np.ndarray:
        """Return the correlations of platforms side by side, (platforms,); 1 of a platform and itself."""
        found = np.array([self.share.get(name, 0.0) for name in PARTS]) @ shared_parts(first, second)
        return np.where([a == b for a, b in zip(first, second, strict=True)], 1.0, found)

    def correlations(self, platforms: Sequence[Traits]) -> np.ndarray:
        """Return the correlations of all platforms, (platforms, platforms)."""
        count = len(platforms)
        rows, columns = np.divmod(np.arange(count * count), max(count, 1))
        return self.correlation([platforms[row] for row in rows], [platforms[column] for column in columns]).reshape(count, count)


SHARED = SharedByPlatforms(
    MappingProxyType(
        {
            "network": 0.603, "precision": 0.088, "runtime and precision": 0.047, "device": 0.088, "device, precision": 0.071,
            "device, runtime and precision": 0.043, OWN: 0.06,
        }
    ),
    1.28,
)  # fmt: skip
"""Learned by ``python -m benchmarks decisions`` from published platforms, on networks predicted without their lineages."""


@dataclass(frozen=True)
class JointPlatforms:
    """One network's latencies on several platforms.

    Attributes:
        predictions: One a platform.
        shared: How their errors are correlated.
    """

    predictions: tuple[Prediction, ...]
    shared: SharedByPlatforms = SHARED

    @cached_property
    def draws_ms(self) -> np.ndarray:
        """(platforms, draws) equally probable latencies, drawn together.

        Their errors have Student's distribution: the logarithm's deviation to either side is that of the prediction's interval.
        """
        traits = [Traits.of(Platform.parse(each.platform)) for each in self.predictions]
        different = list(dict.fromkeys(traits))  # platforms of the same traits have the same error to the last digit
        values, vectors = np.linalg.eigh(self.shared.correlations(different))
        rng = np.random.default_rng(0)
        # The symmetric root: of eigenvectors libraries differ in the sign, and draws would too.
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        normal = (root @ rng.standard_normal((len(different), DRAWS // 2)))[[different.index(each) for each in traits]]
        scale = self.shared.widening / LEVEL_QUANTILE * np.sqrt(DEGREES / rng.chisquare(DEGREES, DRAWS // 2))
        score = np.hstack([normal * scale, -normal * scale])
        return np.array([latencies_ms(each, row) for each, row in zip(self.predictions, score, strict=True)])

    def pair(self, a: int, b: int) -> JointLatency:
        """Return the latencies on two of the platforms, by their places."""
        return JointLatency(self.draws_ms[a], self.draws_ms[b])

    def slower_probability(self, a: int, b: int) -> float:
        """Return the probability that b, by its place, is slower than a; a half where they are equal."""
        return 1 - self.pair(a, b).faster_probability()

    def ratio(self, a: int, b: int) -> tuple[float, float]:
        """Return the interval of the latency of b over that of a."""
        low, high = self.pair(a, b).growth_percent()
        return 1 + low / 100, 1 + high / 100

    def fastest_probability(self) -> np.ndarray:
        """Return each platform's probability of being the fastest, (platforms,), adding up to 1."""
        fastest = self.draws_ms == self.draws_ms.min(axis=0)
        return np.asarray((fastest / fastest.sum(axis=0)).mean(axis=1))


class PlacedNetwork(NamedTuple):
    """A network on a platform, predicted by itself: in one product of matrices, equal rows may differ in the last digit."""

    graph: Graph
    predictor: PlatformPredictor
    prediction: Prediction

    @classmethod
    def predicted(
        cls, graph: Graph, predictor: PlatformPredictor, *, breakdown: bool = False, conditions: Conditions = STEADY
    ) -> PlacedNetwork:
        """Predict a network."""
        [found] = predictor.predict_many([graph], breakdown=breakdown, conditions=conditions)
        return cls(graph, predictor, found)


def joint_latency(a: PlacedNetwork, b: PlacedNetwork) -> JointLatency:
    """Join the latencies of two networks, on one platform or two; equal networks on one differ by exactly 0."""
    if a.predictor is b.predictor:
        return joint_of(a.prediction, b.prediction, float(error_correlation(a.predictor, [a.graph, b.graph])[0, 1]))
    return JointPlatforms((a.prediction, b.prediction)).pair(0, 1)
