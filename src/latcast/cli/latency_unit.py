"""The unit of latencies that a command reads: the option, and the question where they are hardly milliseconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from latcast.cli.options import one_of
from latcast.errors import DatasetError

if TYPE_CHECKING:
    from latcast.devices.latency_units import UnitMismatch
    from latcast.records import Reference

UNIT_OPTION = "--latency-unit"
LatencyUnit = Annotated[
    str,
    Option(
        UNIT_OPTION,
        help="Unit of the latencies that are read: ms, s or us. [default: ms; asked for where no known device makes that likely]",
        callback=one_of("", "latcast.devices.latency_units:MILLISECONDS"),
        show_default=False,
        metavar="ms|s|us",
    ),
]


def asked_unit() -> Callable[[UnitMismatch], str] | None:
    """Ask the user for the unit of latencies that are hardly milliseconds; None where there is no terminal."""
    from latcast.devices.latency_units import MILLISECONDS

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(mismatch: UnitMismatch) -> str:
        print(f"The latencies lie {mismatch}.", file=sys.stderr)
        return _asked(mismatch.unit, list(MILLISECONDS))

    return ask


def milliseconds_of(unit: str, latencies: Mapping[str, Mapping[Reference, float]], source: str) -> float:
    """Return the milliseconds in one unit of time that latencies are given in.

    Args:
        unit: What the option says; empty where nothing.
        latencies: By platform id and network, as they stand in the source.
        source: What the user calls it.

    Raises:
        DatasetError: No unit was given, they are hardly milliseconds, and there is no terminal.
    """
    from latcast.devices.device_model_file import load_device_model
    from latcast.devices.latency_units import MILLISECONDS, unit_mismatch

    if unit:
        return MILLISECONDS[unit]
    model = load_device_model()
    mismatches = {platform: unit_mismatch(model, platform, measured) for platform, measured in latencies.items()}
    likely = {platform: "ms" if mismatch is None else mismatch.unit for platform, mismatch in mismatches.items()}
    if len(set(likely.values())) > 1:
        said = ", ".join(f"those of {platform} {unit}" for platform, unit in likely.items())
        raise DatasetError(f"the latencies in {source} are hardly of one unit ({said}); give each platform in a separate file")
    # One platform represents all.
    platform, mismatch = next(((name, found) for name, found in mismatches.items() if found is not None), ("", None))
    if mismatch is None:
        return 1.0
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise DatasetError(
            f"the latencies of {platform} in {source} lie {mismatch}; say what they are with {UNIT_OPTION} ms, s or us"
        )
    print(f"The latencies of {platform} in {source} lie {mismatch}.", file=sys.stderr)
    return MILLISECONDS[_asked(mismatch.unit, list(MILLISECONDS))]


def _asked(likely: str, units: list[str]) -> str:
    while True:
        found = str(typer.prompt(f"Unit of the latencies ({', '.join(units)})", default=likely, err=True)).strip()
        if found in units:
            return found
