"""Kernels that work along one axis: cumulative sums, top-k, Fourier transforms; and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.graph.operators.selection import BOX_FLOPS, boxes_kept
from latcast.graph.operators.signals import dft_sizes
from latcast.graph.operators.table import view_of
from latcast.kernels.types.kernel_type import Columns, KernelType, Quantities, add_kernel_type, no_features, one_class

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder


def _around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Return the elements before an axis, along it and behind it."""
    axis %= max(len(shape), 1)
    return prod(shape[:axis]), shape[axis] if shape else 1, prod(shape[axis + 1 :])


def extract_cum_sum(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return the sizes before, along and behind the summed axis; the last axis where a file leaves it open."""
    node = nodes[0]
    axis = graph.constants.get(node.inputs[1])
    return _around(graph.shape(node.inputs[0]), -1 if axis is None else int(axis.reshape(-1)[0]))


def cum_sum_quantities(c: Columns) -> Quantities:
    elements = c["outer"] * c["summed"] * c["inner"]
    return Quantities(elements, elements, elements, 0 * elements)


def build_cum_sum(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    x = builder.input((c["outer"], c["summed"], c["inner"]))
    return builder.op("CumSum", [x, builder.constant(1, dtype="int64")])[0]


def extract_top_k(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return the sizes before, along and behind the searched axis, and how many elements are taken."""
    node = nodes[0]
    shape, axis = graph.shape(node.inputs[0]), node.integer("axis", -1)
    return *_around(shape, axis), graph.shape(next(name for name in node.outputs if name))[axis]


def top_k_quantities(c: Columns) -> Quantities:
    """Count values and places as written."""
    elements, taken = c["outer"] * c["searched"] * c["inner"], c["outer"] * c["taken"] * c["inner"]
    return Quantities(elements, elements, 2 * taken, 0 * elements)


def build_top_k(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    x = builder.input((c["outer"], c["searched"], c["inner"]))
    return builder.op("TopK", [x, builder.constant((c["taken"],), dtype="int64")], {"axis": 1}, outputs=2)[0]


def extract_dft(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return transforms, points, and numbers of each point read and written (1 real, 2 complex)."""
    node = nodes[0]
    x, y = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    axis, points = dft_sizes(view_of(graph, node))
    return prod(x[:-1]) // x[axis], points, x[axis] * x[-1], y[axis] * y[-1]


def dft_quantities(c: Columns) -> Quantities:
    """Count 5 N log2 N for each transform, half of it where one side is real."""
    real = np.minimum(c["read_each"], c["written_each"]) <= c["points"]
    flops = np.where(real, 2.5, 5.0) * c["points"] * np.log2(np.maximum(c["points"], 2)) * c["transforms"]
    transforms = c["transforms"]
    return Quantities(flops, transforms * c["read_each"], transforms * c["written_each"], 0 * transforms)


def dft_features(c: Columns) -> Mapping[str, np.ndarray]:
    """Return whether points are a power of two, which have the fast algorithm."""
    points = c["points"].astype(np.int64)
    return {"power_of_two": ((points & (points - 1)) == 0).astype(np.float64), "squared": c["transforms"] * c["points"] ** 2}


def build_dft(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a transform of as many points as are read: complex, or real and one-sided where only that is written."""
    points = c["points"]
    width = 2 if c["read_each"] >= 2 * points else 1
    x = builder.input((c["transforms"], points, width))
    onesided = int(width == 1 and c["written_each"] < 2 * points)
    return builder.op("DFT", [x, "", builder.constant(1, dtype="int64")], {"onesided": onesided})[0]


def extract_nms(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    return boxes_kept(view_of(graph, nodes[0]))


def nms_quantities(c: Columns) -> Quantities:
    """Count as many boxes as may stay: how many do depends on the scores."""
    boxes, lists = c["boxes"], c["images"] * c["classes"]
    sorting = boxes * np.ceil(np.log2(np.maximum(boxes, 2)))
    flops = lists * (sorting + BOX_FLOPS * boxes * c["kept"])
    return Quantities(flops, 4 * c["images"] * boxes + lists * boxes, 3 * lists * c["kept"], 0 * boxes)


def build_nms(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    boxes = builder.input((c["images"], c["boxes"], 4))
    scores = builder.input((c["images"], c["classes"], c["boxes"]))
    limits = [builder.constant((c["kept"],), dtype="int64"), builder.constant((0.5,), dtype="float32")]
    return builder.op("NonMaxSuppression", [boxes, scores, *limits])[0]


CUM_SUM = add_kernel_type(
    KernelType(
        "cum_sum", ("outer", "summed", "inner"), ("cum_sum",), extract_cum_sum, cum_sum_quantities, one_class("cum sum"),
        no_features, build_cum_sum,
    )
)  # fmt: skip
TOP_K = add_kernel_type(
    KernelType(
        "top_k", ("outer", "searched", "inner", "taken"), ("top_k",), extract_top_k, top_k_quantities, one_class("top k"),
        no_features, build_top_k,
    )
)  # fmt: skip
DFT = add_kernel_type(
    KernelType(
        "dft", ("transforms", "points", "read_each", "written_each"), ("dft",), extract_dft, dft_quantities, one_class("dft"),
        dft_features, build_dft,
    )
)  # fmt: skip
NMS = add_kernel_type(
    KernelType(
        "nms", ("images", "classes", "boxes", "kept"), ("non_max_suppression",), extract_nms, nms_quantities,
        one_class("nms"), no_features, build_nms,
    )
)  # fmt: skip
