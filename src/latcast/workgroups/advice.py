"""Work-group sizes to try for a convolution on a device, with each rule's verdict, and TFLite's default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.rules import Situation, Verdict, accesses_per_item, judge_sizes, padding_share, rank
from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup, candidate_array, sizes_array
from latcast.workgroups.workloads import Convolution, KernelDescriptor

FIXED = WorkGroup(8, 4, 1)
"""The size that is tried first where nothing is known."""

CONV_MOST_ITEMS = 256
CONV_MOST_Z = 16


def kfast(grid: Grid, kernel: KernelDescriptor, limits: SizeLimits) -> WorkGroup:
    """Return the size that TFLite's GPU delegate launches by default: tuning type ``kFast``, computed from the grid."""
    if kernel.kind == "conv":
        # z the largest divisor of the slices, then x first.
        z = _largest_divisor(grid.z, min(CONV_MOST_Z, limits.most_z, limits.most_items))
        plane = max(min(CONV_MOST_ITEMS, limits.most_items) // z, 1)
        x = min(grid.x, plane, limits.most_x)
        y = min(plane // x, grid.y, limits.most_y)
        # A column of one group would leave cores idle: two groups share it.
        return WorkGroup(x, y // 2 if y == grid.y and y % 2 == 0 else y, z)
    # z 8, 4 or 2 where it divides, and half of the row.
    most_z = min(8, limits.most_z, limits.most_items)
    z = next((size for size in (8, 4, 2) if size <= most_z and grid.z % size == 0), 0) or _largest_divisor(grid.z, most_z)
    plane = max(limits.most_items // z, 1)
    x = min(-(-grid.x // 2), plane, limits.most_x)
    return WorkGroup(x, min(plane // x, grid.y, limits.most_y), z)


def _largest_divisor(number: int, most: int) -> int:
    return next(size for size in range(min(most, number), 0, -1) if number % size == 0)


@dataclass(frozen=True)
class JudgedSize:
    """A size and the rules' verdicts on it.

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
        """Return the size for scripts."""
        return {
            "size": list(self.size.shape), "items": self.size.items, "rules": dict(self.verdicts),
            "padding_percent": 100 * self.padding, "accesses_per_item": self.accesses,
        }  # fmt: skip


@dataclass(frozen=True)
class SizeAdvice:
    """Sizes to try for one launch.

    Attributes:
        workload: The convolution and its kernel.
        candidates: How many sizes the device allows.
        survivors: How many pass all rules that were applied.
        applied: Those rules, in their order.
        why: Rule to the numbers it compares, or why it cannot be evaluated.
        shortlist: Best first.
        default: TFLite's present default.
    """

    workload: Convolution
    candidates: int
    survivors: int
    applied: tuple[str, ...]
    why: Mapping[str, str]
    shortlist: tuple[JudgedSize, ...]
    default: JudgedSize

    def to_json(self) -> dict[str, Any]:
        """Return the advice for scripts."""
        return {
            "operator": str(self.workload), "grid": list(self.workload.grid.shape), "kernel": self.workload.descriptor.name,
            "candidates": self.candidates, "survivors": self.survivors, "rules_applied": list(self.applied),
            "rules": dict(self.why), "shortlist": [found.to_json() for found in self.shortlist],
            "tflite_kfast": self.default.to_json(),
        }  # fmt: skip


def advise(workload: Convolution, device: DeviceProfile, count: int = 5) -> SizeAdvice:
    """Rank all sizes that a device allows for a convolution, and return the first ``count`` beside TFLite's default."""
    situation = Situation(workload.grid, workload.descriptor, device)
    ranking = rank(candidate_array(workload.grid, device.limits), situation)
    default = kfast(workload.grid, workload.descriptor, device.limits)
    sizes = [*ranking.shortlist(count), default]
    shapes = sizes_array(sizes)
    judgements = judge_sizes(shapes, situation)
    padding = padding_share(shapes, situation).tolist()
    accesses: Sequence[float | None] = [None] * len(sizes)
    if situation.kernel.accesses_counted:
        accesses = accesses_per_item(shapes, situation.kernel).tolist()
    *shortlist, judged_default = [
        JudgedSize(size, {found.rule: found.verdict(row) for found in judgements}, padding[row], accesses[row])
        for row, size in enumerate(sizes)
    ]
    why = {found.rule: found.why for found in ranking.judgements}
    return SizeAdvice(
        workload, len(ranking.sizes), ranking.survivors, ranking.applied, why, tuple(shortlist), judged_default
    )  # fmt: skip
