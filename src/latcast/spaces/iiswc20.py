"""The 118 networks of Ganesan et al. (IISWC 2020), rebuilt from their published layers.

A network was published as a list of layers, 13 numbers each (§III-B): a one-hot operator, the side of its input and output map,
its input and output channels, window, stride, padding, and multiply-accumulates. How layers are connected follows from the sizes:

- A layer reads what the layer before it returns, where the sizes agree. Otherwise it reads the concatenation of all results that
  nothing has read, where these have its channels together, or else the latest result of its size, as the second branch of a
  fire module does.
- The layer of a pooling behind such branches names the channels of one; it reads them all.
- An addition adds the input of the inverted residual that ends before it: the latest result of its size in front of the block's
  depthwise convolution and of the 1x1 convolution that expands.

A network is built where its layers compute what was published of the whole, within 2 %. Activations, whose kind is unknown, are
ReLU here. Convolutions have a bias, as batch normalisation is folded in the measured int8 networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.records import Reference

NAME = "iiswc20"

OPERATORS = ("conv", "depthwise_conv", "add", "activation", "pool")
"""Operators of the one-hot part of a layer, in its order."""

WIDTH = 13
"""Numbers in a layer as published."""

MOST_OFF = 0.02
"""Relative difference of the multiply-accumulates of the layers from those published, up to which a network is built."""

TABLE = Path(__file__).with_name("iiswc20.npz")
"""What was published of the networks; source and licence are in ``iiswc20.NOTICE.txt``."""

_OPERATOR, _IN_SIDE, _OUT_SIDE, _IN_CHANNELS, _OUT_CHANNELS, _WINDOW, _STRIDE, _PADDING = range(8)


@cache
def published() -> tuple[tuple[np.ndarray, float], ...]:
    """Short layers, (layers, 8), and millions of multiply-accumulates of each network."""
    with np.load(TABLE, allow_pickle=False) as table:
        ends = np.cumsum(table["lengths"], dtype=np.int64)[:-1]
        return tuple(zip(np.split(table["layers"].astype(np.int64), ends), table["mega_macs"].tolist(), strict=True))


def short_layers(layers: np.ndarray) -> np.ndarray:
    """Return layers as published, (layers, 13), as (layers, 8): operator's number, sides, channels, window, stride, padding."""
    codes = layers[:, : len(OPERATORS)].argmax(axis=1)
    return np.column_stack([codes, layers[:, len(OPERATORS) : WIDTH - 1]]).astype(np.int64)


def full_layers(short: np.ndarray) -> np.ndarray:
    """(layers, 8) to (layers, 13) as published."""
    codes = short[:, _OPERATOR]
    one_hot = np.eye(len(OPERATORS))[codes]
    return np.column_stack([one_hot, short[:, _IN_SIDE:], _macs(short)])


def _macs(short: np.ndarray) -> np.ndarray:
    """(layers,) multiply-accumulates of convolutions, and elements of what other operators return."""
    codes, taps = short[:, _OPERATOR], short[:, _WINDOW] ** 2
    each = np.select([codes == 0, codes == 1], [taps * short[:, _IN_CHANNELS], taps], 1)
    found: np.ndarray = short[:, _OUT_SIDE] ** 2 * short[:, _OUT_CHANNELS] * each
    return found


def reference(network: int, layers: np.ndarray | None, mega_macs: float) -> Reference:
    """Return the reference of a network as a dataset states it, by its layers, (layers, 13), or None where they are not at hand.

    One of the published networks is referred to by its number; another one carries its short layers, and one whose layers are not
    known has a name alone.
    """
    name = f"{NAME}-{network}"
    short = None if layers is None else short_layers(layers)
    if network < len(published()):
        known, known_mega_macs = published()[network]
        if np.isclose(mega_macs, known_mega_macs, rtol=1e-6) and (short is None or np.array_equal(short, known)):
            return Reference(NAME, {"network": network}, name)
    if short is None:
        return Reference(NAME, {"name": name}, name)
    return Reference(NAME, {"network": network, "layers": short.tolist()}, name)


@cache
def buildable() -> Mapping[str, Reference]:
    """Return the published networks that can be built, by their names."""
    found = (Reference(NAME, {"network": index}, f"{NAME}-{index}") for index in range(len(published())))
    return {each.name: each for each in found if not why_not(each.parameters)}


def layers_of(parameters: Mapping[str, Any]) -> np.ndarray:
    """Return the layers, (layers, 13), of a reference's network, or raise a ModelError where they are not known."""
    return full_layers(_known(**parameters)[0])


def _known(network: int | None = None, layers: Sequence[Sequence[int]] | None = None, **others: Any) -> tuple[np.ndarray, float]:
    """Short layers and published millions of multiply-accumulates, NaN for a network that was not published."""
    there = isinstance(network, int) and 0 <= network < len(published())
    if layers is None:
        if not there or network is None:
            raise ModelError(
                f"its layers are not known; found {network if network is not None else others.get('name', 'nothing')}, "
                f"expected the number of a published network, 0 to {len(published()) - 1}"
            )
        return published()[network]
    try:
        short = np.asarray(layers)
    except ValueError as problem:
        raise ModelError(f"its layers are not rows of the same length; expected {_PADDING + 1} whole numbers each") from problem
    if short.ndim != 2 or short.shape[1] != _PADDING + 1 or not np.issubdtype(short.dtype, np.integer):
        raise ModelError(f"layers of shape {short.shape}; expected rows of {_PADDING + 1} whole numbers")
    if not len(short) or short.min() < 0 or short[:, _OPERATOR].max() >= len(OPERATORS):
        raise ModelError(
            f"no layer, a negative number or an operator above {len(OPERATORS) - 1}; expected one of {OPERATORS} each"
        )
    windowed = ~np.isin(short[:, _OPERATOR], (OPERATORS.index("add"), OPERATORS.index("activation")))
    if not short[windowed][:, [_WINDOW, _STRIDE]].all():
        raise ModelError("a convolution or pooling has a window or stride of 0; expected 1 or more")
    if there and network is not None and np.array_equal(short, published()[network][0]):
        return published()[network]
    return short.astype(np.int64), float("nan")


def why_not(parameters: Mapping[str, Any]) -> str:
    """Return why a network cannot be built, as the end of a sentence; empty where it can."""
    try:
        short, mega_macs = _known(**parameters)
    except ModelError as problem:
        return str(problem)
    computed = float(_macs(short)[short[:, _OPERATOR] <= 1].sum()) / 1e6
    if abs(computed - mega_macs) > MOST_OFF * mega_macs:
        return (
            f"its published layers compute {computed:.1f} million multiply-accumulates, "
            f"where {mega_macs:.1f} million were published of it"
        )
    return ""


class LayerLists:
    """The networks as a space: see the module."""

    def build(self, **parameters: Any) -> Graph:
        """Build a network from ``network``, the number of a published one, or ``layers``, in the form of :func:`short_layers`.

        Raises:
            ModelError: Its layers are not known, do not compute what was published, or do not fit each other.
        """
        reason = why_not(parameters)
        if reason:
            name = parameters.get("name", f"{NAME}-{parameters.get('network', '')}".rstrip("-"))
            raise ModelError(f"'{name}' cannot be built, only its latencies are known: {reason}")
        return graph_of_layers(_known(**parameters)[0])

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Return different published networks; see :class:`latcast.spaces.catalogue.Space`."""
        whole = list(buildable().values())
        if count > len(whole):
            raise ModelError(f"found {len(whole)} networks in {NAME}; expected to draw {count}")
        return Random(seed).sample(whole, count)


SPACE = LayerLists()


class _Wiring:
    """A graph that grows by layers, from an image of so many channels and pixels a side."""

    def __init__(self, side: int, channels: int) -> None:
        self.builder = GraphBuilder(NAME)
        self.results: list[str] = [self.builder.input((1, channels, side, side))]
        self._read: set[str] = set()

    def source(self, side: int, channels: int, *, pooling: bool) -> str:
        """Return the tensor that a layer with this input reads."""
        ends = [name for name in self.results if name not in self._read and self.builder.shape(name)[2] == side]
        branches = len(ends) > 1 and (pooling or sum(self.builder.channels(name) for name in ends) == channels)
        if branches:
            self._read.update(ends)
            return self.builder.concat(ends)
        for name in reversed(self.results):
            if self.builder.shape(name)[1:] == (channels, side, side):
                self._read.add(name)
                return name
        raise ModelError(
            f"no layer returns {channels} channels of {side} by {side} pixels; expected one for the next layer to read"
        )


def graph_of_layers(short: np.ndarray) -> Graph:
    """Return the graph of a list of layers, (layers, 8), at least one.

    Raises:
        ModelError: A layer reads what no layer returns, or its sizes do not fit its window.
    """
    layers = [[int(value) for value in row] for row in short]
    wiring = _Wiring(layers[0][_IN_SIDE], layers[0][_IN_CHANNELS])
    b = wiring.builder
    for index, row in enumerate(layers):
        pooling = row[_OPERATOR] == OPERATORS.index("pool")
        x = wiring.source(row[_IN_SIDE], row[_IN_CHANNELS], pooling=pooling)
        if OPERATORS[row[_OPERATOR]] == "add":
            y = b.add(_block_input(wiring, layers, index), x)
        else:
            y = _layer(b, x, row)
        expected = (b.channels(x) if pooling else row[_OUT_CHANNELS], row[_OUT_SIDE], row[_OUT_SIDE])
        if b.shape(y)[1:] != expected:
            raise ModelError(f"layer {index} returns {b.shape(y)[1:]}; expected {expected}, as its sizes say")
        wiring.results.append(y)
    last = wiring.results[-1]
    return b.finish(b.flatten(last) if b.shape(last)[2:] == (1, 1) else last)


def _layer(b: GraphBuilder, x: str, row: Sequence[int]) -> str:
    _, in_side, out_side, _, outputs, window, stride, padding = row
    operator = OPERATORS[row[_OPERATOR]]
    if operator == "activation":
        return b.relu(x)
    if operator == "pool":
        if out_side == 1:
            return b.global_average_pool(x)
        return b.max_pool(x, window, stride, padding, ceil=(in_side + 2 * padding - window) // stride + 1 < out_side)
    if operator == "conv":
        return b.conv(x, outputs, window, stride=stride, padding=padding, bias=True)
    return b.conv(x, outputs, window, stride=stride, padding=padding, groups=b.channels(x), bias=True)


def _block_input(wiring: _Wiring, layers: Sequence[Sequence[int]], index: int) -> str:
    """Return the tensor that the addition of this number adds to the result of the layer before it."""
    codes = [OPERATORS[row[_OPERATOR]] for row in layers[:index]]
    start = next((place for place in range(index - 1, -1, -1) if codes[place] == "depthwise_conv"), 0)
    if start >= 2 and codes[start - 2 : start] == ["conv", "activation"] and layers[start - 2][_WINDOW] == 1:
        start -= 2
    side, channels = layers[index][_OUT_SIDE], layers[index][_OUT_CHANNELS]
    # The results begin with the image, so that those of layers before the block are the first ``start`` + 1.
    for name in reversed(wiring.results[: start + 1]):
        if wiring.builder.shape(name)[1:] == (channels, side, side):
            return name
    raise ModelError(f"layer {index} adds what no earlier block returns: {channels} channels of {side} by {side} pixels")
