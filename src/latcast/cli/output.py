"""Printing: tables for people, JSON for scripts, progress and warnings on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from latcast.errors import LatcastError, one_line, printable
from latcast.records import SCHEMA_VERSION
from latcast.tables import decimal
from latcast.tables import milliseconds as milliseconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from latcast.measure.campaign import Progress as CampaignProgress
    from latcast.training.profiling import Stage

Result = TypeVar("Result")

CHECK_FAILED = 3
"""Exit code where everything ran, and what was checked does not hold."""

PLAIN_BARS = 100
"""Width of a line of bars in a pipe."""

PIPE_WIDTH = 1000
"""Columns of output that is not a terminal: nothing is folded there."""

_NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]\d+)?( to [-+]?\d[\d.,]*)?|-|")


_SPELT = {"±": "+-", "█": "#", "▓": "=", "░": "-", "│": "|"}
"""What to write where the terminal's encoding lacks a character."""


class WatchedStream:
    """A stream that remembers why it could not be written to. A pipe whose reader had enough, such as ``head``, takes anything.

    Args:
        stream: Where text goes.
        raising: Whether that is also raised, as an OSError.
    """

    def __init__(self, stream: TextIO, *, raising: bool = True) -> None:
        self.stream = stream
        self.raising = raising
        self.problem: OSError | None = None

    def write(self, text: str) -> int:
        with self._watched():
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._watched():
            self.stream.flush()

    def give_up(self) -> OSError | None:
        """Flush the stream; return why not all could be written, if so. The rest is dropped, so that Python does not complain."""
        with suppress(OSError):
            self.flush()
        if self.problem is not None:
            self._drop()
        return self.problem

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._drop()
        except OSError as problem:
            self.problem = problem
            if self.raising:
                raise

    def _drop(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class PrintableOutput:
    """Standard output that passes on text, line ends and tabs, and nothing that steers a terminal; no character makes it fail.

    What commands print holds names that strangers wrote. Everything else is the stream's own.
    """

    def __init__(self, stream: TextIO | WatchedStream) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(_shown(text, self.stream, kept="\n\t"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _shown(text: str, stream: TextIO | WatchedStream, *, kept: str = "") -> str:
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
    """Print one JSON document on standard output."""
    print(json_text(data))


def json_text(data: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return a JSON document; an object gets the schema version."""
    document = {"schema": SCHEMA_VERSION, **data} if isinstance(data, Mapping) else data
    return json.dumps(document, indent=2, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def console(*, stderr: bool = False) -> Console:
    """Return a console: a terminal, or a pipe whose lines are not folded."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # Rich steers the terminal itself, so it writes past the filter.
    file: Any = stream.stream if isinstance(stream, PrintableOutput) else stream
    plain = False if os.environ.get("TERM") == "dumb" else None  # which the library takes for 80 columns wide, whatever it is
    found = Console(file=file, stderr=stderr, highlight=False, markup=False, emoji=False, force_terminal=plain)
    if not found.is_terminal:
        found.width = PIPE_WIDTH
    return found


def interval_column(intervals: Sequence[tuple[float, float, float | None]]) -> tuple[str, list[str]]:
    """Heading and cells of a column of intervals in milliseconds: low, high and level each.

    An interval without calibration gets no level.
    """
    levels = {level for _, _, level in intervals}
    cells = [f"{milliseconds(low)} to {milliseconds(high)}" for low, high, _ in intervals]
    if None not in levels and len(levels) < 2:
        return f"{levels.pop() if levels else 90:g} % interval ms", cells
    if levels == {None}:
        return "uncalibrated interval ms", cells
    kinds = ("uncalibrated" if level is None else f"{level:g} %" for _, _, level in intervals)
    return "interval ms", [f"{cell} ({kind})" for cell, kind in zip(cells, kinds, strict=True)]


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, spare: Sequence[str] = ()) -> None:
    """Print a table; columns of numbers are right-aligned.

    Texts are wrapped between words alone, so that a name stays in one piece: a terminal that is too narrow for the longest
    words wraps the rows.

    Args:
        title: Above it; empty for none.
        columns: Headings, all of them empty for none.
        rows: Cells.
        spare: Columns that are left out, in this order, where the terminal is too narrow for all.
    """
    from rich.table import Table

    terminal = console()
    title = _shown(title, sys.stdout, kept="\n")
    cells = [[_shown(text, sys.stdout) for text in column] for column in zip(columns, *rows, strict=True)]
    for name in spare:
        if sum(map(_width, cells)) + 2 * len(cells) - 2 > terminal.width:
            cells = [column for column in cells if column[0] != name]
    numeric = [len(column) > 1 and all(map(_NUMBER.fullmatch, column[1:])) for column in cells]
    if not terminal.is_terminal:
        # Nothing is wrapped or styled.
        aligned = [_aligned(column, numbers, _width(column)) for column, numbers in zip(cells, numeric, strict=True)]
        lines = ["  ".join(line).rstrip() for line in zip(*aligned, strict=True)]
        print("\n".join([title] * bool(title) + lines[0 if any(columns) else 1 :]))
        return
    widths = _fitted_widths(cells, numeric, terminal.width)
    terminal.width = max(terminal.width, sum(widths) + 2 * len(widths) - 2)
    table = Table(box=None, pad_edge=False, show_header=any(columns), padding=(0, 2, 0, 0))
    for column, numbers, width in zip(cells, numeric, widths, strict=True):
        table.add_column(column[0], justify="right" if numbers else "left", overflow="fold", width=width)
    for row in zip(*(column[1:] for column in cells), strict=True):
        table.add_row(*row)
    if title:
        terminal.print(title, style="bold")
    terminal.print(table)


def _aligned(texts: Sequence[str], numeric: bool, width: int) -> list[str]:
    """Texts filled up to a width, numbers from the left."""
    from rich.cells import cell_len

    fill = [" " * (width - cell_len(text)) for text in texts]
    return [space + text if numeric else text + space for space, text in zip(fill, texts, strict=True)]


def _width(texts: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _fitted_widths(cells: Sequence[Sequence[str]], numeric: Sequence[bool], available: int) -> list[int]:
    """Widths of columns of which the first cell is the heading: first headings over numbers are wrapped, then texts.

    No word is broken, and no number parted from its unit, even where the widths then add up to more than what is available.
    """
    widths = [_width(column) for column in cells]
    least = []
    for column, numbers in zip(cells, numeric, strict=True):
        words = [word for text in (column[:1] if numbers else column) for word in text.split()]
        least.append(max(1, _width([*words, *(column[1:] if numbers else ())])))
    for kind in (True, False):
        for _ in range(sum(widths) + 2 * len(widths) - 2 - available):
            room = [(width - low) * (numbers == kind) for width, low, numbers in zip(widths, least, numeric, strict=True)]
            if not any(room):
                break
            widths[room.index(max(room))] -= 1
    return widths


def warn(text: str | LatcastError) -> None:
    """Print one line on standard error: a text within 500 printable characters, an error within what its class allows."""
    print(f"latcast: {text if isinstance(text, LatcastError) else one_line(text)}", file=sys.stderr)


class Interrupted(Exception):
    """Ctrl-C; the message says what becomes of the work done so far."""


@contextmanager
def kept_when_interrupted(kept: str) -> Iterator[None]:
    """Says what is kept of a command that Ctrl-C ends; for a ``with`` statement, or as a decorator."""
    try:
        yield
    except KeyboardInterrupt as problem:
        raise Interrupted(f"interrupted; {kept}") from problem


def warn_of_failures(failures: Mapping[str, str], what: str = "could not be measured") -> None:
    """Print a line on standard error for each of the first three failures."""
    for name, reason in list(failures.items())[:3]:
        warn(f"{name} {what}: {reason}")


def for_each(models: Sequence[str], do: Callable[[str], Result], *, alone: bool = True) -> list[tuple[str, Result]]:
    """Apply ``do`` to each model; print failures to standard error and skip them.

    Args:
        models: As the user calls them.
        do: Raises :class:`LatcastError` where a model fails.
        alone: Whether the command does nothing beside.

    Returns:
        (model, result) of those that work.

    Raises:
        LatcastError: The only model fails, and nothing is done beside.
    """
    if len(models) == 1 and alone:
        return [(models[0], do(models[0]))]
    found = []
    for model in models:
        try:
            found.append((model, do(model)))
        except LatcastError as problem:
            warn(problem if model in str(problem) else f"{model}: {problem}")
    return found


IN_TERMINAL = Path("-")
"""Name of a picture's file that prints bars of characters instead."""


def check_plot(plot: Path | None, *, as_json: bool) -> None:
    """Raise if ``--plot`` cannot work: asked before the work, not after it.

    Raises:
        MissingExtraError: A file is to be drawn and Matplotlib is not installed.
        typer.BadParameter: Bars are to be printed beside JSON.
    """
    import typer

    from latcast.drawing import check_drawable

    if plot == IN_TERMINAL and as_json:
        raise typer.BadParameter("--plot - prints bars, which do not go with --json; give a file, or leave --json out")
    if plot not in (None, IN_TERMINAL):
        check_drawable("--plot")


NARROWEST_BARS = 20
"""Columns of the longest bar where names leave fewer."""


def print_bars(names: Sequence[str], intervals: Sequence[tuple[float, float, float]], *, limit_ms: float | None = None) -> None:
    """Latencies as bars of characters: full to the low end of the interval, and to the latency and the high end paler.

    Args:
        names: Of the bars.
        intervals: Low end, latency and high end of each, in milliseconds.
        limit_ms: A budget, an upright line through all bars; those of more than twice as much are cut off there.
    """
    full, paler, palest, limit = "█▓░│"
    longest = max([high for _, _, high in intervals] + [limit_ms or 0.0])
    if limit_ms:
        longest = min(longest, 2 * limit_ms)
    numbers = [milliseconds(latency) for _, latency, _ in intervals]
    width = console().width if console().is_terminal else PLAIN_BARS
    columns = max(NARROWEST_BARS, width - _width(names) - _width(numbers) - 4)
    scale = (columns - 1) / longest if longest > 0 else 0.0
    for name, number, ends in zip(_aligned(names, False, _width(names)), numbers, intervals, strict=True):
        low, latency, high = (round(min(end, longest) * scale) for end in ends)
        bar = list((full * low + paler * (latency - low) + palest * (high - latency)).ljust(columns))
        if limit_ms is not None:
            bar[round(limit_ms * scale)] = limit
        print(f"{name}  {''.join(bar)}  {number}")
    said = "" if limit_ms is None else f"; {limit} {limit_ms:g} ms"
    print(f"{' ' * _width(names)}  {full} low end, {paler} predicted, {palest} high end of the interval, ms{said}")


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else decimal(value, digits)


LINE_INTERVAL_S = 20.0
"""Least seconds between two lines where there is no terminal."""


class StageProgress:
    """Shows stages as they are announced; a context manager, so that the bar is gone when results are printed."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._name = ""
        self._last_line_s = 0.0

    def __enter__(self) -> StageProgress:
        if self._console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[detail]}"))
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("starting", total=1.0, detail="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: Stage) -> None:
        self.show(stage.name, stage.share, stage.progress)

    def show(self, name: str, share: float, campaign: CampaignProgress | None = None) -> None:
        """Show a stage: its name, its share from 0 to 1, and the campaign's progress."""
        detail = ""
        if campaign is not None:
            failed = f", {campaign.failed} failed" if campaign.failed else ""
            detail = f"{campaign.done} measured{failed}, {campaign.name}"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=name, completed=share, detail=detail)
            return
        now_s = time.monotonic()
        if name != self._name or now_s - self._last_line_s >= LINE_INTERVAL_S:
            self._name, self._last_line_s = name, now_s
            warn(name + (f": {100 * share:.0f} %, {detail}" if campaign else ""))
