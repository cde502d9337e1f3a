"""Limits on the size of a network, read from a file or built for a shape that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from latcast.errors import ModelError
from latcast.graph.ir import Graph, Tensor
from latcast.graph.operators import node_flops

MAX_TENSOR_ELEMENTS = 1 << 40
"""Of one tensor: 4 TiB of real numbers, more than any machine holds."""

MAX_FLOPS = 1 << 56
"""Of a network: a day of the fastest machine."""

MAX_ATTRIBUTE = 1 << 31
"""Of a window's sizes, strides, dilations and pads."""

MAX_RANK = 64
"""Dimensions of a tensor, which numpy limits so."""

_WINDOW = ("kernel_shape", "strides", "dilations", "pads", "output_padding", "group")


def check_tensor(name: str, tensor: Tensor) -> None:
    """Refuses what no machine holds, before anybody computes with its size.

    Raises:
        ModelError: Too many elements or dimensions.
    """
    if len(tensor.shape) > MAX_RANK:
        raise ModelError(f"tensor '{name}' has {len(tensor.shape)} dimensions; at most {MAX_RANK} are read; is the file damaged?")
    if prod(tensor.shape) > MAX_TENSOR_ELEMENTS:
        raise ModelError(
            f"tensor '{name}' of shape {_shown(tensor.shape)} would hold {written(prod(tensor.shape))} elements; "
            f"at most {MAX_TENSOR_ELEMENTS:,} are read; is the file damaged, or a size given wrongly?"
        )


def check_graph(graph: Graph) -> Graph:
    """The graph, where its numbers are such as a network has.

    Raises:
        ModelError: They are not; everything that reckons with them may rely on it.
    """
    flops = 0
    for node in graph.nodes:
        for key in _WINDOW:
            value = node.attributes.get(key, 0)
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int) and abs(number) >= MAX_ATTRIBUTE:
                    raise ModelError(
                        f"node '{node.name}' ({node.op_type}) has {written(number)} in its '{key}'; expected less than "
                        f"{MAX_ATTRIBUTE:,}; is the file damaged?"
                    )
        flops += node_flops(graph, node) or 0
    if flops > MAX_FLOPS:
        raise ModelError(
            f"the network would take {written(flops)} FLOPs; at most {written(MAX_FLOPS)} are believed; "
            "is the file damaged, or a size given wrongly?"
        )
    return graph


def _shown(shape: Iterable[int]) -> str:
    sizes = list(shape)
    return f"[{', '.join(map(written, sizes[:8]))}{', ...' if len(sizes) > 8 else ''}]"


def written(value: int) -> str:
    """A number in a few characters, however long it is."""
    return f"{value:,}" if abs(value) < 10**18 else f"about 2^{abs(value).bit_length() - 1}"
