"""NAS-Bench-201: cells by their text, networks with the published sizes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import ModelError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs, unknown_operators
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.nas.nas_bench_201 import EDGES, OPERATIONS, SIZE, SPACE, cell_operations, cell_text, numbered_cell
from tests.spaces.families.counting import published_count

EMPTY = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"
DENSE = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|"
POINTWISE = DENSE.replace("3x3", "1x1")


def network(cell: str) -> Graph:
    return build(Reference("nas_bench_201", {"cell": cell}))


@pytest.mark.parametrize(
    ("cell", "macs", "parameters"),
    [
        # The stem (3·16·9 weights at 32x32 and 32 of its normalisation), the reductions (1,179,648 + 2,359,296 + 131,072 MACs
        # each; 14,464 and 57,600 parameters), the last normalisation and the 640 + 10 of the classifier: 7.783040 M and
        # 73,306, the smallest network of the benchmark (0.073 M parameters, 7.78 M FLOPs in its tables).
        (EMPTY, 7_783_040, 73_306),
        # Each stage has six convolutions of 9·16·16·1024 MACs in each of five cells, as channels double where pixels quarter.
        # The largest network: 1.531546 M parameters and 220.12 M FLOPs in the tables.
        (DENSE, 7_783_040 + 3 * 5 * 6 * 9 * 16 * 16 * 1024, 1_531_546),
        # A ninth of the MACs, and 5·6·(16² + 32² + 64²) + 5·6·2·(16 + 32 + 64) parameters.
        (POINTWISE, 7_783_040 + 3 * 5 * 6 * 16 * 16 * 1024, 73_306 + 30 * (256 + 1024 + 4096) + 60 * 112),
    ],
)
def test_networks_have_the_published_parameters_and_macs(cell: str, macs: int, parameters: int) -> None:
    graph = network(cell)
    assert graph_macs(graph) == macs
    assert published_count(graph) == parameters


def test_an_edge_that_leads_nowhere_computes_nothing() -> None:
    # Node 1 is computed from the input, but no edge leaves it; node 2 has no input, so its edge to the output brings nothing.
    dead = "|nor_conv_3x3~0|+|none~0|none~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"
    kinds = Counter(node.op_type for node in network(dead).nodes)
    assert kinds["AveragePool"] == 3 * 5 + 2
    assert kinds["Conv"] == 1 + 2 * 3
    assert kinds["Add"] == 2


def test_a_node_is_the_sum_of_its_edges() -> None:
    three = "|skip_connect~0|+|avg_pool_3x3~0|none~1|+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|"
    kinds = Counter(node.op_type for node in network(three).nodes)
    assert kinds["Add"] == 3 * 5 * 2 + 2
    assert kinds["Mul"] == 0


def test_a_cell_without_a_path_gives_zeros() -> None:
    kinds = Counter(node.op_type for node in network(EMPTY).nodes)
    assert kinds["Mul"] == 15


@given(number=st.integers(0, SIZE - 1))
def test_every_cell_has_a_text_and_a_graph_of_known_operators(number: int) -> None:
    text = numbered_cell(number)
    assert cell_text(cell_operations(text)) == text
    assert not unknown_operators(network(text))


def test_numbers_name_each_cell_once() -> None:
    assert SIZE == 15_625
    assert len({numbered_cell(number) for number in range(SIZE)}) == SIZE
    assert numbered_cell(0) == EMPTY
    assert cell_operations(numbered_cell(1)) == ("none",) * 5 + ("skip_connect",)


@pytest.mark.parametrize(
    "text", ["", EMPTY.replace("none~2", "none~1"), EMPTY.replace("none~0", "conv~0", 1), EMPTY + "|", "|none~0|+|none~0|none~1|"]
)
def test_a_text_that_is_no_cell_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match=r"no cell of NAS-Bench-201.*nor_conv_3x3"):
        network(text)


def test_the_whole_space_can_be_drawn() -> None:
    assert len({reference.parameters["cell"] for reference in SPACE.sample(SIZE, 0)}) == SIZE


def test_published_cells_are_cells_of_the_space(published_data: Path) -> None:
    lines = (published_data / "nb201" / "latency_ms.csv").read_text().splitlines()
    cells = {line.split(",")[1] for line in lines[1:200]}
    assert all(len(cell_operations(cell)) == len(EDGES) for cell in cells)
    assert {name for cell in cells for name in cell_operations(cell)} == set(OPERATIONS)
