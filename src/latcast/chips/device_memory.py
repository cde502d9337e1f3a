"""How much of a device's memory a program can count on, for each size that it is sold with, and whether a program fits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from latcast.chips.chip_names import devices_named
from latcast.chips.chip_table import Chip

MOST_OF_SHARED, LEFT_TO_SYSTEM_GB = 0.6, 1.2
"""Part of the memory that an app can count on, and what the system keeps of 5 GB and more; of less a quarter. PocketPal, an app
that runs language models on phones, expects both before it has loaded one (``useMemoryCheck.ts``). From a shell models of up to
4.5 of 6 GB were measured on a Pixel 6a, and of 114 of 128 GB on a Ryzen AI Max."""


class Shortage(NamedTuple):
    """A warning that a program may not fit in a device's memory.

    Attributes:
        sentence: The warning.
        unfit: Whether no size of memory that the device is sold with holds the program.
    """

    sentence: str
    unfit: bool = False


def usable_memory_gb(device_text: str, chip: Chip | None, said: str = "") -> Mapping[float, float]:
    """Return what an app can count on, in GB, of each size of memory that a device is sold with, the smallest first.

    Empty where the sizes are not known. A graphics card's memory is its own, all of which counts.

    Args:
        device_text: As :func:`latcast.chips.chip_names.chip_of` reads it; a text that names no device means any with the chip.
        chip: Of the unit that computes.
        said: What a user typed: a size in it, as in ``macbook air m2 16gb``, is the only one.
    """
    named = devices_named(device_text)
    own = chip is not None and not chip.cpu
    if stated := re.search(r"\b(\d+) ?gb\b", said.lower()):
        sizes = {float(stated[1])}
    elif said.partition("/")[0] == "local":
        from latcast.environment import host_environment

        sizes = {round(size / 1e9, 1) for size in [host_environment()["memory_bytes"]] if size}
    elif own or not named:
        sizes = set(chip.ram_gb) if chip else set()
    else:
        sizes = {size for each in named for size in each.ram_gb}
    return {size: size if own else MOST_OF_SHARED * size for size in sorted(sizes)}


def memory_shortage(takes_gb: float, usable_gb: Mapping[float, float]) -> Shortage | None:
    """Return the shortage of memory that a program meets; None where every size holds it, or sizes are not known.

    Args:
        takes_gb: What the program takes.
        usable_gb: As :func:`usable_memory_gb` returns it.
    """
    if not usable_gb or takes_gb <= min(usable_gb.values()):
        return None
    sizes, largest = " or ".join(", ".join(f"{size:g}" for size in usable_gb).rsplit(", ", 1)), max(usable_gb)
    holding = [size for size, usable in usable_gb.items() if takes_gb <= max(usable, size - min(LEFT_TO_SYSTEM_GB, size / 4))]
    if not holding:
        return Shortage(f"does not fit: takes {takes_gb:.1f} GB, and the device is sold with {sizes} GB", unfit=True)
    if takes_gb > usable_gb[largest]:
        counted_on = f"{largest:g} GB, of which an app can count on {usable_gb[largest]:.1f} GB"
        return Shortage(f"tight: takes {takes_gb:.1f} GB of {counted_on}")
    return Shortage(
        f"takes {takes_gb:.1f} GB: of the sizes that the device is sold with, {sizes} GB, it needs {min(holding):g} GB"
    )
