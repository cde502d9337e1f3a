"""The store: what goes in comes out, once, whoever else is at it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from latcast.datasets import jsonlines
from latcast.datasets.rows import Base
from latcast.datasets.store import Store
from latcast.errors import DatasetError, LatcastError, MissingExtraError
from latcast.measure.campaign import Tally
from latcast.measure.record import failed
from latcast.measure.statistics import renormalised
from latcast.records import ExecutedKernel, Measurement, Reference

PHONE = "pixel4/tflite-2.10/gpu/fp16"
LOCAL = "local/onnxruntime-1.31/cpu1/fp32"


def environment(worker: str = "w1", **software: str) -> dict[str, Any]:
    return {
        "host": {"cpu": {"model": "Example CPU"}},
        "software": {"python": "3.11", **software},
        "settings": {"probe": None},
        "moment": {"worker": worker, "load_average": [0.5, 0.25, 0.125]},
    }


def measurement(
    number: int = 0,
    *,
    platform: str = LOCAL,
    role: str = "network",
    space: str = "resnet",
    latency_ms: float = 2.0,
    taken_at: str = "2026-01-01T00:00:00.000Z",
    **changes: Any,
) -> Measurement:
    """A plain record of network ``number``."""
    return Measurement(
        platform,
        Reference(space, {"depth": number, "widths": [64, 128]}, f"{space}{number}"),
        role,
        runs_ms=(latency_ms, latency_ms),
        rounds=(0, 1),
        latency_ms=latency_ms,
        raw_latency_ms=latency_ms,
        variation=0.0,
        statistic="median of runs",
        warmup_runs=3,
        taken_at=taken_at,
        environment=changes.pop("environment", environment()),
        **changes,
    )


def probed(quiet_ms: tuple[float, float], **changes: Any) -> Measurement:
    """A record whose host was half as fast as quiet_ms (0.01, 0.02) says."""
    probe = {"key": "abc", "parts": ["compute", "memory"], "quiet_ms": list(quiet_ms)}
    found = measurement(
        probe_ms=(0.01, 0.01),
        probe_parts_ms={"compute": (0.02, 0.02), "memory": (0.02, 0.02)},
        environment={"settings": {"probe": probe}, "moment": {"worker": "w1", "probe_weights": [1.0, 0.0]}},
        **changes,
    )
    # Once to another quiet time and back, so that latency and probe agree.
    return renormalised(renormalised(found, (1.0, 1.0)), quiet_ms)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


class TestAdding:
    def test_a_full_record_comes_out_as_it_went_in(self, store: Store) -> None:
        full = replace(
            probed((0.01, 0.02)),
            executed=(ExecutedKernel("conv", "FusedConv", ("conv_0", "relu_0"), 1.5), ExecutedKernel("r", "Reorder", (), 0.1)),
        )
        assert store.add(full)
        assert list(store.measurements()) == [full]

    def test_a_failed_record_comes_out_when_asked_for(self, store: Store) -> None:
        broken = failed("the worker was killed by SIGSEGV", LOCAL, Reference("resnet", {"depth": 1}), "network")
        store.add(broken)
        assert list(store.measurements()) == []
        assert list(store.measurements(failed=True)) == [broken]

    def test_the_same_record_is_kept_once(self, store: Store) -> None:
        assert store.add(measurement())
        assert not store.add(measurement())
        assert store.add_all([measurement(), measurement(1), measurement(1)]) == 1
        assert len(store) == 2

    def test_another_observation_is_another_record_and_another_normalisation_or_name_is_not(self, store: Store) -> None:
        first = measurement()
        store.add_all([first, probed((0.01, 0.02))])
        assert not store.add(probed((0.008, 0.02)))
        assert not store.add(replace(first, reference=replace(first.reference, name="another name")))
        assert store.add(measurement(taken_at="2026-01-02T00:00:00.000Z"))
        assert store.add(measurement(environment=environment(worker="w2")))
        assert store.add(replace(first, runs_ms=(2.0, 2.1)))
        assert store.add(replace(first, role="kernel"))

    def test_many_records_are_added_in_portions(self, store: Store) -> None:
        records = [measurement(number) for number in range(1200)]
        assert store.add_all(records) == 1200
        assert store.add_all(records) == 0

    def test_a_malformed_platform_adds_nothing(self, store: Store) -> None:
        with pytest.raises(LatcastError, match="not a platform id"):
            store.add_all([measurement(), measurement(1, platform="my phone")])
        assert len(store) == 0

    def test_environments_are_shared_and_moments_are_not(self, store: Store, tmp_path: Path) -> None:
        store.add_all(
            [measurement(number, environment=environment(worker=f"w{number}")) for number in range(3)]
            + [measurement(3, environment=environment(numpy="2.0"))]
        )
        connection = sqlite3.connect(tmp_path / "store.sqlite")
        assert connection.execute("select count(*) from environments").fetchone() == (2,)
        connection.close()
        assert [item.environment["moment"]["worker"] for item in store.measurements()][:3] != ["w0"] * 3


class TestReading:
    @pytest.fixture(autouse=True)
    def filled(self, store: Store) -> None:
        store.add_all(
            [
                measurement(1, taken_at="2"),
                measurement(1, taken_at="1", latency_ms=4.0),
                measurement(2, space="vgg", taken_at="3"),
                measurement(3, space="kernel/conv", role="kernel", taken_at="4"),
                measurement(4, space="kernel/pool", role="kernel", taken_at="5"),
                measurement(1, platform=PHONE, taken_at="6"),
                failed("refused", LOCAL, Reference("vgg", {"depth": 9}, "vgg9"), "network"),
            ]
        )

    def test_records_come_in_order_of_time(self, store: Store) -> None:
        assert [item.taken_at for item in store.measurements()] == ["1", "2", "3", "4", "5", "6"]

    @pytest.mark.parametrize(
        ("selection", "expected"),
        [
            ({"platform": PHONE}, ["6"]), ({"role": "kernel"}, ["4", "5"]), ({"space": "vgg"}, ["3"]),
            ({"space": "kernel/"}, ["4", "5"]), ({"space": "kernel"}, []), ({"platform": LOCAL, "space": "resnet"}, ["1", "2"]),
            ({"platform": "nobody/has-1/this/fp32"}, []),
        ],
    )  # fmt: skip
    def test_they_are_selected_by_platform_role_and_space(
        self, store: Store, selection: dict[str, str], expected: list[str]
    ) -> None:
        assert [item.taken_at for item in store.measurements(**selection)] == expected  # type: ignore[arg-type]

    def test_they_are_selected_by_key(self, store: Store) -> None:
        key = measurement(2, space="vgg").reference.key
        assert [item.taken_at for item in store.measurements(keys=[key])] == ["3"]
        assert list(store.measurements(keys=[])) == []

    def test_tallies_count_good_and_failed_records(self, store: Store) -> None:
        tallies = store.tallies(LOCAL, "network")
        assert tallies[measurement(1).reference.key] == Tally(2, 0)
        assert tallies[Reference("vgg", {"depth": 9}).key] == Tally(0, 1)
        assert len(tallies) == 3
        assert store.tallies("nobody/has-1/this/fp32", "network") == {}

    def test_keys_are_those_of_good_records(self, store: Store) -> None:
        keys = {measurement(1).reference.key, measurement(2, space="vgg").reference.key}
        assert store.keys(platform=LOCAL, role="network") == keys

    def test_platforms_are_listed_with_their_records(self, store: Store) -> None:
        assert store.platforms() == {LOCAL: 6, PHONE: 1}

    def test_references_are_listed_by_name(self, store: Store) -> None:
        assert [item.name for item in store.references(space="vgg")] == ["vgg2", "vgg9"]
        assert [item.name for item in store.references(platform=PHONE)] == ["resnet1"]

    def test_labels_join_the_measurements_of_a_reference(self, store: Store) -> None:
        resnet, vgg = store.labels(platform=LOCAL, role="network")
        assert (resnet.reference.name, resnet.latency_ms, resnet.rounds) == ("resnet1", 3.0, 4)
        assert resnet.halves_ms == (4.0, 2.0)
        assert (vgg.reference.name, vgg.latency_ms) == ("vgg2", 2.0)


class TestQuietTimes:
    def test_they_are_kept_and_replaced_by_key(self, store: Store) -> None:
        assert store.quiet_ms("abc") is None
        store.keep_quiet_ms("abc", (0.01, 0.02))
        store.keep_quiet_ms("abc", (0.009, 0.02))
        store.keep_quiet_ms("def", (1.0,))
        assert store.quiet_ms("abc") == (0.009, 0.02)
        assert store.quiet_ms("def") == (1.0,)

    def test_all_records_of_a_host_are_normalised_with_the_one_known_now(self, store: Store) -> None:
        early, late = probed((0.01, 0.02), taken_at="1"), probed((0.008, 0.02), taken_at="2")
        store.add_all([early, late])
        store.keep_quiet_ms("abc", (0.008, 0.02))
        first, second = store.measurements()
        assert first.latency_ms == second.latency_ms == late.latency_ms != early.latency_ms
        assert [item.latency_ms for item in store.measurements(as_taken=True)] == [early.latency_ms, late.latency_ms]
        assert store.labels(platform=LOCAL)[0].latency_ms == pytest.approx(late.latency_ms, rel=1e-4)


class TestExchange:
    @pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
    def test_an_export_imports_into_an_equal_store_once(self, store: Store, tmp_path: Path, name: str) -> None:
        records = [
            measurement(1),
            measurement(2, platform=PHONE),
            failed("no", LOCAL, Reference("vgg", {"depth": 1}), "network"),
        ]
        store.add_all(records)
        assert store.export(tmp_path / name, platform=PHONE) == 1
        assert store.export(tmp_path / name) == 3
        with Store(tmp_path / "other.sqlite") as other:
            assert other.add_all(jsonlines.read(tmp_path / name)) == 3
            assert other.add_all(jsonlines.read(tmp_path / name)) == 0
            assert list(other.measurements(failed=True)) == list(store.measurements(failed=True))

    def test_a_bad_line_imports_nothing(self, store: Store, tmp_path: Path) -> None:
        store.add(measurement(1))
        path = tmp_path / "all.jsonl"
        store.export(path)
        path.write_text(path.read_text() + "{}\n")
        with Store(tmp_path / "other.sqlite") as other:
            with pytest.raises(DatasetError, match=r"all\.jsonl:2"):
                other.add_all(jsonlines.read(path))
            assert len(other) == 0


class TestSharing:
    def test_a_killed_writer_loses_nothing_it_committed(self, tmp_path: Path) -> None:
        path = tmp_path / "store.sqlite"
        script = (
            "import os, sys\n"
            "from latcast.datasets.store import Store\n"
            "from latcast.records import Measurement, Reference\n"
            "store = Store(sys.argv[1])\n"
            "for n in range(3):\n"
            "    reference = Reference('resnet', {'depth': n})\n"
            f"    store.add(Measurement('{LOCAL}', reference, runs_ms=(1.0,), rounds=(0,), latency_ms=1.0))\n"
            "os.kill(os.getpid(), 9)\n"
        )
        finished = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
        assert finished.returncode == -9
        with Store(path) as store:
            assert len(store) == 3

    def test_a_reader_sees_commits_while_another_writes(self, store: Store, tmp_path: Path) -> None:
        store.add_all([measurement(number) for number in range(3)])
        with Store(tmp_path / "store.sqlite") as reader:
            rows = reader.measurements()
            next(rows)
            store.add(measurement(3))
            assert len(reader) == 4
            rows.close()

    def test_a_store_that_is_held_open_copies_its_log_into_the_file_once(self, store: Store, tmp_path: Path) -> None:
        log = tmp_path / "store.sqlite-wal"
        store.add(measurement(0))
        assert not log.exists()

        with store.held_open():
            store.add(measurement(1))
            kept = log.stat().st_size
            store.add(measurement(2))
            assert log.stat().st_size > kept > 0
            with Store(tmp_path / "store.sqlite") as reader:
                assert len(reader) == 3

        assert not log.exists()
        assert len(store) == 3

    def test_several_writers_wait_for_each_other(self, tmp_path: Path) -> None:
        path = tmp_path / "store.sqlite"

        def write(first: int) -> int:
            with Store(path) as own:
                return sum(own.add(measurement(first + number)) for number in range(20))

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(write, range(0, 80, 20))) == [20] * 4
        with Store(path) as store:
            assert len(store) == 80


class TestOpening:
    def test_a_file_of_another_format_and_a_missing_folder_are_named(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("these are notes, " * 100)
        with pytest.raises(DatasetError, match=r"notes\.txt: .*not a database"):
            Store(path)
        with pytest.raises(DatasetError, match="there is no folder"):
            Store(tmp_path / "missing" / "store.sqlite")

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("nosuch://host/db", "nosuch"),
            ("sqlite://://x", "cannot open the store"),
        ],
    )
    def test_an_unusable_url_is_refused(self, url: str, expected: str) -> None:
        with pytest.raises(DatasetError, match=expected):
            Store(url)

    def test_a_missing_driver_is_named_with_its_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)

        with pytest.raises(MissingExtraError, match=r"database postgresql needs .*pip install 'latcast\[server\]'"):
            Store("postgresql+psycopg://host/db")

    def test_the_tables_compile_for_postgresql(self) -> None:
        statements = {
            table.name: str(CreateTable(table).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
            for table in Base.metadata.sorted_tables
        }
        assert '"references"' in statements["references"]
        assert "runs JSON NOT NULL" in statements["measurements"]
        assert set(statements) == {
            "properties", "quiet_times", "platforms", "environments", "references", "measurements",
        }  # fmt: skip


class TestAStrangersFile:
    """What latcast did not write is refused with the store and the record, or read: never believed."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "stranger.sqlite") as made:
            made.add(measurement())
        return tmp_path / "stranger.sqlite"

    @staticmethod
    def execute(file: Path, statement: str) -> None:
        connection = sqlite3.connect(file)
        connection.execute(statement)
        connection.commit()
        connection.close()

    @pytest.mark.parametrize(
        ("statement", "reason"),
        [
            ("UPDATE measurements SET latency_ms = -1.0", "latency_ms is -1.0 and error is null"),
            ("UPDATE \"references\" SET parameters = '[1]'", "parameters is a list"),
            ("UPDATE environments SET content = '3'", "its runs or its environment are not an object"),
            ("UPDATE measurements SET taken_at = x'ff'", "taken_at is a bytes"),
            ("UPDATE measurements SET runs = '{'", "not JSON"),
            ("UPDATE measurements SET runs = '{\"runs_ms\": [NaN]}'", "found NaN, expected a finite number"),
            ('UPDATE measurements SET runs = \'{"platform": "x"}\'', "runs with a field 'platform'"),
            ("UPDATE measurements SET executed = '[3]'", "a int where an object was expected"),
        ],
    )
    def test_a_malformed_record_is_named(self, statement: str, reason: str, file: Path) -> None:
        self.execute(file, statement)

        with Store(file) as opened, pytest.raises(DatasetError) as problem:
            list(opened.measurements(failed=True))

        assert reason in str(problem.value)

    @pytest.mark.parametrize("value", ["'[-1.0]'", "'{}'"])
    def test_a_malformed_quiet_time_is_refused(self, value: str, file: Path) -> None:
        self.execute(file, f"INSERT INTO quiet_times VALUES ('abc', {value})")

        with Store(file) as opened, pytest.raises(DatasetError):
            list(opened.measurements())

    def test_a_malformed_platform_is_refused(self, file: Path) -> None:
        self.execute(file, "INSERT INTO platforms VALUES (x'1b', 'a', 'b', 'c', 'd', 'e')")

        with Store(file) as opened, pytest.raises(DatasetError, match="is not a platform id"):
            opened.platforms()

    @pytest.mark.parametrize(
        ("statement", "reason"),
        [
            ("UPDATE properties SET value = 'two'", "has schema"),
            ("UPDATE properties SET value = '2'", "has schema"),
            ("CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n", "computes"),
            ("CREATE TRIGGER t AFTER INSERT ON properties BEGIN DELETE FROM measurements; END", "computes"),
            ("CREATE VIRTUAL TABLE v USING fts5(x)", "computes"),
            ("ALTER TABLE measurements ADD COLUMN large TEXT AS (hex(zeroblob(100000000)))", "computes"),
        ],
    )
    def test_a_newer_store_and_one_that_computes_what_is_read_are_refused(self, statement: str, reason: str, file: Path) -> None:
        self.execute(file, statement)

        with pytest.raises(DatasetError, match=reason):
            Store(file)

    def test_a_damaged_database_is_refused(self, file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[100:4096] = bytes(3996)
        file.write_bytes(data)

        with pytest.raises(DatasetError), Store(file) as opened:
            list(opened.measurements())
