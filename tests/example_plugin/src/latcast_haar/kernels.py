"""Kernels of the operator and the idiom, how they are drawn, and how their fusion is tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Node
from latcast.kernels.delegates import Delegate, OperatorRule
from latcast.kernels.rules import FusionRules
from latcast.kernels.types.kernel_type import Columns, KernelType, Quantities, no_features, one_class
from latcast.spaces.operator_pairs import MAP, ChainOperator
from latcast.spaces.parametrisations import Axis, Parametrisation, Span


def extract_map(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    return graph.shape(nodes[0].inputs[0])


def map_quantities(c: Columns) -> Quantities:
    elements = c["batch"] * c["channels"] * c["in_h"] * c["in_w"]
    return Quantities(4 * elements, elements, elements, 0 * elements)


def build_haar(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    return builder.op("HaarWavelet", [builder.input((c["batch"], c["channels"], c["in_h"], c["in_w"]))])[0]


HAAR_WAVELET = KernelType(
    "haar_wavelet", ("batch", "channels", "in_h", "in_w"), ("haar_wavelet",), extract_map, map_quantities,
    one_class("haar wavelet"), no_features, build_haar,
)  # fmt: skip


def extract_elements(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    return (graph.tensors[nodes[0].inputs[0]].elements,)


def element_quantities(c: Columns) -> Quantities:
    return Quantities(2 * c["elements"], c["elements"], c["elements"], 0 * c["elements"])


def build_squared_relu(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    x = builder.relu(builder.input((1, c["elements"])))
    return builder.mul(x, x)


SQUARED_RELU = KernelType(
    "squared_relu", ("elements",), ("squared_relu",), extract_elements, element_quantities, one_class("squared relu"),
    no_features, build_squared_relu,
)  # fmt: skip

HAAR_WAVELET_DIMENSIONS = Parametrisation(
    (Axis(("in_h", "in_w"), tuple((side, side) for side in (224, 112, 56, 28, 14, 8))),),
    (Span("channels", 3, 512),),
    {"batch": 1},
)
SQUARED_RELU_DIMENSIONS = Parametrisation((), (Span("elements", 64, 2_000_000),))

HAAR_WAVELET_CASE = ChainOperator(lambda b, x: b.op("HaarWavelet", [x])[0], (MAP,), keeps_shape=False)


def _squared_relu(builder: GraphBuilder, x: str) -> str:
    x = builder.relu(x)
    return builder.mul(x, x)


SQUARED_RELU_CASE = ChainOperator(_squared_relu, members=("relu", "mul"))

NUMPY_RULES = FusionRules("numpy", patterns=("squared_relu",), free=frozenset({"flatten", "identity", "reshape"}))
"""The runtime of this package fuses nothing but squared ReLU; reshapes are views."""

NUMPY_ON_A_GPU = Delegate(
    "numpy-gpu",
    title="numpy on a GPU",
    unit="GPU",
    takes=(OperatorRule(frozenset({"Conv", "Relu", "squared_relu"}), {"ranks": [4, 4]}),),
    platforms=("*/numpy-*/gpu/*",),
)
"""What such a runtime would leave to the CPU: everything but convolutions and squared ReLU."""
