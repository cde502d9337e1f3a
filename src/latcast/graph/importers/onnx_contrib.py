"""Operators that optimisers and quantisers write (com.microsoft and its layouts, QONNX), in terms of plain operators.

Each has one rule, in the module of its kind; this one has those of operators on images in other layouts (channels last, channels
in blocks), and finds the rule of a node. ONNX Runtime writes layouts when it saves a model that it optimised for one machine. The
number of channels is rounded up to whole blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latcast.graph.importers.assembly import Assembly
from latcast.graph.importers.onnx_attention import ATTENTION
from latcast.graph.importers.onnx_fused import FUSED, end_activated, without_activation
from latcast.graph.importers.onnx_quantised import QUANTISED
from latcast.graph.importers.onnx_rewritten import REWRITTEN
from latcast.graph.importers.onnx_steps import MICROSOFT, NoRuleError, Rule, Steps, refuse, rename
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


CHANNELS_LAST = "com.ms.internal.nhwc"
"""Domain in which ONNX Runtime has any operator on images whose channels lie last."""

_SAMPLES = refuse(
    "samples tokens until it meets the last one, so it has no single latency; give the model of one step, the decoder "
    "that lies inside it"
)

RULES: Mapping[tuple[str, str], Rule] = {
    **QUANTISED,
    **FUSED,
    **ATTENTION,
    **LAYOUTS,
    **REWRITTEN,
    **{(MICROSOFT, name): _SAMPLES for name in ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")},
}
"""By domain and operator type."""


def expand(node: Node, assembly: Assembly, add: Callable[[Node], None]) -> bool:
    """Add standard operators that compute the same, or return False without a rule for this one.

    Raises:
        ModelError: It is no operator of a single latency.
    """
    rule = channels_last if node.domain == CHANNELS_LAST else RULES.get((node.domain, node.op_type))
    if rule is None:
        return False
    try:
        rule(Steps(node, assembly, add))
    except NoRuleError:
        return False
    return True
