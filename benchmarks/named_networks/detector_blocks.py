"""Blocks that detectors have in common, of square images: batch normalisations folded, repeated branches merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph

CLASSES, BINS, STRIDES, PROTOTYPES = 80, 16, (8, 16, 32), 32
"""COCO's classes; bins of a side's distribution (Li et al., "Generalized focal loss", 2020); strides of the maps; masks of a
segmentation."""

Maps = Sequence[str]
"""Feature maps, the finest first."""

Levels = Sequence[tuple[str, str]]
"""A pair for each map: sides of boxes and scores of classes, not decoded."""


class DetectorBuilder(GraphBuilder):
    """Builds a graph whose convolutions have one activation, but where another is said."""

    def __init__(self, name: str, side: int, activation: str = "silu") -> None:
        super().__init__(name)
        self.kind, self.image = activation, self.input((1, 3, side, side), name="images")

    def block(
        self, x: str, channels: int, kernel: int = 1, stride: int = 1, *, kind: str | None = "", **more: int
    ) -> str:  # fmt: skip
        """Add a convolution, its folded normalisation and its activation."""
        return self.activation(
            self.conv(x, channels, kernel, stride=stride, bias=True, **more), self.kind if kind == "" else kind
        )

    def depthwise(self, x: str, kernel: int = 3, stride: int = 1, *, kind: str | None = "") -> str:
        return self.block(x, self.channels(x), kernel, stride, kind=kind, groups=self.channels(x))

    def doubled(self, x: str) -> str:
        """Add the nearest neighbours' resize to twice the size."""
        height, width = self.shape(x)[2:]
        return self.resize(x, (2 * height, 2 * width))


@dataclass(frozen=True)
class Size:
    """Multiples of the depth and the width that a structure states, and its widest map before the multiple."""

    depth: float
    width: float
    most_channels: int = 1024

    def channels(self, stated: int) -> int:
        return ceil(min(stated, self.most_channels) * self.width / 8) * 8

    def blocks(self, stated: int) -> int:
        return max(round(stated * self.depth), 1)


# Stages


def pyramid_pooling(b: DetectorBuilder, x: str, channels: int) -> str:
    """Pool by 5x5 three times in a row in place of windows of 5, 9 and 13."""
    found = [b.block(x, b.channels(x) // 2)]
    for _ in range(3):
        found.append(b.max_pool(found[-1], 5, 1, 2))
    return b.block(b.concat(found), channels)


def bottleneck(b: DetectorBuilder, x: str, shortcut: bool, first: int = 3, part: float = 1) -> str:
    channels = b.channels(x)
    y = b.block(b.block(x, int(channels * part), first), channels, 3)
    return b.add(x, y) if shortcut else y


def halved(b: DetectorBuilder, x: str, shortcut: bool) -> str:
    return bottleneck(b, x, shortcut, part=0.5)


def nested(b: DetectorBuilder, x: str, shortcut: bool) -> str:
    return c3(b, x, b.channels(x), 2, shortcut=shortcut, first=3)


def c3(b: DetectorBuilder, x: str, channels: int, blocks: int, *, shortcut: bool = True, first: int = 1) -> str:
    """Add two branches of half the width, with blocks in one of them (Wang et al., "CSPNet", 2020)."""
    y = b.block(x, channels // 2)
    for _ in range(blocks):
        y = bottleneck(b, y, shortcut, first)
    return b.block(b.concat([y, b.block(x, channels // 2)]), channels)


def c2f(
    b: DetectorBuilder, x: str, channels: int, blocks: int, *, shortcut: bool = False, part: float = 0.5,
    block: Callable[[DetectorBuilder, str, bool], str] = bottleneck,
) -> str:  # fmt: skip
    """Split into two branches, add blocks to one, and join the other with every block's output."""
    inner = int(channels * part)
    found = list(b.split(b.block(x, 2 * inner), (inner, inner)))
    for _ in range(blocks):
        found.append(block(b, found[-1], shortcut))
    return b.block(b.concat(found), channels)


def attending(b: DetectorBuilder, x: str, blocks: int) -> str:
    """Attend over positions, with heads of at least 64 values and keys of half as many, in half of the channels."""
    channels = b.channels(x)
    inner, (height, width) = channels // 2, b.shape(x)[2:]
    heads, positions = inner // 64, height * width
    values = inner // heads
    keys = values // 2
    kept, y = b.split(b.block(x, 2 * inner), (inner, inner))
    for _ in range(blocks):
        mixed = b.reshape(b.conv(y, 2 * heads * values, bias=True), (1, heads, 2 * values, positions))
        query, key, value = b.split(mixed, (keys, keys, values), axis=2)
        scores = b.mul(b.matmul(b.transpose(query, (0, 1, 3, 2)), key), b.constant(keys**-0.5, dtype="float32"))
        weights = b.transpose(b.softmax(scores), (0, 1, 3, 2))
        attended = b.reshape(b.matmul(value, weights), (1, inner, height, width))
        placed = b.depthwise_conv(b.reshape(value, (1, inner, height, width)), bias=True)
        y = b.add(y, b.conv(b.add(attended, placed), inner, bias=True))
        y = b.add(y, b.conv(b.block(y, 2 * inner), inner, bias=True))
    return b.block(b.concat([kept, y]), channels)


# Heads


def of_distributions(
    b: DetectorBuilder, maps: Maps, classes: Callable[[DetectorBuilder, str, int], str], *, labels: int = CLASSES, groups: int = 1
) -> Levels:
    """Add the distributions of boxes' four sides, and scores of classes, at every position of the maps."""
    narrow, wide = max(16, b.channels(maps[0]) // 4, 4 * BINS), max(b.channels(maps[0]), min(labels, 100))
    found = []
    for x in maps:
        sides = b.block(b.block(x, narrow, 3), narrow, 3, groups=groups)
        found.append((b.conv(sides, 4 * BINS, groups=groups, bias=True), b.conv(classes(b, x, wide), labels, bias=True)))
    return found


def dense_classes(b: DetectorBuilder, x: str, channels: int) -> str:
    return b.block(b.block(x, channels, 3), channels, 3)


def separable_classes(b: DetectorBuilder, x: str, channels: int) -> str:
    for _ in range(2):
        x = b.block(b.depthwise(x), channels)
    return x


def of_masks(b: DetectorBuilder, maps: Maps, width: int) -> tuple[list[str], str]:
    """Add the coefficients of masks at every position of the maps, and the prototypes of the masks."""
    narrow = max(b.channels(maps[0]) // 4, PROTOTYPES)
    coefficients = [b.conv(b.block(b.block(x, narrow, 3), narrow, 3), PROTOTYPES, bias=True) for x in maps]
    found = b.conv_transpose(b.block(maps[0], width, 3), width)
    return coefficients, b.block(b.block(found, width, 3), PROTOTYPES)


def of_anchors(b: DetectorBuilder, maps: Maps, values: int = CLASSES + 5) -> list[str]:
    """Add what three anchors have at each position of the maps."""
    return [b.conv(x, 3 * values, bias=True) for x in maps]


def undecoded(b: DetectorBuilder, levels: Levels, *more: str) -> Graph:
    """Return the graph up to what the heads return: NPUs leave the rest to a CPU."""
    return b.finish(*(each for sides, scores in levels for each in (sides, b.sigmoid(scores))), *more)


# Decoding


def all_positions(b: DetectorBuilder, maps: Maps) -> str:
    """Join maps: (1, channels, positions)."""
    return b.concat([b.reshape(x, (1, b.channels(x), -1)) for x in maps], axis=2)


def decoded_distributions(b: DetectorBuilder, levels: Levels) -> str:
    """Add boxes from the distributions of their four sides, and scores of classes: (1, 4 + classes, positions)."""
    labels = b.channels(levels[0][1])
    both = all_positions(b, [b.concat([sides, scores]) for sides, scores in levels])
    sides, scores = b.split(both, (4 * BINS, labels))
    positions = b.shape(sides)[2]
    bins = b.softmax(b.transpose(b.reshape(sides, (1, 4, BINS, positions)), (0, 2, 1, 3)), axis=1)
    return decoded_sides(b, b.reshape(b.conv(bins, 1), (1, 4, positions)), scores)


def decoded_sides(b: DetectorBuilder, distances: str, scores: str) -> str:
    """Add boxes from the distances of their four sides, (1, 4, positions), and scores of classes."""
    positions = b.shape(distances)[2]
    before, after = b.split(distances, (2, 2))
    centres = b.weight((1, 2, positions), stem="centres")
    first, second = b.sub(centres, before), b.add(centres, after)
    middle = b.mul(b.add(first, second), b.constant(0.5, dtype="float32"))
    boxes = b.mul(b.concat([middle, b.sub(second, first)]), b.weight((1, 1, positions), stem="strides"))
    return b.concat([boxes, b.sigmoid(scores)])


def decoded_anchors(b: DetectorBuilder, levels: Maps, masks: int = 0) -> str:
    """Add offsets of three anchors at each position, decoded: (1, 3 positions, 85 and coefficients of masks)."""
    found = []
    for x, stride in zip(levels, STRIDES, strict=True):
        height, width = b.shape(x)[2:]
        values = b.transpose(b.reshape(x, (1, 3, CLASSES + 5 + masks, height, width)), (0, 1, 3, 4, 2))
        # Coefficients have no bounds: where there are some, each of the other parts has a sigmoid of its own.
        of_all, of_each = (None, "sigmoid") if masks else ("sigmoid", None)
        sizes = (2, 2, CLASSES + 1, *([masks] if masks else []))
        centre, extent, scores, *more = b.split(b.activation(values, of_all), sizes, axis=4)
        centre, extent, scores = (b.activation(each, of_each) for each in (centre, extent, scores))
        grid = b.weight((1, 3, height, width, 2), stem="grid")
        centre = b.mul(b.add(b.mul(centre, b.constant(2.0, dtype="float32")), grid), b.constant(float(stride), dtype="float32"))
        doubled = b.mul(extent, b.constant(2.0, dtype="float32"))
        squared = b.op("Pow", [doubled, b.constant(2.0, dtype="float32")])[0]
        extent = b.mul(squared, b.weight((1, 3, height, width, 2), stem="anchors"))
        found.append(b.reshape(b.concat([centre, extent, scores, *more], axis=4), (1, -1, CLASSES + 5 + masks)))
    return b.concat(found)
