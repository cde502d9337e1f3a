"""Latencies besides the steady one: of the start, after minutes of running, and beside other programs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from latcast.errors import LatcastError
from latcast.folders import data_folder, made, replacing
from latcast.reading import read_json
from latcast.records import Platform
from latcast.tables import milliseconds

if TYPE_CHECKING:
    from latcast.predictors.platform_predictor import PlatformPredictor
    from latcast.predictors.prediction import Prediction


Bounded = tuple[float | None, float | None, float | None]
"""A latency and the bounds of its interval; None is what is not known."""


def bounded_text(bounded: Bounded) -> str:
    """Return a latency with its bounds, in milliseconds, the bounds alone, or that it is not known."""
    latency_ms, low_ms, high_ms = bounded
    if low_ms is None or high_ms is None:
        return "not known"
    bounds = f"{milliseconds(low_ms)} to {milliseconds(high_ms)}"
    return bounds if latency_ms is None else f"{milliseconds(latency_ms)} ({bounds})"


@dataclass(frozen=True)
class Start:
    """The start of a network, in milliseconds, each with its 90 % interval; None is what is not known.

    Attributes:
        basis: What it was learned from, or why nothing is known.
        load_ms, load_low_ms, load_high_ms: Loading: read, optimise, compile, allocate.
        first_ms, first_low_ms, first_high_ms: The first inference.
    """

    basis: str
    load_ms: float | None = None
    load_low_ms: float | None = None
    load_high_ms: float | None = None
    first_ms: float | None = None
    first_low_ms: float | None = None
    first_high_ms: float | None = None

    def parts_ms(self) -> tuple[Bounded, Bounded]:
        """Return loading and the first inference, each with its bounds."""
        return (self.load_ms, self.load_low_ms, self.load_high_ms), (self.first_ms, self.first_low_ms, self.first_high_ms)

    def until_answer_ms(self) -> tuple[float, float, float] | None:
        """Return the time from loading to the first answer, with its bounds; None where a part is not known."""
        load, first = self.parts_ms()
        if None in load or None in first:
            return None
        (load_ms, *load_bounds), (first_ms, *first_bounds) = cast("tuple[tuple[float, ...], ...]", (load, first))
        below_ms, above_ms = (
            math.hypot(load_ms - load_bound, first_ms - first_bound)
            for load_bound, first_bound in zip(load_bounds, first_bounds, strict=True)
        )
        return load_ms + first_ms, load_ms + first_ms - below_ms, load_ms + first_ms + above_ms


@dataclass(frozen=True)
class Sustained:
    """The latency after some minutes of running, in milliseconds; None is what is not known.

    Attributes:
        minutes: Since the device was cool.
        fps: Inferences a second; None without a pause.
        basis: What it was learned from, or why nothing is known.
        latency_ms, low_ms, high_ms: With its interval; of a paced network that alone.
    """

    minutes: float
    fps: float | None
    basis: str
    latency_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None


PROGRAMS = ("compute", "memory", "compute:same", "memory:same")
"""Other programs: one that computes in its caches or one that streams through memory, on another core or on the same."""

SAME = ":same"

EACH_PROGRAM = "all"


def parse_beside(text: str) -> tuple[str, ...]:
    """Return programs such as ``memory`` or ``compute+compute:same``; raise a LatcastError for others."""
    programs = tuple(each.strip() for each in text.split("+"))
    unknown = [each for each in programs if each not in PROGRAMS]
    if unknown:
        raise LatcastError(f"found the program '{unknown[0]}', expected one of {', '.join(PROGRAMS)}, or several joined by +")
    return programs


def parse_scenarios(text: str) -> tuple[str, ...]:
    """Return the scenarios between commas, each once, as :func:`parse_beside` reads them; ``all`` is each program by itself."""
    listed = [PROGRAMS if each.strip() == EACH_PROGRAM else ("+".join(parse_beside(each)),) for each in text.split(",")]
    return tuple(dict.fromkeys(chain.from_iterable(listed)))


@dataclass(frozen=True)
class Contended:
    """The latency beside other programs, in milliseconds; None is what is not known.

    Attributes:
        beside: The programs, see :data:`PROGRAMS`.
        basis: What it was learned from, or why nothing is known.
        latency_ms, low_ms, high_ms: With its interval.
    """

    beside: str
    basis: str
    latency_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None


@dataclass(frozen=True)
class Conditions:
    """Latencies asked for besides the steady one, which is of a warmed-up network on a cool, idle device.

    Attributes:
        start: Whether loading and the first inference are.
        minutes: After so many minutes of running; None for no such latency.
        fps: Inferences a second meanwhile; None without a pause.
        beside: Beside other programs: each as :meth:`latcast.Prediction.beside` takes them; or a text with commas between.

    Raises:
        LatcastError: Minutes or inferences a second are not positive, or there are no minutes for these.

    Example:
        >>> import latcast
        >>> asked = latcast.Conditions(minutes=30, beside=("memory",))
        >>> found = latcast.predict("resnet18", on="pixel4/tflite-2.10/gpu/fp16", conditions=asked)
        >>> list(found.under_conditions())
        ['after 30 min', 'beside memory']
    """

    start: bool = False
    minutes: float | None = None
    fps: float | None = None
    beside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        beside: object = self.beside
        if isinstance(beside, str):
            object.__setattr__(self, "beside", parse_scenarios(beside))
        for name, value in (("minutes", self.minutes), ("fps", self.fps)):
            if value is not None and not 0 < value < math.inf:
                raise LatcastError(f"found {name} = {value:g} of running, expected a positive number")
        if self.fps is not None and self.minutes is None:
            raise LatcastError("found fps without minutes of running; give both")

    def added_to(
        self,
        found: Sequence[Prediction],
        predictor: PlatformPredictor,
        start_features: Callable[[], Sequence[Mapping[str, float]]],
    ) -> list[Prediction]:
        """Return a platform's predictions with the latencies asked for.

        Args:
            found: The predictions.
            predictor: Of the platform.
            start_features: Returns what decides the start of each (:func:`latcast.predictors.starts.features_of`).

        Raises:
            LatcastError: There is no such program.
        """
        if self.start:
            from latcast.predictors.starts import with_starts

            found = with_starts(predictor, found, start_features)
        if self.minutes is not None:
            found = [each.after(self.minutes, fps=self.fps) for each in found]
        for programs in self.beside:
            found = [each.beside(programs) for each in found]
        return list(found)


STEADY = Conditions()
"""The steady latency alone."""


UNTIL_ANSWER = "until the first answer"
"""Name of loading and the first inference together."""


# What ``latcast measure`` found out about the user's own devices, in JSON files of the user's folder


def _known(file: str) -> dict[str, Any]:
    path = data_folder() / file
    return dict(read_json(path, error=LatcastError)) if path.is_file() else {}


def _unit(platform: Platform) -> str:
    return f"{platform.device}/{platform.unit}"


def found_out(file: str, platform: Platform) -> Any:
    """Return what a file has of a platform's unit, whatever runs on it; None where it has nothing."""
    return _known(file).get(_unit(platform))


def keep_found(file: str, platform: Platform, found: Any) -> None:
    """Keep what was measured of a platform's unit, in place of what the file had of it."""
    known = {**_known(file), _unit(platform): found}
    with replacing(made(data_folder()) / file) as draft:
        draft.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
