"""Alembic's entry: runs migrations on the connection that it is handed, in that connection's transaction."""

from __future__ import annotations

from alembic import context

from latcast.hub.migrations import VERSION_TABLE
from latcast.hub.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=list(METADATA), version_table=VERSION_TABLE)
context.run_migrations()
