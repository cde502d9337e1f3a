"""A small depthwise convolution and the 1x1 convolution after it as one kernel: TFLite's delegate on Apple's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import cast

from latcast.graph.ir import Graph, Node
from latcast.kernels.patterns import Match


def fits_one_kernel(graph: Graph, match: Match, limits: Mapping[str, int]) -> bool:
    """Whether a match of the pattern ``depthwise_pointwise`` is one, small enough for the limits.

    Args:
        graph: The network.
        match: Two convolutions, perhaps with a normalisation and an activation between them.
        limits: The most ``channels`` and ``depthwise_weights`` of the first, ``pointwise_channels`` and
            ``pointwise_weights`` of the second; empty for any size.
    """
    first, second = (node for node in match.nodes if node.op_type == "Conv")
    channels, weight = graph.shape(first.inputs[0])[1], graph.shape(second.inputs[1])
    if first.attributes.get("group", 1) != channels or channels == 1 or graph.shape(first.outputs[0])[1] != channels:
        return False
    # On a 1x1 map the second is a fully connected layer to the delegate.
    if not _is_pointwise(second, weight) or graph.shape(second.inputs[0])[2:] == (1, 1):
        return False
    sizes = {
        "channels": channels,
        "depthwise_weights": prod(graph.shape(first.inputs[1])),
        "pointwise_channels": weight[0],
        "pointwise_weights": prod(weight),
    }
    return all(sizes[name] <= most for name, most in limits.items())


def _is_pointwise(node: Node, weight: tuple[int, ...]) -> bool:
    """1x1 at stride 1, unpadded, in one group."""
    attributes = node.attributes
    strides = cast("tuple[int, ...]", attributes.get("strides", (1, 1)))
    pads = cast("tuple[int, ...]", attributes.get("pads", ()))
    return weight[2:] == (1, 1) and set(strides) == {1} and not any(pads) and attributes.get("group", 1) == 1
