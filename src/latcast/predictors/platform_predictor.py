"""The predictor of one platform: graphs in, latencies with intervals and reasons out, one network or a million alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from latcast.graph.ir import Graph
from latcast.graph.operators.table import unknown_operators
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import AnalyticalTerms
from latcast.predictors.card import card_warnings
from latcast.predictors.intervals import Interval
from latcast.predictors.kernel_predictor import FAR, Familiarity, KernelPredictor
from latcast.predictors.network_model import NetworkModel
from latcast.predictors.prediction import Coverage, KernelLatency, Prediction
from latcast.predictors.throughput import ClassThroughput, throughputs
from latcast.records import Platform
from latcast.spaces.models import Model, Shapes, as_graph, as_graphs

OUTSIDE_WARNING_SHARE = 0.05
"""A network is warned about when more than this share of its latency comes from kernels outside the training range."""

ESTIMATED_WARNING_SHARE = 0.01
"""The same for kernels that are estimated, or of which it is unknown whether they are."""

MOST_REASONS, LEAST_REASON_SHARE = 3, 0.005
"""Kinds of kernels that a warning names, and the share of the latency below which none but the first is."""


@dataclass(frozen=True)
class Priced:
    """Kernels of many networks with their prices.

    Attributes:
        table: The kernels.
        kernel_ms, covered, unknown, outside: By distinct kernel: latency inside a long network; and how it lies to the kernels
            trained on (:class:`latcast.predictors.kernel_predictor.Familiarity`).
        short_network_factor, latency_ms, covered_share, outside_share: By network: what its kernels' latencies and its overhead
            are multiplied by; what they add up to then; and the parts of it from such kernels.
    """

    table: KernelTable
    kernel_ms: np.ndarray
    covered: np.ndarray
    unknown: np.ndarray
    outside: np.ndarray
    short_network_factor: np.ndarray
    latency_ms: np.ndarray
    covered_share: np.ndarray
    outside_share: np.ndarray


class _Price(NamedTuple):
    """One distinct kernel of :class:`Priced`."""

    latency_ms: float
    covered: bool
    unknown: bool
    outside: bool

    @property
    def estimated(self) -> bool:
        return not self.covered and not self.unknown


_FREE = _Price(0.0, True, False, False)

_Prices = Mapping[tuple[str, tuple[int, ...]], _Price]


@dataclass(frozen=True, repr=False)
class PlatformPredictor:
    """Everything that was learned about a platform: what :func:`latcast.load` gives.

    Example:
        >>> import latcast
        >>> phone = latcast.load("pixel4/tflite-2.10/gpu/fp16")
        >>> phone
        <PlatformPredictor pixel4/tflite-2.10/gpu/fp16>
        >>> phone.predict("mobilenet_v2").latency_ms < phone.predict("resnet50").latency_ms
        True
        >>> phone.throughputs[0].kernel_class
        'any'

    Attributes:
        platform: What it predicts for.
        rules: Fusion rules of the runtime.
        analytical: Analytical terms; kernels without a predictor are estimated by them.
        kernels: Kernel type to its predictor.
        network: Overhead, and what running in company changes.
        interval: Of 90 %, calibrated; a wide one of no known level where nobody calibrated it.
        card: What it was trained on and how well it does; see :mod:`latcast.predictors.bundle`.
    """

    platform: Platform
    rules: FusionRules
    analytical: AnalyticalTerms
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
                parts.append(self.analytical.latency_ms(kernel_type(name), rows))
            else:
                parts.append(predictor.latency_ms(self.analytical, rows))
        return np.concatenate(parts) if parts else np.zeros(0)

    def price(self, networks: Sequence[Sequence[Kernel]]) -> Priced:
        """Prices the kernels of many networks at once: each distinct kernel once."""
        return self.price_table(KernelTable.of(networks))

    def price_table(self, table: KernelTable) -> Priced:
        """Prices a table, for whoever has configurations without graphs (the encodings of a search space)."""
        raw = self.raw_kernel_latency_ms(table.configurations)
        types = table.kernel_types
        kernel_ms = self.network.kernel_latency_ms(types, raw) if len(raw) else raw
        found = [self._familiarity(name, rows) for name, rows in table.configurations.items()]
        nothing = np.zeros(0, dtype=bool)
        covered, unknown, outside = (
            np.concatenate([nothing, *(getattr(each, name) for each in found)]) for name in ("covered", "unknown", "outside")
        )
        sums = table.sum_by_network(np.stack([kernel_ms, kernel_ms * covered, kernel_ms * outside], axis=1))
        total = sums[:, 0] + self.network.constant_ms
        # A network of views alone costs nothing, all of it by rule.
        priceless = total <= 0
        whole = np.where(priceless, 1.0, total)
        covered_share = np.where(priceless, 1.0, (sums[:, 1] + self.network.constant_ms) / whole)
        factor = self.network.short_network_factor(sums[:, 0])
        return Priced(
            table, kernel_ms, covered, unknown, outside, factor, factor * total, covered_share, sums[:, 2] / whole
        )  # fmt: skip

    def _familiarity(self, name: str, configurations: np.ndarray) -> Familiarity:
        predictor = self._predictor_of(name)
        if predictor is not None:
            return predictor.familiarity(configurations)
        some = np.ones(len(configurations), dtype=bool)
        return Familiarity(outside=some, covered=~some, unknown=~some)

    def _predictor_of(self, name: str) -> KernelPredictor | None:
        """The predictor of a type; none for ``other``, whose kernels have nothing in common."""
        return None if name == "other" else self.kernels.get(name)

    def bounds_ms(self, priced: Priced) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of priced networks, each (networks,)."""
        return self.interval.bounds_ms(priced.latency_ms, priced.outside_share)

    def latencies_ms(self, graphs: Iterable[Graph]) -> np.ndarray:
        """Point predictions alone, (networks,)."""
        return self.price([find_kernels(graph, self.rules) for graph in graphs]).latency_ms

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.platform}>"

    @property
    def throughputs(self) -> tuple[ClassThroughput, ...]:
        """What the device does well: what it achieves by class of kernel, all kernels together first."""
        return tuple(throughputs(self.analytical, self.platform.precision))

    def predict(
        self,
        model: Model,
        *,
        shapes: Shapes | None = None,
        strict: bool = False,
        trust: bool = False,
        breakdown: bool = True,
        example_inputs: object = None,
    ) -> Prediction:
        """Latency of one network; the arguments are those of :func:`latcast.predict`."""
        graph = as_graph(model, shapes=shapes, strict=strict, trust=trust, example_inputs=example_inputs)
        return self.predict_many([graph], breakdown=breakdown)[0]

    def predict_many(
        self,
        models: Iterable[Model],
        *,
        shapes: Shapes | None = None,
        strict: bool = False,
        trust: bool = False,
        breakdown: bool = False,
        example_inputs: object = None,
    ) -> list[Prediction]:
        """Latency of many networks; kernels they share are priced once. The arguments are those of :func:`latcast.predict_many`.

        Raises:
            ModelError: A model cannot be read; or the models are not a list.
        """
        listed = as_graphs(models, shapes=shapes, strict=strict, trust=trust, example_inputs=example_inputs)
        kernels = [find_kernels(graph, self.rules) for graph in listed]
        priced = self.price(kernels)
        low, high = self.bounds_ms(priced)
        price_of = self._prices_by_key(priced)
        predictions = []
        for index, graph in enumerate(listed):
            factor = float(priced.short_network_factor[index])
            predictions.append(
                Prediction(
                    model=graph.name,
                    platform=self.platform.id,
                    latency_ms=float(priced.latency_ms[index]),
                    low_ms=float(low[index]),
                    high_ms=float(high[index]),
                    coverage=_coverage(graph, kernels[index], float(priced.covered_share[index]), price_of),
                    warnings=self._warnings(graph, kernels[index], price_of),
                    kernels=self._breakdown(kernels[index], price_of, factor) if breakdown else (),
                    overhead_ms=factor * self.network.constant_ms,
                    level=self.interval.level,
                )
            )
        return predictions

    def _prices_by_key(self, priced: Priced) -> _Prices:
        columns = (priced.kernel_ms, priced.covered, priced.unknown, priced.outside)
        keys = ((name, tuple(row)) for name, rows in priced.table.configurations.items() for row in rows.tolist())
        return {key: _Price(*values) for key, *values in zip(keys, *(column.tolist() for column in columns), strict=True)}

    def _warnings(self, graph: Graph, kernels: Sequence[Kernel], prices: _Prices) -> tuple[str, ...]:
        found = []
        if graph.precision != self.platform.precision and graph.precision == "int8":
            found.append(f"the file is quantised to int8, the platform runs {self.platform.precision}")
        busy = [(kernel, prices[kernel.key]) for kernel in kernels if not kernel.free]
        whole_ms = sum(price.latency_ms for _, price in busy) + self.network.constant_ms or 1.0
        within = f"of the latency is outside the training range, by no more than a factor of {FAR:g}"
        for least, text, chosen in (
            (ESTIMATED_WARNING_SHARE, "of the latency is estimated, not trained on the like", [p.estimated for _, p in busy]),
            (ESTIMATED_WARNING_SHARE, "of the latency is perhaps not trained on the like", [p.unknown for _, p in busy]),
            (OUTSIDE_WARNING_SHARE, within, [p.covered and p.outside for _, p in busy]),
        ):
            shares = [(kernel, price.latency_ms / whole_ms) for kernel, price in compress(busy, chosen)]
            share = sum(part for _, part in shares)
            if share > least:
                found.append(f"{100 * share:.0f} % {text}: {self._reasons(shares)}")
        found.extend(card_warnings(self.card))
        return tuple(found)

    def _reasons(self, kernels: Sequence[tuple[Kernel, float]]) -> str:
        """Types of kernels by their share of the latency, each with what is strange about the largest."""
        by_type: dict[str, list[tuple[Kernel, float]]] = {}
        for kernel, share in kernels:
            by_type.setdefault(_called(kernel), []).append((kernel, share))
        shares = {name: sum(share for _, share in listed) for name, listed in by_type.items()}
        names = sorted(shares, key=lambda name: (-shares[name], name))
        shown = [name for name in names[:MOST_REASONS] if name == names[0] or shares[name] >= LEAST_REASON_SHARE]
        said = []
        for name in shown:
            kernel = max(by_type[name], key=lambda pair: pair[1])[0]
            predictor = self._predictor_of(kernel.kernel_type)
            reason = "no predictor" if predictor is None else predictor.reason(kernel.configuration)
            said.append(f"{name} {100 * shares[name]:.0f} % ({reason})")
        return ", ".join(said) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")

    def _breakdown(self, kernels: Sequence[Kernel], prices: _Prices, factor: float) -> tuple[KernelLatency, ...]:
        listed = []
        for kernel in kernels:
            price = _FREE if kernel.free else prices[kernel.key]
            fields = kernel_type(kernel.kernel_type).fields
            listed.append(
                KernelLatency(
                    kernel.name, kernel.kernel_type, kernel.operators,
                    dict(zip(fields, kernel.configuration, strict=True)), factor * price.latency_ms, price.covered, price.unknown,
                )
            )  # fmt: skip
        return tuple(listed)

    def with_card(self, card: Mapping[str, Any]) -> PlatformPredictor:
        return replace(self, card=dict(card))


def _called(kernel: Kernel) -> str:
    """What a warning calls a kernel: its type, or its operators where it has none."""
    return "+".join(kernel.operators) if kernel.kernel_type == "other" else kernel.kernel_type


def _coverage(graph: Graph, kernels: Sequence[Kernel], share: float, prices: _Prices) -> Coverage:
    busy = [kernel for kernel in kernels if not kernel.free]
    estimated = {name for kernel in busy if prices[kernel.key].estimated for name in kernel.operators}
    unknown = {name for kernel in busy if prices[kernel.key].unknown for name in kernel.operators}
    return Coverage(share, tuple(sorted(estimated | set(unknown_operators(graph)))), tuple(sorted(unknown)))
