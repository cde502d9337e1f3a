"""Tables of a store of measurements; the same on SQLite and PostgreSQL.

Only portable types: texts, integers, floats, and JSON documents that are never queried into. Times are ISO 8601 texts in
UTC, which sort as the times do.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

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
    """What measurements were taken in, without the moment; the id is a hash of the content."""

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
    """One measurement with its raw runs; the id is a hash of what was observed."""

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
