"""``latcast device``: choose networks, run them elsewhere, predict the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from latcast import advise, check, choose, compare, explain, memory, predict, predict_many
from latcast.datasets import jsonlines
from latcast.datasets.importers.benchmark_tools import KitManifest
from latcast.records import PUBLISHED_PRECISIONS, Measurement
from latcast.spaces.catalogue import build, model
from tests.cli.conftest import Latcast

NEW = 3

ADD = ("device", "add", "pi5", "--unit", "cpu4", "--runtime", "tflite-2.16", "--precision", "fp32")


class TestAdd:
    @pytest.mark.parametrize("precision", PUBLISHED_PRECISIONS)
    def test_a_device_of_any_precision_is_added_and_shown(self, latcast: Latcast, tmp_path: Path, precision: str) -> None:
        bundle = tmp_path / "board.zip"
        (tmp_path / "few.csv").write_text("model,latency_ms\nmobilenet_v2,40\nresnet18,120\n")

        added = latcast(
            "device", "add", "my_board", "-u", "npu", "-r", "qnn-unstated", "-p", precision, "-m", tmp_path / "few.csv",
            "-o", bundle, "--json",
        )  # fmt: skip
        shown = latcast("platforms", "show", bundle, "--json").json["platforms"][0]["throughputs"]

        assert added.json["platform"] == f"my_board/qnn-unstated/npu/{precision}"
        # Of other precisions some class of kernels takes the longer, the more it moves.
        assert any(each["activation_gb_per_s"] is not None for each in shown) == (precision != "unstated")
        assert any(each["gflop_per_s"] for each in shown)

    @pytest.mark.parametrize(
        ("option", "value", "reason"),
        [
            ("--unit", "cpux", "'cpux' is no unit; expected one such as cpu4"),
            ("--unit", "4threads", "'4threads' is no unit"),
            ("--chip", "Snapdragon 8 Gen 9", "no one chip is called 'Snapdragon 8 Gen 9'; nearest: Snapdragon 8 Gen"),
            ("--chip", "Mali-G72", "no one chip is called 'Mali-G72'; it may mean Exynos 9609, "),
            ("--precision", "fp33", "'fp33' is not one of: fp32, fp16"),
        ],
    )
    def test_what_is_no_unit_chip_or_precision_is_refused(
        self, latcast: Latcast, tmp_path: Path, option: str, value: str, reason: str
    ) -> None:
        found = latcast(*ADD, option, value, "-o", tmp_path / "board.zip")

        assert found.code == 2
        assert reason in found.err

    def test_a_missing_file_of_speeds_is_named_before_a_precision_is_asked_for(self, latcast: Latcast, tmp_path: Path) -> None:
        found = latcast("device", "add", "my-phone", "-u", "cpu4", "-r", "llama.cpp", "-m", tmp_path / "llama-bench.jsonl")

        assert found.code == 1
        assert "there is no file" in found.err
        assert "precision" not in found.err

    def test_units_are_read_in_any_case_and_a_bundle_is_advised_on(self, latcast: Latcast, tmp_path: Path) -> None:
        bundle = tmp_path / "board.zip"
        added = latcast("device", "add", "pixel6", "-u", "GPU", "-r", "tflite", "-p", "fp16", "-o", bundle, "--json").json

        assert added["platform"] == "pixel6/tflite-unstated/gpu/fp16"
        [advised] = latcast("advise", "resnet18", "--on", bundle, "--json").json["platforms"]
        assert advised["platform"] == added["platform"]

    def test_an_added_device_keeps_the_id_of_its_measurements(self, latcast: Latcast, tmp_path: Path) -> None:
        platform, bundle = "my_board/tflite-2.16/cpu4/fp32", tmp_path / "board.zip"
        for file, latencies_ms in (("few", {"mobilenet_v2": 40.0}), ("others", {"resnet18": 120.0, "mnasnet1_0": 42.0})):
            measured = [Measurement(platform, model(name), latency_ms=ms) for name, ms in latencies_ms.items()]
            jsonlines.write(tmp_path / f"{file}.jsonl", measured)

        added = latcast("device", "add", "my_board", *ADD[3:], "--measured", tmp_path / "few.jsonl", "-o", bundle, "--json").json
        found = latcast("evaluate", bundle, tmp_path / "others.jsonl", "--json").json

        assert added["platform"] == found["platform"] == platform
        assert {each["model"] for each in found["per_network"]} == {"resnet18", "mnasnet1_0"}

    def test_a_device_from_a_csv_file_predicts_any_network(self, latcast: Latcast, tmp_path: Path) -> None:
        few = tmp_path / "few.csv"
        few.write_text("model,latency_ms\nmobilenet_v2,40\nresnet18,120\nsqueezenet1_1,30\nresnet50,270\nmnasnet1_0,42\n")

        added = latcast(*ADD, "--measured", few, "-o", tmp_path / "board.zip", "--json").json
        found = latcast("predict", "resnet34", "mobilenet_v2", "--on", tmp_path / "board.zip", "--json").json["predictions"]

        assert (added["platform"], added["measured"]) == ("pi5/tflite-2.16/cpu4/fp32", 5)
        assert [each["model"] for each in found] == ["resnet34", "mobilenet_v2"]
        # Twice the work of resnet18, whose blocks it has.
        assert 170 < found[0]["latency_ms"] < 290
        assert found[0]["low_ms"] < 230 < found[0]["high_ms"]
        assert found[1]["low_ms"] < 40 < found[1]["high_ms"]

    def test_a_device_is_judged_by_a_table_of_what_else_was_timed_there(self, latcast: Latcast, tmp_path: Path) -> None:
        few, more, bundle = tmp_path / "few.csv", tmp_path / "more.csv", tmp_path / "board.zip"
        few.write_text("model,latency_ms\nresnet18,120\n")
        more.write_text("Network;time (s)\nresnet34;0,23\nResNet-18;0,12\nvgg16;1,1\n")
        latcast(*ADD, "--measured", few, "-o", bundle)

        found = latcast("evaluate", bundle, more, "--json").json

        predicted = predict_many(["resnet34", "vgg16"], on=bundle)
        errors = [abs(each.latency_ms / actual_ms - 1) for each, actual_ms in zip(predicted, (230, 1100), strict=True)]
        assert {each["model"]: each["measured_ms"] for each in found["per_network"]} == {"resnet34": 230, "vgg16": 1100}
        assert found["mape"] == pytest.approx(50 * sum(errors), rel=1e-3)
        assert "few.csv:1: not JSON" in latcast("train", few).err

    def test_a_name_means_the_same_network_to_predict_as_in_the_table_of_measured_ones(
        self, latcast: Latcast, tmp_path: Path
    ) -> None:
        few, bundle = tmp_path / "few.csv", tmp_path / "board.zip"
        few.write_text("model,latency_ms\nResNet-18,120\nmobilenet_v2,40\nvgg16,900\n")
        latcast("device", "add", "pi5", "-u", "cpu4", "-r", "ncnn", "-p", "fp32", "--measured", few, "-o", bundle)

        names = (
            "resnet50",
            "ncnn_benchmark/resnet50",
            "MobileNet v3",
            "ncnn_benchmark/mobilenet_v3",
            "timm/resnet50",
            "resnet18",
        )
        found = latcast("predict", *names, "--on", bundle, "--json").json["predictions"]

        latency_ms = [each["latency_ms"] for each in found]
        assert (latency_ms[0], latency_ms[2]) == (latency_ms[1], latency_ms[3])
        assert latency_ms[4] != latency_ms[0]
        assert found[0]["model"] == "resnet50"
        assert latency_ms[5] == pytest.approx(120)
        chosen = {each.name: each.latencies[0].latency_ms for each in choose(bundle).candidates}
        assert (chosen["resnet50"], chosen["timm/resnet50"]) == pytest.approx((latency_ms[0], latency_ms[4]))

    def test_a_name_means_the_same_network_to_every_command(self, latcast: Latcast, tmp_path: Path) -> None:
        few, bundle = tmp_path / "few.csv", tmp_path / "phone.zip"
        few.write_text("model,latency_ms\nresnet50,1.2\nmobilenet_v2,0.4\n")
        latcast("device", "add", "galaxy s23", "-u", "npu", "-r", "qnn", "-p", "int8", "-m", few, "-o", bundle)

        for name, there, usual in (
            ("inception_v3", "aihub/inception_v3", "timm/inception_v3"),
            ("efficientnet_b4", "aihub/efficientnet_b4", "timm/efficientnet_b4"),
            ("shufflenet_v2", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0"),
        ):
            expected, other = (each.latency_ms for each in predict_many([there, usual], on=bundle))
            [to_check] = check([name], max_ms=1, on=bundle).checks
            [of_base] = check([there], against=name, on=bundle).checks
            [candidate] = choose(bundle, models=[name]).candidates
            found = [
                predict(name, on=bundle).latency_ms, to_check.latency_ms, of_base.base_ms, compare(name, there, on=bundle).a_ms,
                explain(name, on=bundle).prediction.latency_ms, advise(name, on=str(bundle)).choices[0].latency_ms,
                candidate.latencies[0].latency_ms,
            ]  # fmt: skip
            assert found == pytest.approx([expected] * len(found))
            assert expected != pytest.approx(other)
            assert memory(name, on=bundle) == memory(there, on=bundle) != memory(usual, on=bundle)

    def test_a_device_without_measurements_is_added_with_a_warning(self, latcast: Latcast, tmp_path: Path) -> None:
        found = latcast(*ADD, "-o", tmp_path / "board.zip")

        assert found.code == 0
        assert "nothing was measured on this device" in found.err

    def test_a_device_added_without_a_bundle_is_known_by_its_name(self, latcast: Latcast, tmp_path: Path, home: Path) -> None:
        few = tmp_path / "few.csv"
        few.write_text("model,latency_ms\nmobilenet_v2,40\nresnet18,120\n")

        added = latcast("device", "add", "my_board", *ADD[3:], "--measured", few, "--json").json
        found = latcast("predict", "resnet18", "--on", "my_board", "--json").json["predictions"]

        assert Path(added["bundle"]).is_relative_to(home)
        assert [each["platform"] for each in found] == ["my_board/tflite-2.16/cpu4/fp32"]

    def test_a_value_that_the_others_contradict_is_named_and_kept(self, latcast: Latcast, tmp_path: Path) -> None:
        few = tmp_path / "few.csv"
        few.write_text(
            "model,latency_ms\nmobilenet_v2,40\nresnet18,120\nsqueezenet1_1,30\nresnet50,270\nmnasnet1_0,42\nresnet34,2300\n"
            "mobilenet_v1,70\nshufflenet_v2_x1_0,22\n"
        )

        added = latcast(*ADD, "--measured", few, "-o", tmp_path / "board.zip", "--json")
        found = added.json

        assert "counted for little, as the others contradict it: resnet34 (few.csv:7): 2300 ms" in added.err
        assert [each["name"] for each in found["misfits"]] == ["resnet34"]
        assert found["misfits"][0]["places"] == ["few.csv:7"]
        assert found["measured"] == 8

    def test_seconds_are_refused_until_somebody_says_so(self, latcast: Latcast, tmp_path: Path) -> None:
        few = tmp_path / "few.csv"
        few.write_text("model,latency_ms\nmobilenet_v2,0.040\nresnet18,0.120\nsqueezenet1_1,0.030\n")

        refused = latcast(*ADD, "--measured", few, "-o", tmp_path / "board.zip")
        said = latcast(*ADD, "--measured", few, "--latency-unit", "s", "-o", tmp_path / "board.zip")

        assert (refused.code, said.code) == (1, 0)
        assert "--latency-unit ms, s or us" in refused.err.splitlines()[-1]

    def test_a_runtime_without_a_version_is_unstated(self, latcast: Latcast, tmp_path: Path) -> None:
        found = latcast("device", "add", "pi5", "-u", "gpu", "-r", "ncnn", "-p", "fp16", "-o", tmp_path / "b", "--json").json

        assert found["platform"] == "pi5/ncnn-unstated/gpu/fp16"

    @pytest.mark.parametrize(
        ("name", "chip", "unit", "runtime"),
        [
            ("S24 Ultra", "snapdragon 8 gen 3", "cpu4", "tflite"), ("M2 MacBook Air", "apple m2", "cpu4", "tflite"),
            ("S24", "snapdragon 8 gen 3", "npu", "qairt"),  # runs on Qualcomm's alone: not the one with an Exynos
            ("Adreno 750", "snapdragon 8 gen 3", "gpu", "tflite"), ("pi5", "Broadcom BCM2712", "cpu4", "TensorFlow Lite"),
        ],
    )  # fmt: skip
    def test_a_device_is_known_by_the_names_that_predict_takes(
        self, latcast: Latcast, tmp_path: Path, name: str, chip: str, unit: str, runtime: str
    ) -> None:
        latency_ms = []
        for arguments in ((name, "-r", runtime, "-p", "FP32"), ("my own", "--chip", chip, "-r", runtime.lower(), "-p", "fp32")):
            add = ("device", "add", *arguments, "-u", unit, "-o", tmp_path / "b.zip")
            assert latcast(*add).code == 0
            found = latcast("predict", "resnet18", "--on", tmp_path / "b.zip", "--json").json["predictions"]
            latency_ms.append(found[0]["latency_ms"])

        assert latency_ms[0] == latency_ms[1]

    def test_a_device_of_which_nothing_is_known_is_refused_until_its_chip_is_named(
        self, latcast: Latcast, tmp_path: Path
    ) -> None:
        add = ("device", "add", "my server", "-u", "gpu", "-r", "tensorrt", "-p", "fp32", "-o", tmp_path / "b.zip")

        refused, named = latcast(*add), latcast(*add, "--chip", "Tesla V100")

        assert (refused.code, named.code) == (2, 0)
        assert "its chip is not known; name it with --chip" in refused.err
        of_two = latcast("device", "add", "M1", *ADD[3:], "-o", tmp_path / "b.zip").err
        assert "its chip is not known; it may mean Apple M1, SpacemiT M1, " in of_two


class TestShow:
    def test_names_the_nearest_platforms_and_what_more_would_tell(self, latcast: Latcast, tmp_path: Path) -> None:
        few = tmp_path / "few.csv"
        few.write_text("model,latency_ms\nmobilenet_v2,40\nresnet18,120\nsqueezenet1_1,30\n")
        latcast(*ADD, "--measured", few, "-o", tmp_path / "board.zip")

        found = latcast("device", "show", tmp_path / "board.zip", "--json").json
        table = latcast("device", "show", tmp_path / "board.zip").out

        assert len(found["nearest"]) == 5
        assert all(each["factor"] > 0 for each in found["nearest"])
        assert found["more"]["with_ten_more"] < found["more"]["typical_high_over_latency"]
        assert not {"mobilenet_v2", "resnet18", "squeezenet1_1"} & set(found["more"]["networks"])
        assert "GFLOP/s" in table

    def test_a_profiled_platform_is_shown_elsewhere(self, latcast: Latcast, bundle: Path) -> None:
        found = latcast("device", "show", bundle)

        assert found.code == 2
        assert "latcast platforms show" in found.err


class TestSuggest:
    def test_each_network_narrows_the_interval_further(self, latcast: Latcast) -> None:
        found = latcast("device", "suggest", "-n", "4", "--unit", "gpu", "--json").json

        reach = [found["high_over_latency"], *(each["high_over_latency"] for each in found["networks"])]
        assert len(reach) == 5
        assert reach == sorted(reach, reverse=True)

    def test_networks_that_are_too_large_to_carry_are_left_out(self, latcast: Latcast) -> None:
        found = latcast("device", "suggest", "-n", "3", "--max-mb", "6", "--json").json

        assert all(build(model(each["name"])).parameter_count <= 1.5e6 for each in found["networks"])


class TestKit:
    def test_named_networks_are_written(self, latcast: Latcast, tmp_path: Path) -> None:
        found = latcast("device", "kit", "squeezenet1_1", "-o", tmp_path / "kit", "--formats", "onnx,ncnn", "--json").json

        assert [each["name"] for each in found["networks"]] == ["squeezenet1_1"]
        assert set(found["networks"][0]["files"]) == {"onnx", "ncnn"}
        assert KitManifest.read(tmp_path / "kit").references == {"squeezenet1_1": model("squeezenet1_1")}
        assert (tmp_path / "kit" / "measure.sh").is_file()

    def test_an_archive_tells_both_sizes_and_what_to_run(self, latcast: Latcast) -> None:
        found = latcast("device", "kit", "squeezenet1_1", "-o", "kit.zip", "--formats", "onnx")
        as_json = latcast("device", "kit", "squeezenet1_1", "-o", "kit.zip", "--formats", "onnx", "--json").json

        assert re.match(r"kit\.zip: 1 network in fp32, 0\.\d MB, unpacked 5 MB\n", found.out)
        assert "Unpack it (unzip kit.zip). Put the tools into kit/tools" in found.out
        assert "    sh kit/measure.sh --device rpi5" in found.out
        assert "--runtime onnxruntime-" in found.out
        assert as_json["archive_bytes"] == Path("kit.zip").stat().st_size < 0.1 * as_json["size_bytes"]
