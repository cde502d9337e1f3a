"""Variants of convolutions: what their algorithms compute and move, by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from latcast.errors import UnknownNameError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels import KERNEL_TYPES, Kernel, KernelTable, find_kernels, kernel_type
from latcast.kernels.rules import rules_for
from latcast.kernels.types.kernel_type import KERNEL_VARIANTS
from latcast.predictors.analytical import term_values
from latcast.predictors.kernel_predictor import feature_matrix, feature_names


def separable(
    channels: int, out_channels: int, kernel: int = 3, *, activation: str | None = "relu", stride: int = 1
) -> tuple[Graph, Kernel]:
    """A depthwise convolution and a 1x1 behind it, and what Apple's GPUs run first."""
    b = GraphBuilder("separable")
    x = b.depthwise_conv(b.input((1, channels, 8, 8)), kernel, stride=stride)
    if activation is not None:
        x = b.activation(x, activation)
    graph = b.finish(b.relu(b.batch_norm(b.conv(x, out_channels))))
    return graph, find_kernels(graph, rules_for("tflite", "fp16", "gpu", "iphonexs"))[0]


def work(name: str, channels: int, size: int, filters: int, groups: int, *rules: str) -> dict[str, float | str]:
    """Quantities and class of the 3x3 convolution that a runtime runs as a variant."""
    b = GraphBuilder("3x3")
    graph = b.finish(b.conv(b.input((1, channels, size, size)), filters, 3, groups=groups))
    kind = kernel_type(name)
    [kernel] = [each for each in find_kernels(graph, rules_for(*rules)) if each.kernel_type == name]
    columns = kind.columns(np.array([kernel.configuration]))
    q = kind.quantities(columns)
    return {
        **{name: float(getattr(q, name)[0]) for name in ("flops", "input_elements", "output_elements", "weight_elements")},
        "class": str(kind.throughput_class(columns)[0]),
    }


GPU = ("tflite", "fp16", "gpu", "s10")


@pytest.mark.parametrize(
    ("found", "flops", "read", "weights", "name"),
    [
        # 8 x 8 tiles of 4 x 4; the map, and 36 values of each tile of 64 + 128 maps written and read.
        (
            work("conv.winograd", 64, 30, 128, 1, *GPU), 2 * 36 * 64 * 64 * 128, 64 * 900 + 2 * 36 * 64 * 192, 36 * 64 * 128,
            "conv winograd",
        ),
        # 4 x 4 tiles of 6 x 6; 32 channels in and 16 out in each of two groups.
        (
            work("grouped_conv.winograd6", 64, 20, 32, 2, "ncnn", "fp32"), 2 * 64 * 16 * 2 * 32 * 16,
            64 * 400 + 2 * 64 * 16 * 96, 64 * 2 * 32 * 16, "conv grouped winograd6",
        ),
        # One convolution a group: 12 x 16 in and 24 x 16 out, each written and read once more between the kernels.
        (
            work("grouped_conv.split", 12, 4, 24, 2, *GPU), 2 * 24 * 16 * 9 * 6, 192 + 2 * (192 + 384), 9 * 6 * 24,
            "conv grouped split",
        ),
        # 256 groups of 4 channels in whole vectors of 16; pixels of 1 KiB are read in order.
        (
            work("grouped_conv.direct", 1024, 8, 1024, 256, "openvino", "int8", "cpu1"), 2 * 64 * 9 * 4 * 16 * 256, 1024 * 64,
            9 * 4 * 1024, "conv grouped narrow",
        ),
    ],
)  # fmt: skip
def test_the_work_of_variants_by_hand(
    found: dict[str, float | str], flops: float, read: float, weights: float, name: str
) -> None:
    assert [found[each] for each in ("flops", "input_elements", "weight_elements", "class")] == [flops, read, weights, name]


def narrow(channels: int, filters: int, groups: int, size: int) -> dict[str, float | str]:
    """Return the work of a 3x3 convolution that OpenVINO computes directly."""
    return work("grouped_conv.narrow", channels, size, filters, groups, "openvino", "fp32", "cpu1")


@pytest.mark.parametrize(
    ("group_in", "group_out", "lanes", "name"),
    [
        (16, 16, 16, "conv grouped narrow"),
        (8, 8, 16, "conv grouped narrow"),
        (8, 20, 32, "conv grouped narrow"),
        (8, 6, 16, "conv grouped narrow unaligned"),
        (6, 8, 16, "conv grouped narrow unaligned"),
    ],
)
def test_narrow_groups_fill_vectors_of_16_lanes(group_in: int, group_out: int, lanes: int, name: str) -> None:
    found = narrow(4 * group_in, 4 * group_out, 4, 10)

    # 100 pixels, four groups.
    assert found["flops"] == pytest.approx(2 * 9 * group_in * lanes * 4 * 100)
    assert found["output_elements"] == pytest.approx(lanes * 4 * 100)
    assert found["weight_elements"] == 9 * group_in * group_out * 4
    assert found["input_elements"] == 4 * group_in * 100
    assert found["class"] == name


@pytest.mark.parametrize(
    ("channels", "size", "lost"),
    [
        # Pixels 4 KiB apart fall into 32 of 2048 sets of 8 lines: 256 lines for the 2 x 256 and the 2 x 64 pixels of both maps.
        (1024, 16, 1 / (1 + 0.5**4)),
        (1024, 8, 1 / (1 + 2**4)),
        # 2 KiB apart: 512 lines for 2 x 1024 pixels.
        (512, 32, 1 / (1 + 0.25**4)),
        # Less than 2 KiB apart the processor fetches ahead.
        (256, 64, 0.0),
    ],
)
def test_narrow_groups_fetch_lines_that_maps_of_far_pixels_displace(channels: int, size: int, lost: float) -> None:
    groups = channels // 8

    found = narrow(channels, channels, groups, size)

    assert found["input_elements"] == pytest.approx(channels * size**2 + 64 * lost * groups * 2 * size**2)


@pytest.mark.parametrize(
    ("channels", "out_channels", "kernel", "fused"),
    [
        (16, 16, 3, True),  # 144 weights, 256 weights: the most of all
        (17, 15, 1, False),  # channels
        (8, 17, 3, False),  # filters
        (4, 16, 5, True),  # 100 weights
        (8, 8, 5, False),  # 200 weights
        (15, 16, 3, True),
    ],
)
def test_apple_runs_a_small_depthwise_and_pointwise_convolution_as_one(
    channels: int, out_channels: int, kernel: int, fused: bool
) -> None:
    _, found = separable(channels, out_channels, kernel)

    assert found.kernel_type == ("depthwise_pointwise" if fused else "depthwise_conv")


@pytest.mark.parametrize("activation", ["relu", "relu6", None])
def test_an_activation_between_them_may_be_clipped_or_absent(activation: str | None) -> None:
    assert separable(8, 8, activation=activation)[1].kernel_type == "depthwise_pointwise"
    assert separable(8, 8, activation="hard_swish")[1].kernel_type == "depthwise_conv"


def test_apple_keeps_other_pairs_of_convolutions_apart() -> None:
    def kinds(build: Callable[[GraphBuilder], tuple[str, ...]]) -> list[str]:
        b = GraphBuilder("pair")
        found = find_kernels(b.finish(*build(b)), rules_for("tflite", "fp16", "gpu", "iphonexs"))
        return [kernel.kernel_type for kernel in found]

    image = (1, 8, 8, 8)
    assert kinds(lambda b: (b.conv(b.conv(b.input(image), 8, 3), 8),)) == ["conv", "conv"]
    assert kinds(lambda b: (b.conv(b.depthwise_conv(b.input(image)), 8, 3),)) == ["depthwise_conv", "conv"]
    # On a map of one pixel the second is fully connected; a result with another reader is written.
    vector = (1, 8, 3, 3)
    assert kinds(lambda b: (b.conv(b.conv(b.input(vector), 8, 3, padding=0, groups=8), 8),)) == ["depthwise_conv", "linear"]
    assert kinds(lambda b: (b.conv(x := b.depthwise_conv(b.input(image)), 8), x)) == ["depthwise_conv", "conv"]


def test_both_convolutions_are_charged_and_the_map_between_them_is_not() -> None:
    graph, kernel = separable(8, 12, stride=2)

    [row] = KernelTable.of([[kernel]]).configurations["depthwise_pointwise"]
    kind = kernel_type("depthwise_pointwise")
    # 8 maps of 8x8 in, 8 of 4x4 between, 12 of 4x4 out; the ReLU behind costs one FLOP a result.
    flops, moved, weights, count = term_values(kind, row[None])[0]
    assert flops == 2 * 16 * 8 * 9 + 2 * 16 * 8 * 12 + 16 * 12
    assert moved == 8 * 64 + 12 * 16
    assert weights == 8 * 9 + 8 * 12
    assert count == 1
    assert kernel.operators == ("Conv", "Relu", "Conv", "BatchNormalization", "Relu")
    assert kernel.nodes == tuple(node.name for node in graph.nodes)


@pytest.mark.parametrize("name", sorted(KERNEL_VARIANTS))
def test_a_variant_has_the_fields_of_its_type_and_its_features_or_more(name: str) -> None:
    base, variant = KERNEL_TYPES.get(name.partition(".")[0]), kernel_type(name)
    rows = np.full((2, len(base.fields)), 4)

    assert (variant.name, variant.fields) == (name, base.fields)
    assert set(variant.classes).isdisjoint(base.classes)
    further = ("reads_missed", "writes_missed") if base.name == "transpose" else ()
    assert feature_names(variant) == (*feature_names(base), *further)
    assert np.isfinite(feature_matrix(variant, rows)).all()
    assert (term_values(variant, rows) >= 0).all()
    assert variant.throughput_class(variant.columns(rows)).shape == (2,)


@pytest.mark.parametrize("name", ["conv.", "conv.A", "cnv.winograd", "conv.winograd.wide", "conv:winograd"])
def test_other_names_are_no_variants(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"no kernel type is called '{name}'; known: "):
        kernel_type(name)
