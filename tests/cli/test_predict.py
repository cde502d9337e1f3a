"""``latcast predict``: files and names, several of each, and what is wrong with a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from latcast.cli.predict import MOST_WARNED, warn_of
from latcast.predictors.bundle import save_bundle
from latcast.predictors.intervals import Interval
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Coverage, Grade, Prediction
from tests.cli.conftest import Latcast
from tests.cli.dataset import PLATFORM
from tests.graph.importers.onnx_models import model, node, zeros

pytestmark = pytest.mark.usefixtures("bundle")


def test_the_json_has_the_keys_that_scripts_rely_on(latcast: Latcast) -> None:
    document = latcast("predict", "squeezenet1_1", "--on", PLATFORM, "--json").json

    assert document["schema"] == 1
    [found] = document["predictions"]
    assert set(found) == {
        "model", "platform", "latency_ms", "low_ms", "high_ms", "level", "coverage", "grade", "warnings", "notes",
    }  # fmt: skip
    assert set(found["grade"]) == {"word", "expected_error_pct", "why"}
    assert (found["model"], found["platform"]) == ("squeezenet1_1", PLATFORM)
    assert 0 < found["low_ms"] < found["latency_ms"] < found["high_ms"]
    assert found["level"] == 90
    # The first of its pools is larger than any of the few networks that the bundle was trained on has.
    assert found["coverage"] == {"share": pytest.approx(0.99, abs=0.01), "uncovered": ["MaxPool"]}


def test_an_uncalibrated_interval_is_never_said_to_hold_90_percent(
    latcast: Latcast, trained: PlatformPredictor, tmp_path: Path
) -> None:
    rough = save_bundle(replace(trained, interval=Interval()), tmp_path / "rough")

    alone = latcast("predict", "squeezenet1_1", "--on", rough)
    both = latcast("predict", "squeezenet1_1", "--on", f"{rough},{PLATFORM}").out.splitlines()
    shown = latcast("platforms", "show", rough)
    compared = latcast("platforms", "show", rough, PLATFORM).out

    assert "uncalibrated interval ms" in alone.out.splitlines()[0]
    assert "90 %" not in alone.out + alone.err
    assert latcast("predict", "squeezenet1_1", "--on", rough, "--json").json["predictions"][0]["level"] is None
    assert " interval ms " in both[0]
    assert "90 %" not in both[0]
    assert [line.partition("(")[2].partition(")")[0] for line in both[1:3]] == ["uncalibrated", "90 %"]
    assert "Uncalibrated interval: 0.500 to 2.000 times the prediction" in shown.out
    assert latcast("platforms", "show", rough, "--json").json["platforms"][0]["interval"]["level"] is None
    assert "0.500 to 2.000 (uncalibrated)" in compared
    card = (rough / "CARD.md").read_text()
    assert "The uncalibrated interval is 0.500 to 2.000 times the prediction, too few networks were measured" in card


def test_a_file_is_predicted_as_the_network_it_holds(latcast: Latcast, model_file: Path) -> None:
    by_name, by_file = latcast("predict", "squeezenet1_1", model_file, "--on", "local/onnxruntime", "--json").json["predictions"]

    assert by_file["model"] == str(model_file)
    assert by_file["latency_ms"] == pytest.approx(by_name["latency_ms"])


def test_the_breakdown_adds_up_to_the_latency(latcast: Latcast) -> None:
    [found] = latcast("predict", "squeezenet1_1", "--on", PLATFORM, "--breakdown", "--json").json["predictions"]

    parts = [kernel["latency_ms"] for kernel in found["kernels"]]
    assert sum(parts) + found["overhead_ms"] == pytest.approx(found["latency_ms"])
    assert set(found["kernels"][0]) == {
        "name", "kernel_type", "operators", "configuration", "latency_ms", "covered", "module", "limit", "nodes",
    }  # fmt: skip


def test_every_model_is_predicted_on_every_platform(latcast: Latcast, bundle: Path) -> None:
    other = shutil.copy(bundle, "other.zip")
    found = latcast("predict", "resnet18", "mobilenet_v2", "--on", f"{PLATFORM},{other}", "--json").json["predictions"]

    assert [each["model"] for each in found] == ["resnet18", "mobilenet_v2"] * 2


def test_models_that_fail_do_not_keep_the_others_back(latcast: Latcast) -> None:
    found = latcast("predict", "nosuch.onnx", "resnet18", "resnet81", "mobilenet_v2", "--on", PLATFORM, "--json")

    assert found.code == 1
    assert [each["model"] for each in found.json["predictions"]] == ["resnet18", "mobilenet_v2"]
    first, second, *_ = found.err.splitlines()
    assert "there is no file 'nosuch.onnx'" in first
    assert "no published model is called 'resnet81'; nearest: resnet18" in second
    table = latcast("predict", "nosuch.onnx", "resnet18", "--on", PLATFORM)
    assert table.code == 1
    assert [line.split()[0] for line in table.out.splitlines()] == ["model", "resnet18"]


def test_where_every_one_of_several_models_fails_the_json_is_empty(latcast: Latcast) -> None:
    found = latcast("predict", "resnet18", "vgg11", "--on", PLATFORM, "--shape", "nonsense=9,9", "--json")

    assert (found.code, found.json["predictions"]) == (1, [])
    assert ["resnet18; the inputs are: input" in line for line in found.err.splitlines()] == [True, False]


def test_people_get_a_table_and_the_kernels(latcast: Latcast) -> None:
    found = latcast("predict", "squeezenet1_1", "--on", "local", "--breakdown")

    head, row, *rest = found.out.splitlines()
    assert found.code == 0
    assert head.split() == ["model", "platform", "latency", "ms", "90", "%", "interval", "ms", "grade"]
    assert row.split()[:2] == ["squeezenet1_1", PLATFORM]
    assert sum("max_pool" in line.split() for line in rest) == 3
    assert not any(line != line.rstrip() for line in found.out.splitlines())


def test_warnings_go_to_standard_error_a_line_each(latcast: Latcast) -> None:
    found = latcast("predict", "deit_tiny_16", "--on", "local", "--json")

    [text] = found.json["predictions"][0]["warnings"]
    assert "% of the latency comes from kernels outside the training data: linear" in text
    assert "matmul" in text
    assert found.err == f"latcast: deit_tiny_16 on {PLATFORM}: {text}\n"
    assert "matmul (estimated)" in latcast("predict", "deit_tiny_16", "--on", "local", "--breakdown").out


def test_a_dynamic_input_gets_its_sizes(latcast: Latcast, tmp_path: Path) -> None:
    path = tmp_path / "dynamic.onnx"
    path.write_bytes(BAD["dynamic shapes"][0]())

    found = latcast("predict", path, "--on", PLATFORM, "--shape", "x=1,3,64,64", "--json")

    assert found.json["predictions"][0]["latency_ms"] > 0


def test_an_unknown_operator_is_priced_and_named(latcast: Latcast, tmp_path: Path) -> None:
    path = tmp_path / "unknown.onnx"
    path.write_bytes(BAD["unknown operator"][0]())

    [found] = latcast("predict", path, "--on", PLATFORM, "--json").json["predictions"]

    assert found["coverage"]["share"] < 1
    assert any("Mystery" in name for name in found["coverage"]["uncovered"])
    assert found["latency_ms"] > 0


def conv(shape: tuple[int | str, ...] = (1, 3, 8, 8)) -> onnx.ModelProto:
    return model([node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])], {"x": shape}, ["y"], {"w": zeros(8, 3, 3, 3)})


def without_data(proto: onnx.ModelProto) -> bytes:
    """The stored tensors move to a file that is not there."""
    for tensor in proto.graph.initializer:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.ClearField("raw_data")
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "gone.bin"
    return proto.SerializeToString()


def mystery() -> bytes:
    given = onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, (1, 8, 6, 6))
    proto = model(
        [
            node("Conv", ["x", "w"], ["a0"], kernel_shape=[3, 3]),
            node("Mystery", ["a0"], ["a"], domain="com.acme"),
            node("Relu", ["a"], ["y"]),
        ],
        {"x": (1, 3, 8, 8)},
        ["y"],
        {"w": zeros(8, 3, 3, 3)},
        domains=["com.acme"],
    )
    proto.graph.value_info.append(given)
    return proto.SerializeToString()


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "text": (lambda: b"this is no model\n", "is text that begins with 'this is no model'"),
    "unknown operator": (mystery, "com.acme::Mystery"),
    "dynamic shapes": (lambda: conv(("batch", 3, "height", 64)).SerializeToString(), "give it: --shape x=1,3,"),
}
"""What is wrong with a file -> its content, and what the message says."""


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_one_line_with_the_file_and_the_reason(latcast: Latcast, tmp_path: Path, what: str) -> None:
    content, expected = BAD[what]
    path = tmp_path / "model.onnx"
    path.write_bytes(content())

    reason = latcast("predict", path, "--on", PLATFORM, "--strict").reason

    assert expected in reason
    assert "model.onnx" in reason


def test_weights_are_not_needed_for_a_prediction(latcast: Latcast, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(without_data(conv()))

    assert latcast("predict", path, "--on", PLATFORM, "--json").json["predictions"][0]["latency_ms"] > 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nosuch.onnx", "--on", PLATFORM), "there is no file 'nosuch.onnx'"),
        (("resnet18", "--on", "pixle4"), "no predictor for 'pixle4'; nearest devices and chips: Pixel 4, "),
        (("resnet18", "--on", "./nosuch.zip"), "'./nosuch.zip'"),
        (("resnet18", "--on", PLATFORM, "--shape", "x=1,-1,2"), "--shape 'x=1,-1,2' is not of the form"),
        (("resnet18", "--on", ","), "--on ','"),
        (("https://example.com/m.onnx", "--on", PLATFORM), "is not fetched"),
        (("resnet18", "--on", "local/ncnn"), "latcast profile --runtime ncnn"),
    ],
)
def test_a_model_or_platform_that_does_not_exist_is_named(latcast: Latcast, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in latcast("predict", *arguments).reason


@pytest.mark.parametrize("options", [("--fps", "30"), ("--sustain", "soon"), ("--scheduler", "tcp://127.0.0.1:9", "--start")])
def test_conditions_that_cannot_be_met_are_wrong_calls(latcast: Latcast, options: tuple[str, ...]) -> None:
    assert latcast("predict", "squeezenet1_1", "--on", PLATFORM, *options).code == 2


@pytest.mark.parametrize("command", ["predict", "compare", "check", "choose", "report"])
def test_commands_take_the_same_conditions(latcast: Latcast, command: str) -> None:
    shown = latcast(command, "--help").out

    assert all(f"  {option} " in shown for option in ("--start", "--sustain", "--fps", "--beside"))


def test_without_predictors_it_says_how_to_make_one(latcast: Latcast, bundle: Path) -> None:
    bundle.unlink()

    assert "make one with: latcast profile" in latcast("predict", "resnet18", "--on", "local").reason


def test_an_unmeasured_device_is_answered_from_its_chip_with_a_warning(latcast: Latcast) -> None:
    done = latcast("predict", "squeezenet1_1", "--on", "redmi note 8/tflite-2.17/cpu4/fp32", "--json")

    [found] = done.json["predictions"]
    assert found["platform"] == "redmi-note-8/tflite-2.17/cpu4/fp32"
    assert found["high_ms"] > 4 * found["low_ms"]
    assert "nothing was measured on this device" in found["warnings"][0]
    assert "latcast device kit" in done.err


def test_many_warnings_are_counted_and_one_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    fine = Prediction("net", "a/b-1/cpu1/fp32", 1.0, 0.5, 2.0, Coverage(1.0, ()), Grade.of(5.0, ""))
    rough = [replace(fine, platform=f"p{row}/b-1/cpu1/fp32", warnings=(f"rough {row}",)) for row in range(MOST_WARNED + 1)]

    warn_of([fine, *rough])
    many = capsys.readouterr().err.splitlines()
    warn_of([fine, *rough[1:]])
    few = capsys.readouterr().err.splitlines()

    assert len(many) == 1
    assert "21 of 22 predictions have warnings, such as net on p0/b-1/cpu1/fp32: rough 0" in many[0]
    assert len(few) == MOST_WARNED


def test_a_folder_stands_for_the_model_files_in_it(latcast: Latcast, model_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("a.onnx", "b.onnx"):
        (folder / name).write_bytes(model_file.read_bytes())
    (folder / "broken.onnx").write_bytes(b"no model")
    (folder / "notes.txt").write_text("")

    found = latcast("predict", folder, "--on", PLATFORM, "--json")

    assert found.code == 1
    assert [Path(each["model"]).name for each in found.json["predictions"]] == ["a.onnx", "b.onnx"]
    assert "broken.onnx" in found.err


def test_platforms_named_twice_are_those_of_both(latcast: Latcast) -> None:
    found = latcast("predict", "resnet18", "--on", "pixel4/tflite-2.10/gpu/fp16", "--on", "s10/tflite-2.10/gpu/fp16", "--json")

    assert [each["platform"].partition("/")[0] for each in found.json["predictions"]] == ["pixel4", "s10"]


def test_a_warning_that_predictions_share_is_printed_once(latcast: Latcast) -> None:
    found = latcast("predict", "squeezenet1_1", "--on", "galaxy s24 exynos")

    lines = [line for line in found.err.splitlines() if "nothing was measured on this device" in line]
    assert len(lines) == 1
    assert lines[0].startswith("latcast: squeezenet1_1 on 3 platforms: ")
