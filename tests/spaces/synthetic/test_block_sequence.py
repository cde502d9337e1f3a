"""The synthetic space of nine blocks in a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.errors import ModelError
from latcast.graph.operators import graph_macs
from latcast.spaces.catalogue import build
from latcast.spaces.families.variants import DrawnSpace
from latcast.spaces.synthetic import random_mobile
from latcast.spaces.synthetic.block_sequence import (
    CHANNEL_RANGES,
    ELEMENTWISE,
    EXPANSIONS,
    GROUPS,
    KERNELS,
    POOLING_WINDOWS,
    SPACE,
)
from tests.graph.running import image
from tests.graph.running import run_first as run

CHANNELS = [8, 16, 16, 24, 32, 80, 80, 96, 96, 1200]
POOLING = {"type": "pooling", "operator": "max", "window": 3}


def with_block(position: int, block: dict[str, Any], **parameters: Any) -> Any:
    """A sequence of poolings but for one block."""
    blocks = [POOLING] * 9
    blocks[position] = block
    return SPACE.build(blocks=blocks, channels=CHANNELS, **parameters)


def test_poolings_alone_bring_the_three_channels_of_the_image_to_7_by_7() -> None:
    graph = SPACE.build(blocks=[POOLING] * 9, channels=CHANNELS)
    sizes = [graph.shape(node.inputs[0])[2] for node in graph.nodes if node.op_type == "MaxPool"]
    assert sizes == [224, 112, 112, 56, 28, 14, 14, 7, 7]
    # What remains is the 1x1 convolution of 3 channels to 1200 at 49 places, and the linear layer.
    assert graph_macs(graph) == 3 * 1200 * 49 + 1200 * 1000


def test_a_linear_bottleneck_expands_what_it_reads() -> None:
    block = {"type": "bottleneck", "kernel": 5, "expansion": 6, "squeeze": False}
    graph = with_block(8, block)
    # 3 channels to 18 to 96, at 49 places; then 96 channels to 1200.
    bottleneck = (3 * 18 + 18 * 25 + 18 * 96) * 49
    assert graph_macs(graph) == bottleneck + 96 * 1200 * 49 + 1200 * 1000


def test_a_bottleneck_that_keeps_its_shape_adds_its_input() -> None:
    blocks = [{"type": "convolution", "kernel": 3, "groups": 1}, *[POOLING] * 8]
    bottleneck = {"type": "bottleneck", "kernel": 3, "expansion": 1, "squeeze": False}

    def additions(position: int, channels: list[int]) -> int:
        sequence = [*blocks[:position], bottleneck, *blocks[position + 1 :]]
        graph = SPACE.build(blocks=sequence, channels=channels, resolution=64)
        return sum(node.op_type == "Add" for node in graph.nodes)

    kept = [16] * 9 + [1200]
    assert additions(1, kept) == 1
    assert additions(2, kept) == 0  # stride 2
    assert additions(1, [16, 24, *kept[2:]]) == 0


def test_a_split_block_operates_on_each_part_and_puts_them_together() -> None:
    split = {"type": "split", "operators": ["double", "square"]}
    blocks = [{"type": "convolution", "kernel": 3, "groups": 1}, split, *[POOLING] * 7]
    graph = SPACE.build(blocks=blocks, channels=[9, *CHANNELS[1:]], resolution=64)
    (node,) = (node for node in graph.nodes if node.op_type == "Split")
    (gathered,) = (node for node in graph.nodes if node.op_type == "Concat")
    assert [graph.shape(name) for name in node.outputs] == [(1, 5, 32, 32), (1, 4, 32, 32)]
    assert graph.shape(gathered.outputs[0]) == (1, 9, 32, 32)
    x = graph.producers[node.inputs[0]].outputs[0]
    given = image(graph)
    seen = run(graph.with_nodes(graph.nodes, outputs=(x,)), given)
    result = run(graph.with_nodes(graph.nodes, outputs=(gathered.outputs[0],)), given)
    np.testing.assert_allclose(result[:, :5], 2 * seen[:, :5], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result[:, 5:], seen[:, 5:] ** 2, rtol=1e-5, atol=1e-6)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_every_member_keeps_to_the_papers_ranges(seed: int) -> None:
    (read,) = SPACE.sample(1, seed)
    for width, (low, high) in zip(read.parameters["channels"], CHANNEL_RANGES, strict=True):
        assert low <= width <= high
    for block in read.parameters["blocks"]:
        assert block.get("kernel", 3) in KERNELS
        assert block.get("expansion", 1) in EXPANSIONS
        assert block.get("window", 1) in POOLING_WINDOWS
        assert block.get("groups", 1) in (1, *GROUPS)
        assert set(block.get("operators", ())) <= set(ELEMENTWISE)
    graph = build(read)
    maps = [graph.shape(node.inputs[0]) for node in graph.nodes if node.op_type == "GlobalAveragePool"]
    assert maps[-1] == (1, read.parameters["channels"][-1], 7, 7)


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"blocks": [POOLING] * 8, "channels": CHANNELS}, "8 blocks and 10 widths"),
        ({"blocks": [POOLING] * 9, "channels": CHANNELS[:9]}, "9 blocks and 9 widths"),
        ({"blocks": [{"type": "recurrent"}] * 9, "channels": CHANNELS}, "no block is of type 'recurrent'"),
        ({"blocks": [POOLING] * 9}, "'channels'"),
    ],
)
def test_parameters_that_make_no_network_are_refused(parameters: dict[str, Any], found: str) -> None:
    with pytest.raises(ModelError, match=found):
        SPACE.build(**parameters)


@pytest.mark.parametrize("space", [SPACE, random_mobile.SPACE])
def test_members_run_in_onnx_runtime(space: DrawnSpace) -> None:
    for reference in space.sample(4, 2):
        graph = space.build(**reference.parameters, resolution=64, classes=10)
        answers = run(graph, image(graph))
        assert answers.shape == (1, 10)
        assert np.isfinite(answers).all()
