"""Folds padding into convolutions, and quantisation into the types of tensors; tells the precision of a network.

A file in QDQ format describes integer arithmetic as dequantise, compute in reals, quantise. Runtimes run the three as one
integer kernel, so here the operator remains alone, on tensors of 8 bits. What is left of QuantizeLinear and
DequantizeLinear is where a network really changes between reals and integers: usually at its inputs and outputs.

Dynamic quantisation (DynamicQuantizeLinear, MatMulInteger, Cast, Mul) is one product with a weight of 8 bits.

PyTorch's tracing exporter writes ``F.pad`` and a convolution as two operators, its newer exporter as one; runtimes that read
ONNX run both as one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from latcast.graph.ir import DTYPE_BYTES, Graph, Node, Tensor, resolved, rewire
from latcast.graph.operators import Kind, lookup, names_of, operators, view_of
from latcast.graph.operators.elementwise import is_quantized
from latcast.graph.operators.table import no_flops

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_QUANTIZERS = names_of(operators(Kind.QUANTISED))

_CARRIERS = names_of(row for row in operators() if row.dequantises_late)


def fold_quantization(graph: Graph) -> Graph:
    """Return the graph with quantised operators on integer tensors; a graph without any is returned as it is."""
    if not any(node.op_type in _QUANTIZERS for node in graph.nodes):
        return graph
    graph, folded = _fold_weights(graph)
    return _fold_dynamic(_fold_pairs(graph, folded))


# Weights: stored integers that are dequantised, or stored reals that are quantised and dequantised


def _fold_weights(graph: Graph) -> tuple[Graph, frozenset[str]]:
    """Replace tensors computed from weights alone by weights, of 8 bits where the computation went through 8 bits.

    Returns:
        The graph and the names of the weights that are dequantised in the file.
    """
    static = set(graph.weights) | set(graph.constants)
    tensors = dict(graph.tensors)
    weights = set(graph.weights)
    stored: dict[str, str] = {}  # of what went through few bits, the type that holds them
    folded: set[str] = set()
    constants = dict(graph.constants)
    kept: list[Node] = []
    for node in graph.nodes:
        if not node.inputs or not all(name in static or not name for name in node.inputs):
            kept.append(node)
            continue
        source = node.inputs[0]
        scalar = _dequantized_scalar(graph, node)
        if scalar is not None:
            static.add(node.outputs[0])
            constants[node.outputs[0]] = scalar
            continue
        kinds = (stored.get(source), tensors[source].dtype, tensors[node.outputs[0]].dtype if node.op_type == _QUANTIZE else None)
        integer = next((dtype for dtype in kinds if dtype and is_quantized(dtype)), "int8" if node.op_type == _QUANTIZE else None)
        for output in node.outputs:
            static.add(output)
            weights.add(output)
            folded.add(output)
            if integer is not None:
                stored[output] = integer
            elif tensors[source].dtype == "int32" and node.op_type == _DEQUANTIZE:
                tensors[output] = replace(tensors[output], dtype="int32")
    for name, dtype in stored.items():
        tensors[name] = tensors[name] if is_quantized(tensors[name].dtype) else replace(tensors[name], dtype=dtype)
    changed = graph.with_nodes(kept, tensors=tensors, weights=frozenset(weights), constants=constants)
    return changed, frozenset(folded)


def _dequantized_scalar(graph: Graph, node: Node) -> np.ndarray | None:
    """Return the value of a single number that is stored as an integer, which was not learned."""
    if node.op_type != _DEQUANTIZE:
        return None
    integer, scale, zero = (graph.constants.get(name) for name in (*node.inputs, "")[:3])
    if integer is None or scale is None or integer.size != 1:
        return None
    shifted = integer.astype(scale.dtype) - (0 if zero is None else zero.astype(scale.dtype))
    return np.asarray(shifted * scale, dtype=scale.dtype).reshape(integer.shape)


# Dynamic quantisation


def _fold_dynamic(graph: Graph) -> Graph:
    """Replace an integer product of a dynamically quantised activation, scaled back to reals, by one plain operator."""
    kept: list[Node] = []
    renamed: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op_type not in ("MatMulInteger", "ConvInteger"):
            kept.append(node)
            continue
        producer = graph.producers.get(node.inputs[0])
        source = node.inputs[0]
        output = node.outputs[0]
        if producer is not None and producer.op_type == "DynamicQuantizeLinear":
            source = producer.inputs[0]
            output = _scaled_back(graph, output) or output
        plain = replace(
            node,
            op_type="MatMul" if node.op_type == "MatMulInteger" else "Conv",
            inputs=(source, node.inputs[1]),
            outputs=(output,),
        )
        renamed[output] = plain
        kept.append(plain)
    # The operators that scaled the sum back made what the plain ones make.
    kept = [node for node in kept if node in renamed.values() or not any(name in renamed for name in node.outputs)]
    return rewire(graph, kept, {}) if renamed else graph


def _scaled_back(graph: Graph, name: str) -> str | None:
    """Return the real result of an integer product: it is cast, then multiplied by the scales."""
    for expected in ("Cast", "Mul"):
        readers = graph.consumers.get(name, [])
        if len(readers) != 1 or readers[0].op_type != expected:
            return None
        name = readers[0].outputs[0]
    return name


# Static quantisation


def _fold_pairs(graph: Graph, folded: frozenset[str]) -> Graph:
    """Let operators read and write integers; ``folded`` are the weights whose dequantisation is gone already."""
    becomes = _quantized_by_readers(graph)
    tensors = dict(graph.tensors)
    aliases: dict[str, str] = {}
    integer: dict[str, str] = {}  # a real tensor that is dequantised, and the integers it comes from
    kept: list[Node] = []
    for node in graph.nodes:
        if node.op_type == _DEQUANTIZE and is_quantized(tensors[resolved(aliases, node.inputs[0])].dtype):
            integer[node.outputs[0]] = resolved(aliases, node.inputs[0])
            kept.append(node)
            continue
        if node.op_type == _QUANTIZE:
            source = resolved(aliases, node.inputs[0])
            if source in integer:
                aliases[node.outputs[0]] = integer[source]
            elif is_quantized(tensors[source].dtype):
                aliases[node.outputs[0]] = source
            else:
                kept.append(node)
            continue
        kept.append(_on_integers(graph, node, tensors, integer, becomes))
    for node in kept:
        for name in folded.intersection(node.inputs):
            if not is_quantized(tensors[node.inputs[0]].dtype):
                # Its reader computes in reals: the runtime dequantises the weight when it loads the model.
                tensors[name] = replace(tensors[name], dtype="float32")
    return rewire(graph, kept, aliases, tensors=tensors)


def _on_integers(graph: Graph, node: Node, tensors: dict[str, Tensor], integer: dict[str, str], becomes: dict[str, str]) -> Node:
    """Return the node on integer tensors if a runtime would run it so, else unchanged."""
    activations = [name for name in node.inputs if graph.is_activation(name) and "float" in graph.tensors[name].dtype]
    ready = activations and all(name in integer or is_quantized(tensors[name].dtype) for name in activations)
    given_back = [becomes.get(name) for name in node.outputs if name]
    entry = lookup(node.op_type)
    product = entry is not None and entry.macs is not no_flops
    if not ready or not (product or all(given_back)):
        return node
    for output, dtype in zip((name for name in node.outputs if name), given_back, strict=True):
        if dtype is not None:
            tensors[output] = replace(tensors[output], dtype=dtype)
    return replace(node, inputs=tuple(integer.get(name, name) for name in node.inputs))


def _quantized_by_readers(graph: Graph) -> dict[str, str]:
    """Return the real tensors that only ever reach other operators as integers, and the type of those."""
    becomes: dict[str, str] = {}
    outputs = set(graph.outputs)
    for node in reversed(graph.nodes):
        for name in node.outputs:
            readers = graph.consumers.get(name, [])
            if not readers or name in outputs or "float" not in graph.tensors[name].dtype:
                continue
            types = {
                graph.tensors[reader.outputs[0]].dtype
                if reader.op_type == _QUANTIZE
                else becomes.get(reader.outputs[0], "")
                if reader.op_type in _CARRIERS
                else ""
                for reader in readers
            }
            if len(types) == 1 and "" not in types:
                becomes[name] = types.pop()
    return becomes


def fold_padding(graph: Graph) -> Graph:
    """Return the graph without paddings with zeros in height and width that nothing but convolutions reads."""
    aliases: dict[str, str] = {}
    added: dict[str, tuple[int, ...]] = {}
    for node in graph.nodes:
        spatial = _spatial_zeros(graph, node)
        readers = graph.consumers.get(node.outputs[0], [])
        if spatial is not None and node.outputs[0] not in graph.outputs and readers and all(map(_takes_pads, readers)):
            aliases[node.outputs[0]] = node.inputs[0]
            added |= {reader.name: spatial for reader in readers}
    if not aliases:
        return graph
    nodes = [
        _with_pads(node, added[node.name]) if node.name in added else node
        for node in graph.nodes
        if node.outputs[0] not in aliases
    ]
    return rewire(graph, nodes, aliases)


def _spatial_zeros(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Return the begins and ends of height and width that a node pads with zeros, or None where it does anything else."""
    if node.op_type != "Pad" or node.domain or node.attributes.get("mode", "constant") != "constant":
        return None
    pads = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    value = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    axes = len(node.inputs) > 3 and bool(node.inputs[3])
    if pads is None or value is None or axes or np.any(value) or len(pads) != 8 or np.any(pads[[0, 1, 4, 5]]) or np.any(pads < 0):
        return None
    return tuple(int(pads[index]) for index in (2, 3, 6, 7))


def _takes_pads(node: Node) -> bool:
    """Return whether a node is a convolution over height and width with explicit paddings."""
    return node.op_type == "Conv" and not node.domain and node.attributes.get("auto_pad", "NOTSET") == "NOTSET"


def _with_pads(node: Node, added: tuple[int, ...]) -> Node:
    own = node.integers("pads", (0, 0, 0, 0))
    pads = tuple(before + more for before, more in zip(own, added, strict=True))
    return replace(node, attributes={**node.attributes, "pads": pads})


def with_precision(graph: Graph) -> Graph:
    """Return the graph with the precision that most of its multiply-accumulates are done in.

    A convolution with a weight of 8 bits counts as int8 even where it reads real numbers: runtimes quantise its input on
    the fly. A weight of fewer bits is widened to the real numbers that it is multiplied with. A network without convolutions
    and products counts the elements that its operators write.
    """
    work: Counter[str] = Counter()
    for (data, weight), amount in _work(graph).items():
        is_int8 = is_quantized(data) or (is_quantized(weight) and DTYPE_BYTES[weight] == 1)
        work["int8" if is_int8 else _REALS.get(data) or _REALS.get(weight) or "fp32"] += amount
    precision = max(work, key=work.__getitem__, default="fp32")
    return graph if precision == graph.precision else replace(graph, precision=precision)


def precision_remark(graph: Graph, precision: str) -> str:
    """Return a sentence where a network is stored in another precision than a platform's, else an empty text."""
    usual = graph.precision in (precision, "fp32")
    if usual and not any(graph.tensors[name].dtype in (*_FEW_BITS, "float64") for name in graph.weights):
        return ""
    work = _work(graph)
    most = max(work, key=work.__getitem__, default=("", ""))
    data, weight = (round(8 * DTYPE_BYTES[dtype]) if is_quantized(dtype) else 0 for dtype in most)
    instead = ""
    if "float64" in most:
        found = "the file computes in fp64"
    elif weight and not data:
        found = f"the weights of the file are stored in {weight} bits"
    elif data and min(data, weight or data) < 8:
        found = f"the file is quantised to {weight or data}-bit weights and {data}-bit activations"
    elif usual:  # few of the products read the weights of few bits
        return ""
    else:
        found = f"the file {'is quantised to' if graph.precision == 'int8' else 'computes in'} {graph.precision}"
        instead = f"; for a platform that runs {graph.precision} name 'DEVICE {graph.precision}'"
    return f"{found}, the platform runs {precision}{instead}"


_REALS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp32"}
_FEW_BITS = frozenset(dtype for dtype, size in DTYPE_BYTES.items() if is_quantized(dtype) and size < 1)


def _work(graph: Graph) -> Counter[tuple[str, str]]:
    """Return multiply-accumulates by the element types of a node's first two inputs, or where there are none elements written."""
    macs: Counter[tuple[str, str]] = Counter()
    elements: Counter[tuple[str, str]] = Counter()
    for node in graph.nodes:
        row = lookup(node.op_type)
        data, weight = (graph.tensors[name].dtype if name else "" for name in (*node.inputs, "", "")[:2])
        elements[data, weight] += sum(graph.tensors[name].elements for name in node.outputs if name)
        if row is not None and row.macs is not no_flops:
            macs[data, weight] += row.macs(view_of(graph, node))
    return macs or elements
