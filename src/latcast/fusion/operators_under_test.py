"""The operators, patterns and views that detection asks about."""

from __future__ import annotations

from collections.abc import Mapping

from latcast.spaces.operator_pairs import MAP, ROWS, TOKENS, operator

OPERATORS = (
    "conv", "depthwise_conv", "relu", "batch_normalization", "relu6", "add", "hard_swish", "sigmoid", "silu", "gelu", "linear",
    "leaky_relu", "max_pool", "average_pool", "concat", "global_average_pool", "mul", "bias_add", "grouped_conv", "tanh",
    "hard_sigmoid", "clip", "p_relu", "softmax", "layer_normalization", "transpose", "matmul", "conv_transpose", "resize",
    "pad", "reduce_mean", "split", "slice",
)  # fmt: skip
"""Every ordered pair of these is a test case; those of real networks first, because a budget may end early."""

PATTERNS: Mapping[str, str] = {
    "silu": "silu",
    "gelu": "gelu",
    "hard_swish": "decomposed_hard_swish",
    "hard_sigmoid": "decomposed_hard_sigmoid",
    "mish": "mish",
    "layer_norm": "layer_norm",
    "channel_shuffle": "channel_shuffle",
    "unscaled_attention": "unscaled_attention",
}
"""Pattern of several operators (:mod:`latcast.kernels.patterns`) to the element of a chain that spells it."""

VIEWS = ("reshape", "flatten", "squeeze", "identity", "dropout")
"""Operators that may cost nothing; ``squeeze`` stands for ``unsqueeze`` too."""

SHRINKING = ("global_average_pool", "reduce_mean", "split", "slice")
"""Operators whose result has fewer elements than what they read."""

UNKNOWN_TO_TIMING = ("attention", "squeeze_excite", "scaled_matmul")
"""Patterns that are not tested: a runtime that runs one of them in one kernel has to be told so by hand."""


def forms(first: str, second: str) -> tuple[str, ...]:
    """The forms of tensors on which a pair is tested, the preferred one first; empty where they never meet.

    Maps where both work on them. A linear layer multiplies rows; where the next operator adds its bias, it multiplies
    tokens and has no bias of its own, as exporters write it. A runtime without a batch axis takes tokens for rows.
    """
    both = [form for form in (MAP, ROWS, TOKENS) if form in operator(first).forms and form in operator(second).forms]
    if MAP in both:
        return (MAP,)
    if first == "linear" and second == "bias_add":
        return (TOKENS,)
    return tuple(both)


def connectable(first: str, second: str) -> bool:
    """Whether the second can read the result of the first."""
    if first == "reduce_mean" and second == "matmul":
        return False  # a column has no square second factor
    return bool(forms(first, second))
