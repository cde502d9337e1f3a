"""Rules I to V of Jiang et al. (§4.1): which work-group sizes should use a GPU well, and sizes ranked by them.

Each rule is a function of sizes and of the situation; one whose number is not known says so and judges nothing. :func:`rank`
applies them as the paper does: one after another, each to what the others left.

Rule V minimises data accesses (eq. 5 to 7), here in its general form. For one filter tap and one slice of input channels a group
of a convolution reads, where what its items share is read once,

    bx·by·wx·wy      slices of the input, one for every pixel that it computes, and
    v·bs·wz          of the filter: v vectors (v channels in, v out) for every output slice that it computes.

The product wx·wy·wz is fixed by the group's number of items N, so with p = wx·wy the sum is bx·by·p + v·bs·N/p. It is least
where both parts are equal: **bx·by·wx·wy = v·bs·wz**. TFLite's vectors have v = 4 channels; for its block of two pixels and one
slice that is 2·wx·wy = 4·wz, the paper's eq. 6.

An item of a depthwise convolution reads its own slice alone: bx·by·bs·wx·wy·wz slices of the input, the same for every shape of N
items, and bs·wz vectors of the filter, least where wz is least. So wx·wy should be as large as it may: eq. 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.sizes import Grid, WorkGroup, sizes_array
from latcast.workgroups.workloads import KernelDescriptor

Verdict = Literal["passes", "fails", "cannot be evaluated"]

TOLERANCE = 0.25
"""How far the two sides of rule V may be apart, as a share of the smaller; the paper gives its "about equal" no number."""


@dataclass(frozen=True)
class Situation:
    """The subject of the rules.

    Attributes:
        grid: The kernel's work items.
        kernel: The work of one of them.
        device: The GPU.
    """

    grid: Grid
    kernel: KernelDescriptor
    device: DeviceProfile


@dataclass(frozen=True, eq=False)
class Judgement:
    """One rule's answer for many sizes.

    Attributes:
        rule: "I" to "V".
        passes: (sizes,) bool; None where the rule cannot be evaluated.
        why: The numbers that were compared, or why the rule cannot be evaluated.
    """

    rule: str
    passes: np.ndarray | None
    why: str

    def verdict(self, row: int) -> Verdict:
        """Return the verdict on one size."""
        if self.passes is None:
            return "cannot be evaluated"
        return "passes" if self.passes[row] else "fails"


def group_accesses(sizes: np.ndarray, kernel: KernelDescriptor) -> np.ndarray:
    """Return the vectors that a group reads for one filter tap and one input slice, shared ones once: TD_k without its constant.

    Args:
        sizes: (sizes, 3).
        kernel: Its block and vectorisation.

    Returns:
        (sizes,), int64.
    """
    pixels = kernel.block_x * kernel.block_y * sizes[:, 0] * sizes[:, 1]
    slices = kernel.block_z * sizes[:, 2]
    if kernel.kind == "depthwise_conv":
        return pixels * slices + slices
    return pixels + kernel.vector * slices


def accesses_per_item(sizes: np.ndarray, kernel: KernelDescriptor) -> np.ndarray:
    """Return :func:`group_accesses` for each work item, (sizes,): comparable between sizes of different numbers of items."""
    return group_accesses(sizes, kernel) / sizes.prod(axis=1)


def group_counts(sizes: np.ndarray, grid: Grid) -> np.ndarray:
    """Return the work groups along each dimension, (sizes, 3)."""
    return -(-np.array(grid.shape) // sizes)


def padding_share(sizes: np.ndarray, situation: Situation) -> np.ndarray:
    """Return the share of the launched work items that have nothing to do, (sizes,)."""
    launched = (group_counts(sizes, situation.grid) * sizes).prod(axis=1)
    return 1 - situation.grid.items / launched


def fill_shader_cores(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    """Apply rule I (eq. 1): the number of work groups is a multiple of the number of shader cores, N_sc."""
    cores = situation.device.compute_units
    if cores is None:
        return None, "the number of shader cores (N_sc) is not known"
    passes = group_counts(sizes, situation.grid).prod(axis=1) % cores == 0
    return passes, f"number of groups a multiple of {cores} shader cores"


def fill_arithmetic_units(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    """Apply rule II (eq. 2): the items of a group are a multiple of those that a core executes at once, K_ac."""
    items = situation.device.simultaneous_items
    if items is None:
        return None, "how many items a core executes at once (K_ac) is not known"
    return sizes.prod(axis=1) % items == 0, f"items of a group a multiple of K_ac = {items}"


def fill_cache_lines(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    """Apply rule III (eq. 3) along x: a row of a group reads whole cache lines, w_x · d_x · U = 0 (mod W_cache)."""
    line, kernel = situation.device.cache_line_bytes, situation.kernel
    if line is None:
        return None, "the width of a cache line (W_cache) is not known"
    read = kernel.numbers_read_along_x
    why = f"wx · {read} · {kernel.element_bytes} bytes a multiple of a cache line of {line}"
    return sizes[:, 0] * read * kernel.element_bytes % line == 0, why


def need_no_padding(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    """Apply rule IV (eq. 4): the size divides the grid along every dimension."""
    grid = situation.grid
    return (np.array(grid.shape) % sizes == 0).all(axis=1), f"divides the grid {grid} exactly"


def read_least(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    """Apply rule V: both sides of the general form are about equal (eq. 6); depthwise, a group covers most pixels (eq. 7).

    Most pixels are min(C_x·C_y, C_t), and no more than the grid has: the paper leaves the grid out, without which no size of a
    small map would ever pass.
    """
    kernel, grid, limits = situation.kernel, situation.grid, situation.device.limits
    if not kernel.accesses_counted:
        return None, f"the data accesses of the kernel {kernel.name} have not been counted"
    pixels = sizes[:, 0] * sizes[:, 1]
    if kernel.kind == "depthwise_conv":
        most = min(min(limits.most_x, grid.x) * min(limits.most_y, grid.y), limits.most_items)
        first, second = pixels, np.full(len(sizes), most)
        why = f"wx·wy about {most}, the most that device and grid allow"
    else:
        left, right = kernel.block_x * kernel.block_y, kernel.vector * kernel.block_z
        first, second = left * pixels, right * sizes[:, 2]
        why = f"{left}·wx·wy about {right}·wz"
    return np.maximum(first, second) <= (1 + TOLERANCE + 1e-9) * np.minimum(first, second), why


RULES: Mapping[str, Callable[[np.ndarray, Situation], tuple[np.ndarray | None, str]]] = {
    "I": fill_shader_cores, "II": fill_arithmetic_units, "III": fill_cache_lines, "IV": need_no_padding, "V": read_least,
}  # fmt: skip
"""Rule to its function: from sizes (sizes, 3) to those that pass, (sizes,) bool or None, and why."""

ORDER: Mapping[str, Sequence[str]] = {
    "conv": ("V", "II", "III", "IV", "I"),
    "depthwise_conv": ("V", "II", "IV", "I", "III"),
}
"""Kind of operator to the order in which rules are applied: that of their importance in Table 3."""


def judge_sizes(sizes: Sequence[WorkGroup] | np.ndarray, situation: Situation) -> list[Judgement]:
    """Return the judgement of each of :data:`RULES` on all sizes, given as objects or (sizes, 3)."""
    shapes = sizes if isinstance(sizes, np.ndarray) else sizes_array(sizes)
    return [Judgement(number, *judge(shapes, situation)) for number, judge in RULES.items()]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Sizes from the most to the least promising.

    Attributes:
        sizes: (sizes, 3), as they were given.
        judgements: One for each rule.
        order: (sizes,) rows, best first.
        survivors: How many pass all rules that were applied; the paper takes one of them at random.
        applied: The rules that can be evaluated and leave any size, in their order.
    """

    sizes: np.ndarray
    judgements: tuple[Judgement, ...]
    order: np.ndarray
    survivors: int
    applied: tuple[str, ...]

    def shortlist(self, count: int) -> list[WorkGroup]:
        """Return the first sizes."""
        return [WorkGroup(x, y, z) for x, y, z in self.sizes[self.order[:count]].tolist()]


def rank(sizes: Sequence[WorkGroup] | np.ndarray, situation: Situation) -> Ranking:
    """Rank sizes by the rules.

    Rules are applied one after another in :data:`ORDER`: sizes that pass the first come before those that fail it, among equals
    those that pass the second, and so on. Sizes with equal verdicts are ordered by data accesses of an item, then by padding.

    Args:
        sizes: Candidates, at least one, as objects or (sizes, 3).
        situation: Grid, kernel and device.
    """
    shapes = sizes if isinstance(sizes, np.ndarray) else sizes_array(sizes)
    judgements = judge_sizes(shapes, situation)
    passes = {found.rule: found.passes for found in judgements if found.passes is not None}
    order = [rule for rule in ORDER[situation.kernel.kind] if rule in passes]
    left = np.ones(len(shapes), dtype=bool)
    applied = []
    for rule in order:
        remaining = left & passes[rule]
        if remaining.any():
            left = remaining
            applied.append(rule)
    keys = [~passes[rule] for rule in order]
    if situation.kernel.accesses_counted:
        keys.append(accesses_per_item(shapes, situation.kernel))
    keys += [padding_share(shapes, situation), -shapes.prod(axis=1)]
    return Ranking(shapes, tuple(judgements), np.lexsort(keys[::-1]), int(left.sum()), tuple(applied))
