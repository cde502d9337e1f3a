"""Whom the administrator trusts, which token brought what, how many platforms it may bring, and what was done by hand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds them; what was uploaded before came with no token that is known."""
    op.add_column("contributors", sa.Column("trusted", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("tokens", sa.Column("most_platforms", sa.Integer))
    op.add_column("uploads", sa.Column("token_id", sa.String(12)))
    op.create_index("ix_uploads_token_id", "uploads", ["token_id"])
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
    )
    op.add_column("quarantine", sa.Column("undone_by", sa.Integer))
    op.create_index("ix_quarantine_undone_by", "quarantine", ["undone_by"])
    op.create_table(
        "platform_origins",
        sa.Column("platform_id", sa.String(200), primary_key=True),
        sa.Column("token_id", sa.String(12), nullable=False, index=True),
    )
