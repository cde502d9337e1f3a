"""Which of two networks is faster on a platform, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import NormalDist
from typing import Any, overload

import numpy as np

from latcast.graph.ir import Graph
from latcast.predictors.forecast import On, is_one, load_all
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Prediction
from latcast.records import milliseconds
from latcast.spaces.models import Model, Shapes, as_graph

QUANTILES = 400
"""Of each network's latency, for the distribution of the difference."""


@dataclass(frozen=True)
class KernelDifference:
    """What the kernels of one type take in two networks.

    Attributes:
        kernel_type: Their type.
        a_count, b_count: How many there are.
        a_ms, b_ms: What they take together.
        difference_ms: ``b_ms - a_ms``.
    """

    kernel_type: str
    a_count: int
    b_count: int
    a_ms: float
    b_ms: float
    difference_ms: float


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two networks on one platform.

    The interval treats the errors of the two predictions as independent. Networks that share blocks err alike, so that theirs
    is wider than it need be; no platform's calibration states how much.

    Attributes:
        a, b: What the user called the networks.
        platform: Platform id.
        a_ms, b_ms: Predicted latencies.
        difference_ms: ``b_ms - a_ms``: below 0 where B is faster.
        low_ms, high_ms: Interval of the difference, of the level of the predictions'; None where the networks are identical.
        faster_probability: That B is faster than A, from 0 to 1; 0.5 where the networks are identical, None where nobody
            calibrated the platform's interval.
        level: Percent of differences that should lie in the interval; None where nobody calibrated it, or there is none.
        kernels: By kernel type, the largest difference first; what they do not add up to is overhead.
    """

    a: str
    b: str
    platform: str
    a_ms: float
    b_ms: float
    difference_ms: float
    low_ms: float | None
    high_ms: float | None
    faster_probability: float | None
    level: float | None
    kernels: tuple[KernelDifference, ...] = field(hash=False)

    def __repr__(self) -> str:
        text = f"<Comparison {self.b} - {self.a} on {self.platform}: {milliseconds(self.difference_ms)} ms"
        if self.low_ms is not None and self.high_ms is not None:
            kind = "uncalibrated" if self.level is None else f"{self.level:g} %"
            text += f", {kind} interval {milliseconds(self.low_ms)} to {milliseconds(self.high_ms)} ms"
        if self.faster_probability is not None:
            text += f", faster with probability {self.faster_probability:.2f}"
        return f"{text}>"

    def to_json(self) -> dict[str, Any]:
        """The JSON form that scripts rely on; the probability is from 0 to 1."""
        return {**asdict(self), "kernels": [asdict(each) for each in self.kernels]}


@overload
def compare(  # type: ignore[overload-overlap]  # a text is a sequence of texts too; the first form is meant
    a: Model,
    b: Model,
    on: On,
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    example_inputs: object = None,
) -> Comparison: ...


@overload
def compare(
    a: Model,
    b: Model,
    on: Sequence[On],
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    example_inputs: object = None,
) -> list[Comparison]: ...


def compare(
    a: Model,
    b: Model,
    on: On | Sequence[On],
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    example_inputs: object = None,
) -> Comparison | list[Comparison]:
    """Compares two networks on a platform.

    Args:
        a, b: As :func:`latcast.predict` takes them.
        on: A platform, or a list of them.
        shapes, strict, trust, example_inputs: As for :func:`latcast.predict`, the same for both networks.

    Returns:
        A comparison; a list of them, one a platform, where ``on`` is a list.

    Raises:
        ModelError: A model cannot be read, or cannot take inputs of these shapes.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> latcast.compare("resnet50", "mobilenet_v2", on="pixel4/tflite-2.10/gpu/fp16")  # doctest: +NORMALIZE_WHITESPACE
        <Comparison mobilenet_v2 - resnet50 on pixel4/tflite-2.10/gpu/fp16: -33.7 ms, 90 % interval -37.1 to -32.0 ms,
        faster with probability 1.00>
    """
    predictors = load_all(on)
    first, second = (
        as_graph(model, shapes=shapes, strict=strict, trust=trust, example_inputs=example_inputs) for model in (a, b)
    )
    found = [_compared(first, second, predictor) for predictor in predictors]
    return found[0] if is_one(on) else found


def _compared(a: Graph, b: Graph, predictor: PlatformPredictor) -> Comparison:
    of_a, of_b = predictor.predict_many([a, b], breakdown=True)
    names = (of_a.model, of_b.model, of_a.platform)
    kernels = tuple(sorted(_kernel_differences(of_a, of_b), key=lambda each: -abs(each.difference_ms)))
    if a.structure_key == b.structure_key:
        return Comparison(*names, of_a.latency_ms, of_b.latency_ms, 0.0, None, None, 0.5, None, kernels)
    low_ms, high_ms, probability = difference_of(of_a, of_b)
    level = of_a.level
    return Comparison(
        *names, of_a.latency_ms, of_b.latency_ms, of_b.latency_ms - of_a.latency_ms, low_ms, high_ms,
        None if level is None else probability, level, kernels,
    )  # fmt: skip


def difference_of(a: Prediction, b: Prediction) -> tuple[float, float, float]:
    """Interval of the difference b - a in milliseconds, and the probability that b is the smaller, errors independent.

    The logarithm of each latency is taken for normal on either side of the prediction, with the deviation of that side from the
    prediction's interval. The interval of the difference is of the predictions' level, of 90 % where they have none.
    """
    outside = (1 - (90.0 if a.level is None else a.level) / 100) / 2
    differences = np.subtract.outer(_quantiles_ms(b, outside), _quantiles_ms(a, outside)).ravel()
    low_ms, high_ms = np.quantile(differences, [outside, 1 - outside])
    return float(low_ms), float(high_ms), float((differences < 0).mean() + (differences == 0).mean() / 2)


def _quantiles_ms(found: Prediction, outside: float) -> np.ndarray:
    """Equally probable latencies, (QUANTILES,), of which the share ``outside`` lies beyond either bound."""
    if found.latency_ms <= 0:
        return np.zeros(QUANTILES)
    normal = NormalDist()
    score = np.array([normal.inv_cdf((index + 0.5) / QUANTILES) for index in range(QUANTILES)]) / normal.inv_cdf(1 - outside)
    low, high = np.log(found.low_ms / found.latency_ms), np.log(found.high_ms / found.latency_ms)
    return found.latency_ms * np.exp(np.where(score < 0, -score * low, score * high))


def _kernel_differences(a: Prediction, b: Prediction) -> Iterator[KernelDifference]:
    of_a, of_b = a.by_type(), b.by_type()
    for name in dict.fromkeys([*of_a, *of_b]):
        a_count, b_count = (sum(kernel.kernel_type == name for kernel in found.kernels) for found in (a, b))
        a_ms, b_ms = of_a.get(name, 0.0), of_b.get(name, 0.0)
        yield KernelDifference(name, a_count, b_count, a_ms, b_ms, b_ms - a_ms)
