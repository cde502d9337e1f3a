from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from latcast.errors import RuntimeFailure
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.writers.tflite import write_tflite
from latcast.records import ExecutedKernel
from latcast.runtimes import litert_native
from latcast.runtimes.litert import LiteRt
from latcast.runtimes.litert_kernels import TABLE_KERNEL, _is_chain, attribute
from latcast.runtimes.litert_native import ProfiledEvent
from latcast.runtimes.protocol import Session
from latcast.testing.contracts.runtimes import RuntimeContract
from tests.graph.writers.cases import CASES, graph_of, image, tokens
from tests.random_networks import random_network
from tests.runtimes.executed import executed


class TestLiteRt(RuntimeContract):
    runtime_name = "litert"

    def threads_of(self, session: Session) -> int | None:
        return session.threads  # type: ignore[attr-defined]


@pytest.fixture
def runtime() -> LiteRt:
    runtime = LiteRt()
    reason = runtime.available()
    if reason is not None:
        pytest.skip(reason)
    try:
        litert_native.check_version()
    except RuntimeFailure as refused:
        pytest.skip(str(refused))
    return runtime


def kinds_and_nodes(kernels: tuple[ExecutedKernel, ...]) -> list[tuple[str, tuple[str, ...]]]:
    return [(kernel.kind, kernel.nodes) for kernel in kernels]


# What XNNPACK fuses


def test_padding_convolution_batch_norm_and_relu_are_one_kernel(runtime: LiteRt) -> None:
    b = GraphBuilder("stem")
    graph = b.finish(b.conv_bn(image(b), 8, 3, stride=2))

    assert [o.builtin for o in write_tflite(graph).model.operators] == ["PAD", "CONV_2D"]
    assert kinds_and_nodes(executed(runtime, graph)) == [
        ("Convolution (NHWC, F32) IGEMM", ("conv_0", "batchnormalization_0", "relu_0"))
    ]


def test_a_relu_after_a_sum_is_a_separate_kernel_although_the_file_fuses_it(runtime: LiteRt) -> None:
    graph = graph_of(CASES["add_relu"])

    assert len(write_tflite(graph).model.operators) == 1
    assert kinds_and_nodes(executed(runtime, graph)) == [("Add (ND)", ("add_0",)), ("Clamp (NC)", ("relu_0",))]


def test_a_transpose_of_keys_is_fused_into_the_product_that_reads_it(runtime: LiteRt) -> None:
    kernels = executed(runtime, graph_of(CASES["attention"]))

    assert [kernel.nodes for kernel in kernels if kernel.kind.startswith("Batch Matrix Multiply")] == [
        ("transpose_1", "matmul_1"),
        ("matmul_2",),
    ]


def test_an_int8_gate_of_two_operators_is_one_lookup_table(runtime: LiteRt) -> None:
    kernels = executed(runtime, graph_of(CASES["conv_bn_silu"]), "int8")

    assert kinds_and_nodes(kernels)[1:] == [(TABLE_KERNEL, ("sigmoid_0", "mul_0"))]


def test_an_int8_relu_that_no_operator_carries_runs_outside_xnnpack(runtime: LiteRt) -> None:
    b = GraphBuilder("relus")
    x = b.conv(image(b), 6, 1)
    graph = b.finish(b.relu(b.concat([x, b.relu(b.add(x, b.conv(x, 6, 3)))])))
    kernels = executed(runtime, graph, "int8")

    assert [kernel.kind for kernel in kernels if kernel.nodes[0].startswith("relu")] == ["Clamp (NC)", "RELU"]


def test_an_int8_product_of_activations_runs_outside_xnnpack_unless_the_second_has_the_zero_point_0(runtime: LiteRt) -> None:
    b = GraphBuilder("products")
    x, y = b.input((1, 2, 5, 3)), b.input((1, 2, 3, 4))
    graph = b.finish(b.matmul(x, y), b.matmul(x, b.op("Tanh", [y])[0]))
    kernels = executed(runtime, graph, "int8")

    assert {kernel.nodes[-1]: kernel.kind.split()[0] for kernel in kernels if kernel.nodes[-1].startswith("matmul")} == {
        "matmul_0": "BATCH_MATMUL", "matmul_1": "Batch",
    }  # fmt: skip


def test_the_kernels_of_a_composed_operator_are_one_entry(runtime: LiteRt) -> None:
    (kernel,) = executed(runtime, graph_of(CASES["layer_norm"]))

    assert kernel.nodes == ("layernormalization_0",)
    assert len(kernel.kind.split(" + ")) == 9


def test_a_norm_is_one_entry_of_a_sum_of_squares_and_a_root(runtime: LiteRt) -> None:
    b = GraphBuilder("norm")
    x = b.conv(b.input((1, 3, 8, 8)), 8, 3)
    norm = b.op("ReduceL2", [x], {"axes": (1,), "keepdims": 1})[0]
    kernels = executed(runtime, b.finish(b.op("Div", [x, norm])[0]))

    assert [kernel.nodes for kernel in kernels] == [("conv_0",), ("reducel2_0",), ("div_0",)]
    assert kernels[1].kind == "Normalize (ND) Reduce2 + Square Root (NC)"


def test_a_mean_of_squares_is_one_kernel_of_both_operators(runtime: LiteRt) -> None:
    b = GraphBuilder("rms")
    x = b.conv(b.input((1, 3, 8, 8)), 8, 3)
    mean = b.reduce_mean(b.mul(x, x), (1,))
    kernels = executed(runtime, b.finish(b.div(x, b.op("Sqrt", [mean])[0])))

    assert [kernel.nodes for kernel in kernels] == [("conv_0",), ("mul_0", "reducemean_0"), ("sqrt_0",), ("div_0",)]
    assert kernels[1].kind.startswith("Mean Squared")


def test_operators_unknown_to_xnnpack_run_outside_and_split_the_network(runtime: LiteRt) -> None:
    b = GraphBuilder("split")
    x = b.conv(image(b), 6, 3)
    powered = b.op("Pow", [b.op("Exp", [x])[0], b.constant(1.5, dtype="float32")])[0]
    other = b.sigmoid(b.conv(x, 6, 1))
    graph = b.finish(b.add(b.relu(powered), other))

    # The branch that needs no Pow runs with the first part, before it, whatever the order in the file.
    assert kinds_and_nodes(executed(runtime, graph)) == [
        ("Convolution (NHWC, F32) IGEMM", ("conv_0",)),
        ("Exp (NC)", ("exp_0",)),
        ("Fully Connected (NC, F32) GEMM", ("conv_1",)),
        ("Sigmoid (NC)", ("sigmoid_0",)),
        ("POW", ("pow_0",)),
        ("Clamp (NC)", ("relu_0",)),
        ("Add (ND)", ("add_0",)),
    ]


def test_a_change_of_layout_belongs_to_no_node(runtime: LiteRt) -> None:
    kernels = executed(runtime, graph_of(CASES["mixed_layouts"]))

    assert [kernel.kind.split()[0] for kernel in kernels if not kernel.nodes] == ["Transpose", "Transpose"]


VANISHING = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Transpose"}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_every_node_of_any_network_is_in_one_kernel(runtime: LiteRt, precision: str) -> None:
    graphs = [random_network(seed) for seed in range(4)]
    graphs += [graph_of(CASES[name], name) for name in sorted(CASES)[::6]]
    for graph in graphs:
        kernels = executed(runtime, graph, precision)
        listed = Counter(name for kernel in kernels for name in kernel.nodes)
        missing = [node.name for node in graph.nodes if node.name not in listed and node.op_type not in VANISHING]
        assert not missing, f"{graph.name}: {missing} in none of {kernels}"
        assert max(listed.values(), default=1) == 1, f"{graph.name}: {listed}"


# Attribution without a library


def events_of(*tags: str) -> list[ProfiledEvent]:
    """Events of one partition inside the delegate."""
    return [ProfiledEvent(tag, True, index, 1) for index, tag in enumerate(tags)]


def nodes_of(graph: Graph, *tags: str, precision: str = "fp32") -> list[list[str]]:
    return [found.nodes for found in attribute(write_tflite(graph, precision=precision).model, events_of(*tags))]


def test_a_kernel_without_an_operator_has_no_nodes() -> None:
    graph = graph_of(CASES["linear"])

    assert nodes_of(graph, "Static Reshape (NC)", "Fully Connected (NC, F32) GEMM") == [[], ["gemm_0"]]


def test_a_pad_that_is_not_fused_is_recognised() -> None:
    graph = graph_of(CASES["conv_stride_2"])

    assert nodes_of(graph, "Convolution") == [["conv_0"]]
    assert nodes_of(graph, "Constant Pad (ND, X32)", "Convolution") == [["conv_0"], ["conv_0"]]


def test_kernels_that_do_not_fit_the_network_are_an_error_that_names_both() -> None:
    graph = graph_of(CASES["conv_bn_hard_swish"])

    with pytest.raises(RuntimeFailure, match=r"'Softmax \(NC\)' where 'HARD_SWISH'"):
        nodes_of(graph, "Convolution", "Softmax (NC)")
    with pytest.raises(RuntimeFailure, match="'none' where 'HARD_SWISH'"):
        nodes_of(graph, "Convolution")
    with pytest.raises(RuntimeFailure, match="'Convolution' where 'nothing more'"):
        nodes_of(graph, "Convolution", "HardSwish", "Convolution")


def test_a_chain_for_a_lookup_table_has_one_input_and_shows_nothing_but_its_result() -> None:
    b = GraphBuilder("gates")
    x, y = image(b), image(b)
    gate = b.sigmoid(x)
    graph = b.finish(b.mul(x, gate), b.mul(y, gate))
    model = write_tflite(graph).model

    assert not _is_chain(model, model.operators[:2])  # the second product reads the gate too
    assert _is_chain(model, model.operators[:1])
    assert not _is_chain(model, model.operators[2:])
    own = write_tflite(graph_of(CASES["hard_sigmoid"])).model
    assert _is_chain(own, own.operators)


def test_an_operator_outside_the_delegate_is_found_by_its_index() -> None:
    graph = graph_of(CASES["pow"])
    model = write_tflite(graph).model
    events = [*events_of("Exp (NC)"), ProfiledEvent("POW", False, 1, 5)]

    assert [found.nodes for found in attribute(model, events)] == [["exp_0"], ["pow_0"]]
    with pytest.raises(RuntimeFailure, match="EXP"):
        attribute(model, events[1:])


# Versions and sessions


def test_another_version_is_refused_before_its_library_is_called(runtime: LiteRt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert_native, "TESTED_VERSIONS", ("0.9.1",))
    graph = graph_of(CASES["conv"])

    with pytest.raises(RuntimeFailure, match=rf"{runtime.version()}.*0\.9\.1"):
        runtime.load(graph, profile=True)
    runtime.load(graph).run()


def test_the_kernels_are_profiled_on_the_inputs_set_last(runtime: LiteRt) -> None:
    session = runtime.load(graph_of(CASES["conv"]), profile=True)
    session.set_inputs([np.ones((1, 6, 11, 14), np.float32)])
    native = litert_native.NativeModel(session._network.data, threads=1)
    try:
        native.set_inputs(session._inputs)
        with pytest.raises(RuntimeFailure, match="bytes"):
            native.set_inputs([np.ones(3, np.float32)])
        native.run()
        assert [event.tag for event in native.profiled_run()] == ["Convolution (NHWC, F32) IGEMM"]
    finally:
        native.close()
        native.close()
        session.close()


def test_outputs_are_logical_whatever_order_the_file_has(runtime: LiteRt) -> None:
    b = GraphBuilder("orders")
    graph = b.finish(b.relu(image(b)), b.softmax(tokens(b)), b.op("ArgMax", [b.input((2, 5))], {"axis": 1})[0])
    session = runtime.load(graph)
    arrays = [np.random.default_rng(0).standard_normal(graph.shape(name), dtype=np.float32) for name in graph.inputs]
    session.set_inputs(arrays)
    session.run()
    relu, softmax, best = session.outputs()
    session.close()

    assert np.array_equal(relu, np.maximum(arrays[0], 0))
    np.testing.assert_allclose(softmax.sum(axis=-1), 1, rtol=1e-5)
    assert np.array_equal(best, arrays[2].argmax(axis=1, keepdims=True).astype(np.float32))


def test_a_file_whose_shapes_are_not_the_graphs_is_refused(runtime: LiteRt) -> None:
    from latcast.runtimes.litert import LiteRtCpuSession

    graph = graph_of(CASES["conv"])
    network = replace(write_tflite(graph), input_orders=((0, 1, 2, 3),))

    with pytest.raises(RuntimeFailure, match="shapes"):
        LiteRtCpuSession(graph, network, threads=1, profile=False)
