"""Lists as the interface gives them: found in, sorted, and in portions that a cursor goes on from."""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from fastapi import Query

from latcast.errors import HubError

Row = Mapping[str, Any]
Sort = Callable[[Row], Any]

Find = Annotated[str, Query(max_length=100, description="Only what has each of these words in its name.")]
SortBy = Annotated[str, Query(max_length=20, pattern=r"^-?[a-z_]*$", description="A field; with - before it, falling.")]
Limit = Annotated[int | None, Query(ge=1, le=1000, description="At most so many; all where left out.")]
Cursor = Annotated[str, Query(max_length=400, description="What `next` of the answer before said.")]


class Portion(NamedTuple):
    """Some rows of a list.

    Attributes:
        rows: Of this portion.
        total: All that were found.
        start: Place of the first row among them, from 0 on.
        before, next: Cursors of the portions around it, "" where that is the first one; None where there is none.
    """

    rows: Sequence[Row]
    total: int
    start: int
    before: str | None
    next: str | None


@dataclass(frozen=True)
class Listing:
    """A list that can be sorted.

    Attributes:
        name: Field that identifies a row, in which words are looked for, and which decides where others are equal.
        sorts: Field names to sort by to what is compared; a row of which that is None comes last, rising or falling.
    """

    name: str
    sorts: Mapping[str, Sort]

    def portion(self, rows: Sequence[Row], find: str, sort: str, limit: int | None, cursor: str) -> Portion:
        """Return a portion of the rows.

        A cursor names the last row, so that rows added or removed between two requests neither repeat nor hide others.

        Raises:
            HubError: The list is not sorted by that field, or the cursor is of another list.
        """
        words = find.lower().split()
        found = [row for row in rows if all(word in str(row[self.name]).lower() for word in words)]
        falling, field = sort.startswith("-"), sort.lstrip("-") or self.name
        if field != self.name and field not in self.sorts:
            raise HubError(f"'{field}' is not a field to sort by; expected one of {', '.join([self.name, *self.sorts])}")
        value: Sort = self.sorts.get(field, lambda row: row[self.name])

        def order(row_value: Any, name: str) -> tuple[bool, Any]:
            """Return what compares as rows are sorted: those without a value come last."""
            if row_value is None:
                return True, name
            return False, _Falling((row_value, name)) if falling else (row_value, name)

        def place(row: Row) -> tuple[bool, Any]:
            return order(value(row), str(row[self.name]))

        found.sort(key=place)
        start = 0
        if cursor:
            try:
                by, last, name = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
                if by == sort:
                    start = bisect_right(found, order(tuple(last) if isinstance(last, list) else last, name), key=place)
            except (ValueError, TypeError, RecursionError) as problem:
                raise HubError("unknown cursor; request the first page without one") from problem
            if by != sort:
                raise HubError("unknown cursor of a list in another order; request the first page without one")

        def cursor_of(row: Row) -> str:
            content = json.dumps([sort, value(row), str(row[self.name])]).encode()
            return base64.urlsafe_b64encode(content).decode().rstrip("=")

        end = len(found) if limit is None else min(start + limit, len(found))
        back = 0 if limit is None else max(start - limit, 0)
        return Portion(
            found[start:end],
            len(found),
            start,
            None if not start else cursor_of(found[back - 1]) if back else "",
            cursor_of(found[end - 1]) if end < len(found) else None,
        )


@dataclass(frozen=True)
class _Falling:
    """A place in a list that is sorted the other way round."""

    place: tuple[Any, str]

    def __lt__(self, other: _Falling) -> bool:
        return bool(other.place < self.place)


def _field(name: str) -> Sort:
    return lambda row: row[name]


DEVICES = Listing("device", {"measurements": _field("measurements"), "platforms": lambda row: len(row["platforms"])})
PLATFORMS = Listing("id", {name: _field(name) for name in ("networks", "measurements", "source")})
NETWORKS = Listing(
    "name", {"key": _field("key")} | {name: _field(name) for name in ("platforms", "fastest_ms", "median_ms", "slowest_ms")}
)
