"""YOLO detectors as their exporters write them, of square images: batch normalisations folded, boxes decoded, no suppression.

Structures as the documentation of YOLOv5, YOLOv8 and YOLO11 describes them; sizes n, s, m, l and x differ in depth and width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph

SIDES, CLASSES, BINS, STRIDES, PROTOTYPES = (640, 320, 416), 80, 16, (8, 16, 32), 32
"""Pixels, the usual ones first; COCO's classes; bins of a side's distribution (Li et al., "Generalized focal loss", 2020);
strides of the maps; masks of a segmentation."""

Stage = Callable[[GraphBuilder, str, int, int], str]
"""Adds a stage of a width and a number of blocks to a feature map."""


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


V5_SIZES: Mapping[str, Size] = {
    "n": Size(0.33, 0.25), "s": Size(0.33, 0.5), "m": Size(0.67, 0.75), "l": Size(1, 1), "x": Size(1.33, 1.25),
}  # fmt: skip
V8_SIZES: Mapping[str, Size] = {
    "n": Size(0.33, 0.25), "s": Size(0.33, 0.5), "m": Size(0.67, 0.75, 768), "l": Size(1, 1, 512), "x": Size(1, 1.25, 512),
}  # fmt: skip
V11_SIZES: Mapping[str, Size] = {
    "n": Size(0.5, 0.25), "s": Size(0.5, 0.5), "m": Size(0.5, 1, 512), "l": Size(1, 1, 512), "x": Size(1, 1.5, 512),
}  # fmt: skip


def yolov5(name: str, side: int, size: Size, *, anchors: bool) -> Graph:
    """Return YOLOv5 with the detector that refines anchors, or with YOLOv8's (``yolov5nu``)."""
    b, (c, n) = GraphBuilder(name), (size.channels, size.blocks)
    x = _conv(b, b.input((1, 3, side, side), name="images"), c(64), 6, 2, padding=2)
    x = _c3(b, _conv(b, x, c(128), 3, 2), c(128), n(3))
    p3 = _c3(b, _conv(b, x, c(256), 3, 2), c(256), n(6))
    p4 = _c3(b, _conv(b, p3, c(512), 3, 2), c(512), n(9))
    top = _pyramid_pooling(b, _c3(b, _conv(b, p4, c(1024), 3, 2), c(1024), n(3)), c(1024))
    neck = partial(_c3, shortcut=False)
    top = _conv(b, top, c(512))
    middle = _conv(b, neck(b, b.concat([_twice(b, top), p4]), c(512), n(3)), c(256))
    low = neck(b, b.concat([_twice(b, middle), p3]), c(256), n(3))
    middle = neck(b, b.concat([_conv(b, low, c(256), 3, 2), middle]), c(512), n(3))
    maps = [low, middle, neck(b, b.concat([_conv(b, middle, c(512), 3, 2), top]), c(1024), n(3))]
    return b.finish(_refined_anchors(b, maps) if anchors else _boxes(b, maps, _dense_classes))


def yolov8(name: str, side: int, size: Size, *, masks: bool = False) -> Graph:
    """Return YOLOv8, with masks of instances (``yolov8n-seg``) or without."""
    b, (c, n) = GraphBuilder(name), (size.channels, size.blocks)
    x = _conv(b, b.input((1, 3, side, side), name="images"), c(64), 3, 2)
    x = _c2f(b, _conv(b, x, c(128), 3, 2), c(128), n(3), shortcut=True)
    p3 = _c2f(b, _conv(b, x, c(256), 3, 2), c(256), n(6), shortcut=True)
    p4 = _c2f(b, _conv(b, p3, c(512), 3, 2), c(512), n(6), shortcut=True)
    top = _c2f(b, _conv(b, p4, c(1024), 3, 2), c(1024), n(3), shortcut=True)
    maps = _both_ways(b, p3, p4, _pyramid_pooling(b, top, c(1024)), size, 3, _c2f, _c2f)
    return _detector(b, maps, size, _dense_classes, masks)


def yolo11(name: str, side: int, size: Size, *, masks: bool = False) -> Graph:
    """Return YOLO11, with masks of instances (``yolo11n-seg``) or without. From size m on, all its blocks are nested."""
    b, (c, n) = GraphBuilder(name), (size.channels, size.blocks)
    nested = partial(_c2f, shortcut=True, block=_nested)
    plain = partial(_c2f, shortcut=True, block=_halved) if size.width < 1 else nested
    x = _conv(b, _conv(b, b.input((1, 3, side, side), name="images"), c(64), 3, 2), c(128), 3, 2)
    x = plain(b, x, c(256), n(2), part=0.25)
    p3 = plain(b, _conv(b, x, c(256), 3, 2), c(512), n(2), part=0.25)
    p4 = nested(b, _conv(b, p3, c(512), 3, 2), c(512), n(2))
    top = nested(b, _conv(b, p4, c(1024), 3, 2), c(1024), n(2))
    top = _attending(b, _pyramid_pooling(b, top, c(1024)), n(2))
    maps = _both_ways(b, p3, p4, top, size, 2, plain, nested)
    return _detector(b, maps, size, _separable_classes, masks)


def _conv(b: GraphBuilder, x: str, channels: int, kernel: int = 1, stride: int = 1, **more: int) -> str:
    return b.silu(b.conv(x, channels, kernel, stride=stride, bias=True, **more))


def _twice(b: GraphBuilder, x: str) -> str:
    height, width = b.shape(x)[2:]
    return b.resize(x, (2 * height, 2 * width))


def _pyramid_pooling(b: GraphBuilder, x: str, channels: int) -> str:
    """Pool by 5x5 three times in a row in place of windows of 5, 9 and 13."""
    found = [_conv(b, x, b.channels(x) // 2)]
    for _ in range(3):
        found.append(b.max_pool(found[-1], 5, 1, 2))
    return _conv(b, b.concat(found), channels)


def _bottleneck(b: GraphBuilder, x: str, shortcut: bool, first: int = 3, part: float = 1) -> str:
    channels = b.channels(x)
    y = _conv(b, _conv(b, x, int(channels * part), first), channels, 3)
    return b.add(x, y) if shortcut else y


def _halved(b: GraphBuilder, x: str, shortcut: bool) -> str:
    return _bottleneck(b, x, shortcut, part=0.5)


def _nested(b: GraphBuilder, x: str, shortcut: bool) -> str:
    return _c3(b, x, b.channels(x), 2, shortcut=shortcut, first=3)


def _c3(b: GraphBuilder, x: str, channels: int, blocks: int, *, shortcut: bool = True, first: int = 1) -> str:
    """Add two branches of half the width, with blocks in one of them (Wang et al., "CSPNet", 2020)."""
    y = _conv(b, x, channels // 2)
    for _ in range(blocks):
        y = _bottleneck(b, y, shortcut, first)
    return _conv(b, b.concat([y, _conv(b, x, channels // 2)]), channels)


def _c2f(
    b: GraphBuilder, x: str, channels: int, blocks: int, *, shortcut: bool = False, part: float = 0.5,
    block: Callable[[GraphBuilder, str, bool], str] = _bottleneck,
) -> str:  # fmt: skip
    """Keep a branch as it is, and the output of each block of the other."""
    inner = int(channels * part)
    found = list(b.split(_conv(b, x, 2 * inner), (inner, inner)))
    for _ in range(blocks):
        found.append(block(b, found[-1], shortcut))
    return _conv(b, b.concat(found), channels)


def _attending(b: GraphBuilder, x: str, blocks: int) -> str:
    """Attend over positions, with heads of 64 values and keys of 32, in half of the channels."""
    channels = b.channels(x)
    inner, (height, width) = channels // 2, b.shape(x)[2:]
    heads, positions = inner // 64, height * width
    kept, y = b.split(_conv(b, x, 2 * inner), (inner, inner))
    for _ in range(blocks):
        mixed = b.reshape(b.conv(y, 2 * inner, bias=True), (1, heads, 128, positions))
        query, key, value = b.split(mixed, (32, 32, 64), axis=2)
        scores = b.mul(b.matmul(b.transpose(query, (0, 1, 3, 2)), key), b.constant(32**-0.5, dtype="float32"))
        weights = b.transpose(b.softmax(scores), (0, 1, 3, 2))
        attended = b.reshape(b.matmul(value, weights), (1, inner, height, width))
        placed = b.depthwise_conv(b.reshape(value, (1, inner, height, width)), bias=True)
        y = b.add(y, b.conv(b.add(attended, placed), inner, bias=True))
        y = b.add(y, b.conv(_conv(b, y, 2 * inner), inner, bias=True))
    return _conv(b, b.concat([kept, y]), channels)


def _both_ways(
    b: GraphBuilder, p3: str, p4: str, top: str, size: Size, blocks: int, stage: Callable[..., str], last: Callable[..., str]
) -> list[str]:
    """Add coarse maps to fine ones, then fine ones to coarse ones (Liu et al., "PANet", 2018)."""
    c, n = size.channels, size.blocks(blocks)
    middle = stage(b, b.concat([_twice(b, top), p4]), c(512), n)
    low = stage(b, b.concat([_twice(b, middle), p3]), c(256), n)
    middle = stage(b, b.concat([_conv(b, low, c(256), 3, 2), middle]), c(512), n)
    return [low, middle, last(b, b.concat([_conv(b, middle, c(512), 3, 2), top]), c(1024), n)]


def _detector(
    b: GraphBuilder, maps: Sequence[str], size: Size, classes: Callable[[GraphBuilder, str, int], str], masks: bool
) -> Graph:
    found = _boxes(b, maps, classes)
    if not masks:
        return b.finish(found)
    narrow = max(b.channels(maps[0]) // 4, PROTOTYPES)
    weights = [_scores(b, _conv(b, _conv(b, x, narrow, 3), narrow, 3), PROTOTYPES) for x in maps]
    wide = size.channels(256)
    prototypes = b.conv_transpose(_conv(b, maps[0], wide, 3), wide)
    prototypes = _conv(b, _conv(b, prototypes, wide, 3), PROTOTYPES)
    return b.finish(b.concat([found, b.concat(weights, axis=2)]), prototypes)


def _dense_classes(b: GraphBuilder, x: str, channels: int) -> str:
    return _conv(b, _conv(b, x, channels, 3), channels, 3)


def _separable_classes(b: GraphBuilder, x: str, channels: int) -> str:
    for _ in range(2):
        x = _conv(b, _conv(b, x, b.channels(x), 3, groups=b.channels(x)), channels)
    return x


def _scores(b: GraphBuilder, x: str, channels: int) -> str:
    """Add values of each position: (1, channels, positions)."""
    x = b.conv(x, channels, bias=True)
    return b.reshape(x, (1, channels, -1))


def _boxes(b: GraphBuilder, maps: Sequence[str], classes: Callable[[GraphBuilder, str, int], str]) -> str:
    """Add boxes from the distributions of their four sides, and scores of classes: (1, 84, positions)."""
    narrow, wide = max(16, b.channels(maps[0]) // 4, 4 * BINS), max(b.channels(maps[0]), min(CLASSES, 100))
    levels = []
    for x in maps:
        sides = b.conv(_conv(b, _conv(b, x, narrow, 3), narrow, 3), 4 * BINS, bias=True)
        both = b.concat([sides, b.conv(classes(b, x, wide), CLASSES, bias=True)])
        levels.append(b.reshape(both, (1, 4 * BINS + CLASSES, -1)))
    sides, scores = b.split(b.concat(levels, axis=2), (4 * BINS, CLASSES))
    positions = b.shape(sides)[2]
    bins = b.softmax(b.transpose(b.reshape(sides, (1, 4, BINS, positions)), (0, 2, 1, 3)), axis=1)
    distances = b.reshape(b.conv(bins, 1), (1, 4, positions))
    before, after = b.split(distances, (2, 2))
    centres = b.weight((1, 2, positions), stem="centres")
    first, second = b.sub(centres, before), b.add(centres, after)
    middle = b.mul(b.add(first, second), b.constant(0.5, dtype="float32"))
    boxes = b.mul(b.concat([middle, b.sub(second, first)]), b.weight((1, 1, positions), stem="strides"))
    return b.concat([boxes, b.sigmoid(scores)])


def _refined_anchors(b: GraphBuilder, maps: Sequence[str]) -> str:
    """Add offsets of three anchors at each position, decoded: (1, 3 positions, 85)."""
    found = []
    for x, stride in zip(maps, STRIDES, strict=True):
        height, width = b.shape(x)[2:]
        values = b.reshape(b.conv(x, 3 * (CLASSES + 5), bias=True), (1, 3, CLASSES + 5, height, width))
        values = b.sigmoid(b.transpose(values, (0, 1, 3, 4, 2)))
        centre, extent, scores = b.split(values, (2, 2, CLASSES + 1), axis=4)
        grid = b.weight((1, 3, height, width, 2), stem="grid")
        centre = b.mul(b.add(b.mul(centre, b.constant(2.0, dtype="float32")), grid), b.constant(float(stride), dtype="float32"))
        doubled = b.mul(extent, b.constant(2.0, dtype="float32"))
        squared = b.op("Pow", [doubled, b.constant(2.0, dtype="float32")])[0]
        extent = b.mul(squared, b.weight((1, 3, height, width, 2), stem="anchors"))
        found.append(b.reshape(b.concat([centre, extent, scores], axis=4), (1, -1, CLASSES + 5)))
    return b.concat(found)


_FIGURES: Mapping[str, Sequence[tuple[float, float]]] = {
    "yolov5": [(1.9, 4.5), (7.2, 16.5), (21.2, 49.0), (46.5, 109.1), (86.7, 205.7)],
    "yolov5u": [(2.6, 7.7), (9.1, 24.0), (25.1, 64.2), (53.2, 135.0), (97.2, 246.4)],
    "yolov8": [(3.2, 8.7), (11.2, 28.6), (25.9, 78.9), (43.7, 165.2), (68.2, 257.8)],
    "yolov8-seg": [(3.4, 12.6), (11.8, 42.6), (27.3, 110.2), (46.0, 220.5), (71.8, 344.1)],
    "yolo11": [(2.6, 6.5), (9.4, 21.5), (20.1, 68.0), (25.3, 86.9), (56.9, 194.9)],
    "yolo11-seg": [(2.9, 10.4), (10.1, 35.5), (22.4, 123.3), (27.6, 142.2), (62.1, 319.0)],
}
_MAKES: Mapping[str, tuple[Callable[..., Graph], Mapping[str, Size]]] = {
    "yolov5": (partial(yolov5, anchors=True), V5_SIZES),
    "yolov5u": (partial(yolov5, anchors=False), V5_SIZES),
    "yolov8": (yolov8, V8_SIZES),
    "yolov8-seg": (partial(yolov8, masks=True), V8_SIZES),
    "yolo11": (yolo11, V11_SIZES),
    "yolo11-seg": (partial(yolo11, masks=True), V11_SIZES),
}

PUBLISHED: Mapping[str, tuple[Callable[[str, int], Graph], float, float]] = {
    re.sub(r"(?<=5|8)(?=u|-|$)|(?<=11)(?=-|$)", letter, kind): (partial(make, size=size), million_parameters, gflops)
    for kind, (make, sizes) in _MAKES.items()
    for (letter, size), (million_parameters, gflops) in zip(sizes.items(), _FIGURES[kind], strict=True)
}
"""Name to what builds it, and its million parameters and billion FLOPs (two a multiply-accumulate) as the documentation has them.

Those of segmentations count four times as much for the transposed convolution, which has an output for each weight.
"""
