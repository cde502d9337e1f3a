"""The shapes of models whose users asked for a link to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "shared_models",
        sa.Column("key", sa.String(16), primary_key=True),
        sa.Column("graph", sa.LargeBinary, nullable=False),
        sa.Column("shared_at", sa.String(40), nullable=False, index=True),
    )
