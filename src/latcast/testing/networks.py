"""Small networks to test runtimes, writers and importers on: each shows one thing that runtimes treat specially."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph


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
