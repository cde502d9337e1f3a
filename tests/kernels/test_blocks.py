"""Images in blocks of channels under ONNX Runtime: where copies stand, and which fusions hold in blocks alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels.layouts import FROM_BLOCKS, TO_BLOCKS
from latcast.kernels.rules import FusionRules, load_rules, rules_for
from latcast.kernels.search import find_kernels

SIXTEEN, EIGHT = (load_rules(f"onnxruntime-cpu-{name}-fp32") for name in ("avx512", "avx2"))
PLAIN = load_rules("onnxruntime")

Build = Callable[[GraphBuilder], str]


def built(build: Build) -> Graph:
    b = GraphBuilder("images")
    return b.finish(build(b))


def image(b: GraphBuilder, channels: int = 16) -> str:
    """An image in blocks: what a convolution of three channels makes."""
    return b.conv(b.input((1, 3, 8, 8)), channels, 1)


def fused(build: Build, rules: FusionRules = SIXTEEN) -> list[tuple[str, ...]]:
    """Operators of the kernels, without copies."""
    return [kernel.operators for kernel in find_kernels(built(build), rules) if kernel.nodes]


def copied(build: Build, rules: FusionRules = SIXTEEN) -> list[tuple[str, int, str]]:
    """Type, elements and reader of every copy, in order."""
    return [(each.kernel_type, each.configuration[0], each.name) for each in find_kernels(built(build), rules) if not each.nodes]


def gated(b: GraphBuilder) -> str:
    x = image(b)
    return b.conv(b.mul(x, b.sigmoid(b.conv(b.global_average_pool(x), 16, 1))), 16, 1)


def residual(b: GraphBuilder, channels: int = 16) -> str:
    x = image(b, channels)
    return b.add(b.depthwise_conv(b.max_pool(x, 3, 1, 1)), b.max_pool(x, 3, 1, 1))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        # Three channels are read as they lie; the network's output lies as its shape says.
        (image, [(FROM_BLOCKS, 1024, "conv_0")]),
        (lambda b: b.conv(b.input((1, 32, 4, 4)), 16, 1), [(TO_BLOCKS, 512, "conv_0"), (FROM_BLOCKS, 256, "conv_0")]),
        # Fewer channels than a block has are read as they lie, of an image in blocks, too.
        (lambda b: b.conv(image(b, 8), 16, 1), [(FROM_BLOCKS, 512, "conv_1"), (FROM_BLOCKS, 1024, "conv_1")]),
        # No multiple of four channels: no blocks.
        (lambda b: b.conv(b.input((1, 18, 4, 4)), 16, 1), []),
        # The product of an image and a gate is no operator on blocks: the image and the gate come out, the product goes in.
        (
            gated,
            [
                (FROM_BLOCKS, 1024, "mul_0"), (FROM_BLOCKS, 16, "mul_0"),
                (TO_BLOCKS, 1024, "conv_2"), (FROM_BLOCKS, 1024, "conv_2"),
            ],
        ),
        # A tensor that several read is copied once; what reads plain tensors alone is not touched.
        (
            lambda b: b.add(b.softmax(x := image(b), axis=1), b.softmax(x, axis=3)),
            [(FROM_BLOCKS, 1024, "softmax_0")],
        ),
        # A copy out of blocks writes the channels last where the network transposes.
        (lambda b: b.transpose(image(b), (0, 2, 3, 1)), [(FROM_BLOCKS, 1024, "transpose_0")]),
    ],
)  # fmt: skip
def test_copies_stand_where_the_layout_changes(build: Build, expected: list[tuple[str, int, str]]) -> None:
    assert copied(build) == expected
    assert copied(build, PLAIN) == []


def test_a_transpose_that_a_copy_does_along_with_it_takes_no_time() -> None:
    kernels = find_kernels(built(lambda b: b.transpose(image(b), (0, 2, 3, 1))), SIXTEEN)

    assert [kernel.free for kernel in kernels if kernel.operators == ("Transpose",)] == [True]


@pytest.mark.parametrize("pool", ["MaxPool", "Concat"])
def test_whether_channels_fill_blocks_depends_on_their_size(pool: str) -> None:
    def build(b: GraphBuilder) -> str:
        x = image(b, 24)
        return b.max_pool(x, 2) if pool == "MaxPool" else b.concat([x, x])

    # 24 channels are three blocks of 8, and one and a half of 16.
    assert [reader for _, _, reader in copied(build, SIXTEEN)] == [f"{pool.lower()}_0"]
    assert copied(build, EIGHT)[0][1] == built(build).tensors[built(build).outputs[0]].elements


def test_groups_work_on_blocks_where_each_fills_some() -> None:
    def build(b: GraphBuilder) -> str:
        return b.conv(b.input((1, 16, 4, 4)), 16, 3, groups=2)

    assert copied(build, SIXTEEN) == []
    assert [kind for kind, _, _ in copied(build, EIGHT)] == [TO_BLOCKS, FROM_BLOCKS]


class TestFusion:
    def test_a_sum_is_fused_into_a_depthwise_convolution_in_blocks_alone(self) -> None:
        assert fused(residual)[-1] == ("Conv", "Add")
        assert fused(residual, PLAIN)[-2:] == [("MaxPool",), ("Add",)]

    def test_a_sum_of_an_image_in_blocks_and_a_plain_one_is_fused_into_neither(self) -> None:
        def build(b: GraphBuilder) -> str:
            x = image(b)
            return b.add(b.conv(x, 16, 1), b.softmax(x, axis=1))

        assert fused(build)[-1] == ("Add",)
        assert fused(build, PLAIN)[-1] == ("Conv", "Add")

    @pytest.mark.parametrize(("channels", "together"), [(16, True), (18, False)])
    def test_a_normalisation_of_blocks_takes_in_what_a_convolution_does(self, channels: int, together: bool) -> None:
        def build(b: GraphBuilder) -> str:
            x = image(b, channels)
            return b.relu(b.batch_norm(b.concat([x, x])))

        # 18 channels fill no whole number of blocks, so that the sum of both images is plain.
        assert (("BatchNormalization", "Relu") in fused(build)) == together

    def test_nothing_follows_an_activation_into_a_convolution(self) -> None:
        def build(b: GraphBuilder) -> str:
            x = image(b)
            return b.relu(b.add(b.relu(b.conv(x, 16, 1)), x))

        assert fused(build)[1:] == [("Conv", "Relu"), ("Add",), ("Relu",)]

    def test_a_normalisation_behind_a_sum_is_not_folded(self) -> None:
        assert fused(lambda b: b.batch_norm(residual(b)))[-2:] == [("Conv", "Add"), ("BatchNormalization",)]


def test_the_size_of_blocks_follows_from_the_processor() -> None:
    newest, older = "sse4_2 avx avx2 fma avx512f avx512bw avx512dq avx512vl", "sse4_2 avx avx2 fma"

    assert rules_for("onnxruntime", "fp32", "cpu2", cpu_flags=newest) == SIXTEEN
    assert rules_for("onnxruntime", "fp32", "cpu2", cpu_flags=older) == EIGHT
    # Of an Arm processor, or of one that nothing is known of, no blocks are assumed.
    assert rules_for("onnxruntime", "fp32", "cpu2", cpu_flags="neon asimd") == PLAIN
    assert rules_for("onnxruntime", "fp32", "cpu2") == PLAIN
