"""In which unit a user's latencies are: what the option says, or else milliseconds, unless no known device makes that likely."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import one_of
from latcast.errors import DatasetError

if TYPE_CHECKING:
    from latcast.records import Reference


def _units() -> Sequence[str]:
    from latcast.devices.latency_units import MILLISECONDS

    return ("", *MILLISECONDS)


OPTION = "--latency-unit"

LatencyUnit = Annotated[
    str,
    typer.Option(
        OPTION,
        help="Unit of the latencies that are read: ms, s or us. [default: ms; asked for where no known device makes that likely]",
        callback=one_of(_units),
        show_default=False,
        metavar="ms|s|us",
    ),
]


def milliseconds_of(unit: str, latencies: Mapping[str, Mapping[Reference, float]], source: str) -> float:
    """How many milliseconds one of the unit has that latencies are in.

    Args:
        unit: What the option says; empty where nothing.
        latencies: By platform id and network, as they stand in the source.
        source: What the user calls it.

    Raises:
        DatasetError: Nothing was said, they are hardly milliseconds, and there is no terminal to ask at.
    """
    from latcast.devices.latency_units import MILLISECONDS, unit_mismatch
    from latcast.devices.shared_terms_file import load_shared_terms

    if unit:
        return MILLISECONDS[unit]
    model = load_shared_terms()
    doubts = {platform: unit_mismatch(model, platform, measured) for platform, measured in latencies.items()}
    likely = {platform: "ms" if doubt is None else doubt.unit for platform, doubt in doubts.items()}
    if len(set(likely.values())) > 1:
        said = ", ".join(f"those of {platform} {unit}" for platform, unit in likely.items())
        raise DatasetError(f"the latencies in {source} are hardly of one unit ({said}); give each platform in a file of its own")
    # One of them speaks for all.
    platform, doubt = next(((name, found) for name, found in doubts.items() if found is not None), ("", None))
    if doubt is None:
        return 1.0
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise DatasetError(f"the latencies of {platform} in {source} lie {doubt}; say what they are with {OPTION} ms, s or us")
    print(f"The latencies of {platform} in {source} lie {doubt}.", file=sys.stderr)
    return MILLISECONDS[_asked(doubt.unit, list(MILLISECONDS))]


def _asked(likely: str, units: list[str]) -> str:
    while True:
        found = str(typer.prompt(f"Unit of the latencies ({', '.join(units)})", default=likely, err=True)).strip()
        if found in units:
            return found
