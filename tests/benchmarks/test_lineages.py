"""Blocks shared by networks of different lineages, and rows that keep one lineage from being half of a figure."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lineages import judged, lineages_table
from benchmarks.pool import WITHOUT_DRAWN, kinds_of_rows, unit_title
from latcast.devices.device_model import KnownPlatform
from latcast.spaces.catalogue import model


def platform(kind: str, source: str) -> KnownPlatform:
    return KnownPlatform("a/b-1.0/c/fp32", kind, "chip", {}, np.zeros(0, dtype=int), np.zeros(0), source)


def test_networks_without_a_block_in_common_have_nothing_in_common() -> None:
    found = judged([model("resnet18"), model("resnet50"), model("se_resnet50")])

    assert (found["networks"], found["close"], found["in_common"]) == (3, [], 0.0)
    assert {name: each["networks"] for name, each in found["lineages"].items()} == {"wide + wide": 1, "1x1 + 1x1 + wide": 2}


def test_networks_between_two_lineages_are_named() -> None:
    found = judged([model("timm/hrnet_w18"), model("timm/hrnet_w30")])

    assert found["close"] == ["timm/hrnet_w18", "timm/hrnet_w30"]
    assert "2 have half of their multiply-accumulates in common" in lineages_table(found)


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("cpu", "iiswc20", ("cpu",)), ("cpu", "timm", ("cpu", WITHOUT_DRAWN)), ("gpu", "mlperf", ("gpu",)),
    ],
)  # fmt: skip
def test_a_cpu_that_ran_drawn_networks_is_left_out_of_a_row_of_its_own_kind(
    kind: str, source: str, expected: tuple[str, ...]
) -> None:
    assert kinds_of_rows(platform(kind, source)) == expected


def test_tables_name_a_kind_of_rows_by_its_unit() -> None:
    assert unit_title("gpu", "s") == "GPUs"
    assert unit_title(WITHOUT_DRAWN, "s") == "CPUs, without drawn networks"
