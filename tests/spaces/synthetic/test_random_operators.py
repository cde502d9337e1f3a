"""Random networks of operators that few networks have."""

from __future__ import annotations

from latcast.graph.operators import graph_macs
from latcast.graph.writers.tflite import to_tflite
from latcast.kernels import find_kernels
from latcast.kernels.rules import load_rules
from latcast.kernels.types import kernel_type
from latcast.spaces.synthetic.random_operators import FORMS_SPACE, MOST_ENLARGED, MOST_MACS, MOVES_SPACE, SPACE
from tests.graph.running import run

FEW = {"copy", "resize", "layer_norm", "lrn", "top_k", "cum_sum", "grid_sample", "einsum", "conv_3d", "conv_transpose",
       "indexed", "nms", "dft"}  # fmt: skip


def test_a_few_dozen_networks_hold_every_kind_of_kernel_that_others_lack() -> None:
    rules = load_rules("onnxruntime")
    graphs = [SPACE.build(**reference.parameters) for reference in SPACE.sample(40, 0)]
    kernels = [kernel for graph in graphs for kernel in find_kernels(graph, rules)]

    assert {kernel.kernel_type for kernel in kernels} >= FEW
    assert "other" not in {kernel.kernel_type for kernel in kernels}
    assert max(graph_macs(graph) for graph in graphs) <= MOST_MACS


def test_networks_of_moves_have_operators_that_tflite_has_and_move_data_by_all_of_them() -> None:
    graphs = [MOVES_SPACE.build(**reference.parameters) for reference in MOVES_SPACE.sample(40, 0)]
    operators = {node.op_type for graph in graphs for node in graph.nodes}
    modes = {str(node.attributes["mode"]) for graph in graphs for node in graph.nodes if node.op_type == "Pad"}

    assert operators >= {"Pad", "Resize", "DepthToSpace", "SpaceToDepth", "Expand", "Gather", "ConvTranspose"}
    assert modes == {"constant", "reflect"}
    assert all(to_tflite(graph) for graph in graphs)


def test_networks_of_forms_have_usual_operators_as_other_random_networks_lack_them() -> None:
    rules = load_rules("onnxruntime")
    graphs = [FORMS_SPACE.build(**reference.parameters) for reference in FORMS_SPACE.sample(40, 0)]
    kernels = [kernel for graph in graphs for kernel in find_kernels(graph, rules)]

    def columns(name: str) -> list[dict[str, int]]:
        fields = kernel_type(name).fields
        return [dict(zip(fields, kernel.configuration, strict=True)) for kernel in kernels if kernel.kernel_type == name]

    assert any(each["inner"] > 1 for each in columns("softmax"))
    assert {each["out_channels"] // each["groups"] for each in columns("depthwise_conv")} >= {2, 3}
    assert {each["in_channels"] // each["groups"] for each in columns("grouped_conv")} >= {4, 8, 16}
    assert "ReduceMean" in {operator for kernel in kernels if kernel.kernel_type == "reduce" for operator in kernel.operators}
    enlarged = [each["channels"] * each["out_h"] * each["out_w"] for each in columns("resize")]
    assert 1_000_000 < max(enlarged) <= 4 * MOST_ENLARGED
    assert all(to_tflite(graph) for graph in graphs)


def test_onnx_runtime_runs_them() -> None:
    small = [graph for graph in (SPACE.build(seed=seed) for seed in range(80)) if graph_macs(graph) < 30e6]

    assert len(small) > 12
    for graph in small:
        assert [value.shape for value in run(graph)] == [graph.shape(name) for name in graph.outputs]
