"""Networks that are searched for (Table 7), whether what a search picks meets its limit, and AutoFormer's members (Table 8).

They are measured on the platforms of the predictors, best into the store of the profile that a predictor was trained on:
latencies are those of a quiet host, and each store keeps what it knows of the quiet state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.graph.operators import graph_macs
from latcast.measure.labels import Label, label_error
from latcast.predictors.metrics import judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Reference
from latcast.search.constrained_search import NothingWithinLimitError, SearchPlan, search_encodings
from latcast.search.encodings import EncodingPredictor
from latcast.search.objective import SizeObjective
from latcast.spaces import build
from latcast.spaces.catalogue import model
from latcast.spaces.families.variants import round_channels, scaled_parameters
from latcast.spaces.nas.supernet import SUPERNETS
from latcast.training.profiling import Stage
from papers.harness import Cell, PaperTable, Watch, unwatched
from papers.litepred import paper

if TYPE_CHECKING:
    from latcast.datasets.store import Store

SPACES = ("ofa_mobilenet_v3", "ofa_proxylessnas")

TABLE_SPACE = "ofa_mobilenet_v3"
"""The space of Once-for-all that Table 7 is searched in."""

QUANTILES = (0.25, 0.5, 0.75)
"""Limits at which picks are checked: of the predicted latencies of random members."""

RANDOM_MEMBERS = 1_000

PICKS = 4
"""Of each search, the best ones: the nearest to its limit."""

OBJECTIVE = "macs"
"""No accuracy is at hand."""


@dataclass(frozen=True)
class MeasuredPlatform:
    """A predictor with what was measured of its platform.

    Attributes:
        predictor: Of the platform.
        labels: Reference key to the measured latency, for networks that were measured.
    """

    predictor: PlatformPredictor
    labels: Mapping[str, Label]

    @property
    def name(self) -> str:
        return self.predictor.platform.id

    def measured_ms(self, reference: Reference) -> float | None:
        """None where it was not measured, or could not be."""
        label = self.labels.get(reference.key)
        return None if label is None else label.latency_ms

    @classmethod
    def of(cls, predictor: PlatformPredictor, store: Store | None) -> MeasuredPlatform:
        """With what a store holds by now; without one, nothing is measured."""
        found = [] if store is None else store.labels(platform=predictor.platform.id, role="network")
        return cls(predictor, {label.reference.key: label for label in found})


@dataclass(frozen=True)
class Pick:
    """A network that a search found.

    Attributes:
        space: It was searched in.
        limit: What the limit is called: "25 % of the space", "MobileNetV2".
        limit_ms: The limit.
        confident: Whether the limit was held to the upper bound of the interval.
        reference: The network.
        objective: Millions of multiply-accumulates.
        latency_ms: Predicted.
    """

    space: str
    limit: str
    limit_ms: float
    confident: bool
    reference: Reference
    objective: float
    latency_ms: float


def mobilenet_v3_narrow() -> Reference:
    """MobileNetV3-Large at width 0.75 (Howard et al. 2019, Table 3: 155 M MACs, 4.0 M parameters).

    Blocks expand by the same ratio of fewer channels; the stem and the hidden layer of the classifier keep theirs.
    """
    large: dict[str, Any] = dict(model("mobilenet_v3_large").parameters)
    widths = scaled_parameters(large, 0.75, "widths")["widths"]
    expanded = []
    for stage, hidden in enumerate(large["expanded"]):
        before = (16, 16) if stage == 0 else (large["widths"][stage - 1], widths[stage - 1])
        inside = (large["widths"][stage], widths[stage])
        pairs = [before, *[inside] * (len(hidden) - 1)]
        expanded.append([round_channels(each * narrow / full) for each, (full, narrow) in zip(hidden, pairs, strict=True)])
    narrowed = {**large, "widths": widths, "expanded": expanded, "head": round_channels(0.75 * large["head"])}
    return Reference("mobilenet_v3", narrowed, "mobilenet_v3_large_0_75")


def baselines() -> dict[str, Reference]:
    """Return the MobileNets of Table 7."""
    return {
        "MobileNetV2": model("mobilenet_v2"),
        "MobileNetV3×0.75": mobilenet_v3_narrow(),
        "MobileNetV3": model("mobilenet_v3_large"),
    }


def picks_at_quantiles(
    predictor: PlatformPredictor, *, evaluations: int = paper.SEARCHED, watch: Watch = unwatched
) -> list[Pick]:
    """Return the picks of searches for a platform at limits that a quarter, half and three quarters of a space meet."""
    found = []
    for space in SPACES:
        encoded = EncodingPredictor(predictor, space)
        members_ms = encoded.latencies_ms(encoded.supernet.distinct_encodings(RANDOM_MEMBERS, seed=0))
        for place, quantile in enumerate(QUANTILES):
            watch(Stage(f"searching {space} for {predictor.platform.runtime}", place / len(QUANTILES)))
            limit_ms = float(np.quantile(members_ms, quantile))
            for confident in (False, True):
                limit = f"{100 * quantile:g} % of the space"
                found += _picks(encoded, limit, limit_ms, confident, PICKS, evaluations)
    return found


def picks_at_baselines(
    predictor: PlatformPredictor, *, evaluations: int = paper.SEARCHED, watch: Watch = unwatched
) -> list[Pick]:
    """Return the best network of Once-for-all's space that is predicted to be as fast as each MobileNet is predicted to be."""
    encoded = EncodingPredictor(predictor, TABLE_SPACE)
    found = []
    known = baselines()
    for place, (name, reference) in enumerate(known.items()):
        watch(Stage(f"searching {TABLE_SPACE} for {predictor.platform.runtime}", place / len(known)))
        (forecast,) = predictor.predict_many([build(reference)])
        for confident in (False, True):
            found += _picks(encoded, name, forecast.latency_ms, confident, 1, evaluations)
    return found


def _picks(encoded: EncodingPredictor, limit: str, limit_ms: float, confident: bool, count: int, evaluations: int) -> list[Pick]:
    """Return the best networks within a limit; none where even the fastest is slower."""
    plan = SearchPlan(limit_ms, confident, evaluations)
    try:
        chosen = search_encodings(encoded, SizeObjective(OBJECTIVE, encoded), plan).networks(count)
    except NothingWithinLimitError:
        return []
    return [
        Pick(encoded.supernet.name, limit, limit_ms, confident, found.reference, found.objective, found.latency_ms)
        for found in chosen
    ]


def picks_comparison(platforms: Sequence[tuple[MeasuredPlatform, Sequence[Pick]]]) -> PaperTable:
    """Return the share of picks that meet their limit when measured, by platform, space, and what was held to the limit."""
    rows: list[tuple[Cell, ...]] = []
    for confident in (False, True):
        of_all: list[tuple[Pick, float]] = []
        for platform, picks in platforms:
            for space in SPACES:
                part = [pick for pick in picks if pick.space == space and pick.confident == confident]
                found = [(pick, platform.measured_ms(pick.reference)) for pick in part]
                measured = [(pick, measured_ms) for pick, measured_ms in found if measured_ms is not None]
                of_all += measured
                rows.append((platform.name, space, _held(confident), len(part), *_share(measured)))
        count = sum(pick.confident == confident for _, picks in platforms for pick in picks)
        rows.append(("all", "all", _held(confident), count, *_share(of_all)))
    return PaperTable(
        "picks", f"whether the {PICKS} best networks under a limit meet it when measured, at {len(QUANTILES)} limits a space",
        ("platform", "space", "held to the limit", "picks", "measured", "within limit %", "highest, % of limit", "MAPE %"),
        tuple(rows),
        (
            f"Not in the paper. {paper.SEARCHED} networks looked at for each limit, most multiply-accumulates wanted; limits are "
            f"predicted latencies that {', '.join(f'{100 * each:g} %' for each in QUANTILES)} of {RANDOM_MEMBERS} random members "
            "meet.",
            "Equal networks found under several limits are measured once and counted each time.",
        ),
    )  # fmt: skip


def _held(confident: bool) -> str:
    return "upper bound" if confident else "prediction"


def _share(measured: Sequence[tuple[Pick, float]]) -> tuple[Cell, ...]:
    """Return number, share within the limit, the slowest relative to it, and MAPE."""
    if not measured:
        return (0, None, None, None)
    actual = np.array([measured_ms for _, measured_ms in measured])
    relative = actual / np.array([pick.limit_ms for pick, _ in measured])
    predicted = np.array([pick.latency_ms for pick, _ in measured])
    return (len(actual), 100 * float((relative <= 1).mean()), 100 * float(relative.max()), judge(predicted, actual).mape)


def table_7(platforms: Sequence[tuple[MeasuredPlatform, Sequence[Pick]]], watch: Watch = unwatched) -> PaperTable:
    """MobileNets and what was searched under their latency: sizes and latency, for want of accuracy."""
    rows: list[tuple[Cell, ...]] = []
    known = baselines()
    for name in known:
        for platform_name, accuracy, latency_ms, searched_accuracy, searched_ms in paper.TABLE_7[name]:
            rows.append((f"paper: {platform_name}", name, name, None, None, None, latency_ms, accuracy))
            rows.append((f"paper: {platform_name}", name, "OFA + LitePred", None, None, None, searched_ms, searched_accuracy))
    for place, (platform, picks) in enumerate(platforms):
        watch(Stage("table 7", place / len(platforms)))
        for name, reference in known.items():
            (forecast,) = platform.predictor.predict_many([build(reference)])
            rows.append((platform.name, name, name, *_described(platform, reference, forecast.latency_ms)))
            for pick in picks:
                if pick.limit == name:
                    title = f"OFA + latcast, {_held(pick.confident)}"
                    rows.append((platform.name, name, title, *_described(platform, pick.reference, pick.latency_ms)))
    return PaperTable(
        "table 7", "MobileNets, and the networks of Once-for-all's space searched under their latency",
        (
            "platform", "limit", "network", "million MACs", "million parameters", "predicted ms", "measured ms", "top-1 %",
        ),
        tuple(rows),
        (
            "Accuracy is missing for ours: neither Once-for-all's weights nor its accuracy predictor are at hand, so "
            f"{OBJECTIVE} were searched for.",
            "The limit is the predicted latency of the MobileNet; 'upper bound' held the 90 % interval's upper bound to it.",
        ),
    )  # fmt: skip


def _described(platform: MeasuredPlatform, reference: Reference, latency_ms: float) -> tuple[Cell, ...]:
    graph = build(reference)
    sizes = (graph_macs(graph) / 1e6, graph.parameter_count / 1e6)
    return (*sizes, latency_ms, platform.measured_ms(reference), None)


AUTOFORMER = "autoformer"
"""The smallest of the three."""

MEMBERS = 20

SEED = 0


def members(count: int = MEMBERS) -> list[Reference]:
    """Random members, the same ones each time."""
    return SUPERNETS.get(AUTOFORMER).sample(count, SEED)


def table_8(platforms: Sequence[MeasuredPlatform], references: Sequence[Reference] | None = None) -> PaperTable:
    """Return how well members are predicted, by platform, the paper's platforms first.

    Args:
        references: The members; :func:`members` where None. Those that were not measured are left out.
    """
    rows: list[tuple[Cell, ...]] = [
        (name, similar, None, 60 * hours, None, within_5, within_10, None, None, None)
        for name, similar, hours, within_5, within_10 in paper.TABLE_8
    ]
    for platform in platforms:
        rows.append((platform.name, "profiled itself", *_predicted(platform, members() if references is None else references)))
    return PaperTable(
        "table 8", "vision transformers of AutoFormer's space",
        (
            "platform", "learned from", "networks", "minutes measured", "MAPE %", "±5 %", "±10 %", "Spearman", "in interval %",
            "label error %",
        ),
        tuple(rows),
        (
            f"The paper adapts predictors of five sub-modules; here kernels of the platform's own profile, in whose training mix "
            f"vision transformers are (DeiT's variants), but no member of {AUTOFORMER}.",
            "Without the relative positions of AutoFormer's attention, as DeiT's blocks are.",
        ),
    )  # fmt: skip


def _predicted(platform: MeasuredPlatform, references: Sequence[Reference]) -> tuple[Cell, ...]:
    labels = [platform.labels[reference.key] for reference in references if reference.key in platform.labels]
    seconds = platform.predictor.card.get("seconds")
    minutes = None if seconds is None else seconds / 60
    if not labels:
        return (0, minutes, None, None, None, None, None, None)
    supernet = SUPERNETS.get(AUTOFORMER)
    forecasts = platform.predictor.predict_many([supernet.build(**label.reference.parameters) for label in labels])
    low, predicted, high = (np.array([getattr(each, name) for each in forecasts]) for name in ("low_ms", "latency_ms", "high_ms"))
    found = judge(predicted, np.array([label.latency_ms for label in labels]), low, high)
    error = label_error(labels).percent if any(label.halves_ms for label in labels) else None
    return (
        found.networks, minutes, found.mape, found.within_5, found.within_10, found.to_json()["spearman"],
        found.interval_coverage, error,
    )  # fmt: skip
