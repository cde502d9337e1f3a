"""Files of whole networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import Malformed, Parsed
from latcast.datasets.importers.usc.networks import Scenario, read_networks, read_scenarios, scenario_platform
from latcast.errors import DatasetError
from latcast.records import Platform, Reference


@pytest.mark.parametrize(
    ("framework", "scenario", "platform", "threads"),
    [
        ("tflite", "pixel4|gpu|float", "pixel4/tflite-2.10/gpu/fp16", 1),
        ("tflite", "s10|2large|float", "s10/tflite-2.10/2large/fp32", 2),
        ("tflite", "pixel4|1large1med|quant", "pixel4/tflite-2.10/1large1med/int8", 2),
        ("torch", "a03s|4small|quant", "a03s/pytorch-2.0/4small/int8", 4),
        ("torch", "iphonexs|gpu|float", "iphonexs/pytorch-2.0/gpu/fp16", 1),
    ],
)
def test_a_scenario_is_a_platform(framework: str, scenario: str, platform: str, threads: int) -> None:
    assert scenario_platform(framework, *scenario.split("|")) == platform
    assert Platform.parse(platform).threads == threads


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("nokia|gpu|float", "the device 'nokia' is unknown; expected one of pixel4,"),
        ("pixel4|0large|float", "'0large' is not a set of cores"),
        ("pixel4||float", "'' is not a set of cores"),
        ("pixel4|gpu|quant", "'quant' is not a precision of gpu; expected float$"),
        ("pixel4|1large|half", "'half' is not a precision of 1large; expected float or quant"),
    ],
)
def test_an_unknown_scenario_is_refused(scenario: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        scenario_platform("tflite", *scenario.split("|"))


def test_means_and_deviations_find_each_other() -> None:
    header = ["model", "s10|gpu|float|std", "pixel4|1large|quant|mean", "pixel4|1large|quant|std", "s10|gpu|float|mean"]
    assert read_scenarios(header, "tflite", 1) == [
        Scenario("pixel4/tflite-2.10/1large/int8", 2, 3),
        Scenario("s10/tflite-2.10/gpu/fp16", 4, 1),
    ]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (["pixel4|gpu|float"], r"'pixel4\|gpu\|float' is not of the form"),
        (["pixel4|gpu|float|median"], "is not of the form"),
        (["pixel4|gpu|float|mean"], "pixel4/tflite-2.10/gpu/fp16 has a column of means or of standard deviations only"),
        (["pixel4|gpu|float|std"], "pixel4/tflite-2.10/gpu/fp16 has a column of means or of standard deviations only"),
        (["pixel4|gpu|float|mean", "pixel4|gpu|float|std", "pixel4|gpu|float|mean"], "stands there twice"),
    ],
)
def test_malformed_columns_of_scenarios_are_refused(columns: list[str], reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        read_scenarios(columns, "tflite", 0)


HEADER = "model,FLOPS,size,pixel4|gpu|float|mean,pixel4|gpu|float|std,s10|4small|quant|mean,s10|4small|quant|std\n"


def read(tmp_path: Path, rows: str, *, header: str = HEADER, kind: str = "cnn", refusals: Refusals | None = None) -> Parsed:
    file = tmp_path / f"tflite_{kind}_e2e.csv"
    file.write_text(header + rows)
    return read_networks(file, "tflite", kind, refusals or Refusals(strict=True))


def test_a_row_gives_a_measurement_for_each_scenario(tmp_path: Path) -> None:
    found = read(tmp_path, "resnet18,3644000000,46761332,26500.5,265.005,121000,2420\n")
    gpu, cpu = found.measurements

    assert gpu.platform == "pixel4/tflite-2.10/gpu/fp16"
    assert gpu.reference == Reference("pytorchcv", {"name": "resnet18"}, "resnet18")
    assert gpu.role == "network"
    assert gpu.latency_ms == gpu.raw_latency_ms == pytest.approx(26.5005)
    assert gpu.variation == pytest.approx(0.01)
    assert gpu.environment["device"] == {"soc": "Snapdragon 855", "gpu": "Adreno 640"}
    assert gpu.environment["dataset"]["licence"] == "MIT"
    assert gpu.environment["moment"] == {"row": "tflite_cnn_e2e.csv:2", "flops": 3644000000, "size_bytes": 46761332}
    assert cpu.platform == "s10/tflite-2.10/4small/int8"
    assert cpu.latency_ms == pytest.approx(121)
    assert cpu.variation == pytest.approx(0.02)
    assert (found.rows, found.missing) == (1, 0)


@pytest.mark.parametrize("blank", ["", "N/A"])
def test_a_cell_without_a_value_gives_no_measurement_and_is_counted(tmp_path: Path, blank: str) -> None:
    found = read(tmp_path, f"resnet18,1e9,4e7,{blank},{blank},121000,2420\n")

    assert [item.platform for item in found.measurements] == ["s10/tflite-2.10/4small/int8"]
    assert found.missing == 1


def test_a_mean_without_its_deviation_has_no_variation(tmp_path: Path) -> None:
    [first, _] = read(tmp_path, "resnet18,1e9,4e7,26500,,121000,2420\n").measurements
    assert first.variation is None


@pytest.mark.parametrize(
    ("kind", "reference"),
    [("nas", Reference("usc_nas", {"name": "x"}, "x")), ("transformer", Reference("huggingface", {"name": "x"}, "x"))],
)
def test_networks_that_cannot_be_built_are_named(tmp_path: Path, kind: str, reference: Reference) -> None:
    assert read(tmp_path, "x,1e9,4e7,1,1,1,1\n", kind=kind).measurements[0].reference == reference


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (",1e9,4e7,1,1,1,1", "the network has no name"),
        ("good,1e9,4e7,1,1,1,1", "the network 'good' stands in line 2 already"),
        ("a,many,4e7,1,1,1,1", "flops is 'many'"),
        ("a,1e9,4e7,1,1,-5,1", "the mean on s10/tflite-2.10/4small/int8 is -5"),
        ("a,1e9,4e7,1,-1,1,1", "the standard deviation on pixel4/tflite-2.10/gpu/fp16 is -1"),
        ("a,1e9,4e7,,1,1,1", "pixel4/tflite-2.10/gpu/fp16 has a standard deviation without a mean"),
    ],
)
def test_a_malformed_row_is_refused_with_file_and_line(tmp_path: Path, row: str, reason: str) -> None:
    with pytest.raises(DatasetError) as raised:
        read(tmp_path, f"good,1e9,4e7,1,1,1,1\n{row}\n")
    assert str(raised.value).startswith(f"{tmp_path}/tflite_cnn_e2e.csv:3: {reason}")
