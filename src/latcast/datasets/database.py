"""The database under a store: SQLite in a file, or any server that SQLAlchemy speaks to."""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy import text as text_clause
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.pool import NullPool, StaticPool

from latcast.errors import DatasetError
from latcast.extras import explained
from latcast.reading import MOST_BYTES, parse_json

BUSY_TIMEOUT_S = 30
"""Longest wait of a SQLite connection for another one's commit."""

WRITES = "latcast_writes"
"""Execution option of connections that will write."""


def without_password(location: str) -> str:
    """Return a location that messages may show."""
    return re.sub(r"://([^:/@]*):[^@/]*@", r"://\1:***@", location)


def open_engine(location: str) -> Engine:
    """Return an engine for a SQLite file, which is made where there is none, or for a database URL.

    Raises:
        DatasetError: The URL is malformed, its driver is not installed, or there is no folder for the file.
    """
    try:
        url = make_url(location) if "://" in location else URL.create("sqlite", database=location)
    except ValueError as problem:
        raise DatasetError(f"cannot open the store {without_password(location)}: not a database URL ({problem})") from problem
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url)
        except ModuleNotFoundError as problem:
            raise explained(problem, f"the database {url.get_backend_name()}") or DatasetError(
                f"the database {url.get_backend_name()} needs the package '{problem.name}', which is not installed; "
                f"add it with: pip install {problem.name}"
            ) from problem
    in_memory = url.database in (None, "", ":memory:")
    if not in_memory:
        folder = Path(str(url.database)).parent
        if not folder.is_dir():
            raise DatasetError(f"cannot make the store {url.database}: there is no folder {folder}")
    # A file is opened again for each transaction: no connection is left to threads or to the interpreter's end. Store.held_open
    # makes it cheap.
    engine = create_engine(
        url,
        poolclass=StaticPool if in_memory else NullPool,
        json_deserializer=lambda text: parse_json(text, "a value of the store", error=DatasetError),
        connect_args={"timeout": BUSY_TIMEOUT_S, **({"check_same_thread": False} if in_memory else {})},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions are begun below
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA trusted_schema=OFF")
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        if not in_memory:
            _write_ahead(cursor)
            # Enough to survive a killed process; only a power failure can take the last commits along.
            cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes its lock at once and waits for another's; one that first read and then wrote would fail instead.
        writes = connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(cursor: Any) -> None:
    """Put a SQLite file into write-ahead mode; while others are opening it for the first time too, SQLite does not wait."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def refuse_programs(connection: Connection, location: str) -> None:
    """Raise a DatasetError for a SQLite file, perhaps from a stranger, with views, triggers, virtual tables or computed columns.

    These would run when it is read.
    """
    rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master").all()
    for kind, name, text in rows:
        computed = kind == "table" and any(
            column[6] for column in connection.execute(text_clause("SELECT * FROM pragma_table_xinfo(:name)"), {"name": name})
        )
        if kind not in ("table", "index") or computed or re.match(r"\s*CREATE\s+VIRTUAL", str(text), re.IGNORECASE):
            raise DatasetError(
                f"the store {location} holds the {kind} '{name}', which computes what is read; expected plain tables, "
                "do not use a store from this source"
            )
