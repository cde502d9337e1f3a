"""Contributors, their tokens and uploads, the quarantine, and the versions of the model."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes them."""
    op.create_table(
        "contributors",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(60), nullable=False, unique=True),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(12), primary_key=True),
        sa.Column("contributor_id", sa.Integer, sa.ForeignKey("contributors.id"), nullable=False, index=True),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("label", sa.String(60), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("expires_at", sa.String(40)),
        sa.Column("revoked_at", sa.String(40)),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("contributor_id", sa.Integer, sa.ForeignKey("contributors.id"), nullable=False, index=True),
        sa.Column("received_at", sa.String(40), nullable=False, index=True),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("records", sa.Integer, nullable=False),
        sa.Column("answer", sa.JSON, nullable=False),
    )
    op.create_table(
        "contributions",
        sa.Column("measurement_id", sa.String(32), sa.ForeignKey("measurements.id"), primary_key=True),
        sa.Column("upload_id", sa.String(64), sa.ForeignKey("uploads.id"), nullable=False, index=True),
    )
    op.create_table(
        "quarantine",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("upload_id", sa.String(64), sa.ForeignKey("uploads.id"), nullable=False, index=True),
        sa.Column("platform_id", sa.String(200), nullable=False),
        sa.Column("reason", sa.String(300), nullable=False),
        sa.Column("held_at", sa.String(40), nullable=False),
        sa.Column("discarded_at", sa.String(40)),
        sa.Column("record", sa.JSON, nullable=False),
    )
    op.create_index("quarantine_by_platform", "quarantine", ["platform_id"])
    op.create_table(
        "model_versions",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("fitted_at", sa.String(40), nullable=False),
        sa.Column("model", sa.String(40), nullable=False),
        sa.Column("measurements", sa.Integer, nullable=False),
        sa.Column("platforms", sa.Integer, nullable=False),
        sa.Column("networks", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("held_out", sa.JSON),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("content", sa.JSON, nullable=False),
    )
