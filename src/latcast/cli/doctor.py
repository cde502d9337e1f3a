"""``latcast doctor``."""

from __future__ import annotations

import os
import platform as host
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from latcast import __version__
from latcast.cli import options
from latcast.cli.output import print_json, print_table, warn
from latcast.extras import PACKAGES


def _runtimes() -> list[dict[str, Any]]:
    from latcast.runtimes import RUNTIMES, get_runtime

    found = []
    for name in RUNTIMES.names():
        runtime = get_runtime(name)
        reason = runtime.available()
        found.append(
            {
                "runtime": name,
                "works": reason is None,
                "version": runtime.version() if reason is None else None,
                "precisions": list(runtime.precisions) if reason is None else [],
                "how_to_add": reason,
            }
        )
    return found


def _parts() -> list[dict[str, Any]]:
    found = []
    for package in PACKAGES.values():
        if not package.purpose:
            continue
        try:
            installed: str | None = version(package.distribution)
        except PackageNotFoundError:
            installed = None
        found.append(
            {
                "part": package.distribution,
                "purpose": package.purpose,
                "version": installed,
                "how_to_add": None if installed else f"pip install 'latcast[{package.extra}]'",
            }
        )
    return found


def _machine() -> dict[str, Any]:
    from latcast.environment import affinity, host_environment
    from latcast.measure.scheduling import realtime_permitted

    found = host_environment()
    cpu = found.pop("cpu")
    return {
        "cpu": cpu["model"],
        "caches_bytes": cpu["caches_bytes"],
        "usable_cpus": list(affinity()),
        **found,
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "realtime_permitted": realtime_permitted(),
        "python": host.python_version(),
        "latcast": __version__,
    }


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    return ", ".join(_shown(each) for each in value) if isinstance(value, list) else str(value)


def command(as_json: options.AsJson = False) -> None:
    """Report what works here, what is missing and how to add it.

    \b
    Examples:
      latcast doctor
      latcast doctor --json
    """
    from latcast.folders import bundles_folder
    from latcast.predictors.bundle_index import scan_bundles

    runtimes, parts, machine, index = _runtimes(), _parts(), _machine(), scan_bundles()
    if as_json:
        print_json(
            {
                "runtimes": runtimes, "parts": parts, "machine": machine,
                "bundles": {"folder": str(bundles_folder()), "platforms": len(index.entries), "damaged": list(index.problems)},
            }
        )  # fmt: skip
        return
    print_table(
        "Runtimes",
        ("runtime", "works", "version", "precisions", "how to add"),
        [
            (item["runtime"], "yes" if item["works"] else "no", item["version"] or "-", ", ".join(item["precisions"]),
             item["how_to_add"] or "")
            for item in runtimes
        ],
    )  # fmt: skip
    print_table(
        "\nOptional parts",
        ("part", "for", "version", "how to add"),
        [(item["part"], item["purpose"], item["version"] or "-", item["how_to_add"] or "") for item in parts],
    )
    print_table("\nThis machine", ("", ""), [(name.replace("_", " "), _shown(value)) for name, value in machine.items()])
    print_table("\nPredictors", ("", ""), [("folder", str(bundles_folder())), ("platforms", str(len(index.entries)))])
    for problem in index.problems:
        warn(problem)
