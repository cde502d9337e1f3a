from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.graph.builder import GraphBuilder
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import term_values
from latcast.predictors.network_features import (
    ADDED,
    ALIKE,
    BASE_TERMS,
    FLOPS_GROUPS,
    KERNEL_GROUPS,
    TERM_NAMES,
    TERM_UNITS,
    WIDE_GROUP,
    KernelFeatures,
    NetworkFeatures,
    kernel_group,
    kernel_groups,
    network_rules,
    term_places,
)
from latcast.records import Platform
from latcast.spaces import build
from latcast.spaces.catalogue import model

KERNELS: tuple[Kernel, ...] = tuple(find_kernels(build(model("mobilenet_v3_small")), load_rules("tflite")))


def test_flops_elements_and_weights_of_a_network_are_those_of_its_kernels() -> None:
    table = KernelTable.of([KERNELS])
    rows = [term_values(kernel_type(name), values) for name, values in table.configurations.items()]
    by_kernel = np.concatenate(rows)[table.kernel]

    features = NetworkFeatures.of([KERNELS])

    by_base = [features.sums[0, : len(TERM_NAMES)][base == BASE_TERMS].sum() for base in range(4)]
    unit = [TERM_UNITS[base == BASE_TERMS][0] for base in range(4)]
    dense = np.array(by_base) / unit
    assert dense[1:] == pytest.approx(by_kernel.sum(axis=0)[1:])
    # What elementwise kernels compute has no price of its own: they wait for memory.
    assert 0.9 < dense[0] / by_kernel[:, 0].sum() < 1
    assert features.totals[0] == pytest.approx([by_kernel[:, 0].sum(), by_kernel[:, 1:3].sum(), 1.0])


@given(st.integers(1, len(KERNELS) - 1))
def test_the_sums_of_two_parts_of_a_network_are_those_of_the_whole(cut: int) -> None:
    parts, whole = NetworkFeatures.of([KERNELS[:cut], KERNELS[cut:]]), NetworkFeatures.of([KERNELS])

    assert parts.sums.sum(axis=0) == pytest.approx(whole.sums[0])
    assert whole.sums.shape == (1, ADDED)


def test_a_network_takes_one_constant_whatever_its_kernels() -> None:
    features = NetworkFeatures.of([KERNELS, (*KERNELS, *KERNELS)])

    assert features.terms[:, -1].tolist() == [TERM_UNITS[-1]] * 2
    assert features.terms[1, :-1] == pytest.approx(2 * features.terms[0, :-1])


def test_networks_keep_their_kernels_in_another_order() -> None:
    both = NetworkFeatures.of([KERNELS[:5], KERNELS])

    turned = both.rows(np.array([1, 0, 1]))

    assert turned.sums == pytest.approx(both.sums[[1, 0, 1]])
    network, kernel, times = turned.counts
    for place, row in ((0, 1), (1, 0), (2, 1)):
        mine, theirs = network == place, both.counts[0] == row
        assert dict(zip(kernel[mine], times[mine], strict=True)) == dict(
            zip(both.counts[1][theirs], both.counts[2][theirs], strict=True)
        )


def test_networks_without_kernels_have_no_features() -> None:
    assert KernelFeatures.of(KernelTable.of([])).terms.shape == (0, len(TERM_NAMES))


@pytest.mark.parametrize(
    ("throughput_class", "group"),
    [
        ("conv 1x1", "pointwise"), ("conv 3x3", "conv 3x3"), ("conv 3x3 strided", "conv kxk"), ("conv grouped", "grouped"),
        ("conv on a vector", "vector"), ("linear vector", "vector"), ("linear matrix", "linear"), ("conv 3d", "volume"),
        ("depthwise 3x3", "depthwise"), ("depthwise kxk", "depthwise kxk"), ("depthwise wide", "depthwise kxk"),
        ("average pool", "pool"), ("what is not known", "elementwise"), ("einsum", "matmul"),
        ("linear attention", "matmul"), ("recurrent", "other"), ("conv first", "stem"), ("concat", "join"), ("split", "join"),
        ("transpose", "movement"), ("resize", "resize"), ("resize cubic", "resize"),
    ],
)  # fmt: skip
def test_kernels_belong_to_a_group(throughput_class: str, group: str) -> None:
    assert kernel_group(throughput_class) == group
    assert ALIKE.get(group, group) in KERNEL_GROUPS


def test_a_volume_s_flops_are_no_part_of_the_price_of_a_convolution() -> None:
    volume, dense = (term_places(kernel_group(name))[0] for name in ("conv 3d", "conv 3x3"))

    assert TERM_NAMES[volume] == "flops volume"
    assert TERM_NAMES[dense] == "flops conv 3x3"
    assert all(f"flops {group}" in TERM_NAMES for group in FLOPS_GROUPS)


@given(groups=st.sampled_from([2, 4, 8]), width=st.integers(4, 64), taps=st.sampled_from([1, 3, 5]))
def test_a_convolution_of_wide_groups_is_priced_apart_from_one_of_narrow_groups(groups: int, width: int, taps: int) -> None:
    kind = kernel_type("grouped_conv")
    given = {"batch": 1, "groups": groups, "in_channels": groups * width, "out_channels": groups * width}
    given |= dict.fromkeys(("in_h", "in_w", "out_h", "out_w"), 14) | dict.fromkeys(("kernel_h", "kernel_w"), taps)
    given |= dict.fromkeys(("stride_h", "stride_w"), 1)
    row = np.array([[given.get(name, 0) for name in kind.fields]])

    (group,) = kernel_groups(kind, row)

    assert group == ("grouped" if width < WIDE_GROUP else "pointwise" if taps == 1 else "grouped wide")


@pytest.mark.parametrize(
    ("given", "group"),
    [
        ({}, "volume"), ({"kernel_d": 1}, "volume"), ({"in_channels": 3}, "volume"),
        ({"in_d": 1, "out_d": 1, "kernel_d": 1}, "conv 3x3"), ({"in_h": 1, "out_h": 1, "kernel_h": 1}, "conv 3x3"),
        ({"in_d": 1, "out_d": 1} | dict.fromkeys(("kernel_d", "kernel_h", "kernel_w"), 1), "pointwise"),
        ({"in_d": 1, "out_d": 1, "kernel_d": 1, "kernel_h": 5}, "conv kxk"), ({"groups": 64}, "depthwise"),
        ({"groups": 4}, "grouped"), ({"groups": 2}, "volume"),
        ({"groups": 2, "in_d": 1, "out_d": 1, "kernel_d": 1}, "grouped wide"),
    ],
)  # fmt: skip
def test_a_convolution_of_a_volume_with_one_position_along_an_axis_is_one_of_an_image(given: dict[str, int], group: str) -> None:
    kind = kernel_type("conv_3d")
    usual = dict.fromkeys(kind.fields, 1) | {"in_channels": 64, "out_channels": 64}
    usual |= {f"{part}_{axis}": 3 if part == "kernel" else 8 for part in ("in", "out", "kernel") for axis in "dhw"}

    assert kernel_groups(kind, np.array([[(usual | given)[name] for name in kind.fields]])) == [group]


def test_a_volume_s_arithmetic_places_a_network_as_that_of_images_does() -> None:
    """Maps of 8x8x8 positions, in units of 2 doublings."""
    sizes = {f"{part}_{axis}": 3 if part == "kernel" else 8 for part in ("in", "out", "kernel") for axis in "dhw"}
    volume = _kernel("conv_3d", in_channels=8, out_channels=8, batch=1, groups=1, **sizes)

    place = NetworkFeatures.of([[volume]]).place[0]

    assert place[5] == pytest.approx(9 / 2)
    shares = dict(zip(FLOPS_GROUPS, place[6:], strict=False))
    assert [group for group, share in shares.items() if share] == ["conv 3x3"]


@pytest.mark.parametrize(("ins", "outs"), [(256, 32), (32, 256)])
def test_a_convolution_is_of_narrow_groups_whichever_side_is_narrow(ins: int, outs: int) -> None:
    """Four groups: 64 channels each on the one side, 8 on the other."""
    kind = kernel_type("grouped_conv")
    given = dict.fromkeys(kind.fields, 1) | {"groups": 4, "in_channels": ins, "out_channels": outs}

    assert kernel_groups(kind, np.array([[given[name] for name in kind.fields]])) == ["grouped"]


@pytest.mark.parametrize(("ins", "outs"), [(16, 64), (64, 16)])
def test_a_network_is_as_wide_as_the_narrower_side_of_its_convolutions(ins: int, outs: int) -> None:
    """In units of 1.5 doublings; the size of its maps, 8x8, in units of 2."""
    kind = kernel_type("conv")
    given = dict.fromkeys(kind.fields, 1) | {"in_channels": ins, "out_channels": outs, "kernel_h": 3, "kernel_w": 3}
    given |= dict.fromkeys(("in_h", "in_w", "out_h", "out_w"), 8)
    kernel = replace(KERNELS[0], kernel_type="conv", configuration=tuple(given[name] for name in kind.fields))

    place = NetworkFeatures.of([[kernel]]).place[0]

    assert place[4:6] == pytest.approx([4 / 1.5, 6 / 2])


def _kernel(kernel_type_name: str, **given: int) -> Kernel:
    fields = kernel_type(kernel_type_name).fields
    return replace(KERNELS[0], kernel_type=kernel_type_name, configuration=tuple(given.get(name, 0) for name in fields))


def _counted(network: NetworkFeatures) -> dict[str, float]:
    counts = network.sums[0, : len(TERM_NAMES)] / TERM_UNITS
    return {name: count for name, count in zip(TERM_NAMES, counts.tolist(), strict=True) if count}


def test_a_linear_layer_of_several_rows_is_a_convolution_but_for_the_term_of_its_flops() -> None:
    """50 rows of 8 features to 4: 2 x 50 x 8 x 4 FLOPs, 50 x (8 + 4) elements, 8 x 4 weights; a convolution of 10x5 pixels."""
    linear = NetworkFeatures.of([[_kernel("linear", rows=50, in_features=8, out_features=4)]])
    size = {"in_h": 10, "in_w": 5, "out_h": 10, "out_w": 5, "kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1}
    convolution = NetworkFeatures.of([[_kernel("conv", batch=1, in_channels=8, out_channels=4, groups=1, **size)]])

    assert _counted(linear) == pytest.approx({"flops linear": 3200, "moved conv": 600, "weights conv": 32, "kernels conv": 1})
    assert linear.place == pytest.approx(convolution.place)
    assert linear.kernels.group.tolist() == convolution.kernels.group.tolist() == [KERNEL_GROUPS.index("pointwise")]


def test_a_linear_layer_of_one_row_costs_the_reading_of_its_weights() -> None:
    vector = NetworkFeatures.of([[_kernel("linear", rows=1, in_features=8, out_features=4)]])

    assert _counted(vector) == pytest.approx({"moved matmul": 12, "weights linear": 32, "kernels conv": 1})


@pytest.mark.parametrize(
    ("unit", "standardises"),
    [("cpu+dynamo", True), ("gpu+eager", True), ("cpu4", False), ("cpu+xnnpack", False), ("gpu+eager+b256", False)],
)
def test_filters_are_standardised_at_every_inference_of_an_image_where_pytorch_interprets_or_compiles_a_network(
    unit: str, standardises: bool
) -> None:
    assert network_rules(Platform.parse(f"a/pytorch-2.4.0/{unit}/fp32")).standardises is standardises


def test_standardising_filters_reads_the_learned_ones_and_normalises_as_many_values() -> None:
    b = GraphBuilder("one")
    graph = b.finish(b.conv(b.input((1, 8, 32, 32)), 16, 3))
    graph = replace(graph, standardised=frozenset({graph.nodes[0].inputs[1]}))

    folded, unfolded = (NetworkFeatures.of([find_kernels(graph, load_rules(name))]).terms[0] for name in ("tflite", "unfolded"))

    more = dict(zip(TERM_NAMES, (unfolded - folded) / TERM_UNITS, strict=True))
    values = 16 * 8 * 3 * 3
    expected = {"moved normalisation": 2 * values, "weights conv": values, "kernels elementwise": 1}
    assert {name: count for name, count in more.items() if count} == pytest.approx(expected)


def test_the_image_that_the_first_convolution_reads_is_counted_apart() -> None:
    """3 channels of 32x32 in, 16 of 16x16 out: 3,072 elements of the image, 4,096 of a map."""
    sizes = {"kernel_h": 3, "kernel_w": 3, "stride_h": 2, "stride_w": 2, "out_h": 16, "out_w": 16, "out_channels": 16}
    first = _kernel("conv", batch=1, groups=1, in_channels=3, in_h=32, in_w=32, dilation_h=1, dilation_w=1, **sizes)
    later = replace(
        first, configuration=_kernel("conv", batch=1, groups=1, in_channels=16, in_h=32, in_w=32, **sizes).configuration
    )

    counted, of_later = (_counted(NetworkFeatures.of([[each]])) for each in (first, later))

    assert counted["moved image"] == pytest.approx(3072)
    assert counted["moved conv"] == pytest.approx(4096)
    assert "moved image" not in of_later
    assert of_later["moved conv"] == pytest.approx(16 * 1024 + 4096)


def test_resized_maps_have_a_price_of_their_own_and_are_compared_as_pooled_ones() -> None:
    """A map of 8 channels from 4x4 to 8x8 moves 128 + 512 elements; a pooling of the same the other way as many."""
    wide, narrow = {"in_h": 8, "in_w": 8, "out_h": 4, "out_w": 4}, {"in_h": 4, "in_w": 4, "out_h": 8, "out_w": 8}
    resized = NetworkFeatures.of([[_kernel("resize", channels=8, linear=1, **narrow)]])
    pooled = NetworkFeatures.of(
        [[_kernel("max_pool", batch=1, channels=8, kernel_h=2, kernel_w=2, stride_h=2, stride_w=2, **wide)]]
    )

    assert _counted(resized)["moved resize"] == pytest.approx(640)
    assert _counted(pooled)["moved pool"] == pytest.approx(640)
    assert resized.place[0, 6:] == pytest.approx(pooled.place[0, 6:])
