"""Candidates of a choice: named networks of known accuracy or the user's own models, with their latencies on each platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log
from pathlib import Path
from statistics import NormalDist

import numpy as np

from latcast.errors import ModelError
from latcast.forecast import network_meant, predict_each
from latcast.graph.importers import MODEL_SUFFIXES
from latcast.graph.ir import Graph
from latcast.graph.operators.table import graph_macs
from latcast.kernels.delegates import delegate_of
from latcast.kernels.memory import memory_of
from latcast.networks import read_model
from latcast.platforms import On, Platforms
from latcast.predictors.conditions import STEADY, Bounded, Conditions
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Coverage, Prediction
from latcast.predictors.starts import features_of_named
from latcast.spaces.catalogue import NetworkSummary, model
from latcast.spaces.lineages import lineage_of
from latcast.spaces.named_kernels import NamedKernels, Watch, named_crossings, named_kernels


@dataclass(frozen=True)
class CandidateFacts:
    """The candidates, arrays by candidate; an accuracy that is not known is NaN."""

    names: Sequence[str]
    accuracy: np.ndarray
    macs: np.ndarray
    parameters: np.ndarray


@dataclass(frozen=True)
class CandidateColumn:
    """The candidates, each on its platform, under one condition, arrays by candidate; a latency that is not known is NaN."""

    predictions: Sequence[Prediction]
    memory_bytes: np.ndarray
    condition: str
    place: int
    """Position of the condition among those that were asked for."""
    latency_ms: np.ndarray
    low_ms: np.ndarray
    high_ms: np.ndarray

    @classmethod
    def of_each_condition(cls, predictions: Sequence[Prediction], memory_bytes: np.ndarray) -> list[CandidateColumn]:
        """Return a column for each condition that was asked for, or one of the steady latency."""
        steady: list[dict[str, Bounded]] = [{"": (each.latency_ms, each.low_ms, each.high_ms)} for each in predictions]
        found = [each.under_conditions() or usual for each, usual in zip(predictions, steady, strict=True)]
        bounded = np.array([list(each.values()) for each in found], dtype=np.float64)  # None becomes NaN
        parts = zip(found[0], bounded.transpose(1, 2, 0), strict=True)
        return [cls(predictions, memory_bytes, name, place, *each) for place, (name, each) in enumerate(parts)]

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviations to either side that the interval reaches; one that is not calibrated is taken for 90 %."""
        levels = (90.0 if each.level is None else each.level for each in self.predictions)
        return np.array([NormalDist().inv_cdf(0.5 + level / 200) for level in levels])

    def kept_ms(self, certainty: float) -> np.ndarray:
        """Return the latency that each does not exceed with a certainty: its logarithm is normal on either side.

        Where the interval alone is known, that is its upper bound, for as much certainty as there is of that.
        """
        score = NormalDist().inv_cdf(certainty)
        reach = np.log(self.high_ms / self.latency_ms) if score > 0 else np.log(self.latency_ms / self.low_ms)
        bound_ms = np.where(score <= self.deviations, self.high_ms, np.nan)
        return np.where(np.isnan(self.latency_ms), bound_ms, self.latency_ms * np.exp(score * reach / self.deviations))

    def probability(self, max_ms: float) -> np.ndarray:
        """Return the probability that each latency is at most ``max_ms``."""
        distance = log(max_ms) - np.log(self.latency_ms)
        reach = np.where(distance > 0, np.log(self.high_ms / self.latency_ms), np.log(self.latency_ms / self.low_ms))
        score = self.deviations * distance / np.maximum(reach, 1e-9)
        normal = NormalDist()
        return np.array([normal.cdf(each) for each in np.clip(score, -8, 8).tolist()])


def named_candidates(
    predictor: PlatformPredictor, rated: Mapping[str, NetworkSummary], conditions: Conditions, watch: Watch
) -> tuple[CandidateFacts, list[CandidateColumn]]:
    """Return the named networks, and their columns on a platform."""
    found: NamedKernels = named_kernels(predictor.rules, watch)
    networks = [rated.get(each.name, replace(each, top1_percent=None)) for each in found.networks]
    names = [each.name for each in networks]
    facts = CandidateFacts(
        names,
        np.array([np.nan if each.top1_percent is None else each.top1_percent for each in networks]),
        np.array([1e6 * (each.million_macs or np.nan) for each in networks]),
        np.array([1e6 * each.million_parameters for each in networks]),
    )
    precision, delegate = predictor.platform.precision, delegate_of(predictor.platform)
    crossings = np.zeros((len(names), 2)) if delegate is None else named_crossings(delegate, watch)
    estimates = predictor.estimate_table(found.table)
    crossing_ms = np.array([0.0 if delegate is None else delegate.crossing_ms(*each) for each in crossings.tolist()])
    crossing_ms = crossing_ms * ~estimates.measured
    latency_ms = estimates.latency_ms + crossing_ms
    covered = estimates.covered_share * (1 - crossing_ms / latency_ms)
    columns = (each.tolist() for each in (latency_ms, *predictor.bounds_ms(estimates, crossing_ms), covered))
    grades = predictor.grades(estimates, [lineage_of(model(name)) for name in names])
    predictions = [
        Prediction(name, predictor.platform.id, ms, low_ms, high_ms, Coverage(share, ()), grade, level=predictor.interval.level)
        for name, ms, low_ms, high_ms, share, grade in zip(names, *columns, grades, strict=True)
    ]
    if conditions != STEADY:
        predictions = conditions.added_to(predictions, predictor, partial(features_of_named, found, precision))
    memory_bytes = found.memory_bytes(precision)
    for row, name in enumerate(names):
        meant = network_meant(name, predictor)
        if meant is not None:
            graph = replace(read_model(meant), name=name)
            [predictions[row]] = predictor.predict_many([graph], conditions=conditions)
            memory_bytes[row] = memory_of(graph, predictor.rules, precision).total_bytes
    return facts, CandidateColumn.of_each_condition(predictions, memory_bytes)


def own_candidates(
    graphs: Sequence[Graph], accuracies: Mapping[str, float], rated: Mapping[str, NetworkSummary]
) -> tuple[CandidateFacts, dict[str, str | None], list[str]]:
    """Return the user's own candidates, of published names what their weights were trained on, and names of unused accuracies.

    Accuracies stand under a candidate's name, or the file's name with or without suffix; other published names have theirs.
    """
    if not graphs:
        raise ModelError(f"found no candidates; expected model files ({', '.join(MODEL_SUFFIXES)}), folders of them, or names")
    names = [graph.name for graph in graphs]
    spelled = [(graph.name, graph.called, Path(graph.name).name, Path(graph.name).stem) for graph in graphs]
    given = [next((accuracies[text] for text in each if text in accuracies), None) for each in spelled]
    published = {
        graph.name: rated[graph.name]
        for graph, own in zip(graphs, given, strict=True) if own is None and graph.called and graph.name in rated
    }  # fmt: skip
    known = [published[name].top1_percent if name in published else own for name, own in zip(names, given, strict=True)]
    macs, parameters = np.array([[float(graph_macs(graph)), float(graph.parameter_count)] for graph in graphs]).T
    trained_on_of = {name: each.trained_on for name, each in published.items()}
    unused = sorted({*accuracies}.difference(*spelled))
    return CandidateFacts(names, np.array(known, dtype=float), macs, parameters), trained_on_of, unused


def own_columns(
    graphs: Sequence[Graph], on: On | Platforms, conditions: Conditions
) -> tuple[list[PlatformPredictor], list[CandidateColumn]]:
    """Return the platforms of the user's own candidates, and their columns."""
    predictors, columns = list[PlatformPredictor](), list[CandidateColumn]()
    for there in predict_each(graphs, on, breakdown=False, conditions=conditions):
        memory_bytes = [
            memory_of(graph, at.rules, at.platform.precision, kernels).total_bytes
            for graph, (at, kernels, _) in zip(graphs, there, strict=True)
        ]
        columns += CandidateColumn.of_each_condition([each.prediction for each in there], np.array(memory_bytes))
        predictors += [each.predictor for each in there]
    return predictors, columns
