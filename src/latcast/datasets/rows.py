"""Tables of a store of measurements, the same on SQLite and PostgreSQL; records to their rows, and back.

Only portable types: texts, integers, floats, and JSON documents that are never queried into. Times are ISO 8601 texts in
UTC, which sort as the times do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from latcast.environment import MOMENT
from latcast.errors import MeasurementError
from latcast.records import Measurement, Platform, Reference

STORE_SCHEMA_VERSION = 1
"""Raised when a table changes so that older code cannot read it."""


class Base(DeclarativeBase):
    """All tables of a store."""


class PropertyRow(Base):
    """Facts about the store itself, such as its schema version."""

    __tablename__ = "properties"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class QuietTimeRow(Base):
    """Quiet times of a probe, by its key."""

    __tablename__ = "quiet_times"

    probe_key: Mapped[str] = mapped_column(String(64), primary_key=True)
    quiet_ms: Mapped[list[float]] = mapped_column(JSON)


class PlatformRow(Base):
    """A platform, with the parts of its id to select by."""

    __tablename__ = "platforms"

    id: Mapped[str] = mapped_column(String(200), primary_key=True)
    device: Mapped[str] = mapped_column(String(100), index=True)
    runtime: Mapped[str] = mapped_column(String(100), index=True)
    runtime_version: Mapped[str] = mapped_column(String(50))
    unit: Mapped[str] = mapped_column(String(100))
    precision: Mapped[str] = mapped_column(String(10))


class EnvironmentRow(Base):
    """The environment of measurements, without the moment; the id is a hash of the content."""

    __tablename__ = "environments"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    content: Mapped[dict[str, Any]] = mapped_column(JSON)


class ReferenceRow(Base):
    """A network or kernel: how to build it again; the key is a hash of space and parameters."""

    __tablename__ = "references"

    key: Mapped[str] = mapped_column(String(16), primary_key=True)
    space: Mapped[str] = mapped_column(String(100), index=True)
    name: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any]] = mapped_column(JSON)


class MeasurementRow(Base):
    """One measurement with its raw runs; the id is a hash of the observation."""

    __tablename__ = "measurements"
    __table_args__ = (Index("measurements_by_subject", "platform_id", "role", "reference_key"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    platform_id: Mapped[str] = mapped_column(ForeignKey("platforms.id"))
    reference_key: Mapped[str] = mapped_column(ForeignKey("references.key"))
    environment_id: Mapped[str] = mapped_column(ForeignKey("environments.id"))
    role: Mapped[str] = mapped_column(String(20))
    taken_at: Mapped[str] = mapped_column(String(40), index=True)
    latency_ms: Mapped[float | None]
    raw_latency_ms: Mapped[float | None]
    variation: Mapped[float | None]
    statistic: Mapped[str] = mapped_column(String(100))
    warmup_runs: Mapped[int]
    error: Mapped[str | None] = mapped_column(Text)
    runs: Mapped[dict[str, Any]] = mapped_column(JSON)
    """``runs_ms``, ``probe_ms``, ``probe_parts_ms`` and ``rounds`` of the record."""
    executed: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    moment: Mapped[dict[str, Any]] = mapped_column(JSON)

    reference: Mapped[ReferenceRow] = relationship(lazy="joined", innerjoin=True)
    environment: Mapped[EnvironmentRow] = relationship(lazy="joined", innerjoin=True)


_RUNS = ("runs_ms", "probe_ms", "probe_parts_ms", "rounds")
_SAME = ("role", "taken_at", "latency_ms", "raw_latency_ms", "variation", "statistic", "warmup_runs", "error")
"""Columns with the record's own name."""


def platform_row(key: str, measurement: Measurement) -> PlatformRow:
    """Return a platform with the parts of its id."""
    parts = Platform.parse(key)
    return PlatformRow(id=key, **asdict(parts))


def reference_row(key: str, reference: Reference) -> ReferenceRow:
    """Return a network or kernel."""
    return ReferenceRow(key=key, space=reference.space, name=reference.name, parameters=dict(reference.parameters))


def environment_row(key: str, environment: Mapping[str, Any]) -> EnvironmentRow:
    """Return an environment without its moment."""
    return EnvironmentRow(id=key, content={name: value for name, value in environment.items() if name != MOMENT})


def measurement_values(key: str, measurement: Measurement, environment_key: str) -> dict[str, Any]:
    """Return a record as the columns of :class:`MeasurementRow` (mapped objects are slow for many records)."""
    return {
        "id": key,
        "platform_id": measurement.platform,
        "reference_key": measurement.reference.key,
        "environment_id": environment_key,
        **{name: getattr(measurement, name) for name in _SAME},
        "runs": {name: getattr(measurement, name) for name in _RUNS},
        "executed": [kernel.to_json() for kernel in measurement.executed],
        "moment": dict(measurement.environment.get(MOMENT, {})),
    }


def stored_reference(row: ReferenceRow) -> Reference:
    """Return the reference of a row, or raise a MeasurementError where it is malformed."""
    return Reference.from_json({"space": row.space, "parameters": row.parameters, "name": row.name})


def stored_measurement(row: MeasurementRow) -> Measurement:
    """Return the measurement of a row, or raise a MeasurementError where it is malformed."""
    runs: object = row.runs
    lasting: object = row.environment.content
    if not isinstance(runs, dict) or not isinstance(lasting, dict):
        raise MeasurementError("its runs or its environment are not an object")
    stray = sorted(set(runs) - set(_RUNS))
    if stray:
        raise MeasurementError(f"runs with a field '{stray[0]}'; expected {', '.join(_RUNS)}")
    return Measurement.from_json(
        {
            "platform": row.platform_id,
            "reference": {"space": row.reference.space, "parameters": row.reference.parameters, "name": row.reference.name},
            **{name: getattr(row, name) for name in _SAME},
            **runs,
            "executed": row.executed,
            "environment": {**lasting, **({MOMENT: row.moment} if row.moment else {})},
        }
    )
