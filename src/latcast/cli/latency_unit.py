"""The unit of latencies that a command reads: the option, and the question where they are hardly milliseconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from latcast.cli.options import one_of

if TYPE_CHECKING:
    from latcast.devices.latency_units import UnitMismatch

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
        while True:
            prompt = f"Unit of the latencies ({', '.join(MILLISECONDS)})"
            found = str(typer.prompt(prompt, default=mismatch.unit, err=True)).strip()
            if found in MILLISECONDS:
                return found

    return ask
