"""How much of a network's kernels a profile knows."""

import numpy as np

import latcast
from benchmarks.mix_coverage import MEASURES, coverage_table, covered_shares
from latcast.graph.builder import GraphBuilder


def test_all_of_a_network_whose_like_was_trained_on_is_covered() -> None:
    phone = latcast.load("pixel4/tflite-2.10/gpu/fp16")

    assert covered_shares(phone, latcast.build(latcast.model("resnet18"))).tolist() == [1.0] * len(MEASURES)


def test_a_kernel_of_no_known_type_is_not_covered_whatever_it_is_counted_in() -> None:
    """Two kernels: a convolution of 2 x 9 x 16 x 32 FLOPs for each of 56 x 56 pixels, and an operator that no phone ran."""
    b = GraphBuilder("half")
    x = b.op("CumSum", [b.conv(b.input((1, 16, 56, 56)), 32, 3), b.constant(1, dtype="int64")])[0]

    kernels, flops, latency = covered_shares(latcast.load("pixel4/tflite-2.10/gpu/fp16"), b.finish(x))

    assert kernels == 0.5
    # The sum adds once for each of 56 x 56 x 32 elements.
    assert np.isclose(flops, 288 / 289)
    assert 0 < latency < 1


def test_the_table_has_a_line_for_each_platform() -> None:
    # The platform, its networks and the target beside the measures.
    assert all(line.count("|") == 4 + len(MEASURES) for line in coverage_table().splitlines())
