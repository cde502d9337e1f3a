"""The synthetic space of Li et al. ("Inference latency prediction for CNNs on heterogeneous mobile devices", §4.3.2).

Nine blocks in a row, then a 1x1 convolution, pooling and a linear layer. The text leaves some things open, settled here
as follows. The input sizes of the blocks are those of MobileNetV2's Table 2 (whose widths lie in the same ranges), with
one block more at 7x7. A pooling or split block cannot change the number of channels and keeps it; a split block that
has to halve the map is followed by a pooling. Channels are multiples of 4, so that 4k groups can divide them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.blocks import SqueezeExcite, inverted_residual, separable
from latcast.spaces.families.variants import DrawnSpace

NAME = "block_sequence"
STRIDES = (2, 1, 2, 2, 2, 1, 2, 1, 1)
"""At 224x224 the blocks read maps of 224, 112, 112, 56, 28, 14, 14, 7 and 7."""
CHANNEL_RANGES = ((8, 80),) * 5 + ((80, 400),) * 4 + ((1200, 1800),)
KERNELS = (3, 5, 7)
EXPANSIONS = (1, 3, 6)
POOLING_WINDOWS = (1, 3)
SPLITS = (2, 3, 4)
GROUPS = tuple(4 * k for k in range(1, 17))
ELEMENTWISE = ("relu", "relu6", "sigmoid", "hard_swish", "double", "square")

BlockParameters = Mapping[str, Any]


def convolution(b: GraphBuilder, x: str, width: int, stride: int, block: BlockParameters) -> str:
    return b.conv_bn(x, width, block["kernel"], stride=stride, groups=block["groups"])


def separable_convolution(b: GraphBuilder, x: str, width: int, stride: int, block: BlockParameters) -> str:
    return separable(b, x, width, block["kernel"], stride=stride)


def bottleneck(b: GraphBuilder, x: str, width: int, stride: int, block: BlockParameters) -> str:
    """MobileNetV2's, with an optional squeeze-and-excitation after the depthwise convolution."""
    expanded = b.channels(x) * block["expansion"]
    gate = SqueezeExcite(max(expanded // 4, 4)) if block["squeeze"] else None
    return inverted_residual(
        b, x, width, expanded=expanded, kernel=block["kernel"], stride=stride, activation="relu6", squeeze_excite=gate
    )


def pooling(b: GraphBuilder, x: str, width: int, stride: int, block: BlockParameters) -> str:
    window = block["window"]
    pool = b.max_pool if block["operator"] == "max" else b.average_pool
    return pool(x, window, stride, window // 2)


def split(b: GraphBuilder, x: str, width: int, stride: int, block: BlockParameters) -> str:
    """Parts of nearly equal size, an element-wise operation on each, concatenation."""
    operators = block["operators"]
    size, extra = divmod(b.channels(x), len(operators))
    parts = b.split(x, [size + (index < extra) for index in range(len(operators))])
    x = b.concat([_elementwise(b, part, kind) for part, kind in zip(parts, operators, strict=True)])
    return b.max_pool(x, 3, stride, 1) if stride > 1 else x


def _elementwise(b: GraphBuilder, x: str, kind: str) -> str:
    if kind == "double":
        return b.add(x, x)
    return b.mul(x, x) if kind == "square" else b.activation(x, kind)


BLOCKS: Mapping[str, Callable[[GraphBuilder, str, int, int, BlockParameters], str]] = {
    "convolution": convolution,
    "separable": separable_convolution,
    "bottleneck": bottleneck,
    "pooling": pooling,
    "split": split,
}
KEEPS_CHANNELS = frozenset({"pooling", "split"})


def build(
    blocks: Sequence[BlockParameters], channels: Sequence[int], *, resolution: Size = 224, classes: int = 1000, batch: int = 1
) -> Graph:
    """Build a member of the space.

    Args:
        blocks: Nine blocks; ``type`` is a key of ``BLOCKS``, the rest what that type needs: ``kernel`` and ``groups``
            (convolution), ``kernel`` (separable), ``kernel``, ``expansion`` and ``squeeze`` (bottleneck), ``operator``
            and ``window`` (pooling), ``operators`` (split).
        channels: C1 to C10; a block that keeps its channels ignores its own.

    Raises:
        ModelError: Not nine blocks and ten widths, an unknown type, or groups that do not divide the channels.
    """
    if len(blocks) != len(STRIDES) or len(channels) != len(CHANNEL_RANGES):
        raise ModelError(
            f"{len(blocks)} blocks and {len(channels)} widths; a block sequence has {len(STRIDES)} blocks and "
            f"{len(CHANNEL_RANGES)} widths"
        )
    b = GraphBuilder(NAME)
    x = b.input((batch, 3, *pair(resolution)))
    for block, width, stride in zip(blocks, channels[:-1], STRIDES, strict=True):
        kind = block["type"]
        if kind not in BLOCKS:
            raise ModelError(f"no block is of type '{kind}'; expected one of {', '.join(BLOCKS)}")
        x = BLOCKS[kind](b, x, width, stride, block)
    x = b.conv_bn(x, channels[-1], activation="relu6")
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), classes))


def draw(rng: Random) -> dict[str, Any]:
    channels = [4 * rng.randint(-(-low // 4), high // 4) for low, high in CHANNEL_RANGES]
    blocks: list[dict[str, Any]] = []
    before = 3
    for width in channels[:-1]:
        kind = rng.choice(tuple(BLOCKS))
        block: dict[str, Any] = {"type": kind}
        if kind in ("convolution", "separable", "bottleneck"):
            block["kernel"] = rng.choice(KERNELS)
        if kind == "convolution":
            fitting = [groups for groups in GROUPS if before % groups == 0 and width % groups == 0]
            block["groups"] = rng.choice(fitting) if fitting and rng.random() < 0.5 else 1
        elif kind == "bottleneck":
            block["expansion"] = rng.choice(EXPANSIONS)
            block["squeeze"] = rng.random() < 0.5
        elif kind == "pooling":
            block["operator"] = rng.choice(("max", "average"))
            block["window"] = rng.choice(POOLING_WINDOWS)
        elif kind == "split":
            parts = min(rng.choice(SPLITS), before)
            block["operators"] = [rng.choice(ELEMENTWISE) for _ in range(parts)]
        blocks.append(block)
        before = before if kind in KEEPS_CHANNELS else width
    return {"blocks": blocks, "channels": channels}


SPACE = DrawnSpace(NAME, build, draw)
