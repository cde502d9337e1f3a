"""The database of a hub: a store of measurements with contributors, uploads, a quarantine and fitted models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import func, insert, select, update
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow, PlatformRow, PropertyRow, ReferenceRow, stored_reference
from latcast.datasets.store import measurement_id
from latcast.errors import DatasetError, HubError
from latcast.hub.cells import read_cells
from latcast.hub.migrations import migrate
from latcast.hub.model import HubModel
from latcast.hub.moderation import ModeratedStore
from latcast.hub.plausibility import contradictions, disagreement, implausibility, outliers
from latcast.hub.scales import Observation
from latcast.hub.schema import (
    REASON_LENGTH,
    ContributionRow,
    ContributorRow,
    ModelVersionRow,
    PlatformOriginRow,
    QuarantineRow,
    UploadRow,
)
from latcast.hub.shared_models import SharedModelStore
from latcast.hub.tokens import Token, record_action
from latcast.measure.environment import utc_now
from latcast.records import Measurement

_FITTERS_LOCK = 0x6C617463617375
_WRITERS_LOCK = 0x6C617463617374
"""Keys of PostgreSQL's advisory locks: by the second writers take turns, as they do on SQLite, by the first those that fit."""

MOST_PLATFORMS = 20
"""New platforms that a token may bring, unless its contributor is trusted or the token says otherwise."""


class _Origins(NamedTuple):
    token_id: str
    new: tuple[str, ...]
    refused: dict[int, str]


@dataclass(frozen=True)
class QuarantinedRecord:
    """A record in quarantine, with the reason."""

    id: str
    platform: str
    network: str
    latency_ms: float | None
    reason: str
    held_at: str
    contributor: str


@dataclass(frozen=True)
class ModelVersion:
    """A fit that is kept.

    Attributes:
        number: 1 for the first.
        held_out: Metrics on platforms that the fit did not see; None where there were too few, and ``note`` says so.
        content: The model as JSON values.
    """

    number: int
    fitted_at: str
    model: str
    measurements: int
    platforms: int
    networks: int
    seconds: float
    held_out: Mapping[str, Any] | None
    note: str
    content: Mapping[str, Any]


def database_url(location: Path | str) -> str:
    """The location with the driver that latcast installs for PostgreSQL named."""
    text = str(location)
    for scheme in ("postgresql://", "postgres://"):
        if text.startswith(scheme):
            return "postgresql+psycopg://" + text.removeprefix(scheme)
    return text


class HubDatabase(ModeratedStore, SharedModelStore):
    """A store with contributors, tokens, uploads, a quarantine and models.

    Args:
        location: Path of a SQLite file, which is made where there is none and turned into a hub where it is a store;
            or a database URL (``postgresql://user@host/name``).

    Raises:
        DatasetError: The database cannot be opened, or a newer latcast wrote it.
    """

    def __init__(self, location: Path | str) -> None:
        self.url = database_url(location)
        super().__init__(self.url)
        try:
            with self._translated("migrate"), self._write_engine().begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(select(func.pg_advisory_xact_lock(_WRITERS_LOCK)))
                migrate(connection)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> HubDatabase:
        return self

    def _write_engine(self) -> Engine:
        return self._engine.execution_options(latcast_writes=True)

    @contextmanager
    def _writing(self, doing: str) -> Iterator[Session]:
        with super()._writing(doing) as session:
            if session.get_bind().dialect.name == "postgresql":
                session.execute(select(func.pg_advisory_xact_lock(_WRITERS_LOCK)))
            yield session

    # Uploads

    def receive(
        self,
        contributor_id: int,
        content: bytes,
        measurements: Sequence[Measurement],
        model: HubModel | None,
        token: Token | None = None,
    ) -> dict[str, Any]:
        """Keeps what an upload brought, all of it in one transaction, once.

        Args:
            contributor_id: Who sends it.
            content: The upload, uncompressed.
            measurements: What was read from it.
            model: The model that outliers are told by.
            token: What it came with.

        Returns:
            The answer to the contributor: counts, and the reason for each record held back; the first one again, marked as
            ``repeated``, where the same content came before.
        """
        upload_id = hashlib.sha256(f"{contributor_id}\n".encode() + content).hexdigest()
        ids = [measurement_id(item) for item in measurements]
        with self._reading() as session:
            if session.get(UploadRow, upload_id) is None:
                doubts = self._doubts(session, contributor_id, measurements, model)
            else:
                doubts = {}
        with self._changing("upload to") as session:
            before = session.get(UploadRow, upload_id)
            if before is not None:
                return {**before.answer, "repeated": True}
            origins = self._origins(session, contributor_id, token, measurements)
            reasons = {**origins.refused, **doubts}
            held = set(session.scalars(select(QuarantineRow.id).where(QuarantineRow.id.in_(ids))))
            held_back = {ids[index] for index in reasons} | held
            new = self._insert(session, [item for key, item in zip(ids, measurements, strict=True) if key not in held_back])
            session.add_all(PlatformOriginRow(platform_id=name, token_id=origins.token_id) for name in origins.new)
            now = utc_now()
            answer = {
                "upload": upload_id,
                "received": len(measurements),
                "accepted": len(new),
                "known": len(set(ids) - held_back) - len(new),
                "quarantined": [
                    {"record": index + 1, "network": measurements[index].reference.name, "reason": reason}
                    for index, reason in sorted(reasons.items())
                ],
                "repeated": False,
            }
            session.add(
                UploadRow(
                    id=upload_id,
                    contributor_id=contributor_id,
                    token_id=None if token is None else token.id,
                    received_at=now,
                    size_bytes=len(content),
                    records=len(measurements),
                    answer=answer,
                )
            )
            session.flush()
            if new:
                session.execute(insert(ContributionRow), [{"measurement_id": key, "upload_id": upload_id} for key in new])
            fresh = {ids[index]: index for index in reasons if ids[index] not in held}
            known = set(session.scalars(select(MeasurementRow.id).where(MeasurementRow.id.in_(list(fresh)))))
            session.add_all(
                QuarantineRow(
                    id=key,
                    upload_id=upload_id,
                    platform_id=measurements[index].platform,
                    reason=reasons[index][:REASON_LENGTH],
                    held_at=now,
                    discarded_at=None,
                    record=measurements[index].to_json(),
                )
                for key, index in fresh.items()
                if key not in known
            )
        return answer

    def _doubts(
        self, session: Session, contributor_id: int, measurements: Sequence[Measurement], model: HubModel | None
    ) -> dict[int, str]:
        """Why records are not believed, by index."""
        now = datetime.now(timezone.utc)
        reasons = {}
        by_platform: dict[str, list[int]] = {}
        for index, item in enumerate(measurements):
            reason = implausibility(item, now)
            if reason is None:
                by_platform.setdefault(item.platform, []).append(index)
            else:
                reasons[index] = reason
        contributor = session.get(ContributorRow, contributor_id)
        for platform, indices in by_platform.items():
            listed = [measurements[index] for index in indices]
            believed = read_cells(session, platform=platform).by_platform().get(platform, {})
            found = outliers(listed, believed, model)
            if believed and (contributor is None or not contributor.trusted):
                others = read_cells(session, platform=platform, without=contributor_id)
                known = others.by_platform().get(platform, {})
                vouched = {others.networks[others.network[row]] for row in np.flatnonzero(others.trusted)}
                beside = disagreement(listed, {key: known[key] for key in vouched}, model)
                found = {**beside, **contradictions(listed, known), **found}
            reasons.update({indices[position]: reason for position, reason in found.items()})
        return reasons

    def _origins(
        self, session: Session, contributor_id: int, token: Token | None, measurements: Sequence[Measurement]
    ) -> _Origins:
        """Which platforms of an upload are new, and whose records are too many for the token."""
        names = sorted({item.platform for item in measurements})
        known = set(session.scalars(select(PlatformRow.id).where(PlatformRow.id.in_(names))))
        # One of which everything was held back so far has an origin already.
        known |= set(session.scalars(select(PlatformOriginRow.platform_id).where(PlatformOriginRow.platform_id.in_(names))))
        new = [name for name in names if name not in known]
        if token is None or not new:
            return _Origins("", (), {})
        contributor = session.get(ContributorRow, contributor_id)
        brought = session.scalar(select(func.count()).where(PlatformOriginRow.token_id == token.id)) or 0
        most = MOST_PLATFORMS if token.most_platforms is None else token.most_platforms
        if token.most_platforms is None and contributor is not None and contributor.trusted:
            most = len(new) + brought
        taken = new[: max(0, most - brought)]
        reason = f"its platform is new, and this token may bring {most} new platforms; ask the hub's administrator for more"
        refused = {index: reason for index, item in enumerate(measurements) if item.platform in set(new) - set(taken)}
        return _Origins(token.id, tuple(taken), refused)

    # Quarantine

    def quarantine(self) -> list[QuarantinedRecord]:
        """Records held back and not yet decided on, the newest first."""
        query = (
            select(QuarantineRow, ContributorRow.name)
            .join(UploadRow, UploadRow.id == QuarantineRow.upload_id)
            .join(ContributorRow, ContributorRow.id == UploadRow.contributor_id)
            .where(QuarantineRow.discarded_at.is_(None))
            .order_by(QuarantineRow.held_at.desc(), QuarantineRow.id)
        )
        with self._reading() as session:
            return [
                QuarantinedRecord(
                    row.id,
                    row.platform_id,
                    row.record["reference"]["name"],
                    row.record["latency_ms"],
                    row.reason,
                    row.held_at,
                    name,
                )
                for row, name in session.execute(query)
            ]

    def release(self, record_id: str) -> None:
        """Makes a record in quarantine a measurement.

        Raises:
            HubError: There is no such record in quarantine.
        """
        with self._changing("release a record in") as session:
            row = _held(session, record_id)
            record_action(session, "release", record_id, platform=row.platform_id)
            self._believe(session, row)

    def discard(self, record_id: str) -> None:
        """Refuses a record in quarantine for good; it is remembered, so that it does not come back.

        Raises:
            HubError: There is no such record in quarantine.
        """
        with self._writing("discard a record in") as session:
            row = _held(session, record_id)
            row.discarded_at = utc_now()
            record_action(session, "discard", record_id, platform=row.platform_id)

    def uploads(self, limit: int = 100) -> list[dict[str, Any]]:
        """What was uploaded, the newest first: by whom, with which token, how many records."""
        query = (
            select(UploadRow.id, UploadRow.received_at, ContributorRow.name, UploadRow.token_id, UploadRow.records)
            .join(ContributorRow, ContributorRow.id == UploadRow.contributor_id)
            .order_by(UploadRow.received_at.desc(), UploadRow.id)
            .limit(limit)
        )
        with self._reading() as session:
            return [
                {"id": key, "received_at": at, "contributor": name, "token": token, "records": records}
                for key, at, name, token, records in session.execute(query)
            ]

    # Models

    def observations(self) -> list[Observation]:
        """The latency of each network on each platform: what a model is fitted to. Nothing of the quarantine."""
        with self._reading() as session:
            references = {row.key: stored_reference(row) for row in session.scalars(select(ReferenceRow))}
            cells = read_cells(session)
        columns = (cells.platform, cells.network, cells.latency_ms, cells.weight, cells.trusted)
        return [
            Observation(cells.platforms[platform], references[cells.networks[network]], latency_ms, weight, trusted)
            for platform, network, latency_ms, weight, trusted in zip(*(each.tolist() for each in columns), strict=True)
        ]

    def keep_model(self, version: ModelVersion, *, contents: int | None = None) -> ModelVersion:
        """Adds a version and returns it with its number.

        Args:
            version: New.
            contents: Of how many versions the content stays; of all where None.
        """
        with self._changing("keep a model in") as session:
            values = {name: value for name, value in vars(version).items() if name != "number"}
            row = ModelVersionRow(**values)
            session.add(row)
            session.flush()
            if contents is not None:
                old = ModelVersionRow.number <= row.number - contents
                session.execute(update(ModelVersionRow).where(old).values(content={}))
            return _version(row)

    def newest_model_number(self) -> int | None:
        """Of the version fitted last."""
        with self._reading() as session:
            return session.scalar(select(func.max(ModelVersionRow.number)))

    @contextmanager
    def fitting_turn(self) -> Iterator[bool]:
        """Whether this process may fit now: of several that serve a PostgreSQL database one at a time does."""
        if self._engine.dialect.name != "postgresql":
            yield True
            return
        with self._translated("read"), self._engine.connect() as connection:
            ours = bool(connection.scalar(select(func.pg_try_advisory_lock(_FITTERS_LOCK))))
            connection.commit()
            try:
                yield ours
            finally:
                if ours:
                    connection.execute(select(func.pg_advisory_unlock(_FITTERS_LOCK)))
                    connection.commit()

    def newest_model(self) -> ModelVersion | None:
        """The version fitted last."""
        with self._reading() as session:
            row = session.scalar(select(ModelVersionRow).order_by(ModelVersionRow.number.desc()).limit(1))
            return None if row is None else _version(row)

    def healthy(self) -> bool:
        """Whether the database keeps what is written, and gives it back."""
        try:
            written = utc_now()
            with self._writing("write to") as session:
                session.merge(PropertyRow(name="heartbeat", value=written))
            with self._reading() as session:
                return (session.scalar(select(PropertyRow.value).where(PropertyRow.name == "heartbeat")) or "") >= written
        except DatasetError:
            return False


def _held(session: Session, record_id: str) -> QuarantineRow:
    row = session.get(QuarantineRow, record_id)
    if row is None or row.discarded_at is not None:
        raise HubError(f"no record in quarantine has the id '{record_id}'; latcast hub quarantine list shows them")
    return row


def _version(row: ModelVersionRow) -> ModelVersion:
    return ModelVersion(**{item.name: getattr(row, item.name) for item in fields(ModelVersion)})
