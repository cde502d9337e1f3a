"""numpy as a runtime: each operator is a call of numpy, which is timed as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

import numpy as np

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph, Node
from latcast.graph.operators.evaluation import EVALUATED, evaluate
from latcast.graph.operators.table import OperatorView
from latcast.graph.weights import synthetic_weights
from latcast.records import ExecutedKernel
from latcast.runtimes.session import check_profiling, check_setting, checked_inputs, random_inputs

Arrays = Sequence[np.ndarray]
Compute = Callable[[OperatorView, Arrays], np.ndarray]


def _windows(view: OperatorView, x: np.ndarray, fill: float) -> np.ndarray:
    """(N, C, H', W', kernel height, kernel width) of a map; no copy beyond the padding."""
    kernel = view.node.integers("kernel_shape")
    pads, strides, dilations = (
        view.node.integers("pads", (0,) * 4),
        view.node.integers("strides", (1, 1)),
        view.node.integers("dilations", (1, 1)),
    )
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    reach = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    found = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    return found[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def conv(view: OperatorView, given: Arrays) -> np.ndarray:
    x, weight = _windows(view, given[0], 0.0), given[1]
    groups = view.node.integer("group", 1)
    if groups == 1:
        y = np.moveaxis(np.tensordot(x, weight, ((1, 4, 5), (1, 2, 3))), 3, 1)
    else:
        parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
        filters = weight.reshape(groups, -1, *weight.shape[1:])
        y = np.einsum("ngchwij,gocij->ngohw", parts, filters).reshape(x.shape[0], -1, *x.shape[2:4])
    return y if len(given) < 3 else y + given[2].reshape(-1, 1, 1)


def batch_normalization(view: OperatorView, given: Arrays) -> np.ndarray:
    x, (scale, bias, mean, variance) = given[0], (values.reshape(-1, *(1,) * (given[0].ndim - 2)) for values in given[1:])
    factor = scale / np.sqrt(variance + float(view.node.attributes.get("epsilon", 1e-5)))  # type: ignore[arg-type]
    return x * factor + (bias - mean * factor)


def average_pool(view: OperatorView, given: Arrays) -> np.ndarray:
    sums = _windows(view, given[0], 0.0).sum(axis=(4, 5))
    ones = np.ones((1, 1, *given[0].shape[2:]), given[0].dtype)
    inside = _windows(view, ones, float(view.node.integer("count_include_pad"))).sum(axis=(4, 5))
    return sums / inside


def gemm(view: OperatorView, given: Arrays) -> np.ndarray:
    a, b = (part.T if view.node.integer(f"trans{name}") else part for name, part in zip("AB", given[:2], strict=True))
    return a @ b if len(given) < 3 else a @ b + given[2]


def softmax(view: OperatorView, given: Arrays) -> np.ndarray:
    axis = view.node.integer("axis", -1)
    powers = np.exp(given[0] - given[0].max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def hard_sigmoid(view: OperatorView, given: Arrays) -> np.ndarray:
    alpha, beta = (float(view.node.attributes.get(name, value)) for name, value in (("alpha", 0.2), ("beta", 0.5)))  # type: ignore[arg-type]
    return np.clip(alpha * given[0] + beta, 0, 1)


def haar_wavelet(view: OperatorView, given: Arrays) -> np.ndarray:
    x = given[0]
    a, b, c, d = (x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1))
    return np.concatenate([a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d], axis=1) / 2


COMPUTED: Mapping[str, Compute] = {
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Conv": conv,
    "Gemm": gemm,
    "GlobalAveragePool": lambda view, given: given[0].mean(axis=(2, 3), keepdims=True),
    "HaarWavelet": haar_wavelet,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda view, given: given[0] * np.clip(given[0] / 6 + 0.5, 0, 1),
    "MatMul": lambda view, given: given[0] @ given[1],
    "MaxPool": lambda view, given: _windows(view, given[0], -np.inf).max(axis=(4, 5)),
    "Sigmoid": lambda view, given: 1 / (1 + np.exp(-given[0])),
    "Softmax": softmax,
}
"""What latcast's own evaluation of small constants does not cover."""


def _computed(node: Node, graph: Graph, values: dict[str, np.ndarray]) -> None:
    """Runs one operator on the values so far and adds its results."""
    tensors = tuple(graph.tensors[name] if name else None for name in node.inputs)
    given = [values[name] if name else None for name in node.inputs]
    view = OperatorView(node, tensors, given)
    if node.op_type in COMPUTED:
        results = [COMPUTED[node.op_type](view, [each for each in given if each is not None])]
    else:
        results = evaluate(view, limit=None) or []
    if len(results) < len(node.outputs):
        raise ValueError(f"node '{node.name}' ({node.op_type}) cannot be computed")
    values.update((name, result) for name, result in zip(node.outputs, results, strict=True) if name)


def _squared_relu(source: str, target: str, values: dict[str, np.ndarray]) -> None:
    positive = np.maximum(values[source], 0)
    values[target] = np.square(positive, out=positive)


class NumpySession:
    """A network as a list of calls."""

    def __init__(self, graph: Graph, *, profile: bool) -> None:
        self.graph = graph
        self._profile = profile
        self._values = {**synthetic_weights(graph), **graph.constants}
        self._calls = _calls(graph)
        self.set_inputs(random_inputs(graph))

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        given = checked_inputs(self.graph, inputs)
        self._values.update((name, array.copy()) for name, array in zip(self.graph.inputs, given, strict=True))

    def run(self) -> None:
        try:
            for _, call in self._calls:
                call(self._values)
        except (ArithmeticError, IndexError, KeyError, ValueError) as problem:
            raise RuntimeFailure(f"numpy failed to run '{self.graph.name}': {problem}") from problem

    def outputs(self) -> list[np.ndarray]:
        return [np.array(self._values[name], np.float32) for name in self.graph.outputs]

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        check_profiling(self.graph, self._profile, runs)
        self.run()
        taken_ms: list[list[float]] = [[] for _ in self._calls]
        for _ in range(runs):
            for (_, call), times in zip(self._calls, taken_ms, strict=True):
                start_ns = time.perf_counter_ns()
                call(self._values)
                times.append((time.perf_counter_ns() - start_ns) / 1e6)
        return tuple(
            ExecutedKernel(nodes[-1].name, "+".join(node.op_type for node in nodes), tuple(n.name for n in nodes), median(times))
            for (nodes, _), times in zip(self._calls, taken_ms, strict=True)
        )

    def close(self) -> None:
        self._values = {}


def _calls(graph: Graph) -> list[tuple[tuple[Node, ...], Callable[[dict[str, np.ndarray]], None]]]:
    """What is called, in order, with the nodes that each call computes."""
    fused = {idiom.nodes[-1].name: idiom for idiom in choose_idioms(graph, ["squared_relu"])}
    inside = {node.name for idiom in fused.values() for node in idiom.nodes}
    calls: list[tuple[tuple[Node, ...], Callable[[dict[str, np.ndarray]], None]]] = []
    for node in graph.nodes:
        if node.name in fused:
            idiom = fused[node.name]
            calls.append((idiom.nodes, partial(_squared_relu, idiom.inputs[0], idiom.output)))
        elif node.op_type not in COMPUTED and node.op_type not in EVALUATED:
            raise UnsupportedOperatorError(f"numpy has no form of node '{node.name}' ({node.op_type})")
        elif node.name not in inside:
            calls.append(((node,), partial(_computed, node, graph)))
    return calls


class NumpyRuntime:
    """Runs networks in numpy, in one thread or as many as its linear algebra takes."""

    name = "numpy"
    precisions = ("fp32",)

    def available(self) -> str | None:
        return None

    def version(self) -> str:
        return np.__version__

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> NumpySession:
        check_setting(self, graph, threads, precision)
        return NumpySession(graph, profile=profile)
