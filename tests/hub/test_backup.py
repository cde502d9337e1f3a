"""A hub is made again from its backup, on either kind of database, or not at all."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import re
import stat
from collections import Counter
from pathlib import Path

import pytest

from latcast.errors import HubError, LatcastError
from latcast.hub.backup import back_up, restore
from latcast.hub.database import HubDatabase
from latcast.hub.moderation import Scope
from latcast.hub.queries import HubReader
from latcast.hub.refitting import ServedModel, refit
from tests.hub.made_up import device, record
from tests.hub.test_database import contributor, upload

NEWER = json.dumps({"latcast_hub_backup": 1, "tables": "9999", "latcast": "9"}).encode() + b"\n"


def fill(database: HubDatabase) -> str:
    """A hub with something in every table; returns a token."""
    token, _ = database.issue_token("Ann", trusted=True)
    upload(database, [*device("a", 1.0), *device("b", 2.0), record(3, latency_ms=0.0001, day=5)], database.check_token(token)[0])
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

        assert (read.rows, read.sha256) == (found.rows, found.sha256)
        assert {**second.rows} == {**found.rows}
        assert again.observations() == database.observations()
        assert again.newest_model() == database.newest_model()
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


def test_a_hub_that_holds_something_is_left_alone(sqlite: HubDatabase, tmp_path: Path) -> None:
    fill(sqlite)
    back_up(sqlite, tmp_path / "hub.gz")

    with pytest.raises(HubError, match="is not empty"):
        restore(tmp_path / "hub.gz", sqlite)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda lines: lines[:-1], "damaged or cut off"),
        (lambda lines: [*lines[:5], *lines[6:]], "damaged or cut off"),
        (lambda lines: [*lines[:5], b'["nowhere",{}]\n', *lines[5:]], "no row of a known table"),
        (lambda lines: [b"{}\n", *lines[1:]], "is no backup of a hub"),
        (lambda lines: [NEWER], "update latcast"),
        (lambda lines: [b"nonsense\n"], "not JSON"),
    ],
    ids=["cut off", "a line lost", "another table", "no backup", "newer", "no JSON"],
)  # fmt: skip
def test_a_damaged_backup_fills_nothing(sqlite: HubDatabase, tmp_path: Path, damage: object, reason: str) -> None:
    fill(sqlite)
    path = tmp_path / "hub.gz"
    back_up(sqlite, path)
    assert callable(damage)
    path.write_bytes(gzip.compress(b"".join(damage(gzip.decompress(path.read_bytes()).splitlines(keepends=True)))))

    with HubDatabase(tmp_path / "again.sqlite") as again:
        with pytest.raises(HubError, match=reason):
            restore(path, again)
        assert (len(again), again.tokens()) == (0, [])


def backup_of(path: Path, *lines: object, head: object = 1) -> Path:
    """A backup of these rows with the right digest, however malformed the rows are."""
    rows = [json.dumps(line).encode() + b"\n" for line in lines]
    counts = {str(line[0]): 1 for line in lines if isinstance(line, list)}
    end = {"rows": counts, "sha256": hashlib.sha256(b"".join(rows)).hexdigest()}
    first = {"latcast_hub_backup": head, "tables": ""}
    path.write_bytes(gzip.compress(b"".join([json.dumps(first).encode() + b"\n", *rows, json.dumps(end).encode() + b"\n"])))
    return path


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (["contributors", [1]], "no row of a known table"),
        ([["a"], {}], "no row of a known table"),
        (["contributors", {"id": "one", "name": "Ann", "created_at": "", "trusted": False}], "'one' in contributors.id"),
        (["contributors", {"id": 1, "name": "A" * 61, "created_at": "", "trusted": False}], "in contributors.name"),
        (["contributors", {"id": 1, "name": None, "created_at": "", "trusted": False}], "in contributors.name"),
        (["contributors", {"id": 1, "name": "Ann", "created_at": "", "trusted": "yes"}], "in contributors.trusted"),
        (["contributors", {"id": 1, "secret": "Ann"}], "a column 'secret' in contributors"),
        (["shared_models", {"key": "a", "graph": {"base64": "?"}, "shared_at": ""}], "not base64"),
        (["platforms", {"id": "phone", "device": "", "runtime": "", "runtime_version": "", "unit": "", "precision": ""}],
         "malformed row in platforms: 'phone' is not a platform id"),
        (["references", {"key": "a", "space": "x", "name": "y", "parameters": [1]}], "malformed row in references"),
        (["contributors", {"id": 1}], "cannot"),
    ],
)  # fmt: skip
def test_rows_that_nothing_could_read_are_not_restored(tmp_path: Path, row: object, reason: str) -> None:
    with HubDatabase(tmp_path / "again.sqlite") as again:
        with pytest.raises(LatcastError, match=re.escape(reason)):
            restore(backup_of(tmp_path / "hub.gz", row), again)
        assert len(again) == 0


def test_measurements_are_restored_by_the_rules_of_uploads(sqlite: HubDatabase, tmp_path: Path) -> None:
    fill(sqlite)
    path = tmp_path / "hub.gz"
    back_up(sqlite, path)
    first, *rows, _ = gzip.decompress(path.read_bytes()).splitlines()
    for table, change in (("measurements", {"latency_ms": -1.0}), ("quarantine", {"record": {"platform": "phone"}})):
        changed = [json.loads(row) for row in rows]
        next(values for name, values in changed if name == table).update(change)
        counts: dict[str, int] = Counter(name for name, _ in changed)
        lines = [json.dumps(row).encode() + b"\n" for row in changed]
        end = {"rows": counts, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
        path.write_bytes(gzip.compress(b"".join([first, b"\n", *lines, json.dumps(end).encode()])))
        with HubDatabase(tmp_path / f"{table}.sqlite") as again:
            with pytest.raises(HubError, match=f"a malformed row in {table}"):
                restore(path, again)
            assert (len(again), again.tokens()) == (0, [])


def test_a_schema_that_is_no_number_is_said(sqlite: HubDatabase, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="its schema is no whole number"):
        restore(backup_of(tmp_path / "hub.gz", head="1"), sqlite)


def test_a_line_without_end_is_not_read_to_its_end(sqlite: HubDatabase, tmp_path: Path) -> None:
    (tmp_path / "hub.gz").write_bytes(gzip.compress(b'["' + random.Random(0).randbytes(300_000).hex().encode() * 40 + b'"]'))

    with pytest.raises(HubError, match="found a line of more than 16 MB"):
        restore(tmp_path / "hub.gz", sqlite)


def test_a_pipe_is_refused_before_it_is_opened(sqlite: HubDatabase, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hub.gz")

    with pytest.raises(HubError, match="a pipe or a device, expected a file"):
        restore(tmp_path / "hub.gz", sqlite)


def test_a_file_that_is_no_gzip_is_said(sqlite: HubDatabase, tmp_path: Path) -> None:
    (tmp_path / "hub.gz").write_bytes(b"nothing of the kind")

    with pytest.raises(HubError, match="cannot read"):
        restore(tmp_path / "hub.gz", sqlite)
    with pytest.raises(HubError, match="cannot write the backup"):
        back_up(sqlite, Path("/nowhere/hub.gz"))
