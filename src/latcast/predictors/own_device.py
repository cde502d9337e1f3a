"""Facts that ``latcast measure`` found out about the user's own devices, in JSON files of the user's folder."""

from __future__ import annotations

import json
from typing import Any

from latcast.errors import LatcastError
from latcast.folders import data_folder, made, replacing
from latcast.reading import read_json
from latcast.records import Platform


def _known(file: str) -> dict[str, Any]:
    path = data_folder() / file
    return dict(read_json(path, error=LatcastError)) if path.is_file() else {}


def _unit(platform: Platform) -> str:
    return f"{platform.device}/{platform.unit}"


def found_out(file: str, platform: Platform) -> Any:
    """Return what a file has of a platform's unit, whatever runs on it; None where it has nothing."""
    return _known(file).get(_unit(platform))


def keep_found(file: str, platform: Platform, found: Any) -> None:
    """Keep what was measured of a platform's unit, in place of what the file had of it."""
    known = {**_known(file), _unit(platform): found}
    with replacing(made(data_folder()) / file) as draft:
        draft.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
