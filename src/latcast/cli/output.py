"""Printing: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from latcast.errors import LatcastError
from latcast.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from rich.console import Console


def print_json(data: Mapping[str, Any]) -> None:
    """One JSON document on standard output, with the schema version."""
    json.dump({"schema": SCHEMA_VERSION, **data}, sys.stdout, indent=2, allow_nan=False, default=_plain)
    sys.stdout.write("\n")


def _plain(value: object) -> object:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def console(*, stderr: bool = False) -> Console:
    """A terminal that folds nothing where output is piped."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=160)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; columns whose name ends in a unit or holds numbers are right-aligned."""
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def warn(text: str) -> None:
    print(f"latcast: {text}", file=sys.stderr)


def milliseconds(value: float) -> str:
    """Three significant digits."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``input=1,3,224,224`` by input name.

    Raises:
        LatcastError: A text is not of this form.
    """
    shapes = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.replace("x", ",").split(","))
        except ValueError:
            shape = ()
        if not equals or not name or not shape or min(shape) < 1:
            raise LatcastError(f"--shape '{text}' is not of the form input=1,3,224,224")
        shapes[name] = shape
    return shapes
