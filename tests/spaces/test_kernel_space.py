"""The valid configurations of each kernel type."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from latcast.errors import UnknownNameError, UnsupportedOperatorError
from latcast.kernels import KERNEL_TYPES, find_kernels
from latcast.kernels.rules import FusionRules, load_rules
from latcast.spaces.catalogue import build
from latcast.spaces.kernel_space import MOST_ELEMENTS, MOST_FLOPS, MOST_WEIGHTS, KernelSpace, kernel_reference, kernel_spaces
from latcast.spaces.parametrisations import PARAMETRISATIONS

ONNXRUNTIME = load_rules("onnxruntime")
EVERYTHING = FusionRules(
    "everything",
    pairs={
        "conv": frozenset({"relu", "add"}),
        "add": frozenset({"relu", "layer_normalization"}),
        "batch_normalization": frozenset({"relu"}),
    },
    patterns=("silu", "gelu", "hard_swish", "mish", "channel_shuffle", "squeeze_excite", "attention"),
    free=frozenset({"reshape"}),
)
"""Rules under which every type with a layout has kernels."""


def drawn(space: KernelSpace, count: int = 12, seed: int = 0) -> list[tuple[int, ...]]:
    rng = Random(seed)
    found = [space.draw(rng) for _ in range(5 * count)]
    return [row for row in found if row is not None][:count]


def test_every_kernel_that_a_network_of_table_6_has_can_be_drawn_and_a_few_more() -> None:
    # nn-Meter Table 6, and what networks since then have.
    paper = {"conv", "depthwise_conv", "linear", "max_pool", "average_pool", "squeeze_excite", "activation", "channel_shuffle",
             "batch_norm", "arithmetic", "concat"}  # fmt: skip
    further = {"reduce", "grouped_conv", "conv_transpose", "resize", "softmax", "layer_norm", "matmul", "attention", "split",
               "transpose", "copy", "conv_3d", "lrn", "einsum", "linear_attention", "grid_sample", "top_k", "cum_sum", "dft",
               "nms", "recurrent", "indexed"}  # fmt: skip

    assert set(kernel_spaces(EVERYTHING)) == paper | further == set(PARAMETRISATIONS)
    # One that stands for operators without a form, and one that no runtime here has.
    assert set(KERNEL_TYPES) - set(PARAMETRISATIONS) == {"other", "depthwise_pointwise"}


@pytest.mark.parametrize("type_name", sorted(PARAMETRISATIONS))
def test_a_drawn_configuration_is_built_as_one_kernel_of_that_configuration(type_name: str) -> None:
    space = KernelSpace(type_name, EVERYTHING)

    rows = drawn(space)

    assert len(rows) == 12
    for row in rows:
        graph = build(kernel_reference(type_name, row))
        [kernel] = [kernel for kernel in find_kernels(graph, EVERYTHING) if not kernel.free]
        assert kernel.key == (type_name, row)
        assert space.contains(row)


@pytest.mark.parametrize("type_name", sorted(PARAMETRISATIONS))
def test_nothing_larger_than_kernels_of_networks_is_drawn(type_name: str) -> None:
    space = KernelSpace(type_name, EVERYTHING)
    kind = KERNEL_TYPES.get(type_name)

    q = kind.quantities(kind.columns(np.array(drawn(space))))

    assert (q.flops <= MOST_FLOPS).all()
    assert (q.input_elements + q.output_elements <= MOST_ELEMENTS).all()
    assert (q.weight_elements <= MOST_WEIGHTS).all()


@pytest.mark.parametrize("type_name", sorted(PARAMETRISATIONS))
def test_a_configuration_read_in_dimensions_and_written_again_is_the_same(type_name: str) -> None:
    space = KernelSpace(type_name, EVERYTHING)

    assert [space.moved(row, {}) for row in drawn(space)] == drawn(space)


def test_the_grid_of_convolutions_is_that_of_table_5_without_windows_wider_than_the_map() -> None:
    # 8 sizes from 224 to 13 with 5 windows and 3 strides; 8 and 7 with 4 windows; 1 with one of each.
    assert len(KernelSpace("conv", ONNXRUNTIME).cells) == 8 * 15 + 2 * 12 + 1


@pytest.mark.parametrize(
    ("configuration", "valid"),
    [
        ((1, 64, 56, 56, 64, 56, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0), True),
        ((1, 64, 56, 56, 64, 28, 28, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0), True),
        ((1, 64, 56, 56, 64, 60, 60, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0), False),  # larger than its padding allows
        ((1, 64, 5, 5, 64, 1, 1, 7, 7, 1, 1, 1, 1, 1, 0, 0, 0, 0), False),  # a window wider than the map
        ((1, 64, 56, 56, 64, 56, 56, 3, 3, 1, 1, 1, 1, 3, 1, 0, 0, 0), False),  # groups that divide no channels
        ((1, 64, 56, 56, 64, 56, 56, 3, 3, 1, 1, 1, 1, 64, 1, 0, 0, 0), False),  # a depthwise one
        ((1, 64, 56, 56, 64, 56, 56, 3, 3, 1, 1, 1, 1, 1, 1, 10, 0, 1), False),  # a GELU, which is a kernel of its own
        ((1, 2048, 224, 224, 2048, 224, 224, 7, 7, 1, 1, 1, 1, 1, 1, 0, 0, 0), False),  # 2e13 FLOPs
        ((1, 0, 56, 56, 64, 56, 56, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0), False),
        ((1, 64, 56, 56), False),
    ],
)
def test_only_convolutions_that_onnxruntime_runs_are_valid(configuration: tuple[int, ...], valid: bool) -> None:
    assert KernelSpace("conv", ONNXRUNTIME).contains(configuration) == valid


def test_fused_operators_follow_from_the_rules() -> None:
    plain = KernelSpace("conv", load_rules("none"))
    fusing = KernelSpace("arithmetic", EVERYTHING)

    assert plain.fused == ((0, 0, 0),)
    assert fusing.fused == ((0, 0, 0), (1, 0, 0))
    assert {row[-3:] for row in drawn(KernelSpace("batch_norm", EVERYTHING), 20)} == {(0, 0, 0), (1, 0, 0)}


def test_a_runtime_has_no_space_of_kernels_that_it_runs_as_several() -> None:
    found = set(kernel_spaces(ONNXRUNTIME))

    assert found.isdisjoint({"attention", "channel_shuffle", "squeeze_excite"})
    assert {"conv", "linear", "resize", "conv_transpose"} <= found
    assert set(kernel_spaces(ONNXRUNTIME, ("conv", "attention"))) == {"conv"}


def test_types_without_a_layout_and_unknown_types_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="kernels of type 'other' cannot be drawn"):
        KernelSpace("other", ONNXRUNTIME)
    with pytest.raises(UnknownNameError, match="no kernel type is called 'con'"):
        KernelSpace("con", ONNXRUNTIME)


@pytest.mark.parametrize(
    ("type_name", "configuration", "changes", "expected"),
    [
        (
            "conv", (1, 64, 56, 56, 96, 56, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0), {"in_channels": 10, "out_channels": 20},
            (1, 10, 56, 56, 20, 56, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0),
        ),
        (
            "depthwise_conv", (1, 64, 56, 56, 64, 28, 28, 5, 5, 2, 2, 1, 1, 64, 1, 0, 0, 0), {"in_channels": 10},
            (1, 10, 56, 56, 10, 28, 28, 5, 5, 2, 2, 1, 1, 10, 1, 0, 0, 0),
        ),
        (
            "grouped_conv", (1, 64, 7, 7, 128, 7, 7, 3, 3, 1, 1, 1, 1, 4, 1, 0, 0, 0), {"group_in": 3, "group_out": 5},
            (1, 12, 7, 7, 20, 7, 7, 3, 3, 1, 1, 1, 1, 4, 1, 0, 0, 0),
        ),
        ("activation", (64 * 49, 64, 0, 0, 0, 0), {"channels": 10}, (490, 10, 0, 0, 0, 0)),
        ("arithmetic", (64 * 49, 64, 64, 1, 0, 0, 0), {"channels": 10}, (490, 10, 10, 1, 0, 0, 0)),
        ("arithmetic", (64 * 49, 64, 64 * 49, 0, 0, 0, 0), {"channels": 10}, (490, 10, 490, 0, 0, 0, 0)),
        ("concat", (2, 64 * 49, 32 * 49, 64, 0, 0, 0), {"width": 10}, (2, 490, 245, 10, 0, 0, 0)),
        ("reduce", (64, 49, 1, 0, 0, 0), {"channels": 10}, (10, 49, 1, 0, 0, 0)),
        ("reduce", (1, 49, 64, 0, 0, 0), {"channels": 10}, (1, 49, 10, 0, 0, 0)),
        ("transpose", (49 * 64, 64, 49, 1, 0, 0, 0), {"width": 10}, (490, 10, 49, 1, 0, 0, 0)),
        ("channel_shuffle", (64 * 49, 64, 4, 0, 0, 0), {"group_channels": 3}, (12 * 49, 12, 4, 0, 0, 0)),
        ("squeeze_excite", (1, 64, 7, 7, 16, 0, 0, 0), {"channels": 96}, (1, 96, 7, 7, 24, 0, 0, 0)),
    ],
)  # fmt: skip
def test_fields_that_depend_on_channels_follow_them(
    type_name: str, configuration: tuple[int, ...], changes: dict[str, int], expected: tuple[int, ...]
) -> None:
    space = KernelSpace(type_name, EVERYTHING)

    assert space.contains(configuration)
    assert space.moved(configuration, changes) == expected


def test_a_kernel_that_is_moved_out_of_the_limits_is_none() -> None:
    space = KernelSpace("conv", ONNXRUNTIME)
    configuration = (1, 64, 56, 56, 96, 56, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0)

    assert space.moved(configuration, {"in_channels": 100_000}) is None
    assert space.moved(configuration, {"in_channels": 0}) is None


def test_a_configuration_of_a_network_that_is_built_otherwise_has_a_canonical_form() -> None:
    # Three FLOPs behind a convolution are built as a ReLU6, which has two.
    space = KernelSpace("conv", ONNXRUNTIME)
    three, two = ((1, 8, 9, 9, 8, 9, 9, 3, 3, 1, 1, 1, 1, 1, 1, flops, 0, 0) for flops in (3, 2))

    assert not space.contains(three)
    assert space.canonical(three) == two
