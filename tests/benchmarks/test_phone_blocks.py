"""Figures of phones by kind of block held out."""

from benchmarks.phone_blocks import BLOCKS, blocks_table
from latcast.kernels import find_kernels
from latcast.kernels.rules import platform_rules
from latcast.records import Platform
from latcast.spaces.catalogue import build, model

RULES = platform_rules(Platform.parse("pixel4/tflite-2.10/1large/fp32"))


def blocks_of(name: str) -> set[str]:
    kernels = find_kernels(build(model(name)), RULES)
    return {block for block, has in BLOCKS.items() if has(kernels)}


def test_blocks_are_told_by_what_a_network_is_made_of() -> None:
    assert blocks_of("resnet18") == set()
    assert blocks_of("squeezenet1_1") == {"concatenation"}
    assert blocks_of("mobilenet_v2") == {"depthwise", "narrow at high resolution"}  # 16 channels at 112 x 112
    assert "groups" in blocks_of("resnext50_32x4d")
    assert "squeeze and excitation" in blocks_of("mobilenet_v3_large")


def row(platform: str, mape: float) -> dict[str, object]:
    figures = {"networks": 11, "mape": mape, "bias": -mape, "within_10": 50.0, "interval_coverage": 80.0}
    return {"platform": platform, "blocks": {"groups": figures}}


def test_the_table_means_over_platforms_of_one_group_and_says_where_nothing_was_judged() -> None:
    rows = [row("a/tflite-2.10/1large/fp32", 10.0), row("b/tflite-2.10/2small/fp32", 20.0)]

    assert blocks_table(rows).splitlines()[-1] == "| tflite cpu fp32 (2) | 15, -15, 80 | - | - | - | - |"
