"""Costs that an app adds to the latency of a benchmark, which times a warmed-up network on the same inputs again and again.

The costs of ``app_costs.json`` were timed once in each runtime of one machine (``python -m benchmarks app``): they say what is
worth a look, not what a certain app loses. Of phones and other units none was timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from latcast.errors import LatcastError
from latcast.graph.ir import Graph
from latcast.graph.operators import node_macs
from latcast.predictors.prediction import Prediction
from latcast.reading import read_json
from latcast.records import Platform, Unit

SHIPPED = Path(__file__).with_name("app_costs.json")

NUMPY = "numpy"
"""Key of the costs of preparing images, which are the same for all runtimes."""

IMAGE_CHANNELS = (1, 3, 4)
"""Channels of an input that an app converts from an image."""


@dataclass(frozen=True)
class Cost:
    """A timed cost: the median over networks or sizes, with the range of the middle 80 %."""

    value: float
    low: float
    high: float

    def times(self, factor: float, less: float = 0.0) -> tuple[float, float, float]:
        return tuple(max(factor * each - less, 0.0) for each in (self.value, self.low, self.high))  # type: ignore[return-value]


@dataclass(frozen=True)
class AppPart:
    """A part of an app's loop.

    Attributes:
        name: What the app does.
        advice: What avoids it.
        added_ms, low_ms, high_ms: What it adds to each inference, with the range of what was timed; None where it was not timed
            on such a platform.
    """

    name: str
    advice: str
    added_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on."""
        return asdict(self)


@cache
def _shipped() -> Mapping[str, Any]:
    return dict(read_json(SHIPPED, error=LatcastError))


def app_parts(graph: Graph, found: Prediction) -> tuple[str, list[AppPart]]:
    """Return on what the costs of a network's app rest, and the parts of its loop.

    Args:
        graph: The network.
        found: Its prediction, with kernels.
    """
    platform = Platform.parse(found.platform)
    unit = Unit.parse(platform.unit)
    known = _shipped().get(platform.runtime.partition("-")[0]) if platform.device == "local" and unit.kind == "cpu" else None
    timed = {} if known is None else {**known["costs"], **_shipped()[NUMPY]["costs"]}
    costs = {name: Cost(**cost) for name, cost in timed.items()}
    basis = (
        f"not timed on {platform} or its kind; what the same costs on a server's CPU: docs/app.md"
        if known is None
        else f"timed on {known['machine']}"
    )
    return basis, [AppPart(name, advice, *(added or ())) for name, advice, added in _parts(graph, found, costs, unit.threads)]


def _parts(
    graph: Graph, found: Prediction, costs: Mapping[str, Cost], threads: int
) -> Iterator[tuple[str, str, tuple[float, float, float] | None]]:
    """Give each part's name, advice and cost in milliseconds; None for a cost that is not known."""
    latency_ms = found.latency_ms

    def priced(what: str, megabytes: float) -> tuple[float, float, float] | None:
        return costs[what].times(megabytes) if what in costs else None

    def longer(what: str) -> tuple[float, float, float] | None:
        return costs[what].times(latency_ms, latency_ms) if what in costs else None

    images = [tensor for name in graph.inputs if len((tensor := graph.tensors[name]).shape) == 4]
    pixels_mb = (
        sum(tensor.elements for tensor in images if not {tensor.shape[1], tensor.shape[3]}.isdisjoint(IMAGE_CHANNELS)) * 4e-6
    )
    if pixels_mb:
        yield (
            "make floats of an image's bytes",
            "do it in the network, or feed bytes to a quantised one",
            priced("image_ms_per_mb", pixels_mb),
        )
    inputs_mb, outputs_mb = (
        sum(graph.tensors[name].size_bytes for name in names) / 1e6 for names in (graph.inputs, graph.outputs)
    )
    yield (
        f"copy {inputs_mb:.2g} MB of inputs in",
        "write them where the runtime reads them (bound or shared tensors)",
        priced("input_ms_per_mb", inputs_mb),
    )
    yield (
        f"copy {outputs_mb:.2g} MB of outputs out",
        "bind outputs once; reduce them (top-k, argmax) in the network",
        priced("output_ms_per_mb", outputs_mb),
    )
    for pause, text in (("33ms", "wait 33 ms for the next frame"), ("1000ms", "wait a second for the next question")):
        advice = (
            "run on a few cores; measure with the same pause" if threads == 1 else "let threads spin between runs, or use one"
        )
        yield text, advice, longer(f"pause_{pause}_threads{threads}")
    yield "leave sizes of the input open", "export fixed sizes", longer("open_sizes")
    yield "another size in every run", "pad or resize to a few sizes, a session each", longer("changed_size")
    yield from _surroundings(graph, found)


def _surroundings(graph: Graph, found: Prediction) -> Iterator[tuple[str, str, tuple[float, float, float]]]:
    """Give what comes before the first and after the last kernel that multiplies, which the latency has already."""
    multiplying = {node.name for node in graph.nodes if node_macs(graph, node)}
    places = [place for place, kernel in enumerate(found.kernels) if not multiplying.isdisjoint(kernel.nodes)]
    if places:
        for name, kernels in (
            ("before the first layer", found.kernels[: places[0]]),
            ("after the last layer", found.kernels[places[-1] + 1 :]),
        ):
            spent_ms = sum(kernel.latency_ms for kernel in kernels)
            if spent_ms:
                advice = f"in the latency already: {spent_ms:.2g} ms; leave it out where the app does it faster"
                yield f"{len(kernels)} kernels {name}", advice, (0.0, 0.0, 0.0)
