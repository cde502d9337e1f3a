"""Super-resolution networks.

Sources: QuickSRNet (arXiv 2303.04336), SESR (2103.09404) and XLSR (2105.10288) as quic/aimet-model-zoo has them in
``common/super_resolution/models.py``, each at scale 4; Real-ESRGAN (2107.10833).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class QuickSRNet(nn.Module):
    """A chain of 3x3 convolutions clipped to [0, 1]; the large one adds its input, widened by a 1x1 convolution."""

    def __init__(self, width: int, layers: int, *, connected: bool = False, scale: int = 4) -> None:
        super().__init__()
        chain: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.Hardtanh(0, 1)]
        for _ in range(layers):
            chain += [nn.Conv2d(width, width, 3, padding=1), nn.Hardtanh(0, 1)]
        self.chain = nn.Sequential(*chain, nn.Conv2d(width, 3 * scale**2, 3, padding=1))
        self.anchor = nn.Conv2d(3, 3 * scale**2, 1) if connected else None
        self.scale = scale

    def forward(self, image: Tensor) -> Tensor:
        x = self.chain(image)
        if self.anchor is not None:
            x = self.anchor(image) + x
        return nn.functional.pixel_shuffle(x.clamp(0, 1), self.scale)


class SESR(nn.Module):
    """SESR as it is trained: a linear block is a convolution to 256 channels and a 1x1 back, not collapsed."""

    def __init__(self, blocks: int, width: int = 16, scale: int = 4, wide: int = 256) -> None:
        super().__init__()

        def linear(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, wide, kernel, padding=kernel // 2, bias=False), nn.Conv2d(wide, outputs, 1))

        self.first, self.last = linear(3, width, 5), linear(width, 3 * scale**2, 5)
        self.middle = nn.ModuleList(linear(width, width, 3) for _ in range(blocks))
        self.anchor = nn.Conv2d(3, 3 * scale**2, 1)
        self.scale = scale

    def forward(self, image: Tensor) -> Tensor:
        first = x = self.first(image).relu()
        for block in self.middle:
            x = (x + block(x)).relu()
        return nn.functional.pixel_shuffle(self.last(x + first) + self.anchor(image), self.scale)


class XLSR(nn.Module):
    """Three blocks of convolutions in four groups beside a 3x3 convolution of the image."""

    def __init__(self, scale: int = 4) -> None:
        super().__init__()
        groups = [nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=4), nn.ReLU(), nn.Conv2d(32, 32, 1)) for _ in range(3)]
        self.deep = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 1), *groups)
        self.shallow = nn.Conv2d(3, 16, 3, padding=1)
        self.tail = nn.Sequential(nn.Conv2d(48, 32, 1), nn.ReLU(), nn.Conv2d(32, 3 * scale**2, 3, padding=1))
        self.scale = scale

    def forward(self, image: Tensor) -> Tensor:
        x = self.tail(torch.cat([self.deep(image), self.shallow(image)], 1))
        return nn.functional.pixel_shuffle(x, self.scale).clamp(0, 1)


class CompactVGG(nn.Module):
    """Real-ESRGAN's general network: 34 convolutions with PReLU, to which the enlarged image is added."""

    def __init__(self, width: int = 64, layers: int = 32, scale: int = 4) -> None:
        super().__init__()
        chain: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.PReLU(width)]
        for _ in range(layers):
            chain += [nn.Conv2d(width, width, 3, padding=1), nn.PReLU(width)]
        self.chain = nn.Sequential(*chain, nn.Conv2d(width, 3 * scale**2, 3, padding=1), nn.PixelShuffle(scale))
        self.scale = scale

    def forward(self, image: Tensor) -> Tensor:
        return self.chain(image) + nn.functional.interpolate(image, scale_factor=float(self.scale))


class _DenseBlock(nn.Module):
    def __init__(self, width: int, grown: int) -> None:
        super().__init__()
        sizes = [*[grown] * 4, width]
        self.layers = nn.ModuleList(nn.Conv2d(width + i * grown, size, 3, padding=1) for i, size in enumerate(sizes))

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers[:-1]:
            found.append(nn.functional.leaky_relu(layer(torch.cat(found, 1)), 0.2))
        return self.layers[-1](torch.cat(found, 1)) * 0.2 + x


class RRDBNet(nn.Module):
    """ESRGAN's network: residual blocks of three dense blocks each, then two steps of 2."""

    def __init__(self, blocks: int = 23, width: int = 64, grown: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(*(_DenseBlock(width, grown) for _ in range(3))) for _ in range(blocks))
        self.body, self.up1, self.up2, self.high = (nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        first = x = self.first(image)
        for block in self.blocks:
            x = block(x) * 0.2 + x
        x = self.body(x) + first
        for up in (self.up1, self.up2):
            x = nn.functional.leaky_relu(up(nn.functional.interpolate(x, scale_factor=2.0)), 0.2)
        return self.last(nn.functional.leaky_relu(self.high(x), 0.2))
