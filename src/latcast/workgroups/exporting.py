"""Work-group sizes chosen for the kernels of a LiteRT program cache: by rules, by TFLite's formula, or by timing each grid."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from latcast.errors import MeasurementError
from latcast.workgroups.advice import FIXED, kfast
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.gpu_interfaces import KernelSession
from latcast.workgroups.kernel_tuner_cache import read_cache
from latcast.workgroups.measuring import DEFAULT_PLAN, SweepPlan, Watch, continue_sweep, sampled_sizes
from latcast.workgroups.operands import VECTOR
from latcast.workgroups.program_cache import CachedKernel, ProgramCache
from latcast.workgroups.rules import Situation, rank
from latcast.workgroups.sizes import WorkGroup, candidate_array
from latcast.workgroups.sweep import SizeSweep
from latcast.workgroups.workloads import Convolution, convolution, depthwise_convolution

MOST_MACS = 20_000_000
"""Multiply-accumulates of a kernel that is timed to tune it; one of more is timed with fewer input channels, 8 at least."""

LEAST_CHANNELS = 8

WORTH = 0.97
"""A size replaces the engine's own where it takes at most this share of its time; less is within what tuning can tell."""

FORMULAS = ("rules", "kfast", str(FIXED))
"""Ways to choose without timing."""


def chosen_sizes(cache: ProgramCache, device: DeviceProfile, by: str) -> dict[int, WorkGroup]:
    """Return a size for every convolution of a program cache, chosen without timing.

    Args:
        cache: The kernels that LiteRT made of the network.
        device: The GPU.
        by: One of :data:`FORMULAS`.

    Returns:
        Number of the kernel to its size; kernels whose size is bound are left out.
    """
    found = {}
    for number, kernel in enumerate(cache.kernels):
        if kernel.kind is None:
            continue
        limits = kernel.limits(device.limits)
        if by == "rules":
            situation = Situation(kernel.grid, kernel.descriptor, device.limited(limits))
            found[number] = rank(candidate_array(kernel.grid, limits), situation).shortlist(1)[0]
        elif by == "kfast":
            found[number] = kfast(kernel.grid, kernel.descriptor, limits)
        else:
            found[number] = FIXED if limits.allow(FIXED) else kernel.size
    return found


@dataclass(frozen=True)
class TunedSizes:
    """The outcome of tuning.

    Attributes:
        sizes: Number of the kernel to its size, where it is not the engine's own.
        sweeps: One for each grid that was timed.
        left: Operators that could not be timed, and why.
    """

    sizes: dict[int, WorkGroup]
    sweeps: tuple[SizeSweep, ...]
    left: Mapping[str, str]


def tune_sizes(
    cache: ProgramCache, device: DeviceProfile, session: Callable[[Convolution], KernelSession], folder: Path, *, sizes: int = 24,
    plan: SweepPlan = DEFAULT_PLAN, watch: Watch = lambda what, share: None,
) -> TunedSizes:  # fmt: skip
    """Time kernels of every grid alone and take the fastest size where the order of sizes is more than noise.

    Kernels of one kind and grid that differ in their input channels alone share a sweep.

    Args:
        cache: The kernels that LiteRT made of the network.
        device: The GPU.
        session: Opens a convolution on the GPU.
        folder: Sweeps are kept there, and gone on with.
        sizes: To try of each kernel at most.
        plan: How long to time each.
        watch: Told about progress.
    """
    sharing: dict[Convolution, list[int]] = {}
    found: dict[int, WorkGroup] = {}
    sweeps, left = [], {}
    for number, kernel in enumerate(cache.kernels):
        if kernel.is_winograd:
            left[kernel.name] = "the products of Winograd's algorithm are not launched alone"
        elif kernel.kind is not None:
            sharing.setdefault(tuned_workload(kernel), []).append(number)
    for place, (workload, numbers) in enumerate(sharing.items()):

        def tell(what: str, share: float, place: int = place, workload: Convolution = workload) -> None:
            watch(f"{workload}: {what}", (place + share) / len(sharing))

        kernel = cache.kernels[numbers[0]]
        path = folder / f"{re.sub('[^A-Za-z0-9_.]+', '-', str(workload))}.json"
        try:
            sweep = _sweep_kernel(workload, kernel, device, session, path, sizes, plan, tell)
        except MeasurementError as problem:
            left[str(workload)] = str(problem)
            continue
        sweeps.append(sweep)
        own = sweep.index_of(kernel.size)
        if sweep.rankable and (own is None or sweep.relative[own] * WORTH >= 1):
            found |= dict.fromkeys(numbers, sweep.best)
    return TunedSizes(found, tuple(sweeps), left)


def tuned_workload(kernel: CachedKernel) -> Convolution:
    """Return what is timed in a kernel's place: its grid, filter and stride, with as many input channels as are affordable."""
    height, width, channels = kernel.output
    named = re.search(r"(\d+)x(\d+)", kernel.name)
    filter_size = int(named[1]) if named else 1
    stride = max(round(kernel.input[0] / height), 1)
    if kernel.kind == "depthwise_conv":
        return depthwise_convolution(height * stride, width * stride, channels, filter_size, stride)
    afforded = MOST_MACS // (height * width * channels * filter_size**2)
    inputs = min(max(afforded // VECTOR * VECTOR, LEAST_CHANNELS), kernel.input[2])
    return convolution(height * stride, width * stride, inputs, channels, filter_size, stride)


def _sweep_kernel(
    workload: Convolution, kernel: CachedKernel, device: DeviceProfile, session: Callable[[Convolution], KernelSession],
    path: Path, count: int, plan: SweepPlan, watch: Watch,
) -> SizeSweep:  # fmt: skip
    if path.exists() and (earlier := read_cache(path)[0]).rounds >= plan.rounds:
        return earlier
    opened = session(workload)
    try:
        launched = opened.workload
        if launched.grid != kernel.grid:
            raise MeasurementError(f"alone its grid is {launched.grid}, in the network {kernel.grid}")
        situation = Situation(launched.grid, launched.descriptor, device.limited(opened.limits))
        chosen = list(dict.fromkeys([kernel.size, *sampled_sizes(situation, count, plan.seed)]))
        return continue_sweep(path, opened, device, chosen, plan, watch)
    finally:
        opened.close()
