"""Forms of results: data frames, tables of notebooks, and numbers as texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

from latcast.extras import require

if TYPE_CHECKING:
    import pandas


def decimal(value: float, digits: int = 1) -> str:
    """Format a number with so many decimals; without a minus sign where it rounds to 0."""
    return f"{round(float(value), digits) + 0.0:.{digits}f}"  # -0.0 + 0.0 is 0.0


def signed(value: float, digits: int = 1) -> str:
    """Format a number as :func:`decimal` does, with a plus sign from 0 on."""
    text = decimal(value, digits)
    return text if text.startswith("-") else f"+{text}"


def milliseconds(value: float) -> str:
    """Format a latency, or a difference of two, with three significant digits."""
    size = abs(value)
    return decimal(value, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3)


Rows = Sequence[Mapping[str, Any]]


class Tabular:
    """A result that is a table of ``_rows``: what to override, as are ``_shown`` and ``_notes`` where a notebook shows others."""

    def _rows(self) -> Rows:
        """Return the rows of the data frame, column to value; by default one of the result's plain fields."""
        return [plain_fields(self)]

    def _shown(self) -> Rows:
        """Return the rows that a notebook shows."""
        return self._rows()

    def _notes(self) -> Sequence[str]:
        """Return sentences below the table of a notebook."""
        return ()

    def to_frame(self) -> pandas.DataFrame:
        """Return the result as a pandas data frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        rows = self._rows()
        require("a data frame", "pandas")
        import pandas

        return pandas.DataFrame([dict(row) for row in rows])

    def _repr_html_(self) -> str:
        """Return a table, which notebooks show."""
        return html_table(self._caption(), self._shown(), self._notes())

    def _caption(self) -> str:
        """Return the first line of what Python prints of the result, without the names of fields that a dataclass prints."""
        text = repr(self).partition("\n")[0].strip("<>")
        return type(self).__name__ if text.startswith(f"{type(self).__name__}(") else text


def plain_fields(result: object) -> dict[str, Any]:
    """Return the fields of a dataclass that are texts, numbers or truth values; texts of a tuple are joined."""
    found: dict[str, Any] = {}
    for each in fields(result):  # type: ignore[arg-type]
        value = getattr(result, each.name)
        if isinstance(value, tuple) and value and all(isinstance(part, str) for part in value):
            value = ", ".join(value)
        if value is None or isinstance(value, (str, int, float, bool)):
            found[each.name] = value
    return found


MOST_SHOWN_ROWS = 20
"""Rows that a notebook shows; the data frame has all."""

_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CAPTION_STYLE = "caption-side:top;text-align:left;font-weight:600;padding:2px 0"


def html_table(caption: str, rows: Rows, notes: Sequence[str]) -> str:
    """Return a styled table of rows, column to value, with sentences below it; no text of them is markup."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    heading = "".join(f"<th style='text-align:left'>{escape(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(row.get(name)) for name in columns)}</tr>" for row in rows[:MOST_SHOWN_ROWS])
    more = len(rows) - MOST_SHOWN_ROWS
    shown_notes = [*notes, *([f"{more} more rows: to_frame() has all"] if more > 0 else [])]
    return (
        f"<table style='{_STYLE}'>"
        + (f"<caption style='{_CAPTION_STYLE}'>{escape(caption)}</caption>" if caption else "")
        + f"<thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"
        + "".join(f"<p>{escape(text)}</p>" for text in shown_notes)
    )


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return f"<td style='text-align:left'>{escape(value or '')}</td>"
    text = str(value)
    if isinstance(value, float):
        text = f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"<td style='text-align:right'>{escape(text)}</td>"
