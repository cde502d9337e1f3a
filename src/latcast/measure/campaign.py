"""Many measurements on one platform, over several processes, that may be interrupted at any moment.

The state of a campaign is the store it writes into: each record is committed as it arrives, and what the store does not hold is
left to do. Killing a campaign loses only the batch under way; running it again repeats nothing; asking for more processes later
adds to the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from latcast.errors import MeasurementError
from latcast.measure.client import Item
from latcast.measure.probe import QuietTimes
from latcast.measure.record import with_moment
from latcast.measure.remote import Measurer, open_measurer
from latcast.measure.settings import NETWORK_PLAN, MeasurePlan, WorkerSettings
from latcast.records import Measurement, Platform


@dataclass(frozen=True)
class Tally:
    """The numbers of good and failed records of one subject in a store."""

    succeeded: int = 0
    failed: int = 0


class MeasurementSink(QuietTimes, Protocol):
    """A place for a campaign's records; :class:`latcast.datasets.store.Store` is one."""

    def add(self, measurement: Measurement) -> bool:
        """Commit one record; return False where it was there already."""

    def tallies(self, platform: str, role: str) -> Mapping[str, Tally]:
        """Return reference key to the number of its records on a platform."""


@dataclass(frozen=True)
class CampaignItem(Item):
    """A subject with its role, its plan, and what its record's moment says beside what the worker saw."""

    plan: MeasurePlan = field(default=NETWORK_PLAN)
    moment: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Progress:
    """The progress of a campaign.

    Attributes:
        done: Records that exist, of those wanted; records found at the start count.
        total: Records wanted: subjects times processes. Falls when a subject fails, which is not tried again.
        failed: Subjects that failed so far.
        seconds: Time since the campaign was started this time.
        name: Subject that the worker is busy with, or has just finished.
        stage: "loading", "running", "profiling", "closing", or "measured".
    """

    done: int
    total: int
    failed: int
    seconds: float
    name: str
    stage: str


@dataclass(frozen=True)
class CampaignReport:
    """The result of one run of a campaign.

    Attributes:
        added: Records added this time, failed ones included.
        failures: Errors of the subjects that failed this time, by name.
        missing: Records still wanted; 0 unless the budget ran out.
    """

    platform: Platform
    added: int
    failures: Mapping[str, str]
    missing: int
    seconds: float

    @property
    def complete(self) -> bool:
        return self.missing == 0


class Campaign:
    """A resumable run of many measurements on one platform.

    Each pass starts a new worker process and measures everything that has fewer than ``processes`` records, so that every
    subject is seen by several processes at different times. A subject that failed, in this run or in the store, is skipped.

    Args:
        sink: Takes the records and knows those that exist.
        settings: The platform and how to start its worker.
        items: Subjects to measure; of equal references the first counts.
        processes: Records wanted of each subject, each from another process.
        process_s: Seconds of measuring after which the next batch gets a fresh worker process, so that the effects of one process
            (its memory's layout) average out in a campaign of one pass; None keeps one process for each pass.
        budget_s: Seconds; no more are begun than are expected to end by then, at the pace so far. None sets no limit.
        progress: Called at every step.
    """

    def __init__(
        self,
        sink: MeasurementSink,
        settings: WorkerSettings,
        items: Iterable[CampaignItem],
        *,
        processes: int = 1,
        process_s: float | None = None,
        budget_s: float | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        if processes < 1:
            raise MeasurementError(f"a campaign over {processes} processes measures nothing; expected at least 1")
        self._sink = sink
        self._settings = settings
        self._items = list({(item.role, item.reference.key): item for item in reversed(list(items))}.values())[::-1]
        self._processes = processes
        self._process_s = process_s
        self._budget_s = budget_s
        self._progress = progress
        self._counts: dict[CampaignItem, int] = {}
        self._failures: dict[str, str] = {}
        self._added = 0
        self._start_s = self._measuring_s = 0.0

    def run(self) -> CampaignReport:
        """Measure until nothing is left or the budget is spent, and store batch by batch.

        Raises:
            RuntimeFailure: The runtime cannot be started.
            MeasurementError: The settings cannot be met, or a stored record cannot be read.
        """
        self._start_s = time.monotonic()
        self._added, self._failures, self._measuring_s = 0, {}, 0.0
        with open_measurer(self._settings, self._sink) as client:
            tallies = {role: self._sink.tallies(client.platform.id, role) for role in {item.role for item in self._items}}
            known = {item: tallies[item.role].get(item.reference.key, Tally()) for item in self._items}
            self._counts = {item: tally.succeeded for item, tally in known.items() if not tally.failed}
            fresh_s: float | None = self._seconds()
            while (waiting := [item for item, count in self._counts.items() if count < self._processes]) and not self._spent():
                for batch in _batches_of(waiting, client.lanes):
                    if self._spent():
                        break
                    batch = batch[: self._fitting()]
                    if not batch:
                        return self._report_on(client.platform)
                    if fresh_s is None or (self._process_s is not None and self._seconds() - fresh_s >= self._process_s):
                        client.restart()
                        fresh_s = self._seconds()
                    self._measure(client, batch)
                fresh_s = None
            return self._report_on(client.platform)

    def _report_on(self, platform: Platform) -> CampaignReport:
        return CampaignReport(platform, self._added, dict(self._failures), self._total() - self._done(), self._seconds())

    def _measure(self, client: Measurer, batch: Sequence[CampaignItem]) -> None:
        begun_s = time.monotonic()
        for number, measurement in client.measure(batch, batch[0].plan, lambda item, stage: self._report(item.name, stage)):
            item = batch[number]
            self._sink.add(with_moment(measurement, item.moment))
            self._added += 1
            if measurement.ok:
                self._counts[item] += 1
            else:
                self._failures[item.name] = str(measurement.error)
                del self._counts[item]
            self._report(item.name, "measured")
        self._measuring_s += time.monotonic() - begun_s

    def _done(self) -> int:
        return sum(min(count, self._processes) for count in self._counts.values())

    def _total(self) -> int:
        return len(self._counts) * self._processes

    def _seconds(self) -> float:
        return time.monotonic() - self._start_s

    def _fitting(self) -> int | None:
        """Return how many items the rest of the budget has time for, at the pace so far; None before anything is measured."""
        if self._budget_s is None or not self._added:
            return None
        return int((self._budget_s - self._seconds()) * self._added / self._measuring_s)

    def _spent(self) -> bool:
        return self._budget_s is not None and self._seconds() >= self._budget_s

    def _report(self, name: str, stage: str) -> None:
        self._progress(Progress(self._done(), self._total(), len(self._failures), self._seconds(), name, stage))


def _batches_of(items: Sequence[CampaignItem], lanes: int) -> Iterator[list[CampaignItem]]:
    """Yield consecutive items with the same plan, at most one batch for each lane."""
    batch: list[CampaignItem] = []
    for item in items:
        if batch and (item.plan != batch[0].plan or len(batch) >= lanes * item.plan.batch_size):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
