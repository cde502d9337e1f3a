"""What is known of a GPU: profiles queried from OpenCL or WebGPU, or read from TOML; the paper's four phones are at hand."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from latcast.errors import LatcastError, UnknownNameError
from latcast.reading import MOST_TOML_BYTES, parse_toml, read_bytes
from latcast.registry import nearest_names
from latcast.workgroups.sizes import SizeLimits

MOST_ITEMS = 65_536
"""Work items in a group, beyond any device; all sizes up to there can be listed."""

_PROFILES = resources.files("latcast.workgroups").joinpath("profiles")


@dataclass(frozen=True)
class DeviceProfile:
    """A GPU as the rules see it. What is not known is None and makes a rule say so.

    Attributes:
        name: Short, for files and options ("hikey970").
        title: For people ("HiSilicon HiKey 970, Mali-G72").
        max_work_group_size: Work items in a group at most, the paper's C_t.
        max_x: Along x at most, C_x.
        max_y: Along y at most, C_y.
        max_z: Along z at most.
        compute_units: Shader cores, N_sc.
        simultaneous_items: Work items that a shader core executes at once, K_ac. Public interfaces tell it only through the
            preferred work-group size multiple, and it depends on the kernel's registers too.
        cache_line_bytes: Of the cache next to memory, W_cache.
        source: Where these numbers are from.
        family: TFLite's GPU family for kernel deduction ("adreno6xx"), where it is one.
    """

    name: str
    title: str
    max_work_group_size: int
    max_x: int
    max_y: int
    max_z: int
    compute_units: int | None = None
    simultaneous_items: int | None = None
    cache_line_bytes: int | None = None
    source: str = ""
    family: str | None = None

    def __post_init__(self) -> None:
        if type(self.max_work_group_size) is int and self.max_work_group_size > MOST_ITEMS:
            raise LatcastError(
                f"device profile '{self.name}': max_work_group_size is {self.max_work_group_size}; expected at most {MOST_ITEMS}"
            )
        for field in _WHOLE:
            value = getattr(self, field)
            if (value is None and field in _NEEDED) or (value is not None and (type(value) is not int or value < 1)):
                raise LatcastError(f"device profile '{self.name}': {field} is {value!r}; expected a whole number from 1")

    @property
    def limits(self) -> SizeLimits:
        """Which sizes can be launched."""
        return SizeLimits(self.max_work_group_size, self.max_x, self.max_y, self.max_z)

    def to_json(self) -> dict[str, Any]:
        """For scripts; what is not known is null."""
        return asdict(self)


_NEEDED = ("max_work_group_size", "max_x", "max_y", "max_z")
_WHOLE = (*_NEEDED, "compute_units", "simultaneous_items", "cache_line_bytes")
_TEXT = ("title", "source", "family")


def profile_names() -> list[str]:
    """Profiles that come with latcast, sorted."""
    return sorted(item.name.removesuffix(".toml") for item in _PROFILES.iterdir() if item.name.endswith(".toml"))


def load_profile(name_or_path: str | Path) -> DeviceProfile:
    """A profile by its name, or from a TOML file.

    Args:
        name_or_path: One of :func:`profile_names`, or a path that ends in ``.toml``.

    Raises:
        UnknownNameError: No profile of this name.
        LatcastError: The file is missing or not a profile.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml":
        if not path.is_file():
            raise LatcastError(f"there is no device profile {path}; known by name: {', '.join(profile_names())}")
        return parse_profile(read_bytes(path, error=LatcastError, most_bytes=MOST_TOML_BYTES), path.stem, str(path))
    name = str(name_or_path)
    if name not in profile_names():
        near = nearest_names(name, profile_names()) or profile_names()
        raise UnknownNameError(f"no device profile is called '{name}'; known: {', '.join(near)}, or a path to a .toml file")
    return parse_profile(_PROFILES.joinpath(f"{name}.toml").read_bytes(), name, f"{name}.toml")


def parse_profile(content: bytes, name: str, where: str) -> DeviceProfile:
    """A profile from TOML.

    Args:
        content: Of the file: the fields of :class:`DeviceProfile`; a missing one is not known.
        name: The profile's name.
        where: The file, for messages.

    Raises:
        LatcastError: It is not TOML, or a field is missing, unknown or of the wrong kind.
    """
    values = parse_toml(content, where, error=LatcastError)
    unknown = sorted(set(values) - {*_WHOLE, *_TEXT})
    missing = sorted(set(_NEEDED) - set(values))
    wrong = [key for key in _TEXT if not isinstance(values.get(key, ""), str)]
    if unknown or missing or wrong:
        parts = [f"unknown: {', '.join(unknown)}"] * bool(unknown) + [f"missing: {', '.join(missing)}"] * bool(missing)
        parts += [f"not a text: {', '.join(wrong)}"] * bool(wrong)
        raise LatcastError(f"{where} is not a device profile; {'; '.join(parts)}. Fields: {', '.join((*_WHOLE, *_TEXT))}")
    return DeviceProfile(**{"name": name, "title": name, **values})
