"""Profiles of GPUs: queried from OpenCL or WebGPU, or read from TOML; the paper's four phones come with latcast."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from latcast.errors import LatcastError, UnknownNameError
from latcast.reading import MOST_TOML_BYTES, parse_toml, read_bytes
from latcast.registry import nearest_names
from latcast.workgroups.sizes import SizeLimits

MOST_ITEMS = 65_536
"""Work items in a group; more than any device launches, and few enough for all sizes to be listed."""

_PROFILES = resources.files("latcast.workgroups").joinpath("profiles")


@dataclass(frozen=True)
class DeviceProfile:
    """A GPU as the rules see it; an unknown number is None, and the rules that need it judge nothing.

    Attributes:
        name: Short, for files and options ("hikey970").
        title: For people ("HiSilicon HiKey 970, Mali-G72").
        max_work_group_size: Work items in a group at most, the paper's C_t.
        max_x, max_y, max_z: Along each dimension at most; C_x and C_y.
        compute_units: Shader cores, N_sc.
        simultaneous_items: Work items that a shader core executes at once, K_ac; drivers tell only the preferred multiple.
        cache_line_bytes: Line of the cache next to memory, W_cache.
        source: Origin of these numbers.
        family: TFLite's GPU family for kernel deduction ("adreno6xx").
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
        """The sizes that it launches."""
        return SizeLimits(self.max_work_group_size, self.max_x, self.max_y, self.max_z)

    def limited(self, limits: SizeLimits) -> DeviceProfile:
        """Return the device with the limits of a kernel."""
        most = {"max_work_group_size": limits.most_items, "max_x": limits.most_x, "max_y": limits.most_y, "max_z": limits.most_z}
        return replace(self, **most)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """Return the profile for scripts; unknown numbers are null."""
        return asdict(self)


_NEEDED = ("max_work_group_size", "max_x", "max_y", "max_z")
_WHOLE = (*_NEEDED, "compute_units", "simultaneous_items", "cache_line_bytes")
_TEXT = ("title", "source", "family")


def profile_names() -> list[str]:
    """Return the names of the profiles that come with latcast, sorted."""
    return sorted(item.name.removesuffix(".toml") for item in _PROFILES.iterdir() if item.name.endswith(".toml"))


def load_profile(name_or_path: str | Path) -> DeviceProfile:
    """Return a profile by its name, or read it from a path that ends in ``.toml``.

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
    """Read a profile from TOML, whose keys are fields of :class:`DeviceProfile`; ``where`` names the file in messages.

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
