"""Output that is cut off, of no known tool, or of something else than is said of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from latcast.datasets.importers.benchmark_tools import output_files, read_outputs
from latcast.datasets.importers.benchmark_tools.manifest import KitManifest, KitNetwork
from latcast.errors import DatasetError
from latcast.records import Platform
from latcast.spaces.catalogue import model

RECORDED = Path(__file__).parent / "recorded"

KIT = KitManifest((KitNetwork("squeezenet1_1", model("squeezenet1_1")),))

PLATFORMS = {
    "tflite.txt": "pixel4/tflite-2.17/cpu1/fp32",
    "tflite_profile.txt": "pixel4/tflite-2.10/cpu4/fp32",
    "tflite_profile_xnnpack.txt": "pixel4/tflite-2.17/cpu1/fp32",
    "benchncnn_param.txt": "pixel4/ncnn-1.0/gpu/fp16",
    "onnxruntime_perf_test.txt": "board/onnxruntime-1.31/cpu1/fp32",
    "benchmark_app.txt": "xeon/openvino-2026.4/cpu1/fp32",
    "benchmark_app_cpp.txt": "nuc/openvino-2024.6/gpu/fp16",
}


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "squeezenet1_1.txt"
    file.write_text(text)
    return file


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


@pytest.mark.parametrize("name", PLATFORMS)
def test_output_cut_off_anywhere_is_refused_with_file_and_line_or_was_whole_already(tmp_path: Path, name: str) -> None:
    text, platform = recorded(name), Platform.parse(PLATFORMS[name])
    [whole] = read_outputs([written(tmp_path, text)], kit=KIT, platform=platform).measurements
    reasons: list[tuple[int, str]] = []
    for end in range(0, len(text), 17):
        file = written(tmp_path, text[:end])
        try:
            [found] = read_outputs([file], kit=KIT, platform=platform).measurements
        except DatasetError as problem:
            reasons.append((text[:end].count("\n") + 1, str(problem)))
        else:
            assert (found.latency_ms, found.executed) == (whole.latency_ms, whole.executed)
    assert len(reasons) > 5
    for lines, reason in reasons:
        number = re.fullmatch(rf"{re.escape(str(file))}:(\d+): .*", reason)
        assert number, reason
        assert int(number[1]) <= lines


@pytest.mark.parametrize("text", ["", "adb: device offline\n"])
def test_output_of_no_known_tool_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DatasetError, match=r"squeezenet1_1.txt:1: no output of a known tool; expected that of TFLite's"):
        read_outputs([written(tmp_path, text)], kit=KIT)


def test_a_run_that_was_announced_and_wrote_something_else_is_refused(tmp_path: Path) -> None:
    first = f"# latcast network=squeezenet1_1 device=p\n{recorded('tflite.txt')}"
    text = f"{first}# latcast network=other device=p\nSegmentation fault\n"

    with pytest.raises(
        DatasetError, match=r":\d+: no output .*; the run of 'other' that is announced before wrote something else"
    ):
        read_outputs([written(tmp_path, text)], kit=KIT)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"\x00\xff\xfe\x93")

    with pytest.raises(DatasetError, match="found bytes that are no text in UTF-8"):
        read_outputs([file])
    with pytest.raises(DatasetError, match="cannot read"):
        read_outputs([tmp_path / "missing.txt"])


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("tflite.txt", "median=23905", "median=0", "17: the median is 0; expected a finite number above 0"),
        ("tflite.txt", "avg=23958.2 ", "avg=nan ", "17: the average is nan"),
        ("tflite_profile.txt", "2.031\t    2.036", "2.031\t    soon", "43: .*; expected 7 numbers and a name"),
        ("tflite_profile.txt", "[relu_0]:0", f"[relu_0]:{'9' * 5000}", "43: .* holds a value that is not a number"),
        ("tflite_profile.txt", "[times called]\t[Name]\n\t                 CONV_2D\t            0", "[Name]\n\tC\t 0",
         "42: the profile has the columns .*; expected node type, avg ms, times called, Name"),
        ("benchncnn_param.txt", "avg =    8.90", "avg =   18.90", "6: the mean 18.9 does not lie between the smallest 8.66"),
        ("benchncnn_param.txt", "num_threads = 1\n", "", "5: num_threads is not said before the first network"),
        ("benchmark_app.txt", "batch size: 1", "batch size: 8", "73: a batch of 8; expected 1"),
        ("onnxruntime_perf_test.txt", "P50 Latency: 0.0167086", "P50 Latency: inf", "16: the median is inf"),
    ],
)  # fmt: skip
def test_impossible_values_are_refused(tmp_path: Path, name: str, old: str, new: str, reason: str) -> None:
    text = recorded(name)
    assert old in text

    with pytest.raises(DatasetError, match=rf"squeezenet1_1.txt:{reason}"):
        read_outputs([written(tmp_path, text.replace(old, new))], kit=KIT, platform=Platform.parse(PLATFORMS[name]))


@pytest.mark.parametrize(
    ("name", "platform", "reason"),
    [
        ("tflite.txt", "p/ncnn-1.0/cpu1/fp32", "is a platform of ncnn; expected tflite"),
        ("tflite.txt", "p/tflite-2.17/2large/fp32", "it ran on 1 threads, and the unit .* has 2"),
        ("benchncnn_param.txt", "p/ncnn-1.0/cpu1/fp32", "it ran on a GPU, and the unit .* is cpu1"),
        ("benchmark_app.txt", "p/openvino-2025.1/cpu1/fp32", "it ran on version 2026.4, and .* is of 2025.1"),
    ],
)
def test_a_platform_that_it_did_not_run_on_is_refused(tmp_path: Path, name: str, platform: str, reason: str) -> None:
    with pytest.raises(DatasetError, match=reason):
        read_outputs([written(tmp_path, recorded(name))], kit=KIT, platform=Platform.parse(platform))


class TestPlatformsFromTheKit:
    def read(self, tmp_path: Path, header: str, name: str = "tflite.txt") -> str:
        file = written(tmp_path, f"# latcast {header}\n{recorded(name)}")
        return read_outputs([file], kit=KIT).measurements[0].platform

    @pytest.mark.parametrize(
        ("header", "platform"),
        [
            # Device, version and precision are the script's, threads the tool's.
            ("device=My_Pixel-4 version=2.17 threads=4 precision=int8", "my_pixel-4/tflite-2.17/cpu1/int8"),
            ("device=rpi5", "rpi5/tflite-unstated/cpu1/fp32"),
            ("device=s10 version=2.10 unit=1large runtime=litert", "s10/litert-2.10/1large/fp32"),
        ],
    )
    def test_what_the_script_does_not_say_the_tool_does(self, tmp_path: Path, header: str, platform: str) -> None:
        assert self.read(tmp_path, header) == platform

    @pytest.mark.parametrize(
        ("header", "reason"),
        [("network=squeezenet1_1", "which device it is of; name the platform with --on"), ("device=s10 unit=/", "a platform id")],
    )
    def test_a_device_that_is_not_said_and_a_malformed_unit_are_refused(self, tmp_path: Path, header: str, reason: str) -> None:
        with pytest.raises(DatasetError, match=reason):
            self.read(tmp_path, header)

    def test_without_threads_the_platform_must_be_named(self, tmp_path: Path) -> None:
        text = recorded("onnxruntime_perf_test.txt").replace("Setting intra_op_num_threads to 1\n", "")
        file = written(tmp_path, f"# latcast device=board\n{text}")

        with pytest.raises(DatasetError, match="does not say on how many threads it ran"):
            read_outputs([file], kit=KIT)


class TestNetworks:
    def test_a_published_network_is_recognised_by_name_with_a_note(self) -> None:
        found = read_outputs([RECORDED / "tflite.txt"], platform=Platform.parse(PLATFORMS["tflite.txt"]))

        assert found.measurements[0].reference == model("squeezenet1_1")
        [note] = found.notes
        assert "files that are not here are taken for the published networks" in note

    def test_an_unknown_network_is_refused(self, tmp_path: Path) -> None:
        file = written(tmp_path, recorded("tflite.txt").replace("squeezenet1_1.tflite", "mystery.tflite"))

        with pytest.raises(DatasetError, match=r":17: the network 'mystery' is not known: put the model's file"):
            read_outputs([file], platform=Platform.parse(PLATFORMS["tflite.txt"]))
        with pytest.raises(DatasetError, match=r":17: the kit has no network 'mystery'; it has squeezenet1_1"):
            read_outputs([file], kit=KIT, platform=Platform.parse(PLATFORMS["tflite.txt"]))

    def test_a_file_that_is_here_is_itself(self, tmp_path: Path) -> None:
        (tmp_path / "own.tflite").write_bytes(b"a model")
        file = written(
            tmp_path, recorded("tflite.txt").replace("/data/local/tmp/latcast/networks/squeezenet1_1", f"{tmp_path}/own")
        )

        [found] = read_outputs([file], platform=Platform.parse(PLATFORMS["tflite.txt"])).measurements

        assert (found.reference.space, found.reference.name) == ("file", "own")


def test_openvino_s_microseconds_are_read(tmp_path: Path) -> None:
    text = recorded("benchmark_app.txt").replace("Median:        27.21 ms", "Median:        768.80 us")

    [found] = read_outputs(
        [written(tmp_path, text)], kit=KIT, platform=Platform.parse(PLATFORMS["benchmark_app.txt"])
    ).measurements

    assert found.latency_ms == pytest.approx(0.7688)


def test_a_log_of_several_runs_gives_all_of_them_also_with_windows_line_ends(tmp_path: Path) -> None:
    second = recorded("tflite.txt").replace("median=23905", "median=47810")
    file = tmp_path / "squeezenet1_1.txt"
    file.write_bytes((recorded("tflite.txt") + second).replace("\n", "\r\n").encode("utf-16"))

    found = read_outputs([file], kit=KIT, platform=Platform.parse(PLATFORMS["tflite.txt"])).measurements

    assert [each.latency_ms for each in found] == pytest.approx([23.905, 47.81])


def test_a_log_may_hold_runs_of_several_tools(tmp_path: Path) -> None:
    header = "# latcast network=squeezenet1_1 device=board threads=1\n"
    text = "".join(header + recorded(name) for name in ("tflite.txt", "onnxruntime_perf_test.txt", "benchmark_app.txt"))

    found = read_outputs([written(tmp_path, text)], kit=KIT)

    assert [each.platform.split("/")[1] for each in found.measurements] == [
        "tflite-unstated", "onnxruntime-unstated", "openvino-2026.4",
    ]  # fmt: skip
    assert [len(tools) for tools in found.tools.values()] == [3]


class TestFiles:
    def test_only_the_results_of_a_kit_s_folder_are_read(self, tmp_path: Path) -> None:
        KIT.write(tmp_path)
        (tmp_path / "README.txt").write_text("")
        (tmp_path / "results" / "board").mkdir(parents=True)
        (tmp_path / "results" / "board" / "b.log").write_text("")
        (tmp_path / "results" / "a.txt").write_text("")
        (tmp_path / "results" / "c.json").write_text("")

        assert output_files([tmp_path]) == [tmp_path / "results" / "a.txt", tmp_path / "results" / "board" / "b.log"]

    def test_a_folder_without_results_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match=r"found no file \.txt or \.log; name what a benchmark tool printed"):
            output_files([tmp_path])

    def test_of_a_kit_that_was_not_run_its_script_is_named(self, tmp_path: Path) -> None:
        KIT.write(tmp_path)

        with pytest.raises(DatasetError, match=r"results holds no results: .*; run the kit's script on the device first"):
            output_files([tmp_path])


class TestManifest:
    def test_a_manifest_survives_its_file(self, tmp_path: Path) -> None:
        written = KitManifest(
            (KitNetwork("a", model("squeezenet1_1"), {"onnx": ("a.onnx",)}, (1, 3, 224, 224)),), "int8", {"method": "random"}
        )
        written.write(tmp_path)

        assert KitManifest.read(tmp_path) == written

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (None, "is not a kit: cannot read manifest.json"), ('{"schema": 99}', "found schema 99, expected 1 or older"),
            ('{"schema": 1}', "is not a manifest of a kit: 'networks'"), ("[]", "is not a manifest of a kit"),
        ],
    )  # fmt: skip
    def test_a_missing_or_malformed_manifest_is_refused(self, tmp_path: Path, text: str | None, reason: str) -> None:
        if text is not None:
            (tmp_path / "manifest.json").write_text(text)

        with pytest.raises(DatasetError, match=reason):
            KitManifest.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model,latency_ms\nresnet18," + "1" * 10_000, r"x\.csv:2: found a line of 10,009 characters, expected at most 10,000"),
        ("\n" * 100_000, r"x\.csv: found more than 100,000 lines"),
        ("model,latency_ms\n" + "resnet18,x\n" * 1000, r"at least 499 more refused: lines 3-501"),
        ("model,latency_ms\n" + "".join(f"none{n},1\n" for n in range(1000)), r"at least 499 more refused: lines 3-501"),
        ('{"model":' * 1000, "found the header"),
        (f"model,latency_ms\n{'a' * 5000},1.5\n", r"x\.csv:2: the network 'aaa"),
    ],
)
def test_files_beyond_the_limits_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)

    with pytest.raises(DatasetError, match=reason):
        read_outputs([path], platform=Platform.parse("phone/tflite-2.10/cpu1/fp32"))
