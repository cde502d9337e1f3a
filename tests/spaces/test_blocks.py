"""Convolutional blocks: operators, shapes, and what is added or passed on."""

from __future__ import annotations

from collections import Counter

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.graph.operators import graph_macs
from latcast.spaces.blocks import SqueezeExcite, ghost_module, inverted_residual, shuffle_unit
from tests.graph.running import image
from tests.graph.running import run_first as run


def test_an_inverted_residual_expands_convolves_and_projects() -> None:
    b = GraphBuilder("block")
    x = b.input((1, 8, 4, 4))
    graph = b.finish(inverted_residual(b, x, 8, expanded=48, kernel=3, stride=1, activation="relu6"))
    # 8*48 + 48*9 + 48*8 products at each of the 16 places.
    assert graph_macs(graph) == (8 * 48 + 48 * 9 + 48 * 8) * 16
    assert Counter(node.op_type for node in graph.nodes) == {"Conv": 3, "BatchNormalization": 3, "Clip": 2, "Add": 1}


def test_an_inverted_residual_adds_its_input_only_where_the_shape_stays() -> None:
    for width, stride in ((8, 2), (16, 1)):
        b = GraphBuilder("block")
        x = b.input((1, 8, 4, 4))
        y = inverted_residual(b, x, width, expanded=48, kernel=3, stride=stride, activation="relu")
        assert "Add" not in {node.op_type for node in b.finish(y).nodes}


def test_squeeze_and_excitation_sits_between_depthwise_convolution_and_projection() -> None:
    b = GraphBuilder("block")
    x = b.input((1, 8, 4, 4))
    gate = SqueezeExcite(4, gate="hard_sigmoid")
    y = inverted_residual(b, x, 4, expanded=16, kernel=3, stride=1, activation="hard_swish", squeeze_excite=gate)
    kinds = [node.op_type for node in b.finish(y).nodes]
    assert kinds[3:] == [
        "Conv", "BatchNormalization", "HardSwish", "GlobalAveragePool", "Conv", "Relu", "Conv", "HardSigmoid", "Mul",
        "Conv", "BatchNormalization",
    ]  # fmt: skip


def test_a_ghost_module_makes_half_of_its_channels_cheaply() -> None:
    b = GraphBuilder("ghost")
    x = b.input((1, 16, 8, 8))
    y = ghost_module(b, x, 24, "relu")
    graph = b.finish(y)
    assert graph.shape(y) == (1, 24, 8, 8)
    # 12 channels from 16 by 1x1, 12 more by 3x3 of one channel each, at 64 places.
    assert graph_macs(graph) == (16 * 12 + 12 * 9) * 64


def test_a_shuffle_unit_of_stride_1_passes_half_of_its_channels_unchanged() -> None:
    b = GraphBuilder("unit")
    x = b.input((1, 8, 6, 6))
    graph = b.finish(shuffle_unit(b, x, 8, 3, 1))
    given = image(graph)
    # After the shuffle by two groups the untouched half stands at the even places.
    np.testing.assert_array_equal(run(graph, given)[:, 0::2], given[:, :4])
