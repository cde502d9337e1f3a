"""Rules I to V of Jiang et al. (§4.1): which work-group sizes should use a GPU well.

Each rule is a small pure function of sizes and of the numbers it is about. :data:`RULES` ties them to a device and a kernel; a
rule whose number is not known says so and judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from latcast.workgroups.data_access import most_pixels, shape_balance
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.sizes import Grid, WorkGroup, sizes_array
from latcast.workgroups.workloads import KernelDescriptor

Verdict = Literal["passes", "fails", "cannot be evaluated"]

TOLERANCE = 0.25
"""How far the two sides of rule V may be apart, as a share of the smaller; the paper gives its "about equal" no number."""


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
    """Rule V for a convolution: bx·by·wx·wy = 4·bs·wz, about; eq. 6, wx·wy = 2·wz, for a block of two pixels and one slice.

    See :mod:`latcast.workgroups.data_access` for where it comes from.
    """
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


@dataclass(frozen=True)
class Rule:
    """A rule of the paper.

    Attributes:
        number: "I" to "V".
        title: As the paper calls it.
        judge: From sizes (sizes, 3) and the situation to (passes or None, why).
    """

    number: str
    title: str
    judge: Callable[[np.ndarray, Situation], tuple[np.ndarray | None, str]]


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


RULES: tuple[Rule, ...] = (
    Rule("I", "fully utilizing shader cores", _first),
    Rule("II", "fully utilizing APUs", _second),
    Rule("III", "fully utilizing cache lines", _third),
    Rule("IV", "minimal problem space padding", _fourth),
    Rule("V", "minimal data accesses", _fifth),
)


def judge_sizes(sizes: Sequence[WorkGroup] | np.ndarray, situation: Situation) -> list[Judgement]:
    """All rules on all sizes.

    Args:
        sizes: As objects or (sizes, 3).
        situation: Grid, kernel and device.

    Returns:
        One for each of :data:`RULES`, in their order.
    """
    shapes = sizes if isinstance(sizes, np.ndarray) else sizes_array(sizes)
    return [Judgement(rule.number, *rule.judge(shapes, situation)) for rule in RULES]
