"""Numbers of ncnn's ``.param`` files that reading and writing share."""

from __future__ import annotations

from latcast.graph.operators import Kind, operators

MAGIC = 7767517
"""First line of a file."""

ARRAY_KEY = -23300
"""The key of an array parameter is this minus the parameter's number."""

UNARY_OPS = {row.op_type: row.ncnn for row in operators(Kind.UNARY) if isinstance(row.ncnn, int)}
"""Operator to parameter 0 of ncnn's UnaryOp."""

OWN_LAYERS = {row.op_type: (row.ncnn, row.attributes) for row in operators(Kind.UNARY) if isinstance(row.ncnn, str)}
"""Operator to its layer, and to the layer's parameters in order, with ONNX's defaults."""

BINARY_OPS = {row.op_type: row.ncnn for row in operators(Kind.BINARY) if isinstance(row.ncnn, tuple)}
"""Operator to parameter 0 of ncnn's BinaryOp, and the one with the operands exchanged."""

REDUCTIONS = {row.op_type: row.ncnn for row in operators(Kind.REDUCTION) if isinstance(row.ncnn, int)}
"""Operator to parameter 0 of ncnn's Reduction."""
