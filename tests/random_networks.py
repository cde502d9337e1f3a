"""Random networks of common operators, to test runtimes, writers and importers on."""

from __future__ import annotations

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph

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
