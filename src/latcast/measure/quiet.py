"""Where the probe's quiet times are kept, so that figures of different processes and days compare.

A host has one quiet time for each key of its probe. A calibration that finds the host faster than known replaces it; small
differences do not, or every process would have its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from latcast.errors import MeasurementError
from latcast.folders import cache_folder
from latcast.reading import read_json
from latcast.records import check_ms, listed

QuietTime = tuple[float, ...]

IMPROVEMENT = 0.05
"""A calibration must be faster than the known quiet time by this share to replace it."""


class QuietTimes(Protocol):
    """Keeps quiet times by probe key."""

    def quiet_ms(self, key: str) -> QuietTime | None:
        """The known quiet times of the probe's parts, in milliseconds."""

    def keep_quiet_ms(self, key: str, quiet_ms: QuietTime) -> None:
        """Remembers them, in place of those known before."""


def settle(known: QuietTime | None, found: Sequence[float]) -> QuietTime:
    """The quiet times to go on with, from those known and those a calibration has just found, part by part."""
    if known is None or len(known) != len(found):
        return tuple(found)
    return tuple(new if new < old * (1 - IMPROVEMENT) else old for old, new in zip(known, found, strict=True))


def checked_quiet_ms(values: object) -> QuietTime:
    """Quiet times as a file or a store has them.

    Raises:
        MeasurementError: They are no list of times above 0.
    """
    found = listed("the probe's quiet times", values)
    check_ms("the probe's quiet times", found, above_zero=True)
    return tuple(float(value) for value in found)


def default_quiet_times_path() -> Path:
    """``quiet_times.json`` in the user's cache."""
    return cache_folder() / "quiet_times.json"


class QuietTimesFile:
    """Quiet times in a JSON file, for measurements outside a campaign.

    Args:
        path: The file; by default in the user's cache. It is made when first needed.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_quiet_times_path()

    def quiet_ms(self, key: str) -> QuietTime | None:
        return self._read().get(key)

    def keep_quiet_ms(self, key: str, quiet_ms: QuietTime) -> None:
        known = {**self._read(), key: list(quiet_ms)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Replaced in one step, so that a reader never sees half a file.
            draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            draft.write_text(json.dumps(known, indent=1), encoding="utf-8")
            draft.replace(self.path)
        except OSError as problem:
            raise self._unusable(problem) from problem

    def _read(self) -> dict[str, QuietTime]:
        if not self.path.exists():
            return {}
        try:
            found = read_json(self.path, error=MeasurementError)
            if not isinstance(found, dict):
                raise MeasurementError(f"a {type(found).__name__}")
            return {key: checked_quiet_ms(values) for key, values in found.items()}
        except MeasurementError as problem:
            raise MeasurementError(
                f"{self.path} is not a file of quiet times ({problem}); delete it, the probe is then calibrated anew"
            ) from problem

    def _unusable(self, problem: OSError) -> MeasurementError:
        return MeasurementError(
            f"cannot keep the probe's quiet time in {self.path}: {problem.strerror}; "
            "set XDG_CACHE_HOME to a folder that can be written"
        )
