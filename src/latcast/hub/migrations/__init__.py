"""Steps that bring a hub's database to today's tables, run by Alembic when a hub is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from latcast.errors import DatasetError
from latcast.hub.schema import METADATA

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

FOLDER = Path(__file__).parent
VERSION_TABLE = "repository_version"


def migrate(connection: Connection) -> None:
    """Bring the database to today's tables, inside the connection's transaction.

    Raises:
        DatasetError: A newer latcast has written to it.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    script = ScriptDirectory.from_config(config)
    newest = script.get_current_head()
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    found = context.get_current_revision()
    if found is None:
        for metadata in METADATA:
            metadata.create_all(connection)
        context.stamp(script, "head")
    elif found != newest:
        try:
            command.upgrade(config, "head")
        except CommandError as problem:
            raise DatasetError(
                f"the hub's database is of a version that this latcast does not know ({problem}); expected {newest} or older; "
                "update latcast"
            ) from problem
