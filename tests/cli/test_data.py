"""``latcast data import`` and ``latcast data check``, of published datasets and of what stock tools printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from latcast.datasets import jsonlines
from latcast.datasets.importers.benchmark_tools import KitManifest
from latcast.datasets.importers.benchmark_tools.manifest import KitNetwork
from latcast.datasets.store import Store
from latcast.graph.writers.onnx import to_onnx
from latcast.spaces.catalogue import build, model
from tests.cli.conftest import Latcast
from tests.datasets.importers.benchmark_tools.printed_profile import profiled
from tests.datasets.importers.usc.conftest import networks
from tests.datasets.importers.usc.small_dataset import write_dataset

__all__ = ["networks"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "usc")


def test_import_keeps_measurements_in_the_users_folder(latcast: Latcast, home: Path, folder: Path, networks: list[str]) -> None:
    found = latcast("data", "import", "usc", folder)

    assert found.code == 0
    assert found.out.splitlines()[-1] == f"6 measurements, 6 of them new, in {home / 'measurements' / 'usc.sqlite'}"
    assert "tflite_cnn_e2e.csv" in found.out
    assert "note: 1 operations of 1 networks on iphonexs/pytorch-2.0/gpu/fp16 are left out" in found.out
    with Store(home / "measurements" / "usc.sqlite") as store:
        records = {item.reference.name: item for item in store.measurements(platform="pixel4/tflite-2.10/gpu/fp16")}
    [kernel] = records["net10"].executed
    assert kernel.nodes == ("conv_0", "relu_0")
    assert kernel.configuration["output_channels"] == 4


def test_importing_again_adds_nothing(latcast: Latcast, folder: Path, tmp_path: Path, networks: list[str]) -> None:
    store = tmp_path / "usc.sqlite"
    latcast("data", "import", "usc", folder, "--store", store)

    found = latcast("data", "import", "usc", folder, "--store", store, "--json").json

    assert (found["measurements"], found["added"], found["networks"], found["platforms"]) == (6, 0, 3, 4)
    assert found["executed_kernels"] == 2
    assert found["files"][0] == {"name": "tflite_cnn_ops_gpu.csv", "rows": 2, "records": 2, "missing": 0}
    assert found["absent"] == ["tflite_transformer_e2e.csv", "torch_transformer_e2e.csv", "torch_nas_e2e.csv"]


def test_import_into_a_file_without_building_networks(
    latcast: Latcast, folder: Path, tmp_path: Path, networks: list[str]
) -> None:
    output = tmp_path / "usc.jsonl.gz"

    assert latcast("data", "import", "usc", folder, "--output", output, "--no-nodes").code == 0

    records = list(jsonlines.read(output))
    assert len(records) == 6
    assert networks == []
    assert all(kernel.nodes == () for record in records for kernel in record.executed)


def test_two_places_to_import_to_are_one_too_many(latcast: Latcast, folder: Path) -> None:
    found = latcast("data", "import", "usc", folder, "--store", "a.sqlite", "--output", "b.jsonl")
    assert found.code == 2
    assert "exclude each other" in found.err


@pytest.mark.parametrize("arguments", [("import", "uscx", "."), ("check", "usc", "nowhere")])
def test_an_unknown_dataset_or_folder_is_a_wrong_call(latcast: Latcast, arguments: tuple[str, ...]) -> None:
    assert latcast("data", *arguments).code == 2


def test_check_lists_files_and_networks(latcast: Latcast, folder: Path, networks: list[str]) -> None:
    found = latcast("data", "check", "usc", folder)

    assert found.code == 0
    assert "1 networks can be built here" in found.out
    assert "more than 5 % off: none" in found.out
    assert "1 cannot be built (net18): pytorchcv has no network called 'net18'" in found.out
    assert "absent" in found.out


def test_check_fails_on_a_malformed_row_and_reads_the_others(latcast: Latcast, folder: Path, networks: list[str]) -> None:
    file = folder / "tflite_cnn_e2e.csv"
    file.write_text(file.read_text().replace("4000,40", "-4000,40"))

    text, data = latcast("data", "check", "usc", folder), latcast("data", "check", "usc", folder, "--json")

    assert text.code == data.code == 3
    assert "refused: tflite_cnn_e2e.csv:3: the mean on pixel4/tflite-2.10/gpu/fp16 is -4000" in text.err
    [refused] = data.json["refused"]
    assert (refused["file"], refused["line"]) == ("tflite_cnn_e2e.csv", 3)
    assert data.json["measurements"] == 5


def test_check_fails_on_a_network_that_is_another_one(latcast: Latcast, folder: Path, networks: list[str]) -> None:
    file = folder / "torch_cnn_e2e.csv"
    file.write_text(file.read_text().replace("13824", "20000"))

    found = latcast("data", "check", "usc", folder, "--json")

    assert found.code == 3
    [exception] = found.json["networks_built"]["exceptions"]
    assert exception["name"] == "net10"
    assert exception["flops_ratio"] == pytest.approx(0.6912)


def test_list_names_datasets_with_their_licence(latcast: Latcast) -> None:
    text, data = latcast("data", "list"), latcast("data", "list", "--json")
    assert text.code == data.code == 0
    titles = {row["dataset"]: row["source"] for row in data.json}
    assert titles["hailo"].endswith("; MIT")
    assert set(titles) <= set(text.out.split())


def test_a_latency_table_becomes_a_file_of_records(latcast: Latcast, published_data: Path, tmp_path: Path) -> None:
    file = tmp_path / "ti.jsonl"
    found = latcast("data", "import", "ti", published_data / "ti", "-o", file, "--json")
    assert found.code == 0
    assert (found.json["measurements"], found.json["platforms"], len(file.read_text().splitlines())) == (44, 4, 44)


RECORDED = Path(__file__).parents[1] / "datasets" / "importers" / "benchmark_tools" / "recorded"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A kit with results of two tools."""
    folder = tmp_path / "kit"
    (folder / "results" / "p").mkdir(parents=True)
    KitManifest((KitNetwork("squeezenet1_1", model("squeezenet1_1")),)).write(folder)
    for name in ("tflite.txt", "onnxruntime_perf_test.txt"):
        header = "# latcast network=squeezenet1_1 device=pixel4 threads=1 version=2.17 taken_at=2026-11-21T22:00:00Z\n"
        (folder / "results" / "p" / name).write_text(header + (RECORDED / name).read_text())
    return folder


def test_a_kit_s_results_are_kept_in_the_user_s_folder_once(latcast: Latcast, home: Path, kit: Path) -> None:
    first, again = (latcast("data", "import", "benchmark", kit, "--json").json for _ in range(2))

    assert (first["measurements"], first["networks"], first["added"], again["added"]) == (2, 1, 2, 0)
    assert first["platforms"] == ["pixel4/onnxruntime-2.17/cpu1/fp32", "pixel4/tflite-2.17/cpu1/fp32"]
    assert [each["tools"] for each in first["files"]] == [["onnxruntime_perf_test"], ["TFLite's benchmark_model"]]
    with Store(home / "measurements" / "benchmark.sqlite") as store:
        [kept] = store.measurements(platform="pixel4/tflite-2.17/cpu1/fp32")
    assert (kept.reference, kept.latency_ms, kept.taken_at) == (model("squeezenet1_1"), 23.905, "2026-11-21T22:00:00Z")


def test_files_of_a_named_platform_become_a_file(latcast: Latcast, tmp_path: Path) -> None:
    output = tmp_path / "few.jsonl"

    found = latcast("data", "import", "benchmark", RECORDED / "tflite.txt", "--on", "pixel4/tflite-2.17/cpu1/fp32", "-o", output)

    assert found.code == 0
    assert found.out.splitlines()[-1] == f"1 measurements, 1 of them new, in {output}"
    assert "squeezenet1_1  pixel4/tflite-2.17/cpu1/fp32        23.9  median of the timed runs, 50 runs" in found.out
    assert "files that are not here are taken for the published networks" in found.err
    assert [item.latency_ms for item in jsonlines.read(output)] == [23.905]


@pytest.mark.parametrize(
    "arguments",
    [
        ("usc", RECORDED, "--on", "p/tflite-2.17/cpu1/fp32"),
        ("usc", RECORDED / "tflite.txt"),
        ("usc", RECORDED, RECORDED),
        ("benchmark", "nosuch.txt"),
        ("benchmark", RECORDED / "tflite.txt", "--store", "a", "--output", "b"),
    ],
)
def test_a_wrong_call_exits_with_2(latcast: Latcast, arguments: tuple[object, ...]) -> None:
    assert latcast("data", "import", *arguments).code == 2


@pytest.mark.slow
def test_openvino_s_own_tool_is_read_as_it_prints_today(latcast: Latcast, tmp_path: Path) -> None:
    app = Path(sys.executable).with_name("benchmark_app")
    if not app.is_file():
        pytest.skip("OpenVINO's benchmark_app is not installed here; pip install openvino brings it")
    (tmp_path / "mobilenet_v1_0_25.onnx").write_bytes(to_onnx(build(model("mobilenet_v1_0_25"))))
    command = [
        str(app), "-m", "mobilenet_v1_0_25.onnx", "-d", "CPU", "-nthreads", "1", "-infer_precision", "f32", "-hint", "none",
        "-nstreams", "1", "-nireq", "1", "-api", "sync", "-niter", "5",
    ]  # fmt: skip
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    file = tmp_path / "mobilenet_v1_0_25.txt"
    file.write_text(f"# latcast network=mobilenet_v1_0_25 device=here threads=1\n{printed.stdout}{printed.stderr}")
    from importlib.metadata import version

    [major, minor, *_] = version("openvino").split(".")

    found = latcast("data", "import", "benchmark", file, "--output", tmp_path / "a.jsonl")

    assert found.code == 0, found.err
    [record] = jsonlines.read(tmp_path / "a.jsonl")
    assert record.platform == f"here/openvino-{major}.{minor}/cpu1/fp32"
    assert record.latency_ms is not None


@pytest.mark.slow
def test_a_predictor_is_learned_from_operators_that_benchmark_model_profiled(latcast: Latcast, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    names = ("squeezenet1_1", "mobilenet_v1_0_25", "mobilenet_v2_0_5", "shufflenet_v2_x0_5", "mnasnet0_5", "mobilenet_v3_small")
    folder = tmp_path / "kit"
    (folder / "results").mkdir(parents=True)
    KitManifest(tuple(KitNetwork(name, model(name)) for name in names)).write(folder)
    for name in names:
        header = f"# latcast network={name} device=here threads=1 version=2.17\n"
        (folder / "results" / f"{name}.1.profile.txt").write_text(header + profiled(build(model(name))))

    imported = latcast("data", "import", "benchmark", folder, "-o", tmp_path / "here.jsonl", "--json")
    trained = latcast("train", tmp_path / "here.jsonl", "--learn-from", "operators", "-o", tmp_path / "here.zip", "--json")
    predicted = latcast("predict", "mobilenet_v1_0_5", "--on", tmp_path / "here.zip", "--json")

    assert imported.json["notes"] == []
    assert trained.code == 0, trained.err
    assert "timed inside networks" in trained.json["trained_on"]
    assert predicted.json["predictions"][0]["latency_ms"] > 0
