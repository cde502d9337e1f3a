"""Latency of one network over a size of its inputs: resolution, batch, length."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from latcast.drawing import curves, drawn
from latcast.errors import LatcastError, ModelError
from latcast.forecast import placed
from latcast.graph.importers import is_torch_module
from latcast.graph.ir import Graph, Shape, shapes_by_input
from latcast.networks import AS_IT_IS, Model, ModelOptions, ReadingKeywords, Shapes, read_model
from latcast.platforms import On, Platforms, is_one
from latcast.predictors.prediction import Prediction
from latcast.tables import Rows, Tabular, milliseconds, plain_fields

if TYPE_CHECKING:
    from typing_extensions import Unpack

MOST_POINTS = 1000

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)(?:\.\.(\d+))?\}")
_LIST = re.compile(r"\{(\d+(?:,\d+)+)\}")
_FORM = "input=1,3,{128..320..32},=: sizes, one of them {FIRST..LAST..STEP} or {1,2,4}, and = for the size before it"


@dataclass(frozen=True)
class SweepPoint:
    """One size of a sweep.

    Attributes:
        size: The number that varies.
        shapes: Input name to shape.
        prediction: Of the network with inputs of these shapes.
    """

    size: int
    shapes: Shapes
    prediction: Prediction


@dataclass(frozen=True, repr=False)
class Sweep(Tabular):
    """Latencies of one network on one platform over a size.

    Attributes:
        model: What the user called it.
        platform: Platform id.
        varies: What the size is: "batch", "resolution", "channels", "length" or "size".
        points: By the size, in the order asked for.
        refused: Sizes that the network cannot take, each with the reason.
    """

    model: str
    platform: str
    varies: str
    points: tuple[SweepPoint, ...]
    refused: tuple[tuple[int, str], ...] = ()

    def _rows(self) -> Rows:
        return [{self.varies: each.size, **plain_fields(each.prediction)} for each in self.points]

    def _notes(self) -> Sequence[str]:
        return [f"{self.varies} {size}: {reason}" for size, reason in self.refused]

    def __repr__(self) -> str:
        first, last = self.points[0], self.points[-1]
        said = (f"{milliseconds(point.prediction.latency_ms)} ms at {point.size}" for point in (first, last))
        return f"<Sweep {self.model} on {self.platform} over {self.varies}: {' to '.join(said)}, {len(self.points)} points>"

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draws the curve and its band; see :func:`latcast.plot`."""
        return self.plot_all([self], path)

    @staticmethod
    def plot_all(sweeps: Sequence[Sweep], path: str | os.PathLike[str] | None = None) -> Any:
        """Draws sweeps of one network on several platforms, each a curve with its interval as a band.

        Returns:
            The Matplotlib figure, which is also written where a path is given.

        Raises:
            MissingExtraError: Matplotlib is not installed.
            LatcastError: The file cannot be written.
        """
        at = sorted({point.size for sweep in sweeps for point in sweep.points})
        series = {}
        for sweep in sweeps:
            found = {point.size: point.prediction for point in sweep.points}
            missing = (np.nan, np.nan, np.nan)
            rows = [
                (found[size].latency_ms, found[size].low_ms, found[size].high_ms) if size in found else missing for size in at
            ]
            latency_ms, low_ms, high_ms = zip(*rows, strict=True)
            series[sweep.platform] = (latency_ms, low_ms, high_ms)
        return drawn(curves(at, series, title=sweeps[0].model, below=sweeps[0].varies), path)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on."""
        return {
            "model": self.model,
            "platform": self.platform,
            "varies": self.varies,
            "points": [
                {
                    "size": point.size,
                    "shapes": {name: list(shape) for name, shape in point.shapes.items()},
                    "latency_ms": point.prediction.latency_ms,
                    "low_ms": point.prediction.low_ms,
                    "high_ms": point.prediction.high_ms,
                    "level": point.prediction.level,
                    "coverage": {"share": point.prediction.coverage.share},
                    "grade": asdict(point.prediction.grade),
                    "warnings": list(point.prediction.warnings),
                }
                for point in self.points
            ],
            "refused": [{"size": size, "reason": reason} for size, reason in self.refused],
        }


@overload
def sweep(  # type: ignore[overload-overlap]  # a text is a sequence of texts too; the first form is meant
    model: Model,
    on: On,
    shapes: str | Sequence[str] | Sequence[Shapes],
    *,
    breakdown: bool = False,
    watch: Callable[[int, int], None] | None = None,
    **options: Unpack[ReadingKeywords],
) -> Sweep: ...


@overload
def sweep(
    model: Model,
    on: Platforms,
    shapes: str | Sequence[str] | Sequence[Shapes],
    *,
    breakdown: bool = False,
    watch: Callable[[int, int], None] | None = None,
    **options: Unpack[ReadingKeywords],
) -> list[Sweep]: ...


def sweep(
    model: Model,
    on: On | Platforms,
    shapes: str | Sequence[str] | Sequence[Shapes],
    *,
    breakdown: bool = False,
    watch: Callable[[int, int], None] | None = None,
    **options: Unpack[ReadingKeywords],
) -> Sweep | list[Sweep]:
    """Latency of a network over the size of its inputs.

    Args:
        model, strict, trust, example_inputs, values: As for :func:`latcast.predict`.
        on: A platform, or a list of them.
        shapes: ``"input=1,3,{128..320..32},="``: the range with its end, and ``=`` for the size before it, of a single input
            without its name; or a text for each of several inputs, whose ranges go along; or a list of input shapes.
        breakdown: Whether to list the kernels.
        watch: Told how many sizes were read, of how many.

    Returns:
        A sweep; a list of them, one a platform, where ``on`` is a list. Sizes that the network cannot take are in ``refused``.

    Raises:
        LatcastError: The shapes are not of this form, or nothing varies.
        ModelError: The model cannot be read, or takes none of the shapes.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> latcast.sweep("resnet18", "pixel4/tflite-2.10/gpu/fp16", "input=1,3,{128..224..32},=")
        <Sweep resnet18 on pixel4/tflite-2.10/gpu/fp16 over resolution: 11.9 ms at 128 to 20.3 ms at 224, 4 points>
    """
    listed = swept_shapes([shapes] if isinstance(shapes, str) else shapes)
    resize = Resizing(model, ModelOptions(**options))
    graphs: list[tuple[int, Shapes, Graph]] = []
    refused: list[tuple[int, str]] = []
    problem: ModelError | None = None
    for place, (size, each) in enumerate(listed):
        if watch is not None:
            watch(place, len(listed))
        try:
            graphs.append((size, each, resize(each)))
        except ModelError as found:
            refused.append((size, str(found)))
            problem = problem or found
    if not graphs and problem is not None:
        raise problem
    varies = _what_varies([each for _, each in listed])
    sized = [graph for _, _, graph in graphs]
    sweeps = []
    for [there] in placed(on, sized[:1]):
        predictions = there.predictor.predict_many(sized, breakdown=breakdown)
        points = tuple(
            SweepPoint(size, shapes_by_input(each, graph.inputs), one)
            for (size, each, graph), one in zip(graphs, predictions, strict=True)
        )
        sweeps.append(Sweep(predictions[0].model, there.predictor.platform.id, varies, points, tuple(refused)))
    return sweeps[0] if is_one(on) else sweeps


class Resizing:
    """A network for inputs of several shapes.

    A file or a named network is read again for each shape, as a graph does not know which of its numbers were worked out from a
    size; where that is refused, and of what is a graph already, the graph is given the other shapes as far as it can be.

    Args:
        model: As :func:`latcast.predict` takes it.
        options: How it is read; their shapes do not count.
    """

    def __init__(self, model: Model, options: ModelOptions = AS_IT_IS) -> None:
        self._model = model
        self._options = replace(options, shapes=None)

    @cached_property
    def graph(self) -> Graph:
        """The network at its own shapes.

        Raises:
            ModelError: It has no shapes of its own, or cannot be read.
        """
        return read_model(self._model, self._options)

    def __call__(self, shapes: Shapes) -> Graph:
        """Return the network for inputs of these shapes.

        Raises:
            ModelError: It cannot take them.
        """
        options = replace(self._options, shapes=shapes, example_inputs=None)
        if isinstance(self._model, Graph) or is_torch_module(self._model):
            return read_model(self.graph, options)
        try:
            return read_model(self._model, options)
        except ModelError as problem:
            try:
                return read_model(self.graph, options)
            except ModelError:
                raise problem from None


def swept_shapes(shapes: Iterable[str | Shapes]) -> list[tuple[int, Shapes]]:
    """Yield the shapes of a sweep, each with the size that varies.

    Args:
        shapes: Texts, one an input (see :func:`sweep`), or shapes.

    Raises:
        LatcastError: They are not of this form, or nothing varies.

    Example:
        >>> swept_shapes(["input=1,3,{32..64..32},="])
        [(32, {'input': (1, 3, 32, 32)}), (64, {'input': (1, 3, 64, 64)})]
    """
    given = list(shapes)
    texts = [each for each in given if isinstance(each, str)]
    if texts:
        columns = dict(_parsed(text) for text in texts)
        counts = {len(column) for column in columns.values() if len(column) > 1}
        if len(counts) != 1 or max(counts) > MOST_POINTS:
            what = "nothing" if not counts else "ranges of different lengths" if len(counts) > 1 else f"{max(counts)} sizes"
            raise LatcastError(f"--shape {' '.join(texts)} varies {what}; expected {_FORM}; at most {MOST_POINTS} sizes")
        count = max(counts)
        listed: list[Shapes] = [
            {name: column[index if len(column) > 1 else 0] for name, column in columns.items()} for index in range(count)
        ]
    else:
        listed = [{name: tuple(shape) for name, shape in each.items()} for each in given if not isinstance(each, str)]
    place = _place(listed)
    if place is None:
        raise LatcastError(f"a sweep needs shapes that differ, found {len(listed)}; expected {_FORM}")
    name, axis = place
    return [(int(each[name][axis]), each) for each in listed]


def _parsed(text: str) -> tuple[str, list[Shape]]:
    # Before the first "=" sizes have a comma or a brace.
    name, sizes = text.split("=", 1) if re.match(r"[^,{]*=", text) else ("", text)
    parts = re.findall(r"\{[^}]*\}|[^,{}]+", sizes)
    found: list[Sequence[int] | None] = []
    for part in parts:
        run, several = _RANGE.fullmatch(part), _LIST.fullmatch(part)
        if part == "=":
            found.append(None)
        elif run is not None:
            first, last, step = int(run[1]), int(run[2]), int(run[3] or 1)
            found.append(range(first, last + 1, step) if step else ())
        elif several is not None:
            found.append([int(size) for size in several[1].split(",")])
        else:
            found.append([int(part)] if part.isdecimal() else ())
    ranges = [part for part in found if part is not None and len(part) > 1]
    if text.startswith("=") or not found or found[0] is None or () in found or len(ranges) > 1:
        raise LatcastError(f"--shape '{text}' is not of the form {_FORM}")
    if any(part is not None and (not part or min(part) < 1) for part in found) or any(len(part) > MOST_POINTS for part in ranges):
        raise LatcastError(f"--shape '{text}' has no sizes, or sizes below 1, or more than {MOST_POINTS}; expected {_FORM}")
    columns: list[Sequence[int]] = []
    for part in found:
        columns.append(columns[-1] if part is None else part)
    longest = max(map(len, columns))
    rows = zip_longest(*(column if len(column) > 1 else [column[0]] * longest for column in columns))
    return name, [tuple(row) for row in rows]


def _place(listed: Sequence[Shapes]) -> tuple[str, int] | None:
    """Input and axis of the first number that varies."""
    first = listed[0] if listed else {}
    for name, shape in first.items():
        for axis in range(len(shape)):
            if len({tuple(each.get(name, ()))[axis : axis + 1] for each in listed}) > 1:
                return name, axis
    return None


def _what_varies(listed: Sequence[Shapes]) -> str:
    place = _place(listed)
    assert place is not None  # or there would be no sweep
    name, axis = place
    rank = len(listed[0][name])
    if axis == 0:
        return "batch"
    if rank == 4:
        square = all(each[name][1] == each[name][2] != each[name][3] for each in listed)
        return "channels" if axis == 1 and not square else "resolution"
    return "length" if axis == 1 else "size"
