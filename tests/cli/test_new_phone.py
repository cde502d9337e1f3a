"""The way for a new phone, from a fresh install: a kit, what a tool printed on the phone, its import, a prediction."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from latcast.datasets import jsonlines
from latcast.datasets.importers.benchmark_tools import KitManifest
from latcast.devices.device_model_file import load_device_model
from latcast.graph.operators import graph_macs
from latcast.graph.writers.onnx import to_onnx
from latcast.spaces.catalogue import build, model
from latcast.spaces.pytorchcv import reference_of
from tests.cli.conftest import Latcast

RECORDED = Path(__file__).parents[1] / "datasets" / "importers" / "benchmark_tools" / "recorded" / "tflite.txt"

RPI5 = "rpi5/onnxruntime-1.31/cpu1/fp32"
S11 = "s11/tflite-2.10/1large/fp32"

ADD = ("device", "add", "s11", "--unit", "1large", "--runtime", "tflite-2.10", "--precision", "fp32")


def latencies_of_a_phone() -> dict[str, float]:
    """A phone of 25 ms a billion multiply-accumulates and 2 ms a network, whose measurements scatter by 1 %."""
    rng = np.random.default_rng(0)
    found = {}
    for network in (*load_device_model().signature, reference_of("mobilenetv2_w1"), model("resnet18")):
        found[network.name] = (2 + 25e-9 * graph_macs(build(network))) * float(np.exp(rng.normal(0, 0.01)))
    return found


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
    # As its README has them, for this phone.
    written = re.findall(r"^    latcast (.*)$", Path("README.md").read_text(), flags=re.MULTILINE)
    named = [
        text.replace("--unit cpu1 --runtime tflite-2.17", "--unit 1large --runtime tflite-2.10").replace("rpi5", "newphone")
        for text in written
    ]
    added, predicted = [latcast(*shlex.split(command), "--json") for command in named]

    assert (kit.code, added.code, predicted.code) == (0, 0, 0)
    assert not any(home.glob("measurements/*"))
    assert len(KitManifest.read(Path()).references) == 10
    [mine] = predicted.json["predictions"]
    [known_one] = latcast("predict", "resnet18", "--on", "newphone.zip", "--json").json["predictions"]
    assert mine["platform"] == "newphone/tflite-2.10/1large/fp32"
    for found, actual_ms in ((mine, latencies_ms["mobilenetv2_w1"]), (known_one, latencies_ms["resnet18"])):
        assert found["latency_ms"] == pytest.approx(actual_ms, rel=0.15)
        assert found["low_ms"] <= actual_ms <= found["high_ms"]


def test_a_kit_takes_names_of_pytorchcv_and_of_papers(latcast: Latcast) -> None:
    found = latcast("device", "kit", "mobilenetv2b_wd4", "squeezenet1_1", "-o", "kit", "--formats", "onnx")

    assert found.code == 0
    assert KitManifest.read(Path("kit")).references == {
        "mobilenetv2b_wd4": reference_of("mobilenetv2b_wd4"),
        "squeezenet1_1": model("squeezenet1_1"),
    }


class TestUnits:
    """A phone on which resnet18 takes 98.6 ms, stated in seconds."""

    PLATFORM = S11

    @pytest.fixture
    def seconds(self, home: Path) -> Path:
        Path("few.csv").write_text("model,latency_ms\nresnet18,0.0986\nmobilenetv2_w1,0.0245\nmobilenet_w1,0.0332\n")
        return Path("few.csv")

    def test_a_table_is_imported_in_the_unit_of_its_heading_and_as_milliseconds_doubted_later(
        self, latcast: Latcast, seconds: Path
    ) -> None:
        command = ("data", "import", "benchmark", seconds, "--on", self.PLATFORM, "-o", "few.jsonl")

        assert latcast(*command).code == 0
        assert "say what they are with --latency-unit" in latcast(*ADD, "-m", "few.jsonl", "-o", "s11.zip").err
        seconds.write_text(seconds.read_text().replace("latency_ms", "latency_s"))
        assert latcast(*command).code == 0
        assert [item.latency_ms for item in jsonlines.read("few.jsonl")] == pytest.approx([98.6, 24.5, 33.2])

    @pytest.mark.parametrize(
        "arguments",
        [
            (*ADD, "-m", "few.csv", "--latency-unit", "h", "-o", "s11.zip"),
            ("data", "import", "usc", ".", "--on", "p/tflite-2.17/cpu1/fp32"),
        ],
    )
    def test_a_wrong_call_exits_with_2(self, latcast: Latcast, seconds: Path, arguments: tuple[object, ...]) -> None:
        assert latcast(*arguments).code == 2
