"""What Alembic runs for each migration: on the connection that it is handed, in that connection's transaction."""

from __future__ import annotations

from alembic import context

from latcast.repository.migrations import VERSION_TABLE
from latcast.repository.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=list(METADATA), version_table=VERSION_TABLE)
context.run_migrations()
