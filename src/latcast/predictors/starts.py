"""The start of a network on a platform: loading it (read, optimise, compile, allocate), and the first inference.

Each is a sum over what decides it (:func:`features_of`), times 90 % bounds that networks held out calibrated. A bundle that
``latcast profile`` trained has its own :class:`StartModel`; ``starts.json`` has those learned from published runs. On phones only
the first inference is known: ``latency`` and ``latency_per_mmac`` scale with the phone, so that a first run takes as much longer
as some million multiply-accumulates do there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latcast.errors import BundleError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.kernels.kernel import Kernel
from latcast.kernels.memory import elements_3x3, memory_of
from latcast.kernels.rules import FusionRules
from latcast.predictors.conditions import Start
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Prediction
from latcast.reading import read_json
from latcast.records import WEIGHT_BYTES, Platform, Unit

if TYPE_CHECKING:
    from latcast.spaces.named_kernels import NamedKernels

SHIPPED = Path(__file__).with_name("starts.json")
"""Models of platforms whose bundles have none, by runtime, unit and precision."""

LOAD_TERMS = ("constant", "nodes", "distinct", "weights_mb", "weights_3x3_mb", "activations_mb")
"""Terms of loading: a network, an operator of the file, a kernel of a new shape, a megabyte, one of weights that a
runtime may transform for 3x3 windows (Winograd)."""

MACHINE_FIRST_TERMS = ("constant", "kernels", "activations_mb")
"""What a first inference on a profiled machine takes beside the steady latency."""

FIRST_TERMS = (*MACHINE_FIRST_TERMS, "latency", "latency_per_mmac")
"""What a first inference depends on; ``latency`` is that of the steady one. The last is of phones alone."""

LEAST_MMACS = 37.0
"""Millions of multiply-accumulates of the smallest network that the phones ran: a smaller one counts as this large."""

LEAST_FACTOR = 1e-3
"""Least lower bound as a factor, where a steady latency may be next to nothing."""


def features_of(graph: Graph, kernels: Sequence[Kernel], rules: FusionRules, precision: str) -> dict[str, float]:
    """Return what decides a start, but for the latency, in the units of the terms' names."""
    keys, memory = [kernel.key for kernel in kernels if not kernel.free], memory_of(graph, rules, precision, kernels)
    sizes = (memory.weights_bytes, elements_3x3(graph), memory.peak_activations_bytes, graph_macs(graph))
    return _features(precision, len(keys), len(set(keys)), len(graph.nodes), *sizes)


def features_of_named(found: NamedKernels, precision: str) -> list[dict[str, float]]:
    """Return :func:`features_of` each named network, from their table."""
    import numpy as np

    table, distinct, graphs = found.table, len(found.table.kernel_types), found.graphs
    pairs = np.unique(table.network * distinct + table.kernel)
    counts = [np.bincount(rows, minlength=table.networks) for rows in (table.network, pairs // distinct)]
    weights_bytes = graphs["weights"] * WEIGHT_BYTES.get(precision, 4) + graphs["other_bytes"]
    sizes = (weights_bytes, graphs["weights_3x3"], found.activations_bytes(precision), graphs["macs"])
    return [_features(precision, *row) for row in np.stack([*counts, graphs["nodes"], *sizes], axis=1).tolist()]


def _features(
    precision: str,
    kernels: float,
    distinct: float,
    nodes: float,
    weights_bytes: float,
    weights_3x3: float,
    activations_bytes: float,
    macs: float,
) -> dict[str, float]:
    return {
        "constant": 1.0, "kernels": float(kernels), "distinct": float(distinct), "nodes": float(nodes),
        "weights_mb": weights_bytes / 1e6, "weights_3x3_mb": weights_3x3 * WEIGHT_BYTES.get(precision, 4) / 1e6,
        "activations_mb": activations_bytes / 1e6, "mmacs": macs / 1e6,
    }  # fmt: skip


@dataclass(frozen=True)
class StartLaw:
    """One part of a start.

    Attributes:
        terms_ms: Milliseconds by term; those of the latency are factors.
        low, high: The 90 % interval, as factors.
    """

    terms_ms: Mapping[str, float]
    low: float
    high: float

    @classmethod
    def from_json(cls, data: Mapping[str, Any], known: Sequence[str]) -> StartLaw:
        """Read a part; raise a ValueError for terms that are unknown, negative or not finite, or bounds on one side."""
        terms = {str(name): float(value) for name, value in data["terms_ms"].items()}
        low, high = float(data["low"]), float(data["high"])
        if not set(terms) <= set(known) or set(data) != {"terms_ms", "low", "high"}:
            raise ValueError(f"found the terms {', '.join(terms)} of a start, expected some of {', '.join(known)}")
        if not all(math.isfinite(value) and value >= 0 for value in terms.values()) or not 0 < low <= 1 <= high < math.inf:
            raise ValueError(f"found {terms} with bounds {low:g} and {high:g}, expected numbers from 0 on and bounds around 1")
        return cls(terms, low, high)

    def latency_ms(self, features: Mapping[str, float]) -> float:
        return sum(value * features[name] for name, value in self.terms_ms.items())


@dataclass(frozen=True)
class StartModel:
    """The starts of a platform: models of loading and of the first inference.

    Attributes:
        load: None where it was not measured there.
        first: The first inference.
        basis: What it was learned from, for people.
    """

    load: StartLaw | None
    first: StartLaw
    basis: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StartModel:
        """Read the output of :meth:`to_json`; raise a KeyError, TypeError or ValueError for another form."""
        load = None if data["load"] is None else StartLaw.from_json(data["load"], LOAD_TERMS)
        return cls(load, StartLaw.from_json(data["first"], FIRST_TERMS), str(data["basis"]))

    def start(self, features: Mapping[str, float], found: Prediction) -> Start:
        """Return the start of a network whose steady latency is predicted."""
        per_mmac = found.latency_ms / max(features["mmacs"], LEAST_MMACS)
        given = {**features, "latency": found.latency_ms, "latency_per_mmac": per_mmac}
        first_ms = self.first.latency_ms(given)
        # What the steady latency may be off by counts as far as the first one rests on it.
        at_none = self.first.latency_ms({**given, "latency": 0.0, "latency_per_mmac": 0.0})
        share = 1 - at_none / first_ms if first_ms > 0 else 0.0
        whole_ms = found.latency_ms or 1.0
        low, high = (
            math.exp(sign * math.hypot(math.log(own), math.log(max(1 + share * (bound_ms / whole_ms - 1), LEAST_FACTOR))))
            for sign, own, bound_ms in ((-1, self.first.low, found.low_ms), (1, self.first.high, found.high_ms))
        )
        basis = self.basis if self.load is not None else f"{self.basis}; loading was not timed"
        start = Start(basis, first_ms=first_ms, first_low_ms=first_ms * low, first_high_ms=first_ms * high)
        if self.load is None:
            return start
        load_ms = self.load.latency_ms(given)
        return replace(start, load_ms=load_ms, load_low_ms=load_ms * self.load.low, load_high_ms=load_ms * self.load.high)


@cache
def _shipped() -> tuple[tuple[Mapping[str, Any], StartModel], ...]:
    document = read_json(SHIPPED, error=BundleError)
    return tuple((entry["platform"], StartModel.from_json(entry["model"])) for entry in document["models"])


def start_model_of(platform: Platform, own: StartModel | None = None) -> StartModel | None:
    """Return the model of a platform: its bundle's own, else the one shipped for its kind; None where neither is."""
    unit = Unit.parse(platform.unit)
    kind = {"runtime": platform.runtime, "unit": unit.kind, "threads": unit.threads, "precision": platform.precision}
    return own or next((model for described, model in _shipped() if described == kind), None)


def with_starts(
    predictor: PlatformPredictor, predictions: Sequence[Prediction], features: Callable[[], Iterable[Mapping[str, float]]]
) -> list[Prediction]:
    """Return the predictions with the start of each; without numbers and with a reason where none is known.

    Args:
        features: Returns what decides each start, as :func:`features_of` does; called where there is a model of starts.
    """
    platform = predictor.platform
    model = start_model_of(platform, predictor.start)
    if model is None:
        mend = f"; measure them: latcast profile --runtime {platform.runtime}" if platform.device == "local" else ""
        return [replace(found, start=Start(f"no starts were measured on {platform} or its kind{mend}")) for found in predictions]
    return [replace(found, start=model.start(each, found)) for each, found in zip(features(), predictions, strict=True)]
