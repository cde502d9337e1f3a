"""Table 5: platforms that predictors are transferred to, from the whole pool (a) and without the platform's own framework (b)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from latcast.devices.adaptation import held_out_by_kernels
from latcast.devices.pool import Pool, ranked, similarities
from latcast.errors import DatasetError
from latcast.kernels.rules import FusionRules, platform_rules
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.samples import TrainingData, kernel_samples
from latcast.predictors.stored import collect_stored
from latcast.records import Platform
from papers.comparison import Cell, Comparison
from papers.litepred import paper
from papers.litepred.networks import FEWEST_NETWORKS, trained_on_kernels

if TYPE_CHECKING:
    from latcast.datasets.store import Store

TYPES = ("conv", "depthwise_conv")

PAUSE_S = 60.0
"""Longer times between two measurements are not counted as measuring."""

FRAMEWORKS = {"litert": "tflite", "tflite-gpu": "tflite"}
"""Runtimes that are one framework under two names."""


@dataclass(frozen=True)
class Target:
    """A platform with its kernels timed alone and networks to judge on.

    Attributes:
        platform, rules: What was measured.
        data: Kernels and networks.
        minutes: Spent on the kernels.
    """

    platform: Platform
    rules: FusionRules
    data: TrainingData
    minutes: float

    @classmethod
    def of(cls, store: Store, platform: Platform) -> Target:
        """What a store holds of a platform.

        Raises:
            DatasetError: Too few networks were measured.
        """
        rules = platform_rules(platform)
        data = collect_stored(store, platform, rules)
        if len(data.networks) < FEWEST_NETWORKS:
            raise DatasetError(
                f"found {len(data.networks)} measured networks of {platform}, expected at least {FEWEST_NETWORKS} to judge on"
            )
        moments = [each.taken_at for each in store.measurements(platform=platform.id, role="kernel")]
        return cls(platform, rules, data, minutes_of(moments))


def minutes_of(moments: Sequence[str]) -> float:
    """Time between measurements, pauses left out.

    Args:
        moments: When each was taken, ISO 8601; those without a time are passed over.
    """
    seconds = np.diff(sorted(datetime.fromisoformat(moment).timestamp() for moment in moments if moment))
    return float(seconds[seconds <= PAUSE_S].sum() / 60)


def framework(platform: Platform) -> str:
    """What the paper calls an inference framework, whatever the version."""
    return FRAMEWORKS.get(platform.runtime, platform.runtime)


def table_5(targets: Sequence[Target], pool: Pool, watch: Callable[[str, float], None] = lambda name, share: None) -> Comparison:
    """Networks on new platforms as sums of their adapted kernels, the paper's platforms first."""
    rows: list[tuple[Cell, ...]] = [
        (case, name, conv, depthwise, samples, 60 * hours, None, within_5, within_10, None, None, None)
        for case, name, conv, depthwise, samples, hours, within_5, within_10 in paper.TABLE_5
    ]
    notes = []
    for place, target in enumerate(targets):
        watch("table 5", place / len(targets))
        whole = pool.without(lambda each, target=target: each.id == target.platform.id)  # type: ignore[misc]
        others = whole.without(lambda each, target=target: framework(each) == framework(target.platform))  # type: ignore[misc]
        scratch, _ = _judged(target, whole, sources=False)
        for case, known in (("a", whole), ("b", others)):
            if case == "b" and len(known) == len(whole):
                notes.append(f"{target.platform}: no other platform of the pool has its framework, so (b) is (a).")
                continue
            if not len(known):
                notes.append(f"{target.platform}: no predictor is left for ({case}).")
                continue
            found, as_sums = _judged(target, known, sources=True)
            rows.append(
                (
                    case, target.platform.id, *(_most_similar(target, known, name) for name in TYPES), len(target.data.isolated),
                    target.minutes, found.mape, found.within_5, found.within_10, as_sums.mape, scratch.mape, scratch.within_10,
                )
            )  # fmt: skip
    return Comparison(
        "table 5", "networks on new platforms, by kernels transferred from the most similar predictors of a pool",
        (
            "case", "platform", "similar for Conv", "similar for DWConv", "kernels measured", "minutes measured", "MAPE %",
            "±5 %", "±10 %", "as sums, MAPE %", "from scratch, MAPE %", "from scratch, ±10 %",
        ),
        tuple(rows),
        (
            "The paper judges on members of five search spaces, as sums of their kernels; here on the networks of the store, "
            "variants of real families and random ones, with what running in company changes learned from other families.",
            "'As sums' is without that, as in the paper.",
            *notes,
        ),
    )  # fmt: skip


def _judged(target: Target, pool: Pool, *, sources: bool) -> tuple[Metrics, Metrics]:
    """With a network model from other families, and as sums of kernels."""
    predictor = trained_on_kernels(target.data, target.platform, target.rules, pool, sources, seed=0)
    networks = target.data.networks
    actual_ms = np.array([sample.latency_ms for sample in networks])
    as_sums = judge(predictor.estimate([sample.kernels for sample in networks]).latency_ms, actual_ms)
    return judge(held_out_by_kernels(predictor, networks).latency_ms, actual_ms), as_sums


def _most_similar(target: Target, pool: Pool, type_name: str) -> str | None:
    samples = kernel_samples(target.data.isolated).get(type_name)
    if samples is None:
        return None
    found = ranked(similarities(pool, type_name, samples.configurations, samples.latency_ms))
    return found[0].platform if found else None
