"""Tables that a hub has beside those of a store of measurements; the same on SQLite and PostgreSQL.

Measurements themselves stay in the tables of :mod:`latcast.datasets.rows`: a hub's database is a store too. A
record in quarantine is not among them, so nothing that reads measurements can learn from it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Boolean, Float, ForeignKey, Index, Integer, LargeBinary, String, Text, false
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from latcast.datasets.rows import Base, MeasurementRow

NAME_LENGTH = 60
"""Characters of a contributor's name or a token's label."""

REASON_LENGTH = 300


class HubBase(DeclarativeBase):
    """Tables that only a hub has."""


class ContributorRow(HubBase):
    """A contributor: a name to thank, not an account."""

    __tablename__ = "contributors"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), unique=True)
    created_at: Mapped[str] = mapped_column(String(40))
    trusted: Mapped[bool] = mapped_column(Boolean, server_default=false())
    """Whether the administrator trusts them: other devices are compared with theirs, and errors are scored on theirs."""


class TokenRow(HubBase):
    """A permission to upload. The secret itself is not kept, only its SHA-256: it is random, so no salt is needed."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(12), primary_key=True)
    contributor_id: Mapped[int] = mapped_column(ForeignKey(ContributorRow.id), index=True)
    secret_sha256: Mapped[str] = mapped_column(String(64))
    label: Mapped[str] = mapped_column(String(NAME_LENGTH))
    created_at: Mapped[str] = mapped_column(String(40))
    expires_at: Mapped[str | None] = mapped_column(String(40))
    revoked_at: Mapped[str | None] = mapped_column(String(40))
    most_platforms: Mapped[int | None]
    """New platforms that it may bring; None for as many as any token."""


class PlatformOriginRow(HubBase):
    """The token that brought a platform first."""

    __tablename__ = "platform_origins"

    platform_id: Mapped[str] = mapped_column(String(200), primary_key=True)
    token_id: Mapped[str] = mapped_column(String(12), index=True)


class UploadRow(HubBase):
    """One accepted request; the id is the SHA-256 of its uncompressed content and its contributor's."""

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    contributor_id: Mapped[int] = mapped_column(ForeignKey(ContributorRow.id), index=True)
    token_id: Mapped[str | None] = mapped_column(String(12), index=True)
    received_at: Mapped[str] = mapped_column(String(40), index=True)
    size_bytes: Mapped[int]
    records: Mapped[int]
    answer: Mapped[dict[str, Any]] = mapped_column(JSON)
    """The answer to the contributor, which is given again when the same content comes again."""


class ContributionRow(HubBase):
    """The upload that brought a measurement first."""

    __tablename__ = "contributions"

    measurement_id: Mapped[str] = mapped_column(ForeignKey(MeasurementRow.id), primary_key=True)
    upload_id: Mapped[str] = mapped_column(ForeignKey(UploadRow.id), index=True)


class QuarantineRow(HubBase):
    """A well-formed record that is held back, with the reason; the id is the one it would have as a measurement."""

    __tablename__ = "quarantine"
    __table_args__ = (Index("quarantine_by_platform", "platform_id"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    upload_id: Mapped[str] = mapped_column(ForeignKey(UploadRow.id), index=True)
    platform_id: Mapped[str] = mapped_column(String(200))
    reason: Mapped[str] = mapped_column(String(REASON_LENGTH))
    held_at: Mapped[str] = mapped_column(String(40))
    discarded_at: Mapped[str | None] = mapped_column(String(40))
    """When the administrator refused it for good; it stays, so that it cannot come back."""
    record: Mapped[dict[str, Any]] = mapped_column(JSON)
    undone_by: Mapped[int | None] = mapped_column(Integer, index=True)
    """Number of the entry of :class:`AuditRow` by which it was taken back after it had counted."""


class AuditRow(HubBase):
    """An administrator's act on tokens, contributors or measurements."""

    __tablename__ = "audit"

    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    at: Mapped[str] = mapped_column(String(40))
    action: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(String(200))
    details: Mapped[dict[str, Any]] = mapped_column(JSON)


class ModelVersionRow(HubBase):
    """One fit of the cross-device model, as JSON, with its error on platforms held out of the fit."""

    __tablename__ = "model_versions"

    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    fitted_at: Mapped[str] = mapped_column(String(40))
    model: Mapped[str] = mapped_column(String(40))
    measurements: Mapped[int]
    platforms: Mapped[int]
    networks: Mapped[int]
    seconds: Mapped[float] = mapped_column(Float)
    held_out: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    note: Mapped[str] = mapped_column(Text)
    content: Mapped[dict[str, Any]] = mapped_column(JSON)


class SharedModelRow(HubBase):
    """A model whose user asked for a link: its shapes alone, under the hash of them."""

    __tablename__ = "shared_models"

    key: Mapped[str] = mapped_column(String(16), primary_key=True)
    graph: Mapped[bytes] = mapped_column(LargeBinary)
    shared_at: Mapped[str] = mapped_column(String(40), index=True)


METADATA = (Base.metadata, HubBase.metadata)
"""Everything in a hub's database, in order of creation."""
