"""A hub as one file, from which it can be made again: on SQLite or PostgreSQL, whichever it was on.

Compressed JSON Lines: what the file is, every row of every table, and the number of rows with a hash of all of them. It is read
from one moment of the database, while a server goes on. It holds hashes of tokens, so nobody but its owner may read it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, String, Table, func, insert, select, text
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow, PlatformRow, ReferenceRow, stored_measurement, stored_reference
from latcast.errors import HubError, LatcastError
from latcast.folders import replacing
from latcast.hub.database import HubDatabase
from latcast.hub.migrations import newest
from latcast.hub.schema import METADATA, QuarantineRow
from latcast.measure.environment import utc_now
from latcast.reading import parse_json, read_lines
from latcast.records import Measurement, Platform

SCHEMA = 1

PORTION = 500
"""Rows read or written at once."""

_COUNTED = ("measurements", "contributors", "uploads", "tokens")

Watch = Callable[[int], None]


@dataclass(frozen=True)
class Backup:
    """What a file holds.

    Attributes:
        made_at: When.
        latcast: The version that made it.
        rows: Table to number of rows.
        sha256: Of all rows.
    """

    made_at: str
    latcast: str
    rows: Mapping[str, int]
    sha256: str

    def to_json(self) -> dict[str, Any]:
        return {"made_at": self.made_at, "latcast": self.latcast, "rows": dict(self.rows), "sha256": self.sha256}


def _tables() -> list[Table]:
    """In order of their dependences."""
    return [table for metadata in METADATA for table in metadata.sorted_tables]


def back_up(database: HubDatabase, path: Path, watch: Watch = lambda done: None) -> Backup:
    """Writes a backup, which replaces a file of this name once it is whole.

    Args:
        database: Open; others may write to it meanwhile.
        path: Where to.
        watch: Told how many rows are written.

    Raises:
        DatasetError: The database does not answer.
        HubError: The file cannot be written.
    """
    made_at, digest = utc_now(), hashlib.sha256()
    counts: dict[str, int] = {}
    try:
        with replacing(path) as draft:
            draft.touch(mode=0o600)
            with gzip.open(draft, "wb", compresslevel=6) as file:
                head = {"latcast_hub_backup": SCHEMA, "tables": newest(), "latcast": version("latcast"), "made_at": made_at}
                file.write(json.dumps(head).encode() + b"\n")
                for name, line in _lines(database):
                    digest.update(line)
                    file.write(line)
                    counts[name] = counts.get(name, 0) + 1
                    if sum(counts.values()) % PORTION == 0:
                        watch(sum(counts.values()))
                file.write(json.dumps({"rows": counts, "sha256": digest.hexdigest()}).encode() + b"\n")
            os.chmod(draft, 0o600)
    except OSError as problem:
        raise HubError(f"cannot write the backup {path}: {problem.strerror or problem}") from problem
    watch(sum(counts.values()))
    return Backup(made_at, version("latcast"), counts, digest.hexdigest())


def _lines(database: HubDatabase) -> Iterator[tuple[str, bytes]]:
    """(table, line) of every row, all of one moment."""
    with database._reading() as session:
        if session.get_bind().dialect.name == "postgresql":
            session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        for table in _tables():
            order = list(table.primary_key.columns)
            rows = session.connection().execute(select(table).order_by(*order).execution_options(yield_per=PORTION))
            for row in rows.mappings():
                values = {name: _plain(value) for name, value in row.items()}
                line = json.dumps([table.name, values], separators=(",", ":"), sort_keys=True).encode() + b"\n"
                yield table.name, line


def _plain(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def restore(path: Path, database: HubDatabase, watch: Watch = lambda done: None) -> Backup:
    """Fills an empty hub from a backup, in one transaction: all of it or nothing.

    Args:
        path: Of the file.
        database: Empty.
        watch: Told how many rows are read.

    Raises:
        HubError: The hub is not empty, or the file is damaged, cut off, no regular file, or of a newer latcast.
    """
    tables = {table.name: table for table in _tables()}
    digest = hashlib.sha256()
    counts: dict[str, int] = {}
    with database._changing("restore") as session:
        if any(session.scalar(select(func.count()).select_from(tables[name])) for name in _COUNTED):
            raise HubError(f"{database.location} is not empty; restore into a new database")
        for table in reversed(_tables()):
            session.execute(table.delete())
        content = _content(path)
        head: Any = next(content, (b"", None))[1]
        if not isinstance(head, dict) or "latcast_hub_backup" not in head:
            raise HubError(f"{path} is no backup of a hub")
        if type(head["latcast_hub_backup"]) is not int:
            raise HubError(f"{path} is damaged: its schema is no whole number; take another backup")
        if head["latcast_hub_backup"] > SCHEMA or str(head.get("tables", "")) > newest():
            raise HubError(f"{path} was made by latcast {head.get('latcast')}, whose tables are newer; update latcast")
        waiting: dict[str, list[dict[str, Any]]] = {}
        end: Any = None
        for line, found in content:
            if isinstance(found, dict):
                end = found
                continue
            name, values = found if isinstance(found, list) and len(found) == 2 else (None, None)
            if end is not None or not isinstance(name, str) or name not in tables or not isinstance(values, dict):
                raise HubError(f"{path} is damaged: a line is no row of a known table")
            digest.update(line)
            counts[name] = counts.get(name, 0) + 1
            waiting.setdefault(name, []).append({key: _value(value, tables[name], key) for key, value in values.items()})
            if len(waiting[name]) == PORTION or len(waiting) > 1:
                _write(session, tables, waiting)
                watch(sum(counts.values()))
        _write(session, tables, waiting)
        if end is None or end.get("rows") != counts or end.get("sha256") != digest.hexdigest():
            raise HubError(f"{path} is damaged or cut off; take another backup")
        _check_records(session)
        _continue_numbering(session)
    watch(sum(counts.values()))
    return Backup(str(head.get("made_at")), str(head.get("latcast")), counts, digest.hexdigest())


def _content(path: Path) -> Iterator[tuple[bytes, Any]]:
    """Each line with its JSON value."""
    for number, line in read_lines(path, error=HubError):
        yield line + b"\n", parse_json(line, f"{path}:{number}", error=HubError)


def _value(value: Any, table: Table, name: str) -> Any:
    """A value as the database takes it.

    Raises:
        HubError: The table has no such column, or the column takes no such value.
    """
    if name not in table.columns:
        raise HubError(f"the backup has a column '{name}' in {table.name}, which this latcast does not know; update latcast")
    column = table.columns[name]
    kind = dict if isinstance(column.type, JSON) else column.type.python_type
    if kind is bytes and isinstance(value, dict) and isinstance(value.get("base64"), str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except ValueError as problem:
            raise HubError(f"the backup has bytes in {table.name}.{name} that are not base64; take another backup") from problem
    allowed: tuple[type, ...] = {dict: (dict, list), float: (int, float)}.get(kind, (kind,))
    fits = column.nullable if value is None else type(value) in allowed
    if not fits or (isinstance(column.type, String) and len(value or "") > (column.type.length or len(value or ""))):
        raise HubError(
            f"the backup has {str(value)[:40]!r} in {table.name}.{name}, which does not fit there; take another backup"
        )
    return value


def _check_records(session: Session) -> None:
    """Reads every platform, network and measurement, those in quarantine too, as all that uses them does.

    Raises:
        HubError: One of them is malformed.
    """
    readers: tuple[tuple[Any, Callable[[Any], object]], ...] = (
        (PlatformRow, lambda row: Platform.parse(row.id)),
        (ReferenceRow, stored_reference),
        (MeasurementRow, stored_measurement),
        (QuarantineRow, lambda row: Measurement.from_json(row.record)),
    )
    for table, read in readers:
        for row in session.scalars(select(table).execution_options(yield_per=PORTION)):
            try:
                read(row)
            except (LatcastError, AttributeError, TypeError, ValueError) as problem:
                raise HubError(f"the backup has a malformed row in {table.__tablename__}: {problem}") from problem


def _write(session: Session, tables: Mapping[str, Table], waiting: dict[str, list[dict[str, Any]]]) -> None:
    for name, rows in waiting.items():
        session.execute(insert(tables[name]), rows)
    waiting.clear()


def _continue_numbering(session: Session) -> None:
    """Numbers that PostgreSQL gives out go on behind those that were restored; SQLite sees to it itself."""
    if session.get_bind().dialect.name != "postgresql":
        return
    for table, column in (("contributors", "id"), ("model_versions", "number"), ("audit", "number")):
        last = f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), COALESCE(MAX({column}), 0) + 1, false) FROM {table}"
        session.execute(text(last))
