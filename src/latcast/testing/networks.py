"""Small networks to test runtimes, writers and importers on: hand-made ones and random ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph

# Hand-made: each shows one thing that runtimes treat specially


def conv_stack() -> Graph:
    """Return plain convolutions: with batch normalisation and ReLU, with a bias and ReLU, strided, bare."""
    b = GraphBuilder("conv_stack")
    x = b.input((1, 3, 24, 24))
    x = b.conv_bn(x, 16, 3, stride=2)
    x = b.relu(b.conv(x, 24, 3, bias=True))
    x = b.conv_bn(x, 16, 1, activation=None)
    return b.finish(b.conv(x, 8, 5, stride=2, bias=True))


def residual() -> Graph:
    """Return a residual block after a stem: the sum is followed by a ReLU and read once more by a pooling."""
    b = GraphBuilder("residual")
    x = b.conv_bn(b.input((1, 3, 24, 24)), 16, 3)
    y = b.conv_bn(x, 16, 3)
    y = b.conv_bn(y, 16, 3, activation=None)
    x = b.relu(b.add(y, x))
    return b.finish(b.max_pool(x, 3, 2, 1))


def depthwise() -> Graph:
    """Return an inverted residual: expansion, depthwise with ReLU6, linear projection, sum."""
    b = GraphBuilder("depthwise")
    x = b.conv_bn(b.input((1, 3, 24, 24)), 16, 3, stride=2, activation="relu6")
    y = b.conv_bn(x, 48, 1, activation="relu6")
    y = b.relu6(b.batch_norm(b.depthwise_conv(y, 3)))
    y = b.conv_bn(y, 16, 1, activation=None)
    x = b.add(x, y)
    y = b.conv_bn(x, 48, 1, activation="relu6")
    return b.finish(b.relu6(b.batch_norm(b.depthwise_conv(y, 5, stride=2))))


def squeeze_excite() -> Graph:
    """Return hard-swish convolutions around squeeze-and-excitation, gated by a hard-sigmoid and by a sigmoid."""
    b = GraphBuilder("squeeze_excite")
    x = b.conv_bn(b.input((1, 3, 16, 16)), 16, 3, activation="hard_swish")
    x = b.squeeze_excite(x, 8, gate="hard_sigmoid")
    x = b.conv_bn(x, 24, 1, activation="silu")
    x = b.squeeze_excite(x, 8, activation="silu", gate="sigmoid")
    return b.finish(b.conv(x, 8, 1, bias=True))


def concat_pool() -> Graph:
    """Return an Inception-like block: four branches, two of them pooled, concatenated."""
    b = GraphBuilder("concat_pool")
    x = b.conv_bn(b.input((1, 3, 16, 16)), 16, 3)
    branches = [
        b.conv_bn(x, 8, 1),
        b.conv_bn(b.conv_bn(x, 8, 1), 12, 3),
        b.conv_bn(b.average_pool(x, 3, 1, 1), 8, 1),
        b.max_pool(x, 3, 1, 1),
    ]
    return b.finish(b.conv(b.concat(branches), 16, 1, bias=True))


def channel_shuffle() -> Graph:
    """Return a ShuffleNet V2 unit: split, one half through grouped and depthwise convolutions, concatenation, shuffle."""
    b = GraphBuilder("channel_shuffle")
    x = b.conv_bn(b.input((1, 3, 16, 16)), 16, 3)
    left, right = b.split(x, (8, 8))
    right = b.conv_bn(right, 8, 1, groups=2)
    right = b.conv_bn(b.batch_norm(b.depthwise_conv(right, 3)), 8, 1)
    return b.finish(b.conv(b.channel_shuffle(b.concat([left, right]), 2), 8, 1, bias=True))


def transformer_block() -> Graph:
    """Return pre-norm attention and GELU MLP on (1, 16 tokens, 32 channels)."""
    b = GraphBuilder("transformer_block")
    x = b.input((1, 16, 32))
    x = b.add(b.attention(b.layer_norm(x), 4), x)
    y = b.linear(b.gelu(b.linear(b.layer_norm(x), 64)), 32)
    return b.finish(b.add(x, y))


def linear_head() -> Graph:
    """Return a classifier's end: global pooling, flattening, two fully connected layers, softmax."""
    b = GraphBuilder("linear_head")
    x = b.conv_bn(b.input((1, 3, 16, 16)), 32, 3, stride=2)
    x = b.flatten(b.global_average_pool(x))
    x = b.relu(b.linear(x, 64))
    return b.finish(b.softmax(b.linear(x, 10)))


CONTRACT_NETWORKS: Mapping[str, Callable[[], Graph]] = {
    network.__name__: network
    for network in (
        conv_stack, residual, depthwise, squeeze_excite, concat_pool, channel_shuffle, transformer_block, linear_head,
    )
}  # fmt: skip
"""The networks of the contract of runtimes, by name."""

# Random

_ACTIVATIONS = (None, "relu", "relu6", "hard_swish", "hard_sigmoid", "sigmoid", "silu", "gelu", "leaky_relu")


def random_network(seed: int, *, steps: int = 8) -> Graph:
    """Return a connected convolutional network of common operators on maps of 16x16 or smaller, the same for the same seed.

    Every step (a block of one to nine operators) takes one of the last tensors, not always the very last, so that some are read
    several times; unread ones are outputs.
    """
    rng = np.random.default_rng(seed)
    b = GraphBuilder(f"random_{seed}")
    tensors = [b.conv_bn(b.input((1, 3, 16, 16)), 8, 3, stride=int(rng.integers(1, 3)))]
    while len(tensors) <= steps:
        x = tensors[-1] if rng.random() < 0.7 else tensors[int(rng.integers(max(0, len(tensors) - 3), len(tensors)))]
        y = _random_block(_BLOCKS[int(rng.integers(len(_BLOCKS)))], b, x, tensors, rng)
        if y is not None:
            tensors.append(y)
    graph = b.finish(tensors[-1])
    unread = [name for node in graph.nodes for name in node.outputs if name not in graph.consumers]
    if rng.random() < 0.5:
        unread.append(b.linear(b.flatten(b.global_average_pool(tensors[-1])), 5))
        unread.remove(tensors[-1])
    return b.finish(*unread)


def _random_block(kind: str, b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    """Add a block of one of :data:`_BLOCKS` to ``x`` and return its output; None where it does not fit."""
    channels, (height, width) = b.channels(x), b.shape(x)[2:]
    equal = [other for other in others if other != x and b.shape(other) == b.shape(x)]

    def pick(*choices: int) -> int:
        return choices[int(rng.integers(len(choices)))]

    def activation() -> str | None:
        return _ACTIVATIONS[int(rng.integers(len(_ACTIVATIONS)))]

    match kind:
        case "conv":
            size, stride = pick(1, 3, 5), pick(1, 1, 2)
            if rng.random() < 0.5:
                return b.conv_bn(x, pick(8, 12, 16), size, stride=stride, activation=activation())
            return b.activation(b.conv(x, pick(8, 12, 16), size, stride=stride, bias=bool(rng.random() < 0.5)), activation())
        case "depthwise":
            return b.activation(b.batch_norm(b.depthwise_conv(x, 3, stride=pick(1, 2))), activation())
        case "grouped" if channels % 4 == 0:
            return b.conv_bn(x, 16, pick(1, 3), groups=4)
        case "normalise_first":
            return b.conv(b.relu(b.batch_norm(x)), 8, 3)
        case "add":
            other = equal[int(rng.integers(len(equal)))] if equal else b.conv_bn(x, channels, 3, activation=None)
            return b.activation(b.add(x, other), activation())
        case "mul" if equal:
            return b.mul(x, b.sigmoid(equal[int(rng.integers(len(equal)))]))
        case "concat":
            fitting = [other for other in others if other != x and b.shape(other)[2:] == b.shape(x)[2:]]
            return b.concat([x, *fitting[-2:]]) if fitting else None
        case "pool" if height >= 4:
            pool = b.max_pool if rng.random() < 0.5 else b.average_pool
            return pool(x, 3, pick(1, 2), 1)
        case "squeeze_excite":
            return b.squeeze_excite(x, 4, gate=("sigmoid", "hard_sigmoid")[pick(0, 1)])
        case "shuffle" if channels % 2 == 0:
            return b.channel_shuffle(x, 2)
        case "split" if channels % 2 == 0:
            left, right = b.split(x, (channels // 2,) * 2)
            return b.concat([left, b.conv_bn(right, 8, 1)])
        case "resize" if height <= 8:
            return b.resize(x, (height * 2, width * 2))
        case "attention" if channels % 4 == 0 and height * width <= 64:
            n = b.shape(x)[0]
            tokens = b.transpose(b.reshape(x, (n, channels, height * width)), (0, 2, 1))
            tokens = b.add(tokens, b.attention(b.layer_norm(tokens), 2))
            tokens = b.add(tokens, b.linear(b.gelu(b.linear(b.layer_norm(tokens), 2 * channels)), channels))
            return b.reshape(b.transpose(tokens, (0, 2, 1)), (n, channels, height, width))
    return None


_BLOCKS = (
    "conv", "conv", "conv", "depthwise", "grouped", "normalise_first", "add", "add", "mul", "concat", "pool", "squeeze_excite",
    "shuffle", "split", "resize", "attention",
)  # fmt: skip
