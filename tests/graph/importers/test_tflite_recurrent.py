"""TFLite's recurrent layers are read with the multiply-accumulates that they take, in the shapes that LiteRT gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="the models of these tests are written with LiteRT's schema")

from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from tests.graph.importers.tflite_models import Operation, State, model, options, run, save, zeros
from tests.graph.op_types import op_types

STEPS, BATCH, FEATURES, HIDDEN, PROJECTED = 5, 2, 3, 4, 2


def read(operation: Operation, tensors: Mapping[str, Any], folder: Path, outputs: tuple[str, ...] = ("y",)) -> Graph:
    """Read a network of one operator that LiteRT runs, and check its shapes against LiteRT's."""
    content = model([operation], tensors, ["x"], outputs)
    given = run(content, [zeros(*tensors["x"])])
    graph = load_graph(save(content, folder))
    assert [graph.shape(name) for name in graph.outputs] == [values.shape for values in given]
    assert graph.inputs == ("x",)
    return graph


def gates(*, coupled: bool = False, projected: bool = False, recurrent: str = "r") -> dict[str, Any]:
    """Return the matrices of a layer's gates; coupled ones lack the input gate's."""
    width = PROJECTED if projected else HIDDEN
    kept = range(1 if coupled else 0, 4)
    return {
        **{f"w{gate}": zeros(HIDDEN, FEATURES) for gate in kept},
        **{f"{recurrent}{gate}": zeros(HIDDEN, width) for gate in kept},
        **{f"b{gate}": zeros(HIDDEN) for gate in kept},
    }


def lstm_inputs(tensors: Mapping[str, Any]) -> list[str]:
    names = ["x", *(f"w{gate}" for gate in range(4)), *(f"r{gate}" for gate in range(4)), "", "", ""]
    names += [*(f"b{gate}" for gate in range(4)), "p", "pb", "h", "c"]
    return [name if name in tensors else "" for name in names]


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize(
    ("coupled", "projected", "macs"),
    [
        (False, False, STEPS * BATCH * 4 * (HIDDEN * FEATURES + HIDDEN * HIDDEN)),
        (True, False, STEPS * BATCH * 3 * (HIDDEN * FEATURES + HIDDEN * HIDDEN)),
        (
            False,
            True,
            STEPS * BATCH * (4 * (HIDDEN * FEATURES + HIDDEN * PROJECTED) + HIDDEN * PROJECTED),
        ),
    ],
)
def test_a_sequence_lstm_counts_the_gates_and_the_projection_that_it_has(
    coupled: bool, projected: bool, macs: int, time_major: bool, tmp_path: Path
) -> None:
    shape = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    width = PROJECTED if projected else HIDDEN
    projection = {"p": zeros(width, HIDDEN)} if projected else {}
    tensors = {
        "x": (*shape, FEATURES), **gates(coupled=coupled, projected=projected), **projection,
        "h": State((BATCH, width)), "c": State((BATCH, HIDDEN)), "y": (*shape, width),
    }  # fmt: skip
    table = options("UnidirectionalSequenceLSTM", timeMajor=time_major, fusedActivationFunction=4)

    graph = read(("UNIDIRECTIONAL_SEQUENCE_LSTM", lstm_inputs(tensors), ["y"], table), tensors, tmp_path)

    assert graph_macs(graph) == macs
    assert [name for name in op_types(graph) if name not in ("Reshape", "Squeeze")] == [
        "LSTM",
        *(["MatMul"] if projected else []),
    ]


def test_one_step_of_the_full_lstm_is_one_layer(tmp_path: Path) -> None:
    tensors = {
        "x": (BATCH, FEATURES), **gates(), "h": State((BATCH, HIDDEN)), "c": State((BATCH, HIDDEN)), "y": (BATCH, HIDDEN),
    }  # fmt: skip

    graph = read(("LSTM", lstm_inputs(tensors), ["y"], options("LSTM", fusedActivationFunction=4)), tensors, tmp_path)

    assert graph_macs(graph) == BATCH * 4 * (HIDDEN * FEATURES + HIDDEN * HIDDEN)


def test_one_step_of_the_basic_lstm_gives_its_state_too(tmp_path: Path) -> None:
    tensors = {
        "x": (BATCH, FEATURES), "h": (BATCH, HIDDEN), "w": zeros(4 * HIDDEN, FEATURES + HIDDEN), "b": zeros(4 * HIDDEN),
        "c": (BATCH, HIDDEN), "y": (BATCH, HIDDEN), "state": (BATCH, HIDDEN), "s1": (BATCH, FEATURES + HIDDEN),
        "s2": (BATCH, 4 * HIDDEN),
    }  # fmt: skip
    table = options("LSTM", kernelType=1, fusedActivationFunction=4)
    operation = ("LSTM", ["x", "h", "w", "b", "c"], ["y", "state", "s1", "s2"], table)
    content = model([operation], tensors, ["x", "h", "c"], ["y", "state"])
    given = run(content, [zeros(BATCH, FEATURES), zeros(BATCH, HIDDEN), zeros(BATCH, HIDDEN)])

    graph = load_graph(save(content, tmp_path))

    assert [graph.shape(name) for name in graph.outputs] == [values.shape for values in given]
    assert graph_macs(graph) == BATCH * 4 * HIDDEN * (FEATURES + HIDDEN)


@pytest.mark.parametrize("merged", [True, False])
def test_a_bidirectional_lstm_is_a_layer_in_each_direction(merged: bool, tmp_path: Path) -> None:
    states = {name: State((BATCH, HIDDEN)) for name in ("fh", "fc", "bh", "bc")}
    both = (BATCH, STEPS, 2 * HIDDEN if merged else HIDDEN)
    tensors = {"x": (BATCH, STEPS, FEATURES), **gates(), **states, "y": both, **({} if merged else {"z": both})}
    layer = [*lstm_inputs(tensors)[1:16], "", ""]
    reads = ["x", *layer, *layer, "fh", "fc", "bh", "bc", *[""] * 9]
    outputs = ("y",) if merged else ("y", "z")
    table = options("BidirectionalSequenceLSTM", mergeOutputs=merged, timeMajor=False, fusedActivationFunction=4)

    graph = read(("BIDIRECTIONAL_SEQUENCE_LSTM", reads, list(outputs), table), tensors, tmp_path, outputs)

    assert graph_macs(graph) == 2 * STEPS * BATCH * 4 * (HIDDEN * FEATURES + HIDDEN * HIDDEN)
    assert op_types(graph).count("LSTM") == 2


RNN = {"w": zeros(HIDDEN, FEATURES), "r": zeros(HIDDEN, HIDDEN), "b": zeros(HIDDEN), "h": State((BATCH, HIDDEN))}


def test_recurrent_layers_without_gates_are_read(tmp_path: Path) -> None:
    one = {"x": (BATCH, FEATURES), **RNN, "y": (BATCH, HIDDEN)}
    graph = read(("RNN", ["x", "w", "r", "b", "h"], ["y"], options("RNN", fusedActivationFunction=1)), one, tmp_path)
    assert graph_macs(graph) == BATCH * (HIDDEN * FEATURES + HIDDEN * HIDDEN)

    many = {"x": (BATCH, STEPS, FEATURES), **RNN, "y": (BATCH, STEPS, HIDDEN)}
    table = options("SequenceRNN", fusedActivationFunction=1)
    graph = read(("UNIDIRECTIONAL_SEQUENCE_RNN", ["x", "w", "r", "b", "h"], ["y"], table), many, tmp_path)
    assert graph_macs(graph) == STEPS * BATCH * (HIDDEN * FEATURES + HIDDEN * HIDDEN)


@pytest.mark.parametrize("auxiliary", [True, False])
def test_a_bidirectional_rnn_reads_its_second_input_too(auxiliary: bool, tmp_path: Path) -> None:
    backward = {f"b{name}": given for name, given in RNN.items()}
    tensors = {
        "x": (BATCH, STEPS, FEATURES), **RNN, **backward, "aw": zeros(HIDDEN, FEATURES), "y": (BATCH, STEPS, 2 * HIDDEN),
    }  # fmt: skip
    extra = ["x", "aw", "aw"] if auxiliary else ["", "", ""]
    reads = ["x", "w", "r", "b", "h", "bw", "br", "bb", "bh", *extra]
    table = options("BidirectionalSequenceRNN", mergeOutputs=True, fusedActivationFunction=1)

    graph = read(("BIDIRECTIONAL_SEQUENCE_RNN", reads, ["y"], table), tensors, tmp_path)

    inputs = 2 if auxiliary else 1
    assert graph_macs(graph) == 2 * STEPS * BATCH * (inputs * HIDDEN * FEATURES + HIDDEN * HIDDEN)


@pytest.mark.parametrize("biased", [True, False])
def test_a_filter_of_a_stream_counts_its_product_with_the_frame_and_with_its_memory(biased: bool, tmp_path: Path) -> None:
    filters, rank, memory, features = 8, 2, 5, 6
    tensors = {
        "x": (BATCH, features), "wf": zeros(filters, features), "wt": zeros(filters, memory), "b": zeros(filters // rank),
        "state": State((BATCH, filters * memory)), "y": (BATCH, filters // rank),
    }  # fmt: skip
    operation = ("SVDF", ["x", "wf", "wt", "b" if biased else "", "state"], ["y"], options("SVDF", rank=rank))

    graph = read(operation, tensors, tmp_path)

    assert graph_macs(graph) == BATCH * filters * (features + memory)


def test_a_state_that_an_unknown_operator_keeps_is_no_input(tmp_path: Path) -> None:
    tensors = {"x": (1, 4), "state": State((1, 8)), "y": (1, 4)}

    graph = load_graph(save(model([("custom:Smooth", ["x", "state"], ["y"], None)], tensors, ["x"], ["y"]), tmp_path))

    assert graph.inputs == ("x",)
    assert [(node.op_type, node.inputs) for node in graph.nodes] == [("Smooth", ("x", ""))]
    assert np.prod(graph.shape("y")) == 4
