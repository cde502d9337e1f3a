"""A kernel as a network of its own is the kernel it was made from."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.errors import UnknownNameError, UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.graph.idioms import IDIOMS
from latcast.kernels import KERNEL_TYPES, find_kernels, kernel_type
from latcast.kernels.rules import FusionRules
from latcast.kernels.types import kernel_graph
from latcast.kernels.types.kernel_type import FUSED_FIELDS
from latcast.spaces.catalogue import FAMILY_NAMES, SPACES, SYNTHETIC_NAMES, build
from tests.graph.op_types import op_types

BEHIND = frozenset(
    {"batch_normalization", "relu", "relu6", "sigmoid", "hard_sigmoid", "silu", "hard_swish", "gelu", "add", "bias_add"}
)
PRODUCTS = ("conv", "depthwise_conv", "depthwise_pointwise", "grouped_conv", "conv_transpose", "linear")
RULES = FusionRules("example", pairs=dict.fromkeys(PRODUCTS, BEHIND), patterns=tuple(IDIOMS))


def rebuilt(type_name: str, configuration: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    values = dict(zip(kernel_type(type_name).fields, configuration, strict=True))
    return [kernel.key for kernel in find_kernels(kernel_graph(type_name, values), RULES)]


CONFIGURATIONS: dict[str, list[tuple[int, ...]]] = {
    "conv": [
        (1, 64, 56, 56, 64, 56, 56, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0),
        (1, 3, 224, 224, 32, 112, 112, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0),
        (2, 3, 224, 224, 16, 56, 56, 3, 3, 4, 4, 1, 1, 1, 1, 1, 0, 0),
        (1, 8, 9, 9, 8, 9, 9, 2, 2, 1, 1, 1, 1, 1, 1, 2, 0, 0),
        (1, 8, 9, 9, 8, 7, 7, 3, 3, 1, 1, 1, 1, 1, 0, 4, 0, 0),
        (1, 8, 9, 9, 8, 7, 7, 3, 3, 1, 1, 1, 1, 1, 0, 4, 0, 1),
        (1, 8, 17, 17, 8, 17, 17, 1, 7, 1, 1, 1, 1, 1, 1, 5, 0, 0),
        (1, 8, 17, 17, 8, 17, 17, 1, 7, 1, 1, 1, 1, 1, 1, 5, 0, 1),
        (1, 8, 17, 17, 8, 17, 17, 1, 7, 1, 1, 1, 1, 1, 1, 11, 1, 1),
        (1, 8, 33, 33, 8, 33, 33, 3, 3, 1, 1, 2, 2, 1, 1, 2, 1, 0),
        (1, 16, 1, 100, 32, 1, 100, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0),
    ],
    "depthwise_conv": [(1, 96, 14, 14, 96, 7, 7, 5, 5, 2, 2, 1, 1, 96, 1, 2, 0, 0)],
    "depthwise_pointwise": [
        (1, 16, 14, 14, 16, 7, 7, 3, 3, 2, 2, 1, 1, 16, 1, 24, 0, 0, 0),
        (2, 8, 14, 14, 8, 12, 12, 3, 3, 1, 1, 1, 1, 8, 0, 8, 1, 0, 0),
    ],
    "grouped_conv": [(1, 96, 14, 14, 48, 14, 14, 3, 3, 1, 1, 1, 1, 4, 1, 1, 0, 0)],
    "conv_transpose": [
        (1, 64, 14, 14, 32, 28, 28, 2, 2, 2, 2, 1, 1, 1, 0, 0, 0, 0),
        (1, 64, 14, 14, 32, 28, 28, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0),
        (1, 64, 14, 14, 32, 28, 28, 4, 4, 2, 2, 1, 1, 4, 1, 1, 0, 0),
    ],
    "linear": [(1, 512, 1000, 0, 0, 0), (197, 192, 576, 0, 0, 0), (197, 192, 576, 1, 0, 0), (197, 192, 768, 11, 0, 1)],
    "matmul": [(6, 197, 64, 197, 0, 0, 0)],
    "attention": [(3, 197, 197, 64, 0, 0, 0, 0), (6, 5, 7, 8, 2, 0, 0, 0)],
    "activation": [(4096, 64, function, 0, 0, 0) for function in range(18)],
    "arithmetic": [
        *((1280, 32, small, operation, 0, 0, 0) for operation in range(4) for small in (1, 32, 40, 160, 1280)),
        (1280, 32, 32, 4, 0, 0, 0),
        (1280, 32, 1280, 4, 0, 0, 0),
        (1280, 32, 32, 5, 0, 0, 0),
        *((1280, 32, 1, operation, 0, 0, 0) for operation in (6, 7, 8, 9)),
        (1280, 32, 1280, 10, 0, 0, 0),
    ],
    "batch_norm": [(6272, 32, 0, 0, 0)],
    "softmax": [(591, 197, 0, 0, 0, 0), (16, 49, 8, 0, 0, 0), (35, 3, 5, 0, 0, 0)],
    "layer_norm": [(197, 192, 0, 0, 0)],
    "max_pool": [
        (1, 64, 112, 112, 56, 56, 3, 3, 2, 2, 0, 0, 0),
        (1, 64, 112, 112, 56, 56, 2, 2, 2, 2, 0, 0, 0),
        (1, 64, 7, 7, 4, 4, 2, 2, 2, 2, 0, 0, 0),
    ],
    "average_pool": [(1, 64, 28, 28, 28, 28, 3, 3, 1, 1, 0, 0, 0)],
    "reduce": [(64, 49, 1, 0, 0, 0), (64, 50, 1, 0, 0, 0), (1, 196, 768, 0, 0, 0)],
    "concat": [
        (3, 96 * 49, 32 * 49, 96, 0, 0, 0),
        (2, 7 * 49, 171, 7, 0, 0, 0),
        (2, 197 * 192, 197 * 96, 197, 0, 0, 0),
        (2, 4 * 5 * 6, 3, 4, 0, 0, 0),
    ],
    "split": [
        (2, 64 * 49, 32 * 49, 0, 0, 0),
        (3, 197 * 576, 192, 0, 0, 0),
        (3, 10 * 49, 163, 0, 0, 0),
        (1, 32 * 49, 32 * 49, 0, 0, 0),
    ],
    "transpose": [(197 * 192, 192, 197, 1, 0, 0, 0), (3 * 197 * 64, 64, 64, 64, 0, 0, 0), (8 * 5 * 12, 4, 4, 12, 0, 0, 0)],
    "channel_shuffle": [(116 * 784, 116, 2, 0, 0, 0)],
    "squeeze_excite": [(1, 72, 28, 28, 24, 0, 0, 0), (2, 96, 7, 9, 4, 0, 0, 0)],
    "resize": [(64, 14, 14, 28, 28, 0, 0, 0, 0), (64, 14, 14, 20, 30, 1, 0, 0, 0), (3, 14, 14, 28, 28, 2, 0, 0, 0)],
    "copy": [
        (784, 784, 0, 0, 0, 0, 0),
        (900, 784, 1, 784, 0, 0, 0),
        # Maps of 3 channels padded by one pixel all around, of 8 on the right and below alone, of 16 between their channels.
        *((3 * 226 * 226, 3 * 224 * 224, form, 224, 0, 0, 0) for form in (1, 2)),
        *((8 * 29 * 29, 8 * 28 * 28, form, 28, 0, 0, 0) for form in (1, 2)),
        (20 * 49, 16 * 49, 1, 16 * 49, 0, 0, 0),
        (3 * 22 * 22, 3 * 16 * 16, 2, 16, 0, 0, 0),
        # A vector over a map, a number over one, a token over images, a row of each head over all of its rows.
        (64 * 49, 64, 3, 1, 0, 0, 0),
        (49, 1, 3, 1, 0, 0, 0),
        (4 * 192, 192, 3, 192, 0, 0, 0),
        (6 * 7 * 5, 6 * 5, 3, 5, 0, 0, 0),
        (640, 640, 4, 64, 0, 0, 0),
        (64, 64, 4, 64, 0, 0, 0),
        (49, 49, 4, 1, 0, 0, 0),
        (784, 784, 5, 0, 0, 0, 0),
    ],
    "conv_3d": [
        (1, 3, 8, 28, 30, 16, 8, 14, 15, 3, 3, 3, 1, 2, 2, 1, 0, 0, 0),
        (2, 8, 4, 7, 7, 8, 2, 5, 5, 3, 3, 3, 1, 1, 1, 4, 0, 0, 0),
    ],
    "lrn": [(96 * 54 * 54, 96, 5, 0, 0, 0)],
    "einsum": [(3, 5, 7, 11, 0, 0, 0)],
    "linear_attention": [(4, 2, 10, 16, 8, rule, 0, 0, 0) for rule in range(4)],
    "grid_sample": [(3, 196, 784, mode, axes, 0, 0, 0) for mode in (0, 1) for axes in (2, 3)] + [(3, 196, 784, 2, 2, 0, 0, 0)],
    "top_k": [(2, 100, 3, 7, 0, 0, 0)],
    "cum_sum": [(2, 100, 3, 0, 0, 0)],
    "dft": [(6, 8, 8, 16, 0, 0, 0), (6, 8, 16, 16, 0, 0, 0), (6, 8, 8, 10, 0, 0, 0)],
    "nms": [(2, 3, 50, 10, 0, 0, 0)],
    "recurrent": [(steps, 2, directions, 10, 16, cell, 0, 0, 0) for steps, directions in ((1, 1), (7, 2)) for cell in range(4)],
    "indexed": [(640, 30, 8, depth, 1, 0, 0, 0) for depth in (1, 3)] + [(240, 30, 8, depth, 0, 0, 0, 0) for depth in (1, 2)],
}
"""Configurations by type, as networks have them: odd paddings, uneven splits, broadcasts of each kind."""


def test_every_type_but_other_is_covered_here() -> None:
    assert set(CONFIGURATIONS) == set(KERNEL_TYPES) - {"other"}


@pytest.mark.parametrize(("type_name", "configuration"), [(name, row) for name, rows in CONFIGURATIONS.items() for row in rows])
def test_a_kernel_built_alone_is_one_kernel_of_the_same_configuration(type_name: str, configuration: tuple[int, ...]) -> None:
    assert rebuilt(type_name, configuration) == [(type_name, configuration)]


@settings(max_examples=60)
@given(st.sampled_from([*FAMILY_NAMES, *SYNTHETIC_NAMES]), st.integers(0, 10_000))
def test_every_kernel_of_a_network_built_alone_is_the_same_kernel(space: str, seed: int) -> None:
    [reference] = SPACES.get(space).sample(1, seed)
    for kernel in {kernel.key: kernel for kernel in find_kernels(build(reference), RULES)}.values():
        if kernel.kernel_type != "other":
            assert rebuilt(kernel.kernel_type, kernel.configuration) == [kernel.key], kernel.operators


@pytest.mark.parametrize(
    ("fused", "expected"),
    [
        ((0, 0, 0), ["Gemm"]),
        ((1, 0, 0), ["Gemm", "Relu"]),
        ((3, 0, 0), ["Gemm", "Clip"]),
        ((4, 0, 0), ["Gemm", "HardSigmoid"]),
        ((4, 0, 1), ["Gemm", "Sigmoid"]),
        ((5, 0, 1), ["Gemm", "Sigmoid", "Mul"]),
        ((7, 0, 1), ["Gemm", "Sigmoid", "Mul"]),
        ((8, 0, 1), ["Gemm", "Div", "Erf", "Add", "Mul", "Mul"]),
        ((9, 0, 0), ["Gemm", "HardSwish"]),
        ((2, 2, 0), ["Gemm", "Add", "Add"]),
        ((3, 2, 0), ["Gemm", "Add", "Add", "Relu"]),
        ((6, 2, 1), ["Gemm", "Add", "Add", "Sigmoid"]),
        # The first sum behind a product of several rows is its bias.
        ((0, 0, 0), ["MatMul"]),
        ((1, 0, 0), ["MatMul", "Add"]),
        ((2, 0, 0), ["MatMul", "Add", "Relu"]),
        ((11, 0, 1), ["MatMul", "Add", "Div", "Erf", "Add", "Mul", "Mul"]),
        ((2, 1, 0), ["MatMul", "Add", "Add"]),
    ],
)
def test_fused_operators_are_written_out_behind_the_product(fused: tuple[int, int, int], expected: list[str]) -> None:
    parameters = {
        "rows": 1 if expected[0] == "Gemm" else 2,
        "in_features": 8,
        "out_features": 4,
        **dict(zip(FUSED_FIELDS, fused, strict=True)),
    }

    assert op_types(kernel_graph("linear", parameters)) == expected


def test_a_sum_that_is_fused_into_a_normalisation_is_in_front_of_it() -> None:
    graph = kernel_graph("layer_norm", {"rows": 5, "columns": 8, "fused_flops": 1, "fused_inputs": 1})
    [kernel] = find_kernels(graph, FusionRules("example", pairs={"add": frozenset({"layer_normalization"})}))

    assert op_types(graph) == ["Add", "LayerNormalization"]
    assert kernel.key == ("layer_norm", (5, 8, 1, 1, 0))


@pytest.mark.parametrize(
    ("activation", "fused"),
    [
        ("hard_sigmoid", (4, 0, 0)),
        ("sigmoid", (4, 0, 1)),
        ("hard_swish", (5, 0, 0)),
        ("silu", (5, 0, 1)),  # a sigmoid of 4 and a product
        ("gelu", (10, 0, 1)),  # an error function of 6, two products, a quotient and a sum
    ],
)
def test_activations_behind_a_convolution_count_their_transcendental_functions(
    activation: str, fused: tuple[int, int, int]
) -> None:
    builder = GraphBuilder(activation)
    y = builder.conv(builder.input((1, 8, 6, 6)), 16, 3, padding=1)
    [kernel] = find_kernels(builder.finish(builder.activation(y, activation)), RULES)

    assert kernel.kernel_type == "conv"
    assert kernel.configuration[-len(FUSED_FIELDS) :] == fused
    assert rebuilt("conv", kernel.configuration) == [kernel.key]
    values = dict(zip(kernel_type("conv").fields, kernel.configuration, strict=True))
    assert op_types(kernel_graph("conv", values)) == list(kernel.operators)


@pytest.mark.parametrize("op_type", ["Swish", "Log", "Tanh", "Mish"])
def test_a_transcendental_function_stays_one(op_type: str) -> None:
    builder = GraphBuilder(op_type)
    y = builder.op(op_type, [builder.linear(builder.input((2, 8)), 4)])[0]
    rules = FusionRules("example", pairs={"linear": frozenset({"silu", "log", "tanh", "mish"})})
    [kernel] = find_kernels(builder.finish(y), rules)

    assert kernel.configuration[-1] == 1
    [(_, again)] = rebuilt("linear", kernel.configuration)
    assert again[-1] == 1


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"rows": 2, "in_features": 8}, "missing: out_features; unknown: none"),
        ({"rows": 2, "in_features": 8, "out_features": 4, "bias": 1}, "missing: none; unknown: bias"),
    ],
)
def test_missing_and_unknown_fields_are_named(parameters: dict[str, int], problem: str) -> None:
    with pytest.raises(UnknownNameError, match=problem):
        kernel_graph("linear", parameters)


def test_an_unknown_type_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"no kernel type is called 'con'; known: .*conv"):
        kernel_graph("con", {})


def test_the_type_of_all_others_cannot_be_built() -> None:
    with pytest.raises(UnsupportedOperatorError, match="measure a network that holds it"):
        kernel_graph("other", {"flops": 1, "in_elements": 1, "out_elements": 1, "weight_elements": 0})
