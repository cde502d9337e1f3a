"""Operators on images in other layouts (channels last, channels in blocks), in terms of plain operators.

ONNX Runtime writes them when it saves a model that it
optimised for one machine. The number of channels is rounded up to whole blocks.
"""

from __future__ import annotations

from collections.abc import Mapping

from latcast.graph.importers.onnx_fused import end_activated, without_activation
from latcast.graph.importers.onnx_steps import MICROSOFT, Rule, Steps, rename
from latcast.graph.ir import Node


def _nhwc_conv(build: Steps) -> None:
    """Add a convolution of channels that lie last, with its weight as ONNX has it (NhwcConv, NhwcFusedConv)."""
    image, added = (build.channels_first(name) if name else "" for name in (build.input(0), build.input(3)))
    x = build("Conv", image, build.input(1), build.input(2), **without_activation(build))
    build.give(0, build.channels_last(build.activation(build.node.text("activation"), build.plus(x, added))))


def channels_last(build: Steps) -> None:
    """Add any operator on images between two transposes."""
    node, x = build.node, build.channels_first(build.input(0))
    op_type, made = node.op_type.removeprefix("Nhwc"), build.assembly.fresh(f"{node.op_type}_first")
    build.add(Node(op_type, node.name, (x, *node.inputs[1:]), (made,), node.attributes))
    build.give(0, build.channels_last(made))


def _blocked_conv(build: Steps) -> None:
    x, weight = build.node.inputs[:2]
    wanted, have = build.shape(weight)[1] * build.node.integer("group", 1), build.shape(x)[1]
    if wanted > have:
        rest = (0,) * (len(build.shape(x)) - 2)
        x = build("Pad", x, build.integers(0, 0, *rest, 0, wanted - have, *rest))
    y = build("Conv", x, weight, build.input(2), **without_activation(build))
    end_activated(build, build.plus(y, build.input(3)))


def _blocked(build: Steps) -> None:
    """Give the image itself: the copy into blocks of channels is the start of a convolution's kernel."""
    x = build.input(0)
    build.give(0, build.channels_first(x) if build.node.integer("channels_last") else x)


def _unblocked(build: Steps) -> None:
    """Add the copy out of blocks, without the channels that were added."""
    x, channels = build.input(0), build.node.integer("channels")
    if channels and channels != build.shape(x)[1]:
        x = build("Slice", x, *map(build.integers, (0, channels, 1)))
    build.give(0, build.channels_last(x) if build.node.integer("channels_last") else x)


def _blocked_upsample(build: Steps) -> None:
    x = build.input(0)
    factors = build.node.integers("scales", (1, 1, 1, 1))
    sizes = [size * factor for size, factor in zip(build.shape(x), factors, strict=True)]
    build.end("Resize", x, "", "", build.integers(*sizes), mode=build.node.text("mode", "nearest"))


_IN_BLOCKS = "com.microsoft.nchwc"

LAYOUTS: Mapping[tuple[str, str], Rule] = {
    (MICROSOFT, "NhwcConv"): _nhwc_conv,
    (MICROSOFT, "NhwcFusedConv"): _nhwc_conv,
    (MICROSOFT, "NhwcMaxPool"): channels_last,
    (_IN_BLOCKS, "AveragePool"): rename("AveragePool"),
    (_IN_BLOCKS, "Conv"): _blocked_conv,
    (_IN_BLOCKS, "GlobalAveragePool"): rename("GlobalAveragePool"),
    (_IN_BLOCKS, "GlobalMaxPool"): rename("GlobalMaxPool"),
    (_IN_BLOCKS, "MaxPool"): rename("MaxPool"),
    (_IN_BLOCKS, "ReorderInput"): _blocked,
    (_IN_BLOCKS, "ReorderOutput"): _unblocked,
    (_IN_BLOCKS, "Upsample"): _blocked_upsample,
}
