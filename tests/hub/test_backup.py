"""A hub is made again from its backup, on either kind of database, or not at all."""

from __future__ import annotations

import gzip
import os
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from latcast.errors import HubError, LatcastError
from latcast.hub.backup import back_up, restore
from latcast.hub.database import HubDatabase
from latcast.hub.moderation import Scope
from latcast.hub.queries import HubReader
from latcast.hub.refitting import ServedModel, refit
from tests.hub.made_up import contributor, device, record, upload


def fill(database: HubDatabase) -> str:
    """A hub with something in every table; returns a token."""
    token, _ = database.issue_token("Ann", trusted=True)
    upload(database, [*device("a", 1.0), *device("b", 2.0), record(3, latency_ms=0.0001, day=5)], database.check_token(token))
    upload(database, device("c", 3.0), contributor(database, "Bob"))
    database.undo(Scope(contributor="Bob"))
    refit(database, ServedModel())
    return token


def test_a_hub_is_made_again_from_its_backup(database: HubDatabase, tmp_path: Path) -> None:
    token = fill(database)
    found = back_up(database, tmp_path / "hub.gz")

    with HubDatabase(tmp_path / "again.sqlite") as again:
        read = restore(tmp_path / "hub.gz", again)
        second = back_up(again, tmp_path / "second.gz")

        assert read == second == {**found, "properties": read["properties"]}
        assert again.observations() == database.observations()
        assert HubReader(again).models() == HubReader(database).models()
        assert again.quarantine() == database.quarantine()
        assert HubReader(again).contributors() == HubReader(database).contributors()
        assert again.check_token(token)[1].trusted
        assert upload(again, device("d", 1.0), contributor(again, "Cleo"))["accepted"] == 20
    assert stat.S_IMODE((tmp_path / "hub.gz").stat().st_mode) == 0o600


def test_a_backup_of_one_kind_of_database_fills_the_other(sqlite: HubDatabase, new_postgresql: str, tmp_path: Path) -> None:
    fill(sqlite)
    back_up(sqlite, tmp_path / "hub.gz")

    with HubDatabase(new_postgresql) as again:
        restore(tmp_path / "hub.gz", again)

        assert again.observations() == sqlite.observations()
        assert upload(again, device("d", 1.0), contributor(again, "Cleo"))["accepted"] == 20
        assert refit(again, ServedModel()) is not None
        again.trust("Cleo")


def changed(path: Path, *statements: str) -> Path:
    """Run statements on the database in a backup."""
    plain = path.with_suffix(".sqlite")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    with closing(sqlite3.connect(plain)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    with closing(sqlite3.connect(plain)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-9], "cannot read"),
        (lambda content: content[:2000] + b"x" + content[2001:], "cannot read"),
        (lambda content: gzip.compress(b"nonsense"), "is not a backup of a hub"),
        (lambda content: b"nonsense", "cannot read"),
        (lambda content: gzip.compress(bytes(30_000_000)), "packed into"),
        (lambda content: gzip.compress(gzip.decompress(content)[:50_000]), "malformed"),
    ],
    ids=["cut off", "a byte changed", "no database", "no gzip", "a bomb", "pages lost"],
)  # fmt: skip
def test_a_damaged_backup_fills_nothing(sqlite: HubDatabase, tmp_path: Path, damage: object, reason: str) -> None:
    fill(sqlite)
    path = tmp_path / "hub.gz"
    back_up(sqlite, path)
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))

    with HubDatabase(tmp_path / "again.sqlite") as again:
        with pytest.raises(LatcastError, match=reason):
            restore(path, again)
        assert (len(again), again.tokens()) == (0, [])


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE repository_version SET version_num = '9999'", "update latcast"),
        ("CREATE VIEW more AS SELECT 1", "holds the view 'more'"),
        ("UPDATE tokens SET most_platforms = 'many'", "malformed row in tokens: 'many' does not fit most_platforms"),
        ("UPDATE contributors SET name = name || printf('%.*c', 61, 'A')", "malformed row in contributors"),
        ("UPDATE shared_models SET graph = 'text'", "malformed row in shared_models"),
        ("INSERT INTO platforms VALUES ('phone', '', '', '', '', '')", "'phone' is not a platform id"),
        ("UPDATE \"references\" SET parameters = '[1]'", "malformed row in references"),
        ("UPDATE \"references\" SET parameters = 'not JSON'", "malformed row in references"),
        ("UPDATE measurements SET latency_ms = -1.0", "malformed row in measurements"),
        ("UPDATE quarantine SET record = '{\"platform\": \"phone\"}'", "malformed row in quarantine"),
        ("DELETE FROM contributors", "cannot restore"),
    ],
)  # fmt: skip
def test_rows_that_nothing_could_read_are_not_restored(sqlite: HubDatabase, tmp_path: Path, statement: str, reason: str) -> None:
    fill(sqlite)
    sqlite.share_model("0" * 16, b"x")
    path = tmp_path / "hub.gz"
    back_up(sqlite, path)

    with HubDatabase(tmp_path / "again.sqlite") as again:
        with pytest.raises(LatcastError, match=re.escape(reason)):
            restore(changed(path, statement), again)
        assert (len(again), again.tokens()) == (0, [])


def test_erased_names_are_not_in_later_backups(sqlite: HubDatabase, tmp_path: Path) -> None:
    upload(sqlite, device("a", 1.0), contributor(sqlite, "Eve Example"))
    sqlite.undo(Scope(contributor="Eve Example"), erase=True)
    back_up(sqlite, tmp_path / "hub.gz")

    assert b"Eve Example" not in gzip.decompress((tmp_path / "hub.gz").read_bytes())


def test_a_pipe_is_refused_before_it_is_opened(sqlite: HubDatabase, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hub.gz")

    with pytest.raises(HubError, match="a pipe or a device, expected a file"):
        restore(tmp_path / "hub.gz", sqlite)


def test_a_backup_that_cannot_be_written_says_so(sqlite: HubDatabase) -> None:
    with pytest.raises(HubError, match="cannot write the backup"):
        back_up(sqlite, Path("/nowhere/hub.gz"))
