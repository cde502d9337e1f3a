"""The plan of a measurement (rounds and runs), and the settings of the worker process that takes it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from latcast.errors import MeasurementError
from latcast.records import PRECISIONS, UNIT_KINDS, Unit

PAGE_CACHES = ("", "warm", "dropped")
"""What a start finds of its file in the system's memory; the first is no start."""


@dataclass(frozen=True)
class MeasurePlan:
    """Rounds over a batch of subjects, bursts of runs in each round, a probe reading around each burst.

    A burst is one untimed run, then timed runs back to back until ``burst_runs`` or ``burst_ms`` is reached. The untimed run
    refills the caches after the probe; a subject slower than ``burst_ms`` displaces its own data anyway and has none.

    Attributes:
        rounds: Passes over the batch. Between two rounds of one subject all others run, so that rounds see the host at
            different moments.
        runs_per_round: Timed runs of a subject in one round.
        warmup_runs: Untimed runs before a subject's first round.
        max_ms_per_round: A round ends early when its runs have taken this long, probes included; one timed run is always
            taken. Warm-ups end at the same limit.
        burst_runs: Most runs between two probe readings.
        burst_ms: Longest time between two probe readings, unless a single run takes longer.
        batch_size: Most subjects loaded at once.
        batch_bytes: A batch takes no further subject once its loading has grown the worker's memory by this much.
        profile: Also ask the runtime which kernels it executed and how long each took.
        profiled_runs: Runs for the latencies of executed kernels.
        timeout_s: Longest time for loading a subject, or for one round of it, before the worker is given up.
        start: Time loading and the first run instead, of a file that the system has in its memory ("warm") or had to drop from it
            ("dropped"); empty where rounds are timed.
        beside: Time the subject alone and beside other programs in turn instead, scenarios separated by commas, each as
            :func:`latcast.predictors.conditions.parse_beside` reads it; empty where rounds are timed.

    Example:
        >>> import latcast
        >>> latcast.MeasurePlan(rounds=2, runs_per_round=6).profile
        False
    """

    rounds: int = 4
    runs_per_round: int = 12
    warmup_runs: int = 5
    max_ms_per_round: float = 120.0
    burst_runs: int = 4
    burst_ms: float = 1.5
    batch_size: int = 20
    batch_bytes: int = 1_500_000_000
    profile: bool = False
    profiled_runs: int = 15
    timeout_s: float = 120.0
    start: str = ""
    beside: str = ""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not value >= least:
                raise MeasurementError(f"a measurement plan has {name} = {value}; expected at least {least}")
        if self.start not in PAGE_CACHES:
            raise MeasurementError(f"a measurement plan has start = '{self.start}'; expected one of {', '.join(PAGE_CACHES[1:])}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MeasurePlan:
        """Read the output of :meth:`to_json`; raise a MeasurementError where a field is unknown or out of range."""
        unknown = sorted(set(data) - {field.name for field in fields(cls)})
        if unknown:
            raise MeasurementError(
                f"a measurement plan has no field '{unknown[0]}'; it was written by another version of latcast"
            )
        return cls(**data)


_LEAST: Mapping[str, float] = {
    "rounds": 1, "runs_per_round": 1, "warmup_runs": 0, "max_ms_per_round": 0, "burst_runs": 1, "burst_ms": 0,
    "batch_size": 1, "batch_bytes": 0, "profiled_runs": 1, "timeout_s": 0.01,
}  # fmt: skip

NETWORK_PLAN = MeasurePlan()
"""For networks of a few to some hundred milliseconds."""

START_PLAN = MeasurePlan(rounds=1, runs_per_round=1, warmup_runs=0, batch_size=1, start="warm")
"""For the start: one sample a process."""

KERNEL_PLAN = MeasurePlan(rounds=4, runs_per_round=12, warmup_runs=3, max_ms_per_round=20.0, batch_size=40)
"""For single kernels, of which a campaign takes thousands."""


SINGLE_THREADED_LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables that keep numpy's BLAS, and so the probe, on one thread."""


@dataclass(frozen=True)
class WorkerSettings:
    """A platform to measure on, and how to start the process that does it.

    Attributes:
        runtime: Name in the registry of runtimes.
        threads: Threads of one inference.
        precision: One of :data:`latcast.records.PRECISIONS`.
        device: First part of the platform id; ``local`` lets a device that is elsewhere name itself.
        qualifiers: Further parts of the unit's name (``("sse42",)`` makes ``cpu1+sse42``), for settings made by variables.
        cpus: CPUs to pin to; None chooses the last allowed ones, each of another core while there are enough; an empty tuple
            pins to none.
        realtime: Whether to run each round at a real-time priority, which keeps other processes out of the runs (a CPU a thread;
            root or CAP_SYS_NICE); None does so where it is permitted.
        probe: Whether the host's state is read and divided out.
        variables: Environment variables of the process, set before anything is loaded.
        imports: Modules the worker imports first: plug-ins that register themselves.
        library_path: Folder from which the worker imports before all others: the ``--target`` of pip for another version of the
            runtime's library, which the platform id then has.
        unit: The unit, where it is not ``cpuN``: a set of cores such as ``2large``, with as many threads, ``gpu`` or ``npu``.
        trust: Whether PyTorch may unpickle a ``.pt2`` file, which runs code of its author.
        made_up_weights: Whether a model file is written anew, with made-up weights, also where the runtime runs it as it is.
        address: Where it runs, see :mod:`latcast.measure.wires`: ``ssh://user@host``, ``adb:SERIAL``, or ``dask:`` and the
            address of a scheduler, whose workers that offer :attr:`offer` measure, with their own CPUs and priority. Empty: here.

    Example:
        >>> import latcast
        >>> settings = latcast.WorkerSettings("onnxruntime", threads=2, precision="int8", cpus=(0, 1))
        >>> settings.offer
        'latcast:local/onnxruntime/cpu2/int8'
    """

    runtime: str = "onnxruntime"
    threads: int = 1
    precision: str = "fp32"
    device: str = "local"
    qualifiers: tuple[str, ...] = ()
    cpus: tuple[int, ...] | None = None
    realtime: bool | None = False
    probe: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    address: str = ""
    library_path: str = ""
    trust: bool = False
    unit: str = ""
    made_up_weights: bool = False

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise MeasurementError(f"{self.threads} threads were asked for; at least 1 is needed")
        if self.precision not in PRECISIONS:
            raise MeasurementError(f"no precision is called '{self.precision}'; expected one of {', '.join(PRECISIONS)}")
        if self.unit and self.unit_kind == "cpu" and Unit.parse(self.unit).threads != self.threads:
            raise MeasurementError(f"the unit '{self.unit}' has {Unit.parse(self.unit).threads} threads, not {self.threads}")
        if self.unit and self.unit_kind not in UNIT_KINDS:
            raise MeasurementError(f"no unit is called '{self.unit}'; expected cpuN, a set of cores such as 2large, gpu or npu")
        if self.library_path and not Path(self.library_path).is_dir():
            raise MeasurementError(
                f"found no folder '{self.library_path}' to import the runtime's library from; "
                f"fill one with: pip install --no-deps --target {self.library_path} PACKAGE==VERSION"
            )
        if self.address and self.library_path:
            raise MeasurementError(
                f"the library_path is a folder of this machine, which {self.address} cannot import from; "
                "install the version you want there"
            )
        if self.address.startswith("dask:") and self.trust:
            raise MeasurementError("the workers of a scheduler trust no file; measure it here, or export it to ONNX")

    @property
    def unit_kind(self) -> str:
        """``cpu``, ``gpu`` or ``npu``."""
        return Unit.parse(self.unit).kind if self.unit else "cpu"

    @property
    def unit_name(self) -> str:
        """The unit as it is asked for; on a device with kinds of cores the platform id says which of them ran."""
        return "+".join([self.unit or f"cpu{self.threads}", *self.qualifiers])

    @property
    def offer(self) -> str:
        """The offer of a scheduler's worker that can measure this: the platform id without the runtime's version."""
        return f"latcast:{self.device}/{self.runtime}/{self.unit_name}/{self.precision}"

    @property
    def place(self) -> str:
        """The device in names of files before it has named itself; empty for this machine."""
        if self.device != "local":
            return self.device
        return re.sub(r"[^a-z0-9._]+", "-", self.address.lower()).strip("-")

    def process_variables(self) -> dict[str, str]:
        """Return the whole environment of a worker's process on this machine."""
        return {**os.environ, **self.own_variables()}

    def own_variables(self) -> dict[str, str]:
        """Return the environment variables that a worker's process gets in addition."""
        found = {
            "OMP_NUM_THREADS": str(self.threads),
            **dict.fromkeys(SINGLE_THREADED_LIBRARIES, "1"),
            "PYTHONUNBUFFERED": "1",
        }
        if self.library_path:
            folders = [str(Path(self.library_path).absolute()), os.environ.get("PYTHONPATH", "")]
            found["PYTHONPATH"] = os.pathsep.join(folder for folder in folders if folder)
        return {**found, **self.variables}
