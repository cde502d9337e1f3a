"""A prediction, and the views of it that people look at."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from latcast.errors import LatcastError, one_line
from latcast.predictors.conditions import UNTIL_ANSWER, Bounded, Contended, Start, Sustained
from latcast.tables import Rows, Tabular, milliseconds, plain_fields

if TYPE_CHECKING:
    import numpy as np

    from latcast.graph.ir import Graph
    from latcast.kernels.kernel import Kernel
    from latcast.kernels.partitioning import Fallback


@dataclass(frozen=True)
class KernelLatency(Tabular):
    """Predicted latency of one kernel of a network.

    Attributes:
        name: Of its first operator.
        kernel_type, operators, configuration: What it computes: see :class:`latcast.Kernel`.
        latency_ms: In milliseconds.
        covered: Whether its predictor was trained on similar kernels.
        module: Path of the module it came from ("layer1.0.conv2"); empty where the network's names hold none.
        limit: What takes most of its time by the platform's analytical terms: "compute", "memory", "overhead" (being started);
            empty where that is not known, and where it costs nothing.
        nodes: Names of its operators.
    """

    name: str
    kernel_type: str
    operators: tuple[str, ...]
    configuration: Mapping[str, float] = field(hash=False, repr=False)
    latency_ms: float
    covered: bool
    module: str = ""
    limit: str = ""
    nodes: tuple[str, ...] = ()

    def _row(self) -> dict[str, Any]:
        plain = {name: value for name, value in plain_fields(self).items() if name != "nodes"}
        return {**plain, "operators": "+".join(self.operators), **self.configuration}

    def _rows(self) -> Rows:
        return [self._row()]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on."""
        lists = {"operators": list(self.operators), "nodes": list(self.nodes)}
        return {**vars(self), **lists, "configuration": dict(self.configuration)}


def kernel_latencies(
    graph: Graph,
    kernels: Sequence[Kernel],
    latency_ms: np.ndarray,
    covered: np.ndarray,
    limits: Sequence[str],
) -> tuple[KernelLatency, ...]:
    """Return all kernels of a network with their latencies; the arrays and limits are of those that take time."""
    from latcast.graph.module_paths import module_paths
    from latcast.kernels.types import kernel_type

    listed = []
    modules = module_paths(graph)
    estimates = zip(latency_ms.tolist(), covered.tolist(), limits, strict=True)
    for kernel in kernels:
        spent_ms, is_covered, limit = (0.0, True, "") if kernel.free else next(estimates)
        fields = kernel_type(kernel.kernel_type).fields
        listed.append(
            KernelLatency(
                kernel.name, kernel.kernel_type, kernel.operators, dict(zip(fields, kernel.configuration, strict=True)),
                spent_ms, is_covered, modules[kernel.name], limit, kernel.nodes,
            )
        )  # fmt: skip
    return tuple(listed)


@dataclass(frozen=True)
class Coverage:
    """Part of a prediction that rests on predictors trained on similar kernels.

    Attributes:
        share: Part of the predicted latency (0 to 1) that such predictors gave.
        uncovered: Operators in kernels outside the training data.
    """

    share: float
    uncovered: tuple[str, ...]


GOOD_PERCENT, FAIR_PERCENT = 10.0, 25.0
"""Expected errors up to which a prediction is good, and fair; beyond, it is rough."""


MEASURED_THERE = "measured there"
"""Why the latency of a network that the platform itself ran is what was measured."""


@dataclass(frozen=True)
class Grade:
    """What is to be expected of a prediction.

    Attributes:
        word: "good", "fair" or "rough".
        expected_error_pct: Mean error of such predictions, in percent of the measured latency.
        why: What decides it most: little that was measured, much that is unlike it, or the error on networks held out.
    """

    word: str
    expected_error_pct: float
    why: str

    @classmethod
    def of(cls, expected_error_pct: float, why: str) -> Grade:
        """Return the grade of an expected error."""
        good, fair = expected_error_pct <= GOOD_PERCENT, expected_error_pct <= FAIR_PERCENT
        return cls("good" if good else "fair" if fair else "rough", expected_error_pct, why)

    @property
    def rough(self) -> bool:
        """Return whether the prediction is too uncertain to compare versions of a network by it."""
        return self.word == "rough"

    def __str__(self) -> str:
        return f"{self.word}, ±{self.expected_error_pct:.{0 if self.expected_error_pct >= 0.95 else 1}f} %"

    def in_words(self) -> str:
        """Return the grade, with what decides it where that is worth a word: "rough, ±60 %: learned from 4 networks"."""
        return f"{self}: {self.why}" if self.rough or self.why == MEASURED_THERE else str(self)


@dataclass(frozen=True, repr=False)
class Prediction(Tabular):
    """Latency of one network on one platform, in milliseconds, with its interval and its reason.

    Attributes:
        model: What the user called it.
        platform: Platform id.
        latency_ms: Kernels and overhead together.
        low_ms, high_ms: The interval.
        coverage: Part of the latency that rests on predictors trained on similar kernels.
        grade: The error that is to be expected, and why.
        warnings: What the user should know, a sentence each.
        kernels: In execution order; empty where they were not asked for (``breakdown=False``).
        overhead_ms: Latency outside of kernels, the crossings to the CPU with it (``fallback.crossing_ms``).
        level: Percent of networks whose latency should lie in the interval; None where it is uncalibrated.
        fallback: Which operators the platform's delegate leaves to the CPU; None on a CPU, and where no delegate's rules are
            known.
        notes: Which small parts lie outside the training data or its range, a sentence each.
        start: Loading and the first inference, where they were asked for.
        sustained: The latency after minutes of running, where it was asked for.
        contended: The latencies beside other programs that were asked for.

    Example:
        >>> import latcast
        >>> found = latcast.predict("resnet18", on="pixel4/tflite-2.10/gpu/fp16")
        >>> found
        <Prediction resnet18 on pixel4/tflite-2.10/gpu/fp16: 20.3 ms, 90 % interval 19.3 to 21.8 ms, good, ±3 %>
        >>> found.top(1)[0].name
        'conv_14'
        >>> list(found.by_type())
        ['conv', 'max_pool', 'linear', 'reduce', 'copy']
    """

    model: str
    platform: str
    latency_ms: float
    low_ms: float
    high_ms: float
    coverage: Coverage
    grade: Grade
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelLatency, ...] = ()
    overhead_ms: float = 0.0
    level: float | None = None
    fallback: Fallback | None = None
    notes: tuple[str, ...] = ()
    start: Start | None = None
    sustained: Sustained | None = None
    contended: tuple[Contended, ...] = ()

    def __post_init__(self) -> None:
        # They repeat names from files.
        object.__setattr__(self, "warnings", tuple(map(one_line, self.warnings)))
        object.__setattr__(self, "notes", tuple(map(one_line, self.notes)))

    def __repr__(self) -> str:
        found = f"{milliseconds(self.latency_ms)} ms, {self._interval()} ms, {self.grade}"
        return f"<Prediction {self.model} on {self.platform}: {found}>"

    def _shown(self) -> Rows:
        kind, _, bounds = self._interval().partition(" interval ")
        return [
            {
                "model": self.model,
                "platform": self.platform,
                "latency ms": milliseconds(self.latency_ms),
                f"{kind} interval ms": bounds,
                "grade": self.grade.in_words(),
            }
        ]

    def _notes(self) -> Sequence[str]:
        return self.warnings

    def _caption(self) -> str:
        return ""

    @property
    def overhead_name(self) -> str:
        """Return what :attr:`overhead_ms` is called where it is shown."""
        return "overhead and crossings" if self.fallback is not None and self.fallback.crossing_ms else "overhead"

    def _interval(self) -> str:
        kind = "uncalibrated" if self.level is None else f"{self.level:g} %"
        return f"{kind} interval {milliseconds(self.low_ms)} to {milliseconds(self.high_ms)}"

    def top(self, count: int = 10) -> tuple[KernelLatency, ...]:
        """Return the kernels that take longest, longest first.

        Raises:
            LatcastError: The kernels were not asked for.
        """
        return tuple(sorted(self._listed(), key=lambda kernel: -kernel.latency_ms)[:count])

    def after(self, minutes: float, *, fps: float | None = None) -> Prediction:
        """Return it with :attr:`sustained`, the latency after some minutes of running, without a pause or so often a second.

        Example:
            >>> import latcast
            >>> hot = latcast.predict("resnet18", on="pixel4/tflite-2.10/gpu/fp16").after(30).sustained
            >>> hot.low_ms < hot.latency_ms < hot.high_ms
            True
        """
        from latcast.predictors.sustained import sustained

        return sustained(self, minutes, fps)

    def beside(self, programs: str) -> Prediction:
        """Return it with the latency beside other programs added to :attr:`contended`.

        Args:
            programs: One of :data:`latcast.predictors.conditions.PROGRAMS`, or several joined by ``+``.

        Raises:
            LatcastError: There is no such program.

        Example:
            >>> import latcast
            >>> found = latcast.predict("resnet18", on="pixel4/tflite-2.10/gpu/fp16").beside("memory")
            >>> found.contended[0].basis
            'no network was measured beside such programs on the GPU of pixel4/tflite-2.10/gpu/fp16'
        """
        from latcast.predictors.contention import contended

        return contended(self, programs)

    def under_conditions(self) -> dict[str, Bounded]:
        """Return the further latencies that were asked for with their bounds, by name, such as "after 30 min"."""
        found: dict[str, Bounded] = {}
        if self.start is not None:
            found[UNTIL_ANSWER] = self.start.until_answer_ms() or (None, None, None)
        if self.sustained is not None:
            hot = self.sustained
            found[f"after {hot.minutes:g} min"] = (hot.latency_ms, hot.low_ms, hot.high_ms)
        return found | {f"beside {each.beside}": (each.latency_ms, each.low_ms, each.high_ms) for each in self.contended}

    def condition_bases(self) -> list[str]:
        """Return on what the further latencies rest, or why they are not known, a line each."""
        parts = [("start", self.start), ("after minutes", self.sustained), *(("beside others", each) for each in self.contended)]
        return [f"{name}: {part.basis}" for name, part in parts if part is not None]

    def slowed_ms(self, factor: float, low: float, high: float) -> tuple[float, float, float]:
        """Return the latency times a factor that has an interval, too, with the bounds of both together."""
        below, above = (
            math.hypot(math.log(bound_ms / self.latency_ms), math.log(bound / factor))
            for bound_ms, bound in ((self.low_ms, low), (self.high_ms, high))
        )
        slowed_ms = self.latency_ms * factor
        return slowed_ms, slowed_ms * math.exp(-below), slowed_ms * math.exp(above)

    def by_type(self) -> dict[str, float]:
        """Return milliseconds by kernel type, longest first; the overhead belongs to none.

        Raises:
            LatcastError: The kernels were not asked for.
        """
        return self._sums([(kernel.kernel_type, kernel.latency_ms) for kernel in self._listed()])

    def by_limit(self) -> dict[str, float]:
        """Return milliseconds by what takes most of a kernel's time ("compute", "memory", "overhead").

        Raises:
            LatcastError: The kernels were not asked for.
        """
        return self._sums([(kernel.limit, kernel.latency_ms) for kernel in self._listed() if kernel.limit])

    def by_module(self, depth: int | None = None) -> dict[str, float]:
        """Return milliseconds by module path, longest first; "" for kernels outside of modules.

        Args:
            depth: Levels of the path that are kept (1: ``layer1``); all where None.

        Raises:
            LatcastError: The kernels were not asked for.
        """
        return self._sums([(".".join(kernel.module.split(".")[:depth]), kernel.latency_ms) for kernel in self._listed()])

    @staticmethod
    def _sums(parts: Sequence[tuple[str, float]]) -> dict[str, float]:
        sums: dict[str, float] = {}
        for name, latency_ms in parts:
            sums[name] = sums.get(name, 0.0) + latency_ms
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def plot(self, path: str | os.PathLike[str] | None = None, *, count: int = 20) -> Any:
        """Draw the kernels that take longest, as bars.

        Args:
            path: A PNG, or another format by its suffix; nothing is written where None.
            count: How many kernels.

        Returns:
            The Matplotlib figure.

        Raises:
            LatcastError: The kernels were not asked for; or the file cannot be written.
            MissingExtraError: Matplotlib is not installed.
        """
        shown = self.top(count)
        from latcast.drawing import bars, drawn

        title = f"{self.model} on {self.platform}\n{milliseconds(self.latency_ms)} ms, {self._interval()} ms"
        named = [f"{kernel.name} ({kernel.kernel_type})" for kernel in shown]
        return drawn(bars(named, [kernel.latency_ms for kernel in shown], title=title, axis="latency of a kernel, ms"), path)

    @staticmethod
    def plot_all(found: Sequence[Prediction], path: str | os.PathLike[str] | None = None) -> Any:
        """Draw several predictions beside each other, named by what differs; see :func:`latcast.plot`."""
        from latcast.drawing import bars, drawn

        models, platforms = {each.model for each in found}, {each.platform for each in found}
        named = [each.platform if len(models) == 1 else each.model for each in found]
        if len(models) > 1 and len(platforms) > 1:
            named = [f"{each.model} on {each.platform}" for each in found]
        title = found[0].model if len(models) == 1 else found[0].platform if len(platforms) == 1 else ""
        bounds_ms = [(each.low_ms, each.high_ms) for each in found]
        return drawn(bars(named, [each.latency_ms for each in found], bounds_ms=bounds_ms, title=title), path)

    def _rows(self) -> Rows:
        return [kernel._row() for kernel in self._listed()]

    def _listed(self) -> tuple[KernelLatency, ...]:
        if not self.kernels and self.latency_ms > self.overhead_ms:
            raise LatcastError(f"the prediction of {self.model} lists no kernels; ask for them with breakdown=True")
        return self.kernels

    def to_json(self, *, breakdown: bool = False) -> dict[str, Any]:
        """Return the JSON form that scripts rely on; the share is from 0 to 1."""
        data: dict[str, Any] = {
            "model": self.model,
            "platform": self.platform,
            "latency_ms": self.latency_ms,
            "low_ms": self.low_ms,
            "high_ms": self.high_ms,
            "level": self.level,
            "coverage": asdict(self.coverage),
            "grade": asdict(self.grade),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }
        if self.fallback is not None:
            data["delegate"] = self.fallback.to_json()
        data |= self.conditions_json()
        if breakdown:
            data["overhead_ms"] = self.overhead_ms
            data["kernels"] = [kernel.to_json() for kernel in self.kernels]
        return data

    def conditions_json(self) -> dict[str, Any]:
        """Return the part of the JSON form that is of further latencies."""
        data: dict[str, Any] = {}
        if self.start is not None:
            data |= {("start_basis" if name == "basis" else name): value for name, value in asdict(self.start).items()}
        if self.sustained is not None:
            data["sustained"] = asdict(self.sustained)
        if self.contended:
            data["contended"] = [asdict(each) for each in self.contended]
        return data
