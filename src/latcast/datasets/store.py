"""Measurements in a database: SQLite in a file, or any server that SQLAlchemy speaks to."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Select, create_engine, event, func, insert, select
from sqlalchemy import text as text_clause
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool, StaticPool

from latcast.datasets import jsonlines
from latcast.datasets.rows import (
    STORE_SCHEMA_VERSION,
    Base,
    EnvironmentRow,
    MeasurementRow,
    PlatformRow,
    PropertyRow,
    QuietTimeRow,
    ReferenceRow,
    environment_row,
    measurement_values,
    platform_row,
    reference_row,
    stored_measurement,
    stored_reference,
)
from latcast.environment import MOMENT, environment_id
from latcast.errors import DatasetError, LatcastError, MeasurementError
from latcast.extras import explained
from latcast.measure.campaign import Tally
from latcast.measure.labels import Label, combine
from latcast.measure.probe import QuietTime, checked_quiet_ms
from latcast.measure.statistics import probe_settings, renormalised
from latcast.reading import MOST_BYTES, parse_json
from latcast.records import Measurement, Platform, Reference

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


def measurement_id(measurement: Measurement) -> str:
    """Return a hash (32 hex digits) of what was observed: subject, platform, runs, time, error.

    Normalisation and name do not enter: the same observation is the same record.
    """
    observed = [
        measurement.platform,
        measurement.reference.key,
        measurement.role,
        measurement.taken_at,
        measurement.runs_ms,
        measurement.rounds,
        measurement.error,
        measurement.environment.get(MOMENT, {}).get("worker"),
        None if measurement.runs_ms else measurement.latency_ms,
    ]
    return hashlib.sha256(json.dumps(observed, separators=(",", ":")).encode()).hexdigest()[:32]


class Store:
    """A set of measurements that only grows. A context manager.

    One process writes while others read: SQLite files are in write-ahead mode. Each call is a separate transaction.

    Args:
        location: Path of a SQLite file, which is made where there is none, or a database URL
            (``postgresql+psycopg://host/name``); ``":memory:"`` keeps nothing.

    Raises:
        DatasetError: The database cannot be opened, or a newer latcast wrote it.

    Example:
        >>> import latcast
        >>> with latcast.Store("measurements.sqlite") as store:
        ...     found = latcast.Measurement("pixel4/tflite-2.10/gpu/fp16", latcast.model("resnet18"), latency_ms=20.5)
        ...     store.add(found), store.platforms()
        (True, {'pixel4/tflite-2.10/gpu/fp16': 1})
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.location = without_password(os.fspath(location))
        with self._translated("open"):
            self._engine = open_engine(os.fspath(location))
        with self._translated("open"), self._engine.execution_options(**{WRITES: True}).begin() as connection:
            if connection.dialect.name == "sqlite":
                refuse_programs(connection, self.location)
            Base.metadata.create_all(connection)
        with self._writing("open") as session:
            row = session.get(PropertyRow, "schema")
            if row is None:
                session.add(PropertyRow(name="schema", value=str(STORE_SCHEMA_VERSION)))
            elif not str(row.value).isdecimal() or int(row.value) > STORE_SCHEMA_VERSION:
                raise DatasetError(
                    f"the store {self.location} has schema {row.value}, this latcast reads up to "
                    f"{STORE_SCHEMA_VERSION}; update latcast"
                )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Keep a connection open in this thread: closing SQLite's last one copies its log, far slower than adding a record."""
        with self._translated("open"):
            connection = self._engine.connect()
        with connection:
            yield

    # Writing

    def add(self, measurement: Measurement) -> bool:
        """Commit one record; return False where the store held it already."""
        return self.add_all([measurement]) == 1

    def add_all(self, measurements: Iterable[Measurement]) -> int:
        """Commit many records at once; return the number of new ones. Nothing is added where a platform id is malformed."""
        with self._writing("add to") as session:
            return len(self.add_in_transaction(session, measurements))

    def add_in_transaction(self, session: Session, measurements: Iterable[Measurement]) -> list[str]:
        """Add records without committing; return the ids of new ones."""
        new = {measurement_id(item): item for item in measurements}
        for known in _existing(session, MeasurementRow.id, list(new)):
            del new[known]
        _add_missing(session, PlatformRow.id, {item.platform: item for item in new.values()}, platform_row)
        references = {item.reference.key: item.reference for item in new.values()}
        _add_missing(session, ReferenceRow.key, references, reference_row)
        environment_keys = {key: environment_id(item.environment) for key, item in new.items()}
        environments = {environment_keys[key]: item.environment for key, item in new.items()}
        _add_missing(session, EnvironmentRow.id, environments, environment_row)
        session.flush()
        if new:
            rows = [measurement_values(key, item, environment_keys[key]) for key, item in new.items()]
            session.execute(insert(Base.metadata.tables[MeasurementRow.__tablename__]), rows)
        return list(new)

    # Reading

    def measurements(
        self,
        *,
        platform: str | None = None,
        role: str | None = None,
        space: str | None = None,
        keys: Iterable[str] | None = None,
        failed: bool = False,
        as_taken: bool = False,
    ) -> Iterator[Measurement]:
        """Yield records in order of time.

        Args:
            platform, role, keys: Only those of this platform id, role, keys of references.
            space: Only those of this space; one that ends in ``/`` includes all below it (``"kernel/"``).
            failed: Whether to include failed ones.
            as_taken: Whether to keep the normalisation of when they were taken. Otherwise all records of a host are normalised
                with the quiet time known now, so that they compare.
        """
        query = _filtered(select(MeasurementRow), platform, role, space).order_by(MeasurementRow.taken_at, MeasurementRow.id)
        if not failed:
            query = query.where(MeasurementRow.error.is_(None))
        wanted = None if keys is None else set(keys)
        with self._reading() as session:
            quiet_times = {} if as_taken else self._quiet_times(session)
            for row in session.scalars(query.execution_options(yield_per=100)):
                if wanted is None or row.reference_key in wanted:
                    try:
                        measurement = stored_measurement(row)
                        # It is normalised with the quiet time known now.
                        settings = probe_settings(measurement)
                        quiet_ms = quiet_times.get(settings["key"]) if settings and "key" in settings else None
                        measurement = measurement if quiet_ms is None else renormalised(measurement, quiet_ms)
                    except LatcastError as problem:
                        raise DatasetError(f"{self.location}: record {row.id}: {problem}") from problem
                    yield measurement

    def labels(
        self,
        *,
        platform: str,
        role: str | None = None,
    ) -> list[Label]:
        """Return one label for each reference of a platform that has a measurement, in order of the first measurement."""
        groups: dict[tuple[str, str], list[Measurement]] = {}
        for measurement in self.measurements(platform=platform, role=role):
            groups.setdefault((measurement.role, measurement.reference.key), []).append(measurement)
        return [combine(group) for group in groups.values()]

    def tallies(self, platform: str, role: str) -> dict[str, Tally]:
        """Return reference key to the number of its records on a platform, good and failed."""
        query = select(MeasurementRow.reference_key, func.count(MeasurementRow.id), func.count(MeasurementRow.error))
        query = query.where(MeasurementRow.platform_id == platform, MeasurementRow.role == role)
        with self._reading() as session:
            rows = session.execute(query.group_by(MeasurementRow.reference_key))
            return {key: Tally(count - failed, failed) for key, count, failed in rows}

    def keys(self, *, platform: str | None = None, role: str | None = None, space: str | None = None) -> set[str]:
        """Return the keys of references that have a good record."""
        query = _filtered(select(MeasurementRow.reference_key).distinct(), platform, role, space)
        with self._reading() as session:
            return set(session.scalars(query.where(MeasurementRow.error.is_(None))))

    def platforms(self) -> dict[str, int]:
        """Return platform id to its number of records, failed ones included, by id."""
        query = select(PlatformRow.id, func.count(MeasurementRow.id)).outerjoin(
            MeasurementRow, MeasurementRow.platform_id == PlatformRow.id
        )
        with self._reading() as session:
            rows = session.execute(query.group_by(PlatformRow.id).order_by(PlatformRow.id))
            try:
                return {Platform.parse(str(row[0])).id: row[1] for row in rows}
            except LatcastError as problem:
                raise DatasetError(f"{self.location}: {problem}") from problem

    def references(self, *, platform: str | None = None, space: str | None = None) -> list[Reference]:
        """Return the references with a record, by name."""
        query = select(ReferenceRow).order_by(ReferenceRow.name, ReferenceRow.key)
        used = _filtered(select(MeasurementRow.reference_key), platform, None, space)
        with self._reading() as session:
            try:
                return [stored_reference(row) for row in session.scalars(query.where(ReferenceRow.key.in_(used)))]
            except MeasurementError as problem:
                raise DatasetError(f"{self.location}: {problem}") from problem

    def __len__(self) -> int:
        with self._reading() as session:
            return session.scalar(select(func.count(MeasurementRow.id))) or 0

    # Quiet times

    def quiet_ms(self, key: str) -> QuietTime | None:
        """Return the known quiet times of a probe's parts, in milliseconds."""
        with self._reading() as session:
            row = session.get(QuietTimeRow, key)
            return None if row is None else self._checked_quiet_ms(row)

    def keep_quiet_ms(self, key: str, quiet_ms: QuietTime) -> None:
        """Store a probe's quiet times; later reads normalise with them."""
        with self._writing("add to") as session:
            session.merge(QuietTimeRow(probe_key=key, quiet_ms=list(quiet_ms)))

    def take_quiet_times(self, other: Store) -> None:
        """Take the quiet times of another store, so that the measurements of both compare."""
        with other._reading() as session:
            quiet_times = other._quiet_times(session)
        for key, quiet_ms in quiet_times.items():
            self.keep_quiet_ms(key, quiet_ms)

    def _quiet_times(self, session: Session) -> dict[str, QuietTime]:
        return {row.probe_key: self._checked_quiet_ms(row) for row in session.scalars(select(QuietTimeRow))}

    def _checked_quiet_ms(self, row: QuietTimeRow) -> QuietTime:
        try:
            return checked_quiet_ms(row.quiet_ms)
        except MeasurementError as problem:
            raise DatasetError(f"{self.location}: probe {row.probe_key}: {problem}") from problem

    # Exchange

    def export(self, path: str | os.PathLike[str], *, platform: str | None = None, role: str | None = None) -> int:
        """Write records, failed ones too, as JSON Lines (``.gz`` compresses); return their number."""
        return jsonlines.write(path, self.measurements(platform=platform, role=role, failed=True))

    # Below: transactions

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, UnicodeDecodeError) as problem:
            reason = str(problem).strip().splitlines()[0]
            raise DatasetError(f"cannot {doing} the store {self.location}: {reason}") from problem

    @contextmanager
    def _writing(self, doing: str) -> Iterator[Session]:
        engine = self._engine.execution_options(**{WRITES: True})
        with self._translated(doing), Session(engine) as session, session.begin():
            yield session

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        with self._translated("read"), Session(self._engine) as session:
            yield session


def _add_missing(session: Session, column: Any, wanted: Mapping[str, Any], make_row: Callable[[str, Any], Base]) -> None:
    known = set(_existing(session, column, list(wanted)))
    session.add_all(make_row(key, value) for key, value in wanted.items() if key not in known)


def _existing(session: Session, column: Any, keys: Sequence[str]) -> list[str]:
    """Return the keys that a column holds; asked in portions, as databases limit the length of a query."""
    found: list[str] = []
    for start in range(0, len(keys), 500):
        found.extend(session.scalars(select(column).where(column.in_(keys[start : start + 500]))))
    return found


def _filtered(query: Select[Any], platform: str | None, role: str | None, space: str | None) -> Select[Any]:
    if platform is not None:
        query = query.where(MeasurementRow.platform_id == platform)
    if role is not None:
        query = query.where(MeasurementRow.role == role)
    if space is not None:
        matches = ReferenceRow.space.startswith(space, autoescape=True) if space.endswith("/") else ReferenceRow.space == space
        query = query.where(MeasurementRow.reference.has(matches))
    return query
