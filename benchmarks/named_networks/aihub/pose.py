"""Networks that find the joints of people and the landmarks of faces.

Sources: HRNet (arXiv 1908.07919; its modules are timm's), PoseNet over MobileNetV1 (rwightman/posenet-pytorch), RTMPose-m
(2303.07399).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.named_networks.aihub.blocks import Concat, Gate, Residual, conv


class HRNet(nn.Module):
    """HRNet's four branches with a head over the finest one, or over all of them, enlarged and concatenated.

    Args:
        name: Of timm's network of the same width.
        outputs: Maps that are found.
        all_branches: Whether the head reads all branches.
    """

    def __init__(self, name: str, outputs: int, *, all_branches: bool) -> None:
        super().__init__()
        import timm

        whole = timm.create_model(name)
        self.stem = nn.Sequential(whole.conv1, whole.bn1, whole.act1, whole.conv2, whole.bn2, whole.act2)
        names = ("layer1", "transition1", "stage2", "transition2", "stage3", "transition3", "stage4")
        self.parts = nn.ModuleDict({each: getattr(whole, each) for each in names})
        widths = whole.stage4_cfg["num_channels"]
        self.all_branches = all_branches
        if not all_branches:
            fused = self.parts["stage4"][-1].fuse_layers
            self.parts["stage4"][-1].fuse_layers = fused[:1]
        if all_branches:
            total = sum(widths)
            self.head = nn.Sequential(conv(total, total, 1), nn.Conv2d(total, outputs, 1))
        else:
            self.head = nn.Sequential(nn.Conv2d(widths[0], outputs, 1))

    def forward(self, image: Tensor) -> Tensor:
        parts = self.parts
        x = parts["layer1"](self.stem(image))
        maps = parts["stage2"]([each(x) for each in parts["transition1"]])
        for stage in ("3", "4"):
            transitions = parts[f"transition{int(stage) - 1}"]
            more = [each(maps[-1]) if not isinstance(each, nn.Identity) else each(maps[i]) for i, each in enumerate(transitions)]
            maps = parts[f"stage{stage}"](more)
        if not self.all_branches:
            return self.head(maps[0])
        size = maps[0].shape[2:]
        return self.head(torch.cat([maps[0], *(functional.interpolate(each, size, mode="bilinear") for each in maps[1:])], 1))


class PoseNet(nn.Module):
    """MobileNetV1 that keeps a sixteenth of the size, and four 1x1 convolutions."""

    def __init__(self, joints: int = 17, edges: int = 16) -> None:
        super().__init__()
        rows = [(32, 64, 1, 1), (64, 128, 2, 1), (128, 128, 1, 1), (128, 256, 2, 1), (256, 256, 1, 1), (256, 512, 2, 1)]
        rows += [(512, 512, 1, 1)] * 5 + [(512, 1024, 1, 1), (1024, 1024, 1, 2)]
        layers = [self._conv(3, 32, 3, 2)]
        for inputs, outputs, stride, dilation in rows:
            layers += [self._conv(inputs, inputs, 3, stride, inputs, dilation), self._conv(inputs, outputs, 1)]
        self.body = nn.Sequential(*layers)
        self.heads = nn.ModuleList(nn.Conv2d(1024, count, 1) for count in (joints, 2 * joints, 2 * edges, 2 * edges))

    @staticmethod
    def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Sequential:
        pad = dilation * (kernel // 2)
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, pad, dilation, groups), nn.ReLU6())

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x = self.body(image)
        heat, offset, forward, backward = (head(x) for head in self.heads)
        heat = heat.sigmoid()
        return heat, offset, forward, backward, functional.max_pool2d(heat, 3, 1, 1)


def _s(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return conv(inputs, outputs, kernel, stride, groups=groups, activation=nn.SiLU)


def _csp(width: int, count: int, *, shortcut: bool) -> nn.Sequential:
    """CSPNeXt's layer: 3x3, then 5x5 depthwise and 1x1, with attention over channels."""
    half = width // 2
    blocks = []
    for _ in range(count):
        body = nn.Sequential(_s(half, half, 3), _s(half, half, 5, groups=half), _s(half, half))
        blocks.append(Residual(body, None, None) if shortcut else body)
    gate = Gate(nn.Sequential(nn.Conv2d(width, width, 1), nn.Hardsigmoid()))
    return nn.Sequential(Concat(nn.Sequential(_s(width, half), *blocks), _s(width, half)), gate, _s(width, width))


def _pools(width: int) -> nn.Sequential:
    pools = (nn.MaxPool2d(size, 1, size // 2) for size in (5, 9, 13))
    return nn.Sequential(_s(width, width // 2), Concat(nn.Identity(), *pools), _s(2 * width, width))


class _GatedAttention(nn.Module):
    """A gated attention unit over the joints."""

    def __init__(self, width: int, key: int = 128) -> None:
        super().__init__()
        self.wide, self.key = 2 * width, key
        self.norm, self.leave_norm = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
        self.uv, self.leave = nn.Linear(width, 2 * self.wide + key, bias=False), nn.Linear(self.wide, width, bias=False)
        self.gamma, self.beta = nn.Parameter(torch.zeros(2, key)), nn.Parameter(torch.zeros(2, key))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = scale_norm(x, self.norm)
        u, v, base = functional.silu(self.uv(y)).split([self.wide, self.wide, self.key], -1)
        base = base.unsqueeze(2) * self.gamma + self.beta
        q, k = base.unbind(2)
        weights = (q @ k.transpose(1, 2) / self.key**0.5).relu().square()
        return x * self.scale + self.leave(u * (weights @ v))


def scale_norm(x: Tensor, gain: Tensor) -> Tensor:
    """RTMPose's normalisation by the length of a vector."""
    length = x.norm(dim=-1, keepdim=True) * x.shape[-1] ** -0.5
    return x / length.clamp(min=1e-5) * gain


class RTMPose(nn.Module):
    """RTMPose-m for images of 256x192: coordinates as classifications over half pixels."""

    def __init__(self, joints: int = 17, height: int = 256, width: int = 192) -> None:
        super().__init__()
        layers: list[nn.Module] = [_s(3, 24, 3, 2), _s(24, 24, 3), _s(24, 48, 3)]
        for inputs, outputs, count in ((48, 96, 2), (96, 192, 4), (192, 384, 4)):
            layers += [_s(inputs, outputs, 3, 2), _csp(outputs, count, shortcut=True)]
        self.body = nn.Sequential(*layers, _s(384, 768, 3, 2), _pools(768), _csp(768, 2, shortcut=False))
        self.last = nn.Conv2d(768, joints, 7, padding=3)
        self.gain, self.enter = nn.Parameter(torch.ones(1)), nn.Linear(height * width // 1024, 256, bias=False)
        self.attend = _GatedAttention(256)
        self.x, self.y = nn.Linear(256, 2 * width, bias=False), nn.Linear(256, 2 * height, bias=False)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.last(self.body(image)).flatten(2)
        x = self.attend(self.enter(scale_norm(x, self.gain)))
        return self.x(x), self.y(x)
