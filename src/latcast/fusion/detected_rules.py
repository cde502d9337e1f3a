"""Where detected fusion rules are kept, and which rules a command means."""

from __future__ import annotations

import json
from pathlib import Path

from latcast.errors import LatcastError, UnknownNameError
from latcast.folders import made, rules_folder
from latcast.kernels.rules import FusionRules, load_rules, platform_rules
from latcast.records import Platform

DETECTED = "detected"
"""Name by which commands call the rules that ``latcast fusion detect`` left for a platform."""

SHIPPED = "shipped"


def rules_path(platform: Platform | str) -> Path:
    """Where the rules detected on a platform belong: one JSON file, named by the id with ``__`` for each slash."""
    return rules_folder() / f"{str(platform).replace('/', '__')}.json"


def save_detected_rules(rules: FusionRules, path: Path) -> Path:
    """Writes rules as JSON, in one step, so that a reader never sees half a file."""
    made(path.parent)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps(rules.to_json(), indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    return path


def detected_rules(platform: Platform | str) -> FusionRules:
    """The rules that were detected on a platform.

    Args:
        platform: A platform, its id, or the name of a runtime. Of a runtime, and where a platform has none of its own (another
            number of threads, another device name), the newest file of the same runtime, version, precision and instruction set
            counts.

    Raises:
        UnknownNameError: There are none; the message says how to detect them.
        BundleError: The file is not a rules file.
    """
    exact = rules_path(platform)
    if exact.is_file():
        return load_rules(exact)
    text = str(platform)
    wanted = Platform.parse(text) if "/" in text else None
    found = [path for path in rules_folder().glob("*.json") if _fits(path, text, wanted)]
    if not found:
        raise UnknownNameError(
            f"no fusion rules were detected for '{text}': found none in {rules_folder()}; "
            f"detect them with: latcast fusion detect --runtime {wanted.runtime if wanted else text}"
        )
    return load_rules(max(found, key=lambda path: path.stat().st_mtime))


def _fits(path: Path, runtime: str, wanted: Platform | None) -> bool:
    """Whether rules were detected on such a platform, or, where none is wanted, on this runtime without a cap."""
    try:
        found = Platform.parse(path.stem.replace("__", "/"))
    except LatcastError:
        return False
    if wanted is None:
        return found.runtime == runtime and not _cap(found)
    return (found.runtime, found.runtime_version, found.precision, _cap(found)) == (
        wanted.runtime, wanted.runtime_version, wanted.precision, _cap(wanted),
    )  # fmt: skip


def _cap(platform: Platform) -> str:
    """What qualifies the unit: the highest instruction set that was used, mostly nothing."""
    return platform.unit.partition("+")[2]


def chosen_rules(source: str | None, platform: Platform) -> FusionRules:
    """The rules that an option ``--rules`` means.

    Args:
        source: ``detected``, ``shipped``, the path of a rules file, or the name of shipped rules; None means ``shipped``.
        platform: For which platform.

    Raises:
        UnknownNameError: There are no such rules.
        BundleError: The file is not a rules file.
    """
    if source is None or source == SHIPPED:
        return platform_rules(platform)
    return detected_rules(platform) if source == DETECTED else load_rules(source)
