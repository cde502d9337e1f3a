"""The way for a new phone, from a fresh install: a kit, what a tool printed on the phone, its import, a prediction."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from latcast.datasets import jsonlines
from latcast.datasets.importers.benchmark_tools import KitManifest
from latcast.devices.shared_terms_file import load_shared_terms
from latcast.graph.writers.onnx import to_onnx
from latcast.spaces.catalogue import build, model
from latcast.spaces.pytorchcv import reference_of
from tests.cli.conftest import Latcast, Outcome

RECORDED = Path(__file__).parents[1] / "datasets" / "importers" / "benchmark_tools" / "recorded" / "tflite.txt"

RPI5 = "rpi5/onnxruntime-1.31/cpu1/fp32"
S11 = "s11/tflite-2.10/1large/fp32"

LIKE = ("s10/tflite-2.10/1large/fp32", "pixel4/tflite-2.10/1large/fp32")


def latencies_of_a_phone() -> dict[str, float]:
    """A phone half way between two known ones, 20 % slower, whose measurements scatter by 1 %."""
    known = load_shared_terms()
    rows = known.log_ms[[known.platforms.index(name) for name in LIKE]].mean(axis=0)
    scattered = rows + np.log(1.2) + np.random.default_rng(0).normal(0, 0.01, len(rows))
    return {network.name: float(value) for network, value in zip(known.networks, np.exp(scattered), strict=True)}


def measured_on_the_phone(kit: Path, latencies_ms: dict[str, float]) -> None:
    """Runs the kit's script with a ``benchmark_model`` that prints what TFLite's printed, with the phone's latencies."""
    recordings = kit / "recordings"
    recordings.mkdir()
    for name in KitManifest.read(kit).references:
        text = RECORDED.read_text().replace("squeezenet1_1", name)
        for printed in ("23911", "23988", "23655", "25870", "23958.2", "23702", "23905", "24480"):
            text = text.replace(printed, f"{float(printed) / 23905 * latencies_ms[name] * 1e3:.0f}")
        (recordings / f"{name}.txt").write_text(text)
    tool = kit / "tools" / "benchmark_model"
    tool.write_text('#!/bin/sh\nname=${1##*/}\ncat "recordings/${name%.tflite}.txt"\n')
    tool.chmod(0o755)
    subprocess.run(
        ["sh", str(kit / "measure.sh"), "--device", "newphone", "--tflite", "2.10", "--unit", "1large", "--rounds", "1",
         "--pause", "0"],
        check=True, capture_output=True,
    )  # fmt: skip


@pytest.mark.slow
def test_ten_networks_of_the_kit_predict_any_other_in_three_commands(
    latcast: Latcast, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latencies_ms = latencies_of_a_phone()

    kit = latcast("device", "kit", "-o", "kit", "--formats", "tflite")
    monkeypatch.chdir("kit")
    measured_on_the_phone(Path(), latencies_ms)
    Path("my_network.onnx").write_bytes(to_onnx(build(reference_of("mobilenetv2_w1"))))
    # As its README has them.
    written = re.findall(r"^    latcast (.*)$", Path("README.md").read_text(), flags=re.MULTILINE)
    imported, predicted = [latcast(*shlex.split(command), "--json") for command in written]

    assert (kit.code, imported.code, predicted.code) == (0, 0, 0)
    assert not any(home.glob("measurements/*"))
    known = {network.name for network in load_shared_terms().networks}
    carried = set(KitManifest.read(Path()).references)
    assert len(carried) == 10
    assert carried <= known
    assert (imported.json["networks"], imported.json["notes"]) == (10, [])
    assert (predicted.json["platform"], predicted.json["measured"]) == ("newphone/tflite-2.10/1large/fp32", 10)
    assert predicted.json["warnings"] == []
    [mine] = predicted.json["predictions"]
    [known_one] = latcast("device", "predict", "-m", "few.jsonl", "resnet18", "--json").json["predictions"]
    assert (mine["known"], known_one["known"]) == (False, True)
    for found, actual_ms in ((mine, latencies_ms["mobilenetv2_w1"]), (known_one, latencies_ms["resnet18"])):
        assert found["latency_ms"] == pytest.approx(actual_ms, rel=0.1)
        assert found["low_ms"] <= actual_ms <= found["high_ms"]


def test_a_name_that_is_none_is_refused_with_the_nearest(latcast: Latcast) -> None:
    reason = latcast("device", "kit", "mobilenetv2b_w9", "-o", "kit").reason

    assert reason.startswith("no network is called 'mobilenetv2b_w9'; known: mobilenetv2b_w")


def test_a_kit_takes_names_of_pytorchcv_and_of_papers(latcast: Latcast) -> None:
    found = latcast("device", "kit", "mobilenetv2b_wd4", "squeezenet1_1", "-o", "kit", "--formats", "onnx")

    assert found.code == 0
    assert KitManifest.read(Path("kit")).references == {
        "mobilenetv2b_wd4": reference_of("mobilenetv2b_wd4"),
        "squeezenet1_1": model("squeezenet1_1"),
    }


def test_known_networks_are_built_without_pytorchcv(latcast: Latcast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latcast.spaces.pytorchcv.exported.version", _not_installed)

    assert latcast("device", "kit", "mobilenetv2b_wd4", "-o", "kit", "--formats", "onnx").code == 0


def _not_installed(name: str) -> str:
    from importlib.metadata import PackageNotFoundError

    raise PackageNotFoundError(name)


def test_own_files_timed_by_onnxruntime_perf_test_are_told_by_the_file_beside_its_output(latcast: Latcast) -> None:
    Path("own.v2.onnx").write_bytes(to_onnx(build(model("squeezenet1_1"))))
    Path("own.v2.txt").write_text((RECORDED.parent / "onnxruntime_perf_test.txt").read_text())

    imported = latcast("data", "import", "benchmark", "own.v2.txt", "--on", RPI5, "-o", "few.jsonl")
    predicted = latcast("device", "predict", "-m", "few.jsonl", "squeezenet_v1_0", "--json")

    assert imported.code == 0
    assert imported.err == ""
    assert (predicted.json["platform"], predicted.json["measured"]) == (RPI5, 1)


def test_a_named_network_of_another_size_is_built_or_refused(latcast: Latcast) -> None:
    Path("few.csv").write_text("model,latency_ms\nresnet18,105.5\nmobilenetv2_w1,24.5\nmobilenet_w1,33\n")
    command = ("device", "predict", "-m", "few.csv", "--on", S11, "--json")

    [usual] = latcast(*command, "squeezenet1_1").json["predictions"]
    [larger] = latcast(*command, "squeezenet1_1", "--shape", "input=1,3,448,448").json["predictions"]
    refused = latcast(*command, "mobilenet_w1", "--shape", "input=1,3,448,448")

    assert larger["latency_ms"] > 3 * usual["latency_ms"]
    assert "mobilenet_w1 has one size, input=1,3,224,224; found 1,3,448,448" in refused.err


class TestCsv:
    @pytest.fixture
    def csv(self, home: Path) -> Path:
        Path("own.onnx").write_bytes(to_onnx(build(model("squeezenet1_1"))))
        Path("few.csv").write_text('model,latency_ms\nown.onnx,31\nresnet18,105.5\n"mobilenetv2_w1",24.5\n\nmobilenet_w1, 33\n')
        return Path("few.csv")

    def test_predicts_on_the_platform_that_is_named(self, latcast: Latcast, csv: Path) -> None:
        found = latcast("device", "predict", "-m", csv, "--on", S11, "mobilenetv2_w1", "--json")

        assert (found.json["platform"], found.json["measured"]) == (S11, 4)
        [only] = found.json["predictions"]
        assert only["measured_ms"] == 24.5

    def test_is_imported(self, latcast: Latcast, csv: Path) -> None:
        found = latcast("data", "import", "benchmark", csv, "--on", S11, "-o", "few.jsonl", "--json")

        assert (found.json["measurements"], found.json["networks"], found.json["notes"]) == (4, 4, [])

    def test_without_a_platform_it_is_asked_for(self, latcast: Latcast, csv: Path) -> None:
        found = latcast("device", "predict", "-m", csv)

        assert found.code == 1
        assert "name the platform with --on device/runtime-version/unit/precision" in found.err

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("resnet18", "few.csv:2: found 1 cells; expected a model and its latency in milliseconds"),
            ("resnet18,fast", "few.csv:2: the latency is fast; expected a finite number above 0"),
            ("resnet18,-3", "few.csv:2: the latency is -3"),
            ("resnet18,inf", "few.csv:2: the latency is inf"),
            ("nosuch.onnx,3", "few.csv:2: the network 'nosuch' is not known"),
            ("", "few.csv:2: no model follows the header"),
        ],
    )
    def test_what_cannot_be_is_refused_with_its_line(self, latcast: Latcast, line: str, reason: str) -> None:
        Path("few.csv").write_text(f"model,latency_ms\n{line}\n")

        found = latcast("data", "import", "benchmark", "few.csv", "--on", S11, "-o", "few.jsonl")

        assert reason in found.reason

    def test_another_header_is_refused(self, latcast: Latcast) -> None:
        Path("few.csv").write_text("name,ms\nresnet18,3\n")

        found = latcast("data", "import", "benchmark", "few.csv", "--on", S11, "-o", "few.jsonl")

        assert "a CSV file with the header model,latency_ms" in found.reason


class TestSeveralPlatforms:
    @pytest.fixture
    def two(self, home: Path) -> Path:
        """What two tools measured on one board."""
        for name in ("tflite.txt", "onnxruntime_perf_test.txt"):
            header = "# latcast network=squeezenet1_1 device=rpi5 threads=1 version=2.17\n"
            Path(name).write_text(header + (RECORDED.parent / name).read_text())
        return Path("two.jsonl")

    def test_all_are_predicted_unless_one_is_named_by_the_beginning_of_its_id(self, latcast: Latcast, two: Path) -> None:
        latcast("data", "import", "benchmark", "tflite.txt", "onnxruntime_perf_test.txt", "-o", two)

        found = latcast("device", "predict", "-m", two, "resnet18", "--json").json
        named = latcast("device", "predict", "-m", two, "--on", "rpi5/tflite", "resnet18", "--json").json

        assert [each["platform"] for each in found["platforms"]] == [
            "rpi5/onnxruntime-2.17/cpu1/fp32",
            "rpi5/tflite-2.17/cpu1/fp32",
        ]
        assert named["platform"] == "rpi5/tflite-2.17/cpu1/fp32"

    def test_a_beginning_of_both_is_refused_and_the_file_is_named(self, latcast: Latcast, two: Path) -> None:
        latcast("data", "import", "benchmark", "tflite.txt", "onnxruntime_perf_test.txt", "-o", two)

        both = latcast("device", "predict", "-m", two, "--on", "rpi5", "resnet18")
        neither = latcast("device", "predict", "-m", two, "--on", "rpi6", "resnet18")

        assert both.reason.startswith(
            "'rpi5' is the beginning of 2 platforms in two.jsonl; give more of the id: rpi5/onnxruntime"
        )
        assert neither.reason.startswith("two.jsonl holds no measurements of rpi6; it holds rpi5/onnxruntime")


class TestUnits:
    """A phone on which resnet18 takes 98.6 ms, stated in seconds."""

    PLATFORM = S11

    @pytest.fixture
    def seconds(self, home: Path) -> Path:
        Path("few.csv").write_text("model,latency_ms\nresnet18,0.0986\nmobilenetv2_w1,0.0245\nmobilenet_w1,0.0332\n")
        return Path("few.csv")

    @pytest.fixture
    def jsonl(self, latcast: Latcast, seconds: Path) -> Path:
        """The same as records."""
        latcast("data", "import", "benchmark", seconds, "--on", self.PLATFORM, "--latency-unit", "ms", "-o", "few.jsonl")
        return Path("few.jsonl")

    def predict(self, latcast: Latcast, file: Path, *options: str) -> Outcome:
        platform = ("--on", self.PLATFORM) if file.suffix == ".csv" else ()
        return latcast("device", "predict", "-m", file, *platform, "resnet18", "--json", *options)

    def test_seconds_are_refused_with_the_factor_and_the_option(self, latcast: Latcast, seconds: Path, jsonl: Path) -> None:
        for file in (seconds, jsonl):
            reason = self.predict(latcast, file).reason

            assert re.fullmatch(
                rf"the latencies of {self.PLATFORM} in {file} lie [\d,]+ times below those of the typical known device, as "
                "seconds taken for milliseconds would be; say what they are with --latency-unit ms, s or us",
                reason,
            )

    def test_what_is_said_is_done(self, latcast: Latcast, seconds: Path, jsonl: Path) -> None:
        for file in (seconds, jsonl):
            [found] = self.predict(latcast, file, "--latency-unit", "s").json["predictions"]
            [believed] = self.predict(latcast, file, "--latency-unit", "ms").json["predictions"]

            assert found["measured_ms"] == pytest.approx(98.6)
            assert believed["measured_ms"] == pytest.approx(0.0986)

    def test_a_csv_file_is_not_imported_before_its_unit_is_known(self, latcast: Latcast, seconds: Path) -> None:
        command = ("data", "import", "benchmark", seconds, "--on", self.PLATFORM, "-o", "few.jsonl")

        assert "the latencies of s11/tflite-2.10/1large/fp32 in the CSV file lie" in latcast(*command).reason
        assert not Path("few.jsonl").exists()
        assert latcast(*command, "--latency-unit", "s").code == 0
        assert [item.latency_ms for item in jsonlines.read("few.jsonl")] == pytest.approx([98.6, 24.5, 33.2])

    def test_on_a_terminal_it_is_asked(self, latcast: Latcast, seconds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", Terminal("hours\ns\n"))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

        found = self.predict(latcast, seconds)

        assert "Unit of the latencies (ms, s, us) [s]" in found.err
        assert found.json["predictions"][0]["measured_ms"] == pytest.approx(98.6)

    @pytest.mark.parametrize(
        "arguments",
        [
            ("device", "predict", "-m", "few.csv", "--latency-unit", "h"),
            ("data", "import", "usc", ".", "--latency-unit", "s"),
            ("data", "import", "benchmark", RECORDED, "--on", "p/tflite-2.17/cpu1/fp32", "--latency-unit", "s"),
        ],
    )
    def test_a_wrong_call_exits_with_2(self, latcast: Latcast, seconds: Path, arguments: tuple[object, ...]) -> None:
        assert latcast(*arguments).code == 2


class Terminal(io.StringIO):
    """What a user types."""

    def isatty(self) -> bool:
        return True
