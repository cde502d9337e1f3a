"""Random mobile networks in the manner of the published ones."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from statistics import median, quantiles

from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.spaces.synthetic.random_mobile import MAC_RANGE, SPACE


def test_a_block_expands_convolves_projects_and_adds_where_asked_for() -> None:
    graph = SPACE.build(blocks=[[32, 5, 3, 1, True], [32, 5, 3, 1, False], [40, 3, 6, 2, True]], resolution=32, classes=10)
    kinds = Counter(node.op_type for node in graph.nodes)
    # Stem, separable pair, three blocks of three, and three 1x1 convolutions at the end.
    assert kinds["Conv"] == 1 + 2 + 9 + 3
    assert kinds["Add"] == 1
    stem = 27 * 32 * 256 + (32 * 9 + 32 * 32) * 256
    kept = 2 * (32 * 96 + 96 * 25 + 96 * 32) * 256
    halved = 32 * 192 * 256 + (192 * 9 + 192 * 40) * 64
    ends = 40 * 576 * 64 + 576 * 1024 + 1024 * 10
    assert graph_macs(graph) == stem + kept + halved + ends


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_every_member_is_as_large_as_a_mobile_network(seed: int) -> None:
    (reference,) = SPACE.sample(1, seed)
    graph = SPACE.build(**reference.parameters)
    assert MAC_RANGE[0] <= graph_macs(graph) <= MAC_RANGE[1]
    pooled = [graph.shape(node.inputs[0]) for node in graph.nodes if node.op_type == "GlobalAveragePool"]
    assert pooled[-1][2:] in ((7, 7), (4, 4))


def layers(graph: Graph) -> int:
    """Convolutions, activations, additions and poolings, as the published lists count them."""
    return sum(node.op_type in ("Conv", "Relu", "Add", "GlobalAveragePool") for node in graph.nodes)


def test_sampled_networks_are_of_the_middle_half_of_the_published_ones(published_data: Path) -> None:
    # Thirteen numbers a layer, the last of them its multiply-accumulates; the first hundred networks are random.
    with (published_data / "iiswc20" / "layer_embeddings.csv").open() as lines:
        rows = [[float(cell) for cell in row if cell] for row in csv.reader(lines)][:100]
    depths = quantiles([len(row) // 13 for row in rows], n=4)
    macs = quantiles([sum(row[12::13]) for row in rows], n=4)
    graphs = [SPACE.build(**reference.parameters) for reference in SPACE.sample(60, 0)]
    assert depths[0] <= median(layers(graph) for graph in graphs) <= depths[2]
    assert macs[0] <= median(graph_macs(graph) for graph in graphs) <= macs[2]
