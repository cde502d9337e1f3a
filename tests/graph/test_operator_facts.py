"""The table of operators is the only place that lists them, and a row is all that a new operator takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import latcast
from latcast.graph import GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.operators import Kind, Operator, graph_flops, lookup, names_of, operators
from latcast.graph.writers.onnx import to_onnx
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels

SOURCE = Path(latcast.__file__).parent
KNOWN = names_of(operators())

EXCEPTIONS = {
    "datasets/importers/usc/built.py": "a data set's names of operations",
    "graph/importers/ncnn_layers.py": "numbers of ncnn's layer Eltwise",
    "graph/importers/ncnn_windows.py": "numbers of activations in ncnn's parameters",
    "graph/importers/tflite_conversion.py": "numbers of activations in TFLite's schema",
    "graph/moves.py": "operators whose results ONNX Runtime's quantiser gives the scale of their input",
    "graph/operators/evaluation.py": "operators that exporters write around shapes",
    "graph/writers/onnx_qdq.py": "operators that ONNX Runtime's quantiser takes",
    "kernels/memory.py": "operators that ONNX Runtime's layout pass takes",
    "runtimes/*_kernels.py": "a runtime's own operators and names of operators",
    "spaces/synthetic/random_operators.py": "their order decides which networks a seed draws",
}
"""Pattern of files to why they list three operators or more."""


def listed(node: ast.AST) -> Iterator[Sequence[ast.expr]]:
    """The values of a collection that list something; a table from operators to functions is code, no list of facts."""
    if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
        yield node.elts
    elif isinstance(node, ast.Call):
        yield node.args
    elif isinstance(node, ast.Dict):
        if any(isinstance(value, (ast.Constant, ast.Tuple, ast.Set, ast.List, ast.Dict)) for value in node.values):
            yield [key for key in node.keys if key is not None]
        yield node.values


def constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def lists_of_operators(text: str) -> list[int]:
    """Lines of a module on which three operators or more are listed."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        for values in listed(node)
        if len({value.value for value in values if isinstance(value, ast.Constant)} & KNOWN) >= 3 and isinstance(node, (ast.expr))
    ]


@pytest.mark.parametrize("text", ["x = {'Relu', 'Tanh', 'Erf'}", "f('Relu', 'Tanh', 'Erf')", "{'Relu': 1, 'Tanh': 1, 'Erf': 6}"])
def test_a_list_of_three_operators_is_found(text: str) -> None:
    assert lists_of_operators(text) == [1]


@pytest.mark.parametrize("text", ["x = {'Relu', 'Tanh', 'relu'}", "x = {'Relu': relu, 'Tanh': tanh, 'Erf': lambda x: erf(x)}"])
def test_two_operators_or_a_function_for_each_operator_are_no_list(text: str) -> None:
    assert lists_of_operators(text) == []


def test_operators_are_listed_nowhere_but_in_the_table() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    found = {f"{name}:{line}" for name, path in files.items() for line in lists_of_operators(path.read_text("utf-8"))}

    assert {place for place in found if not any(fnmatch(place.partition(":")[0], each) for each in EXCEPTIONS)} == set()


NEEDS_MORE = {"BitwiseNot": "integers", "Clip": "bounds, without which it is removed", "Not": "truth values"}
REAL = [row for row in operators(Kind.UNARY) if row.each and row.op_type not in NEEDS_MORE]


@pytest.mark.parametrize("row", REAL, ids=lambda row: row.op_type)
def test_a_row_is_enough_to_read_count_price_and_write_a_function(row: Operator, tmp_path: Path) -> None:
    builder = GraphBuilder(row.op_type)
    x = builder.conv(builder.input((1, 4, 8, 8)), 4, 3)
    graph = builder.finish(builder.op(row.op_type, [x])[0])
    file = tmp_path / "network.onnx"
    file.write_bytes(to_onnx(graph))

    read = load_graph(file)

    assert [node.op_type for node in read.nodes] == ["Conv", row.op_type]
    assert graph_flops(read) == graph_flops(graph) == 2 * 4 * 36 * 64 + row.each * 4 * 64
    [kernel] = [kernel for kernel in find_kernels(read, load_rules("none")) if row.op_type in kernel.operators]
    assert kernel.kernel_type == "activation"


def test_the_gate_of_a_language_model_is_read_counted_priced_and_written(tmp_path: Path) -> None:
    row = lookup("SwiGLU")
    assert row is not None
    builder = GraphBuilder("gated")
    x = builder.input((1, 6, 8))
    gate, value = (builder.matmul(x, builder.weight((8, 16))) for _ in range(2))
    graph = builder.finish(builder.op("SwiGLU", [gate, value], {"alpha": 1.5})[0])
    file = tmp_path / "gated.onnx"
    file.write_bytes(to_onnx(graph))

    read = load_graph(file)

    assert read.nodes[-1].attributes["alpha"] == 1.5
    assert read.shape(read.outputs[0]) == (1, 6, 16)
    # a product of 8x16 for each of 6 tokens, twice; sigmoid (4) and two products for each element
    assert graph_flops(read) == 2 * 2 * 6 * 8 * 16 + 6 * 6 * 16
    forecast = latcast.predict(file, on="pixel4/tflite-2.10/1large/fp32")
    assert np.isfinite(forecast.latency_ms)
    assert any("SwiGLU" in kernel.operators and kernel.latency_ms > 0 for kernel in forecast.kernels)
