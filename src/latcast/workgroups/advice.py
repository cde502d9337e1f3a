"""Which work-group sizes to try for a convolution on a device, what each rule says of them, and what TFLite launches by default.

The default of TFLite's GPU delegate, tuning type ``kFast``, computes one size from the grid; written anew here from its
description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.rules import Judgement, Situation, Verdict, accesses_per_item, judge_sizes, padding_share, rank
from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup, candidate_array, sizes_array
from latcast.workgroups.workloads import KernelDescriptor, Workload

FIXED = WorkGroup(8, 4, 1)
"""The size that is tried first where nothing is known."""

CONV_MOST_ITEMS = 256
CONV_MOST_Z = 16


def kfast_conv(grid: Grid, limits: SizeLimits) -> WorkGroup:
    """``kFast`` for convolutions: wz the largest divisor of the slices, then x first, in 256 items at most."""
    z = _largest_divisor(grid.z, min(CONV_MOST_Z, limits.most_z, limits.most_items))
    plane = max(min(CONV_MOST_ITEMS, limits.most_items) // z, 1)
    x = min(grid.x, plane, limits.most_x)
    y = min(plane // x, grid.y, limits.most_y)
    # A column of one group would leave cores idle: two groups share it.
    if y == grid.y and y % 2 == 0:
        y //= 2
    return WorkGroup(x, y, z)


def kfast_generic(grid: Grid, limits: SizeLimits) -> WorkGroup:
    """``kFast`` for all other kernels, depthwise convolutions among them: wz 8, 4 or 2 where it divides, half of the row."""
    most_z = min(8, limits.most_z, limits.most_items)
    z = next((size for size in (8, 4, 2) if size <= most_z and grid.z % size == 0), 0) or _largest_divisor(grid.z, most_z)
    plane = max(limits.most_items // z, 1)
    x = min(-(-grid.x // 2), plane, limits.most_x)
    return WorkGroup(x, min(plane // x, grid.y, limits.most_y), z)


KFAST: Mapping[str, Callable[[Grid, SizeLimits], WorkGroup]] = {"conv": kfast_conv, "depthwise_conv": kfast_generic}
"""Kind of operator to its formula."""


def kfast(grid: Grid, kernel: KernelDescriptor, limits: SizeLimits) -> WorkGroup:
    """The size that TFLite's GPU delegate launches by default."""
    return KFAST[kernel.kind](grid, limits)


def _largest_divisor(number: int, most: int) -> int:
    return next(size for size in range(min(most, number), 0, -1) if number % size == 0)


@dataclass(frozen=True)
class JudgedSize:
    """A size and what is known of it.

    Attributes:
        size: Work items along each dimension.
        verdicts: Rule ("I" to "V") to its verdict.
        padding: Share of the launched work items that have nothing to do.
        accesses: Vectors that a work item reads for a filter tap and an input slice, shared ones once in a group; None where
            the kernel's accesses have not been counted.
    """

    size: WorkGroup
    verdicts: Mapping[str, Verdict]
    padding: float
    accesses: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "size": list(self.size.shape),
            "items": self.size.items,
            "rules": dict(self.verdicts),
            "padding_percent": 100 * self.padding,
            "accesses_per_item": self.accesses,
        }


@dataclass(frozen=True)
class Advice:
    """What to try for one launch.

    Attributes:
        workload: The convolution and its kernel.
        candidates: Sizes that the device allows.
        survivors: Those that all rules leave that could be applied.
        applied: Those rules, in their order.
        why: Rule to what it compares, or why it cannot be evaluated.
        shortlist: Best first.
        default: TFLite's present default.
    """

    workload: Workload
    candidates: int
    survivors: int
    applied: tuple[str, ...]
    why: Mapping[str, str]
    shortlist: tuple[JudgedSize, ...]
    default: JudgedSize

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": str(self.workload),
            "grid": list(self.workload.grid.shape),
            "kernel": self.workload.descriptor.name,
            "candidates": self.candidates,
            "survivors": self.survivors,
            "rules_applied": list(self.applied),
            "rules": dict(self.why),
            "shortlist": [found.to_json() for found in self.shortlist],
            "tflite_kfast": self.default.to_json(),
        }


def advise(workload: Workload, device: DeviceProfile, count: int = 5) -> Advice:
    """Ranks all sizes that a device allows for a convolution.

    Args:
        workload: The convolution and its kernel.
        device: What is known of the GPU; a rule that needs what is not known judges nothing.
        count: Sizes of the shortlist.
    """
    grid = workload.grid
    situation = Situation(grid, workload.descriptor, device)
    ranking = rank(candidate_array(grid, device.limits), situation)
    chosen = ranking.shortlist(count)
    default = kfast(grid, workload.descriptor, device.limits)
    return Advice(
        workload,
        len(ranking.sizes),
        ranking.survivors,
        ranking.applied,
        {found.rule: found.why for found in ranking.judgements},
        judged(chosen, situation),
        judged([default], situation)[0],
    )


def judged(sizes: Sequence[WorkGroup], situation: Situation) -> tuple[JudgedSize, ...]:
    """Sizes with every rule's verdict."""
    shapes = sizes_array(sizes)
    found: list[Judgement] = judge_sizes(shapes, situation)
    padding = padding_share(shapes, situation)
    counted = situation.kernel.accesses_counted
    accesses = accesses_per_item(shapes, situation.kernel) if counted else None
    return tuple(
        JudgedSize(
            size,
            {judgement.rule: judgement.verdict(row) for judgement in found},
            float(padding[row]),
            None if accesses is None else float(accesses[row]),
        )
        for row, size in enumerate(sizes)
    )
