"""What an administrator does to what others brought: trusts, takes back, erases; every act is written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow, PlatformRow, stored_measurement
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
from latcast.measure.environment import utc_now
from latcast.records import Measurement

PORTION = 500
"""Records handled at once."""


@dataclass(frozen=True)
class Scope:
    """What is to be taken back: of the fields that are given all must hold, and one at least is given.

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
    """What a scope holds.

    Attributes:
        entry: Number in the audit log; None where nothing was done.
        uploads, measurements, quarantined, platforms: How many.
    """

    entry: int | None
    uploads: int
    measurements: int
    quarantined: int
    platforms: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class AuditEntry:
    """An act: when, what, on whom, and what came of it."""

    number: int
    at: str
    action: str
    subject: str
    details: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class ModeratedStore(TokenStore):
    """A store whose administrator decides what is believed."""

    def trust(self, contributor: str, trusted: bool = True) -> None:
        """Says whether the administrator vouches for what a contributor measures.

        Raises:
            HubError: There is no such contributor.
        """
        with self._changing("trust a contributor in") as session:
            row = session.scalar(select(ContributorRow).where(ContributorRow.name == contributor))
            if row is None:
                raise HubError(f"no contributor is called '{contributor[:80]}'; latcast hub token list shows them")
            row.trusted = trusted
            record_action(session, "trust" if trusted else "distrust", contributor)

    def affected(self, scope: Scope) -> Affected:
        """What :meth:`undo` would take back.

        Raises:
            HubError: The scope names nothing, or something that is not there.
        """
        with self._reading() as session:
            return _counted(session, _uploads(session, scope), scope, None)

    def undo(self, scope: Scope, *, erase: bool = False, reason: str = "") -> Affected:
        """Takes back what was uploaded: it is no measurement any more, and does not come back when it is sent again.

        Args:
            scope: What.
            erase: Remove it for good, where someone asks for that, and a contributor who has nothing left with it; otherwise it
                is kept in quarantine, and :meth:`redo` makes it measurements again.
            reason: For the audit log.

        Raises:
            HubError: The scope names nothing, or something that is not there.
        """
        with self._changing("take back uploads of") as session:
            uploads = _uploads(session, scope)
            found = _counted(session, uploads, scope, None)
            details = {**found.to_json(), "reason": reason}
            entry = record_action(session, "erase" if erase else "undo", str(scope)[:200], **details)
            why = f"taken back (entry {entry})" + (f": {reason}" if reason else "")
            for start in range(0, len(uploads), PORTION):
                part = uploads[start : start + PORTION]
                self._take_back(session, part, scope.platform, None if erase else (entry, why[:REASON_LENGTH]))
                if erase:
                    held = delete(QuarantineRow).where(QuarantineRow.upload_id.in_(part))
                    session.execute(held.where(QuarantineRow.platform_id == scope.platform) if scope.platform else held)
            if erase:
                _erase_uploads(session, uploads, scope)
            _forget_empty_platforms(session)
            return Affected(entry, found.uploads, found.measurements, found.quarantined, found.platforms)

    def redo(self, entry: int) -> int:
        """Makes what an act took back measurements again, and returns how many.

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

    def audit(self, limit: int = 100) -> list[AuditEntry]:
        """What was done by hand, the newest first."""
        with self._reading() as session:
            query = select(AuditRow).order_by(AuditRow.number.desc()).limit(limit)
            return [AuditEntry(row.number, row.at, row.action, row.subject, row.details) for row in session.scalars(query)]

    def _believe(self, session: Session, row: QuarantineRow) -> None:
        """Makes a record in quarantine a measurement."""
        new = self._insert(session, [Measurement.from_json(row.record)])
        session.flush()
        if new:
            session.add(ContributionRow(measurement_id=new[0], upload_id=row.upload_id))
        session.delete(row)

    def _take_back(self, session: Session, uploads: Sequence[str], platform: str, kept_by: tuple[int, str] | None) -> None:
        """Removes measurements; ``kept_by`` is the entry and the reason under which they are kept in quarantine."""
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
                now = utc_now()
                session.add_all(
                    QuarantineRow(
                        id=row.id,
                        upload_id=upload,
                        platform_id=row.platform_id,
                        reason=kept_by[1],
                        held_at=now,
                        discarded_at=now,
                        record=stored_measurement(row).to_json(),
                        undone_by=kept_by[0],
                    )
                    for row, upload in rows
                )
                session.flush()
            session.expunge_all()
            session.execute(delete(ContributionRow).where(ContributionRow.measurement_id.in_(ids)))
            session.execute(delete(MeasurementRow).where(MeasurementRow.id.in_(ids)))


def _uploads(session: Session, scope: Scope) -> list[str]:
    """Ids of the uploads of a scope.

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


def _counted(session: Session, uploads: Sequence[str], scope: Scope, entry: int | None) -> Affected:
    measurements = quarantined = 0
    platforms: set[str] = set()
    for start in range(0, len(uploads), PORTION):
        part = uploads[start : start + PORTION]
        query = (
            select(MeasurementRow.platform_id, func.count())
            .join(ContributionRow, ContributionRow.measurement_id == MeasurementRow.id)
            .where(ContributionRow.upload_id.in_(part))
            .group_by(MeasurementRow.platform_id)
        )
        counts = {name: count for name, count in session.execute(query) if not scope.platform or name == scope.platform}
        platforms |= counts.keys()
        measurements += sum(counts.values())
        held = select(func.count()).select_from(QuarantineRow).where(QuarantineRow.upload_id.in_(part))
        quarantined += session.scalar(held) or 0
    return Affected(entry, len(uploads), measurements, quarantined, len(platforms))


def _erase_uploads(session: Session, uploads: Sequence[str], scope: Scope) -> None:
    """Removes uploads with nothing left, and a contributor who was asked for and has nothing left."""
    for start in range(0, len(uploads), PORTION):
        part = uploads[start : start + PORTION]
        used = select(ContributionRow.upload_id).union(select(QuarantineRow.upload_id))
        session.execute(delete(UploadRow).where(UploadRow.id.in_(part), UploadRow.id.not_in(used)))
    if scope.contributor:
        row = session.scalar(select(ContributorRow).where(ContributorRow.name == scope.contributor))
        if row is not None and not session.scalar(select(func.count()).where(UploadRow.contributor_id == row.id)):
            session.execute(delete(TokenRow).where(TokenRow.contributor_id == row.id))
            session.delete(row)
            for entry in session.scalars(select(AuditRow)):
                if scope.contributor in (entry.subject, entry.details.get("contributor")) or scope.contributor in entry.subject:
                    entry.subject = entry.subject.replace(scope.contributor, "(erased)")
                    entry.details = {key: "(erased)" if key == "contributor" else value for key, value in entry.details.items()}


def _forget_empty_platforms(session: Session) -> None:
    empty = ~select(MeasurementRow.id).where(MeasurementRow.platform_id == PlatformRow.id).exists()
    names = list(session.scalars(select(PlatformRow.id).where(empty)))
    for start in range(0, len(names), PORTION):
        part = names[start : start + PORTION]
        session.execute(delete(PlatformOriginRow).where(PlatformOriginRow.platform_id.in_(part)))
        session.execute(delete(PlatformRow).where(PlatformRow.id.in_(part)))
