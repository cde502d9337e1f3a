"""Reorders between images with their channels last and tensors as shapes say: OpenVINO's, and ONNX Runtime's on integers."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from latcast.errors import BundleError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.writers.onnx_qdq import quantised_tensors
from latcast.kernels.layouts import TO_FIRST, TO_FIRST_STRIDED, TO_LAST, LayoutRules
from latcast.kernels.rules import FusionRules, load_rules, rules_for
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type

RULES = load_rules("openvino")


INTEGERS = rules_for("onnxruntime", "int8")


def moved(graph: Graph, rules: FusionRules = RULES) -> list[tuple[str, int, str]]:
    """Type, elements and reader of every reorder, in order."""
    return [
        (kernel.kernel_type, kernel.configuration[0], kernel.name) for kernel in find_kernels(graph, rules) if not kernel.nodes
    ]


def described(graph: Graph, operator: str, rules: FusionRules = INTEGERS) -> list[tuple[str, tuple[int, ...]]]:
    """Type and first three numbers of the kernels that begin with an operator."""
    found = (kernel for kernel in find_kernels(graph, rules) if kernel.operators[:1] == (operator,) and kernel.nodes)
    return [(kernel.kernel_type, kernel.configuration[:3]) for kernel in found]


def rows(b: GraphBuilder) -> str:
    return b.transpose(b.reshape(b.conv(b.input((1, 3, 8, 8)), 16, 2, stride=2, padding=0), (1, 16, 16)), (0, 2, 1))


def shuffled(b: GraphBuilder) -> str:
    x = b.channel_shuffle(b.conv(b.input((1, 3, 4, 4)), 8, 1), 2)
    return b.flatten(b.global_average_pool(b.conv(x, 8, 1)))


def pooled(b: GraphBuilder) -> str:
    x = b.max_pool(b.relu(b.conv(b.input((1, 3, 8, 8)), 8, 3)), 2)
    return b.flatten(b.global_average_pool(b.conv(x, 16, 3)))


def gated(b: GraphBuilder) -> str:
    return b.mul(b.conv(b.input((1, 3, 8, 8)), 16, 3), b.input((1, 16, 1, 1)))


def residual(b: GraphBuilder) -> str:
    x = b.input((1, 4, 8, 8))
    return b.flatten(b.conv(b.add(x, b.conv(x, 4, 3)), 4, 3))


def folded(b: GraphBuilder) -> str:
    return b.flatten(b.conv(b.relu(b.batch_norm(b.conv(b.input((1, 3, 8, 8)), 16, 3))), 4, 3))


@pytest.mark.parametrize(
    ("rules", "build", "expected"),
    [
        (RULES, lambda b: b.relu(b.conv(b.input((1, 3, 4, 4)), 8, 1)), [(TO_LAST, 48, "conv_0"), (TO_FIRST, 128, "relu_0")]),
        (RULES, pooled, [(TO_LAST, 192, "conv_0")]),
        (RULES, shuffled, [(TO_LAST, 48, "conv_0")]),
        # Rows of channels that one operator reads cost nothing; a tensor with two readers is reordered once.
        (RULES, lambda b: b.layer_norm(rows(b)), [(TO_LAST, 192, "conv_0")]),
        (
            RULES, lambda b: b.add(b.softmax(x := b.conv(b.input((1, 3, 4, 4)), 8, 1), axis=1), b.softmax(x, axis=3)),
            [(TO_LAST, 48, "conv_0"), (TO_FIRST, 128, "softmax_0")],
        ),
        # One channel or one pixel is the same in both layouts.
        (RULES, lambda b: b.reshape(b.conv(b.input((1, 1, 4, 4)), 8, 4, padding=0), (1, 8)), []),
        # ONNX Runtime's transposes pass a sum only where more axes are turned before it than behind it, but none of size 1.
        (
            INTEGERS, residual,
            [(TO_LAST, 256, "conv_0"), (TO_FIRST, 256, "add_0"), (TO_LAST, 256, "conv_1"), (TO_FIRST, 256, "flatten_0")],
        ),
        (INTEGERS, lambda b: b.softmax(gated(b), axis=3), [(TO_LAST, 192, "conv_0"), (TO_FIRST, 1024, "mul_0")]),
        (INTEGERS, lambda b: b.flatten(b.conv(gated(b), 4, 3)), [(TO_LAST, 192, "conv_0"), (TO_FIRST, 256, "flatten_0")]),
        (INTEGERS, folded, [(TO_LAST, 192, "conv_0"), (TO_FIRST, 256, "flatten_0")]),
    ],
)  # fmt: skip
def test_reorders_stand_where_the_runtime_inserts_them(
    rules: FusionRules, build: Callable[[GraphBuilder], str], expected: list[tuple[str, int, str]]
) -> None:
    b = GraphBuilder("images")
    assert moved(b.finish(build(b)), rules) == expected


class TestWhere:
    def test_rows_of_channels_that_a_residual_reads_too_are_reordered_and_transposed(self) -> None:
        b = GraphBuilder("pyramid")
        tokens = rows(b)
        graph = b.finish(b.add(b.layer_norm(tokens), tokens))

        assert moved(graph) == [(TO_LAST, 192, "conv_0"), (TO_FIRST, 256, "reshape_0")]
        assert [kernel.free for kernel in find_kernels(graph, RULES) if "Transpose" in kernel.operators] == [False]

    def test_a_normalisation_over_the_last_axis_of_an_image_needs_rows(self) -> None:
        b = GraphBuilder("convnext")
        x = b.transpose(b.conv(b.input((1, 3, 16, 16)), 8, 1), (0, 2, 3, 1))
        graph = b.finish(b.conv(b.transpose(b.layer_norm(x), (0, 3, 1, 2)), 8, 1))

        # The second axis of what is normalised has 16 elements, and 128 for each of them.
        assert moved(graph)[1] == (TO_FIRST_STRIDED, 2048, "layernormalization_0")
        assert [name for name, _, _ in moved(graph)] == [TO_LAST, TO_FIRST_STRIDED, TO_FIRST]


class TestWhichLoop:
    @pytest.mark.parametrize(
        ("shape", "expected"),
        [
            ((1, 16, 16, 8), TO_FIRST_STRIDED),
            ((1, 64, 16, 8), TO_FIRST_STRIDED),
            ((1, 15, 16, 8), TO_FIRST),
            ((1, 65, 16, 8), TO_FIRST),
            ((1, 16, 127, 1), TO_FIRST),
        ],
    )
    def test_a_second_axis_of_16_to_64_and_128_elements_for_each_take_the_one_with_a_stride(
        self, shape: tuple[int, int, int, int], expected: str
    ) -> None:
        b = GraphBuilder("image")
        graph = b.finish(b.conv(b.input((1, 8, *shape[2:])), shape[1], 1))

        assert [kernel.kernel_type for kernel in find_kernels(graph, RULES) if not kernel.nodes][-1] == expected

    def test_writes_with_a_stride_of_a_power_of_two_move_their_lines_again(self) -> None:
        """64 channels of 64x64 pixels: a stride of 16 KiB brings all lines into one of 64 sets of 12 ways; of 63x65 into all."""
        kind = kernel_type(TO_FIRST_STRIDED)
        rows = np.array([[64 * 4096, 64, 4096, 1, 0, 0, 0], [64 * 4095, 64, 4095, 1, 0, 0, 0]])

        written = kind.quantities(kind.columns(rows)).output_elements / rows[:, 0]

        # 64 lines of a set of 12: all but (12/64)^4 = 0.12 % gone; 64 lines of 64 x 12: none.
        assert written == pytest.approx([1 + 15 / (1 + (12 / 64) ** 4), 1.0], rel=1e-3)


class TestTransposesThatMove:
    """ONNX Runtime's integer convolutions want their channels last; its optimiser moves the transposes around them."""

    def test_a_mean_on_the_way_to_a_convolution_runs_on_channels_last_in_floats(self) -> None:
        b = GraphBuilder("gate")
        x = b.conv(b.input((1, 3, 8, 8)), 16, 3)
        graph = b.finish(b.flatten(b.conv(b.reduce_mean(x, (2, 3)), 4, 1)))

        # 16 maps of 64 pixels, as 64 rows of 16 channels.
        assert described(graph, "ReduceMean") == [("reduce.floating", (1, 64, 16))]
        assert moved(graph, INTEGERS) == [(TO_LAST, 192, "conv_0")]

    def test_a_mean_that_no_convolution_follows_is_not_reached_for_the_conversion_before_it(self) -> None:
        b = GraphBuilder("head")
        x = b.conv(b.input((1, 3, 8, 8)), 16, 3)
        graph = b.finish(b.linear(b.reduce_mean(x, (2, 3), keepdims=False), 10))

        assert described(graph, "ReduceMean") == [("reduce.floating", (16, 64, 1))]
        assert moved(graph, INTEGERS) == [(TO_LAST, 192, "conv_0"), (TO_FIRST, 1024, "reducemean_0")]

    def test_an_integer_pool_of_a_whole_map_leaves_one_axis_to_turn_where_it_found_three(self) -> None:
        b = GraphBuilder("head")
        x = b.conv(b.input((1, 3, 8, 8)), 16, 3)
        graph = b.finish(b.linear(b.flatten(b.global_average_pool(x)), 10))

        assert described(graph, "GlobalAveragePool") == [("reduce", (1, 64, 16))]
        assert moved(graph, INTEGERS) == [(TO_LAST, 192, "conv_0")]

    def test_a_transpose_of_the_network_cancels_against_the_one_of_a_convolution(self) -> None:
        b = GraphBuilder("convnext")
        x = b.transpose(b.conv(b.input((1, 3, 16, 16)), 8, 1), (0, 2, 3, 1))
        graph = b.finish(b.flatten(b.conv(b.transpose(b.layer_norm(x), (0, 3, 1, 2)), 8, 1)))

        assert [kernel.free for kernel in find_kernels(graph, INTEGERS) if kernel.operators == ("Transpose",)] == [True, True]
        assert [name for name, _, _ in moved(graph, INTEGERS)] == [TO_LAST, TO_FIRST]

    def test_an_average_pool_is_a_variant_on_channels_last(self) -> None:
        b = GraphBuilder("pools")
        x = b.average_pool(b.input((1, 4, 16, 16)), 2)
        graph = b.finish(b.flatten(b.conv(b.average_pool(b.conv(x, 8, 3), 2), 8, 3)))

        names = [name for name, _ in described(graph, "AveragePool")]

        assert names == ["average_pool", "average_pool.channels_last"]

    def test_a_product_inside_a_gelu_is_computed_between_conversions(self) -> None:
        b = GraphBuilder("gelu")
        x = b.input((1, 4, 8))
        graph = b.finish(b.mul(b.gelu(x), x))

        names = [name for name, _ in described(graph, "Mul")]

        assert names == ["arithmetic.floating"] * (len(names) - 1) + ["arithmetic"]
        assert len(names) == 3


def between_products(b: GraphBuilder) -> str:
    x = b.linear(b.input((1, 8, 16)), 8)
    return b.matmul(b.transpose(b.softmax(x), (0, 2, 1)), x)


def behind_a_quotient(b: GraphBuilder) -> str:
    x = b.linear(b.input((1, 8, 16)), 8)
    return b.matmul(b.softmax(b.div(x, x)), x)


def at_the_end(b: GraphBuilder) -> str:
    return b.softmax(b.linear(b.input((1, 8, 16)), 8))


def at_the_beginning(b: GraphBuilder) -> str:
    return b.linear(b.softmax(b.input((1, 8, 16))), 8)


class TestBetweenIntegers:
    """A softmax runs on integers where its input and its output are quantised, for the operators beside it."""

    @pytest.mark.parametrize(
        ("build", "expected"),
        [
            (between_products, "softmax"),
            (behind_a_quotient, "softmax.floating"),
            (at_the_end, "softmax.floating"),
            (at_the_beginning, "softmax.floating"),
        ],
    )
    def test_a_softmax_is_computed_on_integers_between_operators_that_are(
        self, build: Callable[[GraphBuilder], str], expected: str
    ) -> None:
        b = GraphBuilder("attention")
        graph = b.finish(build(b))

        assert [name for name, _ in described(graph, "Softmax")] == [expected]
        # The file that is measured quantises what it reads and what it writes, or not both.
        softmax = next(node for node in graph.nodes if node.op_type == "Softmax")
        around = {*softmax.inputs, *softmax.outputs}
        assert (around <= quantised_tensors(graph)) == (expected == "softmax")

    @pytest.mark.parametrize(
        ("quantised", "expected"), [(True, TO_FIRST), (False, TO_FIRST_STRIDED)], ids=["to a product", "to a softmax"]
    )
    def test_only_floats_come_back_by_the_loop_that_writes_with_a_stride(self, quantised: bool, expected: str) -> None:
        """16 channels of 256 pixels, behind a convolution."""
        b = GraphBuilder("head")
        x = b.conv(b.input((1, 3, 16, 16)), 16, 3)
        graph = b.finish(b.linear(b.flatten(x), 10) if quantised else b.softmax(x, axis=2))

        assert [name for name, _, _ in moved(graph, load_rules("openvino-int8"))] == [TO_LAST, expected]
        assert [name for name, _, _ in moved(graph)] == [TO_LAST, TO_FIRST_STRIDED]


class TestFile:
    @pytest.mark.parametrize("rules", [RULES, INTEGERS, load_rules("onnxruntime-cpu-avx2-fp32")])
    def test_rules_come_back_as_they_were_written(self, rules: FusionRules) -> None:
        assert FusionRules.from_json(json.loads(json.dumps(rules.to_json()))) == rules

    @pytest.mark.parametrize(
        "layouts",
        [
            {},
            {"channels_last": ["conv"], "either": [], "strided": [16]},
            {"channels_last": ["conv"], "either": [], "strided": [0, 0, 0], "inserts": "copies"},
            {"channels_last": ["conv"], "either": [], "strided": [0, 0, 0], "inserts": "blocks"},
            {"channels_last": ["conv"], "either": [], "strided": [0, 0, 0], "block": 8},
            3,
        ],
    )
    def test_a_malformed_layout_is_refused(self, layouts: object) -> None:
        with pytest.raises(BundleError, match="'layouts' needs lists 'channels_last' and 'either'"):
            LayoutRules.from_json(layouts, "rules.json")

    @pytest.mark.parametrize("quantisation", [{}, {"on_integers": ["add"], "converted": 3}, 3])
    def test_a_malformed_quantisation_is_refused(self, quantisation: object) -> None:
        with pytest.raises(BundleError, match=r"^mine: 'quantisation' needs a list 'on_integers' .* list 'converted'"):
            FusionRules.from_json({**RULES.to_json(), "quantisation": quantisation}, "mine")
