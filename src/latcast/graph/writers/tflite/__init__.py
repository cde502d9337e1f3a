"""Writing graphs as ``.tflite`` files, without TensorFlow.

The file looks like one from a stock converter: NHWC, batch normalisation folded, ReLUs fused, GELU and hard-swish as one
operator each, layer normalisation composed. Operators keep the names of the graph's nodes in their outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from latcast.errors import UnsupportedOperatorError
from latcast.graph.ir import Graph
from latcast.graph.weights import synthetic_weights
from latcast.graph.writers.ranges import activation_ranges
from latcast.graph.writers.tflite.flatbuffer import TfliteModel, serialise
from latcast.graph.writers.tflite.layout import Order
from latcast.graph.writers.tflite.quantisation import quantise
from latcast.graph.writers.tflite.writer import GraphWriter

PRECISIONS = ("fp32", "int8")

LARGEST_SIZE = 2**31 - 1
"""Shapes in a TFLite file are 32-bit integers."""


@dataclass(frozen=True)
class TfliteNetwork:
    """A written network.

    Attributes:
        data: The file.
        model: What is in it; each operator says which nodes of the graph it computes.
        input_orders, output_orders: For each input and output, which logical axis each physical axis holds.
    """

    data: bytes
    model: TfliteModel
    input_orders: tuple[Order, ...]
    output_orders: tuple[Order, ...]


def write_tflite(graph: Graph, *, precision: str = "fp32", seed: int = 0, compressible: bool = False) -> TfliteNetwork:
    """Write a graph with synthetic weights.

    Args:
        graph: Logical NCHW, ONNX vocabulary.
        precision: "fp32", or "int8" for full-integer quantisation: activations per tensor, weights per channel, inputs and
            outputs int8. The scales are estimated from the weights, not calibrated.
        seed: Of the weights.
        compressible: Whether the weights repeat (:func:`latcast.graph.weights.synthetic_weights`).

    Raises:
        UnsupportedOperatorError: An operator that TFLite cannot express, another precision, or a size of more than 32
            bits; the message names it.
        ModelError: The graph's shapes do not fit together.
    """
    if precision not in PRECISIONS:
        raise UnsupportedOperatorError(f"no TFLite file is written in '{precision}'; expected one of {', '.join(PRECISIONS)}")
    for name, tensor in graph.tensors.items():
        if max(tensor.shape, default=0) > LARGEST_SIZE:
            raise UnsupportedOperatorError(f"found the tensor '{name}' of shape {tensor.shape}; TFLite counts to {LARGEST_SIZE}")
    weights = synthetic_weights(graph, seed=seed, compressible=compressible)
    writer = GraphWriter(graph, weights)
    model = writer.write()
    if precision == "int8":
        model = quantise(model, activation_ranges(graph, weights, seed=seed))
    return TfliteNetwork(
        serialise(model),
        model,
        tuple(writer.orders[name] for name in graph.inputs),
        tuple(writer.orders[name] for name in graph.outputs),
    )


def to_tflite(graph: Graph, *, precision: str = "fp32", seed: int = 0, compressible: bool = False) -> bytes:
    """Return the bytes of :func:`write_tflite`."""
    return write_tflite(graph, precision=precision, seed=seed, compressible=compressible).data


__all__ = ["TfliteModel", "TfliteNetwork", "to_tflite", "write_tflite"]
