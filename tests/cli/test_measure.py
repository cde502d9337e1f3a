"""``latcast measure`` runs networks for real, under another version of a runtime's library too."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from latcast.environment import affinity
from latcast.predictors.prediction import Coverage, Grade, Prediction
from latcast.predictors.sustained import Curve, curve_of
from latcast.records import Platform
from tests.cli.conftest import Latcast
from tests.cli.test_predict import BAD
from tests.graph.importers.onnx_models import model, node, save

QUICK = ("--rounds", "2", "--runs-per-round", "3", "--warmup-runs", "1", "--no-realtime")


def test_a_file_is_measured_with_its_kernels(latcast: Latcast, model_file: Path) -> None:
    found = latcast("measure", model_file, *QUICK, "--breakdown", "--json")

    assert found.json["schema"] == 1
    [measured] = found.json["measurements"]
    assert measured["model"] == str(model_file)
    assert measured["platform"].startswith("local/onnxruntime-")
    assert measured["latency_ms"] > 0
    assert measured["raw_latency_ms"] > 0
    # At most three runs in each of two rounds: on a busy host a round ends early, and disturbed runs are left out.
    assert set(measured["rounds"]) == {0, 1}
    assert len(measured["runs_ms"]) == len(measured["rounds"]) <= 6
    assert 0 <= measured["variation"] < 1
    # 26 convolutions, the ReLUs fused, 3 pools and the global one.
    assert sum(kernel["kind"].endswith("Conv") for kernel in measured["kernels"]) == 26
    assert measured["environment"]["settings"]["realtime"] is False


def test_people_get_the_figures_side_by_side(latcast: Latcast) -> None:
    found = latcast("measure", "squeezenet1_1", *QUICK, "--breakdown")

    head, row, *rest = found.out.splitlines()
    assert head.split() == ["model", "platform", "latency", "ms", "raw", "ms", "variation", "%", "runs"]
    assert row.split()[0] == "squeezenet1_1"
    assert 2 <= int(row.split()[-1]) <= 6
    assert any(line.startswith("squeezenet1_1: ") and "under the profiler" in line for line in rest)


def test_a_single_run_has_no_variation(latcast: Latcast) -> None:
    once = ("--rounds", "1", "--runs-per-round", "1", "--warmup-runs", "1", "--no-realtime")

    row = latcast("measure", "squeezenet1_1", *once).out.splitlines()[1].split()

    assert row[-2:] == ["-", "1"]


def test_a_folder_stands_for_the_model_files_in_it(latcast: Latcast, model_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "models" / "a.onnx"
    file.parent.mkdir()
    file.write_bytes(model_file.read_bytes())

    [measured] = latcast("measure", file.parent, *QUICK, "--json").json["measurements"]

    assert measured["model"] == str(file)


def test_a_published_network_is_measured_at_the_size_asked_for(latcast: Latcast) -> None:
    small = ("--shape", "input=1,3,64,96")

    [measured] = latcast("measure", "squeezenet1_1", *QUICK, *small, "--breakdown", "--json").json["measurements"]

    assert measured["model"] == "squeezenet1_1"
    assert sum(kernel["kind"].endswith("Conv") for kernel in measured["kernels"]) == 26
    assert "which is no input of squeezenet1_1" in latcast("measure", "squeezenet1_1", "--shape", "nonsense=9,9").reason


def test_models_that_fail_do_not_keep_the_others_back(latcast: Latcast, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(BAD["unknown operator"][0]())

    found = latcast("measure", "resnet81", path, "squeezenet1_1", *QUICK, "--json")

    assert found.code == 1
    assert [each["model"] for each in found.json["measurements"]] == ["squeezenet1_1"]
    assert "no published model is called 'resnet81'" in found.err
    [line] = [line for line in found.err.splitlines() if line.startswith(f"latcast: {path} could not be measured: ")]
    assert "Mystery" in line


def test_a_file_that_latcast_cannot_read_is_measured_as_it_is(latcast: Latcast, tmp_path: Path) -> None:
    contrib = [node("QuickGelu", ["x"], ["h"], domain="com.microsoft"), node("Relu", ["h"], ["y"])]
    proto = model(contrib, {"x": (1, 8)}, ["y"], opset=17, domains=["com.microsoft"])
    path = save(proto, tmp_path, "a new operator.onnx")

    [measured] = latcast("measure", path, *QUICK, "--input", "x=0.5", "--json").json["measurements"]

    assert measured["latency_ms"] > 0
    assert measured["environment"]["moment"]["weights"] == "of the file"
    assert measured["reference"]["parameters"]["values"] == {"x": 0.5}


def test_a_file_is_written_anew_where_that_is_asked_for(latcast: Latcast, tmp_path: Path) -> None:
    path = save(model([node("Relu", ["x"], ["y"])], {"x": (1, 8)}, ["y"], opset=17), tmp_path)

    found = latcast("measure", path, *QUICK, "--made-up-weights", "--input", "x=1", "--json").json["measurements"]

    assert [each["environment"]["moment"]["weights"] for each in found] == ["made up"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nosuch.onnx",), "nosuch.onnx"),
        (("resnet18", "--threads", "4096"), "4096 threads"),
        (("resnet18", "--cpus", "4095"), "cannot pin to CPUs 4095"),
        (("resnet18", "--precision", "bf16"), "onnxruntime cannot run bf16 here; it can run fp32"),
        (("resnet18", "--threads", "2", "--cpus", str(affinity()[0]), "--realtime"), "a real-time priority with 2 threads"),
    ],
)
def test_impossible_settings_of_a_measurement_are_one_line(latcast: Latcast, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in latcast("measure", *arguments).reason


def test_the_version_that_the_worker_finds_names_the_platform(latcast: Latcast, model_file: Path, tmp_path: Path) -> None:
    about = tmp_path / "old" / "onnxruntime-0.9.3.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: onnxruntime\nVersion: 0.9.3\n")

    [measured] = latcast("measure", model_file, *QUICK, "--library-path", tmp_path / "old", "--json").json["measurements"]

    assert measured["platform"] == "local/onnxruntime-0.9/cpu1/fp32"


def test_a_folder_that_is_not_there_is_one_line(latcast: Latcast, model_file: Path, tmp_path: Path) -> None:
    reason = latcast("measure", model_file, *QUICK, "--library-path", tmp_path / "nowhere").reason
    assert reason.startswith(f"found no folder '{tmp_path / 'nowhere'}' to import the runtime's library from")
    adapted = latcast("device", "adapt", "--library-path", tmp_path / "nowhere")
    assert adapted.reason == reason
    profiled = latcast("profile", "--library-path", tmp_path / "nowhere")
    assert profiled.reason == reason


@pytest.mark.parametrize("other", [("--start",), ("--beside", "memory")])
def test_several_conditions_at_a_time_are_a_wrong_call(latcast: Latcast, other: tuple[str, ...]) -> None:
    found = latcast("measure", "squeezenet1_1", "--sustain", "3s", *other)

    assert found.code == 2
    assert "one of them at a time" in found.err


def test_a_curve_is_recorded_and_then_predicted_with_on_this_device(latcast: Latcast) -> None:
    [found] = latcast("measure", "squeezenet1_1", "--sustain", "3s", "--json").json["sustained"]

    assert len(found["round_ms"]) == 12
    assert found["curve"]["minutes"] == pytest.approx(0.05, rel=0.4)
    assert found["curve"]["basis"].startswith("one curve of 0.0")
    assert curve_of(Platform.parse(found["platform"])) == Curve.from_json(found["curve"])


@pytest.mark.slow
def test_factors_beside_other_programs_are_measured_and_then_predicted_with_on_this_device(latcast: Latcast) -> None:
    [found] = latcast("measure", "squeezenet1_1", "--beside", "compute:same,memory:same", "--json").json["beside"]

    assert found["alone_ms"] > 0
    # On a busy machine other processes take their share of the core too.
    assert all(found["factors"][each] > 1.5 for each in ("compute:same", "memory:same"))
    prediction = Prediction("m", found["platform"], 20.0, 18.0, 24.0, Coverage(1.0, ()), Grade.of(3.0, ""))
    assert prediction.beside("memory:same").contended[0].latency_ms == pytest.approx(20 * found["factors"]["memory:same"])


def test_networks_and_language_models_are_measured_into_one_document(
    latcast: Latcast, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = {"platform": "local/llama.cpp/cpu1/q4_0", "decode_tokens_per_s": 10.0}
    monkeypatch.setattr(import_module("latcast.measure.language_models"), "measure_language_model", lambda *_: spoken)

    done = latcast("measure", "qwen2.5-1.5b:q4_0", model_file, *QUICK, "--json")

    assert done.code == 0, done.err
    found = done.json["measurements"]
    assert [each["model"] for each in found] == [str(model_file), "qwen2.5-1.5b:q4_0"]
    assert found[1]["decode_tokens_per_s"] == 10.0


@pytest.mark.slow
def test_the_start_is_timed_beside_the_steady_latency(latcast: Latcast) -> None:
    [found] = latcast("measure", "squeezenet1_1", *QUICK, "--start", "--json").json["measurements"]

    assert found["start"]["processes"] == 5
    assert found["start"]["load_ms"] > 0
    assert found["start"]["dropped_first_ms"] > 0
