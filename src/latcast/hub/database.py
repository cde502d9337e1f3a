"""The database of a hub: a store of measurements with contributors, uploads, a quarantine and fitted models."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    SharedModelRow,
    UploadRow,
)
from latcast.hub.tokens import Token
from latcast.records import Measurement

_WRITERS_LOCK, _FITTERS_LOCK = 0x6C617463617374, 0x6C617463617375
"""Keys of PostgreSQL's advisory locks, by which writers take turns, as they do on SQLite, and processes that fit."""

MOST_PLATFORMS = 20
"""New platforms that a token may bring, unless its contributor is trusted or the token says otherwise."""

MAX_SHARED = 20_000
"""Models behind a link that are kept; the one shared first goes when there are more."""

_SHAPES_KEY = re.compile(r"[0-9a-f]{16}")


def database_url(location: Path | str) -> str:
    """Return a location with the driver that latcast installs for PostgreSQL named."""
    text = str(location)
    for scheme in ("postgresql://", "postgres://"):
        if text.startswith(scheme):
            return "postgresql+psycopg://" + text.removeprefix(scheme)
    return text


class HubDatabase(ModeratedStore):
    """A store with contributors, tokens, uploads, a quarantine, fitted models, and models behind a link.

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
            content: The upload, uncompressed.
            model: The model that outliers are found by.

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
            new = self.add_in_transaction(
                session, [item for key, item in zip(ids, measurements, strict=True) if key not in held_back]
            )
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
        """Return the reasons why records are held back, by index."""
        now = datetime.now(timezone.utc)
        reasons = {index: reason for index, item in enumerate(measurements) if (reason := implausibility(item, now))}
        by_platform: dict[str, dict[int, Measurement]] = {}
        for index, item in enumerate(measurements):
            if index not in reasons and item.ok and item.role == "network":
                by_platform.setdefault(item.platform, {})[index] = item
        contributor = session.get(ContributorRow, contributor_id)
        for platform, stated in by_platform.items():
            cells = read_cells(session, platform=platform)
            if contributor is not None and contributor.trusted:
                # Beside trusted ones alone: strangers who were first on a platform do not decide what is believed of it.
                reasons |= outliers(stated, cells.latencies(trusted=True), model)
                continue
            found = outliers(stated, cells.latencies(), model)
            others = read_cells(session, platform=platform, without=contributor_id)
            own = read_cells(session, platform=platform, of=contributor_id).latencies()
            together = disagreement(stated, others.latencies(trusted=True), model, own)
            reasons |= {**together, **contradictions(stated, others.latencies()), **found}
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

    def keep_model(self, version: ModelVersionRow, *, contents: int | None = None) -> None:
        """Add a version, which is given a number.

        Args:
            contents: Of how many versions the content stays; of all where None.
        """
        with self._changing("keep a model in") as session:
            session.add(version)
            session.flush()
            session.expunge(version)  # it is read after the transaction
            if contents is not None:
                old = ModelVersionRow.number <= version.number - contents
                session.execute(update(ModelVersionRow).where(old).values(content={}))

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

    def newest_model(self) -> ModelVersionRow | None:
        """Return the version fitted last."""
        with self._reading() as session:
            return session.scalar(select(ModelVersionRow).order_by(ModelVersionRow.number.desc()).limit(1))

    # Models behind a link

    def share_model(self, key: str, graph: bytes) -> None:
        """Keep a packed graph under the hash of its shapes; the same one again changes nothing."""
        with self._writing("share a model in") as session:
            if session.get(SharedModelRow, key) is not None:
                return
            session.add(SharedModelRow(key=key, graph=graph, shared_at=utc_now()))
            session.flush()
            surplus = (session.scalar(select(func.count(SharedModelRow.key))) or 0) - MAX_SHARED
            if surplus > 0:
                for row in session.scalars(select(SharedModelRow).order_by(SharedModelRow.shared_at).limit(surplus)):
                    session.delete(row)

    def shared_model(self, key: str) -> bytes | None:
        """Return the packed graph under a hash; None where there is none."""
        with self._reading() as session:
            row = session.get(SharedModelRow, key) if _SHAPES_KEY.fullmatch(key) else None
            return None if row is None else row.graph

    def remove_shared_model(self, key: str) -> None:
        """Forget a shared model.

        Raises:
            HubError: There is none under this hash.
        """
        with self._writing("remove a model from") as session:
            row = session.get(SharedModelRow, key) if _SHAPES_KEY.fullmatch(key) else None
            if row is None:
                raise HubError(f"no shared model has the key '{key[:40]}'; it is the end of its link")
            session.delete(row)

    # The database itself

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
