"""A hub on each kind of database: SQLite, and a real PostgreSQL where Debian's packages are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from latcast.hub.database import HubDatabase


def _postgresql_tool(name: str) -> str:
    """Path of a program of PostgreSQL's server, the newest where there are several."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    tool = str(found[-1]) if found else shutil.which(name)
    if tool is None:
        pytest.skip(f"no PostgreSQL server here ({name} is missing); add it with: apt-get install postgresql")
    return tool


def _as_server(*command: str) -> None:
    """Runs a program as a user that PostgreSQL accepts: not as root."""
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*prefix, *command], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """URL of a private server, which listens at a socket in a folder of its own."""
    initdb, pg_ctl = _postgresql_tool("initdb"), _postgresql_tool("pg_ctl")
    with TemporaryDirectory(prefix="latcast-pg-") as folder:
        data = Path(folder) / "data"
        data.mkdir()
        Path(folder).chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
            shutil.chown(data, "postgres")
        _as_server(initdb, "-D", str(data), "-A", "trust", "-U", "latcast", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        options = f"-c listen_addresses='' -k {folder} -c fsync=off -c shared_buffers=16MB -c max_connections=100"
        _as_server(pg_ctl, "-D", str(data), "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield f"postgresql://latcast@/postgres?host={folder}"
        finally:
            _as_server(pg_ctl, "-D", str(data), "-w", "-m", "immediate", "stop")


@pytest.fixture
def new_postgresql(postgresql: str) -> str:
    """URL of an empty database: one for all tests, emptied for each, as making one takes a second."""
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgresql


@pytest.fixture(scope="session")
def empty_hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub in SQLite to copy, as making one takes a while."""
    path = tmp_path_factory.mktemp("empty") / "repository.sqlite"
    with HubDatabase(path):
        pass
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new database is to be, on each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "repository.sqlite")
    return str(request.getfixturevalue("new_postgresql"))


@pytest.fixture
def database(location: str) -> Iterator[HubDatabase]:
    """An empty hub, on each kind of database."""
    with HubDatabase(location) as found:
        yield found


@pytest.fixture
def sqlite(empty_hub: Path, tmp_path: Path) -> Iterator[HubDatabase]:
    """An empty hub, for what does not depend on the kind."""
    with HubDatabase(shutil.copy(empty_hub, tmp_path)) as found:
        yield found
