"""The database of a hub: what an upload brings is stored whole, once, and what is doubted is kept apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, text

from latcast.datasets.store import Store, measurement_id
from latcast.errors import DatasetError, HubError
from latcast.hub.database import HubDatabase, database_url
from latcast.hub.migrations import VERSION_TABLE
from latcast.hub.model import HubModel
from latcast.hub.queries import HubReader
from latcast.hub.schema import METADATA
from latcast.hub.uploads import parse_upload
from latcast.records import Reference
from tests.hub.made_up import contributor, device, observed, record, upload


def test_records_that_another_upload_brought_are_known(database: HubDatabase) -> None:
    upload(database, device("phone", 2.0, range(1, 11)))

    answer = upload(database, device("phone", 2.0, range(6, 13)))

    assert (answer["accepted"], answer["known"], len(database)) == (2, 5, 12)


def test_uploads_at_the_same_time_lose_and_double_nothing(database: HubDatabase) -> None:
    who = contributor(database)
    parts = [device(f"phone-{index % 4}", 1.0, day=1 + index // 4) for index in range(12)]

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda part: upload(database, part, who), parts * 2))

    assert len(database) == sum(answer["accepted"] for answer in answers if not answer["repeated"]) == 240


def test_an_implausible_record_is_held_back_until_it_is_released_or_discarded(database: HubDatabase) -> None:
    bad = record(2, latency_ms=0.0001)
    released, discarded = measurement_id(bad), measurement_id(record(3, latency_ms=0.0001))

    held = upload(database, [record(1), bad, record(3, latency_ms=0.0001)])["quarantined"]

    assert [(item["record"], item["network"]) for item in held] == [(2, "resnet-2"), (3, "resnet-3")]
    assert "outside" in held[0]["reason"]
    assert [item.reference.name for item in database.observations()] == ["resnet-1"]
    assert {item["id"] for item in database.quarantine()} == {released, discarded}
    database.release(released)
    database.discard(discarded)
    assert {item.latency_ms for item in database.measurements()} == {1.0, 0.0001}
    assert HubReader(database).contributors()[0]["measurements"] == 2
    upload(database, [record(3, latency_ms=0.0001), record(4)])
    assert (database.quarantine(), len(database)) == ([], 3)  # what was discarded does not come back
    with pytest.raises(HubError, match="no record in quarantine"):
        database.release(discarded)


def test_a_failed_measurement_is_kept_and_trains_nothing(database: HubDatabase) -> None:
    failed = record(1, latency_ms=1.0, error="out of memory", runs_ms=(), rounds=())

    assert upload(database, [failed, record(2)])["accepted"] == 2
    assert [item.reference.name for item in database.observations()] == ["resnet-2"]


def test_a_contradicting_record_is_held_back_unless_its_contributor_is_trusted(database: HubDatabase) -> None:
    upload(database, device("phone", 1.0, range(1, 9)))
    three = [record(network, factor=3.9, day=2) for network in (1, 2, 3)]

    held = upload(database, three, contributor(database, "Eve"))["quarantined"]

    assert [item["record"] for item in held] == [1, 2, 3]
    assert "a factor of 3.9 away" in held[0]["reason"]
    assert upload(database, [record(1, factor=1.4, day=3)], contributor(database, "Bob"))["accepted"] == 1
    assert upload(database, [record(2, factor=3.9, day=4)], contributor(database, "Cleo", trusted=True))["accepted"] == 1


def test_two_records_an_upload_are_no_way_around_trusted_contributors(sqlite: HubDatabase) -> None:
    upload(sqlite, device("phone", 1.0), contributor(sqlite, "Ann", trusted=True))
    eve = contributor(sqlite, "Eve")

    accepted = [
        upload(sqlite, device("phone", 1.3, networks, day=2), eve)["accepted"] for networks in ([1, 2], [3, 4], [5, 6], [7, 8])
    ]

    assert accepted == [2, 0, 0, 0]


def test_strangers_who_were_first_on_a_platform_do_not_keep_trusted_contributors_out(sqlite: HubDatabase) -> None:
    model = HubModel.fit([item for name in "abc" for item in observed(device(name, 1.0))])
    assert upload(sqlite, device("phone", 10.0), contributor(sqlite, "Eve"), model)["accepted"] == 20

    ann = contributor(sqlite, "Ann", trusted=True)

    assert upload(sqlite, device("phone", 1.0, range(1, 11), day=2), ann, model)["accepted"] == 10
    assert upload(sqlite, [record(11, factor=9.0, day=2)], ann, model)["accepted"] == 0


def test_a_token_brings_so_many_new_platforms_and_no_more(database: HubDatabase) -> None:
    ann = contributor(database, most_platforms=2)

    answer = upload(database, [record(1, device=f"phone-{index}") for index in range(4)], ann)

    assert answer["accepted"] == 2
    assert [item["record"] for item in answer["quarantined"]] == [3, 4]
    assert "may bring 2 new platforms" in answer["quarantined"][0]["reason"]
    assert upload(database, [record(2, device="phone-0"), record(1, device="phone-9")], ann)["accepted"] == 1


def test_a_trusted_contributor_brings_as_many_platforms_as_there_are(sqlite: HubDatabase) -> None:
    ann = contributor(sqlite, trusted=True)

    assert upload(sqlite, [record(1, device=f"phone-{index}") for index in range(30)], ann)["accepted"] == 30
    assert (ann[1].trusted, sqlite.tokens()[0].trusted) == (True, True)


def test_a_new_platform_of_which_everything_was_held_back_may_come_again(database: HubDatabase) -> None:
    who = contributor(database)
    for day, accepted in ((1, 0), (2, 0), (3, 1)):
        records = [record(1, day=day, latency_ms=1.0 if accepted else 0.0001)]
        assert upload(database, records, who)["accepted"] == accepted


def test_no_secret_is_stored(tmp_path: Path) -> None:
    with HubDatabase(tmp_path / "r.sqlite") as database:
        token, made = database.issue_token("Ann")
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())

    assert made.id.encode() in content
    assert token.split("_", 2)[2].encode() not in content


@pytest.mark.parametrize("name", ["", "<script>", "a" * 61, "a\nb\x00"])
def test_malformed_names_of_contributors_are_refused(sqlite: HubDatabase, name: str) -> None:
    with pytest.raises(HubError, match="is not a contributor's name"):
        sqlite.issue_token(name)


@contextmanager
def connection_to(location: str) -> Iterator[Connection]:
    engine = create_engine(database_url(location) if "://" in location else f"sqlite:///{location}")
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def test_the_migrations_make_what_the_models_say(location: str) -> None:
    with HubDatabase(location), connection_to(location) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})

        assert compare_metadata(context, list(METADATA)) == []  # type: ignore[arg-type]


def test_a_store_becomes_a_hub_and_stays_a_store(location: str) -> None:
    with Store(database_url(location)) as store:
        store.add_all(device("phone", 2.0))

    with HubDatabase(location) as database:
        assert len(database.observations()) == 20
    with Store(database_url(location)) as store:
        assert len(store) == 20


def test_a_database_of_a_newer_latcast_is_refused(location: str) -> None:
    with HubDatabase(location):
        pass
    with connection_to(location) as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))

    with pytest.raises(DatasetError, match="update latcast"):
        HubDatabase(location)


def test_a_password_is_not_shown() -> None:
    assert database_url("postgres://ann:secret@host/name") == "postgresql+psycopg://ann:secret@host/name"
    with pytest.raises(DatasetError) as problem:
        HubDatabase("postgresql://ann:secret@127.0.0.1:1/name")
    assert "secret" not in str(problem.value)


TEXTS = st.text(max_size=30) | st.sampled_from(["%s", "'; DROP TABLE measurements; --", "\x7f", "\u2028", "{}", "NULL"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
CHANGES = st.fixed_dictionaries(
    {
        "environment": OBJECTS,
        "reference": st.builds(lambda name, parameters: Reference("resnet", parameters, name).to_json(), TEXTS, OBJECTS),
        "error": st.none() | TEXTS,
        "statistic": TEXTS,
        "latency_ms": st.floats(1e-300, 1e300) | st.integers(1, 2**53),
        "warmup_runs": st.integers(0, 10**6),
    }
)


@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(changes=st.lists(CHANGES, min_size=20, max_size=40))
def test_every_accepted_upload_is_stored_unchanged(database: HubDatabase, changes: list[dict[str, Any]]) -> None:
    good = record(1).to_json()
    read = []
    for number, changed in enumerate(changes):
        with suppress(HubError):
            moment = f"2026-01-01T{len(database.quarantine()) % 24:02d}:{len(database) % 60:02d}:{number:02d}Z"
            read += parse_upload(json.dumps({**good, **changed, "taken_at": moment}).encode())
    before = {measurement_id(item) for item in database.measurements(failed=True)}
    upload(database, read)

    stored = {measurement_id(item): item for item in database.measurements(failed=True, as_taken=True)}
    held = {item["id"] for item in database.quarantine()}
    assert {measurement_id(item) for item in read} <= stored.keys() | held
    for item in read:
        found = stored.get(measurement_id(item))
        if found is not None and measurement_id(item) not in before:
            assert found.environment == item.environment
            assert found.reference.key == item.reference.key
