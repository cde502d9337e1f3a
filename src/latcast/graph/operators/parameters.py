"""Which inputs of an operator say what it does (a reshape's target), and which are learned (a filter)."""

from __future__ import annotations

from collections.abc import Mapping

from latcast.graph.operators.movement import REDUCTIONS

SEMANTIC_INPUTS: Mapping[str, frozenset[int]] = {
    **{name: frozenset({1}) for name in REDUCTIONS},
    "Clip": frozenset({1, 2}),
    "CumSum": frozenset({1}),
    "DFT": frozenset({1, 2}),
    "DequantizeLinear": frozenset({1, 2}),
    "Dropout": frozenset({1, 2}),
    "Expand": frozenset({1}),
    "NonMaxSuppression": frozenset({2, 3, 4}),
    "OneHot": frozenset({1, 2}),
    "Pad": frozenset({1, 2, 3}),
    "QuantizeLinear": frozenset({1, 2}),
    "Range": frozenset({0, 1, 2}),
    "Reshape": frozenset({1}),
    "Resize": frozenset({1, 2, 3}),
    "Slice": frozenset({1, 2, 3, 4}),
    "Split": frozenset({1}),
    "Squeeze": frozenset({1}),
    "Tile": frozenset({1}),
    "TopK": frozenset({1}),
    "Trilu": frozenset({1}),
    "Unsqueeze": frozenset({1}),
    "Upsample": frozenset({1}),
}
"""Operator to the inputs whose values decide shapes or meaning; a graph keeps these as constants."""

LEARNED_INPUTS: Mapping[str, frozenset[int]] = {
    "BatchNormalization": frozenset({1, 2, 3, 4}),
    "Conv": frozenset({1, 2}),
    "ConvInteger": frozenset({1}),
    "ConvTranspose": frozenset({1, 2}),
    "GRU": frozenset({1, 2, 3}),
    "Gather": frozenset({0}),
    "Gemm": frozenset({1, 2}),
    "GroupNormalization": frozenset({1, 2}),
    "InstanceNormalization": frozenset({1, 2}),
    "LSTM": frozenset({1, 2, 3, 7}),
    "LayerNormalization": frozenset({1, 2}),
    "MatMul": frozenset({0, 1}),
    "MatMulInteger": frozenset({0, 1}),
    "PRelu": frozenset({1}),
    "RMSNormalization": frozenset({1}),
    "RNN": frozenset({1, 2, 3}),
}
"""Operator to the inputs that are weights even where they are small or made of integers."""
