"""The measurements behind the accuracy tables: one store a platform, resumable, in pieces.

A platform's store holds the networks and kernels of each way of learning and the labels of the test networks. Each way has a
seed of its own, so that no way profits from another's measurements. Labels are taken in several passes between the other
pieces, so that they are spread over time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from latcast.datasets.store import Store
from latcast.kernels.rules import rules_for
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.plan import MeasurePlan
from latcast.measure.settings import WorkerSettings
from latcast.predictors.profiling import Stage, campaign_items, measure_again, measure_for_training
from latcast.records import Platform, Reference
from latcast.spaces.training_mix import published_networks

FOLDER = Path(".latcast/bench")

SEEDS = {"operators": 0, "kernels": 1, "networks": 2}

WAY_SECONDS = 300.0
"""Measuring time at which the ways are compared."""

PROFILE_SECONDS = 480.0
"""Measuring time, inside networks, of the predictor that is judged; :data:`WAY_SECONDS` of whole networks and
:data:`CALIBRATION_SECONDS` come on top, 15 minutes in all."""

CALIBRATION_SECONDS = 120.0

CALIBRATION_NETWORKS = 40

LABEL_PLAN = MeasurePlan(rounds=3, runs_per_round=6, warmup_runs=3, max_ms_per_round=300.0)

LABEL_PROCESSES = 6

PUBLISHED_PER_FAMILY = 4


@dataclass(frozen=True)
class Bench:
    """One platform to be judged."""

    runtime: str
    precision: str = "fp32"
    cpu: int | None = None

    @property
    def settings(self) -> WorkerSettings:
        cpus = None if self.cpu is None else (self.cpu,)
        return WorkerSettings(self.runtime, precision=self.precision, cpus=cpus, realtime=True)

    def platform(self) -> Platform:
        with self.store() as store:
            return Platform.parse(next(iter(store.platforms())))

    def store(self) -> Store:
        FOLDER.mkdir(parents=True, exist_ok=True)
        return Store(FOLDER / f"{self.runtime}-{self.precision}.sqlite")


def test_networks() -> list[Reference]:
    """Real networks of families that no training ever sees."""
    return published_networks(per_family=PUBLISHED_PER_FAMILY)


def take_labels(bench: Bench, processes: int, watch: Callable[[Progress], None]) -> None:
    """Brings every test network to this many processes of measurements."""
    items = [CampaignItem(reference, plan=LABEL_PLAN) for reference in test_networks()]
    with bench.store() as store:
        Campaign(store, bench.settings, items, processes=processes, progress=watch).run()


def take_way(bench: Bench, way: str, seconds: float, watch: Callable[[Stage], None]) -> None:
    """Measures what a way of learning needs, for this many seconds beyond what the store holds."""
    with bench.store() as store:
        measure_for_training(bench.settings, store, budget_s=seconds, way=way, seed=SEEDS[way], watch=watch)


def take_calibration(bench: Bench, watch: Callable[[Stage], None]) -> None:
    """Measures some of the profiled networks in further processes: the interval is calibrated on them."""
    rules = rules_for(bench.runtime, bench.precision)
    [(items, _)] = campaign_items("operators", PROFILE_SECONDS, SEEDS["operators"], rules)
    with bench.store() as store:
        measure_again(bench.settings, store, bench.platform(), items, CALIBRATION_NETWORKS, CALIBRATION_SECONDS, watch)


@cache
def way_keys(bench: Bench, way: str, seconds: float) -> frozenset[str]:
    """Keys of everything that a way may have measured."""
    parts = campaign_items(way, seconds, SEEDS[way], rules_for(bench.runtime, bench.precision))
    return frozenset(item.reference.key for items, _ in parts for item in items)
