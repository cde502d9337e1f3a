"""``latcast doctor``."""

from __future__ import annotations

import os
import platform as host
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from latcast.cli.output import print_json, print_table

OPTIONAL_PARTS = (
    ("tflite", "tflite", "read .tflite files"),
    ("torch", "torch", "read PyTorch modules and .pt2 files"),
    ("onnxscript", "torch", "read PyTorch modules and .pt2 files"),
    ("matplotlib", "plots", "plots"),
)
"""Distribution, the extra that brings it, what it is for."""


def _runtimes() -> list[dict[str, Any]]:
    from latcast.runtimes import RUNTIMES, get_runtime

    found = []
    for name in RUNTIMES:
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
    for distribution, extra, purpose in OPTIONAL_PARTS:
        try:
            installed: str | None = version(distribution)
        except PackageNotFoundError:
            installed = None
        found.append(
            {
                "part": distribution,
                "purpose": purpose,
                "version": installed,
                "how_to_add": None if installed else f"pip install 'latcast[{extra}]'",
            }
        )
    return found


def _machine() -> dict[str, Any]:
    from latcast.measure.environment import describe_environment

    found = dict(describe_environment())
    found["python"] = host.python_version()
    found["load"] = list(os.getloadavg()) if hasattr(os, "getloadavg") else None
    return found


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """What works here, what is missing and how to add it."""
    from latcast.predictors.shelf import available_platforms, user_folder

    runtimes, parts, machine = _runtimes(), _parts(), _machine()
    bundles = len(available_platforms())
    if as_json:
        print_json(
            {
                "runtimes": runtimes, "parts": parts, "machine": machine,
                "bundles": {"folder": str(user_folder()), "platforms": bundles},
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
    print_table(
        "\nThis machine",
        ("what", "found"),
        [(name, str(value)[:100]) for name, value in machine.items() if isinstance(value, (str, int, float))],
    )
    print_table("\nPredictors", ("what", "found"), [("folder", str(user_folder())), ("platforms", str(bundles))])
