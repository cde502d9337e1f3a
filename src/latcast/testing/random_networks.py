"""Small random networks: what the contract's hand-made ones do not think of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph

_ACTIVATIONS = (None, "relu", "relu6", "hard_swish", "hard_sigmoid", "sigmoid", "silu", "gelu", "leaky_relu")


def random_network(seed: int, *, steps: int = 8) -> Graph:
    """A connected convolutional network of common operators on maps of 16x16 or smaller, the same for the same seed.

    Every step takes one of the last tensors, not always the very last, so that tensors are read several times; whatever is
    left unread in the end is an output.

    Args:
        seed: Decides everything.
        steps: Blocks of one to nine operators.
    """
    rng = np.random.default_rng(seed)
    b = GraphBuilder(f"random_{seed}")
    tensors = [b.conv_bn(b.input((1, 3, 16, 16)), 8, 3, stride=int(rng.integers(1, 3)))]
    blocks = list(_BLOCKS)
    while len(tensors) <= steps:
        x = tensors[-1] if rng.random() < 0.7 else tensors[int(rng.integers(max(0, len(tensors) - 3), len(tensors)))]
        y = blocks[int(rng.integers(len(blocks)))](b, x, tensors, rng)
        if y is not None:
            tensors.append(y)
    graph = b.finish(tensors[-1])
    unread = [name for node in graph.nodes for name in node.outputs if name not in graph.consumers]
    if rng.random() < 0.5:
        unread.append(b.linear(b.flatten(b.global_average_pool(tensors[-1])), 5))
        unread.remove(tensors[-1])
    return b.finish(*unread)


def _pick(rng: np.random.Generator, *choices: int) -> int:
    return choices[int(rng.integers(len(choices)))]


def _activation(rng: np.random.Generator) -> str | None:
    return _ACTIVATIONS[int(rng.integers(len(_ACTIVATIONS)))]


def _conv(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str:
    kernel, stride = _pick(rng, 1, 3, 5), _pick(rng, 1, 1, 2)
    if rng.random() < 0.5:
        return b.conv_bn(x, _pick(rng, 8, 12, 16), kernel, stride=stride, activation=_activation(rng))
    return b.activation(b.conv(x, _pick(rng, 8, 12, 16), kernel, stride=stride, bias=bool(rng.random() < 0.5)), _activation(rng))


def _depthwise(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str:
    return b.activation(b.batch_norm(b.depthwise_conv(x, 3, stride=_pick(rng, 1, 2))), _activation(rng))


def _grouped(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    return b.conv_bn(x, 16, _pick(rng, 1, 3), groups=4) if b.channels(x) % 4 == 0 else None


def _normalise_first(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str:
    return b.conv(b.relu(b.batch_norm(x)), 8, 3)


def _same_shape(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    fitting = [other for other in others if other != x and b.shape(other) == b.shape(x)]
    return fitting[int(rng.integers(len(fitting)))] if fitting else None


def _add(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    other = _same_shape(b, x, others, rng)
    if other is None:
        other = b.conv_bn(x, b.channels(x), 3, activation=None)
    return b.activation(b.add(x, other), _activation(rng))


def _mul(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    other = _same_shape(b, x, others, rng)
    return None if other is None else b.mul(x, b.sigmoid(other))


def _concat(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    fitting = [other for other in others if other != x and b.shape(other)[2:] == b.shape(x)[2:]]
    return b.concat([x, *fitting[-2:]]) if fitting else None


def _pool(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    if b.shape(x)[2] < 4:
        return None
    pool = b.max_pool if rng.random() < 0.5 else b.average_pool
    return pool(x, 3, _pick(rng, 1, 2), 1)


def _squeeze_excite(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str:
    return b.squeeze_excite(x, 4, gate=("sigmoid", "hard_sigmoid")[_pick(rng, 0, 1)])


def _shuffle(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    return b.channel_shuffle(x, 2) if b.channels(x) % 2 == 0 else None


def _split(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    if b.channels(x) % 2:
        return None
    left, right = b.split(x, (b.channels(x) // 2,) * 2)
    return b.concat([left, b.conv_bn(right, 8, 1)])


def _resize(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    height, width = b.shape(x)[2:]
    return b.resize(x, (height * 2, width * 2)) if height <= 8 else None


def _attention(b: GraphBuilder, x: str, others: list[str], rng: np.random.Generator) -> str | None:
    n, c, h, w = b.shape(x)
    if c % 4 or h * w > 64:
        return None
    tokens = b.transpose(b.reshape(x, (n, c, h * w)), (0, 2, 1))
    tokens = b.add(tokens, b.attention(b.layer_norm(tokens), 2))
    tokens = b.add(tokens, b.linear(b.gelu(b.linear(b.layer_norm(tokens), 2 * c)), c))
    return b.reshape(b.transpose(tokens, (0, 2, 1)), (n, c, h, w))


_BLOCKS: tuple[Callable[[GraphBuilder, str, list[str], np.random.Generator], str | None], ...] = (
    _conv, _conv, _conv, _depthwise, _grouped, _normalise_first, _add, _add, _mul, _concat, _pool, _squeeze_excite,
    _shuffle, _split, _resize, _attention,
)  # fmt: skip
