"""``latcast data import benchmark``."""

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
    assert "'squeezenet1_1' was taken for the published network of that name" in found.err
    assert [item.latency_ms for item in jsonlines.read(output)] == [23.905]


def test_a_profile_s_kernels_are_kept(latcast: Latcast, tmp_path: Path) -> None:
    platform = "board/tflite-2.10/cpu4/fp32"

    found = latcast("data", "import", "benchmark", RECORDED / "tflite_profile.txt", "--on", platform, "--json").json

    assert found["executed_kernels"] == 3


def test_cut_off_output_is_one_line_with_file_and_line(latcast: Latcast, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "squeezenet1_1.txt"
    file.write_text((RECORDED / "tflite.txt").read_text()[:900])
    lines = file.read_text().count("\n") + 1

    found = latcast("data", "import", "benchmark", file, "--on", "pixel4/tflite-2.17/cpu1/fp32")

    assert found.reason.startswith(f"{file}:{lines}: the output of benchmark_model ends before its summary")
    assert not (home / "measurements").exists()


def test_a_platform_is_asked_for_where_nothing_says_it(latcast: Latcast) -> None:
    assert "name the platform with --on device/" in latcast("data", "import", "benchmark", RECORDED / "tflite.txt").reason


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
