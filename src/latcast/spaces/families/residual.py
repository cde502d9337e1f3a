"""The residual network that ResNet, ResNeXt and SE-ResNet share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.families.stages import check_lengths


@dataclass(frozen=True)
class BlockStyle:
    """What all blocks of a residual network have in common.

    Attributes:
        kind: "basic" (two convolutions of the stage's kernel) or "bottleneck" (1x1, the stage's kernel, 1x1).
        groups: Groups of a bottleneck's middle convolution.
        squeeze: Reduction of the squeeze-and-excitation that ends the residual branch; 0 for none.
        stride_in: The convolution of a bottleneck that has the stride: "3x3" (the middle one, as torchvision and
            ResNeXt have it) or "1x1" (the first one, as in the ResNet paper).
    """

    kind: str = "bottleneck"
    groups: int = 1
    squeeze: int = 0
    stride_in: str = "3x3"


def residual_block(b: GraphBuilder, x: str, style: BlockStyle, inner: int, width: int, kernel: int, stride: int) -> str:
    """Residual branch, shortcut (projected where the shape changes), addition, ReLU."""
    if style.kind == "basic":
        y = b.conv_bn(x, inner, kernel, stride=stride)
        y = b.conv_bn(y, width, kernel, activation=None)
    elif style.kind == "bottleneck":
        first, middle = (stride, 1) if style.stride_in == "1x1" else (1, stride)
        y = b.conv_bn(x, inner, 1, stride=first)
        y = b.conv_bn(y, inner, kernel, stride=middle, groups=style.groups)
        y = b.conv_bn(y, width, 1, activation=None)
    else:
        raise ModelError(f"no residual block is called '{style.kind}'; expected 'basic' or 'bottleneck'")
    if style.squeeze:
        y = b.squeeze_excite(y, max(width // style.squeeze, 1))
    if stride != 1 or b.channels(x) != width:
        x = b.conv_bn(x, width, 1, stride=stride, activation=None)
    return b.relu(b.add(y, x))


def residual_network(
    name: str,
    style: BlockStyle,
    *,
    depths: Sequence[int],
    widths: Sequence[int],
    inner: Sequence[int],
    kernels: Sequence[int],
    stem: int,
    resolution: Size,
    classes: int,
    batch: int,
) -> Graph:
    """A 7x7 stem of stride 2, a max pooling, stages of residual blocks, average pooling, one linear layer.

    Args:
        name: The graph's name.
        style: What all blocks have in common.
        depths: Blocks in each stage; all stages but the first halve the resolution.
        widths: Output channels of each stage.
        inner: Channels inside the blocks of each stage.
        kernels: Kernel size in each stage.
        stem: Channels of the stem.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length, groups do not divide channels, or no such block.
    """
    check_lengths(name, depths=depths, widths=widths, inner=inner, kernels=kernels)
    b = GraphBuilder(name)
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 7, stride=2)
    x = b.max_pool(x, 3, 2, 1)
    for stage, (depth, width, narrow, kernel) in enumerate(zip(depths, widths, inner, kernels, strict=True)):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            x = residual_block(b, x, style, narrow, width, kernel, stride)
    x = b.flatten(b.global_average_pool(x))
    return b.finish(b.linear(x, classes))
