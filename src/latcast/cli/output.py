"""Printing: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from latcast.errors import LatcastError, one_line, printable
from latcast.records import SCHEMA_VERSION
from latcast.records import milliseconds as milliseconds

if TYPE_CHECKING:
    from rich.console import Console

Result = TypeVar("Result")

PIPE_WIDTH = 1000
"""Columns of output that is not a terminal: nothing is folded there."""

_NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]\d+)?( to \d[\d.,]*)?|-|")


_SPELT = {"±": "+-"}
"""What to write where the terminal's encoding lacks a character."""


class PrintableOutput:
    """Standard output that passes on text, line ends and tabs, and nothing that steers a terminal; no character makes it fail.

    What commands print holds names that strangers wrote. Everything else is the stream's own.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(_shown(text, self.stream, kept="\n\t"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _shown(text: str, stream: TextIO, *, kept: str = "") -> str:
    """Text as a stream can take it: printable, and in its encoding."""
    text = printable(text, kept=kept)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for character, spelling in _SPELT.items():
            text = text.replace(character, spelling)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def print_json(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output; an object gets the schema version."""
    document = {"schema": SCHEMA_VERSION, **data} if isinstance(data, Mapping) else data
    print(json.dumps(document, indent=2, allow_nan=False, default=_plain))


def _plain(value: object) -> object:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def console(*, stderr: bool = False) -> Console:
    """A terminal, or a pipe in which nothing is folded."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # Rich steers the terminal itself, so it writes past the filter.
    file = stream.stream if isinstance(stream, PrintableOutput) else stream
    found = Console(file=file, stderr=stderr, highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        found.width = PIPE_WIDTH
    return found


def interval_column(intervals: Sequence[tuple[float, float, float | None]]) -> tuple[str, list[str]]:
    """Heading and cells of a column of intervals in milliseconds: low, high and level each.

    One that nobody calibrated is never called by a level.
    """
    levels = {level for _, _, level in intervals}
    cells = [f"{milliseconds(low)} to {milliseconds(high)}" for low, high, _ in intervals]
    if None not in levels and len(levels) < 2:
        return f"{levels.pop() if levels else 90:g} % interval ms", cells
    if levels == {None}:
        return "uncalibrated interval ms", cells
    kinds = ("uncalibrated" if level is None else f"{level:g} %" for _, _, level in intervals)
    return "interval ms", [f"{cell} ({kind})" for cell, kind in zip(cells, kinds, strict=True)]


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; columns that hold nothing but numbers are right-aligned."""
    from rich.table import Table

    title, columns = _shown(title, sys.stdout, kept="\n"), [_shown(name, sys.stdout) for name in columns]
    rows = [[_shown(cell, sys.stdout) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for index, name in enumerate(columns):
        numbers = all(_NUMBER.fullmatch(row[index]) for row in rows)
        table.add_column(name, justify="right" if rows and numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    terminal = console()
    if title:
        terminal.print(title, style="bold")
    if terminal.is_terminal:
        terminal.print(table)
        return
    with terminal.capture() as captured:
        terminal.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def warn(text: str) -> None:
    """One printable line on standard error, of at most 500 characters."""
    print(f"latcast: {one_line(text)}", file=sys.stderr)


def for_each(models: Sequence[str], do: Callable[[str], Result]) -> list[tuple[str, Result]]:
    """What is done for each of several models, without those that fail: these are a line each on standard error.

    Args:
        models: As the user calls them.
        do: Raises :class:`LatcastError` where a model fails.

    Returns:
        (model, result) of those that work.

    Raises:
        LatcastError: The only model fails.
    """
    if len(models) == 1:
        return [(models[0], do(models[0]))]
    found = []
    for model in models:
        try:
            found.append((model, do(model)))
        except LatcastError as problem:
            warn(str(problem) if model in str(problem) else f"{model}: {problem}")
    return found


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
