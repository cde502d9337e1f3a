"""An administrator takes back what should not have been believed, by upload, token, contributor or platform."""

from __future__ import annotations

import json

import pytest

from latcast.errors import HubError
from latcast.hub.database import HubDatabase
from latcast.hub.moderation import Scope
from latcast.hub.queries import HubReader
from latcast.records import Measurement
from tests.hub.made_up import contributor, device, platform, record, upload


def sent(database: HubDatabase, name: str, records: list[Measurement]) -> tuple[str, str]:
    """The ids of the token and the upload."""
    who = contributor(database, name)
    return who[1].id, upload(database, records, who)["upload"]


@pytest.mark.parametrize("what", ["upload", "token", "contributor", "platform"])
def test_records_that_were_taken_back_do_not_come_back(database: HubDatabase, what: str) -> None:
    sent(database, "Ann", device("honest", 1.0))
    bad = device("fake", 1.3)
    token, sent_id = sent(database, "Eve", bad)
    scope = Scope(**{what: {"upload": sent_id[:12], "token": token, "contributor": "Eve", "platform": platform("fake")}[what]})

    assert database.affected(scope).measurements == 20
    found = database.undo(scope, reason="made up")
    sent(database, "Eve", bad)

    assert (found.uploads, found.measurements, found.platforms) == (1, 20, 1)
    assert set(database.platforms()) == {platform("honest")}
    assert len(database.observations()) == 20
    [entry] = [each for each in database.audit() if each["action"] == "undo"]
    assert (entry["number"], entry["details"]["measurements"], entry["details"]["reason"]) == (found.entry, 20, "made up")


def test_many_uploads_are_taken_back_at_once_and_brought_back(database: HubDatabase) -> None:
    for number in range(12):
        sent(database, "Eve", device(f"fake-{number}", 1.3, range(1, 4)))
    before = database.observations()

    found = database.undo(Scope(contributor="Eve"))

    assert (found.uploads, found.measurements, len(database)) == (12, 36, 0)
    assert found.entry is not None
    assert database.redo(found.entry) == 36
    assert database.observations() == before
    assert HubReader(database).contributors()[0]["measurements"] == 36
    with pytest.raises(HubError, match="took nothing back"):
        database.redo(found.entry)


def test_an_erased_contributor_is_removed_with_the_name(database: HubDatabase) -> None:
    sent(database, "Ann", device("honest", 1.0))
    sent(database, "Eve Example", [*device("fake", 1.3), record(1, latency_ms=0.0001, device="fake", day=9)])

    database.undo(Scope(contributor="Eve Example"), erase=True, reason="asked")

    assert database.quarantine() == []
    assert [item["name"] for item in HubReader(database).contributors()] == ["Ann"]
    assert [token.contributor for token in database.tokens()] == ["Ann"]
    assert "Eve" not in json.dumps(database.audit())


def test_only_later_uploads_are_taken_back(sqlite: HubDatabase) -> None:
    sent(sqlite, "Eve", device("a", 1.0))
    moment = sqlite.uploads()[0]["received_at"]

    for scope in (Scope(), Scope(contributor="nobody"), Scope(upload="zz"), Scope(contributor="Eve", until=moment)):
        with pytest.raises(HubError, match=f"there is no upload of {scope}" if str(scope) else "nothing is named"):
            sqlite.undo(scope)
    assert sqlite.undo(Scope(contributor="Eve", since=moment)).measurements == 20


def test_what_an_administrator_does_is_in_the_audit_log(sqlite: HubDatabase) -> None:
    token, _ = sent(sqlite, "Ann", [record(1, latency_ms=0.0001), record(2, latency_ms=0.0001)])
    first, second = sqlite.quarantine()
    sqlite.release(first["id"])
    sqlite.discard(second["id"])
    sqlite.trust("Ann")
    sqlite.revoke_token(token)

    found = [(entry["action"], entry["subject"]) for entry in reversed(sqlite.audit())]

    assert found == [
        ("issue", token), ("release", first["id"]), ("discard", second["id"]), ("trust", "Ann"), ("revoke", token),
    ]  # fmt: skip
    with pytest.raises(HubError, match="no contributor is called 'nobody'"):
        sqlite.trust("nobody")
