"""A hub as one file, from which it can be made again on SQLite or PostgreSQL: a SQLite database, compressed by gzip.

It is of one moment of the hub, while a server goes on. It holds hashes of tokens, so only its owner may read it.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import JSON, String, Table, func, insert, select, text
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow, PlatformRow, ReferenceRow, stored_measurement, stored_reference
from latcast.errors import HubError, LatcastError
from latcast.folders import replacing
from latcast.hub.database import HubDatabase
from latcast.hub.schema import METADATA, QuarantineRow
from latcast.reading import read_portions
from latcast.records import Measurement, Platform

PORTION = 500
"""Rows read or written at once."""

_TABLES: tuple[Table, ...] = tuple(table for metadata in METADATA for table in metadata.sorted_tables)
"""Tables in the order of their dependences."""

_COUNTED = ("measurements", "contributors", "uploads", "tokens")
"""Tables that are empty in a new hub."""

_MALFORMED = (LatcastError, AttributeError, TypeError, ValueError)

Watch = Callable[[int], None]
"""Told how many rows are copied."""


def back_up(database: HubDatabase, path: Path, watch: Watch = lambda done: None) -> dict[str, int]:
    """Write a backup, which replaces a file of this name once it is whole, and return the number of rows by table.

    Raises:
        DatasetError: The database does not answer.
        HubError: The file cannot be written.
    """
    try:
        with replacing(path) as draft, TemporaryDirectory(prefix="latcast-", dir=path.parent) as folder:
            plain = Path(folder) / "hub.sqlite"
            if database.url.startswith("postgresql"):
                with database._reading() as source, HubDatabase(plain) as copy, copy._changing("back up to") as target:
                    source.connection(execution_options={"isolation_level": "REPEATABLE READ"})
                    counts = _copy_rows(source, target, watch)
            else:
                with closing(database._engine.raw_connection()) as connection:
                    # Unlike the backup interface, this leaves out free pages, and with them what was erased.
                    connection.cursor().execute("VACUUM INTO ?", (str(plain),))
                with HubDatabase(plain) as copy, copy._reading() as source:
                    counts = {table.name: _count(source, table) for table in _TABLES}
            draft.touch(mode=0o600)
            with plain.open("rb") as content, gzip.open(draft, "wb", compresslevel=6) as packed:
                shutil.copyfileobj(content, packed, 1 << 20)
            os.chmod(draft, 0o600)
    except (OSError, sqlite3.Error) as problem:
        raise HubError(f"cannot write the backup {path}: {getattr(problem, 'strerror', None) or problem}") from problem
    return counts


def restore(path: Path, database: HubDatabase, watch: Watch = lambda done: None) -> dict[str, int]:
    """Fill an empty hub from a backup, in one transaction: all of it or nothing; returns the number of rows by table.

    Raises:
        HubError: The hub is not empty, or the file is damaged, cut off or a pipe.
        DatasetError: A newer latcast wrote it.
    """
    with TemporaryDirectory(prefix="latcast-") as folder:
        plain = Path(folder) / "hub.sqlite"
        with plain.open("wb") as file:
            for portion in read_portions(path, error=HubError):
                file.write(portion)
        with plain.open("rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                raise HubError(f"{path} is not a backup of a hub; expected a file that latcast hub backup wrote")
        with HubDatabase(plain) as backup, backup._reading() as source, database._changing("restore") as target:
            if any(_count(target, table) for table in _TABLES if table.name in _COUNTED):
                raise HubError(f"{database.location} is not empty; restore into a new database")
            counts = _copy_rows(source, target, watch)
            _check_records(target)
            if target.get_bind().dialect.name == "postgresql":
                # Numbers that it gives out go on behind those that were restored; SQLite sees to it itself.
                for table, column in (("contributors", "id"), ("model_versions", "number"), ("audit", "number")):
                    sequence = f"pg_get_serial_sequence('{table}', '{column}')"
                    target.execute(text(f"SELECT setval({sequence}, COALESCE(MAX({column}), 0) + 1, false) FROM {table}"))
    return counts


def _count(session: Session, table: Table) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0


def _copy_rows(source: Session, target: Session, watch: Watch) -> dict[str, int]:
    """Copy every row of every table, and return the number of rows by table.

    Raises:
        HubError: A row does not fit its table.
    """
    for table in reversed(_TABLES):
        target.execute(table.delete())
    counts = dict.fromkeys((table.name for table in _TABLES), 0)
    for table in _TABLES:
        query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=PORTION)
        try:
            for rows in source.connection().execute(query).mappings().partitions():
                target.execute(insert(table), [_checked_row(table, dict(row)) for row in rows])
                counts[table.name] += len(rows)
                watch(sum(counts.values()))
        except _MALFORMED as problem:
            raise HubError(f"the backup has a malformed row in {table.name}: {problem}") from problem
    return counts


def _checked_row(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row; SQLite itself keeps any value in any column.

    Raises:
        ValueError: A value is of another type or longer than its column takes.
    """
    for column in table.columns:
        value = row[column.name]
        kind = dict if isinstance(column.type, JSON) else column.type.python_type
        allowed: tuple[type, ...] = {dict: (dict, list), float: (int, float)}.get(kind, (kind,))
        fits = column.nullable if value is None else type(value) in allowed
        if isinstance(column.type, JSON):
            json.dumps(value, allow_nan=False)
        if not fits or (isinstance(column.type, String) and len(value or "") > (column.type.length or len(value or ""))):
            raise ValueError(f"{str(value)[:40]!r} does not fit {column.name}; take another backup")
    return row


def _check_records(session: Session) -> None:
    """Read every platform, network and measurement, those in quarantine too, as all that uses them does.

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
            except _MALFORMED as problem:
                raise HubError(f"the backup has a malformed row in {table.__tablename__}: {problem}") from problem
