"""Tokens: who may upload, until when.

A token reads ``latcast_ID_SECRET``. The secret is 256 random bits and only its SHA-256 is stored, so a stolen database gives no
right to upload, and a lost token cannot be shown again.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from latcast.datasets.rows import PropertyRow
from latcast.datasets.store import Store
from latcast.environment import utc_now
from latcast.errors import HubError
from latcast.hub.schema import NAME_LENGTH, AuditRow, ContributorRow, TokenRow

_TOKEN = re.compile(r"latcast_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[^\W_][\w .@+'-]*", re.UNICODE)
_NAMED_TOKENS = select(TokenRow, ContributorRow).join(ContributorRow, ContributorRow.id == TokenRow.contributor_id)

_REVISION = "revision"
"""Property of a database that grows with every change."""


@dataclass(frozen=True)
class Token:
    """A stored token, without its secret. Times are ISO 8601 in UTC.

    ``most_platforms``: new platforms that it may bring, None for the usual number; ``trusted``: whether its contributor is.
    """

    id: str
    contributor: str
    label: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    most_platforms: int | None = None
    trusted: bool = False

    @classmethod
    def of(cls, row: TokenRow, contributor: ContributorRow) -> Token:
        """Return a row as a token."""
        return cls(
            row.id, contributor.name, row.label, row.created_at, row.expires_at, row.revoked_at, row.most_platforms,
            bool(contributor.trusted),
        )  # fmt: skip

    def state(self, now: str) -> str:
        """Return "valid", "expired" or "revoked"."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


def checked_name(name: str, what: str = "a contributor's name") -> str:
    """Return a name without spaces around it.

    Raises:
        HubError: It is empty, too long, or has characters that names may not have.
    """
    found = " ".join(name.split())
    if len(found) > NAME_LENGTH or not _NAME.fullmatch(found):
        raise HubError(
            f"'{name[:80]}' is not {what}; expected up to {NAME_LENGTH} letters, digits, spaces and . @ + ' - _, "
            "a letter or digit first"
        )
    return found


def record_action(session: Session, action: str, subject: str, **details: Any) -> int:
    """Write an administrator's act into the audit log, in the transaction of the act, and return the number of the entry."""
    row = AuditRow(at=utc_now(), action=action, subject=subject, details=details)
    session.add(row)
    session.flush()
    return row.number


class TokenStore(Store):
    """A store whose contributors have tokens."""

    @contextmanager
    def _changing(self, doing: str) -> Iterator[Session]:
        """Open a transaction that changes what readers are told."""
        with self._writing(doing) as session:
            yield session
            session.merge(PropertyRow(name=_REVISION, value=str(_revision(session) + 1)))

    def revision(self) -> int:
        """Return a number that grows with every change of what readers are told, whichever process made it."""
        with self._reading() as session:
            return _revision(session)

    def issue_token(
        self,
        contributor: str,
        *,
        label: str = "",
        lifetime: timedelta | None = None,
        trusted: bool | None = None,
        most_platforms: int | None = None,
    ) -> tuple[str, Token]:
        """Make a token for a contributor, and the contributor where the name is new.

        Args:
            lifetime: None for no end.
            trusted: Whether the administrator trusts the contributor; None leaves it, and a new one is not trusted.
            most_platforms: New platforms that the token may bring; None for the usual number.

        Returns:
            The token to hand over, which is not stored and cannot be read again, and what is stored of it.

        Raises:
            HubError: The name or the label is malformed.
        """
        name = checked_name(contributor)
        checked_label = checked_name(label, "a token's label") if label else ""
        token_id, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), utc_now()
        end = None if lifetime is None else datetime.now(timezone.utc) + lifetime
        with self._changing("issue a token in") as session:
            row = session.scalar(select(ContributorRow).where(ContributorRow.name == name))
            if row is None:
                row = ContributorRow(name=name, created_at=now, trusted=False)
                session.add(row)
            if trusted is not None and bool(row.trusted) != trusted:
                row.trusted = trusted
                record_action(session, "trust" if trusted else "distrust", name)
            session.flush()
            stored = TokenRow(
                id=token_id,
                contributor_id=row.id,
                secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
                label=checked_label,
                created_at=now,
                expires_at=None if end is None else end.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                revoked_at=None,
                most_platforms=most_platforms,
            )
            session.add(stored)
            record_action(session, "issue", token_id, contributor=name, expires_at=stored.expires_at)
            return f"latcast_{token_id}_{secret}", Token.of(stored, row)

    def check_token(self, text: str) -> tuple[int, Token]:
        """Return the number of the contributor behind a token, and the token.

        Raises:
            HubError: It is malformed, unknown, expired or revoked (401).
        """
        unknown = HubError("this token is not known here; ask the hub's administrator for one (latcast hub token issue)", 401)
        parts = _TOKEN.fullmatch(text)
        if parts is None:
            raise unknown
        with self._reading() as session:
            row = session.execute(_NAMED_TOKENS.where(TokenRow.id == parts.group(1))).first()
        if row is None or not hmac.compare_digest(hashlib.sha256(parts.group(2).encode()).hexdigest(), row[0].secret_sha256):
            raise unknown
        token = Token.of(*row)
        state = token.state(utc_now())
        if state != "valid":
            when = token.revoked_at or token.expires_at
            raise HubError(f"this token is {state} ({when}); ask the administrator for a new one", 401)
        return row[0].contributor_id, token

    def revoke_token(self, token_id: str) -> Token:
        """End a token; what it has brought stays.

        Raises:
            HubError: There is no such token.
        """
        with self._writing("revoke a token in") as session:
            row = session.execute(_NAMED_TOKENS.where(TokenRow.id == token_id)).first()
            if row is None:
                raise HubError(f"no token has the id '{token_id}'; latcast hub token list shows them")
            stored, contributor = row
            stored.revoked_at = stored.revoked_at or utc_now()
            record_action(session, "revoke", token_id, contributor=contributor.name)
            return Token.of(stored, contributor)

    def tokens(self) -> list[Token]:
        """Return all tokens, the newest first."""
        with self._reading() as session:
            return [Token.of(*row) for row in session.execute(_NAMED_TOKENS.order_by(TokenRow.created_at.desc(), TokenRow.id))]


def _revision(session: Session) -> int:
    row = session.get(PropertyRow, _REVISION)
    return int(row.value) if row is not None else 0
