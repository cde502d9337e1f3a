"""Steps that bring a hub's database to today's tables, run by Alembic when a hub is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from latcast.errors import DatasetError

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy.engine import Connection

FOLDER = Path(__file__).parent
VERSION_TABLE = "repository_version"


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def newest() -> str:
    """Name of the last step that this latcast knows."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    head = ScriptDirectory.from_config(config).get_current_head()
    assert head is not None, "the package ships at least one step"
    return head


def migrate(connection: Connection) -> None:
    """Brings the database to today's tables, inside the connection's transaction.

    Raises:
        DatasetError: A newer latcast has been at it.
    """
    from alembic import command
    from alembic.runtime.migration import MigrationContext
    from alembic.util import CommandError

    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    if context.get_current_revision() == newest():
        return
    try:
        command.upgrade(_config(connection), "head")
    except CommandError as problem:
        raise DatasetError(
            f"the hub's database is of a version that this latcast does not know ({problem}); expected "
            f"{newest()} or older; update latcast"
        ) from problem
