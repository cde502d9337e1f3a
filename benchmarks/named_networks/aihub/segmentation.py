"""Networks that label every pixel.

Sources of the layers: FFNet, Qualcomm-AI-research/FFNet; BiSeNet with ResNet-18, ooooverflow/BiSeNet (arXiv 1808.00897);
DDRNet-23-slim (2101.06085); PIDNet-S (2206.02066); DeepLabV3+ (1802.02611) with MobileNetV2,
jfzhang95/pytorch-deeplab-xception.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.named_networks.aihub.blocks import Concat, Gate, Residual, basic_block, basic_stage, bottleneck, conv


def _enlarged(x: Tensor, like: Tensor) -> Tensor:
    return functional.interpolate(x, like.shape[2:], mode="bilinear")


class FFNet(nn.Module):
    """A ResNet of basic blocks and a pyramid whose four levels are brought to the finest one.

    Args:
        stem: Channels of its convolutions; the first two halve the image.
        first: Blocks before the finest level is taken, none where it is taken from the stem.
        stages: (channels, blocks, stride) of each stage.
        levels: Channels of the pyramid's levels, from the finest.
        smooth: Channels that each level gives.
        middle: Channels of the head.
        head_kernel: Of its last convolution.
        halved: Whether the image is smoothed and halved first.
    """

    def __init__(
        self,
        stem: Sequence[int],
        stages: Sequence[tuple[int, int, int]],
        levels: Sequence[int],
        smooth: Sequence[int],
        middle: int,
        head_kernel: int,
        classes: int = 19,
        *,
        halved: bool = False,
    ) -> None:
        super().__init__()
        # Gaussian smoothing that halves the image: a part of the networks that were trained for images of twice their size.
        self.smooth_image = nn.Conv2d(3, 3, 5, 2, groups=3, bias=False) if halved else None
        sizes = [3, *stem]
        self.stem = nn.Sequential(*(conv(sizes[i], sizes[i + 1], 3, 2 if i < 2 else 1) for i in range(len(stem))))
        widths = [stem[-1], *(width for width, _, _ in stages)]
        self.stages = nn.ModuleList(
            basic_stage(widths[i], width, blocks, stride) for i, (width, blocks, stride) in enumerate(stages)
        )
        self.adapt = nn.ModuleList(conv(width, level, 1) for width, level in zip(widths[-4:], levels, strict=True))
        self.smooth = nn.ModuleList(conv(level, out) for level, out in zip(levels, smooth, strict=True))
        self.up = nn.ModuleList(conv(levels[i + 1], levels[i], 1) for i in range(3))
        last = nn.Conv2d(middle, classes, head_kernel, padding=head_kernel // 2)
        self.head = nn.Sequential(conv(sum(smooth), middle), last)

    def forward(self, image: Tensor) -> Tensor:
        if self.smooth_image is not None:
            image = self.smooth_image(functional.pad(image, (0, 0, 1, 1), mode="reflect"))
        maps = [self.stem(image)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        maps = [adapt(x) for adapt, x in zip(self.adapt, maps[-4:], strict=True)]
        x, found = maps[3], [self.smooth[3](maps[3])]
        for level in (2, 1, 0):
            x = functional.interpolate(self.up[level](x), maps[level].shape[2:]) + maps[level]
            found.insert(0, self.smooth[level](x))
        return self.head(torch.cat([found[0], *(functional.interpolate(each, found[0].shape[2:]) for each in found[1:])], 1))


def ffnet_s(blocks: Sequence[int], first_stride: int, *, large: bool) -> FFNet:
    """A slim FFNet of four stages: one for large images, or one that halves its image first."""
    stages = [
        (width, count, stride) for width, count, stride in zip((64, 128, 192, 320), blocks, (first_stride, 2, 2, 2), strict=True)
    ]
    if large:
        return FFNet((32, 64), stages, (64, 128, 128, 256), (96, 96, 64, 32), 256, 3)
    return FFNet((32, 64), stages, (128, 128, 128, 128), (128, 16, 16, 16), 128, 1, halved=True)


def ffnet_122ns() -> FFNet:
    stages = [(64, 16, 2), (128, 24, 2), (256, 20, 2)]
    return FFNet((64, 64, 64), stages, (128, 128, 128, 128), (128, 16, 16, 16), 128, 1, halved=True)


class _Attention(nn.Sequential):
    def __init__(self, width: int) -> None:
        super().__init__(Gate(nn.Sequential(nn.Conv2d(width, width, 1), nn.BatchNorm2d(width), nn.Sigmoid())))


class BiSeNet(nn.Module):
    """A shallow path at an eighth of the size beside ResNet-18."""

    def __init__(self, classes: int = 12) -> None:
        super().__init__()
        self.spatial = nn.Sequential(conv(3, 64, 3, 2), conv(64, 128, 3, 2), conv(128, 256, 3, 2))
        stem = nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.third = nn.Sequential(stem, basic_stage(64, 64, 2, 1), basic_stage(64, 128, 2, 2), basic_stage(128, 256, 2, 2))
        self.fourth = basic_stage(256, 512, 2, 2)
        self.attend3, self.attend4 = _Attention(256), _Attention(512)
        self.fuse = conv(1024, classes)
        self.gate = Gate(nn.Sequential(nn.Conv2d(classes, classes, 1), nn.ReLU(), nn.Conv2d(classes, classes, 1), nn.Sigmoid()))
        self.last = nn.Conv2d(classes, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        fine = self.spatial(image)
        third = self.third(image)
        fourth = self.fourth(third)
        tail = fourth.mean((2, 3), keepdim=True)
        third, fourth = self.attend3(third), self.attend4(fourth) * tail
        x = self.fuse(torch.cat([fine, _enlarged(third, fine), _enlarged(fourth, fine)], 1))
        x = self.gate(x) + x
        return self.last(functional.interpolate(x, scale_factor=8.0, mode="bilinear"))


def _pre(inputs: int, outputs: int, kernel: int, groups: int = 1) -> nn.Sequential:
    """Batch normalisation and activation in front of a convolution."""
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), convolution)


def _scales(inputs: int, width: int) -> nn.ModuleList:
    pools = [nn.AvgPool2d(2 * stride + 1, stride, stride) for stride in (2, 4, 8)]
    return nn.ModuleList(nn.Sequential(pool, _pre(inputs, width, 1)) for pool in (*pools, nn.AdaptiveAvgPool2d(1)))


class _DeepPooling(nn.Module):
    """DAPPM: each pooling adds the last one's result and is smoothed; in parallel (PAPPM) all of them are smoothed in groups."""

    def __init__(self, inputs: int, width: int, outputs: int, *, parallel: bool) -> None:
        super().__init__()
        self.first, self.scales = _pre(inputs, width, 1), _scales(inputs, width)
        if parallel:
            self.process = nn.ModuleList([_pre(4 * width, 4 * width, 3, 4)])
        else:
            self.process = nn.ModuleList(_pre(width, width, 3) for _ in range(4))
        self.join, self.shortcut = _pre(5 * width, outputs, 1), _pre(inputs, outputs, 1)
        self.parallel = parallel

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        if self.parallel:
            pooled = [_enlarged(scale(x), x) + first for scale in self.scales]
            found = [first, self.process[0](torch.cat(pooled, 1))]
        else:
            found = [first]
            for scale, process in zip(self.scales, self.process, strict=True):
                found.append(process(_enlarged(scale(x), x) + found[-1]))
        return self.join(torch.cat(found, 1)) + self.shortcut(x)


def _stage(inputs: int, outputs: int, blocks: int, stride: int = 1) -> nn.Sequential:
    """Basic blocks of which the last ends with its sum."""
    count = blocks - 1
    later = [basic_block(outputs, outputs, last=None if index == count - 1 else nn.ReLU) for index in range(count)]
    return nn.Sequential(basic_block(inputs, outputs, stride, last=nn.ReLU if count else None), *later)


def _wide(inputs: int, stride: int = 1) -> Residual:
    return bottleneck(inputs, inputs, stride, expansion=2, last=None)


def _stem() -> nn.Sequential:
    return nn.Sequential(conv(3, 32, 3, 2), conv(32, 32, 3, 2))


class DDRNet(nn.Module):
    """Two branches, at an eighth and down to a sixty-fourth of the size, that exchange their results twice."""

    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        self.layer2 = nn.Sequential(_stem(), _stage(32, 32, 2), nn.ReLU(), _stage(32, 64, 2, 2), nn.ReLU())
        self.layer3, self.layer4 = _stage(64, 128, 2, 2), _stage(128, 256, 2, 2)
        self.fine3, self.fine4 = _stage(64, 64, 2), _stage(64, 64, 2)
        self.up3, self.up4 = conv(128, 64, 1, activation=None), conv(256, 64, 1, activation=None)
        self.down3 = conv(64, 128, 3, 2, activation=None)
        self.down4 = nn.Sequential(conv(64, 128, 3, 2), conv(128, 256, 3, 2, activation=None))
        self.fine5, self.layer5 = _wide(64), _wide(256, 2)
        self.pooling = _DeepPooling(512, 128, 128, parallel=False)
        self.head = nn.Sequential(_pre(128, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, classes, 1))

    def forward(self, image: Tensor) -> Tensor:
        second = self.layer2(image)
        third = self.layer3(second)
        fine = self.fine3(second)
        x = third + self.down3(fine.relu())
        fine = fine + _enlarged(self.up3(third.relu()), fine)
        fourth = self.layer4(x.relu())
        fine = self.fine4(fine.relu())
        x = fourth + self.down4(fine.relu())
        fine = fine + _enlarged(self.up4(fourth.relu()), fine)
        fine = self.fine5(fine.relu())
        return self.head(_enlarged(self.pooling(self.layer5(x.relu())), fine) + fine)


class _PixelAttention(nn.Module):
    def __init__(self, width: int, middle: int) -> None:
        super().__init__()
        self.own, self.other = conv(width, middle, 1, activation=None), conv(width, middle, 1, activation=None)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        weight = (self.own(x) * _enlarged(self.other(y), x)).sum(1, keepdim=True).sigmoid()
        return (1 - weight) * x + weight * _enlarged(y, x)


class PIDNet(nn.Module):
    """Three branches: details, context, boundaries."""

    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        self.layer2 = nn.Sequential(_stem(), _stage(32, 32, 2), nn.ReLU(), _stage(32, 64, 2, 2), nn.ReLU())
        self.layer3, self.layer4 = _stage(64, 128, 3, 2), _stage(128, 256, 3, 2)
        self.layer5 = nn.Sequential(bottleneck(256, 256, 2, expansion=2), bottleneck(512, 256, expansion=2, last=None))
        self.detail3, self.detail4, self.detail5 = _stage(64, 64, 2), _stage(64, 64, 2), _wide(64)
        self.narrow3, self.narrow4 = conv(128, 64, 1, activation=None), conv(256, 64, 1, activation=None)
        self.attend3, self.attend4 = _PixelAttention(64, 32), _PixelAttention(64, 32)
        self.edge3, self.edge4, self.edge5 = basic_block(64, 32, last=None), _wide(32), _wide(64)
        self.difference3, self.difference4 = conv(128, 32, activation=None), conv(256, 64, activation=None)
        self.pooling = _DeepPooling(512, 96, 128, parallel=True)
        self.mix1, self.mix2 = conv(128, 128, 1, activation=None), conv(128, 128, 1, activation=None)
        self.head = nn.Sequential(_pre(128, 128, 3), nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, classes, 1))

    def forward(self, image: Tensor) -> Tensor:
        x = self.layer2(image)
        detail, edge = self.detail3(x), self.edge3(x)
        x = self.layer3(x).relu()
        detail = self.attend3(detail, self.narrow3(x))
        edge = edge + _enlarged(self.difference3(x), edge)
        x = self.layer4(x).relu()
        detail, edge = self.detail4(detail.relu()), self.edge4(edge.relu())
        detail = self.attend4(detail, self.narrow4(x))
        edge = edge + _enlarged(self.difference4(x), edge)
        detail, edge = self.detail5(detail.relu()), self.edge5(edge.relu())
        x = _enlarged(self.pooling(self.layer5(x)), detail)
        weight = edge.sigmoid()
        return self.head(self.mix1((1 - weight) * x + detail) + self.mix2(x + weight * detail))


def _inverted(inputs: int, outputs: int, stride: int, expansion: int, dilation: int) -> nn.Module:
    wide = inputs * expansion
    body = nn.Sequential(
        *([conv(inputs, wide, 1, activation=nn.ReLU6)] if expansion != 1 else []),
        conv(wide, wide, 3, stride, groups=wide, dilation=dilation, activation=nn.ReLU6),
        conv(wide, outputs, 1, activation=None),
    )
    return Residual(body, None, None) if stride == 1 and inputs == outputs else body


class _ImagePooling(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = conv(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return _enlarged(self.body(x.mean((2, 3), keepdim=True)), x)


class DeepLabMobile(nn.Module):
    """DeepLabV3+ over MobileNetV2, whose last two stages keep a sixteenth of the size."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        rows = (
            (1, 16, 1, 1, 1), (6, 24, 2, 2, 1), (6, 32, 3, 2, 1), (6, 64, 4, 2, 1), (6, 96, 3, 1, 1), (6, 160, 3, 1, 1),
            (6, 320, 1, 1, 2),
        )  # fmt: skip
        blocks, inputs = [conv(3, 32, 3, 2, activation=nn.ReLU6)], 32
        for expansion, outputs, count, stride, dilation in rows:
            for index in range(count):
                blocks.append(_inverted(inputs, outputs, stride if index == 0 else 1, expansion, dilation))
                inputs = outputs
        self.low, self.high = nn.Sequential(*blocks[:4]), nn.Sequential(*blocks[4:])
        atrous = [conv(320, 256, 1), *(conv(320, 256, dilation=dilation) for dilation in (6, 12, 18))]
        self.pyramid = nn.Sequential(Concat(*atrous, _ImagePooling(320, 256)), conv(1280, 256, 1))
        self.narrow = conv(24, 48, 1)
        self.head = nn.Sequential(conv(304, 256), conv(256, 256), nn.Conv2d(256, classes, 1))

    def forward(self, image: Tensor) -> Tensor:
        low = self.low(image)
        x = self.pyramid(self.high(low))
        x = self.head(torch.cat([_enlarged(x, low), self.narrow(low)], 1))
        return _enlarged(x, image).argmax(1)


class _Separable(nn.Sequential):
    """Depthwise and 1x1, each with batch normalisation; activations stand after both, or one in front."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, dilation: int = 1, *, first: bool = True) -> None:
        after = None if first else nn.ReLU
        deep = conv(inputs, inputs, 3, stride, groups=inputs, dilation=dilation, activation=after)
        super().__init__(*([nn.ReLU()] if first else []), deep, conv(inputs, outputs, 1, activation=after))


class _XceptionBlock(nn.Module):
    def __init__(
        self, widths: Sequence[int], stride: int = 1, dilation: int = 1, *, shortcut: str = "conv", first: bool = True
    ) -> None:
        super().__init__()
        self.start = nn.Sequential(*(_Separable(widths[i], widths[i + 1], 1, dilation, first=first) for i in range(2)))
        self.end = _Separable(widths[2], widths[3], stride, dilation, first=first)
        self.shortcut = {"conv": lambda: conv(widths[0], widths[3], 1, stride, activation=None), "sum": nn.Identity}.get(
            shortcut, lambda: None
        )()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        middle = self.start(x)
        y = self.end(middle)
        return (y if self.shortcut is None else y + self.shortcut(x)), middle


class DeepLabXception(nn.Module):
    """DeepLabV3+ over Xception-65, as LikeLy-Journey/SegmenTron has it."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 32, 3, 2), conv(32, 64))
        self.entry = nn.ModuleList(
            _XceptionBlock(widths, 2) for widths in ((64, 128, 128, 128), (128, 256, 256, 256), (256, 728, 728, 728))
        )
        self.middle = nn.ModuleList(_XceptionBlock((728,) * 4, shortcut="sum") for _ in range(16))
        self.exit = nn.ModuleList(
            [
                _XceptionBlock((728, 728, 1024, 1024)),
                _XceptionBlock((1024, 1536, 1536, 2048), dilation=2, shortcut="none", first=False),
            ]
        )
        atrous = [_Separable(2048, 256, dilation=dilation, first=False) for dilation in (6, 12, 18)]
        self.pyramid = nn.Sequential(Concat(conv(2048, 256, 1), *atrous, _ImagePooling(2048, 256)), conv(1280, 256, 1))
        self.narrow = conv(256, 48, 1)
        self.head = nn.Sequential(
            _Separable(304, 256, first=False), _Separable(256, 256, first=False), nn.Conv2d(256, classes, 1)
        )

    def forward(self, image: Tensor) -> Tensor:
        x, _ = self.entry[0](self.stem(image))
        x, low = self.entry[1](x)
        x, _ = self.entry[2](x)
        for block in (*self.middle, *self.exit):
            x, _ = block(x)
        x = _enlarged(self.pyramid(x), low)
        return _enlarged(self.head(torch.cat([x, self.narrow(low)], 1)), image).argmax(1)


class PSPNet(nn.Module):
    """ResNet-101 at an eighth of the size with a pyramid of poolings (arXiv 1612.01105), over an image and its mirror image."""

    def __init__(self, classes: int = 150) -> None:
        super().__init__()
        stem = nn.Sequential(conv(3, 64, 3, 2), conv(64, 64), conv(64, 128), nn.MaxPool2d(3, 2, 1))
        stages = ((128, 64, 3, 1, 1), (256, 128, 4, 2, 1), (512, 256, 23, 1, 2), (1024, 512, 3, 1, 4))
        self.body = nn.Sequential(stem, *(self._stage(*each) for each in stages))
        self.pools = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(size), conv(2048, 512, 1)) for size in (1, 2, 3, 6))
        self.head = nn.Sequential(conv(4096, 512), nn.Conv2d(512, classes, 1))

    @staticmethod
    def _stage(inputs: int, width: int, count: int, stride: int, dilation: int) -> nn.Sequential:
        blocks, outputs = [], 4 * width
        for index in range(count):
            entering, step = (inputs, stride) if index == 0 else (outputs, 1)
            middle = conv(width, width, 3, step, dilation=dilation)
            body = nn.Sequential(conv(entering, width, 1), middle, conv(width, outputs, 1, activation=None))
            blocks.append(Residual(body, conv(entering, outputs, 1, step, activation=None) if index == 0 else None))
        return nn.Sequential(*blocks)

    def forward(self, image: Tensor) -> Tensor:
        x = self.body(torch.cat([image, image.flip(3)], 0))
        x = self.head(torch.cat([x, *(_enlarged(pool(x), x) for pool in self.pools)], 1))
        return _enlarged(x, image)[:1]


class _Mixing(nn.Module):
    """BGNet's module that joins a map with a coarser one: four parts, each with a larger dilation."""

    def __init__(self, coarse: int, width: int) -> None:
        super().__init__()
        quarter = width // 4
        self.enter, self.leave = conv(coarse + width, width, 1), conv(width, width, 1)
        self.parts = nn.ModuleList(conv(quarter, quarter, dilation=dilation) for dilation in (1, 2, 3, 4))
        self.last = conv(width, width)

    def forward(self, x: Tensor, coarse: Tensor) -> Tensor:
        x = self.enter(torch.cat([x, _enlarged(coarse, x)], 1))
        a, b, c, d = x.chunk(4, 1)
        p = self.parts[0](a + b)
        q = self.parts[1](b + p + c)
        r = self.parts[2](c + q + d)
        return self.last(x + self.leave(torch.cat([p, q, r, self.parts[3](d + r)], 1)))


class _EdgeGuided(nn.Module):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.body, self.along = conv(width, width), nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor, edge: Tensor) -> Tensor:
        x = self.body(x * _enlarged(edge, x) + x)
        weight = self.along(x.mean((2, 3))[:, None]).sigmoid()
        return x * weight[:, 0, :, None, None]


class BGNet(nn.Module):
    """Camouflaged objects by their boundaries (arXiv 2207.00794), over timm's Res2Net-50-D."""

    def __init__(self) -> None:
        super().__init__()
        import timm

        self.body = timm.create_model("res2net50d", features_only=True, out_indices=(1, 2, 3, 4))
        self.narrow1, self.narrow4 = conv(256, 64, 1), conv(2048, 256, 1)
        self.edge = nn.Sequential(conv(320, 256), conv(256, 256), nn.Conv2d(256, 1, 1))
        self.guided = nn.ModuleList(_EdgeGuided(width, 5) for width in (256, 512, 1024, 2048))
        self.reduce = nn.ModuleList(conv(a, b, 1) for a, b in ((256, 64), (512, 128), (1024, 256), (2048, 256)))
        self.mix = nn.ModuleList([_Mixing(128, 64), _Mixing(256, 128), _Mixing(256, 256)])
        self.predict = nn.ModuleList(nn.Conv2d(width, 1, 1) for width in (64, 128, 256))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        maps = self.body(image)
        coarse = _enlarged(self.narrow4(maps[3]), maps[0])
        edge = self.edge(torch.cat([coarse, self.narrow1(maps[0])], 1)).sigmoid()
        maps = [reduce(guided(x, edge)) for x, guided, reduce in zip(maps, self.guided, self.reduce, strict=True)]
        x, found = maps[3], []
        for index in (2, 1, 0):
            x = self.mix[index](maps[index], x)
            found.append(_enlarged(self.predict[index](x), image))
        return (*found, _enlarged(edge, image))


class _AotBlock(nn.Module):
    """Four dilations of a convolution, mixed with the input by a gate."""

    def __init__(self, width: int, rates: Sequence[int] = (1, 2, 4, 8)) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.ReflectionPad2d(rate), nn.Conv2d(width, width // 4, 3, dilation=rate), nn.ReLU()) for rate in rates
        )
        self.fuse = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3))
        self.gate = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.fuse(torch.cat([part(x) for part in self.parts], 1))
        gate = self.gate(x)
        mean, deviation = gate.mean((2, 3), keepdim=True), gate.std((2, 3), keepdim=True) + 1e-9
        mask = (5 * (2 * (gate - mean) / deviation - 1)).sigmoid()
        return x * (1 - mask) + y * mask


class AOTGAN(nn.Module):
    """What fills a hole in an image (arXiv 2104.01431)."""

    def __init__(self, blocks: int = 8) -> None:
        super().__init__()
        down = [nn.ReflectionPad2d(3), nn.Conv2d(4, 64, 7), nn.ReLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.ReLU()]
        self.down = nn.Sequential(*down, nn.Conv2d(128, 256, 4, 2, 1), nn.ReLU())
        self.body = nn.Sequential(*(_AotBlock(256) for _ in range(blocks)))
        self.up1, self.up2, self.last = (nn.Conv2d(a, b, 3, padding=1) for a, b in ((256, 128), (128, 64), (64, 3)))

    def forward(self, image: Tensor, mask: Tensor) -> Tensor:
        x = self.body(self.down(torch.cat([image * (1 - mask) + mask, mask], 1)))
        for up in (self.up1, self.up2):
            x = up(functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)).relu()
        filled = self.last(x).tanh()
        return filled * mask + image * (1 - mask)


def fully_convolutional() -> nn.Module:
    """torchvision's FCN over ResNet-50 with the class of every pixel."""
    from torchvision.models.segmentation import fcn_resnet50

    class Labels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = fcn_resnet50(weights=None, weights_backbone=None, aux_loss=False)

        def forward(self, image: Tensor) -> Tensor:
            return self.model(image)["out"].argmax(1)

    return Labels()
