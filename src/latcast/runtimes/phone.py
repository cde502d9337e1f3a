"""A phone as a runtime: the stock benchmark tools that the user points to, driven over ``adb``.

A session's runs come in bursts: the tool is started once for many inferences, and each call of ``run`` hands out one of them, on
a clock that stands still otherwise. Between two bursts the phone rests as long as it worked; a burst that heat slowed down is
taken again after a longer rest.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from latcast.errors import DatasetError, RuntimeFailure
from latcast.folders import data_folder
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.records import UNSTATED, ExecutedKernel, Unit, device_name
from latcast.runtimes.adb import FOLDER, SCHEME, Adb, PhoneFacts, PhoneGone, folder_name, left_behind, quoted
from latcast.runtimes.cores import mask
from latcast.runtimes.model_file import ModelFile
from latcast.runtimes.phone_tools import TOOLS, Burst, ToolNetwork, ToolSetting, attributed
from latcast.runtimes.protocol import StandingClock
from latcast.runtimes.session import check_profiling, check_setting, checked_inputs, random_inputs
from latcast.runtimes.throttling import ThrottleWatch

TOOLS_VARIABLE = "LATCAST_ANDROID_TOOLS"
"""Environment variable that names the folder of the tools; ``android-tools`` in the user's folder otherwise."""

VERSIONS_FILE = "versions.txt"
"""File in the folder of the tools with a line ``benchmark_model 2.17.0`` for each, as tools do not print their version."""

BURST_MS = 150.0
LEAST_RUNS, FIRST_RUNS = 5, 15
"""Duration of a burst, its fewest runs, and the most of a first one; each further one may have twice as many, to save starts."""

STALE_S = 120.0
"""Age up to which the rest of a burst is used, to save starts of the tool."""

WARMUP_RUNS = 2

MOST_REST_S = 3.0
"""Longest rest between two bursts; the phone otherwise rests as long as it worked."""

RETAKES = 2
"""Repeats of a burst that heat slowed down."""

ANCHOR_BURST_RUNS = 5
ANCHOR_EVERY_S = 10.0
"""Time after which the anchor runs again before a burst."""

COOLING_S = 5.0
MOST_COOLING_S = 40.0
"""Waits between questions whether the phone has cooled down, and altogether."""


class PhoneRuntime:
    """One tool on one phone.

    Args:
        tool: The networks of a tool.
        serial: The phone's, as ``adb devices`` lists it; empty for the only one.
        tools: The folder with the tool, built for Android, and the shared libraries that it needs.
        sleep: Waits for some seconds.
    """

    def __init__(
        self, tool: type[ToolNetwork], serial: str = "", tools: Path | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.name = tool.runtime
        self.clock = StandingClock()
        self.adb = Adb(serial)
        self.watch = ThrottleWatch()
        self.sleep = sleep
        self._anchor: PhoneSession | None = None
        self._anchored_at_s = time.monotonic()
        self._tool = tool
        self._tools = tools or tools_folder()
        self._unit = "cpu"
        self._cpus: tuple[int, ...] = ()

    @property
    def precisions(self) -> tuple[str, ...]:
        return tuple(self._tool.units[self._unit])

    @property
    def units(self) -> tuple[str, ...]:
        """Kinds of units that the tool can use; the phone may lack them."""
        return tuple(self._tool.units)

    def available(self) -> str | None:
        if not (self._tools / self._tool.program).is_file():
            return (
                f"there is no {self._tool.program} in {self._tools}: put the one for Android there, "
                f"or name its folder with {TOOLS_VARIABLE}"
            )
        try:
            self.adb.check()
        except RuntimeFailure as problem:
            return str(problem)
        return self._tool.missing()

    def version(self) -> str:
        """Return the version in :data:`VERSIONS_FILE` in the folder of the tools."""
        try:
            text = (self._tools / VERSIONS_FILE).read_text(encoding="utf-8")
        except OSError:
            return UNSTATED
        found = re.search(rf"^{re.escape(self._tool.program)}[ \t]+([0-9][0-9a-z.+-]*)\s*$", text, re.MULTILINE)
        return found[1] if found else UNSTATED

    @cached_property
    def facts(self) -> PhoneFacts:
        """The phone's hardware facts."""
        return self.adb.facts()

    def device_name(self) -> str:
        """Return the name in platform ids: the model, with the characters that they allow."""
        return device_name(self.facts.model) or "phone"

    def on(self, unit: str) -> PhoneRuntime:
        """Return this runtime on a unit; see :meth:`place`."""
        self.place(unit)
        return self

    def place(self, unit: str) -> str:
        """Choose the cores, or another unit, and return its name; see :meth:`latcast.runtimes.cores.Cores.unit`.

        Raises:
            RuntimeFailure: The tool cannot use it, or the phone has no such cores.
        """
        kind = Unit.parse(unit).kind
        if kind not in self._tool.units:
            raise RuntimeFailure(f"{self._tool.program} runs on {', '.join(self._tool.units)}; not on '{unit}'")
        name, self._cpus = self.facts.cores.unit(unit)
        self._unit = kind
        self.watch = ThrottleWatch(self._cpus)
        return name

    def environment(self) -> dict[str, Any]:
        """Return the phone's facts, in the place of those of the machine that latcast runs on."""
        return {**self.facts.to_json(), "tool": self._tool.program}

    @cached_property
    def folder(self) -> str:
        """The tool's folder on the phone; it is pushed once for each content."""
        files = sorted(
            file for file in self._tools.iterdir() if file.name == self._tool.program or re.search(r"\.so(\.|$)", file.name)
        )
        digest = hashlib.sha256()
        for file in files:
            digest.update(file.name.encode() + file.read_bytes())
        folder = f"{FOLDER}/{self._tool.program}-{digest.hexdigest()[:12]}"
        there = self.adb.shell(f"mkdir -p {folder} && cat {folder}/complete 2>/dev/null || true").strip()
        if there != "complete":
            self.adb.push_files(files, folder)
            self.adb.shell(f"chmod 755 {folder}/* && echo complete > {folder}/complete")
        # Folders of interrupted runs: those of this machine now, of others after a day.
        left = left_behind(self.adb.shell(f"ls -d {FOLDER}-* 2>/dev/null || true").split())
        if left:
            self.adb.shell(f"rm -rf {quoted(*left)}")
        self.adb.shell(f"find {FOLDER}-* -maxdepth 0 -mtime +0 -exec rm -r {{}} + 2>/dev/null || true")
        return folder

    def command(self, folder: str, text: str) -> str:
        """Return a command in a folder of the phone, on the chosen cores, with the tool's libraries."""
        on_cores = f"taskset {mask(self._cpus)} " if self._cpus else ""
        return f"cd {folder} && export LD_LIBRARY_PATH={self.folder} && {on_cores}{text}"

    @property
    def program(self) -> str:
        return f"{self.folder}/{self._tool.program}"

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> PhoneSession:
        """Write the network, copy it to the phone and run it once.

        Raises:
            UnsupportedOperatorError: The graph has an operator that the writer cannot express.
            RuntimeFailure: The phone does not answer, or the tool refused the network.
        """
        return self._opened(self._tool(graph, self._setting(graph, threads, precision)), profile=profile)

    def load_file(self, file: ModelFile, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> PhoneSession:
        """Copy a model file as it is to the phone and run it once."""
        network = self._tool.of_file(file, self._setting(file, threads, precision))
        if not network.slots:
            return self._opened(network, {}, profile=profile)
        return file.started(network.slots, lambda arrays: self._opened(network, network.stored_inputs(arrays), profile=profile))

    @property
    def endings(self) -> tuple[str, ...]:
        """Suffixes of the model files that the tool runs as they are."""
        return self._tool.endings

    def _setting(self, network: Graph | ModelFile, threads: int, precision: str) -> ToolSetting:
        check_setting(self, network, threads, precision)
        if self._cpus and threads > len(self._cpus):
            raise RuntimeFailure(f"'{network.name}' cannot run with {threads} threads on {len(self._cpus)} cores")
        return ToolSetting(self._unit, threads, precision)

    def _opened(self, network: ToolNetwork, inputs: Mapping[str, bytes] | None = None, *, profile: bool = False) -> PhoneSession:
        session = PhoneSession(self, network, profile=profile)
        try:
            session.open(network.inputs(random_inputs(network.graph)) if inputs is None else inputs)
        except BaseException:
            session.close()
            raise
        return session

    def run_anchor(self) -> None:
        """Time the anchor where that was not done for a while; without it only what the phone reports counts."""
        if time.monotonic() - self._anchored_at_s < ANCHOR_EVERY_S:
            return
        try:
            if self._anchor is None:
                self._anchor = self._opened(self._tool(anchor_network(), ToolSetting(self._unit, 1, self.precisions[0])))
            self.watch.rising.add("anchor", self._anchor.anchor_ms())
        except RuntimeFailure:
            self._anchor = None  # the network that is measured will fail with the reason
        self._anchored_at_s = time.monotonic()

    def cool_down(self) -> bool:
        """Let the phone rest until it reports full speed; return whether it does."""
        waited_s = 0.0
        while waited_s < MOST_COOLING_S:
            self.sleep(COOLING_S)
            waited_s += COOLING_S
            if not self.watch.signs(self.adb.state()):
                self.watch.forget()
                return True
        return False


class PhoneSession:
    """A network on a phone."""

    def __init__(self, runtime: PhoneRuntime, network: ToolNetwork, *, profile: bool) -> None:
        self._runtime = runtime
        self._graph = network.graph
        self._network = network
        self._profile = profile
        self._folder = folder_name()
        self._waiting: deque[float] = deque()
        self._taken_at_s = 0.0
        self._typical_ms = 0.0
        self._inputs: Mapping[str, bytes] = {}
        self._pushed = False
        self._closed = False
        self._made: list[np.ndarray] | None = None
        self._seen: dict[str, Any] = {"bursts": 0, "throttled_bursts": 0, "kept_throttled_bursts": 0}

    def open(self, inputs: Mapping[str, bytes]) -> None:
        """Copy the network and its inputs, and run it a first time, which sets the number of runs of a burst."""
        self._inputs = inputs
        self._runtime.adb.shell(f"mkdir -p {self._folder}")
        self._runtime.adb.push({**self._network.files, **self._inputs}, self._folder)
        self._pushed = True
        burst, _ = self._timed(1, 1)
        self._typical_ms = median(burst.runs_ms)

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        checked_inputs(self._graph, inputs)
        self._inputs = self._network.inputs(inputs)
        self._pushed = False

    def run(self) -> None:
        """Hand out one run of a burst.

        Raises:
            RuntimeFailure: The tool failed, the phone is gone, or the session is closed.
        """
        if self._closed:
            raise RuntimeFailure(f"the session of '{self._graph.name}' is closed; load the network again")
        if not self._waiting or time.monotonic() - self._taken_at_s > STALE_S:
            self._waiting = deque(self._burst())
            self._taken_at_s = time.monotonic()
        self._made = None
        self._runtime.clock.advance(self._waiting.popleft())

    def _burst(self) -> tuple[float, ...]:
        runtime = self._runtime
        runs = int(max(LEAST_RUNS, min(BURST_MS / self._typical_ms, FIRST_RUNS * 2 ** self._seen["bursts"])))
        for attempt in range(RETAKES + 1):
            runtime.run_anchor()
            runtime.sleep(min(runs * self._typical_ms / 1e3, MOST_REST_S))
            burst, state = self._timed(runs, WARMUP_RUNS)
            self._typical_ms = median(burst.runs_ms)
            self._seen["bursts"] += 1
            self._seen["frequency_mhz"] = state.clock_mhz(runtime.watch.cpus)
            self._seen["thermal_status"] = state.thermal_status
            reasons = runtime.watch.reasons(state)
            if not reasons:
                break
            self._seen["throttled_bursts"] += 1
            self._seen["throttled_by"] = ", ".join(reasons)
            if attempt == RETAKES or not runtime.cool_down():
                self._seen["kept_throttled_bursts"] += 1
                break
        return burst.runs_ms

    def anchor_ms(self) -> float:
        """Return the time of a burst's fastest run, which other programs disturb least."""
        return self._timed(ANCHOR_BURST_RUNS, 1)[0].least_ms

    def _timed(self, runs: int, warmups: int) -> tuple[Burst, Any]:
        command = self._network.timing(self._runtime.program, runs, warmups)
        printed, state = self._on_phone(command)
        with _readable():
            return self._network.burst(printed, runs), state

    def _on_phone(self, command: str) -> tuple[str, Any]:
        """Run a command in the network's folder; return what it prints. A phone that goes away is waited for once."""
        adb = self._runtime.adb
        for attempt in range(2):
            try:
                if not self._pushed and self._inputs:
                    adb.push(self._inputs, self._folder)
                self._pushed = True
                return adb.run(self._runtime.command(self._folder, command))
            except PhoneGone:
                if attempt or not adb.wait():
                    raise
        raise AssertionError("unreachable")

    def outputs(self) -> list[np.ndarray]:
        """Return outputs for the inputs set last, computed once more by the tool.

        Raises:
            RuntimeFailure: The tool does not output them.
        """
        if self._closed:
            raise RuntimeFailure(f"'{self._graph.name}' is closed, its outputs are gone")
        if self._made is None:
            command, file = self._network.computing(self._runtime.program)
            self._on_phone(command)
            self._made = self._network.outputs(self._runtime.adb.pull(f"{self._folder}/{file}"))
        return self._made

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return the kernels as the tool's profiler times them: means over the runs, as the tools print no others.

        Raises:
            RuntimeFailure: The session was not loaded with ``profile=True``, or the tool does not tell.
        """
        check_profiling(self._graph, self._profile, runs)
        patterns = self._network.profile_files()
        command = self._network.profiling(self._runtime.program, runs)
        if patterns:
            command = f"rm -f {' '.join(patterns)} && {command}"
        printed, _ = self._on_phone(command)
        files: dict[str, bytes] = {}
        if patterns:
            adb = self._runtime.adb
            names = adb.shell(f"cd {self._folder} && ls {' '.join(patterns)}").split()
            files = {name: adb.pull(f"{self._folder}/{name}") for name in names}
        with _readable():
            kernels = self._network.kernels(printed, files, runs)
        self._seen["attributed"] = round(attributed(kernels), 4)
        return kernels

    def moment(self) -> dict[str, Any]:
        """Return what was seen of the phone while it ran: bursts, repeats for heat, the clock, the share attributed."""
        return dict(self._seen)

    def close(self) -> None:
        """Remove the network from the phone."""
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
        try:
            self._runtime.adb.shell(f"rm -rf {quoted(self._folder)}")
        except RuntimeFailure:
            return  # it is removed when the phone is next used


@contextmanager
def _readable() -> Iterator[None]:
    """Turn a reader's DatasetError into a RuntimeFailure."""
    try:
        yield
    except DatasetError as problem:
        raise RuntimeFailure(f"the tool's output cannot be read: {problem}") from problem


def anchor_network() -> Graph:
    """Return a network of convolutions that takes some milliseconds on a phone and that every tool can run."""
    b = GraphBuilder("anchor")
    x = b.relu(b.conv(b.input((1, 3, 96, 96)), 32, 3, stride=2))
    for _ in range(3):
        x = b.relu(b.conv(x, 32, 3))
    return b.finish(x)


def tools_folder() -> Path:
    """Return the folder of the tools for Android."""
    named = os.environ.get(TOOLS_VARIABLE)
    return Path(os.path.expanduser(named)) if named else data_folder() / "android-tools"


def phone_runtime(name: str, address: str) -> PhoneRuntime:
    """Return a phone's runtime, for ``adb:SERIAL``, or ``adb:`` for the only phone.

    Raises:
        RuntimeFailure: No tool is known for the runtime.
    """
    if name not in TOOLS:
        raise RuntimeFailure(f"{name} is not driven over adb; a phone runs {', '.join(TOOLS)}")
    return PhoneRuntime(TOOLS[name], address.removeprefix(SCHEME))
