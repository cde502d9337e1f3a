"""ncnn's two files: layers as lines of text (param), their weights one after another (bin).

The format is described in ncnn's wiki ("param and model file structure"): a magic number, the counts of layers and blobs,
then one line a layer. Every blob has at most one reader, so a blob with several is copied by a Split layer (by reference).

Int8 weights and scales are as ncnn's own tool (ncnn2int8) stores them. Scales are multipliers: an int8 value is the real one
times its scale. Those of weights follow from the weights; those of activations from ranges that are plausible for the
synthetic weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from latcast.graph.ir import Graph
from latcast.graph.ncnn_codes import ARRAY_KEY, MAGIC
from latcast.graph.writers.ranges import activation_ranges

INT8_TAG = 0x000D4B38
"""Written before weights that are stored as int8; zero stands before float32."""

ParamValue = int | float | tuple[int, ...] | tuple[float, ...]


@dataclass
class Layer:
    """A line of the param file and its data in the bin file.

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
    """Return a number as text: floats with the nine digits that a float32 needs, and a point, by which ncnn knows them."""
    return f"{float(value):.8e}" if isinstance(value, (float, np.floating)) else str(int(value))


def format_param(number: int, value: ParamValue) -> str:
    """Return ``0=64`` for a number, ``-23303=2,1,2`` for an array (its length comes first)."""
    if isinstance(value, tuple):
        return f"{ARRAY_KEY - number}={','.join([str(len(value)), *(format_number(item) for item in value)])}"
    return f"{number}={format_number(value)}"


def plain(values: np.ndarray | Sequence[float]) -> bytes:
    """Return float32 without a tag: biases, scales, normalisation statistics."""
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def tagged(values: np.ndarray) -> bytes:
    """Return float32 weights behind the tag that says so."""
    return np.uint32(0).astype("<u4").tobytes() + plain(values)


def tagged_int8(values: np.ndarray) -> bytes:
    """Return int8 weights behind their tag, padded to a multiple of four bytes."""
    data = np.ascontiguousarray(values, dtype=np.int8).tobytes()
    return np.uint32(INT8_TAG).astype("<u4").tobytes() + data + bytes(-len(data) % 4)


def dims_params(shape: Sequence[int]) -> dict[int, ParamValue]:
    """Return a blob's sizes, outermost first, as Input, MemoryData and Reshape number them (w 0, h 1, d 11, c 2)."""
    numbers = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}[len(shape)]
    return dict(zip(reversed(numbers), reversed([int(size) for size in shape]), strict=True))


def with_splits(layers: Iterable[Layer], outputs: Sequence[str]) -> tuple[list[Layer], list[str]]:
    """Insert Split layers so that every blob has one reader, and names the network's outputs ``out0``, ``out1``...

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
            # A network's output that is an input, too, needs another name.
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
    """Return the text of the param file."""
    blobs = sum(len(layer.tops) for layer in layers)
    return "\n".join([str(MAGIC), f"{len(layers)} {blobs}", *(layer.line() for layer in layers)]) + "\n"


def to_bin(layers: Iterable[Layer]) -> bytes:
    """Return the bytes of the bin file."""
    return b"".join(data for layer in layers for data in layer.data)


def nodes_by_layer(layers: Iterable[Layer]) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the graph's nodes that each layer computes, by the layer's name."""
    return {layer.name: layer.nodes for layer in layers}


_INT8_TERM = 8
_PAD_VALUE = 18
_REQUANTISING = 100
"""Added to a convolution's int8 term where it hands its result on as int8."""

_TERMS = {"Convolution": 2, "ConvolutionDepthWise": 1, "InnerProduct": 2}
"""The form in which each layer reads its scales."""


def activation_scales(graph: Graph, weights: Mapping[str, np.ndarray], *, seed: int) -> Mapping[str, float]:
    """Return the symmetric scale of every activation, by the tensor's name."""
    ranges = activation_ranges(graph, weights, seed=seed)
    return {name: 127.0 / max(-low, high) for name, (low, high) in ranges.items()}


def quantised(weights: np.ndarray, parts: int) -> tuple[bytes, np.ndarray]:
    """Return weights as int8, with one scale for each of equal parts along the first axis.

    Args:
        weights: Any shape; the first axis is divisible by ``parts``.
        parts: Number of output channels, or of groups; 1 for one scale of all.

    Returns:
        The tagged bytes and the scales, of shape (parts,).
    """
    flat = weights.reshape(parts, -1)
    scales = 127.0 / np.maximum(np.abs(flat).max(axis=1), 1e-9)
    return tagged_int8(np.clip(np.rint(flat * scales[:, None]), -127, 127)), scales


def quantise(layer: Layer, weights: np.ndarray, parts: int, input_scale: float) -> None:
    """Turn a convolution or inner product into its int8 form; its weights are the first of its data.

    Args:
        layer: Changed in place.
        weights: What the layer's first data were written from, output channels first.
        parts: Number of weight scales that the layer reads.
        input_scale: Of the activation it reads.
    """
    data, scales = quantised(weights, parts)
    layer.params[_INT8_TERM] = _TERMS[layer.kind]
    if _PAD_VALUE in layer.params:  # what is padded is the quantised input
        value = layer.params[_PAD_VALUE]
        assert isinstance(value, float)
        layer.params[_PAD_VALUE] = float(np.clip(np.rint(value * input_scale), -127, 127))
    layer.data = [data, *layer.data[1:], plain(scales), plain([input_scale])]
    layer.input_scale = input_scale


def hand_on_int8(layers: Sequence[Layer], outputs: Sequence[str]) -> None:
    """Lets a convolution whose readers are all int8 convolutions give them int8 (ncnn2int8's fuse_requantize).

    Args:
        layers: With Split layers in place; changed in place.
        outputs: Blobs that leave the network.
    """
    reader = {blob: layer for layer in layers for blob in layer.bottoms}

    def readers(blob: str) -> list[Layer | None]:
        layer = None if blob in outputs else reader.get(blob)
        return [layer] if layer is None or layer.kind != "Split" else [end for top in layer.tops for end in readers(top)]

    for layer in layers:
        if not _computes_in_int8(layer):
            continue
        scales = [end.input_scale if end is not None and _computes_in_int8(end) else None for end in readers(layer.tops[0])]
        if scales and scales[0] is not None and None not in scales:
            layer.params[_INT8_TERM] = _TERMS[layer.kind] + _REQUANTISING
            layer.data.append(plain([scales[0]]))


def _computes_in_int8(layer: Layer) -> bool:
    return layer.kind in ("Convolution", "ConvolutionDepthWise") and _INT8_TERM in layer.params
