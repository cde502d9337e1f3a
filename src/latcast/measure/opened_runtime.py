"""A runtime opened at one setting in a worker: the process pinned, a probe of the host."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latcast import environment as env
from latcast.errors import MeasurementError, RuntimeFailure
from latcast.graph.ir import Graph
from latcast.measure import scheduling
from latcast.measure.probe import HostProbe
from latcast.measure.statistics import COMPUTE_WEIGHT, memory_weight
from latcast.measure.timing import Instruments
from latcast.records import Platform, Unit, short_version
from latcast.runtimes import ADDRESS_VARIABLE, get_runtime, runtime_on
from latcast.runtimes.model_file import ModelFile
from latcast.runtimes.protocol import Clock, DeviceRuntime, FileRuntime, Runtime, Session, StartRuntime, SystemClock


@dataclass(frozen=True)
class OpenedRuntime:
    """A runtime at one setting, ready to measure on.

    Attributes:
        instruments: Clock, probe and pre-emption counter.
        priority: Makes the context in which rounds run, and other processes that are given.
        environment: Machine, software and settings.
        cpus: CPUs that the process is pinned to.
    """

    runtime: Runtime
    platform: Platform
    instruments: Instruments
    priority: Callable[..., AbstractContextManager[object]]
    environment: Mapping[str, Any]
    cpus: tuple[int, ...]

    @property
    def probe_parts(self) -> tuple[str, ...]:
        return self.instruments.probe.parts if self.instruments.probe is not None else ()

    def load(self, graph: Graph, *, profile: bool = False) -> Session:
        """Return a session at this setting; raises what the runtime's ``load`` raises."""
        return self.runtime.load(graph, threads=self.platform.threads, precision=self.platform.precision, profile=profile)

    def load_file(self, file: ModelFile, *, profile: bool = False) -> Session:
        """Return a session of a model file as it is; raises what the runtime's ``load_file`` raises."""
        assert isinstance(self.runtime, FileRuntime)
        return self.runtime.load_file(file, threads=self.platform.threads, precision=self.platform.precision, profile=profile)

    def write(self, graph: Graph, folder: Path) -> Path:
        """Write a network as a file of the runtime's own; raise a RuntimeFailure for one that runs none."""
        if not isinstance(self.runtime, StartRuntime):
            raise RuntimeFailure(f"{self.runtime.name} runs no files here, so its start cannot be timed; time one that does")
        return self.runtime.write(graph, folder, self.platform.precision)

    def runs(self, path: Path) -> bool:
        """Return whether the runtime runs such a file as it is."""
        return isinstance(self.runtime, FileRuntime) and path.suffix.lower() in self.runtime.endings

    def probe_weights(self, touched_bytes: float) -> tuple[float, ...]:
        """Return the exponents of the probe's parts for a network; see :mod:`latcast.measure.statistics`.

        Args:
            touched_bytes: Its weights and activations.
        """
        if self.instruments.probe is None:
            return ()
        return (COMPUTE_WEIGHT, memory_weight(touched_bytes, env.cpu_description()["caches_bytes"].get("L2")))


def working_set_bytes(graph: Graph) -> float:
    """Return bytes of all weights and activations."""
    return sum(tensor.size_bytes for tensor in graph.tensors.values())


def open_runtime(
    runtime: str,
    *,
    threads: int = 1,
    precision: str = "fp32",
    device: str | None = "local",
    qualifiers: Sequence[str] = (),
    cpus: Sequence[int] | None = None,
    realtime: bool | None = False,
    probe: bool = True,
    imports: Sequence[str] = (),
    unit: str = "",
    system: Path = env.SYS,
) -> OpenedRuntime:
    """Pin this process, import the runtime and describe the environment; arguments as in ``WorkerSettings``.

    Where ``device`` is None, the runtime names the device, if it drives another one, else the machine does. ``system`` is the
    folder in which the kernel shows the CPUs' clocks.

    Raises:
        MeasurementError: The process cannot be pinned or prioritised as asked, or a module cannot be imported.
        RuntimeFailure: The runtime cannot run here, or not in this precision.
        UnknownNameError: No such runtime.
    """
    asked = "+".join([unit or f"cpu{threads}", *qualifiers])
    kind = Unit.parse(asked).kind
    chosen = cpus if cpus is None else tuple(cpus)
    if not os.environ.get(ADDRESS_VARIABLE):
        asked, chosen = scheduling.placed(asked, chosen)
    if chosen:
        # Before the runtime is imported: thread pools size themselves by what they may use.
        scheduling.pin(chosen)
    for module in imports:
        try:
            importlib.import_module(module)
        except ImportError as problem:
            raise MeasurementError(f"the worker cannot import '{module}' ({problem}); is it on PYTHONPATH?") from problem
    found = get_runtime(runtime)
    if isinstance(found, DeviceRuntime):
        asked = found.place(asked)
    else:
        found = runtime_on(found, kind)
    reason = found.available()
    if reason is not None:
        raise RuntimeFailure(reason)
    if precision not in found.precisions:
        raise RuntimeFailure(f"{found.name} cannot run {precision} here; it can run {', '.join(found.precisions)}")
    # A runtime that plays recorded runs back brings its own clock, and the state of this host does not matter.
    own_clock = getattr(found, "clock", None)
    clock: Clock = own_clock if isinstance(own_clock, Clock) else SystemClock()
    played = not isinstance(clock, SystemClock)
    host_probe = None if played or not probe or kind != "cpu" else HostProbe(clock)
    preemptions = (lambda: 0) if played else scheduling.preemption_counter()
    version = found.version()
    crowded = threads > len(chosen or env.affinity())
    if realtime is None:
        realtime = not crowded and scheduling.realtime_permitted()
    if device is None:
        device = getattr(found, "device_name", env.own_device_name)()
    own_cpus = kind == "cpu" and not played and not isinstance(found, DeviceRuntime)
    fixed_khz = env.fixed_khz(chosen or env.affinity(), system) if own_cpus else None
    if fixed_khz is not None:
        name, plus, others = asked.partition("+")
        asked = f"{name}@{round(fixed_khz / 1e6, 3):g}GHz{plus}{others}"
    environment = env.describe_environment(
        threads=threads,
        cpus=chosen or None,
        packages=(found.name,),
        runtime=found.name,
        runtime_version=version,
        realtime=realtime,
        probe=None if host_probe is None else {"key": host_probe.key, "parts": list(host_probe.parts)},
    )
    if isinstance(found, DeviceRuntime):
        environment = {**environment, "host": found.environment()}
    return OpenedRuntime(
        runtime=found,
        platform=Platform(device, found.name, short_version(version), asked, precision),
        instruments=Instruments(
            clock, host_probe, preemptions, lambda: env.frequency_mhz(chosen, system) if chosen and own_cpus else None
        ),
        priority=_priority(realtime, threads, crowded=crowded),
        environment=environment,
        cpus=chosen or (),
    )


def _priority(realtime: bool, threads: int, *, crowded: bool) -> Callable[..., AbstractContextManager[object]]:
    if not realtime:
        return nullcontext
    if crowded:
        raise MeasurementError(
            f"a real-time priority with {threads} threads on fewer CPUs could lock the machine up; measure without it, or "
            "give it a CPU a thread"
        )
    if not scheduling.realtime_permitted():
        raise MeasurementError(
            "a real-time priority was asked for and this process may not have one; "
            "run as root, give Python CAP_SYS_NICE, or measure without it"
        )
    return scheduling.realtime
