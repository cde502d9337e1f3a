"""Int8 weights and scales as ncnn's own tool (ncnn2int8) stores them.

Scales are multipliers: an int8 value is the real one times its scale. Those of weights follow from the weights; those of
activations from ranges that are plausible for the synthetic weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latcast.graph.ir import Graph
from latcast.graph.writers.ncnn.layers import Layer, plain, tagged_int8
from latcast.graph.writers.ranges import activation_ranges

_INT8_TERM = 8
_PAD_VALUE = 18
_REQUANTISING = 100
"""Added to a convolution's int8 term where it hands its result on as int8."""

_TERMS = {"Convolution": 2, "ConvolutionDepthWise": 1, "InnerProduct": 2}
"""The form in which each layer reads its scales."""


def activation_scales(graph: Graph, weights: Mapping[str, np.ndarray], *, seed: int) -> Mapping[str, float]:
    """The symmetric scale of every activation, by the tensor's name."""
    ranges = activation_ranges(graph, weights, seed=seed)
    return {name: 127.0 / max(-low, high) for name, (low, high) in ranges.items()}


def quantised(weights: np.ndarray, parts: int) -> tuple[bytes, np.ndarray]:
    """Weights as int8, with one scale for each of equal parts along the first axis.

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
    """Turns a convolution or inner product into its int8 form; its weights are the first of its data.

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
