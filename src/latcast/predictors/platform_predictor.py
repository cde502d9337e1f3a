"""The predictor of one platform: graphs in, latencies with intervals and reasons out, one network or a million alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latcast.graph.ir import Graph
from latcast.graph.operators.table import unknown_operators
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.predictors.card import card_warnings
from latcast.predictors.intervals import Interval
from latcast.predictors.kernel_predictor import KernelPredictor
from latcast.predictors.network_model import NetworkModel
from latcast.predictors.physical import PhysicalTerms
from latcast.records import Coverage, KernelLatency, Platform, Prediction

OUTSIDE_WARNING_SHARE = 0.05
"""A network is warned about when more than this share of its latency comes from kernels outside the training range."""


@dataclass(frozen=True)
class Priced:
    """Kernels of many networks with their prices.

    Attributes:
        table: The kernels.
        kernel_ms, covered, outside: By distinct kernel: latency inside a long network; whether a predictor knows it; whether
            it is outside the training range.
        company_factor, latency_ms, covered_share, outside_share: By network: what its kernels' latencies and its overhead
            are multiplied by; what they add up to then; and the parts of it from such kernels.
    """

    table: KernelTable
    kernel_ms: np.ndarray
    covered: np.ndarray
    outside: np.ndarray
    company_factor: np.ndarray
    latency_ms: np.ndarray
    covered_share: np.ndarray
    outside_share: np.ndarray


@dataclass(frozen=True)
class PlatformPredictor:
    """Everything that was learned about a platform.

    Attributes:
        platform: What it predicts for.
        rules: Fusion rules of the runtime.
        physical: Physical terms; also the stated fallback for kernels without a predictor.
        kernels: Kernel type to its predictor.
        network: Overhead, and what running in company changes.
        interval: Calibrated 90 % interval.
        card: What it was trained on and how well it does; see :mod:`latcast.predictors.bundle`.
    """

    platform: Platform
    rules: FusionRules
    physical: PhysicalTerms
    kernels: Mapping[str, KernelPredictor]
    network: NetworkModel = field(default_factory=NetworkModel)
    interval: Interval = field(default_factory=Interval)
    card: Mapping[str, Any] = field(default_factory=dict)

    def raw_kernel_latency_ms(self, configurations: Mapping[str, np.ndarray]) -> np.ndarray:
        """Latency of distinct kernels by themselves, types one after another."""
        parts = []
        for name, rows in configurations.items():
            predictor = self.kernels.get(name)
            if predictor is None:
                parts.append(self.physical.latency_ms(kernel_type(name), rows))
            else:
                parts.append(predictor.latency_ms(self.physical, rows))
        return np.concatenate(parts) if parts else np.zeros(0)

    def price(self, networks: Sequence[Sequence[Kernel]]) -> Priced:
        """Prices the kernels of many networks at once: each distinct kernel once."""
        return self.price_table(KernelTable.of(networks))

    def price_table(self, table: KernelTable) -> Priced:
        """Prices a table, for whoever has configurations without graphs (the encodings of a search space)."""
        raw = self.raw_kernel_latency_ms(table.configurations)
        types = table.kernel_types
        kernel_ms = self.network.kernel_latency_ms(types, raw) if len(raw) else raw
        covered, outside = [], []
        for name, rows in table.configurations.items():
            predictor = self.kernels.get(name)
            known = predictor is not None and name != "other"
            covered.append(np.full(len(rows), known))
            outside.append(predictor.outside(rows) if predictor is not None and known else np.ones(len(rows), dtype=bool))
        is_covered = np.concatenate(covered) if covered else np.zeros(0, dtype=bool)
        is_outside = np.concatenate(outside) if outside else np.zeros(0, dtype=bool)
        sums = table.sum_by_network(np.stack([kernel_ms, kernel_ms * is_covered, kernel_ms * is_outside], axis=1))
        total = sums[:, 0] + self.network.constant_ms
        # A network of views alone costs nothing, all of it by rule.
        priceless = total <= 0
        whole = np.where(priceless, 1.0, total)
        covered_share = np.where(priceless, 1.0, (sums[:, 1] + self.network.constant_ms) / whole)
        factor = self.network.company_factor(sums[:, 0])
        return Priced(table, kernel_ms, is_covered, is_outside, factor, factor * total, covered_share, sums[:, 2] / whole)

    def bounds_ms(self, priced: Priced) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of priced networks, each (networks,)."""
        return self.interval.bounds_ms(priced.latency_ms, priced.outside_share)

    def latencies_ms(self, graphs: Iterable[Graph]) -> np.ndarray:
        """Point predictions alone, (networks,)."""
        return self.price([find_kernels(graph, self.rules) for graph in graphs]).latency_ms

    def predict(self, graph: Graph, *, breakdown: bool = True) -> Prediction:
        """Latency of one network."""
        return self.predict_many([graph], breakdown=breakdown)[0]

    def predict_many(self, graphs: Iterable[Graph], *, breakdown: bool = False) -> list[Prediction]:
        """Latency of many networks; kernels they share are priced once.

        Args:
            graphs: Networks with static shapes.
            breakdown: Whether to list each network's kernels.
        """
        listed = list(graphs)
        kernels = [find_kernels(graph, self.rules) for graph in listed]
        priced = self.price(kernels)
        low, high = self.bounds_ms(priced)
        price_of = self._prices_by_key(priced)
        predictions = []
        for index, graph in enumerate(listed):
            factor = float(priced.company_factor[index])
            predictions.append(
                Prediction(
                    model=graph.name,
                    platform=self.platform.id,
                    latency_ms=float(priced.latency_ms[index]),
                    low_ms=float(low[index]),
                    high_ms=float(high[index]),
                    coverage=self._coverage(graph, kernels[index], float(priced.covered_share[index])),
                    warnings=self._warnings(graph, kernels[index], float(priced.outside_share[index]), price_of),
                    kernels=self._breakdown(kernels[index], price_of, factor) if breakdown else (),
                    overhead_ms=factor * self.network.constant_ms,
                )
            )
        return predictions

    def _prices_by_key(self, priced: Priced) -> dict[tuple[str, tuple[int, ...]], tuple[float, bool, bool]]:
        prices = {}
        place = 0
        for name, rows in priced.table.configurations.items():
            for row in rows.tolist():
                prices[(name, tuple(row))] = (
                    float(priced.kernel_ms[place]), bool(priced.covered[place]), bool(priced.outside[place]),
                )  # fmt: skip
                place += 1
        return prices

    def _coverage(self, graph: Graph, kernels: Sequence[Kernel], share: float) -> Coverage:
        names = {
            operator
            for kernel in kernels
            if not kernel.free and (kernel.kernel_type not in self.kernels or kernel.kernel_type == "other")
            for operator in kernel.operators
        }
        return Coverage(share, tuple(sorted(names | set(unknown_operators(graph)))))

    def _warnings(
        self, graph: Graph, kernels: Sequence[Kernel], outside_share: float,
        prices: Mapping[tuple[str, tuple[int, ...]], tuple[float, bool, bool]],
    ) -> tuple[str, ...]:  # fmt: skip
        found = []
        if graph.precision != self.platform.precision and graph.precision == "int8":
            found.append(f"the file is quantised to int8, the platform runs {self.platform.precision}")
        if outside_share > OUTSIDE_WARNING_SHARE:
            worst = max(
                (kernel for kernel in kernels if not kernel.free and prices[kernel.key][2]),
                key=lambda kernel: prices[kernel.key][0],
            )
            reason = self._range_reason(worst)
            found.append(
                f"{100 * outside_share:.0f} % of the latency comes from kernels outside the training range; "
                f"the largest is {worst.name}: {reason}"
            )
        found.extend(card_warnings(self.card))
        return tuple(found)

    def _range_reason(self, kernel: Kernel) -> str:
        predictor = self.kernels.get(kernel.kernel_type)
        if predictor is None or kernel.kernel_type == "other":
            return f"no predictor for {kernel.kernel_type}, priced by pooled throughput"
        kind = kernel_type(kernel.kernel_type)
        parts = [
            f"{name} {value} (trained on {low} to {high})"
            for name, value, low, high in zip(
                kind.fields, kernel.configuration, predictor.low.tolist(), predictor.high.tolist(), strict=True
            )
            if not low <= value <= high
        ]
        return f"{kernel.kernel_type} with " + ", ".join(parts)

    def _breakdown(
        self, kernels: Sequence[Kernel], prices: Mapping[tuple[str, tuple[int, ...]], tuple[float, bool, bool]], factor: float
    ) -> tuple[KernelLatency, ...]:
        listed = []
        for kernel in kernels:
            latency_ms, covered, _ = (0.0, True, False) if kernel.free else prices[kernel.key]
            fields = kernel_type(kernel.kernel_type).fields
            listed.append(
                KernelLatency(
                    kernel.name, kernel.kernel_type, kernel.operators,
                    dict(zip(fields, kernel.configuration, strict=True)), factor * latency_ms, covered,
                )
            )  # fmt: skip
        return tuple(listed)

    def with_card(self, card: Mapping[str, Any]) -> PlatformPredictor:
        return replace(self, card=dict(card))
