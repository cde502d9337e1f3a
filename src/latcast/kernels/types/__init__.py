"""Kernel types: the numbers that decide each type's latency, and what can be computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels.types import axes, convolution, elementwise, linear, movement, pooling, recurrent
from latcast.kernels.types.kernel_type import KERNEL_TYPES, KernelType, Quantities, describe, kernel_type
from latcast.kernels.types.linear import has_bias_behind

SUMS_IN_FRONT = frozenset({"layer_norm"})
"""Types that take in a residual sum in front of them, and nothing behind; their own builder writes it."""

_ACTIVATION_OF_FLOPS = ("relu", "relu6", "relu6", "hard_sigmoid", "hard_swish")


def kernel_graph(type_name: str, parameters: Mapping[str, Any]) -> Graph:
    """Build a graph that holds the kernel with this configuration and nothing else, to time it in isolation (nn-Meter §5).

    ``fused_inputs`` adds as many activations behind it (in front of :data:`SUMS_IN_FRONT`); what ``fused_flops`` holds
    beyond them, and beyond the bias of a product of several rows, becomes an activation function of about so many FLOPs:
    ReLU (1), ReLU6 (2 and 3), hard-sigmoid (4), hard-swish (5 and more); where it is transcendental, sigmoid (up to 4),
    SiLU (up to 7) or GELU.

    Raises:
        UnknownNameError: No such kernel type or field.
        UnsupportedOperatorError: The type is for operators without a form ("other").
    """
    found = kernel_type(type_name)
    values = dict(zip(found.fields, found.configuration({k: int(v) for k, v in parameters.items()}), strict=True))
    builder = GraphBuilder(f"{type_name} " + " ".join(f"{k}={v}" for k, v in values.items()))
    x = found.build(builder, values)
    for _ in range(0 if type_name in SUMS_IN_FRONT else values["fused_inputs"]):
        x = builder.add(x, builder.input(builder.shape(x)))
    rest = values["fused_flops"] - values["fused_inputs"] - (type_name == "linear" and has_bias_behind(values))
    if values["fused_transcendentals"]:
        x = builder.activation(x, "sigmoid" if rest <= 4 else "silu" if rest <= 7 else "gelu")
    elif rest > 0:
        x = builder.activation(x, _ACTIVATION_OF_FLOPS[min(rest, len(_ACTIVATION_OF_FLOPS)) - 1])
    return builder.finish(x)


__all__ = [
    "KERNEL_TYPES",
    "KernelType",
    "Quantities",
    "axes",
    "convolution",
    "describe",
    "elementwise",
    "kernel_graph",
    "kernel_type",
    "linear",
    "movement",
    "pooling",
    "recurrent",
]
