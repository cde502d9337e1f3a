"""Networks of Qualcomm: detectors of faces, people and protective gear, attributes of faces.

Source of the layers: quic/ai-hub-models, ``qai_hub_models/models/*/layers.py`` and ``model.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benchmarks.named_networks.aihub.blocks import Concat, Gate, Residual, conv


def _small_block(kernel: int, inputs: int, expanded: int, outputs: int, squeeze: bool, stride: int) -> nn.Module:
    """1x1 that widens and one 3x3, or two in place of a 5x5; with the stride in the last of them."""
    last = [conv(expanded, outputs, 3, stride)] if kernel == 3 else [conv(expanded, outputs), conv(outputs, outputs, 3, stride)]
    gate = Gate(nn.Sequential(conv(outputs, outputs // 4, 1), conv(outputs // 4, outputs, 1, activation=nn.Sigmoid)))
    body = nn.Sequential(conv(inputs, expanded, 1), *last, *([gate] if squeeze else []))
    if stride == 2:
        return body
    return Residual(body, None if inputs == outputs else conv(inputs, outputs, 1, activation=None), None)


def _head(width: int, outputs: int, extended: bool) -> nn.Sequential:
    return nn.Sequential(*([conv(width, width)] if extended else []), nn.Conv2d(width, outputs, 1))


class SmallDetector(nn.Module):
    """A backbone of small blocks, a feature pyramid that ends at its finest map, one head for each kind of answer.

    Args:
        channels: Of the image.
        blocks: Kernel, channels in, widened, out, squeeze-and-excitation, stride.
        taken: Blocks whose results the pyramid takes besides the last.
        width: Channels of the pyramid.
        heads: Outputs of each head, in groups that are concatenated, and whether its sigmoid is part of the network.
        extended: Whether a 3x3 convolution stands in front of each head.
    """

    def __init__(
        self,
        channels: int,
        blocks: Sequence[tuple[int, int, int, int, bool, int]],
        taken: Sequence[int],
        width: int,
        heads: Sequence[tuple[Sequence[int], bool]],
        extended: bool,
    ) -> None:
        super().__init__()
        self.stem = conv(channels, 16, 3, 2)
        self.blocks = nn.ModuleList(_small_block(*each) for each in blocks)
        self.taken = taken
        self.top = conv(blocks[-1][3], width, 1)
        self.lateral = nn.ModuleList(conv(blocks[index][3], width, 1) for index in reversed(taken))
        self.up = nn.ModuleList(nn.Sequential(nn.Upsample(scale_factor=2), conv(width, width)) for _ in taken)
        quarter = width // 4
        context = nn.Sequential(
            conv(width, quarter), Concat(conv(quarter, quarter), nn.Sequential(conv(quarter, quarter), conv(quarter, quarter)))
        )
        self.detect = Concat(conv(width, width // 2), context)
        self.heads = nn.ModuleList(nn.ModuleList(_head(width, size, extended) for size in sizes) for sizes, _ in heads)
        self.sigmoids = [sigmoid for _, sigmoid in heads]

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x, maps = self.stem(image), []
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index in self.taken:
                maps.append(x)
        x = self.top(x)
        for up, lateral, finer in zip(self.up, self.lateral, reversed(maps), strict=True):
            x = up(x) + lateral(finer)
        x = self.detect(x)
        results = []
        for group, sigmoid in zip(self.heads, self.sigmoids, strict=True):
            found = [head(x).sigmoid() if sigmoid else head(x) for head in group]
            results.append(found[0] if len(found) == 1 else torch.cat(found, 1))
        return tuple(results)


def face_det_lite() -> nn.Module:
    rows = [
        (3, 16, 16, 16, False, 2), (3, 16, 64, 32, False, 2), (3, 32, 96, 32, False, 1), (5, 32, 96, 32, True, 2),
        (5, 32, 224, 32, True, 1), (5, 32, 224, 32, True, 1), (5, 32, 128, 64, True, 1), (5, 64, 160, 64, True, 1),
        (5, 64, 256, 96, True, 2),
    ]  # fmt: skip
    return SmallDetector(1, rows, [2, 7], 32, [([1], False), ([4], False), ([10], False)], extended=False)


def foot_track_net() -> nn.Module:
    rows = [
        (3, 16, 16, 16, False, 1), (3, 16, 64, 16, False, 2), (3, 16, 64, 16, False, 1), (5, 16, 96, 32, True, 2),
        (5, 32, 96, 32, True, 1), (5, 32, 128, 32, True, 1), (3, 32, 128, 64, False, 2), (3, 64, 128, 64, False, 1),
        (3, 64, 160, 64, False, 1), (3, 64, 160, 64, False, 1), (3, 64, 256, 64, True, 1), (3, 64, 320, 64, True, 1),
        (5, 64, 320, 64, True, 1), (5, 64, 320, 96, True, 2), (5, 96, 480, 96, True, 1),
    ]  # fmt: skip
    heads = [([1, 1, 1], True), ([4, 4, 4], False), ([34], False), ([17], True)]
    return SmallDetector(3, rows, [2, 5, 12], 64, heads, extended=True)


def _grouped(
    inputs: int, middle: int, outputs: int, stride: int, groups: int, *, prelu: bool = True, kernel: int = 3
) -> nn.Sequential:
    """A convolution in groups of 32 channels, and a 1x1 with batch normalisation."""
    padding = 0 if kernel == 8 else 1
    return nn.Sequential(
        nn.Conv2d(inputs, middle, kernel, stride, padding, groups=groups, bias=False),
        conv(middle, outputs, 1, activation=nn.PReLU if prelu else None),
    )


class FaceAttributes(nn.Module):
    """Five attributes of a face, each from a branch over the third and fourth map of one backbone."""

    def __init__(self, width: int = 64, blocks: Sequence[int] = (2, 6, 3), colours: int = 3) -> None:
        super().__init__()
        groups = width // 32
        self.stem = conv(colours, width, activation=nn.PReLU)
        long = nn.Sequential(_grouped(width, width, width, 2, groups), _grouped(width, width, width, 1, groups, prelu=False))
        self.head = Residual(long, _grouped(width, width, width, 2, groups, prelu=False), nn.PReLU)
        self.stages = nn.ModuleList(self._stage(width * 2**index, count) for index, count in enumerate(blocks))
        self.first = nn.ModuleList(_grouped(4 * width, 2 * width, 2 * width, 2, 4 * groups) for _ in range(5))
        self.second = nn.ModuleList(_grouped(10 * width, 5 * width, 2 * width, 2, 10 * groups) for _ in range(5))
        self.classify = nn.ModuleList(nn.Linear(2 * width, 2) for _ in range(5))

    @staticmethod
    def _stage(width: int, count: int) -> nn.Sequential:
        groups = width // 32
        short = _grouped(width, 2 * width, 2 * width, 2, groups)
        long = nn.Sequential(
            _grouped(width, 4 * width, 2 * width, 2, groups), _grouped(2 * width, 4 * width, 2 * width, 1, groups, prelu=False)
        )
        wide = 2 * width
        normal = [
            Residual(
                nn.Sequential(
                    _grouped(wide, 2 * wide, wide, 1, wide // 32), _grouped(wide, 2 * wide, wide, 1, wide // 32, prelu=False)
                ),
                None,
                nn.PReLU,
            )
            for _ in range(count - 1)
        ]
        return nn.Sequential(Residual(long, short, nn.PReLU), *normal)

    def forward(self, image: Tensor) -> Tensor:
        x = self.head(self.stem((image - 0.5) / 0.502))
        x = self.stages[0](x)
        third = self.stages[1](x)
        fourth = self.stages[2](third)
        found = []
        for first, second, classify in zip(self.first, self.second, self.classify, strict=True):
            y = second(torch.cat([first(third), fourth], 1))
            found.append(classify(torch.nn.functional.avg_pool2d(y, 4, 1).flatten(1)))
        return torch.stack(found, 1).softmax(2)[:, :, 1]


class _DoubleBlaze(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int = 5) -> None:
        super().__init__()
        middle = max(outputs, inputs) // 2
        self.pad = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        self.body = nn.Sequential(
            conv(inputs, inputs, kernel, groups=inputs, activation=None),
            conv(inputs, middle, 1),
            conv(middle, middle, kernel, groups=middle, activation=None),
            conv(middle, outputs, 1, activation=None),
        )

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.pad(x)).relu()


def _blazes(inputs: int, outputs: int, count: int) -> nn.Sequential:
    return nn.Sequential(*(_DoubleBlaze(inputs if index == 0 else outputs, outputs) for index in range(count)))


class GearGuard(nn.Module):
    """A YOLO detector of double Blaze blocks: widths halved, a third of the depth; boxes are decoded in the network."""

    anchors = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            [
                nn.Sequential(
                    conv(3, 32, 6, 2, padding=2),
                    conv(32, 64, 3, 2),
                    _blazes(64, 64, 1),
                    conv(64, 128, 3, 2),
                    _blazes(128, 128, 1),
                ),
                nn.Sequential(conv(128, 256, 3, 2), _blazes(256, 256, 3)),
                nn.Sequential(conv(256, 512, 3, 2), _blazes(512, 512, 1), conv(512, 512), conv(512, 256, 1)),
            ]
        )
        self.up1, self.up2 = nn.Sequential(_blazes(512, 256, 1), conv(256, 128, 1)), _blazes(256, 128, 1)
        self.down1, self.down2 = conv(128, 128, 3, 2), conv(256, 256, 3, 2)
        self.join1, self.join2 = _blazes(256, 256, 1), _blazes(512, 512, 1)
        self.heads = nn.ModuleList(nn.Conv2d(width, 3 * (classes + 5), 1) for width in (128, 256, 512))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        p3 = self.stages[0](image)
        p4 = self.stages[1](p3)
        p5 = self.stages[2](p4)
        upsample = nn.functional.interpolate
        n4 = self.up1(torch.cat([upsample(p5, scale_factor=2.0), p4], 1))
        n3 = self.up2(torch.cat([upsample(n4, scale_factor=2.0), p3], 1))
        m4 = self.join1(torch.cat([self.down1(n3), n4], 1))
        m5 = self.join2(torch.cat([self.down2(m4), p5], 1))
        maps = [head(x) for head, x in zip(self.heads, (n3, m4, m5), strict=True)]
        return anchor_boxes(maps, self.anchors)


def anchor_boxes(maps: Sequence[Tensor], anchors: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Corners, scores and classes of all anchors, as YOLOv5 and its like decode them."""
    boxes, scores = [], []
    for level, (x, sizes) in enumerate(zip(maps, anchors, strict=True)):
        batch, channels, height, width = x.shape
        stride, count = 8 * 2**level, len(sizes) // 2
        x = x.reshape(batch, count, channels // count, height, width).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack([columns, rows], -1).reshape(1, 1, height * width, 2).float()
        flat = x.reshape(batch, count, height * width, channels // count)
        centre = (flat[..., :2] * 2 - 0.5 + grid) * stride
        size = (flat[..., 2:4] * 2) ** 2 * torch.tensor(sizes, dtype=torch.float32).reshape(1, count, 1, 2)
        boxes.append(torch.cat([centre - size / 2, centre + size / 2], -1).reshape(batch, -1, 4))
        scores.append((flat[..., 5:] * flat[..., 4:5]).reshape(batch, -1, channels // count - 5))
    score, index = torch.cat(scores, 1).max(-1)
    return torch.cat(boxes, 1), score, index
