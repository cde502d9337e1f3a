"""GPU families: the thresholds that backends compare sizes with, as data, and which device has a GPU of which family."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from latcast.errors import UnknownNameError
from latcast.kernels.selection.protocol import Thresholds
from latcast.registry import nearest_names

_FOLDER = resources.files("latcast.kernels.selection")


@dataclass(frozen=True)
class GpuFamily:
    """GPUs that a backend treats alike.

    Attributes:
        name: As in ``backend:family`` ("adreno6xx").
        title: For people.
        thresholds: Backend to its numbers.
    """

    name: str
    title: str
    thresholds: Mapping[str, Thresholds]


def family_names() -> list[str]:
    """All families, sorted."""
    folder = _FOLDER.joinpath("families")
    return sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json"))


@cache
def family_named(name: str) -> GpuFamily:
    """A family by its name.

    Raises:
        UnknownNameError: No such family.
    """
    if name not in family_names():
        near = nearest_names(name, family_names()) or family_names()
        raise UnknownNameError(f"no GPU family is called '{name}'; known: {', '.join(near)}")
    data: dict[str, Any] = json.loads(_FOLDER.joinpath("families").joinpath(f"{name}.json").read_text())
    return GpuFamily(name, data["title"], data["thresholds"])


@cache
def device_families() -> Mapping[str, str]:
    """Device to the family of its GPU."""
    families: dict[str, str] = json.loads(_FOLDER.joinpath("devices.json").read_text())["families"]
    return families


def family_of_device(device: str) -> GpuFamily:
    """The family of a device's GPU.

    Raises:
        UnknownNameError: The device is not in the table; the message lists devices and families.
    """
    found = device_families().get(device)
    if found is None:
        raise UnknownNameError(
            f"the GPU family of the device '{device}' is not known; name one of {', '.join(family_names())}, "
            f"or a known device: {', '.join(sorted(device_families()))}"
        )
    return family_named(found)
