"""Hostile and broken model files: each is read, or refused in one printable line, within 10 s and 2 GiB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from latcast.graph import GraphBuilder
from latcast.graph.writers.tflite import to_tflite
from tests.fuzz.limited import LimitedReader, Verdict

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"
PATTERNS = ("attack/*.onnx", "onnx/*.onnx", "onnx2/*.onnx", "targeted/*.onnx", "*.onnx", "tflite/*.tflite", "targeted/*.tflite")
FILES = sorted(path for pattern in PATTERNS for path in CORPUS.glob(pattern))


@pytest.fixture(scope="module")
def reader() -> Iterator[LimitedReader]:
    with LimitedReader() as limited:
        yield limited


def check(verdict: Verdict) -> None:
    assert verdict.kind in ("read", "refused"), verdict.text
    if verdict.kind == "refused":
        assert verdict.text
        assert verdict.text.isprintable()
        assert len(verdict.text) <= 500


@pytest.mark.skipif(not FILES, reason=f"no corpus of broken files at {CORPUS}")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_is_read_or_refused_in_words(path: Path, reader: LimitedReader) -> None:
    check(reader.read(path))


# Not in the corpus: made here


def chain(count: int, op_type: str, path: Path) -> Path:
    nodes = [helper.make_node(op_type, [f"t{index}"], [f"t{index + 1}"], name=f"n{index}") for index in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 4, 4]) for name in ("t0", f"t{count}")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:])), path)
    return path


@pytest.mark.slow
def test_a_chain_of_100000_operators_is_refused_and_one_of_30000_is_read(tmp_path: Path, reader: LimitedReader) -> None:
    long = reader.read(chain(100_000, "Relu", tmp_path / "long.onnx"))
    short = reader.read(chain(30_000, "Relu", tmp_path / "short.onnx"))

    assert long.kind == "refused"
    assert "nodes, with loops unrolled and functions inlined; at most 32,768 are read; export a part" in long.text
    assert short.kind == "read", short.text


@pytest.mark.slow
def test_a_chain_of_20000_tflite_operators_is_refused(tmp_path: Path, reader: LimitedReader) -> None:
    pytest.importorskip("ai_edge_litert")
    b = GraphBuilder("chain")
    x = b.input((1, 4, 4, 4))
    for _ in range(20_000):
        x = b.relu(x)
    path = tmp_path / "chain.tflite"
    path.write_bytes(to_tflite(b.finish(x)))

    verdict = reader.read(path)

    assert verdict.kind == "refused"
    assert "at least 20,000 operators of a TFLite file; at most 16,384" in verdict.text


def test_a_loop_whose_nodes_have_long_names_is_refused(tmp_path: Path, reader: LimitedReader) -> None:
    """100,000 characters, 2,000 times."""
    step = helper.make_node("Relu", ["x"], ["y"], name="step")
    same = helper.make_node("Identity", ["going"], ["still"])
    kinds = {"i": TensorProto.INT64, "going": TensorProto.BOOL, "x": TensorProto.FLOAT}
    values = [helper.make_tensor_value_info(name, kind, [] if name != "x" else [1, 3]) for name, kind in kinds.items()]
    results = [
        helper.make_tensor_value_info("still", TensorProto.BOOL, []),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3]),
    ]
    body = helper.make_graph([step, same], "body", values, results)
    loop = helper.make_node("Loop", ["rounds", "", "input"], ["output"], name="n" * 100_000, body=body)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in ("input", "output")]
    rounds = helper.make_tensor("rounds", TensorProto.INT64, [], [2000])
    path = tmp_path / "loop.onnx"
    onnx.save(helper.make_model(helper.make_graph([loop], "loop", ends[:1], ends[1:], [rounds])), path)

    verdict = reader.read(path)

    assert verdict.kind == "refused"
    assert "characters of names; at most 67,108,864" in verdict.text


@pytest.mark.parametrize("op_type", ["Add", "Where", "Gather", "Concat"])
def test_a_constant_of_gigabytes_is_never_computed(op_type: str, tmp_path: Path, reader: LimitedReader) -> None:
    """4096 rows and 4096 columns and 4096 layers of 8 bytes would be 512 GiB."""
    shapes = {"Add": ([4096, 1, 1], [4096, 1], [4096]), "Where": ([4096, 1, 1], [4096, 1], [4096])}.get(
        op_type, ([4096], [4096], [4096])
    )
    names = {"Add": ("a", "b"), "Where": ("c", "a", "b"), "Gather": ("a", "b"), "Concat": ("a",) * 3000}[op_type]
    shapes = {"a": shapes[0], "b": shapes[1], "c": shapes[2]}  # type: ignore[assignment]
    stored = [
        helper.make_tensor(name, TensorProto.BOOL if name == "c" else TensorProto.INT64, shape, [1] * 4096)
        for name, shape in shapes.items()  # type: ignore[attr-defined]
    ]
    made = helper.make_node(op_type, list(names), ["constant"], **({"axis": 0} if op_type in ("Concat", "Gather") else {}))
    used = helper.make_node("Reshape", ["input", "constant"], ["output"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in ("input", "output")]
    path = tmp_path / "constant.onnx"
    onnx.save(helper.make_model(helper.make_graph([made, used], "constant", ends[:1], ends[1:], stored)), path)

    verdict = reader.read(path)

    assert verdict.kind == "refused"
    assert "Reshape" in verdict.text
