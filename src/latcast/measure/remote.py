"""Measuring on other machines, through a Dask scheduler: the same records, from wherever the device is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol

from latcast.cluster import connected, map_over_workers, require_offer
from latcast.errors import MeasurementError
from latcast.measure.client import Item, MeasuringClient, carried
from latcast.measure.probe import QuietTimes, QuietTimesFile
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.measure.wires import DASK, scheme_of
from latcast.records import Measurement, Platform


class Measurer(Protocol):
    """Measures on one platform; :class:`latcast.measure.client.MeasuringClient` here, :class:`RemoteClient` elsewhere."""

    @property
    def platform(self) -> Platform:
        """The platform that it measures."""

    @property
    def lanes(self) -> int:
        """Number of batches that it can measure at a time."""

    @property
    def quiet_ms(self) -> tuple[float, ...]:
        """Quiet times of its probe as last calibrated; empty where the records alone hold them."""

    def calibrate(self) -> None:
        """Do nothing: each worker calibrates by itself."""

    def restart(self) -> None:
        """Do nothing: each worker replaces its process."""

    def measure(
        self, items: Sequence[Item], plan: MeasurePlan, announce: Callable[[Item, str], None] = lambda item, stage: None
    ) -> Iterator[tuple[int, Measurement]]:
        """Measure all items in batches, several at a time, and yield each one's index and record as its batch is finished."""

    def __enter__(self) -> Measurer: ...

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None: ...


def open_measurer(settings: WorkerSettings, quiet_times: QuietTimes) -> Measurer:
    """Start measuring where the settings say.

    Raises:
        RuntimeFailure: The runtime cannot be started.
        ClusterError: The scheduler does not answer, or none of its workers offers the platform.
    """
    return RemoteClient(settings) if scheme_of(settings.address) == DASK else MeasuringClient(settings, quiet_times)


class RemoteClient:
    """Measures on one platform through the workers of a scheduler that offer it. A context manager.

    Every batch is a task: it goes to a worker that is free, and to another if that is lost. A worker keeps its probe's quiet time
    in a file and writes it into each record.

    Raises:
        ClusterError: The scheduler does not answer, or none of its workers offers the platform.
        RuntimeFailure: The worker could not start the runtime.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self._turn = 0
        with ExitStack() as opened:
            self._cluster = opened.enter_context(connected(settings.address.removeprefix(f"{DASK}:")))
            require_offer(self._cluster, settings.offer, patience_s=5.0)
            [(_, platform)] = map_over_workers(self._cluster, platform_of, [_bare(settings)], settings.offer)
            self.platform = Platform.parse(platform)
            self._opened = opened.pop_all()

    def __enter__(self) -> RemoteClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._opened.close()

    @property
    def lanes(self) -> int:
        """Workers that offer the platform now."""
        return require_offer(self._cluster, self.settings.offer, patience_s=60.0)

    quiet_ms: tuple[float, ...] = ()

    def calibrate(self) -> None:
        """Do nothing: each worker calibrates by itself."""

    def restart(self) -> None:
        """Have each worker replace its process."""
        self._turn += 1

    def measure(
        self, items: Sequence[Item], plan: MeasurePlan, announce: Callable[[Item, str], None] = lambda item, stage: None
    ) -> Iterator[tuple[int, Measurement]]:
        """Measure all items in batches, several at a time, and yields each one's index and record as its batch is finished.

        Raises:
            MeasurementError: Two workers that offer one platform differ.
            ClusterError: No worker offers the platform.
        """
        starts = range(0, len(items), plan.batch_size)
        batches = [
            Batch(_bare(self.settings), self._turn, plan.to_json(), tuple(
                carried(item, self.settings) for item in items[start : start + plan.batch_size]
            ))
            for start in starts
        ]  # fmt: skip
        for item in items:
            announce(item, "running")
        for place, records in map_over_workers(self._cluster, measure_batch, batches, self.settings.offer):
            for number, record in records:
                measurement = Measurement.from_json(record)
                if measurement.platform != self.platform.id:
                    raise MeasurementError(
                        f"two workers offer '{self.settings.offer}' and differ: {measurement.platform} and "
                        f"{self.platform}; give them different names: latcast worker --device NAME"
                    )
                yield starts[place] + number, measurement


def _bare(settings: WorkerSettings) -> WorkerSettings:
    """Return the settings without this machine's own paths and callbacks."""
    return replace(settings, address="", cpus=None, realtime=False)


@dataclass(frozen=True)
class Batch:
    """The subjects of one task.

    Attributes:
        settings: The platform.
        turn: Batches of different turns are measured by different processes.
        plan: As JSON.
        items: With the content of their files.
    """

    settings: WorkerSettings
    turn: int
    plan: Mapping[str, Any]
    items: tuple[Item, ...]


@dataclass
class _Host:
    """CPUs and priority of a worker's process, and the measuring client that it keeps open."""

    cpus: tuple[int, ...] | None = None
    realtime: bool = False
    opened: tuple[WorkerSettings, int, MeasuringClient] | None = None

    def client(self, settings: WorkerSettings, turn: int) -> MeasuringClient:
        if self.opened is not None:
            known, before, client = self.opened
            if known == settings and (before == turn or turn < 0):
                return client
            self.opened = None
            client.close()
        own = replace(settings, cpus=self.cpus, realtime=self.realtime)
        client = MeasuringClient(own, QuietTimesFile())
        self.opened = (settings, max(turn, 0), client)
        return client


_HOST = _Host()


def describe_host(cpus: tuple[int, ...] | None, realtime: bool) -> None:
    """Set, in a worker's process, the CPUs and the priority of its measurements."""
    _HOST.cpus, _HOST.realtime = cpus, realtime


def platform_of(settings: WorkerSettings) -> str:
    """Return the full id of a platform, asked of the worker that has it."""
    return _HOST.client(settings, -1).platform.id


def measure_batch(batch: Batch) -> list[tuple[int, dict[str, Any]]]:
    """Measure a batch on the worker's machine: index in the batch and record of each item."""
    client = _HOST.client(batch.settings, batch.turn)
    return [(number, record.to_json()) for number, record in client.measure(batch.items, MeasurePlan.from_json(batch.plan))]
