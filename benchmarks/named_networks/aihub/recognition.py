"""Networks for sounds, texts, faces, boxes and scans.

Sources of the layers: YAMNet, w-hc/torch_audioset; EasyOCR's detector (CRAFT, arXiv 1904.01941) and recogniser (CRNN,
1507.05717); cavalleria/cavaface; Faster R-CNN on the fourth stage of ResNet-50 (facebookresearch/detectron2,
``faster_rcnn_R_50_C4_1x``), its regions sampled as quic/ai-hub-models does it; skhadem/3D-BoundingBox; SalsaNext (2003.03653).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.named_networks.aihub.blocks import Gate, Residual, conv


class YAMNet(nn.Module):
    """MobileNetV1 over a spectrogram, padded as TensorFlow does it."""

    def __init__(self, classes: int = 521) -> None:
        super().__init__()
        rows = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
        rows += [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]
        layers: list[nn.Module] = [nn.ZeroPad2d((0, 1, 0, 1)), conv(1, 32, 3, 2, padding=0)]
        for inputs, outputs, stride in rows:
            layers += [nn.ZeroPad2d((0, 1, 0, 1))] if stride == 2 else []
            layers += [conv(inputs, inputs, 3, stride, groups=inputs, padding=0 if stride == 2 else 1), conv(inputs, outputs, 1)]
        self.body, self.classify = nn.Sequential(*layers), nn.Linear(1024, classes)

    def forward(self, spectrogram: Tensor) -> Tensor:
        return self.classify(functional.adaptive_avg_pool2d(self.body(spectrogram), 1).flatten(1)).sigmoid()


class _Double(nn.Sequential):
    def __init__(self, inputs: int, middle: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, middle, 1), nn.BatchNorm2d(middle), nn.ReLU(),
            nn.Conv2d(middle, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
        )  # fmt: skip


class CRAFT(nn.Module):
    """VGG-16 with batch normalisation, and a U-shaped way up that ends at half of the size."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        layers = list(torchvision.models.vgg16_bn().features)
        self.slices = nn.ModuleList(nn.Sequential(*layers[a:b]) for a, b in ((0, 12), (12, 19), (19, 29), (29, 39)))
        dilated = nn.Conv2d(512, 1024, 3, padding=6, dilation=6)
        self.last = nn.Sequential(nn.MaxPool2d(3, 1, 1), dilated, nn.Conv2d(1024, 1024, 1))
        sizes = ((1536, 512, 256), (768, 256, 128), (384, 128, 64), (192, 64, 32))
        self.up = nn.ModuleList(_Double(*each) for each in sizes)
        head = [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
        tail = [nn.Conv2d(32, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 1), nn.ReLU(), nn.Conv2d(16, 2, 1)]
        self.head = nn.Sequential(*head, *tail)

    def forward(self, image: Tensor) -> Tensor:
        x, maps = image, []
        for each in self.slices:
            x = each(x)
            maps.append(x)
        x = self.up[0](torch.cat([self.last(x), x], 1))
        for up, finer in zip(self.up[1:], reversed(maps[:3]), strict=True):
            x = up(torch.cat([functional.interpolate(x, finer.shape[2:], mode="bilinear"), finer], 1))
        return self.head(x).permute(0, 2, 3, 1)


class CRNN(nn.Module):
    """A convolutional network that leaves a row of columns, and two bidirectional LSTMs over them."""

    def __init__(self, classes: int = 97, width: int = 256) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, pool in ((1, 32, 2), (32, 64, 2), (64, 128, 0), (128, 128, (2, 1))):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), *([nn.MaxPool2d(pool)] if pool else [])]
        layers += [conv(128, 256), conv(256, 256), nn.MaxPool2d((2, 1)), nn.Conv2d(256, width, 2), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.recurrent = nn.ModuleList(nn.LSTM(width, width, bidirectional=True, batch_first=True) for _ in range(2))
        self.narrow = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))
        self.classify = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.body((image - 0.5) / 0.5).mean(2).transpose(1, 2)
        for recurrent, narrow in zip(self.recurrent, self.narrow, strict=True):
            x = narrow(recurrent(x)[0])
        return self.classify(x)


class _FaceBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        gate = nn.Sequential(
            nn.Conv2d(outputs, outputs // 16, 1, bias=False),
            nn.ReLU(),
            nn.Conv2d(outputs // 16, outputs, 1, bias=False),
            nn.Sigmoid(),
        )
        first = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        second = conv(outputs, outputs, 3, stride, activation=None)
        self.body = nn.Sequential(nn.BatchNorm2d(inputs), first, nn.BatchNorm2d(outputs), nn.PReLU(outputs), second, Gate(gate))
        self.shortcut = nn.MaxPool2d(1, stride) if inputs == outputs else conv(inputs, outputs, 1, stride, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class FaceEmbedding(nn.Module):
    """A ResNet of 100 layers for faces, with squeeze-and-excitation."""

    def __init__(self, stages: Sequence[tuple[int, int]] = ((64, 3), (128, 13), (256, 30), (512, 3))) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.PReLU(64)]
        inputs = 64
        for outputs, count in stages:
            for index in range(count):
                layers.append(_FaceBlock(inputs, outputs, 2 if index == 0 else 1))
                inputs = outputs
        self.body = nn.Sequential(*layers, nn.BatchNorm2d(512), nn.Flatten(), nn.Linear(512 * 49, 512), nn.BatchNorm1d(512))

    def forward(self, image: Tensor) -> Tensor:
        x = self.body((image * 255 - 127.5) / 128)
        return x / (x.norm(dim=1, keepdim=True) + 1e-9)


def _stage(inputs: int, width: int, count: int, stride: int) -> nn.Sequential:
    """Bottlenecks with the stride in the first convolution, as Caffe's ResNet has it."""

    def block(entering: int, step: int) -> Residual:
        outputs = 4 * width
        body = nn.Sequential(conv(entering, width, 1, step), conv(width, width), conv(width, outputs, 1, activation=None))
        return Residual(body, None if entering == outputs else conv(entering, outputs, 1, step, activation=None))

    return nn.Sequential(block(inputs, stride), *(block(4 * width, 1) for _ in range(count - 1)))


def _moved(deltas: Tensor, boxes: Tensor, weights: Sequence[float]) -> Tensor:
    """Boxes (count, 4) moved by (..., 4) deltas."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = boxes[..., :2] + 0.5 * size
    scale = torch.tensor(weights)
    deltas = deltas / scale
    centre = deltas[..., :2] * size + centre
    half = (deltas[..., 2:].clamp(max=4.135)).exp() * size / 2
    return torch.cat([centre - half, centre + half], -1)


class ProposalGenerator(nn.Module):
    """ResNet-50 to its fourth stage, and where objects may be: 15 anchors at each of its pixels."""

    def __init__(self, side: int = 50) -> None:
        super().__init__()
        stem = nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(stem, _stage(64, 64, 3, 1), _stage(256, 128, 4, 2), _stage(512, 256, 6, 2))
        self.shared = nn.Conv2d(1024, 1024, 3, padding=1)
        self.scores, self.deltas = nn.Conv2d(1024, 15, 1), nn.Conv2d(1024, 60, 1)
        self.register_buffer("anchors", torch.rand(15 * side * side, 4))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.body((image[:, [2, 1, 0]] - 0.45) / 0.22)
        x = self.shared(features).relu()
        scores = self.scores(x).permute(0, 2, 3, 1).flatten(1)
        deltas = self.deltas(x).permute(0, 2, 3, 1).reshape(-1, 4)
        return features, _moved(deltas, self.anchors, (1.0, 1.0, 1.0, 1.0))[None], scores


class RegionHead(nn.Module):
    """The fifth stage of ResNet-50 over 14x14 samples of each of 200 regions."""

    def __init__(self, classes: int = 80, side: int = 50) -> None:
        super().__init__()
        self.body = _stage(1024, 512, 3, 2)
        self.scores, self.deltas = nn.Linear(2048, classes + 1), nn.Linear(2048, 4 * classes)
        self.side = side

    def forward(self, features: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count, size = boxes.shape[1], 14
        regions = boxes.reshape(count, 4)
        corner = regions[:, :2] / 16 - 0.5
        bins = (regions[:, 2:] / 16 - 0.5 - corner).clamp(min=1e-5) / size
        steps = torch.arange(size) + 0.5
        grid = corner[:, None] + steps[None, :, None] * bins[:, None]
        grid = 2 * grid.clamp(0, self.side - 1) / (self.side - 1) - 1
        columns = grid[:, None, :, :1].repeat(1, size, 1, 1)
        rows = grid[:, :, None, 1:].repeat(1, 1, size, 1)
        sampled = functional.grid_sample(features.repeat(count, 1, 1, 1), torch.cat([columns, rows], -1), align_corners=True)
        x = self.body(sampled).mean((2, 3))
        scores = self.scores(x).softmax(-1)[:, :-1]
        moved = _moved(self.deltas(x).view(count, -1, 4), regions[:, None], (10.0, 10.0, 5.0, 5.0))
        best, label = scores.max(-1)
        chosen = moved.gather(1, label[:, None, None].expand(count, 1, 4))
        return chosen[:, 0], best, label


class DeepBox(nn.Module):
    """VGG-19 with batch normalisation, and three perceptrons: orientation, confidence, dimensions."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        self.body = torchvision.models.vgg19_bn().features

        def head(width: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(512 * 49, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
            )

        self.orientation, self.confidence, self.dimension = head(256, 4), head(256, 2), head(512, 3)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.body(image).flatten(1)
        orientation = functional.normalize(self.orientation(x).view(-1, 2, 2), dim=2)
        return orientation, self.confidence(x), self.dimension(x)


def _leaky(inputs: int, outputs: int, kernel: int, dilation: int = 1) -> nn.Sequential:
    """Activation in front of the normalisation."""
    pad = 1 if kernel == 2 else dilation * (kernel // 2)
    layers: list[nn.Module] = [nn.Conv2d(inputs, outputs, kernel, padding=pad, dilation=dilation), nn.LeakyReLU()]
    return nn.Sequential(*layers, nn.BatchNorm2d(outputs))


class _Context(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(inputs, outputs, 1), nn.LeakyReLU())
        self.body = nn.Sequential(_leaky(outputs, outputs, 3), _leaky(outputs, outputs, 3, 2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        return x + self.body(x)


class _Mixed(nn.Module):
    """Three convolutions after one another whose results are joined."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = _leaky(inputs, outputs, 3), _leaky(outputs, outputs, 3, 2)
        self.third, self.join = _leaky(outputs, outputs, 2, 2), _leaky(3 * outputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.second(a)
        return self.join(torch.cat([a, b, self.third(b)], 1))


class SalsaNext(nn.Module):
    """A U-shaped network over the range image of a LiDAR."""

    def __init__(self, classes: int = 20) -> None:
        super().__init__()
        self.enter = nn.Sequential(_Context(5, 32), _Context(32, 32), _Context(32, 32))
        widths = (32, 64, 128, 256, 256, 256)
        pairs = list(pairwise(widths))
        self.down = nn.ModuleList(_Mixed(a, b) for a, b in pairs)
        self.beside = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 1), nn.LeakyReLU()) for a, b in pairs)
        sizes = ((64 + 256, 128), (32 + 256, 128), (32 + 128, 64), (16 + 64, 32))
        self.up = nn.ModuleList(_Mixed(a, b) for a, b in sizes)
        self.classify = nn.Conv2d(32, classes, 1)

    def forward(self, scan: Tensor) -> Tensor:
        x, maps = self.enter(scan), []
        for index, (down, beside) in enumerate(zip(self.down, self.beside, strict=True)):
            x = beside(x) + down(x)
            if index < 4:
                maps.append(x)
                x = functional.avg_pool2d(x, 3, 2, 1)
        for up, finer in zip(self.up, reversed(maps), strict=True):
            x = up(torch.cat([functional.pixel_shuffle(x, 2), finer], 1))
        return self.classify(x).softmax(1)
