"""A device named without a precision is meant in int8 by every command, where the file is quantised to int8."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.graph.writers.onnx import to_onnx
from latcast.predictors import bundle_index
from latcast.spaces.catalogue import build, model
from tests.cli.conftest import Latcast

DEVICE = "raspberry pi 5 cpu"
FP32, INT8 = (f"raspberry-pi-5-broadcom-bcm2712/ncnn-unstated/cpu1/{precision}" for precision in ("fp32", "int8"))

SHIPPED = bundle_index.SHIPPED_FOLDER


@pytest.fixture(autouse=True)
def shipped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_index, "SHIPPED_FOLDER", SHIPPED)


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "quantised.onnx"
    path.write_bytes(to_onnx(build(model("squeezenet1_1")), precision="int8"))
    return path


@pytest.mark.parametrize(
    "command",
    [
        "predict FILE",
        "explain FILE",
        "check FILE --max-ms 1000",
        "check FILE --against FILE",
        "compare FILE FILE",
        "choose FILE --max-ms 1000",
        "sweep FILE --shape {1,2},3,224,224",
        "report FILE",
    ],
)
def test_every_command_takes_the_int8_platform_for_an_int8_file(latcast: Latcast, quantised: Path, command: str) -> None:
    name, *arguments = command.replace("FILE", str(quantised)).split()
    found = latcast(name, *arguments, "--on", DEVICE)

    assert found.code == 0, found.err
    assert INT8 in found.out
    assert FP32 not in found.out
    assert f"the best known for int8 is taken; all: latcast platforms '{DEVICE}'" in found.err


def test_a_budget_means_its_devices_in_the_precision_of_the_files_too(latcast: Latcast, quantised: Path, home: Path) -> None:
    budget = home.parent / "latcast.toml"
    budget.write_text(f'[tiers.boards]\nplatforms = "{DEVICE}"\nmax_ms = 1000\n')

    of_file = latcast("check", quantised, "--budget", budget)
    of_network = latcast("check", "squeezenet1_1", "--budget", budget)

    assert (INT8 in of_file.out, FP32 in of_network.out) == (True, True)
    assert "names 4 platforms; the best known is taken" in of_network.err


def test_a_network_and_its_quantised_file_are_compared_each_in_its_precision(latcast: Latcast, quantised: Path) -> None:
    compared = ("compare", "squeezenet1_1", quantised, "--on", DEVICE)
    [pair] = latcast(*compared, "--json").json["pairs"]

    assert (pair["platform"], pair["b_platform"]) == (FP32, INT8)
    assert [word in latcast(*compared).out for word in ("platform of A", "of B", FP32, INT8)] == [True] * 4


def test_of_files_in_both_precisions_each_takes_the_platform_in_its_own(latcast: Latcast, quantised: Path) -> None:
    mixed = (quantised, "squeezenet1_1", "--on", DEVICE)
    alone = [latcast("predict", model, "--on", DEVICE, "--json").json["predictions"][0] for model in mixed[:2]]

    predicted = latcast("predict", *mixed, "--json").json["predictions"]
    checked = latcast("check", *mixed, "--max-ms", "1000", "--json").json
    [grown] = latcast("check", quantised, "--against", "squeezenet1_1", "--on", DEVICE, "--json").json["checks"]
    chosen = latcast("choose", *mixed, "--all", "--json").json

    assert predicted == alone
    assert [each["platform"] for each in checked["checks"]] == [INT8, FP32]
    assert list(checked["bundles"]) == [INT8, FP32]
    assert (grown["platform"], grown["base_ms"]) == (INT8, alone[1]["latency_ms"])
    assert {each["name"]: each["platforms"][0]["platform"] for each in chosen["models"]} == {
        str(quantised): INT8,
        "squeezenet1_1": FP32,
    }
    assert sorted(each["latency_ms"] for each in chosen["models"]) == sorted(each["latency_ms"] for each in alone)


def test_a_unit_without_int8_is_kept_and_a_check_there_warns(latcast: Latcast, quantised: Path) -> None:
    found = latcast("check", quantised, "--max-ms", "1000", "--on", "raspberry pi 5")

    assert (INT8 in found.out, "/gpu/fp32" in found.out) == (True, True)
    assert "the file is quantised to int8, the platform runs fp32" in found.err
