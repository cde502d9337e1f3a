"""Memory of networks by their graphs alone; the sizes of real networks are those that their runtimes were seen to take."""

from __future__ import annotations

import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels.memory import memory_of
from latcast.kernels.rules import load_rules
from latcast.spaces import build
from latcast.spaces.catalogue import model


def residual() -> Graph:
    """Two convolutions of 16 channels on 8x8, 4096 bytes each in single precision; both results are added."""
    b = GraphBuilder("residual")
    x = b.relu(b.conv(b.input((1, 16, 8, 8)), 16, 3))
    y = b.relu(b.conv(x, 16, 3))
    return b.finish(b.global_average_pool(b.sigmoid(b.add(x, y))))


class TestSmallNetworks:
    def test_a_runtime_of_an_unknown_planner_holds_what_is_alive_at_once(self) -> None:
        # Input and output (4096 + 64), and x beside y; then their sum beside its sigmoid.
        found = memory_of(residual(), load_rules("none"))

        assert found.planner == "alive"
        assert found.peak_activations_bytes == 4096 + 64 + 3 * 4096

    def test_element_wise_kernels_write_over_inputs_without_other_readers(self) -> None:
        # x and y; their sum and its sigmoid take the place of y.
        assert memory_of(residual(), load_rules("litert")).peak_activations_bytes == 4096 + 64 + 2 * 4096

    def test_half_the_bits_take_half_the_memory(self) -> None:
        assert memory_of(residual(), load_rules("litert"), "fp16").peak_activations_bytes == 2048 + 64 + 2 * 2048

    def test_weights_are_counted_in_the_precision_of_the_platform(self) -> None:
        weights = 2 * 16 * 16 * 9

        assert memory_of(residual(), load_rules("litert")).weights_bytes == 4 * weights
        assert memory_of(residual(), load_rules("litert"), "int8").weights_bytes == weights

    def test_the_file_holds_the_weights_and_a_description(self) -> None:
        found = memory_of(residual(), load_rules("litert"))

        assert found.weights_bytes < found.file_bytes < found.weights_bytes + 2000

    def test_tflite_pads_a_pool_whose_padding_it_has_no_word_for(self) -> None:
        b = GraphBuilder("pool")
        x = b.conv(b.input((1, 8, 8, 8)), 8, 3)
        graph = b.finish(b.global_average_pool(b.max_pool(x, 3, 2, 1)))

        # 8x8 padded by 1 all round is 10x10, kept beside the convolution's result; TFLite would pad behind alone.
        assert memory_of(graph, load_rules("litert")).peak_activations_bytes == (2048 + 64) + 8 * 4 * (64 + 100)

    def test_operators_that_xnnpack_does_not_take_keep_their_inputs_outside_its_memory(self) -> None:
        b = GraphBuilder("six")
        x = b.input((1, 8, 8, 8))
        graph = b.finish(b.concat([b.relu(b.conv(x, 8, 3)) for _ in range(6)]))

        # Six results of 2048 bytes, and the input and the output of all of them.
        assert memory_of(graph, load_rules("litert")).peak_activations_bytes == 6 * 2048 + 2048 + 6 * 2048

    def test_onnx_runtime_rounds_channels_up_to_its_blocks(self) -> None:
        b = GraphBuilder("narrow")
        x = b.conv(b.input((1, 3, 8, 8)), 12, 3)
        graph = b.finish(b.global_average_pool(b.conv(x, 16, 3)))

        # 12 channels become 16; image of 768 bytes, output of 64.
        assert memory_of(graph, load_rules("onnxruntime")).peak_activations_bytes == 768 + 64 + 2 * 16 * 64 * 4

    def test_an_arena_takes_at_least_a_mebibyte(self) -> None:
        found = memory_of(residual(), load_rules("onnxruntime"))

        assert found.reserved_bytes == 4096 + 64 + 2**20
        assert found.total_bytes == found.reserved_bytes + found.weights_bytes


@pytest.mark.parametrize(
    ("name", "measured_bytes"), [("resnet18", 4_014_080), ("mobilenet_v2", 6_823_936), ("squeezenet1_1", 3_928_576)]
)
def test_plans_of_onnx_runtime_are_found_to_the_byte(name: str, measured_bytes: int) -> None:
    image, classes = 224 * 224 * 3 * 4, 4032

    found = memory_of(build(model(name)), load_rules("onnxruntime"))

    assert found.peak_activations_bytes == measured_bytes + image + classes


@pytest.mark.parametrize(
    ("name", "measured_bytes"), [("resnet18", 6_538_240), ("mobilenet_v2", 6_021_120), ("shufflenet_v2_x1_0", 2_451_840)]
)
def test_plans_of_xnnpack_are_found_to_the_byte(name: str, measured_bytes: int) -> None:
    image, classes = 224 * 224 * 3 * 4, 4032

    found = memory_of(build(model(name)), load_rules("litert"))

    assert found.peak_activations_bytes == measured_bytes + image + classes
