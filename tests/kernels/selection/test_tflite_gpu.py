"""TFLite's GPU delegate against Li et al., Algorithm B.3 and Table B.3."""

from __future__ import annotations

from typing import Any

import pytest

from latcast.kernels import kernel_type
from latcast.kernels.selection import selection_of

FAMILIES = ("adreno6xx", "adreno", "mali", "powervr", "amd", "apple")


def conv(in_channels: int, out_channels: int, size: int, **others: int) -> tuple[int, ...]:
    """A 3x3 convolution at stride 1 that keeps the size of its map."""
    values: dict[str, Any] = {
        "batch": 1, "in_channels": in_channels, "in_h": size, "in_w": size, "out_channels": out_channels, "out_h": size,
        "out_w": size, "kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1,
        "groups": 1, "padded": 1, **others,
    }  # fmt: skip
    return kernel_type("conv").configuration(values)


def chosen(family: str, configuration: tuple[int, ...], kind: str = "conv") -> str:
    return selection_of(f"tflite_gpu:{family}").kernel(kind, configuration)[0]


@pytest.mark.parametrize(
    ("configuration", "on_adreno", "on_mali"),
    [
        (conv(64, 64, 56), "conv", "conv.winograd"),  # 16 slices in and out, 196 tiles
        (conv(128, 128, 28), "conv", "conv.winograd"),  # 32 and 32, 49
        (conv(256, 256, 14), "conv", "conv"),  # 64 and 64, 16
    ],
)
def test_the_three_convolutions_of_resnet16_run_as_in_table_b3(
    configuration: tuple[int, ...], on_adreno: str, on_mali: str
) -> None:
    assert chosen("adreno6xx", configuration) == on_adreno
    assert chosen("mali", configuration) == chosen("powervr", configuration) == on_mali


@pytest.mark.parametrize(
    ("configuration", "families"),
    [
        (conv(128, 128, 48), FAMILIES),  # 144 tiles
        (conv(128, 128, 44), FAMILIES[1:]),  # 121: too few for an Adreno 6xx
        (conv(128, 128, 32), FAMILIES[1:]),  # 64: enough for other Adrenos
        (conv(128, 128, 28), FAMILIES[2:]),  # 49: too few for those
        (conv(124, 128, 48), FAMILIES[2:]),  # 31 slices in
        (conv(125, 128, 48), FAMILIES),  # the 32nd is begun
        (conv(64, 60, 56), ("amd",)),  # 15 slices out
        (conv(64, 32, 56), ("amd",)),  # 8
        (conv(64, 28, 56), ()),  # 7
        (conv(60, 64, 56), ()),  # 15 in
        (conv(64, 64, 20), ()),  # 25 tiles
        (conv(64, 64, 24), FAMILIES[2:]),  # 36
    ],
)
def test_each_family_has_its_own_least_channels_and_tiles(configuration: tuple[int, ...], families: tuple[str, ...]) -> None:
    assert tuple(family for family in FAMILIES if chosen(family, configuration) == "conv.winograd") == families


@pytest.mark.parametrize(
    "others",
    [
        {"stride_h": 2}, {"stride_w": 2}, {"kernel_h": 5}, {"kernel_w": 1}, {"dilation_h": 2}, {"dilation_w": 2},
    ],
)  # fmt: skip
def test_winograd_computes_undilated_3x3_filters_at_stride_1_alone(others: dict[str, int]) -> None:
    assert chosen("mali", conv(256, 256, 56)) == "conv.winograd"
    assert chosen("mali", conv(256, 256, 56, **others)) == "conv"


def test_a_1x1_convolution_on_a_1x1_map_runs_as_fully_connected() -> None:
    pointwise = {"kernel_h": 1, "kernel_w": 1, "padded": 0}
    behind = {"batch": 2, "fused_flops": 1, "fused_inputs": 1}

    found = selection_of("tflite_gpu:mali").kernel("conv", conv(72, 24, 1, **pointwise, **behind))

    # A row for each of the two images; what is fused behind stays.
    assert found == ("linear", (2, 72, 24, 1, 1, 0))
    assert chosen("mali", conv(72, 24, 2, **pointwise)) == "conv"
    assert chosen("mali", conv(72, 24, 1)) == "conv"


@pytest.mark.parametrize(
    ("in_channels", "out_channels", "groups", "kernel"),
    [
        (24, 32, 2, "grouped_conv"),  # 12 in, 16 out in each group
        (24, 24, 4, "grouped_conv.split"),  # 6 and 6
        (24, 32, 4, "grouped_conv.split"),  # 6 in; line 6 as printed would compare all 24
        (32, 24, 4, "grouped_conv.split"),  # 6 out
    ],
)
def test_groups_of_whole_slices_run_as_one_kernel(in_channels: int, out_channels: int, groups: int, kernel: str) -> None:
    assert chosen("adreno6xx", conv(in_channels, out_channels, 14, groups=groups), "grouped_conv") == kernel


def test_an_average_over_the_whole_map_runs_as_a_mean() -> None:
    selection = selection_of("tflite_gpu:apple")

    # batch, channels, in, out, kernel, stride, fused
    assert selection.kernel("average_pool", (2, 96, 7, 5, 1, 1, 7, 5, 1, 1, 1, 0, 0)) == ("reduce", (192, 35, 1, 1, 0, 0))
    assert selection.kernel("average_pool", (1, 96, 7, 7, 3, 3, 3, 3, 2, 2, 0, 0, 0))[0] == "average_pool"


def test_all_else_stays_what_it_is() -> None:
    assert selection_of("tflite_gpu:amd").kernel("concat", (2, 100, 50, 2, 0, 0, 0)) == ("concat", (2, 100, 50, 2, 0, 0, 0))
