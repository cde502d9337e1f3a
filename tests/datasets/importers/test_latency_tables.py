"""Latency tables of one schema: records, platform ids, what is left out, and what is refused."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from latcast.datasets import jsonlines
from latcast.datasets.importers import IMPORTERS, Imported
from latcast.datasets.importers.latency_tables import (
    PLATFORM,
    UNIT_KINDS,
    Cells,
    LatencyTables,
    in_own_columns,
    published_platform,
)
from latcast.datasets.store import Store
from latcast.errors import DatasetError
from latcast.records import Measurement, Platform
from latcast.spaces.measured_only import can_build

SETS = [
    name for name in IMPORTERS.names() if isinstance(IMPORTERS.get(name), LatencyTables) and not IMPORTERS.get(name).rewritten
]

ROW: Mapping[str, str] = {
    "network": "mobilenet_v1_0.5_160", "weights_or_input": "160", "device": "Raspberry Pi 4 (1.5 GHz)", "chip": "BCM2711",
    "core_or_unit": "cpu", "threads": "", "runtime": "tflite-2.4.1", "backend": "ruy", "precision": "fp32", "batch": "1",
    "latency_ms": "12.5", "statistic": "median", "repeats_of": "", "source_file": "log.txt", "source_commit": "f7759ba",
    "p90_ms": "13", "run": "v1.0/open/run_1",
}  # fmt: skip


def write(file: Path, rows: list[Mapping[str, str]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def folder(tmp_path: Path, *rows: Mapping[str, str], unstable: str = "", repeat: str = "0.4") -> Path:
    """A dataset whose platforms are those of the rows."""
    facts = {"networks": "1", "rows": "2", "repeat_pct": repeat, "unstable": unstable, "note": "cores 4; 1500 MHz"}
    known = {tuple(row[name] for name in PLATFORM): {name: row[name] for name in PLATFORM} | facts for row in rows}
    write(tmp_path / "platforms.csv", list(known.values()))
    write(tmp_path / "latency_ms.csv", list(rows))
    return tmp_path


def read(name: str, place: Path) -> Imported:
    return IMPORTERS.get(name).read(place)


def test_a_row_becomes_a_record_with_its_platform_network_and_origin(tmp_path: Path) -> None:
    found = read("mlperf", folder(tmp_path, ROW))

    (record,) = found.measurements
    assert record.platform == "raspberry-pi-4-1.5-ghz/tflite-2.4.1/cpu+ruy/fp32"
    assert (record.reference.space, record.reference.parameters["resolution"]) == ("mobilenet_v1", 160)
    assert (record.latency_ms, record.statistic) == (12.5, "median of the published runs")
    source = IMPORTERS.get("mlperf").title.rpartition(";")[0]
    assert record.environment == {
        "dataset": {"name": "mlperf", "source": source, "licence": "Apache-2.0", "commit": "f7759ba"},
        "device": {"name": "Raspberry Pi 4 (1.5 GHz)", "note": "cores 4; 1500 MHz"},
        "chip": "BCM2711", "unit_kind": "cpu", "published": {name: ROW[name] for name in PLATFORM[2:]}, "repeat_percent": 0.4,
        "moment": {
            "row": "latency_ms.csv:2", "source_file": "log.txt", "input": "160", "p90_ms": 13.0, "run": "v1.0/open/run_1",
        },
    }  # fmt: skip
    assert Measurement.from_json(record.to_json()) == record
    counts = {name: (each.rows, each.records) for name, each in found.files.items()}
    assert counts == {"platforms.csv": (1, 0), "latency_ms.csv": (1, 1)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"core_or_unit": "cpu-big", "threads": "1", "backend": "arm-v8"}, "cpu1+big+arm-v8/fp32"),
        ({"core_or_unit": "npu-1core", "runtime": "rknpu1", "backend": "rknn", "precision": "int8"}, "npu+1core+rknn/int8"),
        ({"core_or_unit": "gpu", "backend": "opencl", "precision": ""}, "gpu+opencl/unstated"),
        ({"core_or_unit": "gpu", "backend": "tensorrt-8.0.3.4", "batch": "4"}, "gpu+tensorrt-8.0.3.4+b4/fp32"),
        ({"core_or_unit": "npu", "backend": "onnx", "precision": "w8a16_mixed_fp16"}, "npu+onnx+mixed_fp16/w8a16"),
        ({"core_or_unit": "npu", "backend": "onnx", "precision": "w8a8_mixed_int16"}, "npu+onnx+mixed_int16/int8"),
    ],
)
def test_units_have_their_qualifiers(changes: Mapping[str, str], expected: str) -> None:
    assert published_platform({**ROW, **changes}).id.split("/", 2)[2] == expected


@pytest.mark.parametrize(
    ("runtime", "backend", "expected"),
    [
        ("tflite", "tflite", "tflite-unstated/cpu/fp32"), ("tflite-master", "xnnpack", "tflite-master/cpu+xnnpack/fp32"),
        ("paddle-lite", "arm", "paddle-lite-unstated/cpu+arm/fp32"),
        ("paddle-lite-2.13", "arm-v7", "paddle-lite-2.13/cpu+arm-v7/fp32"),
        ("tensorrt-jetpack4.6", "tensorrt", "tensorrt-jetpack4.6/cpu/fp32"), ("drp-ai", "drp-ai", "drp-ai-unstated/cpu/fp32"),
        ("rknpu1", "rknn", "rknpu1-unstated/cpu+rknn/fp32"), ("torch-2.4.0", "dynamo", "pytorch-2.4.0/cpu+dynamo/fp32"),
        ("onnxruntime-1.23.0+qairt-2.37.1", "onnx", "onnxruntime-1.23.0/cpu+onnx+qairt-2.37.1/fp32"),
    ],
)  # fmt: skip
def test_runtimes_have_a_version_or_none(runtime: str, backend: str, expected: str) -> None:
    platform = published_platform({**ROW, "runtime": runtime, "backend": backend})
    assert platform.id.partition("/")[2] == expected
    assert Platform.parse(platform.id) == platform


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"latency_ms": "0"}, "latency_ms is 0"), ({"network": ""}, "the network has no name"),
        ({"statistic": "best"}, "the statistic is 'best'; expected mean"), ({"core_or_unit": "tpu"}, "the unit is 'tpu'"),
        ({"precision": "fp8"}, "the precision is 'fp8'"), ({"threads": "1.5"}, "the number of threads is 1.5"),
        ({"batch": ""}, "the batch is ''"), ({"device": "…"}, "is not a platform id"),
        ({"device": "Raspberry Pi 4, 1.5 GHz"}, r"would both be raspberry-pi-4-1\.5-ghz/"),
    ],
)  # fmt: skip
def test_a_malformed_row_is_refused_with_its_line(tmp_path: Path, changes: Mapping[str, str], reason: str) -> None:
    place = folder(tmp_path, ROW, {**ROW, **changes})

    with pytest.raises(DatasetError, match=rf"latency_ms\.csv:3: .*{reason}"):
        read("mlperf", place)
    found = IMPORTERS.get("mlperf").read(place, strict=False)
    assert [(row.file, row.line) for row in found.refused] == [("latency_ms.csv", 3)]
    assert len(found.measurements) == 1


def test_a_platform_that_is_not_listed_once_is_refused(tmp_path: Path) -> None:
    place = folder(tmp_path, ROW)
    write(place / "latency_ms.csv", [ROW, {**ROW, "threads": "2"}])
    with pytest.raises(DatasetError, match=r"latency_ms\.csv:3: the platform '.*' is not in platforms\.csv"):
        read("mlperf", place)
    lines = (place / "platforms.csv").read_text()
    (place / "platforms.csv").write_text(lines + lines.splitlines()[1] + "\n")
    with pytest.raises(DatasetError, match=r"platforms\.csv:3: the platform '.*' stands there twice"):
        read("mlperf", place)


def test_letters_case_of_columns_does_not_matter(tmp_path: Path) -> None:
    place = folder(tmp_path, ROW)
    for file in place.iterdir():
        header, rest = file.read_text().split("\n", 1)
        file.write_text(f"{header.upper()}\n{rest}")
    assert len(read("mlperf", place).measurements) == 1


def test_unstable_platforms_are_left_out_and_named(tmp_path: Path) -> None:
    found = read("mlperf", folder(tmp_path, ROW, unstable="yes", repeat="6.3"))
    assert not found.measurements
    assert any("1 rows are left out whose platform is unstable" in note and "raspberry-pi-4" in note for note in found.notes)


def test_repeated_runs_are_separate_records(tmp_path: Path) -> None:
    runs = [{**ROW, "repeats_of": "afbd19cd", "run": run} for run in ("run_1", "ranging")]
    found = read("mlperf", folder(tmp_path, *runs))
    moments = [record.environment["moment"] for record in found.measurements]
    assert [(moment["repeats_of"], moment["run"]) for moment in moments] == [("afbd19cd", "run_1"), ("afbd19cd", "ranging")]
    assert any(note.startswith("2 records are runs") for note in found.notes)
    # Those without a name are separate by their row.
    unnamed = {name: value for name, value in ROW.items() if name != "run"} | {"repeats_of": "3fa72d88"}
    for each in (found, read("mlperf", folder(tmp_path, unnamed, unnamed))):
        with Store(":memory:") as store:
            assert store.add_all(each.measurements) == 2


@pytest.mark.parametrize(
    ("one", "eight", "kept"), [("240", "240", 0), ("100", "104", 0), ("60", "129", 1), ("2", "", 0), ("2", "0", 0)]
)
def test_the_interval_of_a_stream_is_not_a_latency(tmp_path: Path, one: str, eight: str, kept: int) -> None:
    row = {**ROW, "statistic": "fps-inverse", "fps_batch1": one, "fps_batch8": eight, "params_m": "1", "ops_g": "1"}
    found = read("hailo", folder(tmp_path, row))
    assert len(found.measurements) == kept
    assert any("a pipeline, whose interval is not a latency" in note for note in found.notes) == (not kept)


@pytest.mark.parametrize(
    ("file", "column", "name"),
    [("latency_ms.csv", "fps_batch8", "hailo"), ("platforms.csv", "unstable", "mlperf"), ("latency_ms.csv", "chip", "mlperf")],
)
def test_a_column_that_is_not_there_is_named(tmp_path: Path, file: str, column: str, name: str) -> None:
    place = folder(tmp_path, {**ROW, "fps_batch1": "60", "fps_batch8": "129"})
    (place / file).write_text((place / file).read_text().replace(column, "other", 1))
    with pytest.raises(DatasetError, match=rf"{file}:1: .*{column}"):
        read(name, place)


def test_without_the_platforms_nothing_is_known_of_stability(tmp_path: Path) -> None:
    place = folder(tmp_path, ROW)
    (place / "platforms.csv").unlink()
    found = read("mlperf", place)
    assert (len(found.measurements), found.absent) == (1, ("platforms.csv",))
    assert any("which platforms are unstable is not known" in note for note in found.notes)
    (place / "latency_ms.csv").unlink()
    with pytest.raises(DatasetError, match=r"holds none of latency_ms\.csv"):
        read("mlperf", place)


def test_timm_has_a_file_of_gpus_and_one_of_accuracies(tmp_path: Path) -> None:
    row = {**ROW, "network": "resnet50", "weights_or_input": "224", "gmacs": "4.11", "params_m": "25.56"}
    place = folder(tmp_path, row)
    platforms = [{name: row[name] for name in PLATFORM[:-1]} | {"repeat_pct": "", "unstable": "", "note": ""}]
    gpu = {**row, "core_or_unit": "gpu", "batch": "256"}
    platforms += [{**platforms[0], "core_or_unit": "gpu"}]
    write(place / "platforms.csv", platforms)
    write(place / "gpu_ms.csv", [gpu])
    write(
        place / "accuracy.csv",
        [{"network": "resnet50", "weights": "a1_in1k", "input": "224", "top1": "80.2", "top5": "95", "params_m": "1,014.45"}],
    )

    found = read("timm", place)

    assert [record.platform.split("/")[2] for record in found.measurements] == ["cpu+ruy", "gpu+ruy+b256"]
    assert {record.reference.name for record in found.measurements} == {"timm/resnet50"}
    assert all(record.environment["moment"]["top1_percent"] == {"a1_in1k": 80.2} for record in found.measurements)
    assert not found.absent


def test_figures_of_the_dataset_are_compared_with_the_networks(tmp_path: Path) -> None:
    facts = {"statistic": "fps-inverse", "fps_batch1": "60", "fps_batch8": "129"}
    right = {**ROW, **facts, "network": "resnet_v1_18", "weights_or_input": "224x224x3", "params_m": "11.68", "ops_g": "3.64"}
    wrong = {**right, "network": "mobilenet_v1", "params_m": "40", "ops_g": "1.14"}
    silent = {**right, "network": "vit_base", "params_m": "", "ops_g": "0"}
    importer = IMPORTERS.get("hailo")
    found = importer.check(importer.read(folder(tmp_path, right, wrong, silent)), lambda name: None)
    assert [each.name for each in found.figures] == ["resnet18", "mobilenet_v1"]
    assert [each.name for each in found.exceptions] == ["mobilenet_v1"]


@pytest.mark.parametrize(
    ("name", "records", "with_graph", "networks", "graphs", "platforms"),
    [
        ("mlperf", 4088, 4020, 54, 41, 103), ("timm", 9332, 0, 1343, 0, 92), ("paddle", 1714, 955, 132, 28, 224),
        ("netspresso", 187, 45, 16, 4, 15), ("ti", 44, 26, 20, 11, 4), ("aihub", 4721, 4287, 133, 109, 189),
        ("hailo", 592, 46, 188, 17, 5), ("rknn", 295, 7, 45, 1, 14),
    ],
)  # fmt: skip
def test_published_tables_are_read_whole(
    published_data: Path, tmp_path: Path, name: str, records: int, with_graph: int, networks: int, graphs: int, platforms: int
) -> None:
    found = read(name, published_data / name)

    references = {record.reference.key: record.reference for record in found.measurements}
    assert len(found.measurements) == records
    # Graphs are added to what comes with latcast from time to time.
    assert sum(can_build(record.reference) for record in found.measurements) >= with_graph
    assert len(references) == networks
    assert sum(can_build(each) for each in references.values()) >= graphs
    assert len({record.platform for record in found.measurements}) == platforms
    assert {record.environment["unit_kind"] for record in found.measurements} <= {"cpu", "gpu", "npu"}
    file = tmp_path / "records.jsonl.gz"
    assert jsonlines.write(file, found.measurements[:200]) == len(list(jsonlines.read(file))) == len(found.measurements[:200])


def columns_of(platform: Platform) -> Cells:
    """The columns that a platform id came from, but for the device, whose name is in the record's environment."""
    unit, *qualifiers = platform.unit.split("+")
    kind, threads = re.fullmatch(r"([a-z]+)(\d*)", unit).groups()  # type: ignore[union-attr]
    found = dict.fromkeys(("backend", "below", "mixed", "cores"), "") | {"batch": "1"}
    patterns = {"cores": r"big|1core", "below": r"qairt-.*", "mixed": r"mixed_.*", "batch": r"b\d+", "backend": r".*"}
    for each in qualifiers:
        column = next(name for name, pattern in patterns.items() if re.fullmatch(pattern, each))
        found[column] = each.removeprefix("b") if column == "batch" else each
    name = "torch" if platform.runtime == "pytorch" else platform.runtime
    runtime = name + ("" if platform.runtime_version == "unstated" else f"-{platform.runtime_version}")
    precision = "" if platform.precision == "unstated" else platform.precision
    return {
        "core_or_unit": kind + (f"-{found['cores']}" if found["cores"] else ""),
        "threads": threads,
        "runtime": runtime + (f"+{found['below']}" if found["below"] else ""),
        "backend": found["backend"] or name,
        "precision": (precision.replace("int8", "w8a8") + f"_{found['mixed']}") if found["mixed"] else precision,
        "batch": found["batch"],
    }


def test_published_platforms_have_ids_that_read_back_and_are_theirs_alone(published_data: Path) -> None:
    ids: dict[str, tuple[str, ...]] = {}
    for name in SETS:
        with (published_data / name / "platforms.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                cells = {"batch": "1", **row}
                platform = published_platform(cells)
                parts = tuple(cells[column] for column in PLATFORM)
                assert ids.setdefault(platform.id, parts) == parts
                assert columns_of(Platform.parse(platform.id)) == {column: cells[column] for column in PLATFORM[2:]}
                assert cells["core_or_unit"].partition("-")[0] in UNIT_KINDS
    assert len(ids) == 565


def test_a_row_in_its_origins_words_becomes_a_record_of_the_same_schema() -> None:
    row = {
        "source": "s", "device": "RZ/V2M EVK", "chip": "RZ/V2M", "unit": "npu", "runtime": "drp-ai-tvm v2.4.0",
        "precision": "fp16", "threads": "", "batch": "",
        "network": "ResNet18", "input": "224, 224", "latency_ms": "16.0", "statistic": "",
        "path": "owner/repository@a557552:docs/list.md", "licence": "Apache-2.0",
        "note": "Classification; from PyTorch, torchvision",
    }  # fmt: skip

    found = in_own_columns(row)

    assert published_platform(found).id == "rz-v2m-evk/drp-ai-tvm-2.4.0/npu/fp16"
    assert (found["network"], found["weights_or_input"], found["source_commit"]) == ("ResNet18 (PyTorch)", "224x224", "a557552")
    assert published_platform(in_own_columns(row | {"runtime": "tvm v2.4.0 / v2.5.0", "unit": "cpu4"})).id == (
        "rz-v2m-evk/tvm-unstated/cpu4/fp16"
    )
