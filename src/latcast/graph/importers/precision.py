"""The precision of a network: that of most of its work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from latcast.graph.ir import Graph, Node
from latcast.graph.operators import lookup, view_of
from latcast.graph.operators.quantization import is_quantized
from latcast.graph.operators.table import no_flops


def with_precision(graph: Graph) -> Graph:
    """The graph with the precision that most of its multiply-accumulates are done in.

    A convolution with a weight of 8 bits counts as int8 even where it reads real numbers: runtimes quantise its input on
    the fly. A network without convolutions and products counts the elements that its operators write.
    """
    work: Counter[str] = Counter()
    for node in graph.nodes:
        entry = lookup(node.op_type)
        if entry is not None and entry.macs is not no_flops:
            work[_kind(graph, node)] += entry.macs(view_of(graph, node))
    if not work:
        for node in graph.nodes:
            work[_kind(graph, node)] += sum(graph.tensors[name].elements for name in node.outputs if name)
    precision = work.most_common(1)[0][0]
    return graph if precision == graph.precision else replace(graph, precision=precision)


def _kind(graph: Graph, node: Node) -> str:
    kinds = [_precision(graph.tensors[name].dtype) for name in node.inputs[:2] if name]
    return "int8" if "int8" in kinds else next((kind for kind in kinds if kind), "fp32")


def _precision(dtype: str) -> str:
    if is_quantized(dtype):
        return "int8"
    return {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp32"}.get(dtype, "")
