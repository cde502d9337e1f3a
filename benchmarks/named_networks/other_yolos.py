"""Detectors called YOLO of other authors: YOLOX, YOLOv6, YOLOv7, YOLOv9 and YOLOv10, as they run, repeated branches merged.

Sources: Ge et al., "YOLOX" (2021); Li et al., "YOLOv6" (2022) and "YOLOv6 v3.0" (2023); Wang et al., "YOLOv7" (2022) and
"YOLOv9" (2024); Wang et al., "YOLOv10" (2024).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.named_networks.detector_blocks import (
    BINS,
    CLASSES,
    DetectorBuilder,
    Maps,
    Size,
    all_positions,
    attending,
    bottleneck,
    c2f,
    c3,
    decoded_anchors,
    decoded_distributions,
    decoded_sides,
    of_anchors,
    of_distributions,
    pyramid_pooling,
    separable_classes,
    undecoded,
)
from latcast.graph.ir import Graph

# YOLOX

X_SIZES: Mapping[str, Size] = {
    "tiny": Size(0.33, 0.375), "s": Size(0.33, 0.5), "m": Size(0.67, 0.75), "l": Size(1, 1), "x": Size(1.33, 1.25),
}  # fmt: skip


def yolox(name: str, side: int, size: Size, *, labels: int = CLASSES, activation: str = "silu", heads: bool = False) -> Graph:
    """Return YOLOX: heads apart for boxes and classes, without anchors; four pixels of the image are one at half its size."""
    b, (c, n) = DetectorBuilder(name, side, activation), (size.channels, size.blocks)
    x = b.block(b.op("SpaceToDepth", [b.image], {"blocksize": 2})[0], c(64), 3)
    x = c3(b, b.block(x, c(128), 3, 2), c(128), n(3))
    p3 = c3(b, b.block(x, c(256), 3, 2), c(256), n(9))
    p4 = c3(b, b.block(p3, c(512), 3, 2), c(512), n(9))
    top = c3(b, _pooled_at_once(b, b.block(p4, c(1024), 3, 2), c(1024)), c(1024), n(3), shortcut=False)
    neck = partial(c3, blocks=n(3), shortcut=False)
    top = b.block(top, c(512))
    middle = b.block(neck(b, b.concat([b.doubled(top), p4]), c(512)), c(256))
    low = neck(b, b.concat([b.doubled(middle), p3]), c(256))
    middle = neck(b, b.concat([b.block(low, c(256), 3, 2), middle]), c(512))
    maps = [low, middle, neck(b, b.concat([b.block(middle, c(512), 3, 2), top]), c(1024))]
    levels = []
    for x in maps:
        stem = b.block(x, c(256))
        of_classes, of_boxes = (b.block(b.block(stem, c(256), 3), c(256), 3) for _ in range(2))
        scores = b.sigmoid(b.conv(of_classes, labels, bias=True))
        sides, presence = b.conv(of_boxes, 4, bias=True), b.sigmoid(b.conv(of_boxes, 1, bias=True))
        levels.append(b.concat([sides, presence, scores]))
    if heads:
        return b.finish(*levels)
    found = b.transpose(all_positions(b, levels), (0, 2, 1))
    centre, extent, rest = b.split(found, (2, 2, labels + 1), axis=2)
    positions = b.shape(found)[1]
    strides = b.weight((1, positions, 1), stem="strides")
    centre = b.mul(b.add(centre, b.weight((1, positions, 2), stem="grid")), strides)
    return b.finish(b.concat([centre, b.mul(b.op("Exp", [extent])[0], strides), rest], axis=2))


def _windows(b: DetectorBuilder, x: str) -> list[str]:
    """Return a map, and it pooled by windows of 5, 9 and 13."""
    return [x, *(b.max_pool(x, window, 1, window // 2) for window in (5, 9, 13))]


def _pooled_at_once(b: DetectorBuilder, x: str, channels: int) -> str:
    x = b.block(x, b.channels(x) // 2)
    return b.block(b.concat(_windows(b, x)), channels)


# YOLOv6

V6_SIZES: Mapping[str, Size] = {"n": Size(0.33, 0.25), "s": Size(0.33, 0.5), "m": Size(0.6, 0.75)}


def yolov6(name: str, side: int, size: Size, *, release: int = 3, heads: bool = False) -> Graph:
    """Return YOLOv6 of release 2 or 3: plain 3x3 convolutions, in size m two thirds of the channels of a stage."""
    b, (c, n) = DetectorBuilder(name, side, "relu"), (size.channels, size.blocks)
    is_split = size.width > 0.5

    def stage(x: str, channels: int, blocks: int) -> str:
        if not is_split:
            return _plain(b, x, channels, n(blocks))
        inner = int(channels * 2 / 3)
        y = _in_pairs(b, b.block(x, inner), n(blocks))
        return b.block(b.concat([y, b.block(x, inner)]), channels)

    x = b.block(b.image, c(64), 3, 2)
    p2 = stage(b.block(x, c(128), 3, 2), c(128), 6)
    p3 = stage(b.block(p2, c(256), 3, 2), c(256), 12)
    p4 = stage(b.block(p3, c(512), 3, 2), c(512), 18)
    top = stage(b.block(p4, c(1024), 3, 2), c(1024), 6)
    top = pyramid_pooling(b, top, c(1024)) if is_split or release == 2 else _split_pooling(b, top, c(1024))

    def joined(coarse: str, same: str, fine: str, channels: int) -> str:
        up = b.activation(b.conv_transpose(coarse, channels), None)
        if release == 2:
            return b.concat([up, same])
        narrowed = b.block(b.block(fine, channels), channels, 3, 2)
        return b.block(b.concat([up, b.block(same, channels), narrowed]), channels)

    top = b.block(top, c(256))
    middle = b.block(stage(joined(top, p4, p3, c(256)), c(256), 12), c(128))
    low = stage(joined(middle, p3, p2, c(128)), c(128), 12)
    other = stage(b.concat([b.block(low, c(128), 3, 2), middle]), c(256), 12)
    maps = [low, other, stage(b.concat([b.block(other, c(256), 3, 2), top]), c(512), 12)]
    levels, sides_of = [], 4 * (BINS + 1) if is_split else 4
    b.kind = "silu"
    for x in maps:
        stem = b.block(x, b.channels(x))
        scores, sides = (b.block(stem, b.channels(x), 3) for _ in range(2))
        levels.append((b.conv(sides, sides_of, bias=True), b.conv(scores, CLASSES, bias=True)))
    if heads or is_split:
        return undecoded(b, levels)
    sides, scores = (all_positions(b, [level[part] for level in levels]) for part in (0, 1))
    return b.finish(decoded_sides(b, sides, scores))


def _plain(b: DetectorBuilder, x: str, channels: int, blocks: int) -> str:
    for _ in range(blocks):
        x = b.block(x, channels, 3)
    return x


def _in_pairs(b: DetectorBuilder, x: str, blocks: int) -> str:
    """Add half as many pairs of convolutions, each with a shortcut that is scaled by a learned number."""
    for _ in range(blocks // 2):
        y = _plain(b, x, b.channels(x), 2)
        x = b.add(y, b.mul(x, b.weight((1,), stem="alpha")))
    return x


def _split_pooling(b: DetectorBuilder, x: str, channels: int) -> str:
    """Pool one of two branches, after three convolutions and before two."""
    inner = channels // 2
    found = [b.block(b.block(b.block(x, inner), inner, 3), inner)]
    for _ in range(3):
        found.append(b.max_pool(found[-1], 5, 1, 2))
    y = b.block(b.block(b.concat(found), inner), inner, 3)
    return b.block(b.concat([b.block(x, inner), y]), channels)


# YOLOv7


def yolov7(name: str, side: int, *, heads: bool = False) -> Graph:
    """Return YOLOv7."""
    b = DetectorBuilder(name, side)
    x = b.block(b.block(b.block(b.block(b.image, 32, 3), 64, 3, 2), 64, 3), 128, 3, 2)
    x = _aggregated(b, x, 64, 64, 256, 2)
    p3 = _aggregated(b, _shrunk(b, x, 128), 128, 128, 512, 2)
    p4 = _aggregated(b, _shrunk(b, p3, 256), 256, 256, 1024, 2)
    top = _split_pooling_7(b, _aggregated(b, _shrunk(b, p4, 512), 256, 256, 1024, 2), 512)
    middle = _gathered(b, b.concat([b.block(p4, 256), b.doubled(b.block(top, 256))]), 256)
    low = _gathered(b, b.concat([b.block(p3, 128), b.doubled(b.block(middle, 128))]), 128)
    other = _gathered(b, b.concat([_shrunk(b, low, 128), middle]), 256)
    last = _gathered(b, b.concat([_shrunk(b, other, 256), top]), 512)
    return _anchored(b, [b.block(x, 2 * b.channels(x), 3) for x in (low, other, last)], heads)


def yolov7_tiny(name: str, side: int, *, heads: bool = False) -> Graph:
    """Return YOLOv7-tiny, whose activations are leaky ReLUs."""
    b = DetectorBuilder(name, side, "leaky_relu")
    stage = partial(_aggregated, steps=1)
    x = stage(b, b.block(b.block(b.image, 32, 3, 2), 64, 3, 2), 32, 32, 64)
    p3 = stage(b, b.max_pool(x, 2), 64, 64, 128)
    p4 = stage(b, b.max_pool(p3, 2), 128, 128, 256)
    x = stage(b, b.max_pool(p4, 2), 256, 256, 512)
    kept, y = b.block(x, 256), b.block(x, 256)
    pooled = b.block(b.concat(_windows(b, y)[::-1]), 256)
    top = b.block(b.concat([pooled, kept]), 256)
    middle = stage(b, b.concat([b.block(p4, 128), b.doubled(b.block(top, 128))]), 64, 64, 128)
    low = stage(b, b.concat([b.block(p3, 64), b.doubled(b.block(middle, 64))]), 32, 32, 64)
    other = stage(b, b.concat([b.block(low, 128, 3, 2), middle]), 64, 64, 128)
    last = stage(b, b.concat([b.block(other, 256, 3, 2), top]), 128, 128, 256)
    return _anchored(b, [b.block(x, 2 * b.channels(x), 3) for x in (low, other, last)], heads)


def _anchored(b: DetectorBuilder, maps: Maps, heads: bool) -> Graph:
    levels = of_anchors(b, maps)
    return b.finish(*([b.sigmoid(each) for each in levels] if heads else [decoded_anchors(b, levels)]))


def _aggregated(b: DetectorBuilder, x: str, first: int, inner: int, channels: int, steps: int) -> str:
    """Join two branches and what two groups of convolutions add to one of them (Fig. 2 of YOLOv7)."""
    found = [b.block(x, first), b.block(x, first)]
    for _ in range(2):
        found.append(_plain(b, found[-1], inner, steps))
    return b.block(b.concat(found[::-1]), channels)


def _gathered(b: DetectorBuilder, x: str, channels: int) -> str:
    """Join two branches and what each of four convolutions of half the width adds to one of them."""
    found = [b.block(x, channels), b.block(x, channels)]
    for _ in range(4):
        found.append(b.block(found[-1], channels // 2, 3))
    return b.block(b.concat(found[::-1]), channels)


def _shrunk(b: DetectorBuilder, x: str, channels: int) -> str:
    """Halve the size by a pooling and by a convolution, side by side."""
    return b.concat([b.block(b.block(x, channels), channels, 3, 2), b.block(b.max_pool(x, 2), channels)])


def _split_pooling_7(b: DetectorBuilder, x: str, channels: int) -> str:
    y = b.block(b.block(b.block(x, channels), channels, 3), channels)
    y = b.block(b.block(b.concat(_windows(b, y)), channels), channels, 3)
    return b.block(b.concat([y, b.block(x, channels)]), channels)


# YOLOv9


def yolov9c(name: str, side: int, *, heads: bool = False) -> Graph:
    """Return YOLOv9-C without the branch that only training has."""
    b = DetectorBuilder(name, side)
    x = _partial(b, b.block(b.block(b.image, 64, 3, 2), 128, 3, 2), 128, 64, 256)
    p3 = _partial(b, _halves(b, x, 256), 256, 128, 512)
    p4 = _partial(b, _halves(b, p3, 512), 512, 256, 512)
    x = _partial(b, _halves(b, p4, 512), 512, 256, 512)
    found = [b.block(x, 256)]
    for _ in range(3):
        found.append(b.max_pool(found[-1], 5, 1, 2))
    top = b.block(b.concat(found), 512)
    middle = _partial(b, b.concat([b.doubled(top), p4]), 512, 256, 512)
    low = _partial(b, b.concat([b.doubled(middle), p3]), 256, 128, 256)
    other = _partial(b, b.concat([_halves(b, low, 256), middle]), 512, 256, 512)
    maps = [low, other, _partial(b, b.concat([_halves(b, other, 512), top]), 512, 256, 512)]
    narrow, wide = 4 * BINS, b.channels(low)
    levels = []
    for x in maps:
        sides = b.block(b.block(x, narrow, 3), narrow, 3, groups=4)
        scores = b.block(b.block(x, wide, 3), wide, 3)
        levels.append((b.conv(sides, narrow, groups=4, bias=True), b.conv(scores, CLASSES, bias=True)))
    return undecoded(b, levels) if heads else b.finish(decoded_distributions(b, levels))


def _partial(b: DetectorBuilder, x: str, inner: int, narrow: int, channels: int) -> str:
    """Join two halves and what two groups of blocks add to one of them."""
    found = list(b.split(b.block(x, inner), (inner // 2, inner // 2)))
    for _ in range(2):
        y, kept = b.block(found[-1], narrow // 2), b.block(found[-1], narrow // 2)
        y = b.block(b.concat([bottleneck(b, y, True), kept]), narrow)
        found.append(b.block(y, narrow, 3))
    return b.block(b.concat(found), channels)


def _halves(b: DetectorBuilder, x: str, channels: int) -> str:
    """Halve the size: half of the channels by a convolution, half by a pooling."""
    half = b.channels(x) // 2
    first, second = b.split(b.average_pool(x, 2, 1), (half, half))
    return b.concat([b.block(first, channels // 2, 3, 2, padding=1), b.block(b.max_pool(second, 3, 2, 1), channels // 2)])


# YOLOv10

V10_SIZES: Mapping[str, Size] = {
    "n": Size(0.33, 0.25), "s": Size(0.33, 0.5), "m": Size(0.67, 0.75, 768), "b": Size(0.67, 1, 512), "l": Size(1, 1, 512),
    "x": Size(1, 1.25, 512),
}  # fmt: skip

_INVERTED: Mapping[str, frozenset[str]] = {
    "n": frozenset({"last"}), "s": frozenset({"top", "last"}), "m": frozenset({"top", "other", "last"}),
    "b": frozenset({"top", "middle", "other", "last"}), "l": frozenset({"top", "middle", "other", "last"}),
    "x": frozenset({"p4", "top", "middle", "other", "last"}),
}  # fmt: skip
"""Size to stages whose blocks are inverted bottlenecks, in sizes n and s with windows of 7x7."""


def yolov10(name: str, side: int, letter: str, *, heads: bool = False) -> Graph:
    """Return YOLOv10 with the heads of one box an object, which need no suppression."""
    size = V10_SIZES[letter]
    b, (c, n) = DetectorBuilder(name, side), (size.channels, size.blocks)
    window = 7 if letter in "ns" else 3

    def stage(place: str, x: str, channels: int, blocks: int, *, shortcut: bool = False) -> str:
        if place not in _INVERTED[letter]:
            return c2f(b, x, channels, blocks, shortcut=shortcut)
        return c2f(b, x, channels, blocks, shortcut=True, block=partial(_inverted, window=window))

    x = b.block(b.image, c(64), 3, 2)
    x = stage("p2", b.block(x, c(128), 3, 2), c(128), n(3), shortcut=True)
    p3 = stage("p3", b.block(x, c(256), 3, 2), c(256), n(6), shortcut=True)
    p4 = stage("p4", _apart(b, p3, c(512)), c(512), n(6), shortcut=True)
    top = stage("top", _apart(b, p4, c(1024)), c(1024), n(3), shortcut=True)
    top = attending(b, pyramid_pooling(b, top, c(1024)), 1)
    middle = stage("middle", b.concat([b.doubled(top), p4]), c(512), n(3))
    low = stage("low", b.concat([b.doubled(middle), p3]), c(256), n(3))
    other = stage("other", b.concat([b.block(low, c(256), 3, 2), middle]), c(512), n(3))
    maps = [low, other, stage("last", b.concat([_apart(b, other, c(512)), top]), c(1024), n(3))]
    levels = of_distributions(b, maps, separable_classes)
    return undecoded(b, levels) if heads else b.finish(decoded_distributions(b, levels))


def _apart(b: DetectorBuilder, x: str, channels: int) -> str:
    """Halve the size after the channels have changed."""
    return b.depthwise(b.block(x, channels), 3, 2, kind=None)


def _inverted(b: DetectorBuilder, x: str, shortcut: bool, *, window: int) -> str:
    channels = b.channels(x)
    y = b.depthwise(b.block(b.depthwise(x), 2 * channels), window)
    y = b.depthwise(b.block(y, channels))
    return b.add(x, y) if shortcut else y


FIGURES: Mapping[str, tuple[Callable[..., Graph], float, float]] = {
    **{
        f"yolox-{letter}": (partial(yolox, size=X_SIZES[letter]), *figures)
        for letter, figures in {"s": (9.0, 26.8), "m": (25.3, 73.8), "l": (54.2, 155.6), "x": (99.1, 281.9)}.items()
    },
    **{
        f"yolov6{letter}": (partial(yolov6, size=V6_SIZES[letter]), *figures)
        for letter, figures in {"n": (4.7, 11.4), "s": (18.5, 45.3), "m": (34.9, 85.8)}.items()
    },
    "yolov7": (yolov7, 36.9, 104.7),
    "yolov7-tiny": (yolov7_tiny, 6.2, 13.8),
    "yolov9c": (yolov9c, 25.3, 102.1),
    **{
        f"yolov10{letter}": (partial(yolov10, letter=letter), *figures)
        for letter, figures in {
            "n": (2.3, 6.7), "s": (7.2, 21.6), "m": (15.4, 59.1), "b": (19.1, 92.0), "l": (24.4, 120.3), "x": (29.5, 160.4)
        }.items()
    },
}  # fmt: skip
"""Name to what builds it, and its million parameters and billion FLOPs of an image of 640x640 as its authors have them."""
