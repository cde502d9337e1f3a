"""YOLO detectors of Ultralytics as their exporters write them: boxes decoded, no suppression.

Structures as the documentation of YOLOv5, YOLOv8 and YOLO11 describes them; sizes n, s, m, l and x differ in depth and width. A
network with ``-heads`` behind its name ends with what its heads return.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.named_networks import other_yolos
from benchmarks.named_networks.detector_blocks import (
    CLASSES,
    PROTOTYPES,
    DetectorBuilder,
    Maps,
    Size,
    all_positions,
    attending,
    c2f,
    c3,
    decoded_anchors,
    decoded_distributions,
    dense_classes,
    halved,
    nested,
    of_anchors,
    of_distributions,
    of_masks,
    pyramid_pooling,
    separable_classes,
    undecoded,
)
from latcast.graph.ir import Graph

SIDES = (640, 320, 416)
"""Pixels, the usual ones first."""

V5_SIZES: Mapping[str, Size] = {
    "n": Size(0.33, 0.25), "s": Size(0.33, 0.5), "m": Size(0.67, 0.75), "l": Size(1, 1), "x": Size(1.33, 1.25),
}  # fmt: skip
V8_SIZES: Mapping[str, Size] = {
    "n": Size(0.33, 0.25), "s": Size(0.33, 0.5), "m": Size(0.67, 0.75, 768), "l": Size(1, 1, 512), "x": Size(1, 1.25, 512),
}  # fmt: skip
V11_SIZES: Mapping[str, Size] = {
    "n": Size(0.5, 0.25), "s": Size(0.5, 0.5), "m": Size(0.5, 1, 512), "l": Size(1, 1, 512), "x": Size(1, 1.5, 512),
}  # fmt: skip


def yolov5(name: str, side: int, size: Size, *, anchors: bool = True, masks: bool = False, heads: bool = False) -> Graph:
    """Return YOLOv5 with the detector that refines anchors, or with YOLOv8's (``yolov5nu``)."""
    b, (c, n) = DetectorBuilder(name, side), (size.channels, size.blocks)
    x = b.block(b.image, c(64), 6, 2, padding=2)
    x = c3(b, b.block(x, c(128), 3, 2), c(128), n(3))
    p3 = c3(b, b.block(x, c(256), 3, 2), c(256), n(6))
    p4 = c3(b, b.block(p3, c(512), 3, 2), c(512), n(9))
    top = pyramid_pooling(b, c3(b, b.block(p4, c(1024), 3, 2), c(1024), n(3)), c(1024))
    neck = partial(c3, shortcut=False)
    top = b.block(top, c(512))
    middle = b.block(neck(b, b.concat([b.doubled(top), p4]), c(512), n(3)), c(256))
    low = neck(b, b.concat([b.doubled(middle), p3]), c(256), n(3))
    middle = neck(b, b.concat([b.block(low, c(256), 3, 2), middle]), c(512), n(3))
    maps = [low, middle, neck(b, b.concat([b.block(middle, c(512), 3, 2), top]), c(1024), n(3))]
    if not anchors:
        return b.finish(decoded_distributions(b, of_distributions(b, maps, dense_classes)))
    of_mask = PROTOTYPES if masks else 0
    levels = of_anchors(b, maps, CLASSES + 5 + of_mask)
    more = [b.block(b.block(b.doubled(b.block(low, c(256), 3)), c(256), 3), PROTOTYPES)] if masks else []
    return b.finish(*([b.sigmoid(each) for each in levels] if heads else [decoded_anchors(b, levels, of_mask)]), *more)


def yolov8(
    name: str, side: int, size: Size, *, masks: bool = False, points: int = 0, angles: bool = False, labels: int = CLASSES,
    heads: bool = False,
) -> Graph:  # fmt: skip
    """Return YOLOv8, with masks of instances (``yolov8n-seg``), key points of three values, angles of boxes, or none of these."""
    b, (c, n) = DetectorBuilder(name, side), (size.channels, size.blocks)
    x = b.block(b.image, c(64), 3, 2)
    x = c2f(b, b.block(x, c(128), 3, 2), c(128), n(3), shortcut=True)
    p3 = c2f(b, b.block(x, c(256), 3, 2), c(256), n(6), shortcut=True)
    p4 = c2f(b, b.block(p3, c(512), 3, 2), c(512), n(6), shortcut=True)
    top = c2f(b, b.block(p4, c(1024), 3, 2), c(1024), n(3), shortcut=True)
    maps = _both_ways(b, p3, p4, pyramid_pooling(b, top, c(1024)), size, 3, c2f, c2f)
    more = 3 * points or int(angles)
    if not more:
        return _detector(b, maps, size, dense_classes, masks=masks, labels=labels, heads=heads)
    narrow = max(b.channels(maps[0]) // 4, more)
    others = [b.conv(b.block(b.block(x, narrow, 3), narrow, 3), more, bias=True) for x in maps]
    return undecoded(b, of_distributions(b, maps, dense_classes, labels=labels), *others)


def yolo11(name: str, side: int, size: Size, *, masks: bool = False, heads: bool = False) -> Graph:
    """Return YOLO11, with masks of instances (``yolo11n-seg``) or without. From size m on, all its blocks are nested."""
    b, (c, n) = DetectorBuilder(name, side), (size.channels, size.blocks)
    every = partial(c2f, shortcut=True, block=nested)
    plain = partial(c2f, shortcut=True, block=halved) if size.width < 1 else every
    x = b.block(b.block(b.image, c(64), 3, 2), c(128), 3, 2)
    x = plain(b, x, c(256), n(2), part=0.25)
    p3 = plain(b, b.block(x, c(256), 3, 2), c(512), n(2), part=0.25)
    p4 = every(b, b.block(p3, c(512), 3, 2), c(512), n(2))
    top = every(b, b.block(p4, c(1024), 3, 2), c(1024), n(2))
    top = attending(b, pyramid_pooling(b, top, c(1024)), n(2))
    maps = _both_ways(b, p3, p4, top, size, 2, plain, every)
    return _detector(b, maps, size, separable_classes, masks=masks, heads=heads)


def _both_ways(
    b: DetectorBuilder, p3: str, p4: str, top: str, size: Size, blocks: int, stage: Callable[..., str], last: Callable[..., str]
) -> list[str]:
    """Add coarse maps to fine ones, then fine ones to coarse ones (Liu et al., "PANet", 2018)."""
    c, n = size.channels, size.blocks(blocks)
    middle = stage(b, b.concat([b.doubled(top), p4]), c(512), n)
    low = stage(b, b.concat([b.doubled(middle), p3]), c(256), n)
    middle = stage(b, b.concat([b.block(low, c(256), 3, 2), middle]), c(512), n)
    return [low, middle, last(b, b.concat([b.block(middle, c(512), 3, 2), top]), c(1024), n)]


def _detector(
    b: DetectorBuilder, maps: Maps, size: Size, classes: Callable[[DetectorBuilder, str, int], str], *, masks: bool,
    labels: int = CLASSES, heads: bool,
) -> Graph:  # fmt: skip
    levels = of_distributions(b, maps, classes, labels=labels)
    boxes = "" if heads else decoded_distributions(b, levels)
    coefficients, of_masks_too = of_masks(b, maps, size.channels(256)) if masks else ([], "")
    more = [of_masks_too] if masks else []
    if heads:
        return undecoded(b, levels, *coefficients, *more)
    return b.finish(b.concat([boxes, all_positions(b, coefficients)]) if masks else boxes, *more)


_FIGURES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "yolov5": {"n": (1.9, 4.5), "s": (7.2, 16.5), "m": (21.2, 49.0), "l": (46.5, 109.1), "x": (86.7, 205.7)},
    "yolov5-seg": {"n": (2.0, 7.1), "s": (7.6, 26.4), "m": (22.0, 70.8), "l": (47.9, 147.7), "x": (88.8, 265.7)},
    "yolov5u": {"n": (2.6, 7.7), "s": (9.1, 24.0), "m": (25.1, 64.2), "l": (53.2, 135.0), "x": (97.2, 246.4)},
    "yolov8": {"n": (3.2, 8.7), "s": (11.2, 28.6), "m": (25.9, 78.9), "l": (43.7, 165.2), "x": (68.2, 257.8)},
    "yolov8-seg": {"n": (3.4, 12.6), "s": (11.8, 42.6), "m": (27.3, 110.2), "l": (46.0, 220.5), "x": (71.8, 344.1)},
    "yolov8-pose": {"n": (3.3, 9.2), "s": (11.6, 30.2), "m": (26.4, 81.0)},
    "yolov8-obb": {"n": (3.1, 8.4)},
    "yolo11": {"n": (2.6, 6.5), "s": (9.4, 21.5), "m": (20.1, 68.0), "l": (25.3, 86.9), "x": (56.9, 194.9)},
    "yolo11-seg": {"n": (2.9, 10.4), "s": (10.1, 35.5), "m": (22.4, 123.3), "l": (27.6, 142.2), "x": (62.1, 319.0)},
}
_MAKES: Mapping[str, tuple[Callable[..., Graph], Mapping[str, Size]]] = {
    "yolov5": (yolov5, V5_SIZES),
    "yolov5-seg": (partial(yolov5, masks=True), V5_SIZES),
    "yolov5u": (partial(yolov5, anchors=False), V5_SIZES),
    "yolov8": (yolov8, V8_SIZES),
    "yolov8-seg": (partial(yolov8, masks=True), V8_SIZES),
    "yolov8-pose": (partial(yolov8, points=17, labels=1), V8_SIZES),
    "yolov8-obb": (partial(yolov8, angles=True, labels=15), V8_SIZES),
    "yolo11": (yolo11, V11_SIZES),
    "yolo11-seg": (partial(yolo11, masks=True), V11_SIZES),
}

PUBLISHED: Mapping[str, tuple[Callable[..., Graph], float, float]] = {
    **{
        re.sub(r"(?<=5|8)(?=u|-|$)|(?<=11)(?=-|$)", letter, kind): (partial(make, size=sizes[letter]), *figures)
        for kind, (make, sizes) in _MAKES.items()
        for letter, figures in _FIGURES[kind].items()
    },
    **other_yolos.FIGURES,
}
"""Name to what builds it, and its million parameters and billion FLOPs (two a multiply-accumulate) of an image of 640x640 as its
authors have them. Ultralytics' of segmentations count four times as much for the transposed convolution, which has an output for
each weight."""

HEADS_ALONE = "yolov8n-pose", "yolov8s-pose", "yolov8m-pose", "yolov8n-obb", "yolov6m"
"""Networks of which decoding is left out."""

ALWAYS_DECODED = tuple(f"yolov5{letter}u" for letter in "nsmlx")
"""Networks that no collection of an NPU's ends before."""


def graphs() -> dict[str, tuple[Callable[[str, int], Graph], Sequence[int]]]:
    """Return what builds each network, by name, and the sides of its images, the usual one first."""
    whole = {name: (make, SIDES) for name, (make, _, _) in PUBLISHED.items() if name not in HEADS_ALONE}
    heads = {
        f"{name}-heads": (make if name in HEADS_ALONE else partial(make, heads=True), SIDES[:1])
        for name, (make, _, _) in PUBLISHED.items()
        if name not in ALWAYS_DECODED
    }
    return {**whole, **heads}
