"""ncnn's two files: layers as lines of text (param), their weights one after another (bin).

The format is described in ncnn's wiki ("param and model file structure"): a magic number, the counts of layers and blobs,
then one line a layer. Every blob has at most one reader, so a blob with several is copied by a Split layer (by reference).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

MAGIC = 7767517
INT8_TAG = 0x000D4B38
"""Written before weights that are stored as int8; zero stands before float32."""

_ARRAY_KEY = -23300
"""The key of an array parameter is this minus the parameter's number."""

ParamValue = int | float | tuple[int, ...] | tuple[float, ...]


@dataclass
class Layer:
    """One line of the param file and what the bin file holds for it.

    Attributes:
        kind: ncnn's layer type ("Convolution").
        bottoms, tops: Names of the blobs it reads and writes.
        params: Parameter number to value, as the layer's documentation numbers them.
        data: The layer's weights in the order in which it reads them.
        nodes: Names of the graph's nodes that it computes, in the graph's order.
        input_scale: Scale of the activation it reads, where it computes in int8.
    """

    kind: str
    name: str
    bottoms: list[str]
    tops: list[str]
    params: dict[int, ParamValue] = field(default_factory=dict)
    data: list[bytes] = field(default_factory=list)
    nodes: tuple[str, ...] = ()
    input_scale: float | None = None

    def line(self) -> str:
        fields = [f"{self.kind:<24} {self.name:<24} {len(self.bottoms)} {len(self.tops)}", *self.bottoms, *self.tops]
        return " ".join([*fields, *(format_param(number, value) for number, value in self.params.items())])


def format_number(value: int | float) -> str:
    """Integers plain; floats with the nine digits that a float32 needs (ncnn tells the two apart by the point)."""
    return f"{float(value):.8e}" if isinstance(value, (float, np.floating)) else str(int(value))


def format_param(number: int, value: ParamValue) -> str:
    """``0=64`` for a number, ``-23303=2,1,2`` for an array (its length comes first)."""
    if isinstance(value, tuple):
        return f"{_ARRAY_KEY - number}={','.join([str(len(value)), *(format_number(item) for item in value)])}"
    return f"{number}={format_number(value)}"


def plain(values: np.ndarray | Sequence[float]) -> bytes:
    """Float32 without a tag: biases, scales, normalisation statistics."""
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def tagged(values: np.ndarray) -> bytes:
    """Float32 weights behind the tag that says so."""
    return np.uint32(0).astype("<u4").tobytes() + plain(values)


def tagged_int8(values: np.ndarray) -> bytes:
    """Int8 weights behind their tag, padded to a multiple of four bytes."""
    data = np.ascontiguousarray(values, dtype=np.int8).tobytes()
    return np.uint32(INT8_TAG).astype("<u4").tobytes() + data + bytes(-len(data) % 4)


def dims_params(shape: Sequence[int]) -> dict[int, ParamValue]:
    """A blob's sizes, outermost first, as Input, MemoryData and Reshape number them (w 0, h 1, d 11, c 2)."""
    numbers = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}[len(shape)]
    return dict(zip(reversed(numbers), reversed([int(size) for size in shape]), strict=True))


def with_splits(layers: Iterable[Layer], outputs: Sequence[str]) -> tuple[list[Layer], list[str]]:
    """Inserts Split layers so that every blob has one reader, and names the network's outputs ``out0``, ``out1``...

    Args:
        layers: In execution order.
        outputs: Blobs that leave the network, which count as readers.

    Returns:
        The layers (changed in place) and the new names of the outputs.
    """
    layers = list(layers)
    readers: dict[str, int] = {}
    for layer in layers:
        for blob in layer.bottoms:
            readers[blob] = readers.get(blob, 0) + 1
    for blob in outputs:
        readers[blob] = readers.get(blob, 0) + 1

    inputs = {top for layer in layers if layer.kind == "Input" for top in layer.tops}
    left: dict[str, list[str]] = {}
    result: list[Layer] = []
    for layer in layers:
        layer.bottoms = [left[blob].pop(0) if blob in left else blob for blob in layer.bottoms]
        result.append(layer)
        for top in layer.tops:
            # An output gets a name of its own, which an input cannot give up.
            if readers.get(top, 0) > 1 or (top in inputs and top in outputs):
                left[top] = [f"{top}_splitncnn_{index}" for index in range(readers[top])]
                result.append(Layer("Split", f"splitncnn_{len(left) - 1}", [top], list(left[top])))

    renamed = {}
    names = []
    for index, blob in enumerate(outputs):
        renamed[left[blob].pop(0) if blob in left else blob] = f"out{index}"
        names.append(f"out{index}")
    for layer in result:
        layer.tops = [renamed.get(top, top) for top in layer.tops]
    return result, names


def to_param(layers: Sequence[Layer]) -> str:
    """The text of the param file."""
    blobs = sum(len(layer.tops) for layer in layers)
    return "\n".join([str(MAGIC), f"{len(layers)} {blobs}", *(layer.line() for layer in layers)]) + "\n"


def to_bin(layers: Iterable[Layer]) -> bytes:
    """The bytes of the bin file."""
    return b"".join(data for layer in layers for data in layer.data)


def nodes_by_layer(layers: Iterable[Layer]) -> Mapping[str, tuple[str, ...]]:
    """Layer name to the names of the graph's nodes that it computes."""
    return {layer.name: layer.nodes for layer in layers}
