"""Random networks of recurrent layers."""

from __future__ import annotations

from latcast.graph.operators import graph_macs, unknown_operators
from latcast.kernels import find_kernels
from latcast.kernels.rules import load_rules
from latcast.kernels.types.recurrent import CELLS, RECURRENT
from latcast.spaces.synthetic.random_sequences import MOST_MACS, SPACE
from tests.graph.running import run


def test_a_few_dozen_networks_hold_all_cells_in_both_directions_with_one_step_and_with_hundreds() -> None:
    rules = load_rules("onnxruntime")
    graphs = [SPACE.build(**reference.parameters) for reference in SPACE.sample(30, 0)]
    kernels = [kernel for graph in graphs for kernel in find_kernels(graph, rules)]
    found = [dict(zip(RECURRENT.fields, each.configuration, strict=True)) for each in kernels if each.kernel_type == "recurrent"]

    assert {each["cell"] for each in found} == set(range(len(CELLS)))
    assert {each["directions"] for each in found} == {1, 2}
    assert min(each["steps"] for each in found) == 1
    assert max(each["steps"] for each in found) > 200
    assert "other" not in {kernel.kernel_type for kernel in kernels}
    assert not any(unknown_operators(graph) for graph in graphs)
    assert max(graph_macs(graph) for graph in graphs) <= MOST_MACS


def test_onnx_runtime_runs_them() -> None:
    small = [graph for graph in (SPACE.build(seed=seed) for seed in range(20)) if graph_macs(graph) < 30e6]

    assert len(small) > 5
    for graph in small:
        assert [value.shape for value in run(graph)] == [graph.shape(name) for name in graph.outputs]
