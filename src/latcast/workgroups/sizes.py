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
        """Number of work items."""
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
        """Return the number of work groups along each dimension."""
        x, y, z = (-(-whole // part) for whole, part in zip(self.shape, size.shape, strict=True))
        return (x, y, z)

    def padded(self, size: WorkGroup) -> tuple[int, int, int]:
        """Return the global size to launch: the grid rounded up to whole work groups."""
        x, y, z = (count * part for count, part in zip(self.groups(size), size.shape, strict=True))
        return (x, y, z)


@dataclass(frozen=True)
class SizeLimits:
    """The largest sizes that a device launches.

    Attributes:
        most_items: Work items in a group, the paper's C_t.
        most_x, most_y, most_z: Along each dimension; the paper's C_x and C_y.
    """

    most_items: int
    most_x: int
    most_y: int
    most_z: int

    def allow(self, size: WorkGroup) -> bool:
        """Return whether the device launches groups of this size."""
        return size.items <= self.most_items and size.x <= self.most_x and size.y <= self.most_y and size.z <= self.most_z


def sizes_array(sizes: Iterable[WorkGroup]) -> np.ndarray:
    """Return sizes as an array, (sizes, 3), int64."""
    return np.array([size.shape for size in sizes], dtype=np.int64).reshape(-1, 3)


def candidate_array(grid: Grid, limits: SizeLimits) -> np.ndarray:
    """Return all sizes no larger than the grid that the limits allow: (sizes, 3), int64, ascending in x, then y, then z."""
    rows = np.ones((1, 0), dtype=np.int64)
    # Axis after axis: the cube of all three would hold millions of sizes that are too large.
    for bound, whole in zip((limits.most_x, limits.most_y, limits.most_z), grid.shape, strict=True):
        room = np.minimum(limits.most_items // rows.prod(axis=1), min(bound, whole))
        starts = np.repeat(np.cumsum(room) - room, room)
        rows = np.column_stack([np.repeat(rows, room, axis=0), np.arange(len(starts)) - starts + 1])
    return rows


def candidate_sizes(grid: Grid, limits: SizeLimits) -> list[WorkGroup]:
    """Return the rows of :func:`candidate_array` as objects."""
    return [WorkGroup(x, y, z) for x, y, z in candidate_array(grid, limits).tolist()]


def exact_divisors(sizes: Sequence[WorkGroup], grid: Grid) -> list[WorkGroup]:
    """Return the sizes that TFLite's exhaustive tuning tries: at least 32 work items, and dividing the grid exactly."""
    return [size for size in sizes if size.items >= 32 and grid.padded(size) == grid.shape]
