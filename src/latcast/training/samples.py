"""Training samples from measurements: timed kernels, and networks with their kernels.

Three kinds of measurement give samples: single kernels timed in isolation (nn-Meter), operators as a profiler saw them
inside networks (Li et al.), and whole networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median
from types import MappingProxyType
from typing import Any

import numpy as np

from latcast.errors import DatasetError, LatcastError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Configuration, Kernel
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import SingleKernels, find_kernels, kernel_of
from latcast.kernels.types import kernel_type
from latcast.records import Measurement, Platform, Reference
from latcast.spaces.catalogue import SYNTHETIC_NAMES
from latcast.spaces.lineages import family_of, lineage_of
from latcast.spaces.published_segments import NAME as SEGMENTS


@dataclass(frozen=True)
class KernelSamples:
    """Timed kernels of one type.

    Attributes:
        configurations: (samples, fields) distinct configurations.
        latency_ms: (samples,) median over the occurrences.
        coldness: (samples,) of the networks that they ran in; 1 where that is not asked for.
    """

    configurations: np.ndarray
    latency_ms: np.ndarray
    coldness: np.ndarray


@dataclass(frozen=True)
class NetworkSample:
    """A measured network, or what is known of one.

    Attributes:
        reference: How to build it again.
        kernels: Its kernels under the rules; of a profiled segment those inside, see :func:`collect`.
        latency_ms: Measured, end to end, without a profiler; of a profiled segment what its kernels take.
    """

    reference: Reference
    kernels: tuple[Kernel, ...]
    latency_ms: float

    @property
    def family(self) -> str:
        """Family it is counted under."""
        return family_of(self.reference)

    @property
    def lineage(self) -> str:
        """Lineage used for hold-out splits."""
        return lineage_of(self.reference)

    @property
    def designed(self) -> bool:
        """Return whether it is of a family that people designed, not of a synthetic space."""
        return self.reference.space not in SYNTHETIC_NAMES

    @property
    def whole(self) -> bool:
        """Return whether it runs from an input to an output as people use networks, and is not a segment of one."""
        return self.reference.space != SEGMENTS


@dataclass(frozen=True)
class KernelObservation:
    """One timed occurrence of a kernel; ``network`` is the key of the network it ran in, or empty."""

    kernel: Kernel
    latency_ms: float
    network: str = ""


@dataclass(frozen=True)
class TrainingData:
    """All measurements of one platform, as samples.

    Attributes:
        isolated: Kernels timed alone.
        profiled: Kernels timed by the runtime's profiler inside networks.
        networks: Whole networks.
        skipped: What was left out, and why.
        scaled: Whether profiled kernels were scaled to add up to their networks' latencies.
    """

    isolated: tuple[KernelObservation, ...] = ()
    profiled: tuple[KernelObservation, ...] = ()
    networks: tuple[NetworkSample, ...] = ()
    skipped: tuple[str, ...] = field(default_factory=tuple)
    scaled: bool = False


def attribute_executed(
    kernels: Sequence[Kernel],
    measurement: Measurement,
    as_executed: Callable[[Sequence[str]], Kernel | None] = lambda _: None,
) -> tuple[list[tuple[Kernel, float]], float, float]:
    """Distribute the time of executed kernels over the kernels of the rules.

    1. An executed kernel with nodes of one kernel of the rules belongs to it; several add up.
    2. One that spans several cannot be split: it is a sample of the kernel that it is, as are others that share nodes with them.
    3. One that the runtime inserted, or that the rules call free, is charged to the kernel that runs next.
    4. Reorders before a part of a kernel belong to the rules' reorders before it, by their elements; one for which the rules have
       none, behind the kernel that makes an output, is that of the output.
    5. A quantisation belongs to the kernel that ran before, whose floats it turns into integers.

    Args:
        kernels: Of the rules.
        measurement: Of the network, with what was executed.
        as_executed: The kernel that nodes executed together are; None where they cannot be described as one.

    Returns:
        (kernel, milliseconds) pairs, the time given away, and the whole time.
    """
    owner = {node: index for index, kernel in enumerate(kernels) if not kernel.free for node in kernel.nodes}
    owners_of = [{owner[node] for node in executed.nodes if node in owner} for executed in measurement.executed]
    last_part = {min(owners): place for place, owners in enumerate(owners_of) if owners}
    # The reorders of the rules, by the index of the next kernel that ran.
    reorders: dict[int, list[Kernel]] = {}
    behind = len(kernels)
    for before in reversed(range(len(kernels))):
        if before in last_part:
            behind = before
        elif not kernels[before].nodes:
            reorders.setdefault(behind, []).append(kernels[before])
    time_of: dict[int, float] = {}
    parts_of: dict[int, list[tuple[Sequence[str], float]]] = {}
    spanning: list[tuple[Sequence[str], float]] = []
    spoiled: set[int] = set()
    whole = waiting = reordering = 0.0
    reordering_of: dict[int, float] = {}
    ended_ms: dict[str, float] = {}
    makers = {kernel.name for kernel in reorders.get(len(kernels), ())}
    previous: Sequence[str] = ()
    last: int | None = None
    for place, (executed, owners) in enumerate(zip(measurement.executed, owners_of, strict=True)):
        whole += executed.latency_ms
        if not owners:
            if executed.kind == QUANTISATION and last is not None:
                nodes, latency_ms = parts_of[last][-1]
                parts_of[last][-1] = (nodes, latency_ms + executed.latency_ms)
                time_of[last] += executed.latency_ms
            elif executed.kind.rpartition(".")[2].startswith(REORDERS):
                reordering += executed.latency_ms
            else:
                waiting += executed.latency_ms
            continue
        if reordering > 0:
            first = min(owners)
            # A reorder for several kernels runs before whichever the runtime has first, not only the first in our order.
            index = max((each for each in reorders if each <= first and last_part[each] >= place), default=None)
            if index is None:
                maker = next((name for name in previous if name in makers), None)
                if maker is None:
                    waiting += reordering
                else:
                    ended_ms[maker] = ended_ms.get(maker, 0.0) + reordering
            else:
                reordering_of[index] = reordering_of.get(index, 0.0) + reordering
        part = (executed.nodes, executed.latency_ms + waiting)
        previous = executed.nodes
        waiting = reordering = 0.0
        if len(owners) > 1:
            spoiled |= owners
            spanning.append(part)
            last = None
        else:
            last = index = owners.pop()
            time_of[index] = time_of.get(index, 0.0) + part[1]
            parts_of.setdefault(index, []).append(part)
    pairs = [
        (kernels[index], latency_ms) for index, latency_ms in sorted(time_of.items()) if index not in spoiled and latency_ms > 0
    ]
    ends = reorders.pop(len(kernels), [])
    pairs += [(kernel, ended_ms[kernel.name]) for kernel in ends if kernel.name in ended_ms]
    reorders[len(kernels)] = [kernel for kernel in ends if kernel.name not in ended_ms]
    reordering_of[len(kernels)] = reordering
    for index, latency_ms in reordering_of.items():
        found = reorders.get(index, [])
        elements = sum(kernel.configuration[0] for kernel in found)
        pairs += [(kernel, latency_ms * kernel.configuration[0] / elements) for kernel in found if latency_ms > 0]
    for nodes, latency_ms in (*spanning, *(part for index in sorted(spoiled) for part in parts_of.get(index, ()))):
        executed_kernel = as_executed(nodes)
        if executed_kernel is not None and latency_ms > 0:
            pairs.append((executed_kernel, latency_ms))
    return pairs, sum(latency_ms for _, latency_ms in pairs), whole


QUANTISATION = "QuantizeLinear"
"""Kind of what turns floats into integers behind an operator that was computed in floats."""

REORDERS = ("Reorder", "Transpose")
"""Prefixes of the kinds, less their domain, of executed layout changes, which are no operators of the network."""


SCALE_LIMIT = 2.0
"""A network's profiled kernels are not scaled by more than this."""

PROFILER_OVERHEADS_MS = np.arange(0.0, 0.0085, 0.0005)
"""Times that a profiler may add to each kernel; the best fitting one is taken."""

CONSTANTS = np.arange(0.0, 0.95, 0.05)
"""Times that a network may take beside its kernels, as parts of the shortest network's latency."""

MUCH_BETTER = 0.7
"""Part of the dispersion without a constant that may be left with one."""

BETTER = 0.9
"""Part of the dispersion without the profiler's time that may be left with it."""

FEWEST_FOR_OVERHEAD = 10
"""Profiled networks below which a profiler is taken to add nothing."""

LEAST_LEFT = 0.1
"""Part of a kernel's reading that is left, however short it is."""


@dataclass(frozen=True)
class ProfileOverheads:
    """How a network's latency comes from its profiled kernels: ``constant + factor · Σ (reading - profiler)``.

    Attributes:
        profiler_ms: What the profiler adds to each kernel's reading.
        constant_ms: What a network takes beside its kernels and no profiler of kernels sees: starting, copying input and output
            between host and device, waiting for the device.
        factor: What is left, the median over the networks.
    """

    profiler_ms: float = 0.0
    constant_ms: float = 0.0
    factor: float = 1.0

    def scale(self, latency_ms: float, kernels_ms: float) -> float:
        """Return the factor on a network's profiled kernels.

        Where there is no constant, to add up to what the network took, so that the host's state at the time of profiling cancels.
        Where there is one, the device is not the host: all networks share the factor, as what is left of one of them are kernels
        that were not recorded.
        """
        if self.constant_ms > 0:
            return self.factor
        return min(max(latency_ms / kernels_ms, 1 / SCALE_LIMIT), SCALE_LIMIT) if kernels_ms > 0 else 1.0


def profile_overheads(measurements: Sequence[Measurement]) -> ProfileOverheads:
    """Fit what the profiler adds to each kernel and to the network, so that small and large networks agree.

    Without either, the kernels of every network would add up to its latency times one factor, the host's state. Of
    :data:`PROFILER_OVERHEADS_MS` and :data:`CONSTANTS`, parts of the shortest latency, the pair is taken that explains the
    latencies best; each only where it explains them better than none does, a constant much better, as on GPUs.

    Args:
        measurements: Whole networks with their executed kernels, of one platform.
    """
    if len(measurements) < FEWEST_FOR_OVERHEAD:
        return ProfileOverheads()
    whole = np.array([sum(kernel.latency_ms for kernel in found.executed) for found in measurements])
    counts = np.array([len(found.executed) for found in measurements])
    latency_ms = np.array([found.latency_ms for found in measurements], dtype=np.float64)
    constants_ms = CONSTANTS[:, None, None] * latency_ms.min()
    left = np.maximum(whole - PROFILER_OVERHEADS_MS[:, None] * counts, LEAST_LEFT * whole)
    factor = np.exp(np.median(np.log((latency_ms - constants_ms) / left), axis=2, keepdims=True))
    error = np.abs(np.log((constants_ms + factor * left) / latency_ms))
    dispersion = np.minimum(error, 0.5).mean(axis=2)
    constant, profiler = divmod(int(np.argmin(dispersion)), len(PROFILER_OVERHEADS_MS))
    if dispersion[constant, profiler] > MUCH_BETTER * dispersion[0].min():
        constant, profiler = 0, int(np.argmin(dispersion[0]))
    if dispersion[constant, profiler] > BETTER * dispersion[constant, 0]:
        profiler = 0
    found = PROFILER_OVERHEADS_MS[profiler], constants_ms[constant, 0, 0], factor[constant, profiler, 0]
    return ProfileOverheads(*map(float, found))


def timed_alone(reference: Reference, singles: SingleKernels) -> Kernel:
    """Return the kernel of the rules that was timed alone.

    Raises:
        DatasetError: It is not a single kernel under the rules.
    """
    name = reference.space.removeprefix("kernel/")
    busy = singles.busy(name, kernel_type(name).configuration(reference.parameters))
    if len(busy) != 1:
        raise DatasetError(f"{len(busy)} kernels under the rules where one was meant")
    return busy[0]


KnownKernels = Mapping[str, Mapping[Configuration, float]]
"""Milliseconds of measured configurations by kernel type; NaN of those that cannot be measured."""


def stored_kernels(store: Any, platform: Platform) -> list[Measurement]:
    """Return the single kernels measured on a platform, failed ones too, of a :class:`latcast.datasets.store.Store`."""
    return list(store.measurements(platform=platform.id, role="kernel", failed=True))


def known_kernels(measurements: Iterable[Measurement], singles: SingleKernels) -> KnownKernels:
    """Return the single kernels that were measured on one platform, with the median of their measurements.

    Args:
        measurements: As :func:`stored_kernels` returns them.
        singles: The rules that separate kernels.
    """
    found: dict[str, dict[Configuration, list[float]]] = {}
    for measurement in measurements:
        try:
            kernel = timed_alone(measurement.reference, singles)
        except LatcastError:
            continue
        latencies = found.setdefault(kernel.kernel_type, {}).setdefault(kernel.configuration, [])
        if measurement.latency_ms is not None:
            latencies.append(measurement.latency_ms)
    return {
        name: {row: float(np.median(values)) if values else float("nan") for row, values in rows.items()}
        for name, rows in found.items()
    }


def collect(
    measurements: Iterable[Measurement],
    rules: FusionRules,
    build: Callable[[Reference], Graph],
    singles: SingleKernels | None = None,
    known: dict[str, tuple[Kernel, ...]] | None = None,
) -> TrainingData:
    """Turn measurements into samples; several of the same network are combined by their median.

    What the profiler adds to each kernel (:func:`profile_overheads`) is taken off; then the kernels of a network are scaled to
    add up to its latency, so that the host's state cancels, or on GPUs by one factor for all networks.

    Runtimes change layouts at the borders of a segment, where no whole network begins or ends. So the kernels that read its
    input are left out, and a profiled segment is used for its other kernels.

    Args:
        measurements: Of one platform; failed ones and those of networks that cannot be built are skipped and named.
        rules: Fusion rules of the runtime.
        build: Builds a reference's network (``latcast.spaces.build``); asked once for each, where its measurements follow each
            other.
        singles: What is known of single kernels under the rules.
        known: Kernels of networks under the rules, by the key of their reference; takes those that are searched for.
    """
    known = {} if known is None else known
    singles = singles or SingleKernels(rules)
    isolated: list[KernelObservation] = []
    profiled: list[KernelObservation] = []
    latencies: dict[str, list[float]] = {}
    networks: dict[str, tuple[Reference, tuple[Kernel, ...]]] = {}
    inside: dict[str, tuple[Kernel, ...]] = {}
    skipped: list[str] = []
    listed = list(measurements)
    overheads = profile_overheads(
        [found for found in listed if found.ok and found.latency_ms and found.role == "network" and found.executed]
    )
    references = {measurement.reference.key: measurement.reference for measurement in listed}
    graph_of = lru_cache(maxsize=1)(lambda key: build(references[key]))
    for measurement in listed:
        reference = measurement.reference
        if not measurement.ok or measurement.latency_ms is None:
            skipped.append(f"{reference.name or reference.key}: {measurement.error}")
        elif measurement.role == "kernel":
            try:
                isolated.append(KernelObservation(timed_alone(reference, singles), measurement.latency_ms))
            except DatasetError as problem:
                skipped.append(f"{reference.name or reference.key}: {problem}")
        elif measurement.role == "network":
            if reference.key not in networks:
                if reference.key not in known:
                    try:
                        known[reference.key] = find_kernels(graph_of(reference.key), rules)
                    except LatcastError as problem:
                        skipped.append(f"{reference.name or reference.key}: {problem}")
                        continue
                networks[reference.key] = (reference, known[reference.key])
            latency_ms = measurement.latency_ms
            if measurement.executed:
                # Without what the profiler adds to each kernel.
                executed = tuple(
                    replace(each, latency_ms=max(each.latency_ms - overheads.profiler_ms, LEAST_LEFT * each.latency_ms))
                    for each in measurement.executed
                )
                pairs, _, total = attribute_executed(
                    networks[reference.key][1],
                    replace(measurement, executed=executed),
                    lambda nodes, key=reference.key: kernel_of(graph_of(key), rules, nodes),  # type: ignore[misc]
                )
                scale = overheads.scale(measurement.latency_ms, total)
                if reference.space == SEGMENTS:
                    begins = input_readers(graph_of(reference.key))
                    pairs = [(kernel, each_ms) for kernel, each_ms in pairs if begins.isdisjoint(kernel.nodes)]
                    if not pairs:
                        continue
                    inside[reference.key] = tuple(kernel for kernel, _ in pairs)
                    latency_ms = scale * sum(each_ms for _, each_ms in pairs)
                profiled.extend(KernelObservation(kernel, scale * each_ms, reference.key) for kernel, each_ms in pairs)
            latencies.setdefault(reference.key, []).append(latency_ms)
    samples = tuple(
        NetworkSample(networks[key][0], inside.get(key, networks[key][1]), latency_ms=float(np.median(values)))
        for key, values in latencies.items()
    )
    return TrainingData(
        tuple(isolated), tuple(profiled), samples, tuple(skipped), scaled=bool(profiled) and overheads.constant_ms == 0
    )


def input_readers(graph: Graph) -> frozenset[str]:
    """Return the names of the nodes that read an input of a graph."""
    return frozenset(node.name for name in graph.inputs for node in graph.consumers.get(name, ()))


COLDNESS_STEPS = 8
"""Occurrences of a kernel whose networks' coldness differs by less than one of so many steps become one sample."""


def kernel_samples(
    observations: Iterable[KernelObservation], coldness: Mapping[str, float] = MappingProxyType({})
) -> dict[str, KernelSamples]:
    """Return the observations by type; a configuration seen several times as cold becomes one sample, its median.

    Args:
        observations: Timed kernels.
        coldness: Of networks, by their keys; 1 for those that are not named.
    """
    found: dict[str, dict[tuple[Configuration, int], list[tuple[float, float]]]] = {}
    for each in observations:
        cold = coldness.get(each.network, 1.0)
        key = (each.kernel.configuration, round(cold * COLDNESS_STEPS))
        found.setdefault(each.kernel.kernel_type, {}).setdefault(key, []).append((each.latency_ms, cold))
    return {
        name: KernelSamples(
            np.array([configuration for configuration, _ in rows], dtype=np.int64),
            np.array([median(latency_ms for latency_ms, _ in values) for values in rows.values()]),
            np.array([median(cold for _, cold in values) for values in rows.values()]),
        )
        for name, rows in found.items()
    }


def restrict(data: TrainingData, keep: Callable[[NetworkSample], bool]) -> TrainingData:
    """Return the data without the networks that ``keep`` refuses, what was profiled inside them, and their kernels timed alone.

    A kernel timed alone that both a refused network and a kept one have stays: the kept one knows it too.
    """
    kept = tuple(sample for sample in data.networks if keep(sample))
    keys = {sample.reference.key for sample in kept}
    profiled = tuple(observation for observation in data.profiled if observation.network in keys)
    known = {kernel.key for sample in kept for kernel in sample.kernels}
    refused = {kernel.key for sample in data.networks if sample.reference.key not in keys for kernel in sample.kernels} - known
    isolated = tuple(observation for observation in data.isolated if observation.kernel.key not in refused)
    return replace(data, isolated=isolated, profiled=profiled, networks=kept)


FEWEST_WHOLE = 20
"""Whole networks below which segments are calibrated on as well."""


def calibration_networks(networks: Sequence[NetworkSample]) -> np.ndarray:
    """Return which networks to calibrate on, (networks,) booleans: whole ones, where there are enough.

    Segments are not predicted by users, and err more than networks.
    """
    whole = np.array([sample.whole for sample in networks], dtype=bool)
    return whole if whole.sum() >= FEWEST_WHOLE else np.ones(len(networks), dtype=bool)


def lineages_of(networks: Sequence[NetworkSample]) -> list[str]:
    """Return the group in which each network is calibrated and judged: its lineage, or itself if drawn at random."""
    return [sample.lineage if sample.designed else sample.reference.key for sample in networks]
