"""Random networks on rows of channels."""

from __future__ import annotations

from itertools import pairwise

from latcast.graph.operators import graph_macs
from latcast.graph.writers.tflite import to_tflite
from latcast.kernels import find_kernels
from latcast.kernels.rules import load_rules
from latcast.spaces.synthetic.random_rows import MOST_ELEMENTS, MOST_MACS, SPACE, STEPS, build
from tests.graph.running import run


def test_a_few_dozen_networks_hold_what_plain_encoder_blocks_lack() -> None:
    graphs = [SPACE.build(**reference.parameters) for reference in SPACE.sample(60, 0)]
    kernels = [kernel for graph in graphs for kernel in find_kernels(graph, load_rules("openvino"))]
    attentions = [kernel.configuration for kernel in kernels if kernel.kernel_type == "attention"]
    operators = {node.op_type for graph in graphs for node in graph.nodes}

    assert operators >= {"ReduceL2", "Sqrt", "Tanh", "Clip", "Pad", "InstanceNormalization", "Neg", "ReduceMax", "Erf"}
    assert {queries for _, queries, *_ in attentions} >= {1}
    assert any(keys == 2 * queries or queries == keys for _, queries, keys, *_ in attentions)
    assert "other" not in {kernel.kernel_type for kernel in kernels}


def test_they_stay_within_their_limits_and_tflite_can_be_written_of_all() -> None:
    graphs = [SPACE.build(**reference.parameters) for reference in SPACE.sample(60, 0)]
    patches = [graph.shape(graph.nodes[0].outputs[0]) for graph in graphs]

    assert max(graph_macs(graph) for graph in graphs) <= MOST_MACS
    # 32 channels are the fewest, and heads are whole.
    assert all(channels * height * width <= max(MOST_ELEMENTS, 64 * height * width) for _, channels, height, width in patches)
    assert all(to_tflite(graph) for graph in graphs)


def test_onnx_runtime_runs_every_step() -> None:
    small = [graph for graph in map(build, range(120)) if graph_macs(graph) < 20e6]

    assert len(small) > 2 * len(STEPS)
    for graph in small:
        assert [value.shape for value in run(graph)] == [graph.shape(name) for name in graph.outputs]
    assert all(first.structure_key != second.structure_key for first, second in pairwise(small))
