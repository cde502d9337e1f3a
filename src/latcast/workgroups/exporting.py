"""Work-group sizes chosen for the kernels of a LiteRT program cache: by rules, by TFLite's formula, or by timing each grid."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from latcast.errors import MeasurementError
from latcast.workgroups.advice import FIXED, kfast
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.gpu_interfaces import KernelSession
from latcast.workgroups.kernel_tuner_cache import read_cache
from latcast.workgroups.measuring import SweepPlan, Watch, measure_sweep, sampled_sizes, save_sweep
from latcast.workgroups.operands import VECTOR
from latcast.workgroups.program_cache import CachedKernel, ProgramCache
from latcast.workgroups.rules import Situation, rank
from latcast.workgroups.sizes import SizeLimits, WorkGroup, candidate_array
from latcast.workgroups.sweep import Sweep
from latcast.workgroups.workloads import Workload, convolution, depthwise_convolution

MOST_MACS = 20_000_000
"""Multiply-accumulates of a kernel that is timed to tune it; one of more is timed with fewer input channels, 8 at least."""

LEAST_CHANNELS = 8

WORTH = 0.97
"""A size replaces the engine's own where it takes at most this share of its time; less is within what tuning can tell."""


def limited(device: DeviceProfile, limits: SizeLimits) -> DeviceProfile:
    """A device as a kernel of these limits sees it."""
    return replace(device, max_work_group_size=limits.most_items, max_x=limits.most_x, max_y=limits.most_y, max_z=limits.most_z)


def _situation(kernel: CachedKernel, device: DeviceProfile) -> Situation:
    return Situation(kernel.grid, kernel.descriptor, limited(device, kernel.limits(device.limits)))


def _by_rules(kernel: CachedKernel, device: DeviceProfile) -> WorkGroup:
    situation = _situation(kernel, device)
    return rank(candidate_array(kernel.grid, situation.device.limits), situation).shortlist(1)[0]


def _by_kfast(kernel: CachedKernel, device: DeviceProfile) -> WorkGroup:
    return kfast(kernel.grid, kernel.descriptor, kernel.limits(device.limits))


def _fixed(kernel: CachedKernel, device: DeviceProfile) -> WorkGroup:
    return FIXED if kernel.limits(device.limits).allow(FIXED) else kernel.size


FORMULAS: Mapping[str, Callable[[CachedKernel, DeviceProfile], WorkGroup]] = {
    "rules": _by_rules,
    "kfast": _by_kfast,
    str(FIXED): _fixed,
}
"""Ways to choose without timing."""


def chosen_sizes(cache: ProgramCache, device: DeviceProfile, by: str) -> dict[int, WorkGroup]:
    """A size for every convolution of a program cache, chosen without timing.

    Args:
        cache: What LiteRT made of the network.
        device: What is known of the GPU.
        by: One of :data:`FORMULAS`.

    Returns:
        Number of the kernel to its size; kernels whose size is bound are left out.
    """
    return {number: FORMULAS[by](kernel, device) for number, kernel in enumerate(cache.kernels) if kernel.kind is not None}


@dataclass(frozen=True)
class Tuned:
    """What tuning found.

    Attributes:
        sizes: Number of the kernel to its size, where it is not the engine's own.
        sweeps: One for each grid that was timed.
        left: Operators that could not be timed, and why.
    """

    sizes: dict[int, WorkGroup]
    sweeps: tuple[Sweep, ...]
    left: Mapping[str, str]


def tune_sizes(
    cache: ProgramCache, device: DeviceProfile, session: Callable[[Workload], KernelSession], folder: Path, *, sizes: int = 24,
    plan: SweepPlan | None = None, watch: Watch = lambda what, share: None,
) -> Tuned:  # fmt: skip
    """Times kernels of every grid alone and takes the fastest size where the order of sizes is more than noise.

    Kernels of one kind and grid that differ in their input channels alone share a sweep.

    Args:
        cache: What LiteRT made of the network.
        device: What is known of the GPU.
        session: Opens a workload on the GPU.
        folder: Sweeps are kept there, and gone on with.
        sizes: To try of each kernel at most.
        plan: How long to time each.
        watch: Told about progress.
    """
    alike: dict[Workload, list[int]] = {}
    found: dict[int, WorkGroup] = {}
    sweeps, left = [], {}
    for number, kernel in enumerate(cache.kernels):
        if kernel.is_winograd:
            left[kernel.name] = "the products of Winograd's algorithm are not launched alone"
        elif kernel.kind is not None:
            alike.setdefault(tuned_workload(kernel), []).append(number)
    for place, (workload, numbers) in enumerate(alike.items()):

        def told(what: str, share: float, place: int = place, workload: Workload = workload) -> None:
            watch(f"{workload}: {what}", (place + share) / len(alike))

        kernel = cache.kernels[numbers[0]]
        try:
            sweep = _swept(workload, kernel, device, session, folder, sizes, plan or SweepPlan(), told)
        except MeasurementError as problem:
            left[str(workload)] = str(problem)
            continue
        sweeps.append(sweep)
        best, own = sweep.sizes[int(sweep.latency_ms.argmin())], sweep.index_of(kernel.size)
        if sweep.rankable and (own is None or sweep.relative[own] * WORTH >= 1):
            found |= dict.fromkeys(numbers, best)
    return Tuned(found, tuple(sweeps), left)


def tuned_workload(kernel: CachedKernel) -> Workload:
    """What is timed in a kernel's place: its grid, filter and stride, with input channels as far as :data:`MOST_MACS` goes."""
    height, width, channels = kernel.output
    named = re.search(r"(\d+)x(\d+)", kernel.name)
    filter_size = int(named[1]) if named else 1
    stride = max(round(kernel.input[0] / height), 1)
    if kernel.kind == "depthwise_conv":
        return depthwise_convolution(height * stride, width * stride, channels, filter_size, stride)
    afforded = MOST_MACS // (height * width * channels * filter_size**2)
    inputs = min(max(afforded // VECTOR * VECTOR, LEAST_CHANNELS), kernel.input[2])
    return convolution(height * stride, width * stride, inputs, channels, filter_size, stride)


def _swept(
    workload: Workload, kernel: CachedKernel, device: DeviceProfile, session: Callable[[Workload], KernelSession], folder: Path,
    count: int, plan: SweepPlan, watch: Watch,
) -> Sweep:  # fmt: skip
    path = folder / f"{re.sub('[^A-Za-z0-9_.]+', '-', str(workload))}.json"
    earlier = read_cache(path)[0] if path.exists() else None
    if earlier is not None and earlier.rounds >= plan.rounds:
        return earlier
    opened = session(workload)
    try:
        launched = opened.workload
        if launched.grid != kernel.grid:
            raise MeasurementError(f"alone its grid is {launched.grid}, in the network {kernel.grid}")
        situation = Situation(launched.grid, launched.descriptor, limited(device, opened.limits))
        chosen = list(dict.fromkeys([kernel.size, *sampled_sizes(situation, count, plan.seed)]))
        return measure_sweep(
            opened, device, launched, chosen, plan, earlier=earlier, save=lambda sweep: save_sweep(path, sweep), watch=watch
        )
    finally:
        opened.close()
