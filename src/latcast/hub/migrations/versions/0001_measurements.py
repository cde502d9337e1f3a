"""The tables of a store of measurements, version 1; left alone where a store is turned into a hub."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes them where they are missing."""
    op.create_table(
        "properties",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "quiet_times",
        sa.Column("probe_key", sa.String(64), primary_key=True),
        sa.Column("quiet_ms", sa.JSON, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "platforms",
        sa.Column("id", sa.String(200), primary_key=True),
        sa.Column("device", sa.String(100), nullable=False),
        sa.Column("runtime", sa.String(100), nullable=False),
        sa.Column("runtime_version", sa.String(50), nullable=False),
        sa.Column("unit", sa.String(100), nullable=False),
        sa.Column("precision", sa.String(10), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "environments",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("content", sa.JSON, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "references",
        sa.Column("key", sa.String(16), primary_key=True),
        sa.Column("space", sa.String(100), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("parameters", sa.JSON, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "measurements",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("platform_id", sa.String(200), sa.ForeignKey("platforms.id"), nullable=False),
        sa.Column("reference_key", sa.String(16), sa.ForeignKey("references.key"), nullable=False),
        sa.Column("environment_id", sa.String(16), sa.ForeignKey("environments.id"), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("taken_at", sa.String(40), nullable=False),
        sa.Column("latency_ms", sa.Float),
        sa.Column("raw_latency_ms", sa.Float),
        sa.Column("variation", sa.Float),
        sa.Column("statistic", sa.String(100), nullable=False),
        sa.Column("warmup_runs", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("runs", sa.JSON, nullable=False),
        sa.Column("executed", sa.JSON, nullable=False),
        sa.Column("moment", sa.JSON, nullable=False),
        if_not_exists=True,
    )
    op.create_index("measurements_by_subject", "measurements", ["platform_id", "role", "reference_key"], if_not_exists=True)
    for table, columns in (
        ("platforms", ("device", "runtime")),
        ("references", ("space",)),
        ("measurements", ("taken_at",)),
    ):
        for column in columns:
            op.create_index(f"ix_{table}_{column}", table, [column], if_not_exists=True)
