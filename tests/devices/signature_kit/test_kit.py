"""Kits, and what their scripts do with tools that only print."""

from __future__ import annotations

import shlex
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from latcast.datasets.importers.benchmark_tools import KitManifest, output_files, read_outputs
from latcast.devices.device_model_file import load_device_model
from latcast.devices.measured_files import read_measured
from latcast.devices.signature_kit import FORMATS, Kit, example_of, write_kit
from latcast.errors import DatasetError
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_macs
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import build, model

RECORDED = Path(__file__).parents[2] / "datasets" / "importers" / "benchmark_tools" / "recorded"

NAMES = ("mobilenet_v1_0_25", "squeezenet1_1")


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return write_kit([model(name) for name in NAMES], tmp_path_factory.mktemp("kits") / "kit", chosen={"by": "name"})


def tool(folder: Path, name: str, script: str) -> None:
    """An executable that answers as a tool would."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def recording(folder: Path, name: str, recorded: str, *, stream: str = "") -> None:
    """A tool that keeps how it was called and prints a recording."""
    tool(folder, name, f'echo "$0 $@" >> "{folder}/calls"\ncat "{RECORDED / recorded}" {stream}')


def run(kit: Kit, *options: str, script: str = "measure.sh", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(kit.folder / script), *options], capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", **variables},
    )  # fmt: skip


def calls(folder: Path) -> list[str]:
    return [line.partition(" ")[2] for line in (folder / "calls").read_text().splitlines()]


def test_a_kit_holds_each_network_in_every_format(kit: Kit) -> None:
    found = sorted(file.name for file in (kit.folder / "networks").iterdir())

    assert found == sorted(f"{name}{ending}" for name in NAMES for ending in (".tflite", ".onnx", ".ncnn.param", ".ncnn.bin"))
    assert kit.size_bytes == sum(file.stat().st_size for file in (kit.folder / "networks").iterdir())
    assert kit.left_out == ()


def test_its_files_are_the_networks(kit: Kit) -> None:
    def convolutions(file: str) -> int:
        return sum(node.op_type == "Conv" for node in load_graph(kit.folder / "networks" / file).nodes)

    expected = sum(node.op_type == "Conv" for node in build(model("squeezenet1_1")).nodes)
    assert convolutions("squeezenet1_1.onnx") == convolutions("squeezenet1_1.tflite") == expected
    assert (kit.folder / "networks" / "squeezenet1_1.ncnn.param").read_text().startswith("7767517\n")


def test_the_manifest_says_how_to_build_each_network_again(kit: Kit) -> None:
    found = KitManifest.read(kit.folder)

    assert found == kit.manifest
    assert list(found.references.values()) == [model(name) for name in NAMES]
    assert found.networks[0].input_shape == (1, 3, 224, 224)
    assert found.networks[0].files["ncnn"] == ("mobilenet_v1_0_25.ncnn.param", "mobilenet_v1_0_25.ncnn.bin")


def test_the_readme_lists_the_networks_and_the_scripts_can_be_run(kit: Kit) -> None:
    text = (kit.folder / "README.md").read_text()

    assert "| squeezenet1_1 | 1x3x224x224 | tflite, onnx, ncnn |" in text
    assert "@" not in text
    assert all((kit.folder / name).stat().st_mode & stat.S_IXUSR for name in ("measure.sh", "android.sh"))
    assert (kit.folder / "networks.txt").read_text() == "mobilenet_v1_0_25 [224,224,3]\nsqueezenet1_1 [224,224,3]\n"


def test_a_network_that_a_format_cannot_express_is_left_out_there_and_said(tmp_path: Path) -> None:
    found = write_kit([model("squeezenet1_1")], tmp_path / "kit", formats=("onnx",), precision="int8")

    assert found.manifest.networks[0].files == {"onnx": ("squeezenet1_1.onnx",)}
    assert (tmp_path / "kit" / "precision.txt").read_text() == "int8\n"


@pytest.mark.parametrize(
    ("formats", "runtime"), [(("onnx",), "onnxruntime"), (("ncnn",), "ncnn"), (("ncnn", "tflite"), "tflite")]
)
def test_the_readme_s_commands_name_a_runtime_that_reads_the_kit(tmp_path: Path, formats: tuple[str, ...], runtime: str) -> None:
    found = write_kit([model("squeezenet1_1")], tmp_path / "kit", formats=formats)

    text = (tmp_path / "kit" / "README.md").read_text()
    named, version = example_of(found.manifest)
    assert named == runtime
    assert f"measure.sh --device rpi5 --threads 1 --{runtime} {version}" in text
    assert f"device add rpi5 --unit cpu1 --runtime {runtime}-{version}" in text


def test_an_archive_unpacks_to_the_kit_and_is_a_small_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "phones.zip").write_text("an older one")

    found = write_kit([model("squeezenet1_1")], tmp_path / "phones.zip")

    assert [file.name for file in tmp_path.iterdir()] == ["phones.zip"]
    assert found.folder == tmp_path / "phones.zip"
    assert found.archive_bytes == found.folder.stat().st_size < 0.1 * found.size_bytes
    with zipfile.ZipFile(found.folder) as packed:
        packed.extractall(tmp_path)
        scripts = [packed.getinfo(f"phones/{name}").external_attr >> 16 for name in ("measure.sh", "android.sh")]
    assert KitManifest.read(tmp_path / "phones") == found.manifest
    assert sum(file.stat().st_size for file in (tmp_path / "phones" / "networks").iterdir()) == found.size_bytes
    assert (tmp_path / "phones" / "tools").is_dir()
    assert all(mode & stat.S_IXUSR for mode in scripts)


def test_an_archive_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "kit.zip").mkdir()

    with pytest.raises(DatasetError, match=r"cannot write the kit to .*kit\.zip"):
        write_kit([model("mobilenet_v1_0_25")], tmp_path / "kit.zip", formats=("onnx",))
    assert [file.name for file in tmp_path.iterdir()] == ["kit.zip"]


def test_networks_of_one_name_get_files_of_their_own(tmp_path: Path) -> None:
    first, second = Reference("squeezenet", dict(model("squeezenet1_1").parameters), "a/b"), model("mobilenet_v1_0_25")
    second = Reference(second.space, second.parameters, "a b")

    found = write_kit([first, second], tmp_path / "kit", formats=("onnx",))

    assert [network.name for network in found.manifest.networks] == ["a_b", f"a_b-{second.key}"]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("")

    with pytest.raises(DatasetError, match="holds something else than a kit"):
        write_kit([model("squeezenet1_1")], tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.doc"]


def test_a_kit_is_replaced_and_its_results_stay(tmp_path: Path) -> None:
    write_kit([model("squeezenet1_1")], tmp_path, formats=("onnx",))
    (tmp_path / "results" / "mine.txt").write_text("")

    write_kit([model("mobilenet_v1_0_25")], tmp_path, formats=("onnx",))

    assert [file.name for file in (tmp_path / "networks").iterdir()] == ["mobilenet_v1_0_25.onnx"]
    assert (tmp_path / "results" / "mine.txt").exists()


class TestScript:
    @pytest.fixture(autouse=True)
    def nothing_measured(self, kit: Kit) -> None:
        subprocess.run(["rm", "-rf", str(kit.folder / "results"), str(kit.folder / "tools")], check=True)

    def test_every_tool_found_times_every_network_and_results_come_back_as_records(self, kit: Kit, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        recording(tools, "benchmark_model", "tflite.txt")
        # benchncnn prints to the standard error.
        recording(tools, "benchncnn", "benchncnn_param.txt", stream=">&2")
        recording(tools, "benchmark_app", "benchmark_app.txt")
        recording(tools, "onnxruntime_perf_test", "onnxruntime_perf_test.txt")

        done = run(
            kit, "--device", "my board", "--tools", str(tools), "--rounds", "2", "--runs", "7", "--pause", "0", "--tflite", "2.17"
        )

        assert (done.returncode, done.stderr) == (0, "")
        assert "16 measured, 0 failed; results are in results/my-board-cpu1" in done.stdout.splitlines()
        assert sorted(set(calls(tools))) == sorted(
            line.format(name)
            for name in NAMES
            for line in (
                "--graph=networks/{}.tflite --num_threads=1 --num_runs=7",
                "7 1 0 -1 0 param=networks/{}.ncnn.param shape=[224,224,3]",
                "-m networks/{}.onnx -d CPU -nthreads 1 -infer_precision f32 -hint none -nstreams 1 -nireq 1 -api sync -niter 7",
                "-I -s -m times -r 7 -x 1 networks/{}.onnx",
            )
        )
        # The recorded benchncnn ran on a GPU; everything else on one thread.
        found = read_outputs(output_files([kit.folder]), kit=KitManifest.read(kit.folder)).measurements
        assert {(each.platform, each.reference.name) for each in found} == {
            (platform, name)
            for name in NAMES
            for platform in (
                "my-board/tflite-2.17/cpu1/fp32", "my-board/ncnn-unstated/cpu1/fp32", "my-board/openvino-2026.4/cpu1/fp32",
                "my-board/onnxruntime-unstated/cpu1/fp32",
            )
        }  # fmt: skip
        # The commands that it names at its end are of the platforms of the results; what no tool said is any version.
        commands = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("    latcast device add")]
        assert [words[3:] for words in commands] == [
            ["my-board", "--unit", "cpu1", "--runtime", runtime, "--precision", "fp32", "--measured", ".", "-o", "my-board.zip"]
            for runtime in ("tflite-2.17", "ncnn-unstated", "openvino-2026.4", "onnxruntime-unstated")
        ]
        for words in commands:
            platform = Platform.stated(words[3], words[7], words[5], words[9])
            assert [each.name for each in read_measured([kit.folder], platform).networks] == list(NAMES)
        assert len(found) == 16
        assert all(each.taken_at.endswith("Z") for each in found)

    def test_what_is_measured_is_not_measured_again(self, kit: Kit, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        recording(tools, "benchmark_model", "tflite.txt")
        arguments = ("--device", "b", "--tools", str(tools), "--rounds", "1", "--pause", "0")
        run(kit, *arguments)

        again, forced = run(kit, *arguments), run(kit, *arguments, "--again")

        assert "0 measured, 0 failed" in again.stdout
        assert "2 measured, 0 failed" in forced.stdout
        assert len(calls(tools)) == 4

    def test_a_run_that_fails_is_no_result_and_the_rest_goes_on(self, kit: Kit, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        tool(
            tools, "benchmark_model", f'case $* in *mobilenet*) echo "out of memory"; exit 3;; esac\ncat "{RECORDED}/tflite.txt"'
        )

        done = run(kit, "--device", "b", "--tools", str(tools), "--rounds", "1", "--pause", "0")

        assert done.returncode == 1
        assert done.stderr == "measure.sh: benchmark_model failed on mobilenet_v1_0_25; it said: out of memory\n"
        assert [file.name for file in output_files([kit.folder])] == ["squeezenet1_1.1.txt"]

    def test_options_reach_the_tools(self, kit: Kit, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        recording(tools, "benchmark_model", "tflite_profile.txt")
        recording(tools, "benchncnn", "benchncnn_param.txt")

        done = run(kit, "--device", "b", "--tools", str(tools), "--rounds", "1", "--pause", "0", "--gpu", "--profile")

        assert done.returncode == 0, done.stderr
        assert (
            "--graph=networks/squeezenet1_1.tflite --num_threads=1 --num_runs=50 --use_gpu=true --enable_op_profiling=true"
            in calls(tools)
        )
        assert "50 1 0 0 0 param=networks/squeezenet1_1.ncnn.param shape=[224,224,3]" in calls(tools)
        assert (kit.folder / "results" / "b-gpu" / "benchmark_model" / "squeezenet1_1.1.profile.txt").is_file()

    def test_chosen_cores_are_the_unit(self, kit: Kit, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        recording(tools, "benchmark_model", "tflite.txt")

        done = run(
            kit,
            "--device",
            "b",
            "--tools",
            str(tools),
            "--rounds",
            "1",
            "--pause",
            "0",
            "--cpus",
            "1",
            "--unit",
            "1large",
            "--tflite",
            "2.10",
        )

        assert done.returncode == 0, done.stderr
        found = read_outputs(output_files([kit.folder]), kit=KitManifest.read(kit.folder)).measurements
        assert {each.platform for each in found} == {"b/tflite-2.10/1large/fp32"}
        assert found[0].environment["device"]["cpus"] == "1"

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ((), "name this device with --device, such as --device rpi5"),
            (("--device",), "--device wants a value; sh measure.sh --help shows how"),
            (("--device", "b", "--threads", "many"), "'many' is no number"),
            (("--nosuch",), "unknown option --nosuch; sh measure.sh --help shows all"),
            (("--device", "b"), "found none of the tools in tools or on the PATH; README.md says where they come from"),
        ],
    )
    def test_a_wrong_call_is_said_in_one_line(self, kit: Kit, options: tuple[str, ...], reason: str) -> None:
        done = run(kit, *options)

        assert (done.returncode, done.stderr) == (1, f"measure.sh: {reason}\n")

    def test_help_shows_every_option(self, kit: Kit) -> None:
        done = run(kit, "--help")

        assert done.returncode == 0
        for name in (
            "device",
            "threads",
            "gpu",
            "tools",
            "only",
            "tflite",
            "ncnn",
            "onnxruntime",
            "unit",
            "cpus",
            "rounds",
            "runs",
        ):
            assert f"--{name}" in done.stdout


class TestAndroid:
    """With an adb that keeps the phone's files in a folder."""

    @pytest.fixture
    def phone(self, kit: Kit, tmp_path: Path) -> Path:
        subprocess.run(["rm", "-rf", str(kit.folder / "results")], check=True)
        (kit.folder / "tools").mkdir(exist_ok=True)
        recording(kit.folder / "tools", "benchmark_model", "tflite.txt")
        root = tmp_path / "phone"
        root.mkdir()
        there = f"sed 's#/data/local/tmp#{root}#g'"
        tool(
            tmp_path,
            "adb",
            f"""
            case $1 in
                get-state) echo device ;;
                push) cp -r "$2" "$(echo "$3" | {there})" ;;
                pull) cp -r "$(echo "$2" | {there})" "$3" ;;
                shell)
                    shift
                    case $* in
                        *ro.product.model*) printf 'Pixel 4\\r\\n' ;;
                        *) sh -c "$(echo "$*" | {there})" ;;
                    esac
                    ;;
            esac""",
        )
        return tmp_path / "adb"

    def test_a_phone_is_measured_and_its_results_fetched(self, kit: Kit, phone: Path) -> None:
        done = run(kit, "--rounds", "1", "--pause", "0", "--tflite", "2.17", script="android.sh", ADB=str(phone))

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == "fetched into results"
        found = read_outputs(output_files([kit.folder]), kit=KitManifest.read(kit.folder)).measurements
        assert {each.platform for each in found} == {"pixel-4/tflite-2.17/cpu1/fp32"}
        assert {each.reference.name for each in found} == set(NAMES)

    def test_options_are_quoted_for_the_phone_s_shell(self, kit: Kit, phone: Path) -> None:
        done = run(kit, "--rounds", "1", "--pause", "0", "--device", "it's; exit 7", script="android.sh", ADB=str(phone))

        assert done.returncode == 0, done.stderr
        assert {file.parent.parent.name for file in output_files([kit.folder])} == {"it's;-exit-7-cpu1"}

    def test_without_a_phone_it_says_so(self, kit: Kit, tmp_path: Path) -> None:
        tool(tmp_path, "adb", "exit 1")

        done = run(kit, script="android.sh", ADB=str(tmp_path / "adb"))

        assert done.returncode == 1
        assert done.stderr == "android.sh: no phone answers: connect one with USB debugging on, and allow it there\n"

    def test_without_adb_it_says_so(self, kit: Kit) -> None:
        done = run(kit, script="android.sh", ADB="/nosuch/adb")

        assert done.stderr == "android.sh: adb is not installed; it is part of the Android SDK Platform-Tools\n"


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_file_of_the_whole_kit_is_read_as_the_network_that_it_was_written_from(
    form: str, precision: str, tmp_path: Path
) -> None:
    """Each file has about as many multiply-accumulates as the network that was written."""
    unlike = {}
    for reference in load_device_model().signature:
        kit = write_kit([reference], tmp_path / "kit", formats=[form], precision=precision)
        [network] = kit.manifest.networks
        found = graph_macs(load_graph(kit.folder / "networks" / network.files[form][0]))
        expected = graph_macs(build(reference))
        if abs(found / expected - 1) > 0.01:
            unlike[network.name] = found / expected

    assert unlike == {}
