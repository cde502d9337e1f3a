"""Operators that optimisers and quantisers write (com.microsoft and its layouts, QONNX), in terms of plain operators.

Each has one rule, in the module of its kind; this one finds the rule of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latcast.graph.importers.assembly import Assembly
from latcast.graph.importers.onnx_attention import ATTENTION
from latcast.graph.importers.onnx_fused import FUSED
from latcast.graph.importers.onnx_layouts import LAYOUTS, channels_last
from latcast.graph.importers.onnx_quantised import QUANTISED
from latcast.graph.importers.onnx_rewritten import REWRITTEN
from latcast.graph.importers.onnx_steps import MICROSOFT, NoRuleError, Rule, Steps, refuse
from latcast.graph.ir import Node

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
