"""Squeeze-and-excitation as one kernel, on runtimes that run its six operators together (nn-Meter Table 6: "SE")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.kernels.types.kernel_type import Columns, KernelType, NotThisType, Quantities, add_kernel_type, one_class

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder


def extract(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """The map, and the channels it is squeezed to: the outputs of the first of two 1x1 convolutions."""
    pool = next(node for node in nodes if node.op_type == "GlobalAveragePool")
    reduce = next(node for node in nodes if node.op_type == "Conv")
    shape = graph.shape(pool.inputs[0])
    if len(shape) != 4:
        raise NotThisType
    return (*shape, graph.shape(reduce.outputs[0])[1])


def quantities(c: Columns) -> Quantities:
    """Pooling and scaling: a FLOP each for every element; two products of 2·C·S FLOPs with biases; an activation of 1 FLOP, a
    gate of 4. The map is read twice, by the pooling and by the scaling."""
    elements = c["batch"] * c["channels"] * c["in_h"] * c["in_w"]
    products = 4 * c["channels"] * c["squeezed"] + 2 * c["squeezed"] + 5 * c["channels"]
    return Quantities(
        2 * elements + c["batch"] * products,
        2 * elements,
        elements,
        2 * c["channels"] * c["squeezed"] + c["channels"] + c["squeezed"],
    )


def features(c: Columns) -> Mapping[str, np.ndarray]:
    """The ratio of nn-Meter Table 6, and what vectors of 16 are filled with."""
    return {"ratio": c["channels"] / np.maximum(c["squeezed"], 1), "channels_mod_16": c["channels"] % 16}


def build(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    return builder.squeeze_excite(builder.input((c["batch"], c["channels"], c["in_h"], c["in_w"])), c["squeezed"])


SQUEEZE_EXCITE = add_kernel_type(
    KernelType(
        "squeeze_excite", ("batch", "channels", "in_h", "in_w", "squeezed"), ("squeeze_excite",), extract, quantities,
        one_class("squeeze excite"), features, build,
    )
)  # fmt: skip
