"""The database of a hub: a store of measurements with contributors, uploads, a quarantine and fitted models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow, PlatformRow, PropertyRow, ReferenceRow, stored_reference
from latcast.datasets.store import measurement_id
from latcast.environment import utc_now
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
from latcast.records import Measurement

_WRITERS_LOCK, _FITTERS_LOCK = 0x6C617463617374, 0x6C617463617375
"""Keys of PostgreSQL's advisory locks, by which writers take turns, as they do on SQLite, and processes that fit."""

MOST_PLATFORMS = 20
"""New platforms that a token may bring, unless its contributor is trusted or the token says otherwise."""


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
    """Return a location with the driver that latcast installs for PostgreSQL named."""
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
            with self._writing("migrate") as session:
                migrate(session.connection())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> HubDatabase:
        return self

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
        """Store the measurements of an upload, all of it in one transaction, once.

        Args:
            contributor_id: Who sends it.
            content: The upload, uncompressed.
            measurements: Read from it.
            model: The model that outliers are found by.
            token: The token that it came with.

        Returns:
            The answer to the contributor: counts, and the reason for each record held back; the first one again, marked as
            ``repeated``, where the same content came before.
        """
        upload_id = hashlib.sha256(f"{contributor_id}\n".encode() + content).hexdigest()
        ids = [measurement_id(item) for item in measurements]
        with self._reading() as session:
            known_upload = session.get(UploadRow, upload_id) is not None
            doubts = {} if known_upload else self._doubts(session, contributor_id, measurements, model)
        with self._changing("upload to") as session:
            before = session.get(UploadRow, upload_id)
            if before is not None:
                return {**before.answer, "repeated": True}
            reasons = self._claim_platforms(session, contributor_id, token, measurements) | doubts
            held = set(session.scalars(select(QuarantineRow.id).where(QuarantineRow.id.in_(ids))))
            held_back = {ids[index] for index in reasons} | held
            new = self._insert(session, [item for key, item in zip(ids, measurements, strict=True) if key not in held_back])
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
                    id=upload_id, contributor_id=contributor_id, token_id=None if token is None else token.id, received_at=now,
                    size_bytes=len(content), records=len(measurements), answer=answer,
                )
            )  # fmt: skip
            session.flush()
            if new:
                session.execute(insert(ContributionRow), [{"measurement_id": key, "upload_id": upload_id} for key in new])
            fresh = {ids[index]: index for index in reasons if ids[index] not in held}
            for key in session.scalars(select(MeasurementRow.id).where(MeasurementRow.id.in_(list(fresh)))):
                del fresh[key]  # another upload brought it, and it was believed
            for key, index in fresh.items():
                item, reason = measurements[index], reasons[index][:REASON_LENGTH]
                session.add(
                    QuarantineRow(
                        id=key, upload_id=upload_id, platform_id=item.platform, reason=reason, held_at=now, discarded_at=None,
                        record=item.to_json(),
                    )
                )  # fmt: skip
        return answer

    def _doubts(
        self, session: Session, contributor_id: int, measurements: Sequence[Measurement], model: HubModel | None
    ) -> dict[int, str]:
        """Return why records are not believed, by index."""
        now = datetime.now(timezone.utc)
        reasons = {}
        by_platform: dict[str, list[int]] = {}
        for index, item in enumerate(measurements):
            if reason := implausibility(item, now):
                reasons[index] = reason
            else:
                by_platform.setdefault(item.platform, []).append(index)
        contributor = session.get(ContributorRow, contributor_id)
        for platform, indices in by_platform.items():
            listed = [measurements[index] for index in indices]
            believed = read_cells(session, platform=platform).by_platform().get(platform, {})
            found = outliers(listed, believed, model)
            if believed and (contributor is None or not contributor.trusted):
                others = read_cells(session, platform=platform, without=contributor_id)
                known = others.by_platform().get(platform, {})
                trusted = [others.networks[place] for place in others.network[others.trusted]]
                together = disagreement(listed, {key: known[key] for key in trusted}, model)
                found = {**together, **contradictions(listed, known), **found}
            reasons.update({indices[position]: reason for position, reason in found.items()})
        return reasons

    def _claim_platforms(
        self, session: Session, contributor_id: int, token: Token | None, measurements: Sequence[Measurement]
    ) -> dict[int, str]:
        """Note which new platforms a token brings, and return by index why records of further ones are held back."""
        names = sorted({item.platform for item in measurements})
        known = set(session.scalars(select(PlatformRow.id).where(PlatformRow.id.in_(names))))
        # A platform of which everything was held back so far has an origin already.
        known |= set(session.scalars(select(PlatformOriginRow.platform_id).where(PlatformOriginRow.platform_id.in_(names))))
        new = [name for name in names if name not in known]
        if token is None or not new:
            return {}
        contributor = session.get(ContributorRow, contributor_id)
        brought = session.scalar(select(func.count()).where(PlatformOriginRow.token_id == token.id)) or 0
        most = MOST_PLATFORMS if token.most_platforms is None else token.most_platforms
        if token.most_platforms is None and contributor is not None and contributor.trusted:
            most = len(new) + brought
        taken = new[: max(0, most - brought)]
        session.add_all(PlatformOriginRow(platform_id=name, token_id=token.id) for name in taken)
        reason = f"its platform is new, and this token may bring {most} new platforms; ask the hub's administrator for more"
        refused = set(new) - set(taken)
        return {index: reason for index, item in enumerate(measurements) if item.platform in refused}

    def uploads(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return uploads, the newest first: by whom, with which token, how many records."""
        query = (
            select(
                UploadRow.id, UploadRow.received_at, ContributorRow.name.label("contributor"), UploadRow.token_id.label("token"),
                UploadRow.records,
            )
            .join(ContributorRow, ContributorRow.id == UploadRow.contributor_id)
            .order_by(UploadRow.received_at.desc(), UploadRow.id)
            .limit(limit)
        )  # fmt: skip
        with self._reading() as session:
            return [dict(row) for row in session.execute(query).mappings()]

    # Quarantine

    def quarantine(self) -> list[dict[str, Any]]:
        """Return records held back and not yet decided on, the newest first, each with the reason and its contributor."""
        query = (
            select(QuarantineRow, ContributorRow.name)
            .join(UploadRow, UploadRow.id == QuarantineRow.upload_id)
            .join(ContributorRow, ContributorRow.id == UploadRow.contributor_id)
            .where(QuarantineRow.discarded_at.is_(None))
            .order_by(QuarantineRow.held_at.desc(), QuarantineRow.id)
        )
        with self._reading() as session:
            return [
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

    def release(self, record_id: str) -> None:
        """Make a record in quarantine a measurement.

        Raises:
            HubError: There is no such record in quarantine.
        """
        with self._changing("release a record in") as session:
            row = _held(session, record_id)
            record_action(session, "release", record_id, platform=row.platform_id)
            self._believe(session, row)

    def discard(self, record_id: str) -> None:
        """Refuse a record in quarantine for good; it stays there, so that it does not come back.

        Raises:
            HubError: There is no such record in quarantine.
        """
        with self._writing("discard a record in") as session:
            row = _held(session, record_id)
            row.discarded_at = utc_now()
            record_action(session, "discard", record_id, platform=row.platform_id)

    # Models

    def observations(self) -> list[Observation]:
        """Return the latency of each network on each platform, to fit a model to; nothing of the quarantine."""
        with self._reading() as session:
            references = {row.key: stored_reference(row) for row in session.scalars(select(ReferenceRow))}
            cells = read_cells(session)
        columns = (cells.platform, cells.network, cells.latency_ms, cells.weight, cells.trusted)
        return [
            Observation(cells.platforms[platform], references[cells.networks[network]], latency_ms, weight, trusted)
            for platform, network, latency_ms, weight, trusted in zip(*(each.tolist() for each in columns), strict=True)
        ]

    def keep_model(self, version: ModelVersion, *, contents: int | None = None) -> ModelVersion:
        """Add a version and return it with its number.

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
        """Return the number of the version fitted last."""
        with self._reading() as session:
            return session.scalar(select(func.max(ModelVersionRow.number)))

    @contextmanager
    def fitting_turn(self) -> Iterator[bool]:
        """Yield whether this process may fit now: of several that serve a PostgreSQL database one at a time does."""
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
        """Return the version fitted last."""
        with self._reading() as session:
            row = session.scalar(select(ModelVersionRow).order_by(ModelVersionRow.number.desc()).limit(1))
            return None if row is None else _version(row)

    def healthy(self) -> bool:
        """Return whether the database keeps what is written, and gives it back."""
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
