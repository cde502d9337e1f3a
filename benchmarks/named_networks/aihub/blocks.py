"""Blocks that several networks share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Activation = Callable[[], nn.Module]


def conv(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    stride: int = 1,
    *,
    groups: int = 1,
    dilation: int = 1,
    activation: Activation | None = nn.ReLU,
    padding: int | None = None,
) -> nn.Sequential:
    """A convolution that keeps the size at stride 1, batch normalisation, and an activation."""
    pad = dilation * (kernel // 2) if padding is None else padding
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, pad, dilation, groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """activation(body(x) + shortcut(x))."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, activation: Activation | None = nn.ReLU) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut or nn.Identity()
        self.activation = activation() if activation else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.body(x) + self.shortcut(x))


class Gate(nn.Module):
    """x times what ``body`` makes of its mean over the image."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x * self.body(x.mean((2, 3), keepdim=True))


class Concat(nn.Module):
    """Results of several branches, concatenated."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def basic_block(inputs: int, outputs: int, stride: int = 1, *, last: Activation | None = nn.ReLU) -> Residual:
    """ResNet's block of two 3x3 convolutions."""
    body = nn.Sequential(conv(inputs, outputs, 3, stride), conv(outputs, outputs, 3, activation=None))
    same = stride == 1 and inputs == outputs
    return Residual(body, None if same else conv(inputs, outputs, 1, stride, activation=None), last)


def bottleneck(inputs: int, width: int, stride: int = 1, *, expansion: int = 4, last: Activation | None = nn.ReLU) -> Residual:
    """ResNet's block of a 3x3 convolution between two 1x1, the stride in the 3x3."""
    outputs = expansion * width
    body = nn.Sequential(conv(inputs, width, 1), conv(width, width, 3, stride), conv(width, outputs, 1, activation=None))
    same = stride == 1 and inputs == outputs
    return Residual(body, None if same else conv(inputs, outputs, 1, stride, activation=None), last)


def basic_stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    """Basic blocks, the first of which changes the sizes."""
    return nn.Sequential(basic_block(inputs, outputs, stride), *(basic_block(outputs, outputs) for _ in range(blocks - 1)))
