"""A choice of networks: accuracy against latency on one or several platforms, and the certainty that each fits a budget."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from latcast.drawing import drawn, pareto
from latcast.errors import LatcastError, abridged, one_line
from latcast.forecast import placed
from latcast.graph.ir import Graph
from latcast.kernels.delegates import delegate_of
from latcast.kernels.partitioning import partition
from latcast.networks import Model, ModelOptions, models_listed, read_model, read_models
from latcast.platforms import On, Platforms, load_all
from latcast.predictors.conditions import STEADY, Conditions
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Grade
from latcast.report.candidates import CandidateColumn, CandidateFacts, named_candidates, own_candidates, own_columns
from latcast.report.check import positive
from latcast.spaces.accuracies import TRAINED_ON
from latcast.spaces.catalogue import models as named_models
from latcast.spaces.named_kernels import Watch
from latcast.tables import Rows, Tabular, plain_fields

CERTAINTY = 0.9

LEAST_COVERED = 0.9
"""Least share of a latency that must come from predictors trained on similar kernels for a network to fit."""


@dataclass(frozen=True)
class CandidateLatency:
    """A network on one platform.

    Attributes:
        platform: Its id.
        latency_ms, low_ms, high_ms: Predicted, with the platform's interval, or that alone.
        kept_ms: The latency that it does not exceed with the certainty asked for, or a larger one.
        probability: Of taking at most the limit, from 0 to 1; None without a limit, and where the interval alone is known.
        level: Percent of networks whose latency should lie in the interval; None where it is not calibrated.
        grade: The error to expect of the steady latency; of named networks without what a delegate leaves to the CPU.
        familiar: Whether :data:`LEAST_COVERED` of it comes from predictors trained on similar kernels; else it fits no limit.
        condition: Of the latency, such as "after 30 min"; empty where it is the steady one.
    """

    platform: str
    latency_ms: float | None
    low_ms: float
    high_ms: float
    kept_ms: float
    probability: float | None
    level: float | None
    grade: Grade
    familiar: bool
    condition: str = ""

    @property
    def where(self) -> str:
        """Return the platform, and the condition where there is one."""
        return ", ".join(filter(None, (self.platform, self.condition)))


@dataclass(frozen=True)
class ModelCandidate:
    """A network to choose or not.

    Attributes:
        name: As given, or as :func:`latcast.models` lists it.
        accuracy: Percent, of the weights as published; None where none is known.
        macs, parameters: Multiply-accumulates and learned values.
        memory_bytes: Weights, and what is held for activations, on the platform where that is most.
        fits: Whether it meets all limits, that of latency with the certainty asked for on each platform; None without limits.
        on_front: Whether none of those that are covered and within the limit of memory is at least as accurate and as fast on
            every platform.
        latencies: One a platform and condition.
        trained_on: What the weights saw: ``"imagenet-1k"``, ``"imagenet-21k"`` or ``"more"``; None of the user's own.
    """

    name: str
    accuracy: float | None
    macs: float
    parameters: float
    memory_bytes: int
    fits: bool | None
    on_front: bool
    latencies: tuple[CandidateLatency, ...]
    trained_on: str | None = None

    @property
    def decisive(self) -> CandidateLatency:
        """The platform and condition in which it is least likely to meet the limit; in which it takes longest without one."""
        return min(self.latencies, key=lambda each: (1.0 if each.probability is None else each.probability, -each.kept_ms))

    @property
    def familiar(self) -> bool:
        """Return whether it is made of known kernels on every platform."""
        return all(each.familiar for each in self.latencies)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on; probabilities are from 0 to 100."""
        decisive = self.decisive
        return {
            "name": self.name, "latency_ms": decisive.latency_ms, "low_ms": decisive.low_ms, "high_ms": decisive.high_ms,
            "fits": self.fits, "probability": decisive.probability and 100 * decisive.probability, "accuracy": self.accuracy,
            "trained_on": self.trained_on, "macs": self.macs,
            "parameters": self.parameters, "memory_mb": self.memory_bytes / 1e6,
            "platforms": [
                {**asdict(each), "probability": each.probability and 100 * each.probability} for each in self.latencies
            ],
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Choice(Tabular):
    """Networks to choose from.

    Attributes:
        platforms: Their ids.
        max_ms, max_memory_mb: The limits; None where there is none.
        certainty: With which the limit of latency is to be met, from 0 to 1.
        candidates: Within the limits of size, the most accurate first, then the fastest.
        warnings: A sentence each.
        unknown: Why a latency under a condition is not known -> the networks concerned, which are not ranked.
    """

    platforms: tuple[str, ...]
    max_ms: float | None
    max_memory_mb: float | None
    certainty: float
    candidates: tuple[ModelCandidate, ...] = field(hash=False)
    warnings: tuple[str, ...] = ()
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def _rows(self) -> Rows:
        return [
            {
                **plain_fields(each),
                **{
                    f"{name} on {found.where}": getattr(found, name)
                    for found in each.latencies
                    for name in ("latency_ms", "low_ms", "high_ms")
                },
            }
            for each in self.candidates
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings, and which latencies are not known, a sentence each."""
        return (*self.warnings, *(f"{abridged(names, 3)}: {reason}" for reason, names in self.unknown.items()))

    def _notes(self) -> Sequence[str]:
        return self.notes

    def __post_init__(self) -> None:
        object.__setattr__(self, "warnings", tuple(map(one_line, self.warnings)))

    @property
    def front(self) -> tuple[ModelCandidate, ...]:
        """The candidates of which none is both slower and less accurate than another."""
        return tuple(each for each in self.candidates if each.on_front)

    @property
    def pick(self) -> ModelCandidate | None:
        """The most accurate that fits; without accuracies the fastest that does. None where none does."""
        return next((each for each in self.candidates if each.fits), None)

    def __repr__(self) -> str:
        chosen = self.pick.name if self.pick else "none fits" if self.candidates else "no latency is known"
        return f"<Choice of {len(self.candidates)} networks on {', '.join(self.platforms)}: {chosen}>"

    def to_json(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the JSON form that scripts rely on: the front, or all candidates."""
        return {
            "platforms": list(self.platforms), "max_ms": self.max_ms, "max_memory_mb": self.max_memory_mb,
            "certainty": 100 * self.certainty, "candidates": len(self.candidates), "pick": self.pick and self.pick.name,
            "models": [each.to_json() for each in (self.candidates if everything else self.front)],
            "warnings": list(self.warnings),
            "unknown": [{"reason": reason, "models": list(names)} for reason, names in self.unknown.items()],
        }  # fmt: skip

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw latency against accuracy, the front with its intervals and the limit; of several platforms the decisive ones.

        Args:
            path: A PNG, or another format by its suffix; nothing is written where None.

        Returns:
            The Matplotlib figure.

        Raises:
            LatcastError: No accuracy is known; or the file cannot be written.
            MissingExtraError: Matplotlib is not installed.
        """
        rated = [each for each in self.candidates if each.accuracy is not None]
        if not rated:
            raise LatcastError("nothing to draw: no accuracy of any candidate is known; give a table of accuracies")
        shown = [each.decisive for each in rated]
        figure = pareto(
            [each.kept_ms if each.latency_ms is None else each.latency_ms for each in shown],
            [each.accuracy or 0.0 for each in rated], quality_name="top-1 accuracy, %",
            bounds_ms=([each.low_ms for each in shown], [each.high_ms for each in shown]), names=[each.name for each in rated],
            front=[each.on_front and each.familiar for each in rated],
            max_latency_ms=self.max_ms, title=", ".join(self.platforms),
        )  # fmt: skip
        axes = figure.axes[0]
        axes.set_xscale("log")
        axes.set_xlim(left=min(each.kept_ms for each in shown) / 10)  # room for the names to the left of their points
        axes.xaxis.set_major_formatter("{x:,g}")
        return drawn(figure, path)


def choose(
    on: On | Platforms,
    *,
    max_ms: float | None = None,
    models: Iterable[Model] | None = None,
    accuracies: Mapping[str, float] | None = None,
    trained_on: str = TRAINED_ON[-1],
    max_parameters: float | None = None,
    max_memory_mb: float | None = None,
    certainty: float = CERTAINTY,
    conditions: Conditions = STEADY,
    trust: bool = False,
    watch: Watch = lambda *_: None,
) -> Choice:
    """Find the networks that are accurate for their latency, and those that fit a budget.

    Args:
        on: A platform, or a list of them: a network is to fit on each. Of a device named without a precision, candidates that are
            quantised to int8 take the int8 platform, others the usual one.
        max_ms: Milliseconds that it may take; None for no limit.
        models: The candidates, as :func:`latcast.predict` takes models, folders of model files among them; None for the named
            networks whose accuracy on ImageNet was published.
        accuracies: Name of a candidate of ``models``, as given or its file's name, to its accuracy in percent; published names
            that it lacks have the published one.
        trained_on: The most that the weights of named networks may have seen: ``"imagenet-1k"``, ``"imagenet-21k"``, with which
            many are pre-trained, or ``"more"``. The accuracy is the best of these weights.
        max_parameters: Learned values that it may have.
        max_memory_mb: Megabytes that its weights and activations may take, see :func:`latcast.memory`.
        certainty: With which the limit of latency is to be met, between 0 and 1.
        conditions: Under each of which networks are ranked and are to fit, in place of the steady latency: until the first answer
            (loading and the first inference), after minutes of running, beside other programs.
        trust: Whether a ``.pt2`` file may run the code it may hold.
        watch: Told how many named networks are done, and of how many, where their kernels are found for the first time.

    Raises:
        LatcastError: No candidate is within the limits of size; the certainty is not between 0 and 1; or ``trained_on`` is
            another text, or given with own candidates; ``accuracies`` is given without.
        ModelError: A model cannot be read.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> found = latcast.choose("pixel4/tflite-2.10/gpu/fp16", max_ms=15)
        >>> found.pick.fits, found.pick.decisive.kept_ms <= 15
        (True, True)
    """
    if not 0 < certainty < 1:
        raise LatcastError(f"found the certainty {certainty:g}, expected one between 0 and 1, such as 0.9")
    positive(max_ms=max_ms, max_parameters=max_parameters, max_memory_mb=max_memory_mb)
    if trained_on not in TRAINED_ON:
        raise LatcastError(f"found trained_on '{trained_on}', expected one of {', '.join(TRAINED_ON)}")
    if models is not None and trained_on != TRAINED_ON[-1]:
        raise LatcastError("trained_on is of the named networks; give candidates of your own with their accuracies, without it")
    if models is None and accuracies:
        raise LatcastError("found accuracies, and no candidates that they are of; give the files or names of these, too")
    rated = {each.name: each for each in named_models(trained_on=trained_on) if each.top1_percent is not None}
    graphs = None if models is None else read_models(models_listed(models), ModelOptions(trust=trust))
    unused: list[str] = []
    if graphs is None:
        predictors = load_all(on)
        found_of = [named_candidates(each, rated, conditions, watch) for each in predictors]
        networks, columns = found_of[0][0], [column for _, under in found_of for column in under]
        trained_on_of = {name: each.trained_on for name, each in rated.items()}
    else:
        networks, trained_on_of, unused = own_candidates(graphs, accuracies or {}, rated)
        predictors, columns = own_columns(graphs, on, conditions)
    allowed = networks.parameters <= (np.inf if max_parameters is None else max_parameters)
    if graphs is None:
        allowed = allowed & ~np.isnan(networks.accuracy)
    if not allowed.any():
        raise LatcastError(f"none of {len(allowed)} candidates has at most {max_parameters:g} parameters; the fewest: "
                           f"{networks.parameters.min():.3g}")  # fmt: skip
    unknown: dict[str, list[str]] = {}
    for each in columns:
        for row in np.flatnonzero(allowed & np.isnan(each.kept_ms(certainty))).tolist():
            found = each.predictions[row]
            basis = found.condition_bases()[each.place]
            why = f"the latency {each.condition} on {found.platform} is not known ({basis})"
            unknown.setdefault(why, []).append(networks.names[row])
            allowed[row] = False
    candidates = _candidates(networks, columns, np.flatnonzero(allowed), max_ms, max_memory_mb, certainty)
    candidates = tuple(replace(each, trained_on=trained_on_of.get(each.name)) for each in candidates)
    platforms = tuple(dict.fromkeys(each.platform.id for each in predictors))
    said = [
        f"{each.platform}: this bundle's interval is not calibrated, so that the certainty is not known"
        for each in predictors
        if each.interval.level is None
    ]
    if trained_on_of and any(each.platform.precision in ("int8", "w8a16") for each in predictors):
        said.append("accuracies are those of the published weights, before quantising to 8 bits")
    if unused:
        said.append(f"{abridged(unused, 3)}: accuracies of no candidate")
    if len(candidates) > 1 and all(each.accuracy is None for each in candidates):
        said.append("no accuracy of the candidates is known, so that the pick is the fastest; give a table of accuracies")
    choice = Choice(platforms, max_ms, max_memory_mb, certainty, candidates, tuple(dict.fromkeys(said)),
                    {why: tuple(names) for why, names in unknown.items()})  # fmt: skip
    return replace(choice, warnings=(*choice.warnings, *_fallbacks(choice, predictors, graphs)))


def _candidates(
    networks: CandidateFacts, columns: Sequence[CandidateColumn], rows: np.ndarray, max_ms: float | None,
    max_memory_mb: float | None, certainty: float,
) -> tuple[ModelCandidate, ...]:  # fmt: skip
    if not len(rows):
        return ()
    kept_ms = np.stack([each.kept_ms(certainty) for each in columns], axis=1)
    covered = np.array([[found.coverage.share for found in each.predictions] for each in columns]).T
    memory = np.stack([each.memory_bytes for each in columns], axis=1).max(axis=1)
    able = (covered.min(axis=1) >= LEAST_COVERED) & (memory <= (np.inf if max_memory_mb is None else 1e6 * max_memory_mb))
    fits = able & (kept_ms.max(axis=1) <= (np.inf if max_ms is None else max_ms))
    chances = [np.full(len(memory), np.nan) if max_ms is None else each.probability(max_ms) for each in columns]
    front = front_of(np.nan_to_num(networks.accuracy, nan=-np.inf)[rows], kept_ms[rows], able[rows])
    limited = max_ms is not None or max_memory_mb is not None
    found = []
    for row, on_front in zip(rows.tolist(), front.tolist(), strict=True):
        latencies = tuple(
            CandidateLatency(
                each.predictions[row].platform, _number(each.latency_ms[row]), float(each.low_ms[row]), float(each.high_ms[row]),
                float(kept_ms[row, place]), _number(chance[row]), each.predictions[row].level,
                each.predictions[row].grade, bool(covered[row, place] >= LEAST_COVERED), each.condition,
            )
            for place, (each, chance) in enumerate(zip(columns, chances, strict=True))
        )  # fmt: skip
        found.append(
            ModelCandidate(
                networks.names[row], _number(networks.accuracy[row]), float(networks.macs[row]), float(networks.parameters[row]),
                int(memory[row]), bool(fits[row]) if limited else None, on_front, latencies,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda each: (-(each.accuracy or -1.0), each.decisive.kept_ms, each.name)))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def front_of(quality: np.ndarray, cost: np.ndarray, able: np.ndarray) -> np.ndarray:
    """Return the rows that no other beats: at least as good, at no more cost in any column, and better in one; (rows,) booleans.

    Args:
        quality: (rows,) more is better.
        cost: (rows, columns) less is better.
        able: (rows,) those that can beat others.

    >>> front_of(np.array([70.0, 75.0, 72.0]), np.array([[1.0], [2.0], [3.0]]), np.array([True, True, True])).tolist()
    [True, True, False]
    """
    as_good = (quality[None, :] >= quality[:, None]) & (cost[None, :, :] <= cost[:, None, :]).all(axis=2)
    better = (quality[None, :] > quality[:, None]) | (cost[None, :, :] < cost[:, None, :]).any(axis=2)
    return ~np.asarray((as_good & better & able[None, :]).max(axis=1))


def _fallbacks(found: Choice, predictors: Sequence[PlatformPredictor], graphs: Sequence[Graph] | None) -> list[str]:
    """Return a sentence for each platform whose delegate leaves a part of the pick to the CPU."""
    pick = found.pick
    where = {each.platform for each in pick.latencies} if pick else set()
    own = {each.platform.id: delegate_of(each.platform) for each in predictors if each.platform.id in where}
    delegates = {name: delegate for name, delegate in own.items() if delegate is not None}
    if pick is None or not delegates:
        return []
    graph = next((each for each in graphs or () if each.name == pick.name), None) or read_model(pick.name)
    there = {each.predictor.platform.id: each.graph for [each] in placed(predictors, [graph])}
    parts = {platform: partition(there[platform], delegate) for platform, delegate in delegates.items()}
    return [f"{pick.name} on {platform}: {each.sentence(each.crossing_ms)}" for platform, each in parts.items() if each.on_cpu]
