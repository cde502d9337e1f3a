"""Which of two networks is faster on a platform, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

from latcast.graph.ir import Graph
from latcast.predictors.forecast import On, is_one, load_all
from latcast.predictors.joint import joint_latency
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Prediction
from latcast.records import milliseconds
from latcast.spaces.models import Model, Shapes, as_graph


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

    The errors of like networks are correlated (:mod:`latcast.predictors.joint`): the more the kernels of both are the same, the
    narrower is the interval of the difference.

    Attributes:
        a, b: What the user called the networks.
        platform: Platform id.
        a_ms, b_ms: Predicted latencies.
        difference_ms: ``b_ms - a_ms``: below 0 where B is faster.
        low_ms, high_ms: Interval of the difference, of the level of the predictions'; both 0 where the networks are identical.
        faster_probability: That B is faster than A, from 0 to 1; 0.5 where the networks are identical, None where nobody
            calibrated the platform's interval.
        level: Percent of differences that should lie in the interval; None where nobody calibrated it.
        kernels: By kernel type, the largest difference first; what they do not add up to is overhead.
    """

    a: str
    b: str
    platform: str
    a_ms: float
    b_ms: float
    difference_ms: float
    low_ms: float
    high_ms: float
    faster_probability: float | None
    level: float | None
    kernels: tuple[KernelDifference, ...] = field(hash=False)

    def __repr__(self) -> str:
        text = f"<Comparison {self.b} - {self.a} on {self.platform}: {milliseconds(self.difference_ms)} ms"
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
        <Comparison mobilenet_v2 - resnet50 on pixel4/tflite-2.10/gpu/fp16: -33.7 ms, 90 % interval -37.1 to -32.1 ms,
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
    joint = joint_latency(predictor, a, b)
    kernels = tuple(sorted(_kernel_differences(of_a, of_b), key=lambda each: -abs(each.difference_ms)))
    return Comparison(
        of_a.model, of_b.model, of_a.platform, of_a.latency_ms, of_b.latency_ms, of_b.latency_ms - of_a.latency_ms,
        *joint.difference_ms(), None if of_a.level is None else joint.faster_probability(), of_a.level, kernels,
    )  # fmt: skip


def _kernel_differences(a: Prediction, b: Prediction) -> Iterator[KernelDifference]:
    of_a, of_b = a.by_type(), b.by_type()
    for name in dict.fromkeys([*of_a, *of_b]):
        a_count, b_count = (sum(kernel.kernel_type == name for kernel in found.kernels) for found in (a, b))
        a_ms, b_ms = of_a.get(name, 0.0), of_b.get(name, 0.0)
        yield KernelDifference(name, a_count, b_count, a_ms, b_ms, b_ms - a_ms)
