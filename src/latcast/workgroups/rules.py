"""Rules I to V of Jiang et al. (§4.1): which work-group sizes should use a GPU well, and sizes ranked by them.

Each rule is a small pure function of sizes and of the numbers it is about. :data:`RULES` ties them to a device and a kernel; a
rule whose number is not known says so and judges nothing. :func:`rank` applies them as the paper does: one after another, each to
what the others left.

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
from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup, sizes_array
from latcast.workgroups.workloads import KernelDescriptor

Verdict = Literal["passes", "fails", "cannot be evaluated"]

TOLERANCE = 0.25
"""How far the two sides of rule V may be apart, as a share of the smaller; the paper gives its "about equal" no number."""


def group_accesses(sizes: np.ndarray, kernel: KernelDescriptor) -> np.ndarray:
    """Vectors that a whole group reads for one filter tap and one input slice, shared ones once: TD_k without its constant.

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
    """(sizes,) the same for each work item: what sizes with different numbers of items are compared by."""
    return group_accesses(sizes, kernel) / sizes.prod(axis=1)


def shape_balance(sizes: np.ndarray, kernel: KernelDescriptor) -> np.ndarray:
    """(sizes,) input slices over filter vectors of a convolution's group; 1 where their sum is least for its number of items."""
    pixels = kernel.block_x * kernel.block_y * sizes[:, 0] * sizes[:, 1]
    return pixels / (kernel.vector * kernel.block_z * sizes[:, 2])


def most_pixels(grid: Grid, limits: SizeLimits) -> int:
    """The most work items in the plane of x and y that a group can have: min(C_x·C_y, C_t), and no more than the grid has.

    The paper leaves the grid out (eq. 7); without it no size of a small map would ever pass.
    """
    return min(min(limits.most_x, grid.x) * min(limits.most_y, grid.y), limits.most_items)


def fills_shader_cores(sizes: np.ndarray, grid: Grid, compute_units: int) -> np.ndarray:
    """Rule I (eq. 1): the number of work groups is a multiple of the number of shader cores.

    Args:
        sizes: (sizes, 3).
        grid: The kernel's work items.
        compute_units: N_sc.

    Returns:
        (sizes,) bool, as all rules.
    """
    return group_counts(sizes, grid).prod(axis=1) % compute_units == 0


def fills_arithmetic_units(sizes: np.ndarray, simultaneous_items: int) -> np.ndarray:
    """Rule II (eq. 2): the items of a group are a multiple of those that a core executes at once, K_ac."""
    return sizes.prod(axis=1) % simultaneous_items == 0


def fills_cache_lines(sizes: np.ndarray, numbers_read: int, element_bytes: int, cache_line_bytes: int) -> np.ndarray:
    """Rule III (eq. 3) along x: what a row of a group reads is whole cache lines, w_x · d_x · U = 0 (mod W_cache)."""
    return sizes[:, 0] * numbers_read * element_bytes % cache_line_bytes == 0


def needs_no_padding(sizes: np.ndarray, grid: Grid) -> np.ndarray:
    """Rule IV (eq. 4): the size divides the grid along every dimension."""
    return (np.array(grid.shape) % sizes == 0).all(axis=1)


def reads_least_conv(sizes: np.ndarray, kernel: KernelDescriptor, tolerance: float = TOLERANCE) -> np.ndarray:
    """Rule V for a convolution: bx·by·wx·wy = 4·bs·wz, about; eq. 6, wx·wy = 2·wz, for a block of two pixels and one slice."""
    return _about_equal(shape_balance(sizes, kernel), np.ones(len(sizes)), tolerance)


def reads_least_depthwise(sizes: np.ndarray, most: int, tolerance: float = TOLERANCE) -> np.ndarray:
    """Rule V for a depthwise convolution (eq. 7): a group covers as many pixels of one slice as it may, wx·wy = most, about."""
    return _about_equal(sizes[:, 0] * sizes[:, 1], np.full(len(sizes), most), tolerance)


def group_counts(sizes: np.ndarray, grid: Grid) -> np.ndarray:
    """(sizes, 3) work groups along each dimension."""
    return -(-np.array(grid.shape) // sizes)


def _about_equal(first: np.ndarray, second: np.ndarray, tolerance: float) -> np.ndarray:
    return np.maximum(first, second) <= (1 + tolerance + 1e-9) * np.minimum(first, second)


@dataclass(frozen=True)
class Situation:
    """What the rules are asked about.

    Attributes:
        grid: The kernel's work items.
        kernel: What one of them computes.
        device: What is known of the GPU.
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
        why: What was compared, with its numbers, or why the rule cannot be evaluated.
    """

    rule: str
    passes: np.ndarray | None
    why: str

    def verdict(self, row: int) -> Verdict:
        """Of one size."""
        if self.passes is None:
            return "cannot be evaluated"
        return "passes" if self.passes[row] else "fails"


def _first(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    cores = situation.device.compute_units
    if cores is None:
        return None, "the number of shader cores (N_sc) is not known"
    return fills_shader_cores(sizes, situation.grid, cores), f"number of groups a multiple of {cores} shader cores"


def _second(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    items = situation.device.simultaneous_items
    if items is None:
        return None, "how many items a core executes at once (K_ac) is not known"
    return fills_arithmetic_units(sizes, items), f"items of a group a multiple of K_ac = {items}"


def _third(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    line, kernel = situation.device.cache_line_bytes, situation.kernel
    if line is None:
        return None, "the width of a cache line (W_cache) is not known"
    read = kernel.numbers_read_along_x
    why = f"wx · {read} · {kernel.element_bytes} bytes a multiple of a cache line of {line}"
    return fills_cache_lines(sizes, read, kernel.element_bytes, line), why


def _fourth(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    return needs_no_padding(sizes, situation.grid), f"divides the grid {situation.grid} exactly"


def _fifth(sizes: np.ndarray, situation: Situation) -> tuple[np.ndarray | None, str]:
    kernel = situation.kernel
    if not kernel.accesses_counted:
        return None, f"the data accesses of the kernel {kernel.name} have not been counted"
    if kernel.kind == "depthwise_conv":
        most = most_pixels(situation.grid, situation.device.limits)
        return reads_least_depthwise(sizes, most), f"wx·wy about {most}, the most that device and grid allow"
    left, right = kernel.block_x * kernel.block_y, kernel.vector * kernel.block_z
    return reads_least_conv(sizes, kernel), f"{left}·wx·wy about {right}·wz"


RULES: Mapping[str, Callable[[np.ndarray, Situation], tuple[np.ndarray | None, str]]] = {
    "I": _first,  # fully utilizing shader cores
    "II": _second,  # fully utilizing APUs
    "III": _third,  # fully utilizing cache lines
    "IV": _fourth,  # minimal problem space padding
    "V": _fifth,  # minimal data accesses
}
"""From sizes (sizes, 3) and the situation to what passes, (sizes,) bool or None, and why."""


def judge_sizes(sizes: Sequence[WorkGroup] | np.ndarray, situation: Situation) -> list[Judgement]:
    """All rules on all sizes.

    Args:
        sizes: As objects or (sizes, 3).
        situation: Grid, kernel and device.

    Returns:
        One for each of :data:`RULES`, in their order.
    """
    shapes = sizes if isinstance(sizes, np.ndarray) else sizes_array(sizes)
    return [Judgement(number, *judge(shapes, situation)) for number, judge in RULES.items()]


ORDER: Mapping[str, Sequence[str]] = {
    "conv": ("V", "II", "III", "IV", "I"),
    "depthwise_conv": ("V", "II", "IV", "I", "III"),
}
"""Kind of operator to the order in which rules are applied: that of their importance in Table 3."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Sizes from the most to the least promising.

    Attributes:
        sizes: (sizes, 3), as they were given.
        judgements: One for each rule.
        order: (sizes,) rows, best first.
        survivors: How many pass all rules that can be applied; where a rule would leave none it is skipped, as are those that
            cannot be evaluated. The paper takes one of them at random.
        applied: The rules that were applied, in their order.
    """

    sizes: np.ndarray
    judgements: tuple[Judgement, ...]
    order: np.ndarray
    survivors: int
    applied: tuple[str, ...]

    def shortlist(self, count: int) -> list[WorkGroup]:
        """The first sizes."""
        return [WorkGroup(x, y, z) for x, y, z in self.sizes[self.order[:count]].tolist()]


def rank(sizes: Sequence[WorkGroup] | np.ndarray, situation: Situation) -> Ranking:
    """Ranks sizes by the rules.

    Rules are applied one after another in :data:`ORDER`: what passes the first comes before what fails it, among equals what
    passes the second, and so on. Sizes that the rules cannot tell apart are ordered by what rules V and IV are about, in
    degrees: by data accesses of an item, then by padding.

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


def padding_share(shapes: np.ndarray, situation: Situation) -> np.ndarray:
    """(sizes,) share of the launched work items that have nothing to do."""
    launched = (group_counts(shapes, situation.grid) * shapes).prod(axis=1)
    return 1 - situation.grid.items / launched
