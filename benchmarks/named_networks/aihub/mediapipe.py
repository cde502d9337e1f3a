"""MediaPipe's detectors of faces, poses and hands and the networks that find their landmarks.

Source of the layers: zmurez/MediaPipePyTorch (``blazeface.py``, ``blazepose_landmark.py``...), the detector of faces being that
of the rear camera (hollance/BlazeFace-PyTorch); padding and separate answers as quic/ai-hub-models changes them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class Blaze(nn.Module):
    """Depthwise and 1x1 beside a sum; at stride 2 the sum takes a max pooling, new channels are zeros or a 1x1 convolution."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, *, prelu: bool = False, project: bool = False
    ) -> None:
        super().__init__()
        self.stride, self.more = stride, outputs - inputs
        self.pads = (0, 2, 0, 2) if kernel == 3 else (1, 2, 1, 2)
        self.deep = nn.Conv2d(inputs, inputs, kernel, stride, 0 if stride == 2 else kernel // 2, groups=inputs)
        self.point = nn.Conv2d(inputs, outputs, 1)
        self.project = nn.Conv2d(inputs, outputs, 1) if project else None
        self.activation = nn.PReLU(outputs) if prelu else nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = functional.pad(x, self.pads) if self.stride == 2 else x
        x = functional.max_pool2d(x, 2) if self.stride == 2 else x
        if self.project is not None:
            x = self.project(x)
        elif self.more:
            x = functional.pad(x, (0, 0, 0, 0, 0, self.more))
        return self.activation(self.point(self.deep(y)) + x)


def chain(*steps: tuple[int, ...], kernel: int = 3, prelu: bool = False, project: bool = False) -> nn.Sequential:
    """Blocks of (inputs, outputs, stride, how many of them at stride 1 follow)."""
    blocks: list[nn.Module] = []
    for inputs, outputs, stride, more in steps:
        blocks.append(Blaze(inputs, outputs, kernel, stride, prelu=prelu, project=project and stride == 2))
        blocks += [Blaze(outputs, outputs, kernel, prelu=prelu) for _ in range(more)]
    return nn.Sequential(*blocks)


def _rows(x: Tensor, size: int) -> Tensor:
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, size)


class Detector(nn.Module):
    """Two maps, on each of which boxes and scores are read."""

    def __init__(self, fine: nn.Module, coarse: nn.Module, widths: tuple[int, int], numbers: int, pads: Sequence[int]) -> None:
        super().__init__()
        self.fine, self.coarse, self.numbers, self.pads = fine, coarse, numbers, tuple(pads)
        self.scores = nn.ModuleList(nn.Conv2d(width, count, 1) for width, count in zip(widths, (2, 6), strict=True))
        self.boxes = nn.ModuleList(nn.Conv2d(width, count * numbers, 1) for width, count in zip(widths, (2, 6), strict=True))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x = self.fine(functional.pad(image, self.pads) if self.pads else image)
        maps = (x, self.coarse(x))
        boxes = [_rows(head(each), self.numbers) for head, each in zip(self.boxes, maps, strict=True)]
        scores = [_rows(head(each), 1) for head, each in zip(self.scores, maps, strict=True)]
        return (*boxes, *scores)


def face_detector() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 24, 5, 2), nn.ReLU())
    fine = nn.Sequential(stem, chain((24, 24, 1, 6), (24, 24, 2, 7), (24, 48, 2, 7), (48, 96, 2, 7)))
    coarse = nn.Sequential(nn.ZeroPad2d((0, 2, 0, 2)), nn.Conv2d(96, 96, 3, 2, groups=96), nn.Conv2d(96, 96, 1), nn.ReLU())
    return Detector(fine, coarse, (96, 96), 16, (2, 2, 2, 2))


def pose_detector() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 48, 5, padding=2), nn.ReLU())
    fine = nn.Sequential(stem, chain((48, 48, 1, 2), (48, 64, 2, 3), (64, 96, 2, 6), (96, 128, 2, 7), kernel=5, project=True))
    return Detector(fine, chain((128, 256, 2, 6), kernel=5, project=True), (128, 256), 12, (1, 2, 2, 2))


class PalmDetector(nn.Module):
    """Three maps of a feature pyramid."""

    def __init__(self) -> None:
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU())
        self.fine = nn.Sequential(stem, chain((32, 32, 1, 6), (32, 64, 2, 7), (64, 128, 2, 7)))
        self.middle, self.coarse = chain((128, 256, 2, 7)), chain((256, 256, 2, 7))
        self.up1, self.up2 = nn.ConvTranspose2d(256, 256, 2, 2), nn.ConvTranspose2d(256, 128, 2, 2)
        self.join1, self.join2 = Blaze(256, 256), Blaze(128, 128)
        sizes = ((128, 2), (256, 2), (256, 6))
        self.scores = nn.ModuleList(nn.Conv2d(width, count, 1) for width, count in sizes)
        self.boxes = nn.ModuleList(nn.Conv2d(width, 18 * count, 1) for width, count in sizes)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x = self.fine(functional.pad(image, (0, 1, 0, 1)))
        y = self.middle(x)
        z = self.coarse(y)
        y = self.join1(y + self.up1(z).relu())
        x = self.join2(x + self.up2(y).relu())
        boxes = [_rows(head(each), 18) for head, each in zip(self.boxes, (x, y, z), strict=True)]
        scores = [_rows(head(each), 1) for head, each in zip(self.scores, (x, y, z), strict=True)]
        return torch.cat(boxes, 1), torch.cat(scores, 1)


class FaceLandmarks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.PReLU(16))
        steps = ((16, 16, 1, 1), (16, 32, 2, 2), (32, 64, 2, 2), (64, 128, 2, 2), (128, 128, 2, 2))
        self.body = nn.Sequential(stem, chain(*steps, prelu=True))

        def branch(more: int, outputs: int) -> nn.Sequential:
            narrow = nn.Sequential(nn.Conv2d(128, 32, 1), nn.PReLU(32), Blaze(32, 32, prelu=True), nn.Conv2d(32, outputs, 3))
            return nn.Sequential(chain((128, 128, 2, more), prelu=True), narrow)

        self.landmarks, self.flag = branch(2, 1404), branch(0, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(functional.pad(image, (0, 1, 0, 1)))
        return self.flag(x).sigmoid().view(-1), self.landmarks(x).view(-1, 468, 3) / 192


def _separable(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs), nn.Conv2d(inputs, outputs, 1), nn.ReLU())


def _twice(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="bilinear")


class PoseLandmarks(nn.Module):
    """A pyramid down, up, and down again; the segmentation it also finds is cut off."""

    def __init__(self) -> None:
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, 24, 3, 2), nn.ReLU())
        self.b1 = nn.Sequential(stem, chain((24, 24, 1, 1)))
        self.b2, self.b3 = chain((24, 48, 2, 3)), chain((48, 96, 2, 4))
        self.b4, self.b5 = chain((96, 192, 2, 5)), chain((192, 288, 2, 6))
        self.u1, self.u2, self.u3, self.u4 = (_separable(width, 48) for width in (288, 192, 96, 48))
        self.u5, self.u6, self.u7 = (_separable(width, width) for width in (96, 192, 288))
        self.d1, self.d2, self.d3 = chain((48, 96, 2, 4)), chain((96, 192, 2, 5)), chain((192, 288, 2, 6))
        self.d4 = nn.Sequential(chain((288, 288, 2, 7), (288, 288, 2, 6)), Blaze(288, 288))
        self.flag, self.landmarks = nn.Conv2d(288, 1, 2), nn.Conv2d(288, 124, 2)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        y = self.b2(self.b1(functional.pad(image, (0, 1, 0, 1))))
        z = self.b3(y)
        w = self.b4(z)
        v = self.b5(w)
        w1 = self.u2(w) + _twice(self.u1(v))
        z1 = self.u3(z) + _twice(w1)
        x = self.u4(y) + _twice(z1)
        for down, side, same in ((self.d1, self.u5, z), (self.d2, self.u6, w), (self.d3, self.u7, v)):
            x = down(x) + side(same)
        x = self.d4(x)
        return self.flag(x).view(-1).sigmoid(), (self.landmarks(x).view(1, 31, 4) / 256)[:, :25]


class HandLandmarks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, 24, 3, 2), nn.ReLU())
        self.b1 = nn.Sequential(stem, chain((24, 24, 1, 1), (24, 48, 2, 0), kernel=5))
        self.b2, self.b3, self.b4 = (chain((inputs, inputs, 1, 1), (inputs, 96, 2, 0), kernel=5) for inputs in (48, 96, 96))
        self.j1, self.j2, self.narrow = Blaze(96, 96, 5), Blaze(96, 96, 5), nn.Conv2d(96, 48, 1)
        steps = ((48, 48, 1, 3), (48, 96, 2, 4), (96, 288, 2, 4), (288, 288, 2, 4), (288, 288, 2, 4), (288, 288, 2, 4))
        self.body = chain(*steps, kernel=5)
        self.flag, self.handed, self.landmarks = nn.Conv2d(288, 1, 2), nn.Conv2d(288, 1, 2), nn.Conv2d(288, 63, 2)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.b1(functional.pad(image, (0, 1, 0, 1)))
        y = self.b2(x)
        z = self.b3(y)
        z = self.j1(z + _twice(self.b4(z)))
        y = self.narrow(self.j2(y + _twice(z)))
        x = self.body(x + _twice(y))
        return self.flag(x).view(-1).sigmoid(), self.handed(x).view(-1).sigmoid(), self.landmarks(x).view(-1, 21, 3) / 256
