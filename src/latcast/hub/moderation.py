"""Acts of an administrator on what others brought: trusting, releasing, taking back, erasing; all are in the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow, PlatformRow, stored_measurement
from latcast.environment import utc_now
from latcast.errors import HubError
from latcast.hub.schema import (
    REASON_LENGTH,
    AuditRow,
    ContributionRow,
    ContributorRow,
    PlatformOriginRow,
    QuarantineRow,
    TokenRow,
    UploadRow,
)
from latcast.hub.tokens import TokenStore, record_action
from latcast.records import Measurement

PORTION = 500
"""Records handled at once."""


@dataclass(frozen=True)
class Scope:
    """Uploads to take back: of the fields that are given all must hold, and one at least is given.

    Attributes:
        upload: Beginning of an upload's id.
        token: Id of a token.
        contributor: A name.
        platform: A platform id.
        since, until: Times (ISO 8601 in UTC) between which it was uploaded.
    """

    upload: str = ""
    token: str = ""
    contributor: str = ""
    platform: str = ""
    since: str = ""
    until: str = ""

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in asdict(self).items() if value)


@dataclass(frozen=True)
class Affected:
    """The content of a scope.

    Attributes:
        entry: Number in the audit log; None where nothing was done.
        uploads, measurements, quarantined, platforms: How many.
    """

    entry: int | None
    uploads: int
    measurements: int
    quarantined: int
    platforms: int


class ModeratedStore(TokenStore):
    """A store whose administrator decides which records count."""

    def trust(self, contributor: str, trusted: bool = True) -> None:
        """Trust the measurements of a contributor, or end that.

        Raises:
            HubError: There is no such contributor.
        """
        with self._changing("trust a contributor in") as session:
            row = session.scalar(select(ContributorRow).where(ContributorRow.name == contributor))
            if row is None:
                raise HubError(f"no contributor is called '{contributor[:80]}'; latcast hub token list shows them")
            row.trusted = trusted
            record_action(session, "trust" if trusted else "distrust", contributor)

    def quarantine(
        self, *, platform: str = "", network: str = "", contributor: str = "", reason: str = ""
    ) -> list[dict[str, Any]]:
        """Return records held back and not yet decided on, the newest first, each with the reason and its contributor.

        Args:
            platform, network, contributor: Names, or patterns with ``*``; empty for all.
            reason: A part of the reason.
        """
        query = (
            select(QuarantineRow, ContributorRow.name)
            .join(UploadRow, UploadRow.id == QuarantineRow.upload_id)
            .join(ContributorRow, ContributorRow.id == UploadRow.contributor_id)
            .where(QuarantineRow.discarded_at.is_(None))
            .order_by(QuarantineRow.held_at.desc(), QuarantineRow.id)
        )
        with self._reading() as session:
            found = [
                {
                    "id": row.id,
                    "platform": row.platform_id,
                    "network": row.record["reference"]["name"],
                    "latency_ms": row.record["latency_ms"],
                    "reason": row.reason,
                    "held_at": row.held_at,
                    "contributor": name,
                }
                for row, name in session.execute(query)
            ]
        wanted = {"platform": platform, "network": network, "contributor": contributor}
        return [
            item
            for item in found
            if reason in item["reason"] and all(not text or fnmatchcase(item[name], text) for name, text in wanted.items())
        ]

    def release(self, *record_ids: str) -> None:
        """Make records in quarantine measurements, all or none.

        Raises:
            HubError: There is no such record in quarantine.
        """
        with self._changing("release a record in") as session:
            for record_id in record_ids:
                row = _held(session, record_id)
                record_action(session, "release", record_id, platform=row.platform_id)
                self._believe(session, row)

    def discard(self, *record_ids: str) -> None:
        """Refuse records in quarantine for good, all or none; they stay there, so that they do not come back.

        Raises:
            HubError: There is no such record in quarantine.
        """
        with self._writing("discard a record in") as session:
            for record_id in record_ids:
                row = _held(session, record_id)
                row.discarded_at = utc_now()
                record_action(session, "discard", record_id, platform=row.platform_id)

    def affected(self, scope: Scope) -> Affected:
        """Return what :meth:`undo` would take back.

        Raises:
            HubError: The scope names nothing, or something that is not there.
        """
        with self._reading() as session:
            return _count(session, _find_uploads(session, scope), scope)

    def undo(self, scope: Scope, *, erase: bool = False, reason: str = "") -> Affected:
        """Take back what was uploaded: it leaves the measurements, and does not come back when it is sent again.

        Args:
            erase: Remove it for good, where someone asks for that, and a contributor who has nothing left with it; otherwise it
                is kept in quarantine, and :meth:`redo` makes it measurements again.

        Raises:
            HubError: The scope names nothing, or something that is not there.
        """
        with self._changing("take back uploads of") as session:
            uploads = _find_uploads(session, scope)
            found = _count(session, uploads, scope)
            details = {**vars(found), "reason": reason}
            entry = record_action(session, "erase" if erase else "undo", str(scope)[:200], **details)
            why = f"taken back (entry {entry})" + (f": {reason}" if reason else "")
            for part in _portions(uploads):
                _take_back(session, part, scope.platform, None if erase else (entry, why[:REASON_LENGTH]))
                if erase:
                    held = delete(QuarantineRow).where(QuarantineRow.upload_id.in_(part))
                    session.execute(held.where(QuarantineRow.platform_id == scope.platform) if scope.platform else held)
            if erase:
                used = select(ContributionRow.upload_id).union(select(QuarantineRow.upload_id))
                for part in _portions(uploads):
                    session.execute(delete(UploadRow).where(UploadRow.id.in_(part), UploadRow.id.not_in(used)))
                if scope.contributor:
                    _erase_contributor(session, scope.contributor)
            empty = ~select(MeasurementRow.id).where(MeasurementRow.platform_id == PlatformRow.id).exists()
            for part in _portions(list(session.scalars(select(PlatformRow.id).where(empty)))):
                session.execute(delete(PlatformOriginRow).where(PlatformOriginRow.platform_id.in_(part)))
                session.execute(delete(PlatformRow).where(PlatformRow.id.in_(part)))
            return replace(found, entry=entry)

    def redo(self, entry: int) -> int:
        """Make what an act took back measurements again, and return how many.

        Raises:
            HubError: The act took nothing back that is still there.
        """
        with self._changing("bring back uploads of") as session:
            rows = list(session.scalars(select(QuarantineRow).where(QuarantineRow.undone_by == entry)))
            if not rows:
                raise HubError(f"entry {entry} took nothing back that is still there; latcast hub audit lists what was done")
            for row in rows:
                self._believe(session, row)
            record_action(session, "redo", f"entry {entry}", measurements=len(rows))
            return len(rows)

    def audit(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return administrators' acts, the newest first: number, time, action, subject and details."""
        query = select(*AuditRow.__table__.columns).order_by(AuditRow.number.desc()).limit(limit)
        with self._reading() as session:
            return [dict(row) for row in session.execute(query).mappings()]

    def _believe(self, session: Session, row: QuarantineRow) -> None:
        """Make a record in quarantine a measurement."""
        new = self.add_in_transaction(session, [Measurement.from_json(row.record)])
        session.flush()
        if new:
            session.add(ContributionRow(measurement_id=new[0], upload_id=row.upload_id))
        session.delete(row)


def _held(session: Session, record_id: str) -> QuarantineRow:
    row = session.get(QuarantineRow, record_id)
    if row is None or row.discarded_at is not None:
        raise HubError(f"no record in quarantine has the id '{record_id}'; latcast hub quarantine list shows them")
    return row


def _portions(listed: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(listed), PORTION):
        yield listed[start : start + PORTION]


def _find_uploads(session: Session, scope: Scope) -> list[str]:
    """Return the ids of the uploads of a scope.

    Raises:
        HubError: It names nothing, or something that is not there.
    """
    if not str(scope):
        raise HubError("nothing is named that is to be taken back; give an upload, a token, a contributor or a platform")
    where: list[ColumnElement[bool]] = []
    if scope.upload:
        where.append(UploadRow.id.startswith(scope.upload, autoescape=True))
    if scope.token:
        where.append(UploadRow.token_id == scope.token)
    if scope.contributor:
        where.append(UploadRow.contributor_id.in_(select(ContributorRow.id).where(ContributorRow.name == scope.contributor)))
    if scope.since:
        where.append(UploadRow.received_at >= scope.since)
    if scope.until:
        where.append(UploadRow.received_at < scope.until)
    if scope.platform:
        there = select(ContributionRow.upload_id).join(MeasurementRow, MeasurementRow.id == ContributionRow.measurement_id)
        held = select(QuarantineRow.upload_id).where(QuarantineRow.platform_id == scope.platform)
        where.append(UploadRow.id.in_(there.where(MeasurementRow.platform_id == scope.platform).union(held)))
    found = list(session.scalars(select(UploadRow.id).where(*where).order_by(UploadRow.received_at)))
    if not found:
        raise HubError(f"there is no upload of {scope}; latcast hub uploads lists them")
    if scope.upload and len(found) > 1:
        raise HubError(f"{len(found)} uploads have ids that begin with '{scope.upload}', expected one; give more of the id")
    return found


def _count(session: Session, uploads: Sequence[str], scope: Scope) -> Affected:
    measurements = quarantined = 0
    platforms: set[str] = set()
    for part in _portions(uploads):
        query = (
            select(MeasurementRow.platform_id, func.count())
            .join(ContributionRow, ContributionRow.measurement_id == MeasurementRow.id)
            .where(ContributionRow.upload_id.in_(part))
            .group_by(MeasurementRow.platform_id)
        )
        for name, count in session.execute(query):
            if scope.platform in ("", name):
                platforms.add(name)
                measurements += count
        held = select(func.count()).select_from(QuarantineRow).where(QuarantineRow.upload_id.in_(part))
        quarantined += session.scalar(held) or 0
    return Affected(None, len(uploads), measurements, quarantined, len(platforms))


def _take_back(session: Session, uploads: Sequence[str], platform: str, kept_by: tuple[int, str] | None) -> None:
    """Remove measurements; ``kept_by`` is the entry and the reason under which they are kept in quarantine."""
    query = (
        select(MeasurementRow, ContributionRow.upload_id)
        .join(ContributionRow, ContributionRow.measurement_id == MeasurementRow.id)
        .where(ContributionRow.upload_id.in_(uploads))
    )
    if platform:
        query = query.where(MeasurementRow.platform_id == platform)
    while rows := session.execute(query.limit(PORTION)).unique().all():
        ids = [row.id for row, _ in rows]
        if kept_by is not None:
            entry, reason = kept_by
            now = utc_now()
            for row, upload in rows:
                record = stored_measurement(row).to_json()
                session.add(
                    QuarantineRow(
                        id=row.id, upload_id=upload, platform_id=row.platform_id, reason=reason, held_at=now, discarded_at=now,
                        record=record, undone_by=entry,
                    )
                )  # fmt: skip
            session.flush()
        session.expunge_all()
        session.execute(delete(ContributionRow).where(ContributionRow.measurement_id.in_(ids)))
        session.execute(delete(MeasurementRow).where(MeasurementRow.id.in_(ids)))


def _erase_contributor(session: Session, name: str) -> None:
    """Remove a contributor who has no upload left, and the name from the audit log."""
    row = session.scalar(select(ContributorRow).where(ContributorRow.name == name))
    if row is None or session.scalar(select(func.count()).where(UploadRow.contributor_id == row.id)):
        return
    session.execute(delete(TokenRow).where(TokenRow.contributor_id == row.id))
    session.delete(row)
    for entry in session.scalars(select(AuditRow)):
        if name in entry.subject or entry.details.get("contributor") == name:
            entry.subject = entry.subject.replace(name, "(erased)")
            entry.details = {key: "(erased)" if key == "contributor" else value for key, value in entry.details.items()}
