"""A graph as bytes: JSON, compressed by LZMA.

Kept so are the graphs that come with the package, those of files that a measuring worker does not have, and models that a hub
shares. Reading returns the same graph, names included. The document:

========= =================================================================================================================
version   of this format
precision of the graph
inputs    names
outputs   names
types     ``[element type, kind, size, ...]`` of tensors, each different one once; the kind is 2 of weights that are standardised,
          1 of other weights, 0 of the rest
tensors   name to its place in ``types``
constants name to ``[element type, [size, ...], base64 of the values' bytes, little-endian]``
operators ``[type, domain, attributes]``, each different one once
nodes     ``[place in operators, name, inputs, outputs]`` in topological order; an input or output is the distance of its place
          among ``tensors`` from the last output of the node before, which makes repeated blocks equal; null if left out
========= =================================================================================================================
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Mapping
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.ir import DTYPE_BYTES, Graph, Node, Tensor
from latcast.graph.limits import check_tensor

VERSION = 2

MOST_BYTES = 64_000_000
"""Size of a document, unpacked: several times the largest that latcast ships."""

_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0, "dict_size": 1 << 23}]

_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def with_derived_names(graph: Graph) -> Graph:
    """Return the same network with weights, constants and activations named after their nodes; inputs keep their names.

    The graph comes back unchanged where such a name is taken by another tensor.
    """
    names: dict[str, str] = {name: name for name in graph.inputs}
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            if name and name not in names:
                names[name] = f"{node.name}_input_{position}"
        for position, name in enumerate(node.outputs):
            if name:
                names[name] = f"{node.name}_output_{position}"
    return graph.renamed(names) if len(set(names.values())) == len(names) else graph


def pack(graph: Graph) -> bytes:
    """Return a graph, compressed; its own name is not in it.

    Raises:
        ModelError: A constant holds other values than numbers.
    """
    place = {name: index for index, name in enumerate(graph.tensors)}
    kinds = {**dict.fromkeys(graph.weights, 1), **dict.fromkeys(graph.standardised, 2)}
    types: dict[tuple[object, ...], int] = {}
    operators: dict[str, int] = {}
    nodes = []
    last = 0
    for node in graph.nodes:
        operator = json.dumps([node.op_type, node.domain, dict(sorted(node.attributes.items()))])
        inputs, outputs = ([place[name] - last if name else None for name in names] for names in (node.inputs, node.outputs))
        nodes.append([operators.setdefault(operator, len(operators)), node.name, inputs, outputs])
        last = max((place[name] for name in node.outputs if name), default=last)
    document = {
        "version": VERSION,
        "precision": graph.precision,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "tensors": {
            name: types.setdefault((tensor.dtype, kinds.get(name, 0), *tensor.shape), len(types))
            for name, tensor in graph.tensors.items()
        },
        "types": list(types),
        "constants": {name: _row_of(name, np.asarray(value)) for name, value in graph.constants.items()},
        "operators": [json.loads(operator) for operator in operators],
        "nodes": nodes,
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return lzma.compress(text.encode(), format=lzma.FORMAT_RAW, filters=_FILTERS)


def _row_of(name: str, value: np.ndarray) -> list[Any]:
    if value.dtype.kind not in "biuf":
        raise ModelError(f"constant '{name}' holds {value.dtype}; only numbers can be kept")
    content = value.astype(value.dtype.newbyteorder("<"), order="C").tobytes()
    return [str(value.dtype), value.shape, base64.b64encode(content).decode()]


def unpack(packed: bytes, name: str) -> Graph:
    """Return the graph that :func:`pack` was given, under a name.

    Raises:
        ModelError: It is damaged, of another version, or no graph.
    """
    try:
        reader = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=_FILTERS)
        text = reader.decompress(packed, MOST_BYTES)
        if not reader.eof:
            raise ModelError(f"it is cut off, or larger than {MOST_BYTES:,} bytes")
        document = json.loads(text)
        version = document["version"]
        if version == VERSION:
            return _graph_of(document, name)
    except ModelError as problem:
        raise ModelError(f"the graph of {name} is damaged: {problem}") from problem
    except (lzma.LZMAError, RecursionError, *_MALFORMED) as problem:
        raise ModelError(f"the graph of {name} is damaged ({type(problem).__name__}: {problem})") from problem
    raise ModelError(f"the graph of {name} has version {version}; expected {VERSION}: it is of another version of latcast")


def _graph_of(document: Mapping[str, Any], name: str) -> Graph:
    types = [(_tensor(dtype, *shape), kind) for dtype, kind, *shape in document["types"]]
    typed = {each: types[place] for each, place in document["tensors"].items()}
    tensors = {each: tensor for each, (tensor, _) in typed.items()}
    weights = frozenset(each for each, (_, kind) in typed.items() if kind)
    standardised = frozenset(each for each, (_, kind) in typed.items() if kind == 2)
    constants = {each: _array(each, *row) for each, row in document["constants"].items()}
    inputs, outputs = (tuple(document[kind]) for kind in ("inputs", "outputs"))
    operators = [(op_type, domain, _attributes(attributes)) for op_type, domain, attributes in document["operators"]]
    names = list(tensors)
    made = {"", *inputs, *weights, *constants}
    nodes = []
    last = 0
    for operator, each, reads, makes in document["nodes"]:
        op_type, domain, attributes = operators[operator]
        node_inputs = tuple("" if step is None else names[last + step] for step in reads)
        node_outputs = tuple("" if step is None else names[last + step] for step in makes)
        nodes.append(Node(op_type, each, node_inputs, node_outputs, attributes, domain))
        if not made.issuperset(node_inputs):
            raise ModelError(f"tensor '{min(set(node_inputs) - made)}' is made by no node before '{each}', which reads it")
        made.update(node_outputs)
        last = max((last + step for step in makes if step is not None), default=last)
    if made - {""} != tensors.keys() or not made.issuperset(outputs):
        raise ModelError("its tensors are not those that its nodes read and make")
    if len({node.name for node in nodes}) < len(nodes):
        raise ModelError("two nodes have one name")
    precision = document["precision"]
    return Graph(name, tuple(nodes), inputs, outputs, tensors, weights, constants, precision, standardised=standardised)


def _tensor(dtype: str, *shape: int) -> Tensor:
    if dtype not in DTYPE_BYTES:
        raise ModelError(f"'{dtype}' is not an element type")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ModelError(f"found the shape {list(shape)}; expected whole numbers that are not negative")
    tensor = Tensor(shape, dtype)
    check_tensor("", tensor)
    return tensor


def _array(name: str, dtype: str, shape: list[int], values: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind not in "biuf":
        raise ModelError(f"constant '{name}' holds {kind}; expected numbers")
    return np.frombuffer(base64.b64decode(values), dtype=kind.newbyteorder("<")).astype(kind).reshape(shape)


def _attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, value in attributes.items():
        kinds = {type(each) for each in value} if isinstance(value, list) else {type(value)}
        if len(kinds) > 1 or not kinds <= {int, float, str}:
            raise ModelError(f"attribute '{key}' is not a number, a text or a list of one of them")
        read[key] = tuple(value) if isinstance(value, list) else value
    return read
