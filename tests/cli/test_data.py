"""``latcast data import`` and ``latcast data check``."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets import jsonlines
from latcast.datasets.importers.usc import built
from latcast.datasets.store import Store
from latcast.errors import MissingExtraError
from latcast.graph.ir import Graph
from latcast.records import Reference
from tests.cli.conftest import Latcast
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


def test_without_pytorchcv_nodes_are_left_out_and_said(latcast: Latcast, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(reference: Reference) -> Graph:
        raise MissingExtraError("pytorchcv", "pytorchcv", "building a network of pytorchcv")

    monkeypatch.setattr(built, "build", build)
    found = latcast("data", "import", "usc", folder)

    assert found.code == 0
    assert "note: nodes of 1 networks are not known: building a network of pytorchcv needs the package" in found.out


def test_a_malformed_row_stops_the_import(latcast: Latcast, home: Path, folder: Path) -> None:
    file = folder / "tflite_cnn_e2e.csv"
    file.write_text(file.read_text().replace("4000,40", "-4000,40"))

    reason = latcast("data", "import", "usc", folder).reason

    assert reason.startswith(f"{file}:3: the mean on pixel4/tflite-2.10/gpu/fp16 is -4000")
    assert not (home / "measurements" / "usc.sqlite").exists()


def test_two_places_to_import_to_are_one_too_many(latcast: Latcast, folder: Path) -> None:
    found = latcast("data", "import", "usc", folder, "--store", "a.sqlite", "--output", "b.jsonl")
    assert found.code == 2
    assert "exclude each other" in found.err


@pytest.mark.parametrize("arguments", [("import", "uscx", "."), ("check", "usc", "nowhere")])
def test_a_dataset_or_folder_that_there_is_not_is_a_wrong_call(latcast: Latcast, arguments: tuple[str, ...]) -> None:
    assert latcast("data", *arguments).code == 2


def test_check_says_what_is_there(latcast: Latcast, folder: Path, networks: list[str]) -> None:
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


def test_help_lists_the_commands(latcast: Latcast) -> None:
    found = latcast("data", "--help")
    assert found.code == 0
    assert {"import", "check", "variants", "export"} <= set(found.out.split())
