"""The first tables; a new database has today's, see :func:`latcast.hub.migrations.migrate`."""

from __future__ import annotations

revision = "0004"
down_revision = None


def upgrade() -> None:
    """Change nothing."""
