"""One kernel as a network of its own, to be timed in isolation (nn-Meter §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels.types import kernel_type


def kernel_graph(type_name: str, parameters: Mapping[str, Any]) -> Graph:
    """A graph that holds the kernel with this configuration and nothing else.

    ``fused_flops`` of 1 to 3 puts a ReLU behind it, more a hard-swish; ``fused_inputs`` adds as many activations.

    Raises:
        UnknownNameError: No such kernel type or field.
    """
    found = kernel_type(type_name)
    values = dict(zip(found.fields, found.configuration({k: int(v) for k, v in parameters.items()}), strict=True))
    builder = GraphBuilder(f"{type_name} " + " ".join(f"{k}={v}" for k, v in values.items()))
    x = found.build(builder, values)
    for _ in range(values["fused_inputs"]):
        x = builder.add(x, builder.input(builder.shape(x)))
    rest = values["fused_flops"] - values["fused_inputs"]
    if rest >= 4:
        x = builder.hard_swish(x)
    elif rest > 0:
        x = builder.relu(x)
    return builder.finish(x)
