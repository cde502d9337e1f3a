"""``latcast device``: choose networks, run them elsewhere, predict the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets import jsonlines
from latcast.datasets.importers.benchmark_tools import KitManifest
from latcast.devices.latency_table import LatencyTable
from latcast.spaces.catalogue import model
from tests.cli.conftest import Latcast
from tests.devices.runtimes import made_up_devices, records

NEW = 3

NEW_ID = f"made{NEW}/tflite-2.10/cpu1/fp32"


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """Ten networks on fifteen made-up devices."""
    table = made_up_devices().rows([row for row in range(16) if row != NEW]).columns(range(10))
    jsonlines.write(tmp_path / "known.jsonl", records(table))
    return tmp_path / "known.jsonl"


def new_device() -> LatencyTable:
    return made_up_devices().rows([NEW])


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Five of them on a new one."""
    jsonlines.write(tmp_path / "few.jsonl", records(new_device().columns(range(5))))
    return tmp_path / "few.jsonl"


class TestSelect:
    def test_names_networks_with_their_typical_latency(self, latcast: Latcast, known: Path) -> None:
        found = latcast("device", "select", "--data", known, "-n", "3", "--json").json

        assert (found["method"], found["seed"], found["known_networks"], found["used_platforms"]) == (
            "prediction_error",
            0,
            10,
            15,
        )
        names = {network.name: network for network in made_up_devices().networks}
        assert len(found["networks"]) == 3
        for each in found["networks"]:
            assert each["key"] == names[each["name"]].key
            assert each["typical_ms"] > 0

    def test_shows_a_table(self, latcast: Latcast, known: Path) -> None:
        found = latcast("device", "select", "--data", known, "-n", "3", "--method", "spearman")

        lines = found.out.splitlines()
        assert lines[0] == "3 networks that describe a device, by spearman"
        assert lines[1].split() == ["network", "space", "typical", "ms"]
        assert lines[-1] == "chosen from 10 of 10 networks, measured on 15 of 15 platforms"

    def test_platforms_of_a_pattern(self, latcast: Latcast, known: Path) -> None:
        found = latcast("device", "select", "--data", known, "-n", "2", "--known", "made[12]/*", "--json").json

        assert found["used_platforms"] == 2

    def test_too_many_are_refused(self, latcast: Latcast, known: Path) -> None:
        assert latcast("device", "select", "--data", known, "-n", "11").reason.startswith(
            "10 networks were measured on every one"
        )

    def test_without_data_they_are_small_networks_of_the_shipped_model(self, latcast: Latcast) -> None:
        found = latcast("device", "select", "-n", "4", "--json").json

        assert (found["method"], found["known_networks"], found["used_networks"]) == ("shipped", 78, 53)
        assert len({each["name"] for each in found["networks"]}) == 4
        assert latcast("device", "select", "-n", "54").reason.startswith("53 of the 78 known networks have at most 6.5 million")

    def test_a_pattern_of_platforms_wants_data(self, latcast: Latcast) -> None:
        assert latcast("device", "select", "--known", "*/gpu/*").code == 2

    def test_an_unknown_method_is_a_wrong_call(self, latcast: Latcast, known: Path) -> None:
        assert latcast("device", "select", "--data", known, "--method", "magic").code == 2


class TestPredict:
    def test_known_networks_and_files_that_nobody_ran(self, latcast: Latcast, known: Path, few: Path, model_file: Path) -> None:
        name = made_up_devices().networks[7].name

        found = latcast(
            "device",
            "predict",
            "--measured",
            few,
            "--data",
            known,
            model_file,
            name,
            "efficientnet_b0",
            "--json",
        ).json

        assert (found["platform"], found["measured"], found["known_platforms"], found["known_networks"]) == (NEW_ID, 5, 15, 10)
        by_name = {each["model"]: each for each in found["predictions"]}
        assert list(by_name) == [str(model_file), name, "efficientnet_b0"]
        assert [each["known"] for each in found["predictions"]] == [False, True, False]
        assert all(each["low_ms"] < each["latency_ms"] < each["high_ms"] for each in found["predictions"])
        actual = float(new_device().latency_ms[0, 7])
        assert by_name[name]["latency_ms"] == pytest.approx(actual, rel=0.15)
        assert found["nearest"]["platform"].startswith("made")
        assert found["warnings"] == []

    def test_without_names_all_known_networks(self, latcast: Latcast, known: Path, few: Path) -> None:
        found = latcast("device", "predict", "-m", few, "-d", known)

        assert found.code == 0
        lines = found.out.splitlines()
        assert lines[0] == f"{NEW_ID}, from 5 measured networks"
        assert sum(" known" in line for line in lines) == 10
        assert lines[-1].startswith("learned from 10 networks on 15 platforms; the most alike is made")

    def test_a_device_unlike_all_is_warned_of(self, latcast: Latcast, known: Path, tmp_path: Path) -> None:
        table = new_device().columns(range(5))
        values = table.latency_ms * [[10, 0.1, 10, 0.1, 10]]
        jsonlines.write(tmp_path / "odd.jsonl", records(LatencyTable(table.platforms, table.networks, values)))

        found = latcast("device", "predict", "-m", tmp_path / "odd.jsonl", "-d", known)

        assert found.code == 0
        assert "latcast: this device is unlike all 15 known ones" in found.err

    def test_a_file_that_is_not_there_is_one_line(self, latcast: Latcast, known: Path, few: Path) -> None:
        assert "cannot read measurements from nosuch.jsonl" in self.last_line(
            latcast("device", "predict", "-m", "nosuch.jsonl", "-d", known)
        )
        assert "nosuch.onnx" in self.last_line(latcast("device", "predict", "-m", few, "-d", known, "nosuch.onnx"))

    def last_line(self, found: object) -> str:
        from tests.cli.conftest import Outcome

        assert isinstance(found, Outcome)
        assert (found.code, found.out) == (1, "")
        assert "Traceback" not in found.err
        return found.err.splitlines()[-1]


class TestKit:
    def test_named_networks_are_written(self, latcast: Latcast, tmp_path: Path) -> None:
        found = latcast("device", "kit", "squeezenet1_1", "-o", tmp_path / "kit", "--formats", "onnx,ncnn", "--json").json

        assert [each["name"] for each in found["networks"]] == ["squeezenet1_1"]
        assert set(found["networks"][0]["files"]) == {"onnx", "ncnn"}
        assert KitManifest.read(tmp_path / "kit").references == {"squeezenet1_1": model("squeezenet1_1")}
        assert (tmp_path / "kit" / "measure.sh").is_file()

    def test_networks_are_chosen_from_data(self, latcast: Latcast, known: Path, tmp_path: Path) -> None:
        wanted = latcast("device", "select", "--data", known, "-n", "2", "--method", "spearman", "--json").json["networks"]

        found = latcast(
            "device", "kit", "--data", known, "-n", "2", "--method", "spearman", "-o", tmp_path / "kit", "--formats", "onnx"
        )

        assert found.code == 0
        assert list(KitManifest.read(tmp_path / "kit").references) == [each["name"] for each in wanted]
        assert f"sh {tmp_path / 'kit' / 'measure.sh'} --device rpi5 --threads 1" in found.out

    def test_without_data_they_are_those_that_select_names(self, latcast: Latcast, tmp_path: Path) -> None:
        wanted = latcast("device", "select", "-n", "1", "--json").json["networks"]

        latcast("device", "kit", "-n", "1", "-o", tmp_path / "kit", "--formats", "onnx")

        assert list(KitManifest.read(tmp_path / "kit").references) == [each["name"] for each in wanted]

    def test_a_folder_that_is_something_else_is_one_line(self, latcast: Latcast, tmp_path: Path) -> None:
        (tmp_path / "thesis.doc").write_text("")

        found = latcast("device", "kit", "squeezenet1_1", "-o", tmp_path)

        assert found.code == 1
        assert found.err.splitlines()[-1].startswith(f"latcast: {tmp_path} holds something else than a kit")

    @pytest.mark.parametrize("arguments", [("--formats", "pdf"), ("--precision", "fp64")])
    def test_a_wrong_call_exits_with_2(self, latcast: Latcast, tmp_path: Path, arguments: tuple[str, ...]) -> None:
        assert latcast("device", "kit", "squeezenet1_1", "-o", tmp_path / "kit", *arguments).code == 2
