"""Measures test networks in the same rounds, in a worker process; a store keeps the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import numpy as np

from latcast.environment import MOMENT
from latcast.fusion.decision import TimedBatch
from latcast.fusion.quantities import LATENCY, Quantity
from latcast.measure.client import Item
from latcast.measure.record import with_moment
from latcast.measure.remote import Measurer
from latcast.measure.settings import MeasurePlan
from latcast.records import ExecutedKernel, Measurement, Platform, Reference
from latcast.spaces.operator_pairs import NAME

if TYPE_CHECKING:
    from latcast.datasets.store import Store

BATCH = "batch"
"""Key in a measurement's moment: tag of the networks that were timed in the same rounds."""

EXECUTED_PLAN = MeasurePlan(rounds=1, runs_per_round=1, warmup_runs=0, batch_size=50, profile=True, profiled_runs=1)
"""One profiled run, which tells the kernels that a runtime executes."""


@dataclass(frozen=True)
class Execution:
    """Kernels that a runtime says it executed, by network key, and the errors of networks without any."""

    kernels: Mapping[str, tuple[ExecutedKernel, ...]]
    failures: Mapping[str, str] = field(default_factory=dict)


class Stopwatch(Protocol):
    """A means to measure test networks: a runtime on this machine, or a made-up one in tests."""

    platform: Platform
    quantity: Quantity

    def time(self, networks: Sequence[Reference]) -> TimedBatch:
        """Measure the costs of networks in the same rounds."""

    def remembered(self) -> list[TimedBatch]:
        """Return the batches of earlier calls of the program."""

    def executed(self, networks: Sequence[Reference]) -> Execution:
        """Ask the runtime for the kernels that it executes, by network."""

    def renew(self) -> None:
        """Go on in a new process, where memory lies elsewhere."""


class WorkerStopwatch:
    """A worker process; the records of each batch are committed at once.

    Args:
        client: The worker's other end.
        sink: Takes the records.
        stored: Earlier records of the platform, whose batches are remembered.
        quantity: The cost that is measured of a network.
    """

    def __init__(self, client: Measurer, sink: Store, stored: Iterable[Measurement] = (), quantity: Quantity = LATENCY) -> None:
        self.platform = client.platform
        self.quantity = quantity
        self._client = client
        self._sink = sink
        batches: dict[str, dict[str, np.ndarray]] = {}
        workers: dict[str, set[str]] = {}
        executed: dict[str, tuple[ExecutedKernel, ...]] = {}
        for measurement in stored:
            if measurement.reference.space != NAME or not measurement.ok:
                continue
            moment = measurement.environment.get(MOMENT, {})
            tag = moment.get(BATCH)
            if tag is not None and bool(measurement.executed) == quantity.plan.profile:
                costs = quantity.costs(measurement)
                if costs.all():
                    batches.setdefault(tag, {})[measurement.reference.key] = costs
                    workers.setdefault(tag, set()).add(str(moment.get("worker")))
            if measurement.executed:
                executed[measurement.reference.key] = measurement.executed
        self._remembered, self._executed = [_batch(batches[tag], workers[tag]) for tag in batches], executed

    def time(self, networks: Sequence[Reference]) -> TimedBatch:
        tag = uuid4().hex[:12]
        costs: dict[str, np.ndarray] = {}
        workers: set[str] = set()
        failures: dict[str, str] = {}
        records: list[Measurement] = []
        for number, measurement in self._client.measure([Item(reference) for reference in networks], self.quantity.plan):
            records.append(with_moment(measurement, {BATCH: tag}))
            key = networks[number].key
            if not measurement.ok:
                failures[key] = str(measurement.error)
                continue
            workers.add(str(measurement.environment.get(MOMENT, {}).get("worker")))
            costs[key] = self.quantity.costs(measurement)
            if not costs[key].all():
                del costs[key]
                failures[key] = "none of its kernels takes time by the runtime's profiler"
        self._sink.add_all(records)
        return _batch(costs, workers, failures)

    def remembered(self) -> list[TimedBatch]:
        return self._remembered

    def executed(self, networks: Sequence[Reference]) -> Execution:
        kernels = {r.key: self._executed[r.key] for r in networks if r.key in self._executed}
        asked = [reference for reference in networks if reference.key not in kernels]
        failures: dict[str, str] = {}
        records: list[Measurement] = []
        for number, measurement in self._client.measure([Item(reference) for reference in asked], EXECUTED_PLAN):
            records.append(measurement)
            if measurement.ok:
                kernels[asked[number].key] = measurement.executed
            else:
                failures[asked[number].key] = str(measurement.error)
        self._sink.add_all(records)
        return Execution(kernels, failures)

    def renew(self) -> None:
        self._client.restart()


def _batch(costs: Mapping[str, np.ndarray], workers: set[str], failures: Mapping[str, str] = MappingProxyType({})) -> TimedBatch:
    """Return the networks with the most rounds; others lost some in a crash and are timed again."""
    most = max((len(rounds) for rounds in costs.values()), default=0)
    whole = {key: rounds for key, rounds in costs.items() if len(rounds) == most}
    return TimedBatch(whole, next(iter(workers)) if len(workers) == 1 else "", failures)
