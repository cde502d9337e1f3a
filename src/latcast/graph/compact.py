"""A graph in a few kilobytes: JSON in which repeated blocks look the same, compressed.

Networks repeat their blocks, and so does what is written here: a node names its inputs by how far back they were made, its
operator, attributes and result's shape by their place in tables, and the numbers in its name by how they differ from the last
ones in such a name. The second of twelve equal blocks is then the same text as the third, and compresses to almost nothing.
Names of tensors that follow from the node's are not written (:func:`with_derived_names` makes all of them so).

What is read back is the same graph, names included. The document:

========== =======================================================================================================
version    of this format
precision  of the graph
operators  ``[type, domain, attributes]``, each different one once
types      ``[element type, size, ...]`` of tensors
constants  ``[element type, [size, ...], [value, ...]]``; many values as base64 of their bytes, little-endian, compressed by zlib
names      texts between the numbers of a node's name
inputs     ``[name, type]``
nodes      ``[operator, name, difference of each number, inputs, input..., output...]``: an input is 0 where it is left out, k > 0
           for the k-th last activation, or one of the four codes below; an output is 0 where it is left out, else 1 + its type
others     tensors that no node reads, as inputs are written
outputs    places of the outputs among all tensors, in the order in which they were first met
renamed    ``[place, name]`` of tensors whose names do not follow from the node's
========== =======================================================================================================
"""

from __future__ import annotations

import base64
import json
import lzma
import re
import zlib
from collections.abc import Hashable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.ir import DTYPE_BYTES, AttributeValue, Graph, Node, Tensor
from latcast.graph.limits import check_tensor, written

VERSION = 1

MOST_BYTES = 64_000_000
"""Of a document, unpacked; the largest that latcast ships has one."""

_MOST_LISTED = 64
"""Values of a constant that are written one by one."""

_MOST_CONSTANT_BYTES = 1 << 26

_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0, "dict_size": 1 << 23}]

_WEIGHT, _CONSTANT, _KNOWN = -1, -2, -3
"""Codes of inputs: a weight that was not met before, then its type; such a constant, then its type and value; a weight or
constant that was met before, then its place among these."""

_NUMBER = re.compile(r"(?<!\d)(0|[1-9]\d{0,8})(?!\d)")

_KEPT = "?bhilqBHILQefd"
"""Kinds of numpy's arrays whose values JSON holds exactly."""

_MALFORMED = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)


class _Table:
    """Different values in the order in which they were first met."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Hashable, int] = {}

    def place(self, key: Hashable, value: Any) -> int:
        if key not in self._places:
            self._places[key] = len(self.values)
            self.values.append(value)
        return self._places[key]


class _Differences:
    """Numbers in names as differences from the last one that stood behind the same texts."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], int] = {}

    def of(self, texts: tuple[str, ...], numbers: list[int]) -> list[int]:
        before = _beginnings(texts)
        found = [number - self._last.get(texts, 0) for texts, number in zip(before, numbers, strict=True)]
        self._last.update(zip(before, numbers, strict=True))
        return found

    def undone(self, before: tuple[tuple[str, ...], ...], differences: list[int]) -> list[int]:
        """The numbers again, from what :func:`_beginnings` says of the texts."""
        last = self._last
        numbers = [step + last.get(texts, 0) for texts, step in zip(before, differences, strict=True)]
        last.update(zip(before, numbers, strict=True))
        return numbers


def _beginnings(texts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """What stands before each number of a name."""
    return tuple(texts[:index] for index in range(1, len(texts)))


def output_name(node: str, position: int) -> str:
    """The name of a node's output that is not written down."""
    return f"{node}_output_{position}"


def static_name(node: str, position: int) -> str:
    """The name of a weight or constant that is not written down: after the first node that reads it."""
    return f"{node}_input_{position}"


def with_derived_names(graph: Graph) -> Graph:
    """The same network, its weights, constants and activations named after their nodes; inputs keep their names."""
    names: dict[str, str] = {name: name for name in graph.inputs}
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            if name and name not in names:
                names[name] = static_name(node.name, position)
        for position, name in enumerate(node.outputs):
            if name:
                names[name] = output_name(node.name, position)
    if len(set(names.values())) < len(names):
        return graph  # a name of the file's happens to be one that would be given
    return graph.renamed(names)


def pack(graph: Graph) -> bytes:
    """A graph, compressed; its own name is not in it.

    Raises:
        ModelError: It holds a tensor that nothing makes, or a constant of other values than numbers.
    """
    text = json.dumps(_Writing(graph).document(), separators=(",", ":"), ensure_ascii=False)
    return lzma.compress(text.encode(), format=lzma.FORMAT_RAW, filters=_FILTERS)


def unpack(packed: bytes, name: str) -> Graph:
    """The graph that :func:`pack` was given.

    Args:
        packed: What it returned.
        name: Of the graph.

    Raises:
        ModelError: It is damaged, of another version, or no graph.
    """
    try:
        reader = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=_FILTERS)
        text = reader.decompress(packed, MOST_BYTES)
        if not reader.eof:
            raise ModelError(f"the graph of {name} is cut off, or larger than {MOST_BYTES:,} bytes")
        document = json.loads(text)
    except (lzma.LZMAError, ValueError, RecursionError) as problem:
        raise ModelError(f"the graph of {name} is damaged: {problem}") from problem
    version = document.get("version") if isinstance(document, Mapping) else None
    if version != VERSION:
        raise ModelError(f"the graph of {name} has version {version}; expected {VERSION}: it is of another version of latcast")
    try:
        return _Reading(document, name).graph()
    except ModelError as problem:
        raise ModelError(f"the graph of {name} is damaged: {problem}") from problem
    except _MALFORMED as problem:
        raise ModelError(f"the graph of {name} is damaged ({type(problem).__name__}: {problem})") from problem


class _Writing:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.operators, self.types, self.constants, self.names = _Table(), _Table(), _Table(), _Table()
        self.differences = _Differences()
        self.places: dict[str, int] = {}
        self.activations: dict[str, int] = {}
        self.statics: dict[str, int] = {}
        self.renamed: list[tuple[int, str]] = []

    def document(self) -> dict[str, Any]:
        graph = self.graph
        inputs = []
        for name in graph.inputs:
            inputs.append([name, self._type(name)])
            self._meet(name, name, self.activations)
        nodes = [self._node(node) for node in graph.nodes]
        unread = [name for name in graph.tensors if name not in self.places]
        others = [code for position, name in enumerate(sorted(unread)) for code in self._input("", position, name)]
        return {
            "version": VERSION,
            "precision": graph.precision,
            "operators": self.operators.values,
            "types": self.types.values,
            "constants": self.constants.values,
            "names": self.names.values,
            "inputs": inputs,
            "nodes": nodes,
            "others": others,
            "outputs": [self.places[name] for name in graph.outputs],
            "renamed": self.renamed,
        }

    def _type(self, name: str) -> int:
        tensor = self.graph.tensors[name]
        return self.types.place(tensor, [tensor.dtype, *tensor.shape])

    def _meet(self, name: str, derived: str, kind: dict[str, int]) -> None:
        if name != derived:
            self.renamed.append((len(self.places), name))
        self.places[name] = len(self.places)
        kind[name] = len(kind)

    def _node(self, node: Node) -> list[int]:
        attributes = dict(sorted(node.attributes.items()))
        operator = [node.op_type, node.domain, attributes]
        texts, numbers = _parts(node.name)
        row = [
            # The type of a number is part of the key: 1 and 1.0 are equal, and not the same attribute.
            self.operators.place(repr(operator), operator),
            self.names.place(texts, texts),
            *self.differences.of(texts, numbers),
            len(node.inputs),
        ]
        for position, name in enumerate(node.inputs):
            row += self._input(node.name, position, name)
        for position, name in enumerate(node.outputs):
            row.append(self._type(name) + 1 if name else 0)
            if name:
                self._meet(name, output_name(node.name, position), self.activations)
        return row

    def _input(self, node: str, position: int, name: str) -> list[int]:
        if not name:
            return [0]
        if name in self.activations:
            return [len(self.activations) - self.activations[name]]
        if name in self.statics:
            return [_KNOWN, self.statics[name]]
        if name in self.graph.constants:
            codes = [_CONSTANT, self._type(name), self._constant(name)]
        elif name in self.graph.weights:
            codes = [_WEIGHT, self._type(name)]
        else:
            raise ModelError(f"tensor '{name}' of {self.graph.name} is made by no node before the one that reads it")
        self._meet(name, static_name(node, position), self.statics)
        return codes

    def _constant(self, name: str) -> int:
        value = np.asarray(self.graph.constants[name])
        if value.dtype.char not in _KEPT:
            raise ModelError(f"constant '{name}' of {self.graph.name} holds {value.dtype}; only numbers can be kept")
        values: list[Any] | str = value.ravel().tolist()
        if value.size > _MOST_LISTED:
            content = value.astype(value.dtype.newbyteorder("<"), order="C").tobytes()
            values = base64.b64encode(zlib.compress(content, 9)).decode()
        row = [str(value.dtype), list(value.shape), values]
        return self.constants.place(repr(row), row)


def _parts(name: str) -> tuple[tuple[str, ...], list[int]]:
    """The texts between the numbers of a name, and the numbers."""
    parts = _NUMBER.split(name)
    return tuple(parts[::2]), [int(number) for number in parts[1::2]]


class _Reading:
    def __init__(self, document: Mapping[str, Any], name: str) -> None:
        self.document = document
        self.name = name
        self.types = [Tensor(tuple(_counts(sizes)), _dtype(dtype)) for dtype, *sizes in document["types"]]
        for tensor in self.types:
            check_tensor("", tensor)
        self.operators = [_operator(*row) for row in document["operators"]]
        self.constants = [_array(*row) for row in document["constants"]]
        names = [tuple(map(_text, texts)) for texts in document["names"]]
        self.names = [(texts, _beginnings(texts)) for texts in names]
        self.renamed = {_index(place): _text(name) for place, name in document["renamed"]}
        self.differences = _Differences()
        self.tensors: dict[str, Tensor] = {}
        self.met: list[str] = []
        self.activations: list[str] = []
        self.statics: list[str] = []
        self.values: dict[str, np.ndarray] = {}

    def graph(self) -> Graph:
        document = self.document
        for name, place in document["inputs"]:
            self._meet(_text(name), self.types[_index(place)], self.activations)
        inputs = tuple(self.activations)
        nodes = tuple(self._node(row) for row in document["nodes"])
        codes = iter(document["others"])
        for position, code in enumerate(codes):
            self._input("", position, code, codes)
        if len({node.name for node in nodes}) < len(nodes):
            raise ModelError("two nodes have one name")
        return Graph(
            self.name,
            nodes,
            inputs,
            tuple(self.met[_index(place)] for place in document["outputs"]),
            self.tensors,
            frozenset(self.statics).difference(self.values),
            self.values,
            _text(document["precision"]),
        )

    def _meet(self, derived: str, tensor: Tensor, kind: list[str]) -> str:
        name = self.renamed.get(len(self.met), derived) if self.renamed else derived
        if name in self.tensors:
            raise ModelError(f"tensor '{name}' is made twice")
        self.tensors[name] = tensor
        self.met.append(name)
        kind.append(name)
        return name

    def _node(self, row: list[int]) -> Node:
        if row[0] < 0 or row[1] < 0:
            raise ModelError(f"found {min(row[:2])} where a place in a table belongs")
        op_type, domain, attributes = self.operators[row[0]]
        texts, before = self.names[row[1]]
        after = len(texts) + 1
        name = texts[0]
        if after > 2:
            for number, text in zip(self.differences.undone(before, row[2:after]), texts[1:], strict=True):
                name += f"{number}{text}"
        codes = iter(row[after + 1 :])
        made_so_far, known = self.activations, len(self.activations)
        inputs = []
        for position in range(row[after]):
            code = next(codes)
            inputs.append(made_so_far[-code] if 0 < code <= known else self._input(name, position, code, codes))
        outputs = []
        for position, code in enumerate(codes):
            made = self._meet(output_name(name, position), self.types[_index(code - 1)], self.activations) if code else ""
            outputs.append(made)
        return Node(op_type, name, tuple(inputs), tuple(outputs), attributes, domain)

    def _input(self, node: str, position: int, code: int, codes: Iterator[int]) -> str:
        if code > 0:
            if code > len(self.activations):
                raise ModelError(f"an input is the {written(code)}th last of {len(self.activations)} activations")
            return self.activations[-code]
        if code == 0:
            return ""
        if code == _KNOWN:
            return self.statics[_index(next(codes, -1))]
        if code not in (_WEIGHT, _CONSTANT):
            raise ModelError(f"an input has the code {written(code)}")
        tensor = self.types[_index(next(codes, -1))]
        value = self.constants[_index(next(codes, -1))] if code == _CONSTANT else None
        name = self._meet(static_name(node, position), tensor, self.statics)
        if value is not None:
            self.values[name] = value
        return name


def _operator(op_type: str, domain: str, attributes: Mapping[str, Any]) -> tuple[str, str, dict[str, AttributeValue]]:
    read: dict[str, AttributeValue] = {}
    for key, value in attributes.items():
        each = value if isinstance(value, list) else [value]
        kinds = {type(one) for one in each}
        if len(kinds) > 1 or not kinds <= {int, float, str}:
            raise ModelError(f"attribute '{key}' of {op_type} is neither a number nor a text nor a list of one of them")
        read[key] = tuple(value) if isinstance(value, list) else value
    return _text(op_type), _text(domain), read


def _array(dtype: str, shape: list[int], values: list[Any] | str) -> np.ndarray:
    kind = np.dtype(_text(dtype))
    if kind.char not in _KEPT:
        raise ModelError(f"a constant holds {kind}")
    sizes = _counts(shape)
    if isinstance(values, list):
        return np.array(values, dtype=kind).reshape(sizes)
    size_bytes = prod(sizes) * kind.itemsize
    if size_bytes > _MOST_CONSTANT_BYTES:
        raise ModelError(f"a constant would take {written(size_bytes)} bytes; at most {_MOST_CONSTANT_BYTES:,} are read")
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(values), size_bytes + 1)
    except zlib.error as problem:
        raise ModelError(f"a constant cannot be unpacked: {problem}") from problem
    return np.frombuffer(content, dtype=kind.newbyteorder("<")).astype(kind).reshape(sizes)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ModelError(f"found a {type(value).__name__} where a text belongs")
    return value


def _dtype(value: Any) -> str:
    if value not in DTYPE_BYTES:
        raise ModelError(f"'{value}' is no element type")
    return str(value)


def _index(value: Any) -> int:
    """A place in a table; a negative one would count from its end."""
    if type(value) is not int or value < 0:
        raise ModelError(f"found {value!r} where a place in a table belongs")
    return value


def _counts(values: list[Any]) -> list[int]:
    return [_index(value) for value in values]
