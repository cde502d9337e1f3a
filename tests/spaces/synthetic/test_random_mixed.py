"""The space that predictors are trained on: every kind of block, within limits, the same for the same seed."""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.errors import ModelError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs, unknown_operators
from latcast.records import Reference
from latcast.spaces.catalogue import build
from latcast.spaces.families.variants import DrawnSpace
from latcast.spaces.synthetic.mixed_blocks import FITS, TOKENS, MixedBuilder, window_attention
from latcast.spaces.synthetic.random_mixed import (
    BLOCKS,
    HEADS,
    MAC_RANGE,
    MAX_PARAMETERS,
    MULTIPLIER_LIMITS,
    SMALL,
    SMALL_MAC_RANGE,
    SMALL_SIZES,
    SPACE,
    STEMS,
    kinds_in,
)
from tests.graph.running import image
from tests.graph.running import run_first as run

SEEDS = st.integers(0, 2**32 - 1)


@cache
def sampled() -> tuple[tuple[Reference, Graph], ...]:
    """Members that several tests look at."""
    return tuple((reference, build(reference)) for reference in SPACE.sample(100, 0))


@pytest.mark.parametrize(
    ("seed", "width", "macs", "parameters", "nodes"),
    [(1, 1.0, 1_122_380_992, 29_922_792, 262), (2, 0.5, 164_276_176, 8_383_967, 414), (4, 1.0, 1_942_002_536, 11_627_936, 98)],
)
def test_a_seed_means_the_same_network_for_ever(seed: int, width: float, macs: int, parameters: int, nodes: int) -> None:
    # Datasets keep the seed alone: a change here makes every measurement of this space worthless.
    graph = SPACE.build(seed=seed, width=width)
    assert (graph_macs(graph), graph.parameter_count, len(graph.nodes)) == (macs, parameters, nodes)


@settings(max_examples=40)
@given(seed=SEEDS, width=st.floats(*MULTIPLIER_LIMITS))
def test_every_seed_and_width_makes_a_network(seed: int, width: float) -> None:
    graph = SPACE.build(seed=seed, width=width)
    assert unknown_operators(graph) == []
    assert graph.shape(graph.inputs[0])[:2] == (1, 3)
    assert all(96 <= side <= 256 for side in graph.shape(graph.inputs[0])[2:])
    assert len(graph.shape(graph.outputs[0])) == 2
    assert all(size > 0 for tensor in graph.tensors.values() for size in tensor.shape)
    assert graph.structure_key == SPACE.build(seed=seed, width=width).structure_key


@settings(max_examples=20)
@given(seed=SEEDS)
def test_the_width_changes_no_block(seed: int) -> None:
    assert kinds_in(seed=seed, width=0.3) == kinds_in(seed=seed, width=3.0)
    narrow, wide = SPACE.build(seed=seed, width=0.3), SPACE.build(seed=seed, width=3.0)
    assert graph_macs(narrow) <= graph_macs(wide)
    assert narrow.shape(narrow.inputs[0]) == wide.shape(wide.inputs[0])


def test_sampled_members_keep_to_the_limits_and_run() -> None:
    for reference, graph in sampled():
        assert MAC_RANGE[0] <= graph_macs(graph) <= MAC_RANGE[1]
        assert graph.parameter_count <= MAX_PARAMETERS
        assert MULTIPLIER_LIMITS[0] <= reference.parameters["width"] <= MULTIPLIER_LIMITS[1]
    for _, graph in sorted(sampled(), key=lambda member: graph_macs(member[1]))[:30:5]:
        answers = run(graph, image(graph))
        assert answers.shape == graph.shape(graph.outputs[0])
        assert np.isfinite(answers).all()


def test_sampled_members_are_of_all_sizes_kinds_and_operators() -> None:
    # Log-uniform from 20 million to 5 billion: the quartiles are at 80, 316 and 1257 million.
    low, middle, high = np.quantile([graph_macs(graph) for _, graph in sampled()], [0.25, 0.5, 0.75])
    assert 50e6 < low < 130e6
    assert 200e6 < middle < 500e6
    assert 800e6 < high < 2000e6
    kinds = Counter(kind for reference, _ in sampled() for kind in kinds_in(**reference.parameters))
    assert set(kinds) == {*STEMS, *BLOCKS, *HEADS}
    assert all(count >= (10 if kind in BLOCKS else 5) for kind, count in kinds.items())
    assert {node.op_type for _, graph in sampled() for node in graph.nodes} >= {
        "Conv", "BatchNormalization", "Relu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "LeakyRelu", "Erf", "Add", "Mul",
        "Concat", "Split", "Slice", "Reshape", "Transpose", "Flatten", "MaxPool", "AveragePool", "GlobalAveragePool",
        "ReduceMean", "Gemm", "MatMul", "LayerNormalization", "Softmax",
    }  # fmt: skip


@pytest.mark.parametrize(("space", "drawn"), [(SPACE, "ef10ca6ab40075ad"), (SMALL, "147d71fbc9d33be3")])
def test_a_seed_draws_the_same_networks_for_ever(space: DrawnSpace, drawn: str) -> None:
    # A profile that goes on where it was draws again what it measured.
    keys = "".join(reference.key for reference in space.sample(12, 7))
    assert hashlib.sha256(keys.encode()).hexdigest()[:16] == drawn


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_network_of_one_kind_has_no_other_but_where_it_does_not_fit(kind: str) -> None:
    for seed in range(3):
        used = kinds_in(seed=seed, kinds=[kind])
        others = set(used) & set(BLOCKS) - {kind}
        assert used[kind] > 0 or kind in FITS
        assert others <= ({"plain"} if kind in FITS else set())


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ModelError, match="no kind of block is called 'recurrent'"):
        SPACE.build(seed=0, kinds=["plain", "recurrent"])


def test_attention_in_windows_sees_no_more_than_a_window() -> None:
    for seed in range(12):
        b = MixedBuilder("windows", Random(seed), 1.0)
        x = b.input((1, 64, 16, 24))
        graph = b.finish(window_attention(b, x, 64, 1, Random(seed)))
        scores = [graph.shape(node.outputs[0]) for node in graph.nodes if node.op_type == "Softmax"]
        assert scores
        for windows, _, tokens, _ in scores:
            assert (windows, tokens) in ((24, 16), (6, 64))


@pytest.mark.parametrize("kind", TOKENS)
def test_blocks_on_tokens_return_maps(kind: str) -> None:
    for seed in range(6):
        for stride in (1, 2):
            b = MixedBuilder(kind, Random(seed), 1.0)
            x = BLOCKS[kind](b, b.input((1, 48, 16, 12)), 96, stride, Random(seed))
            assert b.shape(x)[0] == 1
            assert b.size(x) == (16 // stride, 12 // stride)


@pytest.mark.parametrize("kind", [kind for kind in BLOCKS if kind not in TOKENS])
def test_convolutional_blocks_of_stride_2_halve_maps_of_even_and_odd_sides(kind: str) -> None:
    for seed in range(12):
        b = MixedBuilder(kind, Random(seed), 1.0)
        x = BLOCKS[kind](b, b.input((1, 48, 17, 12)), 96, 2, Random(seed))
        height, width = b.size(x)
        assert height in (8, 9)
        assert width == 6
        b = MixedBuilder(kind, Random(seed), 1.0)
        x = BLOCKS[kind](b, b.input((1, 48, 17, 12)), 96, 1, Random(seed))
        assert b.size(x) == (17, 12)


def test_members_of_the_small_space_have_small_square_inputs_and_few_multiply_accumulates() -> None:
    for reference in SMALL.sample(12, 3):
        graph = SMALL.build(**reference.parameters)
        height, width = graph.shape(graph.inputs[0])[2:]
        assert height == width
        assert height in SMALL_SIZES
        assert SMALL_MAC_RANGE[0] <= graph_macs(graph) <= SMALL_MAC_RANGE[1]


def test_a_map_of_one_column_is_pooled_by_nothing_larger() -> None:
    graph = SPACE.build(seed=3_564_383_498)  # which would pool a map of 2 x 1 by 2 x 2

    assert (2, 1) in {graph.shape(output)[2:] for node in graph.nodes for output in node.outputs}
