"""Measured sweeps of a folder, grouped by device and operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from latcast.errors import DatasetError
from latcast.workgroups.kernel_tuner_cache import read_cache
from latcast.workgroups.sweep import SizeSweep

LEAST_SIZES = 20
"""Sizes of a sweep below which shares and scores of eq. 8 say little; such sweeps are left out and counted."""

LONGEST_TITLE = 40

KINDS = {"conv": "Conv", "depthwise_conv": "Dw-Conv"}


@dataclass(frozen=True)
class Group:
    """Sweeps of one kind of operator on one device.

    Attributes:
        device: For people.
        kernel: "Conv" or "Dw-Conv" for TFLite-like kernels, the kernel's name for those of others.
        kind: Of operator.
        sweeps: Those with sizes enough.
        left_out: How many have too few.
    """

    device: str
    kernel: str
    kind: str
    sweeps: tuple[SizeSweep, ...]
    left_out: int = 0

    @property
    def title(self) -> str:
        """Device, cut where it would fill a line, and kernel."""
        return f"{shorten(self.device, LONGEST_TITLE, placeholder='...')}, {self.kernel}"

    @property
    def own(self) -> bool:
        """Whether rule V applies: the kernel's data accesses have been counted."""
        return self.sweeps[0].descriptor.accesses_counted


def read_groups(folder: Path) -> list[Group]:
    """Return all sweeps of a folder's cache files.

    Raises:
        DatasetError: There are none, one is malformed, or no sweep has sizes enough.
    """
    files = sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")])
    if not files:
        raise DatasetError(
            f"{folder} has no .json or .json.gz files; expected sweeps of work-group sizes as Kernel Tuner's caches"
        )
    return grouped([sweep for file in files for sweep in read_cache(file)], str(folder))


def grouped(sweeps: Sequence[SizeSweep], where: str = "the sweeps") -> list[Group]:
    """Sweeps by device and operator, in the order of their first.

    Raises:
        DatasetError: None has sizes enough.
    """
    found: dict[tuple[str, str, str], list[SizeSweep]] = {}
    for sweep in sweeps:
        kernel = KINDS[sweep.descriptor.kind] if sweep.descriptor.accesses_counted else sweep.descriptor.name
        found.setdefault((sweep.device.title, kernel, sweep.descriptor.kind), []).append(sweep)
    groups = []
    for key, members in found.items():
        large = tuple(sweep for sweep in members if len(sweep.sizes) >= LEAST_SIZES)
        if large:
            groups.append(Group(*key, large, len(members) - len(large)))
    if not groups:
        raise DatasetError(f"{where}: no sweep has {LEAST_SIZES} sizes or more; measure more sizes")
    return groups
