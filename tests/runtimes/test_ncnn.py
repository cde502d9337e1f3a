"""ncnn keeps the contract of runtimes, and what only ncnn does."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.graph import Graph, GraphBuilder
from latcast.graph.writers.ncnn import to_ncnn
from latcast.runtimes.ncnn import Ncnn, NcnnSession
from latcast.runtimes.protocol import Session
from latcast.testing.contracts.runtimes import RuntimeContract, contract_inputs, loaded
from latcast.testing.networks import CONTRACT_NETWORKS


class TestNcnn(RuntimeContract):
    runtime_name = "ncnn"

    def threads_of(self, session: Session) -> int | None:
        assert isinstance(session, NcnnSession)
        return int(session.net.opt.num_threads)


class TestNcnnOnAGpu(RuntimeContract):
    """By Vulkan: a GPU's driver, or Mesa's lavapipe on the CPU; skipped where there is neither."""

    runtime_name = "ncnn"
    unit = "gpu"
    profiles = False

    # A layer normalisation sums in another order there: 1.3e-4 on the contract's transformer block.
    tolerance = 5e-4


@contextmanager
def empty_session(graph: Graph) -> Iterator[NcnnSession]:
    """A session that no network was loaded into."""
    ncnn = pytest.importorskip("ncnn")
    session = NcnnSession(ncnn, ncnn.Net(), graph, {}, profile=True)
    try:
        yield session
    finally:
        session.close()


def test_the_version_is_the_date_of_the_release() -> None:
    pytest.importorskip("ncnn")
    assert len(Ncnn().version()) == len("20261020")
    assert Ncnn().version().startswith("20")


def test_a_batch_is_refused() -> None:
    b = GraphBuilder("batch")
    graph = b.finish(b.relu(b.input((2, 4, 8, 8))))
    pytest.importorskip("ncnn")
    with pytest.raises(UnsupportedOperatorError, match="batch 2"):
        Ncnn().load(graph)


def test_a_layer_that_ncnn_does_not_know_is_refused() -> None:
    with empty_session(CONTRACT_NETWORKS["conv_stack"]()) as session, pytest.raises(RuntimeFailure, match="code -1"):
        session.load("7767517\n2 2\nInput in0 0 1 in0 0=8\nNoSuchLayer odd 1 1 in0 out0\n", b"")


def test_weights_that_end_early_are_refused() -> None:
    graph = CONTRACT_NETWORKS["conv_stack"]()
    param, weights = to_ncnn(graph)
    with empty_session(graph) as session, pytest.raises(RuntimeFailure, match="weights"):
        session.load(param, weights[:-8])


def test_a_network_of_another_size_than_the_graph_is_refused() -> None:
    b = GraphBuilder("small")
    small = b.finish(b.conv(b.input((1, 4, 8, 8)), 4, 1))
    b = GraphBuilder("strided")
    param, weights = to_ncnn(b.finish(b.conv(b.input((1, 4, 8, 8)), 4, 1, stride=2)))
    with empty_session(small) as session, pytest.raises(RuntimeFailure, match=r"\[4, 4, 4\]"):
        session.load(param, weights)


def test_a_network_whose_values_are_not_finite_is_refused() -> None:
    pytest.importorskip("ncnn")
    b = GraphBuilder("negative_logarithm")
    with pytest.raises(RuntimeFailure, match="not finite"):
        Ncnn().load(b.finish(*b.op("Log", [b.input((1, 4, 8, 8))])))


def test_layers_that_only_serve_ncnn_compute_no_node() -> None:
    pytest.importorskip("ncnn")
    with loaded(Ncnn(), CONTRACT_NETWORKS["residual"](), profile=True) as session:
        kernels = session.executed_kernels(runs=2)
    splits = [kernel for kernel in kernels if kernel.kind == "Split"]
    assert len(splits) == 1
    assert all(kernel.nodes == () for kernel in splits)
    assert "Input" not in {kernel.kind for kernel in kernels}
    assert [kernel.nodes for kernel in kernels if kernel.kind == "Pooling"] == [("maxpool_0",)]


def test_layers_that_work_in_place_leave_the_inputs_alone() -> None:
    pytest.importorskip("ncnn")
    b = GraphBuilder("in_place")
    graph = b.finish(b.sigmoid(b.relu(b.input((1, 4, 8, 8)))))
    (given,) = contract_inputs(graph)
    expected = 1.0 / (1.0 + np.exp(-np.maximum(given, 0.0)))
    with loaded(Ncnn(), graph, profile=True) as session:
        session.set_inputs([given])
        for _ in range(3):
            session.run()
            assert np.allclose(session.outputs()[0], expected, atol=1e-6)
        session.executed_kernels(runs=2)
        session.run()
        assert np.allclose(session.outputs()[0], expected, atol=1e-6)


def test_a_session_may_be_forgotten_without_being_closed() -> None:
    pytest.importorskip("ncnn")
    graph = CONTRACT_NETWORKS["residual"]()
    session = Ncnn().load(graph, profile=True)
    session.executed_kernels(runs=1)
    output = session.outputs()[0]
    kept = output.copy()
    session = Ncnn().load(graph)
    del session
    gc.collect()
    assert np.array_equal(output, kept)


def test_a_closed_session_says_so() -> None:
    pytest.importorskip("ncnn")
    session = Ncnn().load(CONTRACT_NETWORKS["conv_stack"]())
    session.close()
    with pytest.raises(RuntimeFailure, match="closed"):
        session.run()
