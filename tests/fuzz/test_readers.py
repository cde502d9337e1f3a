"""Readers of measurements, sweeps, bundles and tools' output, given anything: they fail by one printable line only.

``LATCAST_FUZZ_CASES=20000 pytest tests/fuzz`` tries ten times as many cases as usual.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.datasets.importers import IMPORTERS
from latcast.datasets.importers.benchmark_tools import output_files, read_outputs
from latcast.datasets.opening import open_measurements
from latcast.datasets.store import Store
from latcast.devices import device_model_file
from latcast.devices.device_model_file import SHIPPED, load_device_model
from latcast.errors import BundleError, LatcastError
from latcast.forecast import predict
from latcast.hub.plausibility import implausibility
from latcast.hub.uploads import parse_upload
from latcast.kernels.rules import load_rules
from latcast.measure.labels import label_error
from latcast.measure.statistics import stability_warnings
from latcast.predictors.bundle import load_bundle
from latcast.predictors.bundle_index import SHIPPED_FOLDER
from latcast.reading import parse_tensors, read_bytes
from latcast.records import Measurement, Platform
from latcast.report.check import read_budget
from latcast.search.objective import table_objective
from latcast.spaces.accuracies import read_accuracies
from latcast.spaces.nas.supernet import SUPERNETS
from latcast.workgroups.audit import audit, summarise
from latcast.workgroups.devices import load_profile
from latcast.workgroups.exporting import chosen_sizes
from latcast.workgroups.kernel_tuner_cache import read_cache
from latcast.workgroups.program_cache import read_program_cache
from tests.datasets.importers.usc.small_dataset import write_dataset
from tests.fuzz.mutations import case_count, chance_of, mutated, mutated_value, outcome, try_cases
from tests.fuzz.structured import changed_gzip, changed_table, changed_toml, changed_zip
from tests.workgroups.program_caches import program_cache
from tests.workgroups.test_kernel_tuner_cache import cache

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
RECORDED = TESTS / "cli" / "data" / "onnxruntime.jsonl.gz"
TOOLS = TESTS / "datasets" / "importers" / "benchmark_tools" / "recorded"
PLATFORMS = {
    "benchmark_app": "openvino-2026.4/cpu1", "benchncnn.txt": "ncnn-1.0/cpu4", "benchncnn_param": "ncnn-1.0/gpu",
    "onnxruntime_perf_test": "onnxruntime-1.31/cpu1", "tflite.txt": "tflite-2.10/cpu1", "tflite_profile.txt": "tflite-2.10/cpu4",
    "tflite_profile_xnnpack": "tflite-2.10/cpu1",
}  # fmt: skip
"""Where each recorded output can be from, by the beginning of its name."""

ANNOUNCED = b"# latcast network=squeezenet1_1 device=phone threads=1 precision=fp32\n"


def recorded_lines(count: int = 4) -> list[dict[str, Any]]:
    """Records as a campaign wrote them, among them one with executed kernels."""
    with gzip.open(RECORDED, "rt") as file:
        lines = [json.loads(line) for line in file]
    lines.sort(key=lambda line: (not line["executed"], len(json.dumps(line))))
    return [line for line in lines if line["executed"]][:1] + [line for line in lines if not line["executed"]][: count - 1]


def lines_bytes(lines: list[Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def used(path: Path) -> None:
    """Reads measurements as every command does: all of them, their labels, and what is doubtful about them."""
    with open_measurements(path) as store:
        for platform in store.platforms():
            labels = store.labels(platform=platform)
            if any(label.halves_ms for label in labels):
                label_error(labels)
        for measurement in store.measurements(failed=True):
            stability_warnings(measurement)
            json.dumps(measurement.to_json(), allow_nan=False)
        store.references()


def changed(values: list[Any], chance: random.Random, written: Callable[[Any], bytes]) -> Iterator[bytes]:
    """Half of the cases with values changed, half with bytes."""
    while True:
        value = chance.choice(values)
        yield written(mutated_value(value, chance)) if chance.random() < 0.5 else mutated(written(value), chance)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_json_lines(tmp_path: Path) -> None:
    chance = chance_of("lines")
    lines = recorded_lines()
    cases = changed([lines], chance, lines_bytes)

    found = try_cases(cases, used, [tmp_path / "x.jsonl", tmp_path / "y"], sound=lines_bytes(lines), count=case_count(0.15))

    assert found["refused"] > 0


def test_packed_json_lines(tmp_path: Path) -> None:
    chance = chance_of("packed lines")
    plain = lines_bytes(recorded_lines(2))
    packed = gzip.compress(plain)
    inner = changed([recorded_lines(2)], chance, lines_bytes)
    cases = (changed_gzip(plain, chance) if chance.random() < 0.6 else gzip.compress(next(inner)) for _ in iter(int, 1))

    found = try_cases(cases, used, [tmp_path / "x.jsonl.gz"], sound=packed, count=case_count(0.06))

    assert found["refused"] > 0


def store_cases(folder: Path, chance: random.Random) -> Iterator[bytes]:
    """A store, and then the same with bytes changed, and with values put where others belong."""
    good = folder / "good.sqlite"
    with Store(good) as store:
        store.add_all(Measurement.from_json(line) for line in recorded_lines(6))
        store.keep_quiet_ms("abc", (0.01, 0.02))
    data = good.read_bytes()
    connection = sqlite3.connect(good)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = [(table, row[1]) for table in tables for row in connection.execute(f'PRAGMA table_info("{table}")')]
    connection.close()
    odd = [None, -1, 0, 2**62, -1.5, 9e999, "", "x", "[]", "{}", "[1]", "null", '{"runs_ms": [1e999]}', "\x1b[31m", b"\xff\x00"]
    yield data
    while True:
        if chance.random() < 0.4:
            yield mutated(data, chance)
            continue
        changing = folder / "changing.sqlite"
        changing.write_bytes(data)
        with sqlite3.connect(changing) as connection:
            for _ in range(chance.choice((1, 1, 2))):
                table, column = chance.choice(columns)
                value: Any = chance.choice(odd)
                [stored] = connection.execute(f'SELECT "{column}" FROM "{table}" LIMIT 1').fetchone() or [None]
                if isinstance(stored, str) and stored[:1] in "[{" and chance.random() < 0.7:
                    value = json.dumps(mutated_value(json.loads(stored), chance))
                connection.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ?', (value,))
        connection.close()
        yield changing.read_bytes()


def test_stores(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"

    def opened(path: Path) -> None:
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        used(path)

    cases = store_cases(tmp_path, chance_of("stores"))
    found = try_cases(cases, opened, [path], sound=next(cases), count=case_count(0.08))

    assert found["refused"] > 0


def replayed(path: Path) -> None:
    found = [audit(sweep) for sweep in read_cache(path)]
    json.dumps([item.to_json() for item in found], allow_nan=False)
    summarise("x", found)


def test_sweeps(tmp_path: Path) -> None:
    chance = chance_of("sweeps")
    own = {
        "descriptor": {"name": "a", "kind": "conv"}, "grid": [4096, 100], "variant": {"a": 1},
        "device": {"name": "a", "title": "A", "max_work_group_size": 256, "max_x": 256, "max_y": 256, "max_z": 64},
    }  # fmt: skip
    cases = changed([cache(), cache(latcast=own)], chance, as_json)

    found = try_cases(cases, replayed, [tmp_path / "x.json"], sound=as_json(cache()), count=case_count(0.08))
    assert found["refused"] > 0
    packed = (
        gzip.compress(next(cases)) if chance.random() < 0.5 else changed_gzip(as_json(cache()), chance) for _ in iter(int, 1)
    )
    sound = gzip.compress(as_json(cache()))
    found = try_cases(packed, replayed, [tmp_path / "x.json.gz"], sound=sound, count=case_count(0.02))
    assert found["refused"] > 0


def test_program_caches(tmp_path: Path) -> None:
    chance = chance_of("program caches")
    sound = program_cache()

    def read(path: Path) -> None:
        found = read_program_cache(path)
        for kernel in found.kernels:
            if kernel.kind is not None:
                chosen_sizes(replace(found, kernels=(kernel,)), load_profile("mi9"), "kfast")
        found.resized({})

    cases = (mutated(sound, chance) for _ in iter(int, 1))
    found = try_cases(cases, read, [tmp_path / "x_mldrift_program_cache.bin"], sound=sound, count=case_count(0.05))
    assert found["refused"] > 0


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest shipped bundle, as a folder."""
    folder = tmp_path_factory.mktemp("shipped") / "bundle"
    shutil.unpack_archive(min(SHIPPED_FOLDER.glob("*.zip"), key=lambda file: file.stat().st_size), folder)
    return folder


def zipped(files: Mapping[str, bytes], path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path.read_bytes()


def test_bundles(bundle: Path, tmp_path: Path) -> None:
    chance = chance_of("bundles")
    files = {file.relative_to(bundle).as_posix(): file.read_bytes() for file in sorted(bundle.rglob("*")) if file.is_file()}
    documents = [name for name in files if name.endswith(".json")]

    whole = zipped(files, tmp_path / "whole.zip")

    def cases() -> Iterator[bytes]:
        while True:
            if chance.random() < 0.4:
                yield changed_zip(whole, chance)
            elif chance.random() < 0.6:
                name = chance.choice(documents)
                value = json.dumps(mutated_value(json.loads(files[name]), chance)).encode()
                yield zipped({**files, name: value}, tmp_path / "changed.zip")
            else:
                name = chance.choice(list(files))
                yield zipped({**files, name: mutated(files[name], chance)}, tmp_path / "changed.zip")

    def read(path: Path) -> None:
        predict("resnet18", load_bundle(path))

    found = try_cases(cases(), read, [tmp_path / "x.zip"], sound=whole, count=case_count(0.06))

    assert found["refused"] > 0


def test_tensors(bundle: Path, tmp_path: Path) -> None:
    chance = chance_of("tensors")
    seeds = [file.read_bytes() for file in sorted((bundle / "kernels").iterdir())]

    def cases() -> Iterator[bytes]:
        while True:
            data = chance.choice(seeds)
            length = int.from_bytes(data[:8], "little")
            if chance.random() < 0.5:
                yield mutated(data, chance)
                continue
            header = json.dumps(mutated_value(json.loads(data[8 : 8 + length]), chance)).encode()
            yield len(header).to_bytes(8, "little") + header + data[8 + length :]

    def read(path: Path) -> None:
        found, _ = parse_tensors(read_bytes(path, error=BundleError), error=BundleError)
        for array in found.values():
            np.asarray(array, dtype=np.float64).sum()

    path = tmp_path / "x.safetensors"
    found = try_cases(cases(), read, [path], sound=seeds[0], count=case_count(0.06))
    assert found["refused"] > 0
    seeds = [(Path(device_model_file.__file__).parent / "shipped" / SHIPPED).read_bytes()]
    found = try_cases(cases(), load_device_model, [path], sound=seeds[0], count=case_count(0.01))
    assert found["refused"] > 0


def test_rules(bundle: Path, tmp_path: Path) -> None:
    rules = json.loads((bundle / "fusion_rules.json").read_text())
    cases = changed([rules], chance_of("rules"), as_json)

    found = try_cases(cases, load_rules, [tmp_path / "x.json"], sound=as_json(rules), count=case_count(0.02))

    assert found["refused"] > 0


@pytest.mark.parametrize("name", sorted(file.name for file in TOOLS.iterdir()))
def test_outputs_of_tools(name: str, tmp_path: Path) -> None:
    chance = chance_of(name)
    data = (TOOLS / name).read_bytes()
    where = next(text for beginning, text in PLATFORMS.items() if name.startswith(beginning))
    platform = Platform.parse(f"phone/{where}/fp32")

    def read(path: Path) -> None:
        said = None if path.read_bytes().startswith(b"# latcast") else platform
        with_store(read_outputs(output_files([path]), platform=said).measurements)

    cases = (mutated(chance.choice((data, ANNOUNCED + data)), chance) for _ in iter(int, 1))
    found = try_cases(cases, read, [tmp_path / "squeezenet1_1.txt"], sound=ANNOUNCED + data, count=case_count(0.008))

    assert found["read"] > 0
    assert found["refused"] > 0


def test_latencies_written_down(tmp_path: Path) -> None:
    chance = chance_of("latencies")
    data = b"model,latency_ms\nresnet18,20.5\nsqueezenet1_1,4.25\n"
    platform = Platform.parse("phone/tflite-2.10/cpu1/fp32")

    def read(path: Path) -> None:
        with_store(read_outputs(output_files([path]), platform=platform).measurements)

    cases = (changed_table(data, chance) for _ in iter(int, 1))
    found = try_cases(cases, read, [tmp_path / "x.csv"], sound=data, count=case_count(0.05))

    assert found["refused"] > 0


def test_tables_of_people(tmp_path: Path) -> None:
    chance = chance_of("tables")
    space = SUPERNETS.get("nas_bench_201")
    keys = space.decode(np.zeros(len(space.choices), dtype=np.int64))
    row = [json.dumps(value).replace('"', '""') for value in keys.values()]
    members = ",".join([*keys, "accuracy"]) + "\n" + ",".join(f'"{cell}"' for cell in row) + ",70\n"
    for sound, read in (
        (b"model,accuracy\nresnet18,69.8\nresnet34,73.3\n", read_accuracies),
        (members.encode(), lambda path: table_objective(path, space)),
    ):
        cases = (changed_table(sound, chance) for _ in iter(int, 1))
        found = try_cases(cases, read, [tmp_path / "x.csv"], sound=sound, count=case_count(0.05))

        assert found["refused"] > 0


def test_budgets_and_profiles(tmp_path: Path) -> None:
    chance = chance_of("toml")
    budget = (
        b'[tiers.a]\nplatforms = ["pixel4/*"]\nmodels = ["*"]\nmax_ms = 20\n\n[tiers.b]\nplatforms = "x"\nmax_memory_mb = 2.5\n'
    )
    profile = b'title = "A"\nmax_work_group_size = 256\nmax_x = 256\nmax_y = 256\nmax_z = 64\ncompute_units = 4\n'
    for sound, read in ((budget, read_budget), (profile, load_profile)):
        cases = (changed_toml(sound, chance) for _ in iter(int, 1))
        found = try_cases(cases, read, [tmp_path / "x.toml"], sound=sound, count=case_count(0.1))

        assert found["refused"] > 0


def with_store(measurements: Any) -> None:
    """What an import does with what it read."""
    with Store(":memory:") as store:
        store.add_all(measurements)
        list(store.measurements(failed=True))


def small_tables(source: Path, target: Path) -> None:
    """The published files, of tables their first rows alone."""
    target.mkdir()
    for file in sorted(source.iterdir()):
        if file.is_file() and file.stat().st_size < 10_000:
            shutil.copy(file, target)
        elif file.suffix in (".csv", ".txt"):
            with file.open("rb") as stream:
                (target / file.name).write_bytes(b"".join(stream.readline() for _ in range(12)))
        elif file.suffix == ".json" and file.stat().st_size < 50_000_000:
            found = json.loads(file.read_text())
            (target / file.name).write_text(json.dumps(dict(list(found.items())[:12]) if isinstance(found, dict) else found))


@pytest.mark.parametrize("name", IMPORTERS.names())
def test_published_tables(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / name
    if name == "usc":
        write_dataset(folder)
    else:
        small_tables(request.getfixturevalue("published_data") / name, folder)
    chance = chance_of(name)
    files = sorted(file for file in folder.iterdir() if file.is_file())
    originals = {file: file.read_bytes() for file in files}
    changing = files[0]

    def read(path: Path) -> None:
        for file in files:
            file.write_bytes(path.read_bytes() if file == changing else originals[file])
        with_store(IMPORTERS.get(name).read(folder, strict=chance.random() < 0.5).measurements)

    def cases() -> Iterator[bytes]:
        nonlocal changing
        while True:
            changing = chance.choice(files)
            yield mutated(originals[changing], chance)

    found = try_cases(cases(), read, [tmp_path / "case"], sound=originals[changing], count=case_count(0.01))

    assert found["read"] > 0


def uploaded(content: bytes) -> None:
    from datetime import datetime, timezone

    for measurement in parse_upload(content):
        implausibility(measurement, datetime(2026, 6, 1, tzinfo=timezone.utc))
        json.dumps(measurement.to_json(), allow_nan=False)


def test_uploads(tmp_path: Path) -> None:
    lines = [{**line, "platform": "phone/onnxruntime-1.31/cpu1/fp32"} for line in recorded_lines(2)]
    cases = changed([lines], chance_of("uploads"), lines_bytes)

    path = tmp_path / "x"
    found = try_cases(cases, lambda path: uploaded(path.read_bytes()), [path], sound=lines_bytes(lines), count=case_count(0.07))

    assert found["refused"] > 0


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = tuple(recorded_lines(1)[0])


@settings(max_examples=case_count(0.02))
@given(st.dictionaries(st.sampled_from(tuple(cache())), JSON_VALUES, min_size=1, max_size=3))
def test_sweeps_with_any_values(tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "cache.json"
    path.write_text(json.dumps({**cache(), **changes}))

    assert outcome(lambda: replayed(path), str(changes)) in ("read", "refused")


def test_the_harness_fails_on_other_errors_and_empty_messages() -> None:
    with pytest.raises(AssertionError, match="KeyError escaped"):
        outcome(lambda: {}["x"], "case")
    with pytest.raises(AssertionError, match="0 characters"):
        outcome(lambda: (_ for _ in ()).throw(LatcastError("")), "case")
