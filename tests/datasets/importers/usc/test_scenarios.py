"""Columns become platforms."""

from __future__ import annotations

import pytest

from latcast.datasets.importers.table import Malformed
from latcast.datasets.importers.usc.scenarios import Scenario, platform_of, read_scenarios
from latcast.records import Platform


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
    assert platform_of(framework, *scenario.split("|")) == platform
    assert Platform.parse(platform).threads == threads


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("nokia|gpu|float", "the device 'nokia' is unknown; expected one of pixel4,"),
        ("pixel4|0large|float", "'0large' is no set of cores"),
        ("pixel4|2huge|float", "'2huge' is no set of cores"),
        ("pixel4||float", "'' is no set of cores"),
        ("pixel4|gpu|quant", "'quant' is no precision of gpu; expected float$"),
        ("pixel4|1large|half", "'half' is no precision of 1large; expected float or quant"),
    ],
)
def test_a_scenario_that_there_is_not_is_refused(scenario: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        platform_of("tflite", *scenario.split("|"))


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
def test_columns_that_are_no_scenarios_are_refused(columns: list[str], reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        read_scenarios(columns, "tflite", 0)
