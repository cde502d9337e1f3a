"""YOLO detectors and segmenters, from their published structure.

Sources: widths, depths and connections as the papers and configuration files state them: YOLOv7-tiny (arXiv 2207.02696),
YOLOv6-n 3.0 (2301.05586), YOLOv8 and YOLO11 (figures of parameters and FLOPs: docs.ultralytics.com), YOLOv5 and tiny YOLOv3
with YOLOv8's head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.named_networks.aihub.blocks import Concat, Residual, conv
from benchmarks.named_networks.aihub.qualcomm import anchor_boxes


def silu(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return conv(inputs, outputs, kernel, stride, groups=groups, activation=nn.SiLU)


def _two(width: int, middle: int, kernels: tuple[int, int], *, shortcut: bool) -> nn.Module:
    body = nn.Sequential(silu(width, middle, kernels[0]), silu(middle, width, kernels[1]))
    return Residual(body, None, None) if shortcut else body


class C2f(nn.Module):
    """Split in two; one half passes blocks, and the result of each is kept."""

    def __init__(self, inputs: int, outputs: int, blocks: Sequence[nn.Module], width: int | None = None) -> None:
        super().__init__()
        self.width = width or outputs // 2
        self.enter = silu(inputs, 2 * self.width)
        self.blocks = nn.ModuleList(blocks)
        self.leave = silu((2 + len(self.blocks)) * self.width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        found = list(self.enter(x).split(self.width, 1))
        for block in self.blocks:
            found.append(block(found[-1]))
        return self.leave(torch.cat(found, 1))


def c2f(inputs: int, outputs: int, count: int, *, shortcut: bool) -> C2f:
    half = outputs // 2
    return C2f(inputs, outputs, [_two(half, half, (3, 3), shortcut=shortcut) for _ in range(count)])


class C3(nn.Module):
    """Two 1x1 convolutions, behind one of which blocks follow."""

    def __init__(self, inputs: int, outputs: int, count: int, *, shortcut: bool, kernels: tuple[int, int] = (1, 3)) -> None:
        super().__init__()
        half = outputs // 2
        blocks = (_two(half, half, kernels, shortcut=shortcut) for _ in range(count))
        self.branches = Concat(nn.Sequential(silu(inputs, half), *blocks), silu(inputs, half))
        self.leave = silu(2 * half, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.branches(x))


def c3k2(inputs: int, outputs: int, count: int, *, deep: bool, ratio: float = 0.5) -> C2f:
    """YOLO11's block: C2f of bottlenecks that narrow, or of C3 blocks."""
    width = int(outputs * ratio)
    blocks = [
        C3(width, width, 2, shortcut=True, kernels=(3, 3)) if deep else _two(width, width // 2, (3, 3), shortcut=True)
        for _ in range(count)
    ]
    return C2f(inputs, outputs, blocks, width)


class Pooling(nn.Module):
    """A chain of three 5x5 max poolings whose results are concatenated."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter, self.leave = silu(width, width // 2), silu(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.enter(x)]
        for _ in range(3):
            found.append(functional.max_pool2d(found[-1], 5, 1, 2))
        return self.leave(torch.cat(found, 1))


class _Attention(nn.Module):
    """Attention of all pixels to all, keys of half a head's width, with a depthwise convolution of the values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size, self.key = heads, width // heads, width // heads // 2
        self.qkv = conv(width, width + 2 * self.key * heads, 1, activation=None)
        self.position, self.leave = conv(width, width, 3, groups=width, activation=None), conv(width, width, 1, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        batch, width, height, columns = x.shape
        parts = self.qkv(x).view(batch, self.heads, 2 * self.key + self.size, height * columns)
        q, k, v = parts.split([self.key, self.key, self.size], 2)
        weights = ((q.transpose(-2, -1) @ k) * self.key**-0.5).softmax(-1)
        y = (v @ weights.transpose(-2, -1)).view(batch, width, height, columns)
        return self.leave(y + self.position(v.reshape(batch, width, height, columns)))


class _AttentionBlock(nn.Module):
    """YOLO11's C2PSA."""

    def __init__(self, width: int, count: int = 1) -> None:
        super().__init__()
        self.half = width // 2
        self.enter, self.leave = silu(width, width), silu(width, width)
        blocks = []
        for _ in range(count):
            feed = nn.Sequential(silu(self.half, 2 * self.half), conv(2 * self.half, self.half, 1, activation=None))
            blocks += [Residual(_Attention(self.half, self.half // 64), None, None), Residual(feed, None, None)]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.enter(x).split(self.half, 1)
        return self.leave(torch.cat([a, self.blocks(b)], 1))


class Head(nn.Module):
    """Boxes as distributions over 16 distances, and classes, on each map; a segmenter has masks besides.

    Args:
        widths: Of the maps.
        strides: Of the maps.
        light: Whether classes come from depthwise convolutions, as in YOLO11.
        masks: Channels of the layers that make the prototypes of masks, 0 for a detector.
    """

    def __init__(
        self, widths: Sequence[int], strides: Sequence[int], classes: int = 80, *, light: bool = False, masks: int = 0
    ) -> None:
        super().__init__()
        box, score, mask = max(16, widths[0] // 4, 64), max(widths[0], min(classes, 100)), max(widths[0] // 4, 32)

        def branch(width: int, middle: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(silu(width, middle, 3), silu(middle, middle, 3), nn.Conv2d(middle, outputs, 1))

        def light_branch(width: int) -> nn.Sequential:
            pairs = ((width, score), (score, score))
            layers = [layer for a, b in pairs for layer in (silu(a, a, 3, groups=a), silu(a, b))]
            return nn.Sequential(*layers, nn.Conv2d(score, classes, 1))

        self.boxes = nn.ModuleList(branch(width, box, 64) for width in widths)
        self.scores = nn.ModuleList(light_branch(width) if light else branch(width, score, classes) for width in widths)
        self.masks = nn.ModuleList(branch(width, mask, 32) for width in widths) if masks else None
        if masks:
            up = nn.ConvTranspose2d(masks, masks, 2, 2)
            self.prototypes = nn.Sequential(silu(widths[0], masks, 3), up, silu(masks, masks, 3), silu(masks, 32))
        self.bins = nn.Conv2d(16, 1, 1, bias=False)
        self.strides = strides

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, ...]:
        boxes = torch.cat([layer(x).flatten(2) for layer, x in zip(self.boxes, maps, strict=True)], 2)
        scores = torch.cat([layer(x).flatten(2) for layer, x in zip(self.scores, maps, strict=True)], 2).sigmoid()
        count = boxes.shape[2]
        distances = self.bins(boxes.view(1, 4, 16, count).transpose(2, 1).softmax(1)).view(1, 4, count)
        points, scale = [], []
        for x, stride in zip(maps, self.strides, strict=True):
            rows, columns = torch.meshgrid(torch.arange(x.shape[2]) + 0.5, torch.arange(x.shape[3]) + 0.5, indexing="ij")
            points.append(torch.stack([columns.flatten(), rows.flatten()]))
            scale.append(torch.full((x.shape[2] * x.shape[3],), float(stride)))
        centre, stride = torch.cat(points, 1)[None], torch.cat(scale)[None, None]
        near, far = distances.chunk(2, 1)
        corners = torch.cat([centre - near, centre + far], 1) * stride
        best, label = scores.permute(0, 2, 1).max(-1)
        found = (corners.permute(0, 2, 1), best, label)
        if self.masks is None:
            return found
        weights = torch.cat([layer(x).flatten(2) for layer, x in zip(self.masks, maps, strict=True)], 2)
        return (*found, weights.permute(0, 2, 1), self.prototypes(maps[0]))


class Pyramid(nn.Module):
    """A backbone of five levels, a neck that goes up and down again, and a head.

    Args:
        stages: Backbone up to 1/8, to 1/16, to 1/32.
        up: Blocks behind the two concatenations on the way up, and what narrows a map before it is enlarged.
        down: Blocks on the way down, and the convolutions in front of the concatenations.
    """

    def __init__(
        self,
        stages: Sequence[nn.Module],
        narrow: Sequence[nn.Module],
        up: Sequence[nn.Module],
        steps: Sequence[nn.Module],
        down: Sequence[nn.Module],
        head: nn.Module,
    ) -> None:
        super().__init__()
        self.stages, self.narrow, self.up = nn.ModuleList(stages), nn.ModuleList(narrow), nn.ModuleList(up)
        self.steps, self.down, self.head = nn.ModuleList(steps), nn.ModuleList(down), head

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        p3 = self.stages[0](image)
        p4 = self.stages[1](p3)
        n5 = self.narrow[0](self.stages[2](p4))
        n4 = self.narrow[1](self.up[0](torch.cat([functional.interpolate(n5, scale_factor=2.0), p4], 1)))
        n3 = self.up[1](torch.cat([functional.interpolate(n4, scale_factor=2.0), p3], 1))
        m4 = self.down[0](torch.cat([self.steps[0](n3), n4], 1))
        return self.head([n3, m4, self.down[1](torch.cat([self.steps[1](m4), n5], 1))])


def yolov8(widths: Sequence[int], depths: Sequence[int], *, classes: int = 80, masks: int = 0) -> Pyramid:
    """Args: widths of the five levels, blocks of the second to fifth."""
    a, b, c, d, e = widths
    counts = depths
    stages = [
        nn.Sequential(
            silu(3, a, 3, 2),
            silu(a, b, 3, 2),
            c2f(b, b, counts[0], shortcut=True),
            silu(b, c, 3, 2),
            c2f(c, c, counts[1], shortcut=True),
        ),
        nn.Sequential(silu(c, d, 3, 2), c2f(d, d, counts[2], shortcut=True)),
        nn.Sequential(silu(d, e, 3, 2), c2f(e, e, counts[3], shortcut=True), Pooling(e)),
    ]
    n = counts[0]
    up = [c2f(d + e, d, n, shortcut=False), c2f(c + d, c, n, shortcut=False)]
    down = [c2f(c + d, d, n, shortcut=False), c2f(d + e, e, n, shortcut=False)]
    head = Head((c, d, e), (8, 16, 32), classes, masks=masks)
    return Pyramid(stages, [nn.Identity(), nn.Identity()], up, [silu(c, c, 3, 2), silu(d, d, 3, 2)], down, head)


def yolov11n_seg() -> Pyramid:
    stages = [
        nn.Sequential(
            silu(3, 16, 3, 2), silu(16, 32, 3, 2), c3k2(32, 64, 1, deep=False, ratio=0.25),
            silu(64, 64, 3, 2), c3k2(64, 128, 1, deep=False, ratio=0.25),
        ),
        nn.Sequential(silu(128, 128, 3, 2), c3k2(128, 128, 1, deep=True)),
        nn.Sequential(silu(128, 256, 3, 2), c3k2(256, 256, 1, deep=True), Pooling(256), _AttentionBlock(256)),
    ]  # fmt: skip
    up = [c3k2(384, 128, 1, deep=False), c3k2(256, 64, 1, deep=False)]
    down = [c3k2(192, 128, 1, deep=False), c3k2(384, 256, 1, deep=True)]
    head = Head((64, 128, 256), (8, 16, 32), light=True, masks=64)
    return Pyramid(stages, [nn.Identity(), nn.Identity()], up, [silu(64, 64, 3, 2), silu(128, 128, 3, 2)], down, head)


def yolov5mu() -> Pyramid:
    stem = conv(3, 48, 6, 2, padding=2, activation=nn.SiLU)
    stages = [
        nn.Sequential(
            stem, silu(48, 96, 3, 2), C3(96, 96, 2, shortcut=True), silu(96, 192, 3, 2), C3(192, 192, 4, shortcut=True)
        ),
        nn.Sequential(silu(192, 384, 3, 2), C3(384, 384, 6, shortcut=True)),
        nn.Sequential(silu(384, 768, 3, 2), C3(768, 768, 2, shortcut=True), Pooling(768)),
    ]
    up = [C3(768, 384, 2, shortcut=False), C3(384, 192, 2, shortcut=False)]
    down = [C3(384, 384, 2, shortcut=False), C3(768, 768, 2, shortcut=False)]
    steps = [silu(192, 192, 3, 2), silu(384, 384, 3, 2)]
    return Pyramid(stages, [silu(768, 384), silu(384, 192)], up, steps, down, Head((192, 384, 768), (8, 16, 32)))


class TinyV3(nn.Module):
    """Tiny YOLOv3 with YOLOv8's head."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 64, 128)
        chain = [layer for a, b in zip((3, *widths), widths, strict=False) for layer in (silu(a, b, 3), nn.MaxPool2d(2))]
        self.fine = nn.Sequential(*chain, silu(128, 256, 3))
        last = nn.Sequential(
            silu(256, 512, 3), nn.ZeroPad2d((0, 1, 0, 1)), nn.MaxPool2d(2, 1), silu(512, 1024, 3), silu(1024, 256)
        )
        self.coarse = nn.Sequential(nn.MaxPool2d(2), last)
        self.large, self.narrow, self.join = silu(256, 512, 3), silu(256, 128), silu(384, 256, 3)
        self.head = Head((256, 512), (16, 32))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        fine = self.fine(image)
        x = self.coarse(fine)
        up = functional.interpolate(self.narrow(x), scale_factor=2.0)
        return self.head([self.join(torch.cat([up, fine], 1)), self.large(x)])


def _leaky() -> nn.Module:
    return nn.LeakyReLU(0.1)


def _l(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    return conv(inputs, outputs, kernel, stride, activation=_leaky)


class _Elan(nn.Module):
    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = _l(inputs, width), _l(inputs, width), _l(width, width, 3), _l(width, width, 3)
        self.leave = _l(4 * width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a(x), self.b(x)
        c = self.c(b)
        return self.leave(torch.cat([self.d(c), c, b, a], 1))


class TinyV7(nn.Module):
    """YOLOv7-tiny with its boxes decoded."""

    anchors = ((12, 16, 19, 36, 40, 28), (36, 75, 76, 55, 72, 146), (142, 110, 192, 243, 459, 401))

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        pool = nn.MaxPool2d(2)
        self.third = nn.Sequential(_l(3, 32, 3, 2), _l(32, 64, 3, 2), _Elan(64, 32, 64), pool, _Elan(64, 64, 128))
        self.fourth = nn.Sequential(pool, _Elan(128, 128, 256))
        self.fifth = nn.Sequential(pool, _Elan(256, 256, 512))
        pools = (nn.MaxPool2d(size, 1, size // 2) for size in (13, 9, 5))
        self.pools = nn.Sequential(_l(512, 256), Concat(*pools, nn.Identity()), _l(1024, 256))
        self.beside, self.mix = _l(512, 256), _l(512, 256)
        self.narrow5, self.side4, self.up4 = _l(256, 128), _l(256, 128), _Elan(256, 64, 128)
        self.narrow4, self.side3, self.up3 = _l(128, 64), _l(128, 64), _Elan(128, 32, 64)
        self.step4, self.down4 = _l(64, 128, 3, 2), _Elan(256, 64, 128)
        self.step5, self.down5 = _l(128, 256, 3, 2), _Elan(512, 128, 256)
        self.last = nn.ModuleList(
            nn.Sequential(_l(width, 2 * width, 3), nn.Conv2d(2 * width, 3 * (classes + 5), 1)) for width in (64, 128, 256)
        )

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        p3 = self.third(image)
        p4 = self.fourth(p3)
        p5 = self.fifth(p4)
        n5 = self.mix(torch.cat([self.pools(p5), self.beside(p5)], 1))
        n4 = self.up4(torch.cat([self.side4(p4), functional.interpolate(self.narrow5(n5), scale_factor=2.0)], 1))
        n3 = self.up3(torch.cat([self.side3(p3), functional.interpolate(self.narrow4(n4), scale_factor=2.0)], 1))
        m4 = self.down4(torch.cat([self.step4(n3), n4], 1))
        m5 = self.down5(torch.cat([self.step5(m4), n5], 1))
        return anchor_boxes([last(x) for last, x in zip(self.last, (n3, m4, m5), strict=True)], self.anchors)


def _rep(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """RepVGG's block as it is deployed: one 3x3 convolution."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1), nn.ReLU())


def _reps(inputs: int, outputs: int, count: int) -> nn.Sequential:
    return nn.Sequential(_rep(inputs, outputs), *(_rep(outputs, outputs) for _ in range(count - 1)))


class _Fusion(nn.Module):
    def __init__(self, same: int, finer: int, outputs: int) -> None:
        super().__init__()
        self.up, self.same = nn.ConvTranspose2d(outputs, outputs, 2, 2), conv(same, outputs, 1)
        self.down, self.leave = (
            nn.Sequential(conv(finer, outputs, 1), conv(outputs, outputs, 3, 2)),
            conv(3 * outputs, outputs, 1),
        )

    def forward(self, coarse: Tensor, same: Tensor, finer: Tensor) -> Tensor:
        return self.leave(torch.cat([self.up(coarse), self.same(same), self.down(finer)], 1))


class _CspPooling(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.enter = nn.Sequential(conv(width, half, 1), conv(half, half), conv(half, half, 1))
        self.beside, self.middle = conv(width, half, 1), nn.Sequential(conv(4 * half, half, 1), conv(half, half))
        self.leave = conv(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.enter(x)]
        for _ in range(3):
            found.append(functional.max_pool2d(found[-1], 5, 1, 2))
        return self.leave(torch.cat([self.beside(x), self.middle(torch.cat(found, 1))], 1))


class YoloV6(nn.Module):
    """YOLOv6-n 3.0 as it is deployed."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.second = nn.Sequential(_rep(3, 16, 2), _rep(16, 32, 2), _reps(32, 32, 2))
        self.third = nn.Sequential(_rep(32, 64, 2), _reps(64, 64, 4))
        self.fourth = nn.Sequential(_rep(64, 128, 2), _reps(128, 128, 6))
        self.fifth = nn.Sequential(_rep(128, 256, 2), _reps(256, 256, 2), _CspPooling(256))
        self.narrow5, self.fuse4, self.up4 = conv(256, 64, 1), _Fusion(128, 64, 64), _reps(64, 64, 4)
        self.narrow4, self.fuse3, self.up3 = conv(64, 32, 1), _Fusion(64, 32, 32), _reps(32, 32, 4)
        self.step4, self.down4 = conv(32, 32, 3, 2), _reps(64, 64, 4)
        self.step5, self.down5 = conv(64, 64, 3, 2), _reps(128, 128, 4)
        self.heads = nn.ModuleList(nn.ModuleList(self._head(width, classes)) for width in (32, 64, 128))

    @staticmethod
    def _head(width: int, classes: int) -> list[nn.Module]:
        branches = [nn.Sequential(silu(width, width, 3), nn.Conv2d(width, outputs, 1)) for outputs in (classes, 4)]
        return [silu(width, width), *branches]

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        p2 = self.second(image)
        p3 = self.third(p2)
        p4 = self.fourth(p3)
        n5 = self.narrow5(self.fifth(p4))
        n4 = self.narrow4(self.up4(self.fuse4(n5, p4, p3)))
        n3 = self.up3(self.fuse3(n4, p3, p2))
        m4 = self.down4(torch.cat([self.step4(n3), n4], 1))
        m5 = self.down5(torch.cat([self.step5(m4), n5], 1))
        scores, boxes = [], []
        for level, (x, (stem, score, box)) in enumerate(zip((n3, m4, m5), self.heads, strict=True)):
            y, stride = stem(x), 8.0 * 2**level
            rows, columns = torch.meshgrid(torch.arange(x.shape[2]) + 0.5, torch.arange(x.shape[3]) + 0.5, indexing="ij")
            centre = torch.stack([columns.flatten(), rows.flatten()])[None]
            near, far = box(y).flatten(2).chunk(2, 1)
            boxes.append(torch.cat([centre - near, centre + far], 1) * stride)
            scores.append(score(y).sigmoid().flatten(2))
        best, label = torch.cat(scores, 2).permute(0, 2, 1).max(-1)
        return torch.cat(boxes, 2).permute(0, 2, 1), best, label
