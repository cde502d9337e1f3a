"""Work-group sizes, the grids they cut up, and all sizes that a device's limits allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from latcast.errors import LatcastError


@dataclass(frozen=True, order=True)
class WorkItems:
    """Work items along x, y and z.

    Raises:
        LatcastError: A dimension is below 1.
    """

    x: int
    y: int = 1
    z: int = 1
    noun: ClassVar[str] = "set"

    def __post_init__(self) -> None:
        if min(self.shape) < 1:
            found = f"{self.x} x {self.y} x {self.z}"
            raise LatcastError(f"a {self.noun} has {found} work items; expected at least 1 along each dimension")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(x, y, z), as OpenCL and WebGPU take it."""
        return (self.x, self.y, self.z)

    @property
    def items(self) -> int:
        """All of them; those of a grid have something to do."""
        return self.x * self.y * self.z

    def __str__(self) -> str:
        return f"{self.x}x{self.y}x{self.z}"


class WorkGroup(WorkItems):
    """Size of a work group, (w_x, w_y, w_z) in the paper."""

    noun = "work group"


class Grid(WorkItems):
    """A kernel's global grid before padding, the paper's problem space (x, y, z)."""

    noun = "grid"

    def groups(self, size: WorkGroup) -> tuple[int, int, int]:
        """Work groups along each dimension."""
        x, y, z = (-(-whole // part) for whole, part in zip(self.shape, size.shape, strict=True))
        return (x, y, z)

    def padded(self, size: WorkGroup) -> tuple[int, int, int]:
        """The grid rounded up to whole work groups: the global size to launch."""
        x, y, z = (count * part for count, part in zip(self.groups(size), size.shape, strict=True))
        return (x, y, z)


@dataclass(frozen=True)
class SizeLimits:
    """What a device allows.

    Attributes:
        most_items: Work items in a group, the paper's C_t.
        most_x: Work items of a group along x, the paper's C_x.
        most_y: Along y, C_y.
        most_z: Along z.
    """

    most_items: int
    most_x: int
    most_y: int
    most_z: int

    def allow(self, size: WorkGroup) -> bool:
        """Whether the device launches groups of this size."""
        return size.items <= self.most_items and size.x <= self.most_x and size.y <= self.most_y and size.z <= self.most_z


def sizes_array(sizes: Iterable[WorkGroup]) -> np.ndarray:
    """(sizes, 3), int64: x, y and z."""
    return np.array([size.shape for size in sizes], dtype=np.int64).reshape(-1, 3)


def candidate_array(grid: Grid, limits: SizeLimits) -> np.ndarray:
    """All sizes no larger than the grid that the device allows.

    Args:
        grid: The kernel's work items.
        limits: Of the device.

    Returns:
        (sizes, 3), int64, in ascending order of x, then y, then z.
    """
    most = [min(bound, whole) for bound, whole in zip((limits.most_x, limits.most_y, limits.most_z), grid.shape, strict=True)]
    # By x alone and x by y first: the cube of all three would hold millions of sizes that are too large.
    x = np.arange(1, min(most[0], limits.most_items) + 1)
    xy = _crossed(x[:, None], most[1], limits.most_items)
    return _crossed(xy, most[2], limits.most_items)


def candidate_sizes(grid: Grid, limits: SizeLimits) -> list[WorkGroup]:
    """As :func:`candidate_array`, as objects."""
    return [WorkGroup(x, y, z) for x, y, z in candidate_array(grid, limits).tolist()]


def exact_divisors(sizes: Sequence[WorkGroup], grid: Grid) -> list[WorkGroup]:
    """The sizes that TFLite's exhaustive tuning tries: those of at least 32 work items that divide the grid exactly."""
    return [
        size
        for size in sizes
        if size.items >= 32 and all(whole % part == 0 for whole, part in zip(grid.shape, size.shape, strict=True))
    ]


def _crossed(rows: np.ndarray, most: int, most_items: int) -> np.ndarray:
    """Each row with 1, 2, ... behind it, as long as its product and ``most`` allow."""
    room = np.minimum(most_items // rows.prod(axis=1), most)
    repeated = np.repeat(rows, room, axis=0)
    starts = np.repeat(np.cumsum(room) - room, room)
    return np.column_stack([repeated, np.arange(len(repeated)) - starts + 1]).astype(np.int64)
