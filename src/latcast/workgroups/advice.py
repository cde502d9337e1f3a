"""Which work-group sizes to try for a convolution on a device, and what each rule says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latcast.workgroups.data_access import accesses_per_item
from latcast.workgroups.defaults import kfast
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.ranking import padding_share, rank
from latcast.workgroups.rules import Judgement, Situation, Verdict, judge_sizes
from latcast.workgroups.sizes import WorkGroup, candidate_array, sizes_array
from latcast.workgroups.workloads import Workload


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
