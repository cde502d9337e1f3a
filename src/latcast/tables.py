"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

MOST_SHOWN_ROWS = 20
"""Rows that a notebook shows; the data frame has all."""

_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CAPTION_STYLE = "caption-side:top;text-align:left;font-weight:600;padding:2px 0"


def html_table(caption: str, rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> str:
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
