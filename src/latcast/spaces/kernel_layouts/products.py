"""Matrix products and attention: their fields are independent as they are."""

from __future__ import annotations

from collections.abc import Mapping

from latcast.spaces.kernel_layouts.layout import TOKENS, Layout, Span, each, square

_HEADS = (1, 3, 4, 6, 8, 12, 16)

LAYOUTS: Mapping[str, Layout] = {
    "linear": Layout(
        (each("rows", (1, *TOKENS)),), (Span("in_features", 8, 4096), Span("out_features", 8, 4096)), {}, dict, dict
    ),
    "matmul": Layout(
        (each("batch", _HEADS), each("rows", TOKENS)), (Span("inner", 8, 512), Span("columns", 8, 512)), {}, dict, dict
    ),
    "einsum": Layout(
        (each("batch", _HEADS), each("rows", TOKENS)), (Span("inner", 8, 512), Span("columns", 8, 512)), {}, dict, dict
    ),
    "linear_attention": Layout(
        (each("key_heads", _HEADS), each("tokens", (1, *TOKENS)), each("sharing", (1, 4)), each("rule", (0, 1, 2, 3))),
        (Span("key_size", 8, 128), Span("value_size", 8, 128)),
        {},
        dict,
        dict,
    ),
    "attention": Layout(
        (each("batch_heads", _HEADS), square(TOKENS, "queries", "keys")),
        (Span("head_size", 8, 128),),
        {"sharing_heads": 0},
        dict,
        dict,
    ),
}
