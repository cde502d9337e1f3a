"""Two networks on a platform, or one network on two: which is faster, by how much, how sure that is, and where it comes from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, overload

from latcast.drawing import bars, drawn
from latcast.errors import LatcastError
from latcast.forecast import NetworkThere, placed
from latcast.networks import Model, ModelKeywords, ModelOptions, read_model
from latcast.platforms import On, Platforms, is_one
from latcast.predictors.conditions import STEADY, Conditions
from latcast.predictors.joint_platforms import PlacedNetwork, joint_latency
from latcast.predictors.prediction import Grade, Prediction
from latcast.report.alignment import KernelChange, align, diff_lines
from latcast.tables import Rows, Tabular, milliseconds, plain_fields

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class KernelDifference:
    """Latency of the kernels of one type in A and in B.

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
class Comparison(Tabular):
    """Two networks on one platform, or one network on two.

    The errors of like networks on one platform are correlated (:mod:`latcast.predictors.joint`): the more the kernels of both are
    the same, the narrower is the interval of the difference. So are those of one network on two platforms
    (:mod:`latcast.predictors.joint_platforms`): the more the platforms share.

    Attributes:
        a, b: What the user called the networks.
        platform, b_platform: Platform ids of A and of B.
        a_ms, b_ms: Predicted latencies.
        difference_ms: ``b_ms - a_ms``: below 0 where B is faster.
        low_ms, high_ms: Interval of the difference, of the level of the predictions'; both 0 where networks are identical.
        faster_probability: That B is faster than A, from 0 to 1; 0.5 where the networks are identical, None without
            a calibrated interval.
        level: Percent of differences that should lie in the interval; None without calibration.
        a_grade, b_grade: The errors to expect of the latencies.
        kernels: Of A and B, aligned; what they do not add up to is overhead.
        predictions: Of A and of B, with the further latencies that were asked for.
    """

    a: str
    b: str
    platform: str
    b_platform: str
    a_ms: float
    b_ms: float
    difference_ms: float
    low_ms: float
    high_ms: float
    faster_probability: float | None
    level: float | None
    a_grade: Grade
    b_grade: Grade
    kernels: tuple[KernelChange, ...] = field(hash=False)
    predictions: tuple[Prediction, Prediction] = field(hash=False)

    def _rows(self) -> Rows:
        return [{name: value for name, value in each.to_json().items() if name != "configuration"} for each in self.kernels]

    def _shown(self) -> Rows:
        return [{**plain_fields(self), "grade": self.grade.in_words()}]

    def __repr__(self) -> str:
        return f"<Comparison {self._title()}: {self._sentence()}>"

    def _title(self) -> str:
        if self.platform == self.b_platform:
            return f"{self.b} - {self.a} on {self.platform}"
        return f"{self.b} on {self.b_platform} - {self.a} on {self.platform}"

    def _sentence(self) -> str:
        kind = "uncalibrated" if self.level is None else f"{self.level:g} %"
        bounds = f"{milliseconds(self.low_ms)} to {milliseconds(self.high_ms)} ms"
        text = f"{milliseconds(self.difference_ms)} ms, {kind} interval {bounds}"
        if self.faster_probability is not None:
            text += f", faster with probability {self.faster_probability:.2f}"
        return text

    @property
    def grade(self) -> Grade:
        """Return the worse of both grades."""
        return max(self.a_grade, self.b_grade, key=lambda grade: grade.expected_error_pct)

    @property
    def kernel_types(self) -> tuple[KernelDifference, ...]:
        """Latencies by kernel type, the largest difference first."""
        found: dict[str, list[float]] = {}
        for each in self.kernels:
            for side, kernel in enumerate((each.a, each.b)):
                if kernel is not None:
                    sums = found.setdefault(kernel.kernel_type, [0, 0, 0.0, 0.0])
                    sums[side] += 1
                    sums[2 + side] += kernel.latency_ms
        listed = (
            KernelDifference(name, int(a_count), int(b_count), a_ms, b_ms, b_ms - a_ms)
            for name, (a_count, b_count, a_ms, b_ms) in found.items()
        )
        return tuple(sorted(listed, key=lambda each: -abs(each.difference_ms)))

    def diff(self) -> str:
        """Return a text like a diff: which kernels came, went and changed, with the latency of each.

        Example:
            >>> import latcast
            >>> found = latcast.compare("resnet18", "resnet34", on="pixel4/tflite-2.10/gpu/fp16")
            >>> print(*found.diff().splitlines()[:3], sep="\\n")
            --- resnet18 on pixel4/tflite-2.10/gpu/fp16: 20.3 ms
            +++ resnet34 on pixel4/tflite-2.10/gpu/fp16: 41.5 ms
            21.2 ms, 90 % interval 20.2 to 23.2 ms, faster with probability 0.00
        """
        return "\n".join(
            [
                f"--- {self.a} on {self.platform}: {milliseconds(self.a_ms)} ms",
                f"+++ {self.b} on {self.b_platform}: {milliseconds(self.b_ms)} ms",
                self._sentence(),
                *diff_lines(self.kernels),
            ]
        )

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draws the difference with its interval, and that of each kernel type; see :func:`latcast.plot`."""
        types = self.kernel_types
        figure = bars(
            ["all of it", *(each.kernel_type for each in types)],
            [self.difference_ms, *(each.difference_ms for each in types)],
            bounds_ms=[(self.low_ms, self.high_ms), *(None for _ in types)], title=self._title(),
            axis="difference of latency, ms",
        )  # fmt: skip
        return drawn(figure, path)

    @staticmethod
    def plot_all(found: Sequence[Comparison], path: str | os.PathLike[str] | None = None) -> Any:
        """Draws the differences of several comparisons, each with its interval; see :func:`latcast.plot`."""
        figure = bars(
            [each._title() for each in found], [each.difference_ms for each in found],
            bounds_ms=[(each.low_ms, each.high_ms) for each in found], axis="difference of latency, ms",
        )  # fmt: skip
        return drawn(figure, path)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on; the probability is from 0 to 1."""
        return {
            **{each.name: getattr(self, each.name) for each in fields(self) if each.name != "predictions"},
            **{
                f"{side}_{name}": value
                for side, found in zip("ab", self.predictions, strict=True)
                for name, value in found.conditions_json().items()
            },
            "a_grade": asdict(self.a_grade),
            "b_grade": asdict(self.b_grade),
            "kernels": [each.to_json() for each in self.kernels],
            "kernel_types": [asdict(each) for each in self.kernel_types],
        }


@overload
def compare(  # type: ignore[overload-overlap]  # a text is a sequence of texts too; the first form is meant
    a: Model,
    b: Model,
    on: On,
    *,
    conditions: Conditions = STEADY,
    **options: Unpack[ModelKeywords],
) -> Comparison: ...


@overload
def compare(
    a: Model,
    b: Model | None = None,
    on: Platforms = (),
    *,
    conditions: Conditions = STEADY,
    **options: Unpack[ModelKeywords],
) -> list[Comparison]: ...


def compare(
    a: Model,
    b: Model | None = None,
    on: On | Platforms = (),
    *,
    conditions: Conditions = STEADY,
    **options: Unpack[ModelKeywords],
) -> Comparison | list[Comparison]:
    """Compare two networks on a platform, or one network on several platforms.

    Args:
        a, b: As :func:`latcast.predict` takes them; without ``b``, ``a`` is compared with itself on other platforms.
        on: A platform, or a list of them; without ``b`` at least two, the first of which the others are compared with. Precisions
            and threads are platforms, too. Of a device named without a precision, a network that is quantised to int8 takes
            the int8 platform, and one that is not the usual one.
        conditions: Further latencies that are asked for, of each network; their differences have no interval.
        shapes, strict, trust, example_inputs, values: As for :func:`latcast.predict`, the same for both networks.

    Returns:
        A comparison; a list of them where ``on`` is a list.

    Raises:
        LatcastError: Without ``b``, fewer than two platforms.
        ModelError: A model cannot be read, or cannot take inputs of these shapes.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> latcast.compare("resnet50", "mobilenet_v2", on="pixel4/tflite-2.10/gpu/fp16")  # doctest: +NORMALIZE_WHITESPACE
        <Comparison mobilenet_v2 - resnet50 on pixel4/tflite-2.10/gpu/fp16: -33.7 ms, 90 % interval -36.5 to -31.7 ms,
        faster with probability 1.00>
        >>> core = "pixel4/tflite-2.10/1large/"
        >>> [found] = latcast.compare("mobilenet_v2", on=[core + "fp32", core + "int8"])
        >>> found.b_platform, found.difference_ms < 0
        ('pixel4/tflite-2.10/1large/int8', True)
    """
    first, second = (read_model(model, ModelOptions(**options)) for model in (a, a if b is None else b))

    def predicted(there: NetworkThere) -> PlacedNetwork:
        return PlacedNetwork.predicted(there.graph, there.predictor, breakdown=True, conditions=conditions)

    where = placed(on, [first] if b is None else [first, second])
    if b is None:
        if len(where) < 2:
            raise LatcastError("one network on one platform, expected two platforms at least; or give a second network")
        mine, *others = (predicted(each) for [each] in where)
        return [_compared(mine, other) for other in others]
    found = [_compared(predicted(one), predicted(other)) for one, other in where]
    return found[0] if is_one(on) else found


def _compared(a: PlacedNetwork, b: PlacedNetwork) -> Comparison:
    of_a, of_b, joint = a.prediction, b.prediction, joint_latency(a, b)
    level = of_a.level if of_b.level is not None else None
    return Comparison(
        of_a.model, of_b.model, of_a.platform, of_b.platform, of_a.latency_ms, of_b.latency_ms, of_b.latency_ms - of_a.latency_ms,
        *joint.difference_ms(), None if level is None else joint.faster_probability(), level, of_a.grade, of_b.grade,
        align(of_a.kernels, of_b.kernels), (of_a, of_b),
    )  # fmt: skip
