"""The contract of runtimes.

Class attributes state known differences of a runtime. Where the runtime's library is missing, the tests are skipped with the
runtime's own reason.
"""

from __future__ import annotations

import gc
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from latcast.errors import LatcastError, RuntimeFailure, UnsupportedOperatorError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Node, Tensor
from latcast.graph.writers.onnx import to_onnx
from latcast.records import PRECISIONS, ExecutedKernel, Platform, short_version
from latcast.runtimes import get_runtime, runtime_on
from latcast.runtimes.kernel_assignment import VIEWS
from latcast.runtimes.protocol import Runtime, Session
from latcast.runtimes.session import random_inputs
from latcast.testing.networks import CONTRACT_NETWORKS

every_network = pytest.mark.parametrize("network", sorted(CONTRACT_NETWORKS))


def contract_inputs(graph: Graph, seed: int = 7) -> list[np.ndarray]:
    """Return inputs that differ from those a session starts with."""
    return random_inputs(graph, seed=seed)


@cache
def reference_outputs(network: str) -> tuple[np.ndarray, ...]:
    """Compute outputs with ONNX Runtime in fp32 without optimisation, on :func:`contract_inputs`."""
    import onnxruntime

    graph = CONTRACT_NETWORKS[network]()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_onnx(graph), options, providers=["CPUExecutionProvider"])
    return tuple(session.run(list(graph.outputs), dict(zip(graph.inputs, contract_inputs(graph), strict=True))))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Pearson's correlation over all elements."""
    return float(np.corrcoef(a.ravel().astype(np.float64), b.ravel().astype(np.float64))[0, 1])


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest absolute difference over the largest expected magnitude."""
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


@contextmanager
def loaded(
    runtime: Runtime, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False
) -> Iterator[Session]:
    """Yield a session that is closed in any case."""
    session = runtime.load(graph, threads=threads, precision=precision, profile=profile)
    try:
        yield session
    finally:
        session.close()


def computed(runtime: Runtime, graph: Graph, precision: str = "fp32") -> list[np.ndarray]:
    """Return a runtime's outputs of :func:`contract_inputs`."""
    with loaded(runtime, graph, precision=precision) as session:
        assert isinstance(session, Session)
        session.set_inputs(contract_inputs(graph))
        session.run()
        outputs = session.outputs()
    del session
    gc.collect()  # outputs outlive the session
    return outputs


def unknown_operator_graph() -> Graph:
    """Return a ReLU and an operator that no runtime and no writer knows."""
    b = GraphBuilder("unknown_operator")
    x = b.relu(b.input((1, 4, 8, 8)))
    graph = b.finish(x)
    node = Node("NoSuchOperator", "the_odd_one", (x,), ("odd_out",))
    tensors = {**graph.tensors, "odd_out": Tensor((1, 4, 8, 8))}
    return replace(graph, nodes=(*graph.nodes, node), tensors=tensors, outputs=("odd_out",))


def inconsistent_graph() -> Graph:
    """Return a convolution whose weight is for 2 input channels, on an input of 4."""
    b = GraphBuilder("inconsistent")
    graph = b.finish(b.conv(b.input((1, 4, 8, 8)), 8, 3))
    (weight,) = graph.weights
    return replace(graph, tensors={**graph.tensors, weight: Tensor((8, 2, 3, 3))})


class RuntimeContract:
    """The tests of a runtime; subclass it and set ``runtime_name``."""

    runtime_name: ClassVar[str]
    """Name in the registry."""

    unsupported: ClassVar[frozenset[str]] = frozenset()
    """Contract networks that the runtime's writer cannot express; loading them must raise UnsupportedOperatorError."""

    unsupported_int8: ClassVar[frozenset[str]] = frozenset()
    """The same for int8 alone."""

    may_vanish: ClassVar[frozenset[str]] = VIEWS
    """Operators that no executed kernel needs to list, because the runtime computes nothing for them."""

    tolerance: ClassVar[float] = 1e-4
    """Allowed difference from the fp32 reference, relative to the largest output."""

    int8_correlation: ClassVar[float] = 0.9
    """Smallest allowed correlation of the int8 outputs with the fp32 reference."""

    unit: ClassVar[str] = "cpu"
    """Kind of unit that it runs on."""

    hands_outputs_over: ClassVar[bool] = True
    """Whether a session returns its outputs; where not, asking must raise RuntimeFailure."""

    profiles: ClassVar[bool] = True
    """Whether a session returns its executed kernels; where not, asking must raise RuntimeFailure."""

    def threads_of(self, session: Session) -> int | None:
        """Return the number of threads that the loaded session really uses, or None where the library does not say."""
        return None

    @pytest.fixture
    def runtime(self) -> Runtime:
        runtime = runtime_on(get_runtime(self.runtime_name), self.unit)
        reason = runtime.available()
        if reason is not None:
            pytest.skip(reason)
        return runtime

    def graph(self, network: str, precision: str = "fp32") -> Graph:
        """Return the network, or a skip where the subclass says that the runtime cannot express it."""
        if network in self.unsupported or (precision == "int8" and network in self.unsupported_int8):
            pytest.skip(f"{self.runtime_name} has no {precision} form of {network}")
        return CONTRACT_NETWORKS[network]()

    def needs_outputs(self) -> None:
        """Skip a test of outputs where the runtime has none."""
        if not self.hands_outputs_over:
            pytest.skip(f"{self.runtime_name} does not output its results")

    def check_outputs(self, session: Session, network: str) -> None:
        """Check that outputs of :func:`contract_inputs` equal the reference, where the runtime has outputs."""
        if self.hands_outputs_over:
            assert relative_error(session.outputs()[0], reference_outputs(network)[0]) <= self.tolerance

    # Its description

    def test_it_says_its_name_and_precisions(self, runtime: Runtime) -> None:
        assert isinstance(runtime, Runtime)
        assert runtime.name == self.runtime_name
        assert "fp32" in runtime.precisions
        assert set(runtime.precisions) <= set(PRECISIONS)

    def test_its_version_can_stand_in_a_platform_id(self, runtime: Runtime) -> None:
        version = runtime.version()
        assert re.match(r"\d+(\.\d+)*", version), version
        platform = Platform("local", runtime.name, short_version(version), "cpu1", "fp32")
        assert Platform.parse(platform.id) == platform

    def test_missing_outputs_are_refused(self, runtime: Runtime) -> None:
        if self.hands_outputs_over:
            pytest.skip(f"{runtime.name} outputs its results")
        with loaded(runtime, self.graph("conv_stack")) as session:
            session.run()
            with pytest.raises(RuntimeFailure, match="does not output"):
                session.outputs()

    # What it computes

    @every_network
    def test_fp32_outputs_equal_the_reference(self, runtime: Runtime, network: str) -> None:
        self.needs_outputs()
        graph = self.graph(network)
        outputs = computed(runtime, graph)
        expected = reference_outputs(network)
        assert [output.shape for output in outputs] == [graph.shape(name) for name in graph.outputs]
        assert all(output.dtype == np.float32 for output in outputs)
        errors = [relative_error(*pair) for pair in zip(outputs, expected, strict=True)]
        assert max(errors) <= self.tolerance, f"{network} differs from the reference by {max(errors):.2g} (relative)"

    @every_network
    def test_int8_outputs_follow_the_reference(self, runtime: Runtime, network: str) -> None:
        self.needs_outputs()
        if "int8" not in runtime.precisions:
            pytest.skip(f"{runtime.name} has no int8 here")
        outputs = computed(runtime, self.graph(network, "int8"), "int8")
        assert all(output.dtype == np.float32 for output in outputs)
        found = [correlation(*pair) for pair in zip(outputs, reference_outputs(network), strict=True)]
        assert min(found) >= self.int8_correlation, f"{network}: correlation {min(found):.3f} with fp32"
        if network == "conv_stack":
            assert relative_error(outputs[0], reference_outputs(network)[0]) > 1e-3, "int8 is fp32 under another name"

    def test_a_session_starts_with_seeded_random_inputs(self, runtime: Runtime) -> None:
        self.needs_outputs()
        graph = self.graph("conv_stack")
        results = []
        for _ in range(2):
            with loaded(runtime, graph) as session:
                session.run()
                results.append(session.outputs()[0])
        assert np.array_equal(results[0], results[1])
        assert results[0].std() > 0

    def test_a_second_run_computes_with_the_inputs_set_last(self, runtime: Runtime) -> None:
        self.needs_outputs()
        graph = self.graph("conv_stack")
        with loaded(runtime, graph) as session:
            session.set_inputs(contract_inputs(graph, seed=1))
            session.run()
            first = session.outputs()[0].copy()
            session.set_inputs(contract_inputs(graph))
            session.run()
            second = session.outputs()[0]
        assert relative_error(second, reference_outputs("conv_stack")[0]) <= self.tolerance
        assert not np.allclose(first, second)

    def test_inputs_may_be_freed_after_they_were_set(self, runtime: Runtime) -> None:
        self.needs_outputs()
        graph = self.graph("residual")
        with loaded(runtime, graph) as session:
            given = contract_inputs(graph)
            session.set_inputs(given)
            for array in given:
                array.fill(np.nan)
            del given, array
            gc.collect()
            overwritten = [np.full(graph.shape(name), np.nan, np.float32) for name in graph.inputs * 50]
            session.run()
            output = session.outputs()[0]
        del overwritten
        assert relative_error(output, reference_outputs("residual")[0]) <= self.tolerance

    def test_two_threads_compute_the_same(self, runtime: Runtime) -> None:
        if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < 2:
            pytest.skip("this process may use one CPU alone")
        graph = self.graph("residual")
        for threads in (1, 2):
            with loaded(runtime, graph, threads=threads) as session:
                session.set_inputs(contract_inputs(graph))
                session.run()
                assert self.threads_of(session) in (None, threads)
                self.check_outputs(session, "residual")

    def test_it_can_be_closed_twice_and_loaded_again(self, runtime: Runtime) -> None:
        graph = self.graph("conv_stack")
        session = runtime.load(graph)
        session.run()
        session.close()
        session.close()
        with loaded(runtime, graph) as again:
            again.set_inputs(contract_inputs(graph))
            again.run()
            self.check_outputs(again, "conv_stack")

    def test_two_sessions_live_side_by_side(self, runtime: Runtime) -> None:
        first, second = self.graph("conv_stack"), self.graph("linear_head")
        with loaded(runtime, first) as a, loaded(runtime, second) as b:
            a.set_inputs(contract_inputs(first))
            b.set_inputs(contract_inputs(second))
            a.run()
            b.run()
            self.check_outputs(a, "conv_stack")
            self.check_outputs(b, "linear_head")

    # What it refuses

    def test_an_unknown_precision_is_refused_by_name(self, runtime: Runtime) -> None:
        with pytest.raises(RuntimeFailure, match="fp13"):
            runtime.load(self.graph("conv_stack"), precision="fp13")

    def test_less_than_one_thread_is_refused(self, runtime: Runtime) -> None:
        with pytest.raises(RuntimeFailure, match="thread"):
            runtime.load(self.graph("conv_stack"), threads=0)

    def test_an_unsupported_operator_is_refused_by_node(self, runtime: Runtime) -> None:
        with pytest.raises(UnsupportedOperatorError, match="the_odd_one"):
            runtime.load(unknown_operator_graph())

    def test_networks_said_to_be_unsupported_are(self, runtime: Runtime) -> None:
        refused = {("fp32", network) for network in self.unsupported} | {("int8", n) for n in self.unsupported_int8}
        if not refused:
            pytest.skip(f"{runtime.name} says that it supports every network of the contract")
        for precision, network in sorted(refused):
            with pytest.raises(UnsupportedOperatorError):
                runtime.load(CONTRACT_NETWORKS[network](), precision=precision)

    def test_an_inconsistent_graph_is_an_error_and_no_crash(self, runtime: Runtime) -> None:
        with pytest.raises(LatcastError):
            runtime.load(inconsistent_graph()).run()

    def test_inputs_of_a_wrong_shape_or_number_are_refused(self, runtime: Runtime) -> None:
        graph = self.graph("conv_stack")
        (right,) = contract_inputs(graph)
        with loaded(runtime, graph) as session:
            for wrong in ([right[:, :2]], [right[0]], [], [right, right]):
                with pytest.raises(RuntimeFailure, match="input"):
                    session.set_inputs(wrong)
            session.set_inputs([right])
            session.run()
            self.check_outputs(session, "conv_stack")

    # What it executed

    def executed(self, runtime: Runtime, graph: Graph, precision: str = "fp32") -> tuple[ExecutedKernel, ...]:
        """Return the executed kernels of a graph, with what holds of all of them already checked."""
        if not self.profiles:
            pytest.skip(f"{runtime.name} does not report its executed kernels")
        with loaded(runtime, graph, precision=precision, profile=True) as session:
            kernels = session.executed_kernels(runs=3)
            # Profiling must not spoil the session.
            session.set_inputs(contract_inputs(graph))
            session.run()
        assert kernels
        assert all(isinstance(kernel, ExecutedKernel) for kernel in kernels)
        assert all(kernel.kind and kernel.name for kernel in kernels)
        assert all(math.isfinite(kernel.latency_ms) and kernel.latency_ms >= 0 for kernel in kernels)
        assert sum(kernel.latency_ms for kernel in kernels) > 0
        return kernels

    def check_cover(self, graph: Graph, kernels: tuple[ExecutedKernel, ...]) -> None:
        """Check that every node is in exactly one kernel or may vanish, and that nothing else is named."""
        listed = Counter(name for kernel in kernels for name in kernel.nodes)
        known = {node.name for node in graph.nodes}
        assert set(listed) <= known, f"kernels name {sorted(set(listed) - known)}, which the graph does not have"
        assert max(listed.values()) == 1, f"in several kernels: {[name for name, count in listed.items() if count > 1]}"
        missing = [node for node in graph.nodes if node.name not in listed and node.op_type not in self.may_vanish]
        assert not missing, f"in no kernel: {[(node.name, node.op_type) for node in missing]} of {kernels}"

    @every_network
    def test_every_node_is_in_one_executed_kernel(self, runtime: Runtime, network: str) -> None:
        graph = self.graph(network)
        self.check_cover(graph, self.executed(runtime, graph))

    @every_network
    def test_every_node_is_in_one_executed_int8_kernel(self, runtime: Runtime, network: str) -> None:
        if "int8" not in runtime.precisions:
            pytest.skip(f"{runtime.name} has no int8 here")
        graph = self.graph(network, "int8")
        self.check_cover(graph, self.executed(runtime, graph, "int8"))

    def test_a_kernel_lists_its_nodes_in_execution_order(self, runtime: Runtime) -> None:
        graph = self.graph("conv_stack")
        position = {node.name: index for index, node in enumerate(graph.nodes)}
        orders = [[position[name] for name in kernel.nodes] for kernel in self.executed(runtime, graph)]
        assert all(order == sorted(order) for order in orders)
        flat = [index for order in orders for index in order]
        assert flat == sorted(flat), "kernels of a chain run in the chain's order"

    def test_unknown_kernels_are_refused(self, runtime: Runtime) -> None:
        if self.profiles:
            pytest.skip(f"{runtime.name} reports its executed kernels")
        with loaded(runtime, self.graph("conv_stack"), profile=True) as session, pytest.raises(RuntimeFailure):
            session.executed_kernels()

    def test_no_profiled_run_is_refused(self, runtime: Runtime) -> None:
        with loaded(runtime, self.graph("conv_stack"), profile=True) as session, pytest.raises(RuntimeFailure):
            session.executed_kernels(runs=0)

    def test_kernels_need_a_session_loaded_for_profiling(self, runtime: Runtime) -> None:
        with loaded(runtime, self.graph("conv_stack")) as session, pytest.raises(RuntimeFailure, match="profile"):
            session.executed_kernels()
