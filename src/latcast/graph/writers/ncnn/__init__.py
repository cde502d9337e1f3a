"""Graph to ncnn's param and bin files, with synthetic weights, without pnnx or torch.

ncnn runs what the param file says, layer by layer, and fuses nothing at load. So this does what ncnn's converter and
optimiser do: batch normalisation and activations become part of convolutions, GELU, hard-swish, layer normalisation and
channel shuffles become layers, blobs with several readers are split.
"""

from __future__ import annotations

from collections.abc import Mapping

from latcast.errors import LatcastError, UnsupportedOperatorError
from latcast.graph.ir import Graph, Node
from latcast.graph.passes import remove_dead_nodes
from latcast.graph.weights import synthetic_weights
from latcast.graph.writers.folding import check_shapes, fold_constants
from latcast.graph.writers.ncnn import elementwise, linear, movement
from latcast.graph.writers.ncnn.layers import activation_scales, hand_on_int8, nodes_by_layer, to_bin, to_param, with_splits
from latcast.graph.writers.ncnn.lowering import LOWERINGS, Lowering, blob_shape, failure
from latcast.graph.writers.ncnn.rewriting import rewrite

PRECISIONS = ("fp32", "int8")

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def to_ncnn(graph: Graph, *, precision: str = "fp32", seed: int = 0, compressible: bool = False) -> tuple[str, bytes]:
    """Write a graph for ncnn.

    Inputs are the blobs ``in0``, ``in1``... and outputs ``out0``, ``out1``..., in the graph's order, shaped as the graph's
    tensors without their batch axis (:func:`blob_shape`); outputs may lack further axes of size 1.

    Args:
        graph: A network of batch 1.
        precision: "fp32", or "int8" for int8 convolutions and matrix products with weights as ncnn2int8 stores them.
            Weights of 16 bits are a choice of the runtime, not of the file.
        seed: Of the weights.
        compressible: Whether the weights repeat (:func:`latcast.graph.weights.synthetic_weights`).

    Returns:
        The text of the param file and the bytes of the bin file.

    Raises:
        UnsupportedOperatorError: A node has no form in ncnn, or the batch is not 1; the message names the node or input.
        ModelError: The shapes in the graph contradict each other.
        LatcastError: An unknown precision.
    """
    param, weights, _ = to_ncnn_with_map(graph, precision=precision, seed=seed, compressible=compressible)
    return param, weights


def to_ncnn_with_map(
    graph: Graph, *, precision: str = "fp32", seed: int = 0, compressible: bool = False
) -> tuple[str, bytes, Mapping[str, tuple[str, ...]]]:
    """Write as :func:`to_ncnn` does; also return which nodes each layer computes.

    Returns:
        Param text, bin bytes, and a mapping from layer name to names of the graph's nodes, in the graph's order. Layers that
        only serve ncnn (Input, Split, MemoryData, some reshapes) have none. Nodes that depend on no input of the network
        were worked out here, and nodes that lead to no output left out: they are in no layer. Every other node is in
        exactly one.

    Raises:
        UnsupportedOperatorError, ModelError, LatcastError: See :func:`to_ncnn`.
    """
    if precision not in PRECISIONS:
        raise LatcastError(f"no ncnn network of precision '{precision}' can be written; expected one of {', '.join(PRECISIONS)}")
    _check(graph)
    weights = synthetic_weights(graph, seed=seed, compressible=compressible)
    scales = activation_scales(graph, weights, seed=seed) if precision == "int8" else None
    folded, values = fold_constants(graph, weights)
    rewritten, origins = rewrite(remove_dead_nodes(folded), values)
    order = {node.name: index for index, node in enumerate(graph.nodes)}
    ctx = Lowering(rewritten, values, origins, order, scales)
    for index, tensor in enumerate(rewritten.inputs):
        ctx.add_input(tensor, f"in{index}")
    for node in rewritten.nodes:
        if not ctx.is_done(node):
            _lower(ctx, node)
    layers, outputs = with_splits(ctx.layers, ctx.finish())
    if scales is not None:
        hand_on_int8(layers, outputs)
    return to_param(layers), to_bin(layers), nodes_by_layer(layers)


def _check(graph: Graph) -> None:
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if len(tensor.shape) > 1 and tensor.shape[0] != 1:
            raise UnsupportedOperatorError(
                f"input '{name}' has batch {tensor.shape[0]}, but ncnn networks have no batch axis; use batch 1"
            )
        if tensor.dtype not in _FLOATS:
            raise UnsupportedOperatorError(f"input '{name}' is {tensor.dtype}; networks for ncnn are written with float inputs")
        if len(blob_shape(tensor.shape)) > 4:
            raise UnsupportedOperatorError(f"input '{name}' has shape {list(tensor.shape)}; an ncnn blob has at most four axes")
    check_shapes(graph)


def _lower(ctx: Lowering, node: Node) -> None:
    lower = LOWERINGS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if lower is None:
        label = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        raise failure(node, f"ncnn has no layer that this writer knows for {label}")
    dtype = ctx.graph.tensors[node.outputs[0]].dtype
    if dtype not in _FLOATS:
        raise failure(node, f"its output is {dtype}, and blobs hold floats")
    lower(ctx, node)


__all__ = ["PRECISIONS", "blob_shape", "elementwise", "linear", "movement", "to_ncnn", "to_ncnn_with_map"]
