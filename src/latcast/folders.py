"""The user's folders: data that is kept, and a cache that may be deleted at any time. None of them need exist.

``$LATCAST_HOME`` holds everything where it is set. Otherwise data is in ``latcast`` in ``$XDG_DATA_HOME`` (``~/.local/share``)
and the cache in ``latcast`` in ``$XDG_CACHE_HOME`` (``~/.cache``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from latcast.errors import LatcastError


def home_folder() -> Path:
    """Return the user's home; a folder that does not exist where the system knows none, as of a container's bare user number."""
    known = os.path.expanduser("~")
    return Path("/nonexistent") if known == "~" else Path(known)


def _folder(inside_home: str, variable: str, usual: str) -> Path:
    home = os.environ.get("LATCAST_HOME")
    if home:
        return Path(os.path.expanduser(home)) / inside_home
    chosen = os.environ.get(variable)
    return (Path(chosen) if chosen else home_folder() / usual) / "latcast"


def data_folder() -> Path:
    """Return the folder of data that the user would miss."""
    return _folder("", "XDG_DATA_HOME", ".local/share")


def cache_folder() -> Path:
    """Return the folder of files that can be made again."""
    return _folder("cache", "XDG_CACHE_HOME", ".cache")


def made(folder: Path) -> Path:
    """Make a folder where it is missing, and return it; raise a LatcastError if it cannot be made or written to."""
    reason: str | None = "it is read-only"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        reason = problem.strerror
    else:
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise LatcastError(
        f"cannot write to {folder}: {reason}; choose another place, or set LATCAST_HOME to a folder that can be written"
    )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a draft that replaces a file in one step when the context ends; it is removed after an error.

    Readers see the old file or the new one. The folder must exist; raises an OSError where the file cannot be replaced.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def bundles_folder() -> Path:
    """Return the user's predictor bundles."""
    return data_folder() / "bundles"


def measurements_folder() -> Path:
    """Return the folder of measurements without a stated place."""
    return data_folder() / "measurements"


def rules_folder() -> Path:
    """Return the folder of fusion rules that were detected on this machine."""
    return data_folder() / "rules"


def remember_measurements(place: str | os.PathLike[str]) -> None:
    """Note the last store of measurements; do nothing where the user's folder cannot be written."""
    with suppress(LatcastError, OSError):
        note = made(data_folder()) / _LAST
        with replacing(note) as draft:
            draft.write_text(f"{os.path.abspath(place)}\n", encoding="utf-8")


def last_measurements() -> Path | None:
    """Return the last store of measurements; None where there was none, or it is gone."""
    with suppress(OSError, UnicodeDecodeError):
        found = Path((data_folder() / _LAST).read_text(encoding="utf-8").rstrip("\n"))
        return found if found.is_file() else None
    return None


_LAST = "last_measurements.txt"
