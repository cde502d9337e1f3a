"""Where an interrupted search goes on: its population, its front, and objective values that were costly to get."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from latcast.errors import LatcastError
from latcast.folders import cache_folder
from latcast.reading import read_json
from latcast.records import SCHEMA_VERSION


@dataclass
class SearchState:
    """Attributes:
    settings: What the search is; a state of other settings is not gone on with.
    evaluations: Networks looked at so far.
    population: Encodings of the last generation.
    front: Encodings of the best so far.
    known: Encodings and the costly values of their objective.
    """

    settings: dict[str, Any]
    evaluations: int = 0
    population: list[list[int]] = field(default_factory=list)
    front: list[list[int]] = field(default_factory=list)
    known: list[tuple[list[int], float]] = field(default_factory=list)


def default_state_path(settings: dict[str, Any]) -> Path:
    """In the user's cache, named by the settings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "searches" / f"{digest}.json"


def read_state(path: Path, settings: dict[str, Any]) -> SearchState | None:
    """The state of an interrupted search, or None where there is none.

    Raises:
        LatcastError: The file is not a state, or that of another search.
    """
    if not path.is_file():
        return None
    try:
        data = read_json(path, error=LatcastError)
        state = SearchState(
            data["settings"], int(data["evaluations"]), data["population"], data["front"],
            [(list(encoding), float(value)) for encoding, value in data["known"]],
        )  # fmt: skip
    except (LatcastError, ValueError, KeyError, TypeError) as problem:
        raise LatcastError(
            f"{path}: not the state of a search ({problem!r}); remove it, or name another with --state"
        ) from problem
    if state.settings != settings:
        raise LatcastError(f"{path}: the state of another search ({state.settings}); remove it, or name another with --state")
    return state


def write_state(path: Path, state: SearchState) -> None:
    """Replaces the file whole, so that it is never half written.

    Raises:
        LatcastError: The folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(json.dumps({"schema": SCHEMA_VERSION, **vars(state)}))
        os.replace(partial, path)
    except OSError as problem:
        raise LatcastError(f"cannot write the state of the search to {path}: {problem.strerror}") from problem
