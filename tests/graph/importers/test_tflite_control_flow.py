"""Loops, branches, variables and signatures of TFLite files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

pytest.importorskip("ai_edge_litert", reason="the models of these tests are written with LiteRT's schema")

from latcast.errors import ModelError
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_macs
from tests.graph.importers.tflite_models import Network, Typed, ints, model, options, run, save, zeros
from tests.graph.op_types import op_types

COUNT = Typed((), "int32")
FLAG = Typed((), "bool")


def count(number: int) -> np.ndarray[Any, Any]:
    return np.asarray(number, np.int32)


def layer(x: str, y: str) -> tuple[str, list[str], list[str], Any]:
    return "FULLY_CONNECTED", [x, "w", ""], [y], options("FullyConnected")


BODY: Network = (
    [("ADD", ["i", "one"], ["j"], options("Add")), layer("x", "y")],
    {"i": COUNT, "x": (1, 8), "one": count(1), "j": COUNT, "w": zeros(8, 8), "y": (1, 8)},
    ["i", "x"],
    ["j", "y"],
)
"""Counts to the next round and runs a layer of 64 multiply-accumulates."""


def less_than(rounds: int) -> Network:
    return (
        [("LESS", ["i", "k"], ["l"], options("Less"))],
        {"i": COUNT, "x": (1, 8), "k": count(rounds), "l": FLAG},
        ["i", "x"],
        ["l"],
    )


def loop(condition: Network, *more: Network) -> bytes:
    table = options("While", condSubgraphIndex=1, bodySubgraphIndex=2)
    tensors = {"x": (1, 8), "zero": count(0), "n": COUNT, "y": (1, 8)}
    return model([("WHILE", ["zero", "x"], ["n", "y"], table)], tensors, ["x"], ["y"], condition, BODY, *more)


def test_a_loop_counts_as_often_as_its_condition_says(tmp_path: Path) -> None:
    content = loop(less_than(7))
    run(content, [zeros(1, 8)])

    graph = load_graph(save(content, tmp_path))

    assert graph_macs(graph) == 7 * 64
    assert graph.parameter_count == 64
    assert graph.notes == ("the loop while:n runs 7 rounds, which are predicted one after another",)


def test_a_loop_that_may_end_sooner_counts_its_most_rounds(tmp_path: Path) -> None:
    condition: Network = (
        [
            ("LESS", ["i", "k"], ["early"], options("Less")),
            ("REDUCE_MAX", ["x", "axes"], ["top"], options("Reducer")),
            ("LESS", ["top", "limit"], ["small"], options("Less")),
            ("LOGICAL_AND", ["early", "small"], ["l"], options("LogicalAnd")),
        ],
        {
            "i": COUNT, "x": (1, 8), "k": count(5), "early": FLAG, "axes": ints(0, 1), "top": (),
            "limit": np.asarray(9, np.float32), "small": FLAG, "l": FLAG,
        },
        ["i", "x"],
        ["l"],
    )  # fmt: skip
    content = loop(condition)
    run(content, [zeros(1, 8)])

    graph = load_graph(save(content, tmp_path))

    assert graph_macs(graph) == 5 * 64
    assert "at most 5 rounds" in graph.notes[0]


def test_a_loop_that_only_the_input_ends_is_refused(tmp_path: Path) -> None:
    condition: Network = (
        [("REDUCE_MAX", ["x", "axes"], ["top"], options("Reducer")), ("LESS", ["top", "limit"], ["l"], options("Less"))],
        {"i": COUNT, "x": (1, 8), "axes": ints(0, 1), "top": (), "limit": np.asarray(9, np.float32), "l": FLAG},
        ["i", "x"],
        ["l"],
    )

    with pytest.raises(
        ModelError, match=r"decides at run time how often it runs.*convert the model with a fixed number of rounds"
    ):
        load_graph(save(loop(condition), tmp_path))


def test_an_endless_loop_is_refused(tmp_path: Path) -> None:
    endless: Network = ([("LESS", ["k", "m"], ["l"], options("Less"))],
                        {"i": COUNT, "x": (1, 8), "k": count(0), "m": count(1), "l": FLAG}, ["i", "x"], ["l"])  # fmt: skip

    with pytest.raises(ModelError, match=r"rounds of loops|nodes, with loops unrolled"):
        load_graph(save(loop(endless), tmp_path))


THEN: Network = ([layer("x", "y")], {"x": (1, 8), "w": zeros(8, 8), "y": (1, 8)}, ["x"], ["y"])
ELSE: Network = ([("RELU", ["x"], ["y"], None)], {"x": (1, 8), "y": (1, 8)}, ["x"], ["y"])


@pytest.mark.parametrize(("known", "macs"), [(True, 64), (False, 0), (None, 64)])
def test_a_branch_is_the_one_that_is_known_or_the_costlier_one(known: bool | None, macs: int, tmp_path: Path) -> None:
    flag = FLAG if known is None else np.asarray(known)
    tensors = {"flag": flag, "x": (1, 8), "y": (1, 8)}
    inputs = ["flag", "x"] if known is None else ["x"]
    table = options("If", thenSubgraphIndex=1, elseSubgraphIndex=2)

    graph = load_graph(save(model([("IF", ["flag", "x"], ["y"], table)], tensors, inputs, ["y"], THEN, ELSE), tmp_path))

    assert graph_macs(graph) == macs
    assert bool(graph.notes) == (known is None)
    assert known is not None or "costlier one is predicted, 'then'" in graph.notes[0]


def test_variables_are_copied_and_their_initialisation_is_no_part_of_an_inference(tmp_path: Path) -> None:
    handle = Typed((), "resource")
    first: Network = (
        [("VAR_HANDLE", [], ["v"], options("VarHandle", sharedName=b"ring")), ("ASSIGN_VARIABLE", ["v", "zeros"], [], None)],
        {"v": handle, "zeros": zeros(1, 8)},
        [],
        [],
    )
    operations = [
        ("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=1)),
        ("VAR_HANDLE", [], ["v"], options("VarHandle", sharedName=b"ring")),
        ("READ_VARIABLE", ["v"], ["old"], None),
        ("ADD", ["old", "x"], ["sum"], options("Add")),
        ("ASSIGN_VARIABLE", ["v", "sum"], [], None),
        layer("sum", "y"),
    ]
    tensors = {"v": handle, "x": (1, 8), "old": (1, 8), "sum": (1, 8), "w": zeros(8, 8), "y": (1, 8)}
    content = model(operations, tensors, ["x"], ["y"], first)
    run(content, [zeros(1, 8)])

    graph = load_graph(save(content, tmp_path))

    assert op_types(graph) == ["READ_VARIABLE", "Add", "ASSIGN_VARIABLE", "Gemm"]
    assert graph.inputs == ("x",)
    assert graph_macs(graph) == graph.parameter_count == 64


def test_lists_of_tensors_are_kept_and_estimated(tmp_path: Path) -> None:
    operations = [
        ("custom:FlexTensorListReserve", ["shape", "n"], ["list"], None),
        ("custom:FlexTensorListStack", ["list"], ["rows"], None),
        ("ADD", ["rows", "x"], ["y"], options("Add")),
    ]
    tensors = {
        "x": (1, 20, 8), "list": Typed((), "variant"), "shape": ints(20, 8), "n": count(1), "rows": (1, 20, 8), "y": (1, 20, 8),
    }  # fmt: skip

    graph = load_graph(save(model(operations, tensors, ["x"], ["y"]), tmp_path))

    assert op_types(graph) == ["FlexTensorListReserve", "FlexTensorListStack", "Add"]


def test_a_composite_is_what_it_is_composed_of(tmp_path: Path) -> None:
    attributes = list(flexbuffers.Dumps({}))
    table = options("StableHLOComposite", name=b"odml.thing", decompositionSubgraphIndex=1, compositeAttributes=attributes)
    content = model([("STABLEHLO_COMPOSITE", ["x"], ["y"], table)], {"x": (1, 8), "y": (1, 8)}, ["x"], ["y"], THEN)
    run(content, [zeros(1, 8)])

    assert op_types(load_graph(save(content, tmp_path))) == ["Gemm"]


PREFILL: Network = ([layer("xs", "ys")], {"xs": (16, 8), "w": zeros(8, 8), "ys": (16, 8)}, ["xs"], ["ys"])


def two_signatures() -> bytes:
    signatures = {"decode": 0, "pre fill": 1}
    return model([layer("x", "y")], {"x": (1, 8), "w": zeros(8, 8), "y": (1, 8)}, ["x"], ["y"], PREFILL, signatures=signatures)


def test_a_signature_is_taken_by_its_name_and_otherwise_the_main_network(tmp_path: Path) -> None:
    path = save(two_signatures(), tmp_path)

    main, prefill = load_graph(path), load_graph(path, signature="pre fill")

    assert (graph_macs(main), graph_macs(prefill)) == (64, 16 * 64)
    assert main.notes == ("signature 'decode' is predicted; take another with --signature 'pre fill'",)
    assert prefill.notes == ()
    assert load_graph(path, signature="decode").notes == ()


def test_a_signature_that_a_file_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no signature 'train'; its signatures are: decode, pre fill"):
        load_graph(save(two_signatures(), tmp_path), signature="train")
    with pytest.raises(ModelError, match="there is no signature 'train'; it has none"):
        load_graph(save(loop(less_than(2)), tmp_path), signature="train")
