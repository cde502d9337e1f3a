"""Random networks on rows of channels, from which a predictor learns what plain encoder blocks lack.

A network cuts an image into patches, then takes steps on their rows (1, T, C): one of :data:`STEPS` and a linear layer in turn.
The steps are what published transformers and their relatives do beside self-attention and its two linear layers: other
normalisations, gates, activations that follow no product, and other kinds of attention, as exporters write them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.spaces.families.variants import DrawnSpace
from latcast.spaces.synthetic.mixed_blocks import HEAD_SIZES, log_uniform, weighted

NAME = "random_rows"
SIDES = (4, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 56)
"""Patches along a side of the image."""
WIDTHS = (32, 1024)
MOST_ELEMENTS = 400_000
"""Elements of the rows together."""
MOST_SCORES = 4_000_000
"""Scores of an attention."""
MOST_MACS = 500e6
LENGTHS = (4, 12)
GATES = ("silu", "gelu", "tanh_gelu", "sigmoid", "hard_swish")
ALONE = ("gelu", "gelu", "gelu", "tanh_gelu", "silu", "hard_swish", "sigmoid", "clip", "tanh", "relu")


class _Rows(GraphBuilder):
    """A builder of rows, all of one width and in heads of one size."""

    def __init__(self, name: str, head_size: int) -> None:
        super().__init__(name)
        self.head_size = head_size

    def extent(self, x: str) -> tuple[int, int]:
        """Rows and channels."""
        return self.shape(x)[1], self.shape(x)[2]

    def number(self, value: float) -> str:
        return self.constant(value, dtype="float32")

    def unary(self, operator: str, x: str) -> str:
        return self.op(operator, [x])[0]

    def by_name(self, x: str, kind: str) -> str:
        """Return an activation; beside the usual ones tanh, clip, and the approximation of GELU by tanh."""
        if kind == "tanh":
            return self.unary("Tanh", x)
        if kind == "clip":
            return self.clip(x, -4.0, 4.0)
        if kind != "tanh_gelu":
            return self.activation(x, kind)
        inner = self.mul(self.op("Pow", [x, self.number(3.0)])[0], self.number(0.044715))
        inner = self.unary("Tanh", self.mul(self.add(x, inner), self.number(0.7978846)))
        return self.mul(self.mul(x, self.number(0.5)), self.add(inner, self.number(1.0)))

    def unit_length(self, x: str) -> str:
        """Divided by its length along the last axis, as PyTorch normalises."""
        length = self.clip(self.op("ReduceL2", [x], {"axes": (-1,), "keepdims": 1})[0], 1e-6, 1e9)
        return self.div(x, self.op("Expand", [length, self.constant(list(self.shape(x)), dtype="int64")])[0])

    def heads(self, x: str) -> str:
        """Rows (1, T, C) as (1, heads, T, head size)."""
        rows, channels = self.extent(x)
        split = self.reshape(x, (1, rows, channels // self.head_size, self.head_size))
        return self.transpose(split, (0, 2, 1, 3))

    def joined(self, x: str) -> str:
        """Heads (1, heads, T, size) as rows."""
        _, heads, rows, size = self.shape(x)
        return self.reshape(self.transpose(x, (0, 2, 1, 3)), (1, rows, heads * size))

    def keys(self, x: str) -> str:
        """Exchange the last two axes."""
        return self.transpose(x, (0, 1, 3, 2))

    def parted(self, x: str, rng: Random, parts: int) -> list[str]:
        """Return equal parts of the channels, by a split or by slices."""
        width = self.shape(x)[-1] // parts
        if rng.random() < 0.5:
            return list(self.split(x, [width] * parts, axis=len(self.shape(x)) - 1))
        return [self.slice(x, [place * width], [(place + 1) * width], [-1]) for place in range(parts)]


def _scaled_norm(b: _Rows, x: str, rng: Random) -> str:
    """Divided by the root of the mean square (RMSNorm)."""
    square = b.op("Pow", [x, b.number(2.0)])[0] if rng.random() < 0.5 else b.mul(x, x)
    root = b.unary("Sqrt", b.add(b.reduce_mean(square, (-1,)), b.number(1e-6)))
    scaled = b.div(x, root) if rng.random() < 0.5 else b.mul(x, b.unary("Reciprocal", root))
    return b.mul(scaled, b.weight((b.extent(x)[1],)))


def _standardised(b: _Rows, x: str, rng: Random) -> str:
    """Subtract the mean and divide by the deviation, operator by operator, over the channels or the rows."""
    axis = rng.choice((-1, -1, 1))
    centred = b.sub(x, b.reduce_mean(x, (axis,)))
    variance = b.reduce_mean(b.mul(centred, centred), (axis,))
    return b.div(centred, b.unary("Sqrt", b.add(variance, b.number(1e-5))))


def _whole_norm(b: _Rows, x: str, rng: Random) -> str:
    """Add one normalisation over rows and channels (a group normalisation of one group)."""
    rows, channels = b.extent(x)
    flat = b.op("InstanceNormalization", [b.reshape(x, (1, 1, rows * channels)), b.weight((1,)), b.weight((1,))])[0]
    return b.add(b.mul(b.reshape(flat, (1, rows, channels)), b.weight((channels,))), b.weight((channels,)))


def _response_norm(b: _Rows, x: str, rng: Random) -> str:
    """Channels by their lengths over the rows (ConvNeXt V2)."""
    length = b.op("ReduceL2", [x], {"axes": (1,), "keepdims": 1})[0]
    response = b.div(length, b.add(b.reduce_mean(length, (-1,)), b.number(1e-6)))
    channels = b.extent(x)[1]
    return b.add(x, b.add(b.mul(b.mul(x, response), b.weight((channels,))), b.weight((channels,))))


def _gated(b: _Rows, x: str, rng: Random) -> str:
    """Add two linear layers with a gate between them (GLU and its kinds)."""
    channels = b.extent(x)[1]
    inner = max(round(channels * rng.choice((1, 1.5, 2, 8 / 3)) / 8) * 8, 8)
    gate, value = b.parted(b.linear(x, 2 * inner), rng, 2)
    return b.linear(b.mul(b.by_name(gate, rng.choice(GATES)), value), channels)


def _activated(b: _Rows, x: str, rng: Random) -> str:
    """Add an activation of what others read too, or of a normalisation's result, sometimes with a factor behind it."""
    y = b.by_name(b.layer_norm(x) if rng.random() < 0.3 else x, rng.choice(ALONE))
    return b.add(x, b.mul(y, b.number(1.7)) if rng.random() < 0.3 else y)


def _as_map(b: _Rows, x: str, rng: Random) -> str:
    """Add an activation on the rows as an image, and a depthwise convolution (mobile and gated convolutional blocks)."""
    rows, channels = b.extent(x)
    side = round(rows**0.5)
    y = b.reshape(b.transpose(b.layer_norm(x), (0, 2, 1)), (1, channels, side, side))
    y = b.depthwise_conv(b.by_name(y, rng.choice(ALONE)), rng.choice((3, 5, 7)))
    return b.transpose(b.reshape(y, (1, channels, rows)), (0, 2, 1))


def _added(b: _Rows, x: str, rng: Random) -> str:
    """Add a few sums and products of rows, with numbers, one number a channel, or each other."""
    y = x
    for _ in range(rng.randint(2, 4)):
        other = rng.choice((b.number(0.7), b.weight((b.extent(x)[1],)), x))
        y = rng.choice((b.add, b.mul, b.sub))(y, other)
    return y


def _padded(b: _Rows, x: str, rng: Random) -> str:
    """Rows added before, behind, or on both sides, and taken away again."""
    rows, channels = b.extent(x)
    before, behind = rng.choice(((1, 0), (0, 1), (0, 3), (2, 2)))
    y = b.linear(b.pad(x, (0, before, 0, 0, behind, 0)), channels)
    return b.slice(y, [before], [before + rows], [1])


def _pooled(b: _Rows, x: str, rng: Random) -> str:
    """Add the largest, or the mean, of every few rows, and as many rows again."""
    rows, channels = b.extent(x)
    few = next(each for each in (4, 2, 7, 5, 1) if rows % each == 0)
    grouped = b.reshape(x, (1, rows // few, few, channels))
    mean = rng.random() < 0.5
    pooled = b.reduce_mean(grouped, (2,)) if mean else b.op("ReduceMax", [grouped], {"axes": (2,), "keepdims": 1})[0]
    return b.reshape(b.sub(grouped, pooled), (1, rows, channels))


def _joined(b: _Rows, x: str, rng: Random) -> str:
    """Few of the channels, or of the rows, through a separate layer, then joined with the others."""
    rows, channels = b.extent(x)
    axis, size = (2, channels) if rng.random() < 0.6 else (1, rows)
    few = max(size // rng.choice((2, 4, 8)), 1)
    first, second = b.slice(x, [0], [few], [axis]), b.slice(x, [few], [size], [axis])
    return b.concat([b.by_name(first, rng.choice(ALONE)), second], axis=axis)


def _self_attention(b: _Rows, x: str, rng: Random) -> str:
    """Add attention of normalised queries and keys, with turned positions, or with learned biases, as drawn."""
    rows, channels = b.extent(x)
    queries, keys, values = (b.heads(part) for part in b.parted(b.linear(x, 3 * channels), rng, 3))
    kind = rng.choice(("cosine", "turned", "biased", "rms"))
    if kind == "cosine":
        queries, keys = b.unit_length(queries), b.unit_length(keys)
    elif kind == "turned":
        queries, keys = _turned(b, queries, rng), _turned(b, keys, rng)
    elif kind == "rms":
        queries, keys = b.layer_norm(queries), b.layer_norm(keys)
    scores = b.matmul(queries, b.keys(keys))
    heads = channels // b.head_size
    scores = b.mul(scores, b.weight((heads, 1, 1)) if kind == "cosine" else b.number(b.head_size**-0.5))
    if kind == "biased":
        scores = b.add(scores, b.weight((1, heads, rows, rows)))
    return b.linear(b.joined(b.matmul(b.softmax(scores), values)), channels)


def _turned(b: _Rows, x: str, rng: Random) -> str:
    """Pairs of channels turned by angles of their positions (rotary embeddings): halves, or neighbours."""
    _, heads, rows, size = b.shape(x)
    sine, cosine = b.weight((1, 1, rows, size)), b.weight((1, 1, rows, size))
    if rng.random() < 0.5:
        first, second = b.slice(x, [0], [size // 2], [3]), b.slice(x, [size // 2], [size], [3])
        turned = b.concat([b.unary("Neg", second), first], axis=3)
    else:
        pairs = b.reshape(x, (heads, rows, size // 2, 2))
        first, second = b.slice(pairs, [0], [1], [3]), b.slice(pairs, [1], [2], [3])
        turned = b.reshape(b.concat([b.unary("Neg", second), first], axis=3), (1, heads, rows, size))
    return b.add(b.mul(x, cosine), b.mul(turned, sine))


def _channel_attention(b: _Rows, x: str, rng: Random) -> str:
    """Add attention between channels, over all rows (XCiT, EdgeNeXt, DaViT)."""
    channels = b.extent(x)[1]
    queries, keys, values = (b.keys(b.heads(part)) for part in b.parted(b.linear(x, 3 * channels), rng, 3))
    if rng.random() < 0.6:
        queries, keys = b.unit_length(queries), b.unit_length(keys)
    scores = b.mul(b.matmul(queries, b.keys(keys)), b.weight((channels // b.head_size, 1, 1)))
    return b.linear(b.joined(b.keys(b.matmul(b.softmax(scores), values))), channels)


def _linear_attention(b: _Rows, x: str, rng: Random) -> str:
    """Add attention without a softmax: keys by values first, divided by the sum of the products (EfficientViT)."""
    channels = b.extent(x)[1]
    queries, keys, values = (b.heads(part) for part in b.parted(b.linear(x, 3 * channels), rng, 3))
    queries, keys = b.relu(queries), b.relu(keys)
    values = b.pad(values, (0, 0, 0, 0, 0, 0, 0, 1))
    found = b.matmul(queries, b.matmul(b.keys(keys), values))
    size = b.head_size
    result, total = b.slice(found, [0], [size], [3]), b.slice(found, [size], [size + 1], [3])
    return b.linear(b.joined(b.div(result, b.add(total, b.number(1e-5)))), channels)


def _class_attention(b: _Rows, x: str, rng: Random) -> str:
    """Add attention of one row to all others (CaiT), or of half as many rows (LeViT, MViT)."""
    rows, channels = b.extent(x)
    few = rng.choice((1, 1, max(rows // 2, 1)))
    asking, others = b.slice(x, [0], [few], [1]), b.slice(x, [few], [rows], [1])
    queries = b.heads(b.linear(asking, channels))
    keys, values = (b.heads(part) for part in b.parted(b.linear(x, 2 * channels), rng, 2))
    scores = b.matmul(b.mul(queries, b.number(b.head_size**-0.5)), b.keys(keys))
    seen = b.linear(b.joined(b.matmul(b.softmax(scores), values)), channels)
    return b.concat([b.add(asking, seen), others], axis=1)


Step = Callable[[_Rows, str, Random], str]

STEPS: Mapping[str, tuple[Step, float]] = {
    "scaled_norm": (_scaled_norm, 1.0), "standardised": (_standardised, 0.7), "whole_norm": (_whole_norm, 1.0),
    "response_norm": (_response_norm, 1.0), "gated": (_gated, 1.5), "activated": (_activated, 2.5), "as_map": (_as_map, 1.0),
    "added": (_added, 1.0), "padded": (_padded, 1.0), "pooled": (_pooled, 0.7), "joined": (_joined, 1.0),
    "self_attention": (_self_attention, 2.0), "channel_attention": (_channel_attention, 1.0),
    "linear_attention": (_linear_attention, 1.0), "class_attention": (_class_attention, 1.0),
}  # fmt: skip
"""Steps by name, and their weights."""


def build(seed: int) -> Graph:
    """Build the network of a seed."""
    rng = Random(f"{NAME}/{seed}")
    side, head_size = rng.choice(SIDES), weighted(rng, HEAD_SIZES)
    most = min(WIDTHS[1], MOST_ELEMENTS // side**2, MOST_SCORES * head_size // side**4)
    channels = max(round(log_uniform(rng, WIDTHS[0], max(most, WIDTHS[0])) / head_size), 1) * head_size
    b = _Rows(f"{NAME}-{seed}", head_size)
    patch = rng.choice((4, 8, 16))
    x = b.conv(b.input((1, 3, side * patch, side * patch)), channels, patch, stride=patch, padding=0, bias=True)
    x = b.transpose(b.reshape(x, (1, channels, side**2)), (0, 2, 1))
    steps, weights = [step for step, _ in STEPS.values()], [weight for _, weight in STEPS.values()]
    for index in range(rng.randint(*LENGTHS)):
        if index % 2:
            x = b.linear(x, channels)
        else:
            x = rng.choices(steps, weights=weights)[0](b, x, rng)
    return b.finish(b.linear(b.reduce_mean(x, (1,), keepdims=False), 10))


SPACE = DrawnSpace(NAME, build, lambda rng: {"seed": rng.getrandbits(32)}, lambda graph: graph_macs(graph) <= MOST_MACS)
