"""Configurations and quantities of kernels, against numbers worked out by hand and against the operator table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.idioms import IDIOMS
from latcast.graph.ir import AttributeValue, Graph
from latcast.graph.operators import node_flops
from latcast.graph.operators.table import OPERATORS
from latcast.kernels import KERNEL_TYPES, find_kernels, kernel_type, load_rules
from latcast.kernels.kernel import OF_IMAGES, Kernel, snake_case
from latcast.kernels.layouts import LAYOUT_CLASSES
from latcast.kernels.rules import FusionRules
from latcast.kernels.types import kernel_graph
from latcast.kernels.types.elementwise import ACTIVATIONS
from latcast.kernels.types.kernel_type import FUSED_FIELDS
from latcast.spaces.catalogue import build, model

NONE = load_rules("none")


def last(build_graph: Callable[[GraphBuilder], str], rules: FusionRules = NONE) -> Kernel:
    builder = GraphBuilder("one")
    return find_kernels(builder.finish(build_graph(builder)), rules)[-1]


def named(kernel: Kernel) -> dict[str, int]:
    return dict(zip(kernel_type(kernel.kernel_type).fields, kernel.configuration, strict=True))


def quantities(kernel: Kernel) -> tuple[float, float, float, float]:
    """FLOPs, elements read, written, and of weights."""
    kind = kernel_type(kernel.kernel_type)
    q = kind.quantities(kind.columns(np.array([kernel.configuration])))
    return float(q.flops[0]), float(q.input_elements[0]), float(q.output_elements[0]), float(q.weight_elements[0])


@pytest.mark.parametrize(
    ("build_graph", "kernel_type_name", "expected"),
    [
        # 32 x 36 results of 9 x 16/4 products; 576 results of 25; 576 values, each spread over 2 x 2 x 8 results.
        (lambda b: b.conv(b.input((1, 16, 6, 6)), 32, 3, groups=4), "grouped_conv", (2 * 1152 * 36, 576, 1152, 36 * 32)),
        (lambda b: b.depthwise_conv(b.input((1, 16, 6, 6)), 5), "depthwise_conv", (2 * 576 * 25, 576, 576, 400)),
        (lambda b: b.conv_transpose(b.input((1, 16, 6, 6)), 8, 2, stride=2), "conv_transpose", (2 * 576 * 32, 576, 1152, 512)),
        (lambda b: b.linear(b.input((4, 10)), 6), "linear", (480, 40, 24, 60)),
        (lambda b: b.matmul(b.weight((6, 10)), b.input((10, 4))), "linear", (480, 40, 24, 60)),
        (lambda b: b.op("Gemm", [b.input((10, 4)), b.weight((10, 6))], {"transA": 1})[0], "linear", (480, 40, 24, 60)),
        (lambda b: b.op("Gemm", [b.input((10, 4)), b.input((10, 6))], {"transA": 1})[0], "matmul", (480, 100, 24, 0)),
        (lambda b: b.matmul(b.input((2, 3, 5, 4)), b.input((2, 3, 4, 7))), "matmul", (1680, 288, 210, 0)),
        (lambda b: b.matmul(b.input((3, 4, 10)), b.weight((3, 10, 6))), "other", (1440, 120, 72, 180)),
        (lambda b: b.op("Einsum", [b.input((2, 3))] * 3, {"equation": "ij,ij,ij->i"})[0], "other", None),
        (lambda b: b.mul(b.input((1, 8, 6, 6)), b.input((1, 8, 1, 1))), "arithmetic", (288, 288 + 8, 288, 0)),
        (lambda b: b.max_pool(b.input((2, 8, 9, 9)), 3, 2, 1), "max_pool", (400 * 9, 16 * 81, 400, 0)),
        # 8 maps of 24 pixels become 8 of 144, four neighbours weighed for each; an embedding reads the rows that it picks.
        (lambda b: b.resize(b.input((1, 8, 4, 6)), (8, 18), mode="linear"), "resize", (7 * 1152, 192, 1152, 0)),
        (lambda b: b.resize(b.input((1, 8, 4, 6)), (8, 18), mode="nearest"), "resize", (1152, 192, 1152, 0)),
        (lambda b: b.op("Gather", [b.weight((30_000, 64)), b.input((1, 10), dtype="int64")])[0], "copy", (0, 640, 640, 0)),
        (lambda b: b.concat([b.input((1, 3, 4, 4)), b.input((1, 5, 4, 4))]), "concat", (0, 128, 128, 0)),
        # 480 elements pooled and scaled; 16 to 4 channels and back, 20 biases, 4 ReLU, 16 sigmoids of 4.
        (lambda b: b.squeeze_excite(b.input((1, 16, 5, 6)), 4), "squeeze_excite", (960 + 256 + 20 + 4 + 64, 960, 480, 148)),
    ],
)
def test_the_work_of_a_kernel_by_hand(
    build_graph: Callable[[GraphBuilder], str], kernel_type_name: str, expected: tuple[int, ...] | None
) -> None:
    kernel = last(build_graph, FusionRules("example", patterns=("squeeze_excite",)))

    assert kernel.kernel_type == kernel_type_name
    assert quantities(kernel) == (expected or quantities(kernel))


class TestConvolution:
    def test_a_dense_convolution(self) -> None:
        kernel = last(lambda b: b.conv(b.input((2, 16, 10, 12)), 32, (3, 5), stride=(2, 1), padding=(1, 0)))

        assert named(kernel) == {
            "batch": 2, "in_channels": 16, "in_h": 10, "in_w": 12, "out_channels": 32, "out_h": 5, "out_w": 8,
            "kernel_h": 3, "kernel_w": 5, "stride_h": 2, "stride_w": 1, "dilation_h": 1, "dilation_w": 1, "groups": 1,
            "padded": 1, "fused_flops": 0, "fused_inputs": 0, "fused_transcendentals": 0,
        }  # fmt: skip
        # 2 images of 32 x 5 x 8 results, each of 3 x 5 x 16 products; 3 x 5 x 16 x 32 weights.
        assert quantities(kernel) == (2 * 2560 * 240, 2 * 16 * 120, 2560, 7680)

    def test_a_vector_of_few_channels_is_not_an_image(self) -> None:
        found = last(lambda b: b.conv(b.input((1, 3, 1, 1)), 8, 1))
        kind = kernel_type("conv")

        assert kind.throughput_class(kind.columns(np.array([found.configuration]))).tolist() == ["conv on a vector unaligned"]

    def test_a_one_dimensional_convolution_has_height_one(self) -> None:
        def sequence(b: GraphBuilder) -> str:
            attributes = {"kernel_shape": (5,), "pads": (2, 2), "strides": (2,)}
            return b.op("Conv", [b.input((1, 16, 100)), b.weight((32, 16, 5))], attributes)[0]

        values = named(last(sequence))

        assert (values["in_h"], values["in_w"], values["out_h"], values["out_w"]) == (1, 100, 1, 50)
        assert (values["kernel_h"], values["kernel_w"], values["stride_h"], values["stride_w"]) == (1, 5, 1, 2)
        assert values["padded"] == 1

    def test_padding_that_the_runtime_works_out_counts_as_padding(self) -> None:
        def same(b: GraphBuilder, mode: str) -> str:
            return b.op("Conv", [b.input((1, 4, 8, 8)), b.weight((4, 4, 3, 3))], {"auto_pad": mode})[0]

        assert named(last(lambda b: same(b, "SAME_UPPER")))["padded"] == 1
        assert named(last(lambda b: same(b, "VALID")))["padded"] == 0

    def test_a_convolution_of_volumes(self) -> None:
        def volume(b: GraphBuilder) -> str:
            attributes = {"strides": (1, 2, 2), "pads": (1, 1, 1, 1, 1, 1), "group": 2}
            return b.relu(b.op("Conv", [b.input((1, 4, 8, 9, 11)), b.weight((6, 2, 3, 3, 3))], attributes)[0])

        kernel = last(volume, load_rules("onnxruntime"))

        assert (kernel.kernel_type, kernel.operators) == ("conv_3d", ("Conv", "Relu"))
        assert named(kernel) == {
            "batch": 1, "in_channels": 4, "in_d": 8, "in_h": 9, "in_w": 11, "out_channels": 6, "out_d": 8, "out_h": 5, "out_w": 6,
            "kernel_d": 3, "kernel_h": 3, "kernel_w": 3, "stride_d": 1, "stride_h": 2, "stride_w": 2, "groups": 2,
            "fused_flops": 1, "fused_inputs": 0, "fused_transcendentals": 0,
        }  # fmt: skip
        # 6 x 240 results of 27 x 2 products; 4 x 792 values read; 27 x 2 x 6 weights.
        assert quantities(kernel) == (2 * 1440 * 54, 3168, 1440, 324)

    def test_a_transposed_convolution_of_volumes_is_of_no_type(self) -> None:
        kernel = last(lambda b: b.op("ConvTranspose", [b.input((1, 2, 4, 4, 4)), b.weight((2, 3, 1, 1, 1))])[0])

        assert kernel.kernel_type == "other"
        # 128 values of 3 products each; inputs, results and weights as they are.
        assert named(kernel) == {
            "flops": 768, "in_elements": 128, "out_elements": 192, "weight_elements": 6,
            "fused_flops": 0, "fused_inputs": 0, "fused_transcendentals": 0,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("kernel", "stride", "channels", "expected"),
        [
            (1, 1, 16, "conv 1x1"), (1, 2, 16, "conv 1x1 strided"), (3, 1, 16, "conv 3x3"), (3, 2, 16, "conv 3x3 strided"),
            (5, 1, 16, "conv kxk"), (7, 2, 3, "conv first"), (1, 1, 3, "conv first"),
            (1, 1, 4, "conv 1x1"), (3, 2, 6, "conv first"),
        ],
    )  # fmt: skip
    def test_convolutions_that_run_by_different_algorithms_are_different_classes(
        self, kernel: int, stride: int, channels: int, expected: str
    ) -> None:
        found = last(lambda b: b.conv(b.input((1, channels, 16, 16)), 8, kernel, stride=stride))
        kind = kernel_type("conv")

        assert kind.throughput_class(kind.columns(np.array([found.configuration]))).tolist() == [expected]


class TestProducts:
    def test_attention_is_two_products_and_a_softmax(self) -> None:
        rules = FusionRules("example", patterns=("attention",))
        [kernel] = [k for k in find_kernels(attention(), rules) if k.kernel_type == "attention"]

        # 3 heads of 4 over 5 tokens: 2 x 2 x 3 x 25 x 4 FLOPs in products, 6 for each of 75 scores.
        assert kernel.configuration == (3, 5, 5, 4, 0, 0, 0, 0)
        assert quantities(kernel) == (1200 + 450, 3 * 4 * 15, 60, 0)

    def test_an_attention_operator_is_one_kernel_of_its_heads(self) -> None:
        def shared(b: GraphBuilder) -> str:
            heads = b.input((2, 6, 5, 8)), b.input((2, 3, 7, 8)), b.input((2, 3, 7, 4))
            return b.op("Attention", heads)[0]

        kernel = last(shared)

        assert kernel.kernel_type == "attention"
        # Two query heads share a head of keys; keys of 8 and values of 4 are 6 in the mean.
        assert named(kernel) == {
            "batch_heads": 12, "queries": 5, "keys": 7, "head_size": 6, "sharing_heads": 1,
            "fused_flops": 0, "fused_inputs": 0, "fused_transcendentals": 0,
        }  # fmt: skip
        # 12 x 5 x 7 scores of 2 x (8 + 4) FLOPs and a softmax; 12 x 5 x 8 queries and 6 x 7 x (8 + 4) keys and values,
        # with the mean size for the queries too.
        assert quantities(kernel) == (420 * (24 + 6), 12 * 5 * 6 + 6 * 7 * 12, 12 * 5 * 6, 0)

    def test_an_attention_operator_of_three_axes_is_the_same_kernel_as_one_of_four(self) -> None:
        heads = {"q_num_heads": 4, "kv_num_heads": 2}
        three = last(lambda b: b.op("Attention", [b.input((1, 5, 32)), b.input((1, 7, 16)), b.input((1, 7, 16))], heads)[0])
        four = last(lambda b: b.op("Attention", [b.input((1, 4, 5, 8)), b.input((1, 2, 7, 8)), b.input((1, 2, 7, 8))])[0])

        assert three.key == four.key

    def test_keys_of_the_past_are_looked_at_too(self) -> None:
        def cached(b: GraphBuilder) -> str:
            now, past = (1, 2, 1, 8), (1, 2, 9, 8)
            inputs = [b.input(now), b.input(now), b.input(now), "", b.input(past), b.input(past)]
            return b.op("Attention", inputs, outputs=3)[0]

        assert named(last(cached))["keys"] == 10


def attention() -> Graph:
    b = GraphBuilder("attention")
    return b.finish(b.attention(b.input((1, 5, 12)), 3))


class TestSqueezeExcite:
    @pytest.mark.parametrize(("activation", "gate"), [("relu", "sigmoid"), ("relu", "hard_sigmoid"), ("silu", "sigmoid")])
    def test_its_operators_are_one_kernel_where_the_rules_have_the_pattern(self, activation: str, gate: str) -> None:
        rules = FusionRules("example", patterns=("squeeze_excite", "silu"))
        kernel = last(lambda b: b.squeeze_excite(b.input((1, 16, 5, 6)), 4, activation=activation, gate=gate), rules)

        assert kernel.key == ("squeeze_excite", (1, 16, 5, 6, 4, 0, 0, 0))


class TestElementwise:
    @pytest.mark.parametrize(
        ("build_graph", "function"),
        [
            (lambda b: b.relu(b.input((1, 4, 3, 3))), "relu"),
            (lambda b: b.op("PRelu", [b.input((1, 4, 3, 3)), b.weight((4, 1, 1))])[0], "p_relu"),
            (lambda b: b.op("Swish", [b.input((1, 4, 3, 3))])[0], "silu"),
            (lambda b: b.silu(b.input((1, 4, 3, 3))), "silu"),
            (lambda b: b.gelu(b.input((1, 4, 3, 3))), "gelu"),
            (lambda b: b.op("Sign", [b.input((1, 4, 3, 3))])[0], "unary"),
        ],
    )
    def test_each_function_has_a_code(self, build_graph: Callable[[GraphBuilder], str], function: str) -> None:
        rules = FusionRules("example", patterns=("silu", "gelu"))

        assert last(build_graph, rules).configuration[:3] == (36, 4, ACTIVATIONS.index(function))

    def test_mish_is_not_taken_for_a_gelu_by_its_tanh(self) -> None:
        def mish(b: GraphBuilder) -> str:
            x = b.input((1, 4, 3, 3))
            return b.mul(x, b.op("Tanh", [b.op("Softplus", [x])[0]])[0])

        kernel = last(mish, FusionRules("example", patterns=("mish",)))

        assert ACTIVATIONS[named(kernel)["function"]] == "mish"

    @pytest.mark.parametrize(
        ("op_type", "attributes", "expected"),
        [
            ("LayerNormalization", {"axis": -1}, (6, 5)),
            ("LayerNormalization", {"axis": 1}, (2, 15)),
            ("InstanceNormalization", {}, (6, 5)),
            ("GroupNormalization", {"num_groups": 3}, (6, 5)),
            ("RMSNormalization", {"axis": -1}, (6, 5)),
        ],
    )
    def test_normalisations_are_rows_of_what_is_normalised_together(
        self, op_type: str, attributes: dict[str, int], expected: tuple[int, int]
    ) -> None:
        kernel = last(lambda b: b.op(op_type, [b.input((2, 3, 5)), b.weight((5,))], attributes)[0])

        assert (kernel.kernel_type, kernel.configuration[:2]) == ("layer_norm", expected)

    @pytest.mark.parametrize(
        ("shape", "axis", "expected", "throughput_class"),
        [
            ((2, 3, 5), -1, (6, 5, 0), "softmax"),
            ((2, 3, 5), 1, (10, 3, 5), "softmax strided narrow"),
            ((2, 3, 5), 0, (15, 2, 15), "softmax strided narrow"),
            ((2, 4, 5), 0, (20, 2, 20), "softmax strided"),
            ((2, 3, 1, 1), 1, (2, 3, 0), "softmax"),  # nothing lies between its elements
        ],
    )
    def test_a_softmax_is_rows_whose_elements_lie_side_by_side_or_apart(
        self, shape: tuple[int, ...], axis: int, expected: tuple[int, ...], throughput_class: str
    ) -> None:
        kernel, kind = last(lambda b: b.softmax(b.input(shape), axis=axis)), KERNEL_TYPES.get("softmax")

        assert kernel.configuration == (*expected, 0, 0, 0)
        assert kind.throughput_class(kind.columns(np.array([kernel.configuration]))).tolist() == [throughput_class]

    @pytest.mark.parametrize(("name", "field"), [("conv", "out_channels"), ("linear", "out_features")])
    def test_how_far_outputs_fill_whole_blocks_is_a_feature(self, name: str, field: str) -> None:
        kind = kernel_type(name)
        configuration = np.ones((2, len(kind.fields)), dtype=np.int64)
        configuration[:, kind.fields.index(field)] = (48, 40)
        features = kind.features(kind.columns(configuration))
        assert features["filled_16"].tolist() == pytest.approx([1, 40 / 48])
        assert features["filled_32"].tolist() == pytest.approx([48 / 64, 40 / 64])
        assert features["filled_64"].tolist() == pytest.approx([48 / 64, 40 / 64])


class TestPooling:
    @pytest.mark.parametrize("name", ["max_pool", "average_pool", "activation", "arithmetic", "concat", "resize"])
    def test_channels_beyond_whole_blocks_are_features(self, name: str) -> None:
        kind = KERNEL_TYPES.get(name)
        columns = {**kind.columns(np.ones((3, len(kind.fields)))), "channels": np.array([36.0, 64.0, 7.0])}

        remainders = {name: values.tolist() for name, values in kind.features(columns).items()}

        assert remainders == {"channels_mod_4": [0, 0, 3], "channels_mod_8": [4, 0, 7], "channels_mod_16": [4, 0, 7]}

    @pytest.mark.parametrize(
        ("build_graph", "expected"),
        [
            (lambda b: b.global_average_pool(b.input((2, 8, 6, 5))), (16, 30, 1)),
            (lambda b: b.reduce_mean(b.input((2, 8, 6, 5)), (2, 3)), (16, 30, 1)),
            (lambda b: b.reduce_mean(b.input((2, 8, 6, 5)), (1,)), (2, 8, 30)),
            (lambda b: b.reduce_mean(b.input((2, 8, 6, 5)), (-1,), keepdims=False), (96, 5, 1)),
            (lambda b: b.op("ReduceSum", [b.input((2, 8)), b.constant([0], dtype="int64")])[0], (1, 2, 8)),
            (lambda b: b.op("ReduceMax", [b.input((2, 8))], {"keepdims": 0})[0], (1, 16, 1)),
        ],
    )
    def test_reductions_are_what_is_before_at_and_behind_the_reduced_axes(
        self, build_graph: Callable[[GraphBuilder], str], expected: tuple[int, ...]
    ) -> None:
        kernel = last(build_graph)

        assert (kernel.kernel_type, kernel.configuration[:3]) == ("reduce", expected)


class TestMovement:
    @pytest.mark.parametrize(
        ("build_graph", "expected"),
        [
            (lambda b: b.concat([b.input((1, 3, 4, 4)), b.input((1, 5, 4, 4))]), ("concat", (2, 128, 64, 8, 0, 0, 0))),
            (lambda b: b.split(b.input((1, 9, 4, 4)), (3, 6))[0], ("split", (2, 144, 72, 0, 0, 0))),
            (lambda b: b.slice(b.input((1, 9, 4, 4)), (2,), (5,), (1,)), ("split", (1, 48, 48, 0, 0, 0))),
            (lambda b: b.transpose(b.input((2, 3, 5, 7)), (0, 2, 1, 3)), ("transpose", (210, 7, 7, 7, 0, 0, 0))),
            (lambda b: b.transpose(b.input((2, 3, 5, 7)), (0, 1, 3, 2)), ("transpose", (210, 7, 5, 1, 0, 0, 0))),
            (lambda b: b.resize(b.input((2, 3, 5, 7)), 10), ("resize", (6, 5, 7, 10, 10, 0, 0, 0, 0))),
            (lambda b: b.pad(b.input((1, 2)), (0, 1, 0, 1)), ("copy", (4, 2, 1, 2, 0, 0, 0))),
        ],
    )
    def test_movements_by_hand(self, build_graph: Callable[[GraphBuilder], str], expected: tuple[str, tuple[int, ...]]) -> None:
        assert last(build_graph).key == expected

    @pytest.mark.parametrize(
        ("operator", "shape", "given", "attributes", "expected", "throughput_class"),
        [
            ("Cast", (2, 3, 5), None, {"to": 10}, (30, 30, 0, 0), "copy"),
            # Rows of 5 are written in one piece, whatever is above them.
            ("Pad", (1, 2, 3, 5), (0, 0, 1, 1, 0, 0, 1, 1), {}, (70, 30, 1, 5), "copy pad"),
            ("Pad", (1, 2, 3, 5), (0, 0, 1, 0, 0, 0, 1, 0), {}, (50, 30, 1, 15), "copy pad"),
            ("Pad", (1, 2, 3, 5), (0, 2, 0, 0, 0, 0, 0, 0), {}, (60, 30, 1, 30), "copy pad"),
            ("Pad", (1, 2, 3, 5), (0,) * 8, {}, (30, 30, 1, 30), "copy pad"),
            ("Pad", (1, 2, 3, 5), (0, 0, 0, 1, 0, 0, 0, 1), {"mode": "reflect"}, (42, 30, 2, 5), "copy reflect pad"),
            ("Pad", (1, 2, 3, 5), (0, 0, 0, 1, 0, 0, 0, 1), {"mode": "edge"}, (42, 30, 2, 5), "copy reflect pad"),
            ("Expand", (8, 1, 1), (1, 8, 3, 5), {}, (120, 8, 3, 1), "copy expand"),
            ("Expand", (1, 1, 8), (4, 1, 8), {}, (32, 8, 3, 8), "copy expand"),
            ("Expand", (2, 1, 8), (2, 3, 8), {}, (48, 16, 3, 8), "copy expand"),
            ("Tile", (2, 8), (3, 1), {}, (48, 16, 3, 16), "copy expand"),
            ("Tile", (2, 8), (1, 3), {}, (48, 16, 3, 8), "copy expand"),
            ("Gather", (9, 4, 8), (0, 2), {"axis": 0}, (64, 64, 4, 32), "copy gather"),
            ("Gather", (9, 4, 8), (0, 2), {"axis": -1}, (72, 72, 4, 1), "copy gather"),
            ("DepthToSpace", (1, 8, 3, 5), None, {"blocksize": 2}, (120, 120, 5, 0), "copy rearrange"),
            ("SpaceToDepth", (1, 8, 4, 6), None, {"blocksize": 2}, (192, 192, 5, 0), "copy rearrange"),
        ],
    )  # fmt: skip
    def test_a_copy_has_a_form_and_a_run_that_stays_together(
        self,
        operator: str,
        shape: tuple[int, ...],
        given: tuple[int, ...] | None,
        attributes: dict[str, str | int],
        expected: tuple[int, ...],
        throughput_class: str,
    ) -> None:
        def built(b: GraphBuilder) -> str:
            further = [] if given is None else [b.constant(given, dtype="int64")]
            return b.op(operator, [b.input(shape), *further], attributes)[0]

        kernel, kind = last(built), KERNEL_TYPES.get("copy")

        assert kernel.key == ("copy", (*expected, 0, 0, 0))
        assert kind.throughput_class(kind.columns(np.array([kernel.configuration]))).tolist() == [throughput_class]

    @pytest.mark.parametrize(
        "values",
        [
            {"elements": 30, "in_elements": 30, "form": 1, "run": 4},  # no whole number of runs
            {"elements": 31, "in_elements": 30, "form": 2, "run": 30},
            {"elements": 31, "in_elements": 30, "form": 3, "run": 7},
            {"elements": 31, "in_elements": 31, "form": 4, "run": 7},
            {"elements": 31, "in_elements": 31, "form": 5, "run": 0},
        ],
    )
    def test_numbers_that_no_copy_has_are_built_as_one_that_is_near(self, values: dict[str, int]) -> None:
        graph = kernel_graph("copy", values)

        assert len(graph.nodes) == 1
        assert abs(graph.tensors[graph.outputs[0]].elements - values["elements"]) <= 1


FEW: dict[str, tuple[str, Sequence[tuple[int, ...]], Mapping[str, AttributeValue], Mapping[str, int]]] = {
    "lrn": ("LRN", [(2, 6, 5, 7)], {"size": 5}, {"elements": 420, "channels": 6, "size": 5}),
    "layer_norm": ("InstanceNormalization", [(2, 6, 5, 7), (6,), (6,)], {}, {"rows": 12, "columns": 35}),
    "grid_sample": (
        "GridSample", [(2, 3, 4, 5), (2, 6, 7, 2)], {"mode": "linear"},
        {"channels": 6, "in_pixels": 20, "out_pixels": 42, "mode": 1, "axes": 2},
    ),
    "einsum": (
        "Einsum", [(2, 3, 5, 8), (2, 3, 7, 8)], {"equation": "bhqd,bhkd->bhqk"},
        {"batch": 6, "rows": 5, "inner": 8, "columns": 7},
    ),
    "dft": ("DFT", [(2, 8, 1)], {"onesided": 1}, {"transforms": 2, "points": 8, "read_each": 8, "written_each": 10}),
    "nms": ("NonMaxSuppression", [(2, 5, 4), (2, 3, 5), (1,)], {}, {"images": 2, "classes": 3, "boxes": 5, "kept": 5}),
    "indexed": (
        "ScatterElements", [(6, 7), (2, 7), (2, 7)], {},
        {"elements": 42, "places": 14, "run": 1, "depth": 1, "scatters": 1},
    ),
    "recurrent": (
        "GRU", [(5, 1, 8), (2, 12, 8), (2, 12, 4)], {"hidden_size": 4, "direction": "bidirectional", "linear_before_reset": 1},
        {"steps": 5, "batch": 1, "directions": 2, "in_features": 8, "hidden": 4, "cell": 3},
    ),
    "linear_attention": (
        "LinearAttention", [(2, 10, 32), (2, 10, 16), (2, 10, 12)],
        {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "delta"},
        {"key_heads": 4, "sharing": 2, "tokens": 10, "key_size": 8, "value_size": 6, "rule": 2},
    ),
}  # fmt: skip


class TestFewNetworksHaveThem:
    @pytest.mark.parametrize("name", sorted(FEW))
    def test_each_is_one_kernel_that_counts_what_the_operator_table_counts(self, name: str) -> None:
        op_type, shapes, attributes, expected = FEW[name]
        b = GraphBuilder("one")
        graph = b.finish(b.op(op_type, [b.input(shape) for shape in shapes], attributes)[0])

        [kernel] = find_kernels(graph, load_rules("onnxruntime"))

        assert kernel.kernel_type == name
        assert {field: value for field, value in named(kernel).items() if field not in FUSED_FIELDS} == expected
        flops, read, written, weights = quantities(kernel)
        assert flops == node_flops(graph, graph.nodes[0])
        assert written == graph.tensors[graph.outputs[0]].elements
        assert read + weights >= max(graph.tensors[x].elements for x in graph.inputs)

    def test_running_sums_and_largest_values_are_told_by_the_axis(self) -> None:
        summed = last(lambda b: b.op("CumSum", [b.input((2, 3, 5, 7)), b.constant(-2, dtype="int64")])[0])
        taken = last(lambda b: b.op("TopK", [b.input((2, 3, 5, 7)), b.constant((4,), dtype="int64")], {"axis": 2}, outputs=2)[0])

        assert (summed.kernel_type, summed.configuration[:3]) == ("cum_sum", (6, 5, 7))
        assert (taken.kernel_type, taken.configuration[:4]) == ("top_k", (6, 5, 7, 4))
        # 42 rows of 5; 4 values of each and their places are written.
        assert quantities(summed) == (210, 210, 210, 0)
        assert quantities(taken) == (210, 210, 2 * 42 * 4, 0)


class TestAllTypes:
    def test_a_class_belongs_to_one_type(self) -> None:
        classes = [name for kind in map(KERNEL_TYPES.get, KERNEL_TYPES) for name in kind.classes]

        assert len(classes) == len(set(classes))

    def test_each_class_is_an_operator_a_pattern_or_a_word_of_the_rules(self) -> None:
        words = {
            "conv", "depthwise_conv", "grouped_conv", "linear", "matmul", "relu6", "silu", "unary", "arithmetic", "bias_add",
            *(f"{op}_{kind}" for op in ("add", "sub", "mul", "div", "pow", "max", "min") for kind in ("scalar", "weight")),
        }  # fmt: skip
        words |= {*LAYOUT_CLASSES, *OF_IMAGES.values()}
        known = words | {snake_case(name) for name in (*OPERATORS.names(), "Upsample")} | set(IDIOMS)

        assert {name for kind in map(KERNEL_TYPES.get, KERNEL_TYPES) for name in kind.classes} <= known

    @pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_large", "deit_tiny_16", "shufflenet_v2_x1_0"])
    def test_real_networks_have_a_type_for_every_operator(self, name: str) -> None:
        kernels = find_kernels(build(model(name)), load_rules("onnxruntime"))

        assert [kernel.operators for kernel in kernels if kernel.kernel_type == "other"] == []

    @pytest.mark.parametrize("name", sorted(KERNEL_TYPES))
    def test_quantities_classes_and_features_are_one_number_for_each_kernel(self, name: str) -> None:
        kind = KERNEL_TYPES.get(name)
        columns = kind.columns(np.ones((3, len(kind.fields)), dtype=np.int64))
        q = kind.quantities(columns)

        for values in (q.flops, q.input_elements, q.output_elements, q.weight_elements, kind.throughput_class(columns)):
            assert values.shape == (3,)
        assert all(values.shape == (3,) and np.isfinite(values).all() for values in kind.features(columns).values())
